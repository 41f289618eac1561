//! A client as a service: calls, questions, changes and ends that pass through it, as a gateway needs them.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use hospes::client::{Client, ClientBuilder, CommandTarget, Target};
use hospes::model::{
    CallToolResult, ClientCapabilities, ElicitationCapability, Era, LoggingLevel, Method, Notification,
    RawJson, Reply, Revision, RootsCapability,
};
use hospes::{
    BoxService, Call, Context, Exchange, ExchangeEvent, Outcome, Peer, PendingInput, Round, Service,
};
use serde_json::{Value, json};

fn scripted(behaviours: &[&str]) -> CommandTarget {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/client/scripted.py");
    Target::command("python3").arg(script).args(behaviours)
}

fn capable() -> ClientCapabilities {
    ClientCapabilities::new()
        .with_elicitation(ElicitationCapability::new())
        .with_roots(RootsCapability::new())
}

fn declaring() -> ClientBuilder {
    Client::builder().capabilities(capable())
}

async fn legacy() -> Client {
    declaring().era(Era::Legacy).connect(scripted(&[])).await.unwrap()
}

fn peer(revision: Revision) -> Arc<Peer> {
    Arc::new(Peer::new(revision, None, capable()))
}

fn tool(context: Context, name: &str, arguments: &Value) -> Call {
    let params = json!({ "name": name, "arguments": arguments, "_meta": { "traceparent": "t", "progressToken": "p" } });
    Call::new(Method::ToolsCall, params.into(), context)
}

fn context(round: Round) -> Context {
    Context::builder(peer(Revision::V2026_07_28)).round(round).progress_token(Some("p".into())).build()
}

async fn called(client: &Client, name: &str, arguments: Value, round: Round) -> Outcome {
    Service::call(client, tool(context(round), name, &arguments)).await
}

fn result(outcome: Outcome) -> CallToolResult {
    let Outcome::Complete(Reply::Raw { json, .. }) = outcome else { panic!("{outcome:?}") };
    json.decode().unwrap()
}

fn parsed(outcome: Outcome) -> Value {
    result(outcome).parse().unwrap()
}

fn questions(outcome: Outcome) -> PendingInput {
    let Outcome::InputRequired(questions) = outcome else { panic!("{outcome:?}") };
    questions
}

fn answered(mut round: Round, answers: &[(&str, Value)]) -> Round {
    round.record_answers(
        answers.iter().map(|(key, answer)| ((*key).to_owned(), RawJson::from(answer.clone()))),
    );
    round
}

/// Polls `look` until it returns a value.
async fn until<T>(look: impl AsyncFn() -> Option<T>) -> T {
    let found = async {
        let mut pace = tokio::time::interval(Duration::from_millis(10));
        loop {
            if let Some(found) = look().await {
                return found;
            }
            pace.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("it does not come to that")
}

fn elicit(message: &str) -> Value {
    let form = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    json!({ "method": "elicitation/create", "params": { "message": message, "requestedSchema": form } })
}

fn accepted(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

#[tokio::test]
async fn a_call_crosses_without_what_belongs_to_one_leg() {
    let client = declaring().connect(scripted(&["modern"])).await.unwrap();
    let params = parsed(called(&client, "params", json!({ "a": [1, 2.50] }), Round::default()).await);
    assert_eq!(params["arguments"], json!({ "a": [1, 2.5] }));
    assert_eq!(params["_meta"]["traceparent"], "t");
    assert_ne!(params["_meta"]["progressToken"], "p");
    assert_eq!(
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"],
        json!({ "roots": {}, "elicitation": {} })
    );
    let older = parsed(called(&legacy().await, "params", json!({}), Round::default()).await);
    assert!(older["_meta"].get("io.modelcontextprotocol/protocolVersion").is_none());
    let outcome = called(&client, "fail", json!({}), Round::default()).await;
    let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!((error.code, &*error.message), (-32602, "no such thing"));
}

#[tokio::test]
async fn an_older_servers_questions_park_its_call_until_they_are_answered() {
    let client = legacy().await;
    let arguments = json!({ "questions": [elicit("first"), { "method": "roots/list" }] });
    let first = questions(called(&client, "ask", arguments.clone(), Round::default()).await);
    assert_eq!(first.requests.len(), 1);
    assert_eq!(first.requests[0].1.method(), "elicitation/create");
    let key = first.requests[0].0.clone();
    // An answer under another key is none: the question comes again.
    let again = answered(first.round.clone(), &[("other", json!({}))]);
    let again = questions(called(&client, "ask", arguments.clone(), again).await);
    assert_eq!(again.requests[0].0, key);
    // What is no answer is refused, and the call goes on waiting for one.
    let wrong = answered(again.round.clone(), &[(&key, json!({ "action": "perhaps" }))]);
    let Outcome::Failed(error) = called(&client, "ask", arguments.clone(), wrong).await else {
        panic!("taken")
    };
    assert_eq!(error.code, -32602, "{error}");
    let round = answered(again.round, &[(&key, accepted("me"))]);
    let second = questions(called(&client, "ask", arguments.clone(), round).await);
    assert_eq!(second.requests[0].1.method(), "roots/list");
    let used_up = second.round.clone();
    let roots = json!({ "roots": [{ "uri": "file:///a" }] });
    let round = answered(second.round, &[(&second.requests[0].0, roots.clone())]);
    let last = parsed(called(&client, "ask", arguments.clone(), round).await);
    assert_eq!(last, json!([accepted("me"), roots]));
    // The handle is worth one use.
    let outcome = called(&client, "ask", arguments, answered(used_up, &[])).await;
    let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert!(error.message.contains("no longer waiting"), "{error}");
}

#[tokio::test]
async fn a_parked_call_belongs_to_whom_it_was_made_for() {
    let client = legacy().await;
    let arguments = json!({ "questions": [elicit("first")] });
    let first = questions(called(&client, "ask", arguments.clone(), Round::default()).await);
    let round = answered(first.round, &[(&first.requests[0].0, accepted("me"))]);
    let thief = Peer::new(Revision::V2026_07_28, None, capable()).with_principal("thief");
    let thief = Context::builder(Arc::new(thief)).round(round.clone()).build();
    assert!(matches!(Service::call(&client, tool(thief, "ask", &arguments)).await, Outcome::Failed(_)));
    assert_eq!(parsed(called(&client, "ask", arguments, round).await), json!([accepted("me")]));
}

#[tokio::test]
async fn a_parked_call_that_nobody_goes_on_with_is_given_up() {
    let client = declaring()
        .era(Era::Legacy)
        .park_timeout(Duration::from_millis(100))
        .connect(scripted(&[]))
        .await
        .unwrap();
    let arguments = json!({ "questions": [elicit("first")] });
    let first = questions(called(&client, "ask", arguments.clone(), Round::default()).await);
    let cancelled = until(async || {
        let cancelled = parsed(called(&client, "cancelled", json!({}), Round::default()).await);
        (!cancelled.as_array().unwrap().is_empty()).then_some(cancelled)
    });
    assert_eq!(cancelled.await.as_array().unwrap().len(), 1);
    let round = answered(first.round, &[(&first.requests[0].0, accepted("me"))]);
    assert!(matches!(called(&client, "ask", arguments, round).await, Outcome::Failed(_)));
}

#[tokio::test]
async fn an_older_application_behind_an_older_server_is_asked_and_may_leave() {
    let client = legacy().await;
    let context = Context::new(peer(Revision::V2025_06_18));
    let call = tool(context, "ask", &json!({ "questions": [elicit("first"), elicit("second")] }));
    let mut exchange = Exchange::new(BoxService::new(client.clone()), call);
    for name in ["one", "two"] {
        let ExchangeEvent::Ask(asked) = poll_fn(|cx| exchange.poll_event(cx)).await else {
            panic!("no question")
        };
        exchange.answer(asked.into_iter().map(|(key, _)| (key, accepted(name).into())));
    }
    let ExchangeEvent::Done(outcome) = poll_fn(|cx| exchange.poll_event(cx)).await else { panic!("no end") };
    assert_eq!(parsed(outcome), json!([accepted("one"), accepted("two")]));
    // One that leaves in the middle takes the upstream call with it.
    let context = Context::new(peer(Revision::V2025_06_18));
    let call = tool(context, "ask", &json!({ "questions": [elicit("first")] }));
    let mut exchange = Exchange::new(BoxService::new(client.clone()), call);
    assert!(matches!(poll_fn(|cx| exchange.poll_event(cx)).await, ExchangeEvent::Ask(_)));
    drop(exchange);
    let cancelled = parsed(called(&client, "cancelled", json!({}), Round::default()).await);
    assert_eq!(cancelled.as_array().unwrap().len(), 1);
}

/// Many servers ask for the roots right after the handshake, when no call is under way yet.
#[tokio::test]
async fn what_a_server_asks_between_calls_is_asked_with_the_next_one() {
    let client = declaring().era(Era::Legacy).connect(scripted(&["curious"])).await.unwrap();
    until(async || (client.parked_calls() == 1).then_some(())).await;
    let nothing = Arc::new(Peer::new(Revision::V2026_07_28, None, ClientCapabilities::new()));
    let incapable = Context::builder(nothing).build();
    let known = Service::call(&client, tool(incapable, "known", &json!({}))).await;
    assert_eq!(parsed(known), json!([]), "who has no roots is not asked for them");

    let list = Call::new(Method::ToolsList, json!({}).into(), context(Round::default()));
    assert!(
        matches!(Service::call(&client, list).await, Outcome::Complete(_)),
        "a list cannot carry a question"
    );

    let asked = questions(called(&client, "known", json!({}), Round::default()).await);
    let (key, question) = &asked.requests[0];
    assert_eq!((asked.requests.len(), question.method()), (1, "roots/list"));
    let roots = json!({ "roots": [{ "uri": "file:///here" }] });
    let round = answered(asked.round, &[(key, roots.clone())]);
    parsed(called(&client, "known", json!({}), round).await);
    assert_eq!(client.parked_calls(), 0);
    let known = until(async || {
        let known = parsed(called(&client, "known", json!({}), Round::default()).await);
        (known != json!([])).then_some(known)
    });
    assert_eq!(known.await, json!([roots]));
}

/// covers: MRTR-08
#[tokio::test]
async fn a_modern_servers_state_is_carried_and_its_answers_brought() {
    let client = declaring().connect(scripted(&["modern"])).await.unwrap();
    let arguments = json!({ "rounds": 2 });
    let first = questions(called(&client, "ask again and again", arguments.clone(), Round::default()).await);
    assert_eq!(first.round.carried.as_deref(), Some("1"));
    assert_eq!(first.requests[0].0, "who");
    let round = answered(first.round, &[("who", accepted("a"))]);
    let second = questions(called(&client, "ask again and again", arguments.clone(), round).await);
    assert_eq!(second.round.carried.as_deref(), Some("2"));
    let round = answered(second.round, &[("who", accepted("b"))]);
    let last = parsed(called(&client, "ask again and again", arguments, round).await);
    assert_eq!(last, json!({ "responses": { "who": accepted("b") }, "state": "2" }));
}

#[tokio::test]
async fn a_question_that_the_caller_cannot_answer_is_ours() {
    let client = declaring().era(Era::Legacy).roots(["file:///ours"]).connect(scripted(&[])).await.unwrap();
    let cannot = Context::new(Arc::new(Peer::new(Revision::V2026_07_28, None, ClientCapabilities::new())));
    let call = tool(cannot, "ask", &json!({ "questions": [{ "method": "roots/list" }, elicit("?")] }));
    let answers = parsed(Service::call(&client, call).await);
    assert_eq!(answers[0]["roots"][0]["uri"], "file:///ours");
    assert_eq!(answers[1]["error"]["code"], -32601);
}

/// covers: CANC-01
#[tokio::test]
async fn progress_passes_and_leaving_cancels() {
    let client = legacy().await;
    let call = tool(context(Round::default()), "slow", &json!({ "steps": 40, "pause": 0.02 }));
    let mut exchange = Exchange::new(BoxService::new(client.clone()), call);
    for step in [1.0, 2.0, 3.0] {
        let event = poll_fn(|cx| exchange.poll_event(cx)).await;
        let ExchangeEvent::Notify(Notification::Progress(progress)) = event else { panic!("{event:?}") };
        assert_eq!((progress.progress_token, progress.progress), ("p".into(), step));
    }
    drop(exchange);
    let cancelled = parsed(called(&client, "cancelled", json!({}), Round::default()).await);
    assert_eq!(cancelled.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn log_messages_reach_the_call_that_wants_them() {
    let client = legacy().await;
    let announce = json!({ "notifications": [
        ["notifications/message", { "level": "debug", "data": "small talk" }],
        ["notifications/message", { "level": "error", "data": "trouble" }],
    ] });
    let wants = Context::builder(peer(Revision::V2026_07_28)).log_level(Some(LoggingLevel::Warning)).build();
    let mut exchange = Exchange::new(BoxService::new(client.clone()), tool(wants, "announce", &announce));
    let event = poll_fn(|cx| exchange.poll_event(cx)).await;
    let ExchangeEvent::Notify(Notification::LogMessage(message)) = event else { panic!("{event:?}") };
    assert_eq!(message.data.as_str(), "\"trouble\"");
    assert!(matches!(poll_fn(|cx| exchange.poll_event(cx)).await, ExchangeEvent::Done(_)));
    let seen = parsed(called(&client, "seen", json!({}), Round::default()).await);
    assert_eq!(seen[2], json!(["logging/setLevel", { "level": "warning" }]));
}

/// covers: RES-11
#[tokio::test]
async fn an_older_session_serves_listeners_as_far_as_it_declared() {
    let client = legacy().await;
    let mut filter = hospes::model::SubscriptionFilter::new();
    (filter.tools_list_changed, filter.prompts_list_changed) = (true, true);
    filter.resource_subscriptions = vec!["a://x".into()];
    let mut first = client.listen(filter.clone()).await.unwrap();
    filter.prompts_list_changed = false;
    assert_eq!(first.acknowledged(), &filter, "the server tells nothing of prompts");
    let mut second = client.subscribe("a://x").await.unwrap();
    let announce = json!({ "notifications": [
        ["notifications/tools/list_changed", null],
        ["notifications/resources/updated", { "uri": "a://x" }],
    ] });
    called(&client, "announce", announce, Round::default()).await;
    assert_eq!(first.next().await, Some(Notification::ToolsListChanged));
    assert!(
        matches!(first.next().await, Some(Notification::ResourceUpdated(params)) if params.uri == "a://x")
    );
    assert!(matches!(second.next().await, Some(Notification::ResourceUpdated(_))));
    drop(first);
    drop(second);
    // Subscribed once, for both; unsubscribed once, after both.
    let about = until(async || {
        let seen = parsed(called(&client, "seen", json!({}), Round::default()).await);
        let about: Vec<Value> =
            seen.as_array().unwrap().iter().filter(|entry| entry.is_array()).cloned().collect();
        (about.len() > 1).then_some(about)
    });
    let methods: Vec<Value> = about.await.iter().map(|entry| entry[0].clone()).collect();
    assert_eq!(methods, ["resources/subscribe", "resources/unsubscribe"]);
}

#[tokio::test]
async fn listeners_learn_of_the_end() {
    let client = legacy().await;
    let mut subscription = client.subscribe("a://x").await.unwrap();
    called(&client, "die", json!({}), Round::default()).await;
    assert_eq!(subscription.next().await, None);
    assert!(subscription.error().unwrap().message.contains("exited with status 3"));
}
