//! Sender of a forwarded request, as the node that received it has found out.
//!
//! The context is signed with a key that only the two ends of one connection have: it is derived from the secret of the
//! fleet and from the connection's own keying material (RFC 5705). So a context is worth nothing on another connection,
//! and neither clocks nor a list of used contexts are needed.

use std::time::Duration;

use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hospes::transport::http_server::{CallerLabel, Principal, PrincipalGroups, StreamDeadline};
use hospes_fleet::node::NodeId;
use hospes_telemetry::TraceContext;
use http::HeaderValue;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::certificates::FleetSecrets;

/// Header of the context.
pub(crate) const CALLER: &str = "hospes-caller";
/// Label of the connection's keying material.
pub(crate) const EXPORTER_LABEL: &[u8] = b"EXPORTER-hospes-node-caller";
/// Longest context, in bytes. Providers send groups in responses of at most 64 KiB.
const MAX_CONTEXT_BYTES: usize = 112 * 1024;

/// Sender of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CallerContext {
    v: u32,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    caller: Option<String>,
    /// Time for which the sender may listen, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    listens_ms: Option<u64>,
    /// Server to which a stream is opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    /// Span in which the request is forwarded, and its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<(String, Option<String>)>,
}

impl CallerContext {
    /// Reads who sends a request from its extensions.
    pub(crate) fn of(parts: &Parts, from: NodeId, to: NodeId) -> Self {
        let extensions = &parts.extensions;
        let left = extensions.get::<StreamDeadline>().map(|StreamDeadline(end)| {
            u64::try_from(end.saturating_duration_since(Instant::now()).as_millis()).unwrap_or(u64::MAX)
        });
        Self {
            v: 1,
            from,
            to,
            principal: extensions.get::<Principal>().map(|principal| principal.as_str().to_owned()),
            groups: extensions
                .get::<PrincipalGroups>()
                .map(|groups| groups.names().to_vec())
                .unwrap_or_default(),
            caller: extensions.get::<CallerLabel>().map(|caller| caller.as_str().to_owned()),
            listens_ms: left,
            server: None,
            trace: extensions
                .get::<TraceContext>()
                .map(|trace| (trace.traceparent(), trace.tracestate().map(str::to_owned))),
        }
    }

    /// Puts it into the extensions of the request that was received.
    pub(crate) fn apply(self, parts: &mut Parts) {
        let extensions = &mut parts.extensions;
        if let Some(principal) = self.principal {
            extensions.insert(Principal::new(principal));
        }
        if !self.groups.is_empty() {
            extensions.insert(PrincipalGroups::new(self.groups));
        }
        if let Some(caller) = self.caller {
            extensions.insert(CallerLabel::new(caller));
        }
        let trace = self.trace.and_then(|(parent, state)| TraceContext::parse(&parent, state.as_deref()));
        if let Some(trace) = trace {
            extensions.insert(trace);
        }
        if let Some(end) =
            self.listens_ms.and_then(|left| Instant::now().checked_add(Duration::from_millis(left)))
        {
            extensions.insert(StreamDeadline(end));
        }
    }
}

/// Keys of one connection, one for each secret of the fleet.
#[derive(Debug)]
pub(crate) struct ContextKeys(Vec<hmac::Key>);

impl ContextKeys {
    /// Derives the keys of a connection from its keying material.
    pub(crate) fn new(secrets: &FleetSecrets, exported: &Zeroizing<[u8; 32]>) -> Self {
        let keys = secrets.derive(&**exported, b"hospes node caller");
        Self(keys.iter().map(|key| hmac::Key::new(hmac::HMAC_SHA256, &**key)).collect())
    }

    /// Signs a context for a request.
    pub(crate) fn sign(&self, context: &CallerContext, parts: &Parts, body: &[u8]) -> Option<HeaderValue> {
        let text = serde_json::to_vec(context).ok()?;
        let tag = hmac::sign(self.0.first()?, &signed_text(&text, parts, body));
        let (text, tag) = (URL_SAFE_NO_PAD.encode(text), URL_SAFE_NO_PAD.encode(tag));
        let mut value = HeaderValue::from_str(&format!("{text}.{tag}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Reads the context of a request; `None` unless the other end of this connection has signed it.
    pub(crate) fn open(&self, parts: &Parts, body: &[u8]) -> Option<CallerContext> {
        let mut values = parts.headers.get_all(CALLER).iter();
        let value = values.next().filter(|value| value.len() <= MAX_CONTEXT_BYTES)?;
        let (text, tag) = value.to_str().ok().filter(|_| values.next().is_none())?.split_once('.')?;
        let (text, tag) = (URL_SAFE_NO_PAD.decode(text).ok()?, URL_SAFE_NO_PAD.decode(tag).ok()?);
        let signed = signed_text(&text, parts, body);
        self.0.iter().find(|key| hmac::verify(key, &signed, &tag).is_ok())?;
        let context: CallerContext = serde_json::from_slice(&text).ok()?;
        (context.v == 1).then_some(context)
    }
}

/// The text that is signed: the context, the method, the target and the digest of the body, each with its length.
fn signed_text(context: &[u8], parts: &Parts, body: &[u8]) -> Vec<u8> {
    let target = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let body = digest::digest(&digest::SHA256, body);
    let mut text = Vec::new();
    for part in [context, parts.method.as_str().as_bytes(), target.as_bytes(), body.as_ref()] {
        text.extend_from_slice(&(part.len() as u64).to_be_bytes());
        text.extend_from_slice(part);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(method: &str, target: &str) -> Parts {
        http::Request::builder().method(method).uri(target).body(()).unwrap().into_parts().0
    }

    fn keys(secret: u8, exported: u8) -> ContextKeys {
        ContextKeys::new(&FleetSecrets::new([[secret; 32]]).unwrap(), &Zeroizing::new([exported; 32]))
    }

    #[test]
    fn a_context_is_worth_something_for_its_request_and_connection_alone() {
        let (from, to) = (NodeId::random(), NodeId::random());
        let mut sent = parts("POST", "/mcp?x=1");
        sent.extensions.insert(Principal::new("ada"));
        // As many and as long as a provider can send.
        let groups: Vec<String> = (0..1000).map(|number| format!("{number:060}")).collect();
        sent.extensions.insert(PrincipalGroups::new(groups.clone()));
        sent.extensions.insert(CallerLabel::new("node, process 1"));
        let trace = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
        sent.extensions.insert(TraceContext::parse(trace, Some("a=1")).unwrap());
        sent.extensions.insert(StreamDeadline(Instant::now() + Duration::from_secs(60)));
        let signed = keys(1, 2).sign(&CallerContext::of(&sent, from, to), &sent, b"body").unwrap();
        let received = |method: &str, target: &str| {
            let mut parts = parts(method, target);
            parts.headers.insert(CALLER, signed.clone());
            parts
        };
        let mut same = received("POST", "/mcp?x=1");
        let context = keys(1, 2).open(&same, b"body").unwrap();
        assert_eq!((context.from, context.to), (from, to));
        context.apply(&mut same);
        assert_eq!(same.extensions.get::<Principal>(), Some(&Principal::new("ada")));
        assert_eq!(same.extensions.get::<PrincipalGroups>(), Some(&PrincipalGroups::new(groups)));
        assert_eq!(same.extensions.get::<CallerLabel>().unwrap().as_str(), "node, process 1");
        let passed = same.extensions.get::<TraceContext>().unwrap();
        assert_eq!((passed.traceparent().as_str(), passed.tracestate()), (trace, Some("a=1")));
        let StreamDeadline(end) = *same.extensions.get().unwrap();
        let left = end.saturating_duration_since(Instant::now());
        assert!(left > Duration::from_secs(50) && left <= Duration::from_secs(60), "{left:?}");
        for (keys, parts, body) in [
            (keys(3, 2), received("POST", "/mcp?x=1"), &b"body"[..]),
            (keys(1, 3), received("POST", "/mcp?x=1"), b"body"),
            (keys(1, 2), received("GET", "/mcp?x=1"), b"body"),
            (keys(1, 2), received("POST", "/mcp?x=2"), b"body"),
            (keys(1, 2), received("POST", "/mcp?x=1"), b"bodies"),
            (keys(1, 2), parts("POST", "/mcp?x=1"), b"body"),
        ] {
            assert!(keys.open(&parts, body).is_none(), "{parts:?}");
        }
        // Neither one of two contexts, nor one that was changed.
        let mut twice = received("POST", "/mcp?x=1");
        twice.headers.append(CALLER, signed.clone());
        assert!(keys(1, 2).open(&twice, b"body").is_none());
        let text = signed.to_str().unwrap();
        for changed in [format!("A{}", &text[1..]), text.replace('.', ""), format!("{text}A"), String::new()]
        {
            let mut parts = parts("POST", "/mcp?x=1");
            parts.headers.insert(CALLER, changed.parse().unwrap());
            assert!(keys(1, 2).open(&parts, b"body").is_none(), "{changed}");
        }
    }

    /// While a secret is rotated, nodes have the same two in another order.
    #[test]
    fn each_of_two_secrets_opens_what_the_other_order_signed() {
        let pair = |one: u8, two: u8| {
            let secrets = FleetSecrets::new([[one; 32], [two; 32]]).unwrap();
            ContextKeys::new(&secrets, &Zeroizing::new([9; 32]))
        };
        let mut parts = parts("POST", "/mcp");
        let context = CallerContext::of(&parts, NodeId::random(), NodeId::random());
        let signed = pair(1, 2).sign(&context, &parts, b"").unwrap();
        parts.headers.insert(CALLER, signed);
        assert!(pair(2, 1).open(&parts, b"").is_some());
        assert!(pair(3, 1).open(&parts, b"").is_some());
        assert!(pair(2, 3).open(&parts, b"").is_none());
    }
}
