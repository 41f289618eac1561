#![expect(clippy::needless_pass_by_value, reason = "`json!` at the call reads better")]

mod form;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::FutureExt;
use hospes_model::{
    CallToolResult, ClientCapabilities, ElicitAction, ElicitationCapability, Method, RawJson, Reply,
    Revision, RootsCapability, SamplingCapability, SamplingMessage, Tool, ToolResultContent, ToolUseContent,
    code,
};
use serde_json::{Value, json};

use self::form::Seat;
use super::AskError;
use crate::{
    BoxService, Call, Context, Error, Exchange, ExchangeEvent, Outcome, Peer, PendingInput, Result, Round,
    Service,
};

/// Answers are there or they are not; nothing is waited for.
fn block_on<F: Future>(future: F) -> F::Output {
    future.now_or_never().expect("no question waits")
}

fn all() -> ClientCapabilities {
    ClientCapabilities::new()
        .with_elicitation(
            ElicitationCapability::new().with_form(RawJson::empty_object()).with_url(RawJson::empty_object()),
        )
        .with_sampling(SamplingCapability::new())
        .with_roots(RootsCapability::new())
}

fn context_of(capabilities: ClientCapabilities, round: Round) -> Context {
    let peer = Peer::new(Revision::LATEST, None, capabilities);
    Context::builder(Arc::new(peer)).round(round).build()
}

fn first() -> Context {
    context_of(all(), Round::default())
}

/// The next run of a call that has asked, with answers by key.
fn next<const N: usize>(context: &Context, answers: [(&str, Value); N]) -> Context {
    let mut round = context.round();
    round.record_answers(answers.map(|(key, answer)| (key.to_owned(), answer.into())));
    context_of(all(), round)
}

fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

fn asked(context: &Context) -> Vec<(String, Value)> {
    let PendingInput { requests, .. } = context.take_questions().expect("something was asked");
    requests.into_iter().map(|(key, request)| (key, serde_json::to_value(request).unwrap())).collect()
}

fn form(context: &Context) -> Value {
    asked(context)[0].1["params"]["requestedSchema"].clone()
}

/// covers: ELIC-06 ELIC-34
#[test]
fn a_refusal_is_an_error_with_a_sentence() {
    for (action, words) in [("decline", "declined"), ("cancel", "dismissed the question")] {
        let context = next(&first(), [("q1", json!({ "action": action }))]);
        let error = block_on(async { context.elicit::<Seat>("Which seat?").await }).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(words) && text.contains("Which seat?"), "{text}");
        assert!(context.take_questions().is_none());
    }
}

#[test]
fn a_refusal_is_an_answer_when_wanted_raw() {
    let context = next(&first(), [("q1", json!({ "action": "decline" }))]);
    let result = block_on(async { context.elicit::<Seat>("Which seat?").raw().await }).unwrap();
    assert_eq!(result.action, ElicitAction::Decline);
}

/// covers: ELIC-03 MRTR-05 ROOT-19 SAMP-31
#[test]
fn only_what_the_client_declared_is_asked() {
    fn refused(context: &Context, error: impl Into<Error>, required: Value) {
        let error = error.into();
        let protocol = error.protocol().expect("a protocol error in the chain");
        assert_eq!(protocol.code, code::MISSING_CLIENT_CAPABILITY);
        let data = protocol.data.as_ref().unwrap().to_value().unwrap();
        assert_eq!(data["requiredCapabilities"], required);
        assert!(context.take_questions().is_none());
    }
    block_on(async {
        let none = context_of(ClientCapabilities::new(), Round::default());
        refused(&none, none.elicit::<bool>("?").await.unwrap_err(), json!({ "elicitation": { "form": {} } }));
        let url = none.elicit_url("?", "https://example.com/pay").await;
        refused(&none, url.unwrap_err(), json!({ "elicitation": { "url": {} } }));
        refused(&none, none.sample("?").await.unwrap_err(), json!({ "sampling": {} }));
        refused(&none, none.roots().await.unwrap_err(), json!({ "roots": {} }));

        let forms = ClientCapabilities::new().with_elicitation(ElicitationCapability::new());
        let forms = context_of(forms, Round::default());
        assert!(forms.elicit::<bool>("?").await.unwrap_err().is_pending());
        let _ = forms.take_questions();
        let url = forms.elicit_url("?", "https://example.com/pay").await;
        refused(&forms, url.unwrap_err(), json!({ "elicitation": { "url": {} } }));

        let plain = context_of(all(), Round::default());
        let tool = Tool::new("t", RawJson::empty_object());
        let sample = plain.sample("?").tools([tool]).await;
        refused(&plain, sample.unwrap_err(), json!({ "sampling": { "tools": {} } }));
    });
}

/// covers: ELIC-18
#[test]
fn a_url_is_checked_before_it_is_sent() {
    block_on(async {
        let context = first();
        let error = context.elicit_url("Pay", "not a url").await.unwrap_err();
        assert!(error.to_string().contains("not a url"), "{error}");
        let error = context.elicit_url("Pay", "https://example.com/pay").key("pay").await.unwrap_err();
        assert!(error.is_pending());
        let PendingInput { requests, .. } = context.take_questions().unwrap();
        let (method, old) = requests[0].1.lower(Revision::V2025_11_25).unwrap();
        assert_eq!(method, Method::Elicit);
        assert_eq!(old.to_value().unwrap()["elicitationId"].as_str().unwrap().len(), 32);
        let (key, request) = (&requests[0].0, serde_json::to_value(&requests[0].1).unwrap());
        assert_eq!(key, "pay");
        assert_eq!(request["params"]["mode"], "url");
        assert_eq!(request["params"]["url"], "https://example.com/pay");
        assert_eq!(request["params"]["message"], "Pay");
        let context = next(&context, [("pay", json!({ "action": "accept" }))]);
        context.elicit_url("Pay", "https://example.com/pay").key("pay").await.unwrap();
        let context = next(&context, [("pay", json!({ "action": "cancel" }))]);
        let error = context.elicit_url("Pay", "https://example.com/pay").key("pay").await.unwrap_err();
        assert!(matches!(error, AskError::Cancelled { .. }));
    });
}

/// covers: ELIC-07 ELIC-08
#[test]
fn a_form_asks_for_no_secret() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its form is looked at")]
    struct SignIn {
        user: String,
        #[serde(rename = "apiKey")]
        api_key: String,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its form is looked at")]
    struct Paying {
        #[schemars(title = "Card number")]
        number: String,
    }
    block_on(async {
        let context = first();
        let said = context.elicit::<SignIn>("Sign in").await.err().unwrap();
        assert!(matches!(&said, AskError::Secret { field } if field == "apiKey"), "{said}");
        let said = context.elicit::<Paying>("Pay").raw().await.unwrap_err();
        assert!(matches!(&said, AskError::Secret { field } if field == "number"), "{said}");
        let schema = json!({ "type": "object", "properties": { "password": { "type": "string" } } });
        let said = context.elicit::<()>("?").schema(schema).await.unwrap_err();
        assert!(
            matches!(&said, AskError::Secret { .. }) && said.to_string().contains("elicit_url"),
            "{said}"
        );
        assert!(context.take_questions().is_none());
        assert!(context.elicit::<Seat>("Which seat?").await.unwrap_err().is_pending());
    });
}

/// covers: ELIC-26 ELIC-27
#[test]
fn nobody_is_sent_to_a_url_that_gives_something_away() {
    block_on(async {
        let context = first();
        for url in [
            "http://example.com/pay",
            "ftp://example.com/pay",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://ann:pw@example.com/pay",
            "https://ann@example.com/pay",
            "https://example.com/pay?access_token=abc",
            "https://example.com/pay?who=ann%40example.com",
            "https://example.com/pay?card=4111111111111111",
            "https://example.com/pay/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
            "https://example.com/pay#ghp_0123456789abcdef01",
        ] {
            let error = context.elicit_url("Pay", url).await.unwrap_err();
            assert!(matches!(error, AskError::Unsafe { .. }), "{url}: {error}");
            assert!(!error.to_string().contains("example.com"), "{error}");
        }
        for url in [
            "https://example.com/pay?order=7&state=Zm9v&client_id=x&code_challenge=y",
            "http://localhost:8080/pay",
            "http://127.0.0.1/pay",
            "http://[::1]/pay",
        ] {
            assert!(context.elicit_url("Pay", url).await.unwrap_err().is_pending(), "{url}");
        }
        // A form has no links to click at, in none of its parts.
        let form = |title: &str, description: &str| {
            let field = json!({ "type": "string", "title": title, "description": description });
            json!({ "type": "object", "properties": { "a": field } })
        };
        let context = first();
        for (message, form) in [
            ("See HTTPS://example.com", form("a", "b")),
            ("?", form("http://example.com", "b")),
            ("?", form("a", "as on https://example.com/x")),
        ] {
            let error = context.elicit::<()>(message).schema(form).await.unwrap_err();
            assert!(matches!(error, AskError::Link { .. }), "{error}");
        }
        assert!(
            context.elicit::<()>("See example.com").schema(form("a", "b")).await.unwrap_err().is_pending()
        );
    });
}

/// covers: SAMP-07 SAMP-16 SAMP-29 DEPR-04
#[test]
fn a_sample_carries_all_wishes() {
    block_on(async {
        let context = first();
        let sample = context
            .sample("Write a line")
            .max_tokens(60)
            .system("Be short.")
            .temperature(0.5)
            .stop_at("\n")
            .model_hint("haiku")
            .model_hint("mini")
            .speed_priority(7.0)
            .include_context(hospes_model::IncludeContext::AllServers);
        assert!(sample.await.unwrap_err().is_pending());
        let (_, request) = asked(&context).remove(0);
        assert_eq!(request["method"], "sampling/createMessage");
        assert_eq!(
            request["params"],
            json!({
                "messages": [{ "role": "user", "content": { "type": "text", "text": "Write a line" } }],
                "maxTokens": 60,
                "systemPrompt": "Be short.",
                "temperature": 0.5,
                "stopSequences": ["\n"],
                "modelPreferences": { "hints": [{ "name": "haiku" }, { "name": "mini" }], "speedPriority": 1.0 },
            })
        );
        let answer =
            json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "Done." } });
        let context = next(&context, [("q1", answer)]);
        assert_eq!(context.sample("Write a line").await.unwrap().text(), "Done.");

        let context = next(&context, [("q1", json!({ "role": "assistant" }))]);
        assert!(context.sample("Write a line").await.unwrap_err().is_pending());
        let _ = asked(&context);
    });
}

/// covers: SAMP-32 SAMP-33
#[test]
fn tool_results_stand_alone_and_follow_their_use() {
    block_on(async {
        let context = first();
        let tool_use = SamplingMessage::assistant(ToolUseContent::new("1", "t", RawJson::empty_object()));
        let result = SamplingMessage::user(ToolResultContent::new("1", vec!["ok".into()]));
        let good = context.sample([SamplingMessage::user("hi"), tool_use.clone(), result.clone()]);
        assert!(good.await.unwrap_err().is_pending());
        let mut mixed = result.clone();
        mixed.content.push("and this".into());
        for bad in [
            vec![tool_use.clone(), mixed],
            vec![tool_use.clone(), SamplingMessage::user("hi")],
            vec![tool_use],
        ] {
            let error = context.sample(bad).await.unwrap_err();
            assert!(matches!(error, AskError::Conversation(_)), "{error}");
        }
    });
}

#[test]
fn roots_are_asked_for() {
    block_on(async {
        let context = first();
        assert!(context.roots().key("client_roots").await.unwrap_err().is_pending());
        let (key, request) = asked(&context).remove(0);
        assert_eq!((key.as_str(), request["method"].as_str()), ("client_roots", Some("roots/list")));
        let context = next(&context, [("client_roots", json!({ "roots": [{ "uri": "file:///a" }] }))]);
        assert_eq!(context.roots().key("client_roots").await.unwrap()[0].uri, "file:///a");
    });
}

/// covers: MRTR-04
#[test]
fn several_questions_travel_in_one_round() {
    async fn handler(ctx: &Context) -> Result<String> {
        let (name, greeting, roots) =
            ctx.ask((ctx.elicit::<String>("Name?").key("name"), ctx.sample("Greet"), ctx.roots())).await?;
        let more = ctx.ask(vec![ctx.elicit::<u8>("A?"), ctx.elicit::<u8>("B?")]).await?;
        Ok(format!("{} {name} {} {more:?}", greeting.text(), roots.len()))
    }
    block_on(async {
        let context = first();
        handler(&context).await.unwrap_err();
        let keys: Vec<_> = asked(&context).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["name", "q1", "q2"]);

        // Only what is missing is asked again.
        let context =
            next(&context, [("name", accept(json!({ "value": "Ada" }))), ("q2", json!({ "roots": [] }))]);
        handler(&context).await.unwrap_err();
        let keys: Vec<_> = asked(&context).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["q1"]);

        let answer =
            json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "Hello" } });
        let context = next(&context, [("q1", answer)]);
        handler(&context).await.unwrap_err();
        let keys: Vec<_> = asked(&context).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["q3", "q4"]);

        let one = accept(json!({ "value": 1 }));
        let context = next(&context, [("q3", one.clone()), ("q4", one)]);
        assert_eq!(handler(&context).await.unwrap(), "Hello Ada 0 [1, 1]");
    });
}

/// A refusal decides at once; the remaining questions are not asked.
#[test]
fn a_refusal_among_several_asks_nothing_more() {
    block_on(async {
        let context = next(&first(), [("q2", json!({ "action": "decline" }))]);
        let error = context.ask((context.roots(), context.elicit::<bool>("Sure?"))).await.unwrap_err();
        assert!(matches!(error, AskError::Declined { .. }));
        assert!(context.take_questions().is_none());
    });
}

#[test]
fn a_step_runs_once_over_all_rounds() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    async fn handler(ctx: &Context, fails: bool) -> Result<String> {
        let number: u32 = ctx
            .once("booking", || async {
                RUNS.fetch_add(1, Ordering::Relaxed);
                if fails { Err(Error::msg("sold out")) } else { Ok(599) }
            })
            .await?;
        let seat: Seat = ctx.elicit("Which seat?").await?;
        Ok(format!("{number} {seat:?}"))
    }
    block_on(async {
        let context = first();
        assert_eq!(handler(&context, true).await.unwrap_err().to_string(), "sold out");
        assert!(context.round().steps.is_empty(), "a failure is not remembered");
        handler(&context, false).await.unwrap_err();
        let round = context.take_questions().unwrap().round;
        // As it travels between rounds.
        let mut round: Round = serde_json::from_str(&serde_json::to_string(&round).unwrap()).unwrap();
        round.record_answers([("q1".to_owned(), accept(json!({ "value": "Aisle" })).into())]);
        let context = context_of(all(), round);
        assert_eq!(handler(&context, false).await.unwrap(), "599 Aisle");
        assert_eq!(RUNS.load(Ordering::Relaxed), 2, "once failing, once not");
    });
}

/// The same handler, driven the way transports drive it.
///
/// covers: MRTR-01
#[test]
fn one_handler_answers_peers_of_both_eras() {
    struct Greeter;
    impl Service for Greeter {
        async fn call(&self, call: Call) -> Outcome {
            let context = &call.context;
            let name = context.elicit::<String>("Name?").key("name").await;
            match (name, context.take_questions()) {
                (_, Some(questions)) => Outcome::InputRequired(questions),
                (Ok(name), None) => Outcome::Complete(Reply::CallTool(CallToolResult::text(name))),
                (Err(error), None) => {
                    Outcome::Complete(Reply::CallTool(CallToolResult::error(error.to_string())))
                }
            }
        }
    }
    let poll = |exchange: &mut Exchange| {
        let waker = futures::task::noop_waker();
        match exchange.poll_event(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(event) => event,
            std::task::Poll::Pending => panic!("nothing waits here"),
        }
    };
    let start = |revision, round| {
        let context = Context::builder(Arc::new(Peer::new(revision, None, all()))).round(round).build();
        let call = Call::new(Method::ToolsCall, RawJson::empty_object(), context);
        Exchange::new(BoxService::new(Greeter), call)
    };
    let answer = [("name".to_owned(), RawJson::from(accept(json!({ "value": "Ada" }))))];

    let mut old = start(Revision::V2025_06_18, Round::default());
    let ExchangeEvent::Ask(questions) = poll(&mut old) else { panic!("an old peer is asked by requests") };
    assert_eq!(questions[0].0, "name");
    old.answer(answer.clone());
    let ExchangeEvent::Done(Outcome::Complete(Reply::CallTool(from_old))) = poll(&mut old) else {
        panic!("not done")
    };

    let mut new = start(Revision::LATEST, Round::default());
    let ExchangeEvent::Done(Outcome::InputRequired(questions)) = poll(&mut new) else {
        panic!("a new peer is asked in the result")
    };
    let mut round = questions.round;
    round.record_answers(answer);
    let mut new = start(Revision::LATEST, round);
    let ExchangeEvent::Done(Outcome::Complete(Reply::CallTool(from_new))) = poll(&mut new) else {
        panic!("not done")
    };
    assert_eq!(from_old.all_text(), "Ada");
    assert_eq!(from_old, from_new);
}
