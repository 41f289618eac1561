//! Limits on a server's output and memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hospes_model::{
    CancelledParams, LogMessageParams, Method, Notification, ProgressParams, ProgressToken, RequestId,
};

use super::*;
use crate::{Call, Outcome, Service};

/// A service that says all it can in every call, and in streams of changes too.
struct Talker(Server);

fn talk(context: &Context) {
    let token = context.progress_token().cloned().unwrap_or_else(|| ProgressToken::from("t"));
    context.notify(Notification::Progress(ProgressParams::new(token, 1.0)));
    context.notify(Notification::LogMessage(LogMessageParams::new(
        LoggingLevel::Emergency,
        json!("fire").into(),
    )));
    for id in [1, 2, 3] {
        let mut cancelled = CancelledParams::new();
        cancelled.request_id = Some(RequestId::from(id));
        context.notify(Notification::Cancelled(cancelled));
    }
    context.notify(Notification::Initialized);
    context.notify(Notification::RootsListChanged);
}

impl Service for Talker {
    async fn call(&self, call: Call) -> Outcome {
        talk(&call.context);
        if call.method == Method::SubscriptionsListen {
            let context = call.context.clone();
            let (again, talking) = (
                async move {
                    tokio::task::yield_now().await;
                    talk(&context);
                    std::future::pending::<Outcome>().await
                },
                self.0.call(call),
            );
            return tokio::select! { outcome = again => outcome, outcome = talking => outcome };
        }
        self.0.call(call).await
    }
}

/// A request that wants to hear of everything.
fn curious(id: u32, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({ "progressToken": "t", "io.modelcontextprotocol/logLevel": "debug" });
    modern(id, method, params)
}

/// covers: SUBS-10 CANC-16
#[tokio::test(start_paused = true)]
async fn a_stream_of_changes_has_no_progress_and_nothing_is_cancelled_by_the_server() {
    let server = Server::new("x", "1").tool("t", || async { "t" });
    let handle = server.handle();
    let mut peer = Peer::of(StdioServer::new(Talker(server)));
    peer.send(curious(1, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })))
        .await;
    assert_eq!(peer.read().await["method"], "notifications/subscriptions/acknowledged");
    handle.add_tool("u", || async {}).unwrap();
    assert_eq!(peer.read().await["method"], "notifications/tools/list_changed");
    // In a call both are heard, and no more than both.
    peer.send(curious(2, "tools/call", json!({ "name": "t" }))).await;
    let (said, answer) = until_answer(&mut peer).await;
    assert_eq!((text(&answer), &answer["id"]), ("t", &json!(2)));
    let said: Vec<_> = said.iter().map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(said, ["notifications/progress", "notifications/message"]);
    // A stream that the server ends is answered (SUBS-08), not cancelled.
    handle.end_subscriptions();
    let ended = peer.read().await;
    assert_eq!((&ended["id"], &ended["result"]["resultType"]), (&json!(1), &json!("complete")));
    peer.silence_modern().await;
}

/// Nothing but what a client sends along tells the server what went before.
///
/// covers: STLS-05
#[tokio::test]
async fn what_went_before_is_known_by_what_the_client_sends_along() {
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = begun.clone();
    let server = Server::new("x", "1").tool("greet", move |ctx: Context| {
        let begun = counted.clone();
        async move {
            begun.fetch_add(1, Ordering::Relaxed);
            let name: String = ctx.elicit("Who?").key("name").field("name").await?;
            let age: u8 = ctx.elicit("How old?").key("age").field("age").await?;
            Ok::<_, crate::Error>(format!("{name} is {age}"))
        }
    });
    let capable = |id, params| able(id, params, json!({ "elicitation": {} }));
    let (mut first, mut second) = (peer(&server), peer(&server));
    let asked = ask(&mut first, capable(1, json!({ "name": "greet" }))).await["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    // The answer alone, on the very connection, under the very id: nobody knows what it answers, and the state that
    // comes back leads no further than the question.
    for message in [capable(1, json!({ "name": "greet" })), capable(2, json!({ "name": "greet" }))] {
        let again = ask(&mut first, message).await["result"].clone();
        assert_eq!(again["resultType"], "input_required");
        assert_ne!(again["requestState"], asked["requestState"]);
    }
    // With the state it is known anywhere that serves the same keys.
    let answers = |state: &Value, key: &str, value: Value| {
        let accepted = json!({ key: { "action": "accept", "content": { key: value } } });
        json!({ "name": "greet", "requestState": state, "inputResponses": accepted })
    };
    let params = answers(&asked["requestState"], "name", json!("Ada"));
    let asked = ask(&mut first, capable(3, params.clone())).await["result"].clone();
    assert_eq!(asked["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["age"]);
    assert!(ask(&mut second, capable(3, params)).await["error"].is_object(), "it has keys of its own");
    let last = answers(&asked["requestState"], "age", json!(36));
    assert_eq!(text(&ask(&mut first, capable(4, last)).await), "Ada is 36");
    let keys = hospes_proto::request_state::StateKeyRing::single(
        hospes_proto::request_state::StateKey::from_bytes([7; 32]),
    );
    let twin = || Peer::of(StdioServer::new(server.clone()).state_keys(keys.clone()));
    let asked = ask(&mut twin(), capable(1, json!({ "name": "greet" }))).await["result"].clone();
    let params = answers(&asked["requestState"], "name", json!("Ada"));
    let asked = ask(&mut twin(), capable(9, params)).await["result"].clone();
    let last = answers(&asked["requestState"], "age", json!(36));
    assert_eq!(text(&ask(&mut twin(), capable(1, last)).await), "Ada is 36");
    assert!(begun.load(Ordering::Relaxed) >= 8);
}
