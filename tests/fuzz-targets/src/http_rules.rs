//! Headers and bodies: admitted or rejected, by pure functions.

use hospes_model::message::{self, Frame};
use hospes_model::{JsonRpcMessage, Method, RawJson};
use hospes_proto::http::{
    AcceptedMedia, AdmissionRules, AllowedHosts, AllowedOrigins, HeaderParams, RoutingFields, SessionId,
    decode_value,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;

use crate::split_at_marker;

/// Headers as they stand in a request: lines of `name: value`.
pub(crate) fn headers(text: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in text.split(|byte| *byte == b'\n').take(100) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    headers
}

/// Checks that a request with any headers and any body is admitted, or rejected with a client error and a JSON body.
pub(crate) fn head(data: &[u8]) {
    let (head, body) = split_at_marker(data);
    let headers = headers(head);
    for value in headers.values() {
        let _ = (AcceptedMedia::read([value]), SessionId::read(value), decode_value(value));
        if let Ok(text) = value.to_str() {
            let _ = AllowedHosts::loopback().allow(text).allows(text);
            let _ = AllowedOrigins::none().allow(text).allows(text);
            assert!(!AllowedHosts::default().allows("evil.example"));
        }
    }
    let rules = AdmissionRules::default();
    for verb in [http::Method::POST, http::Method::GET, http::Method::DELETE] {
        let rejection = match rules.admit(&verb, None, &headers) {
            Err(rejection) => rejection,
            Ok(head) => {
                let Ok(Frame::Single(message)) = message::decode(body) else { continue };
                let facts = match &message {
                    JsonRpcMessage::Request(request) => {
                        RoutingFields::from_params(&Method::from_name(&request.method), request.params)
                    }
                    JsonRpcMessage::Notification(note) => {
                        RoutingFields::from_params(&Method::from_name(&note.method), note.params)
                    }
                    JsonRpcMessage::Response(_) => RoutingFields::default(),
                };
                match rules.route(&head, &message, &facts) {
                    Err(rejection) => rejection,
                    Ok(_) => continue,
                }
            }
        };
        assert!(rejection.status.is_client_error(), "{}", rejection.status);
        let mut out = Vec::new();
        rejection.write_body(&mut out);
        assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok());
    }
}

/// Checks that parameters repeated in headers by this client are accepted by this server.
pub(crate) fn mirrored(data: &[u8]) {
    let (schema, rest) = split_at_marker(data);
    let (arguments, head) = split_at_marker(rest);
    let Ok(mirror) = RawJson::parse(schema.to_vec())
        .map_err(drop)
        .and_then(|raw| HeaderParams::from_schema(&raw).map_err(drop))
    else {
        return;
    };
    let arguments = serde_json::from_slice::<&RawValue>(arguments).ok();
    let _ = mirror.check(arguments, &headers(head));
    let mut headers = HeaderMap::new();
    mirror.add_headers(arguments, &mut headers);
    assert!(mirror.check(arguments, &headers).is_ok(), "{headers:?}");
}
