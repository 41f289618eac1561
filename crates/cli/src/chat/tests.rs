//! Turns with a scripted model, and with tools of a server in this process.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hospes::model::{
    CreateMessageParams, CreateMessageResult, ElicitResult, RawJson, Role, SamplingMessage,
    SamplingMessageContentBlock as Block, ToolResultContent, ToolUseContent,
};
use hospes::server::{Args, Server};
use hospes::{BoxService, Context, Error};
use hospes_host::approvals::{Approval, ApprovalDecision, ApprovalQueue};
use hospes_host::config::{ConfigSource, HostConfig, ServerConfig, ServerTransport};
use hospes_host::{PolicyEnforcer, Sampler};
use hospes_models::{Allowance, Budget, ModelCatalogue, ModelProvider, ScriptLine, ScriptedProvider};
use hospes_policy::{Policy, PolicyEnvironment};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::approval_prompt::{ApprovalReply, ChatApprover};
use super::chat_loop::ChatCommand;
use super::display::{DisplayText, TurnDisplay};
use super::turn::{TurnContext, TurnEnd, TurnEvent, TurnResult, turn};
use super::*;
use crate::approve::ApprovalDraft;

fn wants(id: &str, tool: &str, arguments: Value) -> Block {
    ToolUseContent::new(id, tool, RawJson::from(arguments)).into()
}

/// A model that asks for the same until a result is there, and then says that it has it.
fn once(tool: &'static str, arguments: Value) -> ScriptedProvider {
    ScriptedProvider::with(move |asked| match results(asked).as_slice() {
        [] => ScriptLine::new(wants("1", tool, arguments.clone())),
        _ => ScriptLine::from("I have it."),
    })
}

fn results(asked: &CreateMessageParams) -> Vec<ToolResultContent> {
    let blocks = asked.messages.iter().flat_map(|message| &message.content);
    blocks
        .filter_map(|block| match block {
            Block::ToolResult(result) => Some(result.clone()),
            _ => None,
        })
        .collect()
}

fn words(result: &ToolResultContent) -> String {
    serde_json::to_string(&result.content).unwrap()
}

#[derive(serde::Deserialize, hospes::schemars::JsonSchema)]
#[schemars(crate = "hospes::schemars")]
struct Two {
    a: i64,
    b: i64,
}

/// A server whose calls are counted.
fn server(calls: &Arc<AtomicUsize>, never: &Arc<Notify>) -> Server {
    let (counted, begun) = (Arc::clone(calls), Arc::clone(never));
    Server::new("calc", "1.0")
        .tool("add", move |Args(Two { a, b }): Args<Two>| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move { (a + b).to_string() }
        })
        .tool("wonder", |ctx: Context| async move {
            Ok::<_, Error>(format!("it said {}", ctx.sample("What is it?").max_tokens(50).await?.text()))
        })
        .tool("greet", |ctx: Context| async move {
            Ok::<_, Error>(format!("hello {}", ctx.elicit::<String>("Who are you?").field("name").await?))
        })
        .tool("hostile", || async { "good\u{1b}[2Jbad\u{202e}".to_owned() })
        .tool("stall", move || {
            let begun = Arc::clone(&begun);
            async move {
                begun.notify_one();
                std::future::pending::<String>().await
            }
        })
}

/// Returns a sampler with one model and a budget for servers.
fn sampler() -> Sampler {
    let model = Model::new("small", ScriptedProvider::with(|_| ScriptLine::from("forty-two")));
    let mut budget = Budget::new();
    budget.allow_servers(Some(Allowance::tokens(100_000)));
    Sampler::new(ModelCatalogue::new([model]).unwrap(), budget)
}

struct Stage {
    seat: ChatSession,
    host: Option<Host>,
    calls: Arc<AtomicUsize>,
    begun: Arc<Notify>,
}

impl Stage {
    async fn new() -> Self {
        let (calls, begun) = (Arc::default(), Arc::default());
        let client = Client::in_memory(server(&calls, &begun)).await.unwrap();
        let lines = Arc::new(InputLines::of(|| None));
        Self { seat: ChatSession { client, lines, person: None }, host: None, calls, begun }
    }

    /// Starts a session behind the gateway. Its rules require approval of every call, and these lines are the answers.
    async fn asking(lines: InputLines) -> Self {
        Self::by("[[rule]]\ndecide = 'ask'\n", lines).await
    }

    async fn by(rules: &str, lines: InputLines) -> Self {
        Self::at(ApprovalQueue::new(), rules, lines).await
    }

    async fn at(queue: ApprovalQueue, rules: &str, lines: InputLines) -> Self {
        let (calls, begun) = (Arc::<AtomicUsize>::default(), Arc::<Notify>::default());
        let entry = ServerConfig::new(
            "calc",
            ServerTransport::builtin("calc", []),
            ConfigSource::unwritten("a test"),
        );
        let mut config = HostConfig::default();
        config.servers.push(entry);
        let rules = Policy::read(rules, &PolicyEnvironment::default()).unwrap();
        let parts = (Arc::clone(&calls), Arc::clone(&begun));
        let host = Host::builder(config)
            .builtins(Arc::new(move |_, _| Ok(BoxService::new(server(&parts.0, &parts.1)))))
            .guard(Arc::new(PolicyEnforcer::new(Some(rules)).answering_questions(true).with_approvals(queue)))
            .sampler(Arc::new(sampler()))
            .start()
            .unwrap();
        let output = CliOutput { json: false, quiet: true };
        let lines = Arc::new(lines);
        let queue = host.guard().unwrap().approvals().clone();
        let attendance = queue.register_viewer(None);
        let person = Some((ChatApprover { queue, lines: Arc::clone(&lines), output }, attendance));
        let client = Client::in_memory(host.gateway()).await.unwrap();
        Self { seat: ChatSession { client, lines, person }, host: Some(host), calls, begun }
    }

    async fn table<'a>(&'a self, provider: &'a dyn ModelProvider) -> TurnContext<'a> {
        let tools = self.seat.client.tools().all().await.unwrap();
        TurnContext {
            provider,
            client: &self.seat.client,
            tools,
            system: None,
            max_tokens: 99,
            max_rounds: 3,
            images: false,
        }
    }

    /// Takes a turn that is not stopped.
    async fn turn(
        &self,
        model: &ScriptedProvider,
        history: &mut Vec<SamplingMessage>,
    ) -> (TurnResult, DisplayText) {
        let table = self.table(model).await;
        let (mut page, mut seen) = (TurnDisplay::default(), DisplayText::default());
        let mut show = |said: TurnEvent<'_>| {
            let DisplayText { out, err } = page.of(said);
            seen.out.push_str(&out);
            seen.err.push_str(&err);
        };
        let stop = pin!(std::future::pending());
        let turn = tokio::select! {
            turn = turn(&table, history, "What is 2 + 40?", &mut show, stop) => turn,
            never = self.seat.attend() => match never {},
        };
        (turn, seen)
    }

    async fn end(self) {
        self.seat.client.close().await;
        if let Some(host) = self.host {
            host.stop().await;
        }
    }
}

/// A person who says the same whenever they are asked.
fn saying(line: &'static str) -> InputLines {
    InputLines::of(move || Some(Ok(line.to_owned())))
}

/// Asserts that a provider would accept the conversation if it continued.
fn can_go_on(history: &[SamplingMessage]) {
    let mut messages = history.to_vec();
    assert_eq!(messages.last().map(|last| &last.role), Some(&Role::Assistant));
    messages.push(SamplingMessage::user("And then?"));
    ScriptedProvider::new(["x"]).check(&CreateMessageParams::new(messages, 9)).unwrap();
}

#[tokio::test]
async fn a_tool_is_called_and_its_result_reaches_the_model() {
    let (stage, model, mut history) =
        (Stage::new().await, once("add", json!({ "a": 2, "b": 40 })), Vec::new());
    let (turn, seen) = stage.turn(&model, &mut history).await;
    assert!(matches!(turn.ended, TurnEnd::Answered), "{turn:?}");
    let asked = model.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].tools.len(), 5);
    let given = results(&asked[1]);
    assert!(words(&given[0]).contains("42") && given[0].is_error == Some(false), "{given:?}");
    assert_eq!(seen.out, "I have it.");
    assert!(seen.err.contains("add") && seen.err.contains("42"), "{}", seen.err);
    assert!(turn.spent.total() > 0 && !turn.is_more);
    assert_eq!(history.len(), 4);
    can_go_on(&history);
    stage.end().await;
}

#[tokio::test]
async fn what_the_person_denies_is_not_called_and_the_model_is_told_why() {
    let stage = Stage::asking(saying("d not with my numbers")).await;
    let (model, mut history) = (once("calc__add", json!({ "a": 2, "b": 40 })), Vec::new());
    let (turn, _) = stage.turn(&model, &mut history).await;
    assert!(matches!(turn.ended, TurnEnd::Answered), "{turn:?}");
    let given = results(model.asked().last().unwrap());
    assert_eq!(given[0].is_error, Some(true));
    assert!(words(&given[0]).contains("not with my numbers"), "{given:?}");
    assert_eq!(stage.calls.load(Ordering::Relaxed), 0);
    stage.end().await;

    let stage = Stage::asking(saying("o")).await;
    let (model, mut history) = (once("calc__add", json!({ "a": 2, "b": 40 })), Vec::new());
    stage.turn(&model, &mut history).await;
    assert!(words(&results(model.asked().last().unwrap())[0]).contains("42"));
    assert_eq!(stage.calls.load(Ordering::Relaxed), 1);
    stage.end().await;
}

/// Returns these lines one after the other, and the end of input when none are left.
fn script(said: &'static [&'static str]) -> InputLines {
    let mut said = said.iter();
    InputLines::of(move || said.next().map(|line| Ok((*line).to_owned())))
}

/// Sampling and elicitation of servers, and the results, are approved in the chat too.
#[tokio::test]
async fn whatever_waits_for_the_person_is_decided_in_the_chat() {
    let allow = "[[rule]]\nabout = 'tool'\ndecide = 'allow'\n";
    let review = "[[rule]]\nabout = 'tool'\ndecide = 'allow'\nreview = true\n";
    // Stage one is edited by nobody, stage two is denied; then both are let through.
    for (rules, tool, lines, given, failed) in [
        (allow, "calc__wonder", &["o", "d"][..], "rejected", true),
        (allow, "calc__wonder", &["what", "o", "", "o"], "it said forty-two", false),
        (allow, "calc__wonder", &["d"], "rejected", true),
        (allow, "calc__greet", &["o", "f", "Ann", "o"], "hello Ann", false),
        (allow, "calc__greet", &["f", "!"], "", true),
        (review, "calc__add", &["v", "o"], "42", false),
        (review, "calc__add", &["d not this"], "not this", true),
        (review, "calc__add", &[], "", true),
    ] {
        let stage = Stage::by(rules, script(lines)).await;
        let arguments = if tool == "calc__add" { json!({ "a": 2, "b": 40 }) } else { json!({}) };
        let (model, mut history) = (once(tool, arguments), Vec::new());
        let (turn, _) = stage.turn(&model, &mut history).await;
        assert!(matches!(turn.ended, TurnEnd::Answered), "{tool} {lines:?}: {turn:?}");
        let results = results(model.asked().last().unwrap());
        assert_eq!(results[0].is_error, Some(failed), "{tool} {lines:?}: {results:?}");
        assert!(words(&results[0]).contains(given), "{tool} {lines:?}: {results:?}");
        stage.end().await;
    }
}

/// The chat does not ask about what is kept for an application that comes back for it, whatever that calls itself: it may be
/// one of another host.
#[tokio::test]
async fn what_others_wait_for_is_not_asked_in_the_chat() {
    let lines = InputLines::of(|| panic!("nobody is asked"));
    let folder = tempfile::tempdir().unwrap();
    let state = hospes_store::StateStore::open(folder.path().join("state.db")).unwrap();
    let queue = ApprovalQueue::open(&state).await.unwrap();
    let stage = Stage::at(queue, "[[rule]]\ndecide = 'ask'\n", lines).await;
    let gateway = stage.host.as_ref().unwrap().gateway();
    let info = Implementation::new("hospes-chat", "1");
    let silent = |_| std::future::pending::<hospes::Result<ElicitResult>>();
    let other = Client::builder().info(info).elicitation(silent).in_memory(gateway).await.unwrap();
    let queue = stage.host.as_ref().unwrap().guard().unwrap().approvals().clone();
    let mut changes = queue.subscribe();
    let arguments = json!({ "a": 1, "b": 1 });
    tokio::select! {
        called = other.call("calc__add", &arguments) => panic!("{called:?}"),
        never = stage.seat.attend() => match never {},
        () = async {
            while queue.pending().is_empty() {
                changes.changed().await.unwrap();
            }
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        } => {}
    }
    assert!(stage.seat.lines.is_idle(), "a line was wanted");
    other.close().await;
    stage.end().await;
}

/// Only the offered answers to a pending approval are accepted.
#[test]
fn a_letter_is_what_it_says_and_nothing_else() {
    let approval: Approval = serde_json::from_value(json!({
        "id": "m", "asked_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T00:02:00Z", "state": "open",
        "server": "calc", "offers": { "edit": false, "session": false, "always": false, "block": false },
        "card": { "kind": "result", "what": "tool", "name": "add", "arguments": {}, "result": {}, "because": "x" },
    }))
    .unwrap();
    let mut draft = ApprovalDraft::default();
    let of = |line: &str, draft: &ApprovalDraft| ApprovalReply::of(line, &approval, draft);
    assert_eq!(
        of(" d  too dear ", &draft),
        ApprovalReply::Decide(ApprovalDecision::deny_because("too dear"))
    );
    assert_eq!(of("o", &draft), ApprovalReply::Decide(ApprovalDecision::allow()));
    for line in ["", "O", "ok", "o yes", "s", "b", "e", "f", "n", "u", "yes", "A"] {
        assert_eq!(of(line, &draft), ApprovalReply::Other, "{line}");
    }
    draft.edited = Some(RawJson::empty_object());
    assert_eq!(of("u", &draft), ApprovalReply::Undo);
}

#[test]
fn a_plan_can_be_answered_with_one_by_one() {
    let plan: Approval = serde_json::from_value(json!({
        "id": "m", "asked_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T00:02:00Z", "state": "open",
        "server": "hospes", "offers": { "edit": false, "session": false, "always": false, "block": false },
        "card": { "kind": "plan", "heading": "2 calls as one plan", "groups": [], "calls": [] },
    }))
    .unwrap();
    let of = |line: &str| ApprovalReply::of(line, &plan, &ApprovalDraft::default());
    let one_by_one = ApprovalDecision::deny_because(hospes_host::approvals::ONE_BY_ONE_REASON);
    assert_eq!(of("n"), ApprovalReply::Decide(one_by_one));
    assert_eq!(of("o"), ApprovalReply::Decide(ApprovalDecision::allow()));
    assert_eq!(of("n o"), ApprovalReply::Other);
}

#[tokio::test]
async fn a_model_that_asks_for_tools_without_end_is_ended() {
    let stage = Stage::new().await;
    let model = ScriptedProvider::with(|_| ScriptLine::new(wants("1", "add", json!({ "a": 1, "b": 1 }))));
    let mut history = Vec::new();
    let (turn, _) = stage.turn(&model, &mut history).await;
    assert!(matches!(turn.ended, TurnEnd::TooManyRounds), "{turn:?}");
    assert_eq!(stage.calls.load(Ordering::Relaxed), 3);
    can_go_on(&history);
    stage.end().await;
}

#[tokio::test]
async fn a_turn_is_stopped_in_the_middle_of_a_call_and_the_conversation_goes_on() {
    let stage = Stage::new().await;
    let content = vec![
        wants("1", "add", json!({ "a": 1, "b": 1 })),
        wants("2", "stall", json!({})),
        wants("3", "add", json!({ "a": 1, "b": 1 })),
    ];
    let model = ScriptedProvider::new([CreateMessageResult::of("", content)]);
    let table = stage.table(&model).await;
    let mut history = Vec::new();
    let begun = Arc::clone(&stage.begun);
    let stop = pin!(begun.notified());
    let turn = turn(&table, &mut history, "Go", &mut |_| {}, stop).await;
    drop(table);
    assert!(matches!(turn.ended, TurnEnd::Stopped), "{turn:?}");
    assert_eq!(stage.calls.load(Ordering::Relaxed), 1, "what comes after is not called");
    let blocks = &history[2].content;
    let failed = |block: &Block| matches!(block, Block::ToolResult(result) if result.is_error == Some(true));
    assert_eq!(blocks.iter().map(failed).collect::<Vec<_>>(), [false, true, true]);
    can_go_on(&history);
    stage.end().await;
}

/// The question is given up with its call, and the next line is the person's next word.
#[tokio::test]
async fn a_turn_is_stopped_while_the_person_is_asked() {
    let asked = Arc::new(Notify::new());
    let (typed, waiting) = std::sync::mpsc::channel::<&str>();
    let is_asked = Arc::clone(&asked);
    let stage = Stage::asking(InputLines::of(move || {
        is_asked.notify_one();
        waiting.recv().ok().map(|line| Ok(line.to_owned()))
    }));
    let stage = stage.await;
    let model = once("calc__add", json!({ "a": 1, "b": 1 }));
    let table = stage.table(&model).await;
    let mut history = Vec::new();
    let (mut unseen, stop) = (|_: TurnEvent<'_>| {}, pin!(asked.notified()));
    let turn = tokio::select! {
        turn = turn(&table, &mut history, "Go", &mut unseen, stop) => turn,
        never = stage.seat.attend() => match never {},
    };
    drop(table);
    assert!(matches!(turn.ended, TurnEnd::Stopped), "{turn:?}");
    can_go_on(&history);
    let lines = Arc::clone(&stage.seat.lines);
    let next = async { tokio::join!(lines.next(), async { typed.send("o").unwrap() }).0 };
    let next = tokio::time::timeout(Duration::from_secs(10), next).await;
    assert_eq!(next, Ok(Some(Ok("o".to_owned()))));
    assert_eq!(stage.calls.load(Ordering::Relaxed), 0);
    stage.end().await;
}

#[tokio::test]
async fn an_answer_is_stopped_where_it_is() {
    let stage = Stage::new().await;
    let model = ScriptedProvider::new([
        ScriptLine::new("one two three").slowly(Duration::ZERO, Duration::from_millis(5))
    ]);
    let table = stage.table(&model).await;
    let mut history = Vec::new();
    let heard = Arc::new(Notify::new());
    let mut show = |said: TurnEvent<'_>| {
        if said == TurnEvent::Text("two ") {
            heard.notify_one();
        }
    };
    let stop = pin!(heard.notified());
    let turn = turn(&table, &mut history, "Count", &mut show, stop).await;
    assert!(matches!(turn.ended, TurnEnd::Stopped) && turn.is_more, "{turn:?}");
    assert_eq!(history[1].content[0].as_text(), Some("one two  [stopped by the user]"));
    can_go_on(&history);
}

#[tokio::test]
async fn nothing_is_left_of_a_turn_that_has_no_answer() {
    let stage = Stage::new().await;
    let twice = vec![wants("1", "add", json!({})), wants("1", "add", json!({}))];
    for content in [twice, vec![wants("1", "add", json!([1]))]] {
        let mut history = vec![SamplingMessage::user("a"), SamplingMessage::assistant("b")];
        let model = ScriptedProvider::new([CreateMessageResult::of("", content)]);
        let (turn, _) = stage.turn(&model, &mut history).await;
        assert!(matches!(turn.ended, TurnEnd::Failed(_)), "{turn:?}");
        assert!(turn.spent.total() > 0, "it was paid for");
        assert_eq!(history.len(), 2);
    }
    stage.end().await;
}

#[tokio::test]
async fn models_and_servers_cannot_write_to_the_terminal() {
    let stage = Stage::new().await;
    let model = ScriptedProvider::with(|asked| match results(asked).as_slice() {
        [] => {
            let strange = wants("2", "hostile", json!({ "x": "\u{202e}" }));
            CreateMessageResult::of("", vec![wants("1", "hostile", json!({})), strange]).into()
        }
        _ => ScriptLine::from("fine\u{1b}]0;x\u{7}\u{200b}"),
    });
    let (_, seen) = stage.turn(&model, &mut Vec::new()).await;
    // The colours are ours.
    let ours = seen.err.replace("\u{1b}[2m", "").replace("\u{1b}[36m", "").replace("\u{1b}[0m", "");
    let ours = ours.replace("\u{1b}[1;31m", "");
    for text in [&ours, &seen.out] {
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{200b}', '\u{7}']), "{text:?}");
    }
    assert!(ours.contains("good\\u{1b}[2Jbad\\u{202e}"), "{ours}");
    assert_eq!(seen.out, "fine\\u{1b}]0;x\\u{7}\\u{200b}");
    stage.end().await;
}

#[test]
fn what_begins_with_a_slash_is_never_said_to_the_model() {
    assert_eq!(ChatCommand::of(" hello /tools "), ChatCommand::Say("hello /tools"));
    assert_eq!(ChatCommand::of("/model  fast "), ChatCommand::Model(Some("fast")));
    assert_eq!(ChatCommand::of("/quti"), ChatCommand::Unknown("/quti"));
    assert_eq!(ChatCommand::of("/quit now"), ChatCommand::Unknown("/quit"));
    assert_eq!(ChatCommand::of("  "), ChatCommand::Nothing);
}

#[test]
fn talk_stands_on_lines_of_its_own() {
    let mut page = TurnDisplay::default();
    assert_eq!(page.of(TurnEvent::Text("Let me see")).out, "Let me see");
    let aside = page.of(TurnEvent::Result { failed: false, text: "a\nb" });
    assert_eq!(aside.out, "\n");
    assert!(aside.err.contains("a ⏎ b") && aside.err.ends_with('\n'), "{}", aside.err);
    assert_eq!(page.end(), DisplayText::default());
}

#[test]
fn without_a_model_it_is_said_what_to_write() {
    let none = choose_model(&[], None).unwrap_err();
    assert!(none.hint.unwrap().contains("[models.fast]"));
    let models =
        [Model::new("a", ScriptedProvider::new(["x"])), Model::new("b", ScriptedProvider::new(["x"]))];
    assert_eq!(choose_model(&models, None).unwrap().name, "a");
    assert_eq!(choose_model(&models, Some("b")).unwrap().name, "b");
    assert!(choose_model(&models, Some("c")).unwrap_err().hint.unwrap().contains("`a`, `b`"));
}
