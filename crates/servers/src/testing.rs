//! Calls without a transport, for the tests of the servers.

use std::sync::Arc;

use hospes::model::{ClientCapabilities, Method, Reply, Revision, ServerStamp};
use hospes::prelude::*;
use hospes::{Peer, Server};
use serde_json::Value;

pub(crate) async fn outcome(server: &Server, method: &Method, params: Value) -> Outcome {
    let peer = Peer::new(Revision::LATEST, None, ClientCapabilities::new());
    server.call(Call::new(method.clone(), params.into(), Context::new(Arc::new(peer)))).await
}

pub(crate) fn json_of(reply: &Reply, method: &Method) -> Value {
    let mut out = Vec::new();
    reply.encode(method, Revision::LATEST, &ServerStamp::anonymous(), &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

pub(crate) async fn result(server: &Server, method: Method, params: Value) -> Value {
    match outcome(server, &method, params).await {
        Outcome::Complete(reply) => json_of(&reply, &method),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn call(server: &Server, tool: &str, arguments: Value) -> Value {
    result(server, Method::ToolsCall, json!({ "name": tool, "arguments": arguments })).await
}

/// Returns the structured content of a tool's result.
pub(crate) async fn done(server: &Server, tool: &str, arguments: Value) -> Value {
    let result = call(server, tool, arguments.clone()).await;
    assert_eq!(result.get("isError"), None, "{tool} {arguments}: {result}");
    result["structuredContent"].clone()
}

/// Returns the text of a tool's result.
pub(crate) async fn text(server: &Server, tool: &str, arguments: Value) -> String {
    let result = call(server, tool, arguments.clone()).await;
    assert_eq!(result.get("isError"), None, "{tool} {arguments}: {result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Returns the error text of a tool's result.
pub(crate) async fn refusal(server: &Server, tool: &str, arguments: Value) -> String {
    let result = call(server, tool, arguments.clone()).await;
    assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Checks that every tool has the descriptions that a model needs.
pub(crate) async fn is_well_described(server: &Server) {
    let listed = result(server, Method::ToolsList, json!({})).await;
    for tool in listed["tools"].as_array().unwrap() {
        for member in ["title", "description"] {
            assert!(tool[member].as_str().is_some_and(|text| !text.is_empty()), "{member} of {tool}");
        }
        let hints = &tool["annotations"];
        assert!(hints["openWorldHint"].is_boolean(), "{tool}");
        // A tool that changes data declares if it is destructive.
        assert!(hints["readOnlyHint"] == true || hints["destructiveHint"].is_boolean(), "{tool}");
    }
}

/// Calls a tool as a client with these roots. Used by tests that exist on Unix alone.
#[cfg(unix)]
pub(crate) async fn within(server: &Server, params: &Value, roots: &[String]) -> Value {
    let method = Method::ToolsCall;
    let capabilities = ClientCapabilities::new().with_roots(hospes::model::RootsCapability::new());
    let peer = Arc::new(Peer::new(Revision::LATEST, None, capabilities));
    let call = |round| {
        let context = Context::builder(Arc::clone(&peer)).round(round).build();
        server.call(Call::new(method.clone(), params.clone().into(), context))
    };
    let Outcome::InputRequired(questions) = call(hospes::Round::default()).await else {
        panic!("it does not ask")
    };
    let roots: Vec<Value> = roots.iter().map(|uri| json!({ "uri": uri })).collect();
    let answer = (questions.requests[0].0.clone(), json!({ "roots": roots }).into());
    let mut round = questions.round;
    round.record_answers([answer]);
    match call(round).await {
        Outcome::Complete(reply) => json_of(&reply, &method),
        other => panic!("{other:?}"),
    }
}

/// A running `subscriptions/listen`.
pub(crate) struct ListenStream(hospes::Exchange);

impl ListenStream {
    pub(crate) fn open(server: &Server, filter: &Value) -> Self {
        let peer = Arc::new(Peer::new(Revision::LATEST, None, ClientCapabilities::new()));
        let params = RawJson::from(json!({ "notifications": filter }));
        let call = Call::new(Method::SubscriptionsListen, params, Context::new(peer));
        Self(hospes::Exchange::new(hospes::BoxService::new(server.clone()), call))
    }

    /// Returns the next notification.
    pub(crate) async fn next(&mut self) -> hospes::model::Notification {
        let event = std::future::poll_fn(|cx| std::pin::Pin::new(&mut self.0).poll_event(cx)).await;
        match event {
            hospes::ExchangeEvent::Notify(notification) => notification,
            other => panic!("{other:?}"),
        }
    }
}
