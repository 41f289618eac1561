//! Tests that no input from the network causes a panic or unbounded growth.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use bytes::Bytes;
use hospes_model::message::{self, Frame};
use hospes_model::{JsonRpcMessage, Method, RawJson};
use hospes_proto::frame::{LineFramer, SseDecoder};
use hospes_proto::http::{
    AcceptedMedia, AdmissionRules, AllowedHosts, AllowedOrigins, HeaderParams, RoutingFields, SessionId,
    decode_value,
};
use hospes_proto::request_state::RequestDigest;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

fn header_value() -> impl Strategy<Value = HeaderValue> {
    let texts = prop_oneof![
        "application/json|text/event-stream|2026-07-28|2025-11-25|localhost|http://\\[::1|tools/call|null|=\\?base64\\?",
        "[ -~]{0,40}",
        "[a-z/*;=,q0. \"\\\\]{0,40}",
        "[a-z\\[\\]:@.0-9/]{0,30}",
    ];
    prop_oneof![
        texts.prop_map(|text| HeaderValue::from_str(&text).unwrap()),
        proptest::collection::vec(0x80u8..=0xff, 0..20)
            .prop_map(|bytes| HeaderValue::from_bytes(&bytes).unwrap()),
    ]
}

fn header_name() -> impl Strategy<Value = HeaderName> {
    const NAMES: &[&str] = &[
        "host",
        "origin",
        "accept",
        "content-type",
        "content-length",
        "mcp-protocol-version",
        "mcp-session-id",
        "mcp-method",
        "mcp-name",
        "last-event-id",
        "mcp-param-a",
        "x-other",
    ];
    proptest::sample::select(NAMES).prop_map(HeaderName::from_static)
}

/// JSON that is like a message or a schema, and JSON that is not.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        "-?[0-9]{1,20}(\\.[0-9]{1,3})?(e[0-9]{1,3})?"
            .prop_filter("a number", |n| serde_json::from_str::<f64>(n).is_ok()),
        "(string|integer|tools/call|2026-07-28|[a-z é\\\\\"]{0,9})"
            .prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    let key = proptest::sample::select(
        &[
            "jsonrpc",
            "id",
            "method",
            "params",
            "result",
            "error",
            "_meta",
            "name",
            "uri",
            "type",
            "properties",
            "items",
            "x-mcp-header",
            "anyOf",
            "io.modelcontextprotocol/protocolVersion",
            "io.modelcontextprotocol/clientCapabilities",
            "\u{e9}",
            "a\\\"b",
        ][..],
    );
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec((key.clone(), inner), 0..6).prop_map(|members| {
                let members: Vec<_> =
                    members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_headers_and_body_are_admitted_or_rejected(
        headers in proptest::collection::vec((header_name(), header_value()), 0..12),
        body in json(),
        verb in proptest::sample::select(&[http::Method::POST, http::Method::GET, http::Method::DELETE][..]),
    ) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value);
        }
        let rules = AdmissionRules::default();
        for value in map.values() {
            let _ = (AcceptedMedia::read([value]), SessionId::read(value), decode_value(value));
        }
        if let Ok(head) = rules.admit(&verb, None, &map)
            && let Ok(Frame::Single(message)) = message::decode(body.as_bytes())
        {
            let facts = match &message {
                JsonRpcMessage::Request(request) => RoutingFields::from_params(&Method::from_name(&request.method), request.params),
                JsonRpcMessage::Notification(note) => RoutingFields::from_params(&Method::from_name(&note.method), note.params),
                JsonRpcMessage::Response(_) => RoutingFields::default(),
            };
            if let Err(rejection) = rules.route(&head, &message, &facts) {
                prop_assert!(rejection.status.is_client_error());
                let mut out = Vec::new();
                rejection.write_body(&mut out);
                prop_assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok());
            }
        }
    }

    #[test]
    fn any_json_is_read_as_params_or_a_schema(text in json()) {
        let raw = RawJson::parse(text.clone()).unwrap();
        let _ = RequestDigest::of("tools/call", text.as_bytes());
        let value: Box<serde_json::value::RawValue> = raw.decode().unwrap();
        let facts = RoutingFields::from_params(&Method::ToolsCall, Some(&value));
        let _ = facts.check(hospes_proto::RevisionSet::ALL);
        if let Ok(mirror) = HeaderParams::from_schema(&raw) {
            let mut headers = HeaderMap::new();
            mirror.add_headers(Some(&value), &mut headers);
            // What we send is what we accept.
            prop_assert!(mirror.check(Some(&value), &headers).is_ok());
        }
    }

    #[test]
    fn any_bytes_are_framed(bytes: Vec<u8>, text in "[\\{\\}\\[\\]\",:a-z0-9 \r\n\\\\]{0,300}", limit in 0usize..64) {
        for input in [&bytes[..], text.as_bytes()] {
            let mut framer = LineFramer::new(limit);
            let mut decoder = SseDecoder::new(limit);
            for piece in input.chunks(11) {
                framer.buffer().extend_from_slice(piece);
                while framer.poll_line().is_some() {}
                let mut piece = Bytes::copy_from_slice(piece);
                while decoder.poll_event(&mut piece).is_some() {}
            }
            framer.finish();
        }
    }

    #[test]
    fn any_text_is_a_host_or_not(text: String, pattern: String) {
        let _ = (AllowedHosts::loopback().allow(&pattern).allows(&text), AllowedHosts::default().allows(&text));
        let _ = (AllowedOrigins::none().allow(&pattern).allows(&text), AllowedOrigins::default().allows(&text));
    }
}

#[test]
fn deep_nesting_overflows_no_stack() {
    for (open, close) in [("[", "]"), ("{\"properties\":", "}"), ("{\"_meta\":", "}")] {
        let text = format!("{}1{}", open.repeat(200_000), close.repeat(200_000));
        let raw = RawJson::parse(text).unwrap();
        let value: Box<serde_json::value::RawValue> = raw.decode().unwrap();
        let _ = RoutingFields::from_params(&Method::ToolsCall, Some(&value));
        let _ = HeaderParams::from_schema(&raw);
        let _ = RequestDigest::of("m", raw.as_bytes());
    }
}
