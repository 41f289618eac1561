//! A person accepts, allows and denies what was shown to them, at a desk and on a phone.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;

use hospes::client::CallError;
use hospes::prelude::*;
use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes_browser_tests::{HospesProgram, RunningHospes, TestBrowser, WAIT_TIMEOUT};
use serde_json::Value;
use tokio::task::JoinHandle;

const RULES: &str = "
[[rule]]
decide = 'ask'
server = 'mail'
";

/// The two screens: a desk and a phone, in CSS pixels.
const SCREENS: [(u32, u32); 2] = [(1280, 900), (390, 844)];

/// A text that reads otherwise than it is.
const HIDDEN: &str = "to\u{202e}gpj.exe \\u{41}\u{200b}";

fn send_email(description: &str) -> Tool {
    let schema = json!({ "type": "object", "properties": { "to": { "type": "string" }, "body": { "type": "string" } } });
    Tool::new("send_email").description(description).input_schema(schema)
}

/// A mail server in front of a host, with its console in a browser.
struct House {
    browser: TestBrowser,
    hospes: HospesProgram,
    _up: RunningHospes,
    server: ServerHandle,
    serving: JoinHandle<()>,
    client: Arc<Client>,
}

impl Drop for House {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl House {
    async fn build(args: &[&str]) -> Option<Self> {
        let (browser, hospes) = (TestBrowser::start().await?, HospesProgram::find()?);
        let edit = json!({ "type": "object", "properties": { "path": { "type": "string" }, "edits": { "type": "array", "items": {
            "type": "object", "properties": { "old_text": { "type": "string" }, "new_text": { "type": "string" } } } } } });
        let server = Server::new("mail", "1")
            .tool(
                send_email("Sends an email."),
                |arguments: RawJson| async move { arguments.as_str().to_owned() },
            )
            .tool(Tool::new("list").description("Lists mails."), || async { "none" })
            .tool(Tool::new("edit_file").input_schema(edit), |arguments: RawJson| async move {
                arguments.as_str().to_owned()
            });
        let handle = server.handle();
        let http = HttpServer::bind("127.0.0.1:0", Endpoint::new(server)).await.unwrap();
        let config = format!("[servers.mail]\nurl = '{}'", http.url());
        let serving = tokio::spawn(async move {
            let _ended = http.serve().await;
        });
        let policy = hospes.path("policy.toml");
        std::fs::write(&policy, RULES).unwrap();
        let up =
            hospes.start_gateway_with(&config, &[&["--policy", policy.to_str().unwrap()], args].concat());
        let link = hospes.console().await;
        browser.open(&link).await;
        browser.wait_for_text("waits for").await;
        browser.keys("1").await;
        browser.wait_for_text("No pending approvals").await;
        let client = Arc::new(Client::connect(up.url.as_str()).await.unwrap());
        Some(Self { browser, hospes, _up: up, server: handle, serving, client })
    }

    fn call(&self, tool: &str, arguments: &Value) -> JoinHandle<Result<CallToolResult, CallError>> {
        let (client, tool) = (Arc::clone(&self.client), format!("mail__{tool}"));
        let arguments = RawJson::parse(arguments.to_string()).unwrap();
        tokio::spawn(async move { Client::call(&client, &tool, arguments).await })
    }

    async fn open(&self, path: &str) {
        let origin = self.browser.url().await.origin().ascii_serialization();
        self.browser.open(&format!("{origin}{path}")).await;
    }

    async fn is_enabled(&self, selector: &str) -> bool {
        let script = format!(
            "const node = document.querySelector({selector:?}); return !node.disabled && node.getAttribute('aria-disabled') !== 'true'"
        );
        self.browser.run(&script).await == true
    }

    /// The number of calls that wait for a decision.
    async fn waiting(&self) -> u64 {
        let asked = self
            .browser
            .run(
                "const headers = { 'x-hospes-key': localStorage.getItem('hospes-key') };
                 return (await (await fetch('/api/approvals', { headers })).json()).open.length;",
            )
            .await;
        asked.as_u64().unwrap_or_else(|| panic!("no number of waiting calls: {asked}"))
    }
}

async fn said(calling: JoinHandle<Result<CallToolResult, CallError>>) -> String {
    let ended = tokio::time::timeout(WAIT_TIMEOUT, calling).await.expect("an end").unwrap();
    ended.map_or_else(|error| error.to_string(), |result| result.all_text())
}

/// The changed parts are expanded and come first. Neither the tool nor the server is accepted before the changes were
/// in view, and the host verifies what was shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_tool_is_shown_before_it_is_accepted() {
    for (width, height) in SCREENS {
        let Some(house) = House::build(&["--pins", "ask"]).await else { return };
        let browser = &house.browser;
        browser.resize_window(width, height).await;
        house.open("/servers/mail").await;
        browser.wait_for_text("It was never accepted").await;
        browser.press("[data-trust]").await;
        browser.wait_for_text("The server itself").await;
        browser.find(".definition .code").await;
        browser.show_all().await;
        browser.press("[data-accept=server]").await;
        browser.wait_for_text("mail: accepted.").await;

        // The poisoned text is long, so that its end is below the window.
        let poison = format!("Sends an email.\n{}\u{202e}hidden{}", "and so on\n".repeat(120), "\u{200b}");
        assert!(house.server.remove_tool("send_email"));
        house.server.add_tool(send_email(&poison), || async { "sent" }).unwrap();
        browser.wait_for_text("changed").await;
        browser.wait_for_text("\\u{202e}hidden").await;
        let first = browser.run("return document.querySelector('.definition .name').textContent").await;
        assert_eq!(first, "send_email", "what changed comes first");
        assert_eq!(browser.run("return document.querySelector('.definition details').open").await, true);
        let button = browser.find("[data-accept=server]").await.text().await.unwrap();
        assert_eq!(button, "Accept 1 changed tool with 1 warning: send_email");
        assert!(!house.is_enabled("[data-accept=server]").await, "nothing of it was shown");
        assert!(!house.is_enabled("[data-accept=send_email]").await);
        browser.take_screenshot("trust-unshown").await;
        browser.resize_window(width, height).await;
        // The person's own programs cannot leave it out either.
        let tried = browser
            .run(
                "const key = localStorage.getItem('hospes-key');
                 const all = await (await fetch('/api/definitions/mail', { headers: { 'x-hospes-key': key } })).json();
                 const answer = await fetch('/api/definitions/mail/accept', { method: 'POST', headers: { 'x-hospes-key': key, 'content-type': 'application/json' },
                   body: JSON.stringify({ hash: all.hash }) });
                 return [answer.status, await answer.text()];",
            )
            .await;
        assert!(tried[0] == 409 && tried[1].as_str().unwrap().contains("send_email"), "{tried}");

        browser.show_all().await;
        assert!(house.is_enabled("[data-accept=server]").await);
        let sizes = browser
            .run(
                "return ['accept', 'reject'].map((what) => { const box = document.querySelector(`[data-${what}=server]`).getBoundingClientRect();
                 return [Math.round(box.height), box.width]; })",
            )
            .await;
        assert_eq!(sizes[0][0], sizes[1][0], "both weigh the same: {sizes}");
        browser.take_screenshot("trust-shown").await;
        browser.resize_window(width, height).await;
        browser.press("[data-accept=server]").await;
        browser.wait_for_text("mail: accepted.").await;
    }
}

/// One key decides one call: the next card is chosen by the person before a key decides anything about it.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_decision_the_same_key_decides_nothing_else() {
    for (width, height) in SCREENS {
        let Some(house) = House::build(&["--pins", "first-use"]).await else { return };
        let browser = &house.browser;
        browser.resize_window(width, height).await;
        let first = house.call("send_email", &json!({ "to": "ann@example.com", "body": "x" }));
        browser.wait_for_text("1 of 1").await;
        let second = house.call("send_email", &json!({ "to": "bob@example.com", "body": "x" }));
        browser.wait_for_text("1 of 2").await;
        let third = house.call("edit_file", &json!({ "path": "/etc/hosts", "edits": [] }));
        let page = browser.wait_for_text("1 of 3").await;
        // The rows tell them apart.
        for words in ["· send a message", "ann@example.com", "bob@example.com", "· write", "hosts"] {
            assert!(page.contains(words), "{words}: {page}");
        }
        // A key decides only about a card that the person chose.
        browser.show_all().await;
        browser.find("[data-once][aria-disabled=false]").await;
        browser.keys("o").await;
        browser.wait_for_text("Choose this card first").await;
        assert!(!first.is_finished());
        browser.keys("j").await;
        browser.find(".matter.chosen").await;
        browser.take_screenshot(&format!("queue-rows-{width}")).await;
        browser.resize_window(width, height).await;
        browser.show_all().await;
        browser.find("[data-once][aria-disabled=false]").await;
        browser.keys("o").await;
        assert!(said(first).await.contains("ann@example.com"));
        // Its neighbour comes up, and nobody has chosen it.
        browser.wait_for_text("1 of 2").await;
        browser.find(".matter:not(.chosen)").await;
        browser.take_screenshot(&format!("queue-choose-{width}")).await;
        browser.resize_window(width, height).await;
        // By the page's clock, long after a card would have been armed.
        browser
            .run("const begun = performance.now.bind(performance); performance.now = () => begun() + 10000;")
            .await;
        browser.keys("o").await;
        browser.keys("d").await;
        assert!(!second.is_finished() && !third.is_finished());
        // Chosen, it is decided.
        browser.keys("j").await;
        browser.wait_for_text("1 of 2").await;
        browser.show_all().await;
        browser.find("[data-once][aria-disabled=false]").await;
        browser.keys("o").await;
        assert!(said(second).await.contains("bob@example.com"));
        browser.wait_for_text("1 of 1").await;
        assert!(!third.is_finished());
        browser.click(".matter-head").await;
        browser.find(".matter.chosen").await;
        browser.show_all().await;
        browser.find("[data-deny][aria-disabled=false]").await;
        browser.keys("d").await;
        assert!(!said(third).await.contains("hosts"));
        // A card that comes up by itself is not decided by the key that decided the last one either.
        browser.wait_for_text("No pending approvals.").await;
        let fourth = house.call("list", &json!({}));
        browser.wait_for_text("1 of 1").await;
        browser.show_all().await;
        browser.find("[data-once][aria-disabled=false]").await;
        browser.keys("o").await;
        assert!(!fourth.is_finished());
        browser.press("[data-once]").await;
        assert_eq!(said(fourth).await, "none");
    }
}

/// Hidden characters of a text are visible where it is edited. Unchanged text is sent as it came.
#[tokio::test(flavor = "multi_thread")]
async fn hidden_characters_are_escaped_where_they_are_edited_and_sent_as_they_were() {
    for (width, height) in SCREENS {
        let Some(house) = House::build(&["--pins", "first-use"]).await else { return };
        let browser = &house.browser;
        browser.resize_window(width, height).await;
        let calling = house.call("send_email", &json!({ "to": HIDDEN, "body": "x" }));
        browser.wait_for_text("1 of 1").await;
        browser.show_all().await;
        browser.find("[data-once][aria-disabled=false]").await;
        browser.keys("e").await;
        let field = browser.find("#field-to").await.value().await.unwrap().unwrap();
        assert_eq!(field, "to\\u{202e}gpj.exe \\u{5c}u{41}\\u{200b}");
        browser.take_screenshot(&format!("edit-hidden-{width}")).await;
        browser.resize_window(width, height).await;
        browser.fill("#field-body", "y").await;
        browser.press(".tabs button:nth-child(2)").await;
        let raw = browser.find("textarea[aria-label='As JSON']").await.value().await.unwrap().unwrap();
        assert!(raw.contains("\\u202e") && !raw.contains('\u{202e}'), "{raw}");
        browser.fill("textarea[aria-label='As JSON']", &raw.replace("\"y\"", "\"z\"")).await;
        browser.press("[data-once]").await;
        let got: Value = serde_json::from_str(&said(calling).await).unwrap();
        assert_eq!(got, json!({ "to": HIDDEN, "body": "z" }));

        // The same in a lasting rule: it fits the value that it was made of.
        // What comes while the page still shows a decision has to be chosen.
        browser.wait_for_text("No pending approvals.").await;
        let calling = house.call("send_email", &json!({ "to": HIDDEN, "body": "x" }));
        browser.wait_for_text("1 of 1").await;
        browser.show_all().await;
        browser.find("[data-always][aria-disabled=false]").await;
        browser.press("[data-always]").await;
        let condition = browser.find("[data-condition=to]").await.value().await.unwrap().unwrap();
        assert_eq!(condition, "to\\u{202e}gpj.exe \\u{5c}u{41}\\u{200b}");
        assert_eq!(browser.run("return document.querySelector('[data-no-others]').checked").await, true);
        browser.take_screenshot(&format!("rule-hidden-{width}")).await;
        browser.resize_window(width, height).await;
        browser.press("[data-give]").await;
        said(calling).await;
        let again = said(house.call("send_email", &json!({ "to": HIDDEN, "body": "x" }))).await;
        assert!(again.contains("exe"), "nobody is asked again: {again}");
        // An argument that was not on the card is not covered.
        browser.wait_for_text("No pending approvals.").await;
        let more = house.call("send_email", &json!({ "to": HIDDEN, "body": "x", "cc": "eve@example.com" }));
        browser.wait_for_text("1 of 1").await;
        assert!(!more.is_finished());
    }
}

/// Allowing waits until the arguments were in view to their end, on a desk and on a phone.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_allowed_before_its_arguments_were_shown() {
    for (width, height) in SCREENS {
        let Some(house) = House::build(&["--pins", "first-use"]).await else { return };
        let browser = &house.browser;
        browser.resize_window(width, height).await;
        let body = format!("{}\nand the last line", "a line of it\n".repeat(150));
        let calling = house.call("send_email", &json!({ "to": "ann@example.com", "body": body }));
        browser.wait_for_text("1 of 1").await;
        browser.find("[data-deny][aria-disabled=false]").await;
        assert!(!house.is_enabled("[data-once]").await, "its end was not shown at {width} px");
        browser.take_screenshot(&format!("unshown-{width}")).await;
        browser.resize_window(width, height).await;
        browser.keys("o").await;
        browser.run("document.querySelector('[data-once]').click()").await;
        assert_eq!(house.waiting().await, 1, "the host was told nothing");
        assert!(!calling.is_finished());
        browser.show_all().await;
        browser.find("[data-once][aria-disabled=false]").await;
        browser.press("[data-once]").await;
        assert!(said(calling).await.contains("the last line"));
    }
}

/// An edit of a text is a difference of words, also where it is one of several.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_a_file_is_shown_as_a_difference() {
    for (width, height) in SCREENS {
        let Some(house) = House::build(&["--pins", "first-use"]).await else { return };
        let browser = &house.browser;
        browser.resize_window(width, height).await;
        let edits = json!([{ "old_text": "pay 10 to ann", "new_text": "pay 1000 to mallory" }, { "old_text": "gone", "new_text": "" }]);
        let calling = house.call("edit_file", &json!({ "path": "notes.txt", "edits": edits }));
        browser.wait_for_text("1 of 1").await;
        let parts = browser
            .run("return ['del', 'ins'].map((tag) => [...document.querySelectorAll(`.matter ${tag}`)].map((one) => one.textContent))")
            .await;
        assert_eq!(parts, json!([["10", "ann", "gone"], ["1000", "mallory"]]));
        let page = browser.text().await;
        assert!(!page.contains("\"old_text\""), "{page}");
        browser.take_screenshot(&format!("edit-diff-{width}")).await;
        browser.resize_window(width, height).await;
        browser.find("[data-deny][aria-disabled=false]").await;
        browser.keys("j").await;
        browser.keys("d").await;
        said(calling).await;
    }
}

/// Calls that were not decided in time are listed as missed to any later visitor. Calls wait even if no page is open.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_missed_is_listed_for_whoever_looks_later() {
    for (width, height) in SCREENS {
        let Some(house) = House::build(&["--pins", "first-use", "--approval-timeout", "2"]).await else {
            return;
        };
        let browser = &house.browser;
        browser.resize_window(width, height).await;
        // Nobody has a page of the console open.
        browser.open("about:blank").await;
        let refused = said(house.call("send_email", &json!({ "to": "ann@example.com", "body": "x" }))).await;
        assert!(refused.contains("no decision was made in time"), "{refused}");
        browser.open(&house.hospes.console().await).await;
        browser.wait_for_text("Nothing waits for you").await;
        browser.keys("1").await;
        let page = browser.wait_for_text("Missed").await;
        assert!(page.contains("send a message") && page.contains("ann@example.com"), "{page}");
        browser.take_screenshot(&format!("missed-{width}")).await;
    }
}

/// After three like answers the card proposes a permission for the approved values and nothing wider.
#[tokio::test(flavor = "multi_thread")]
async fn three_like_answers_suggest_a_permission_for_just_these_values() {
    let Some(house) = House::build(&["--pins", "first-use", "--audit-arguments"]).await else { return };
    let browser = &house.browser;
    let mail = |to: &str| house.call("send_email", &json!({ "to": to, "body": "the report" }));
    for to in ["ann@example.com", "bob@example.com", "ann@example.com"] {
        let calling = mail(to);
        browser.wait_for_text("1 of 1").await;
        browser.show_all().await;
        browser.find("[data-once][aria-disabled=false]").await;
        assert_eq!(
            browser.run("return document.querySelector('[data-suggestion]') === null").await,
            true,
            "{to}"
        );
        browser.press("[data-once]").await;
        assert!(said(calling).await.contains(to));
        browser.wait_for_text("No pending approvals.").await;
    }
    // One to somebody else is no like call.
    let other = mail("eve@example.com");
    browser.wait_for_text("1 of 1").await;
    assert_eq!(browser.run("return document.querySelector('[data-suggestion]') === null").await, true);
    browser.find("[data-deny][aria-disabled=false]").await;
    browser.press("[data-deny]").await;
    said(other).await;
    browser.wait_for_text("No pending approvals.").await;

    let calling = mail("bob@example.com");
    browser.wait_for_text("it would have decided 3 of 4 calls").await;
    let proposed = browser.find("[data-suggestion]").await.text().await.unwrap();
    for words in ["You allowed 3 calls like this one", "ann@example.com or bob@example.com", "the report"] {
        assert!(proposed.contains(words) && !proposed.contains("eve@"), "{words}: {proposed}");
    }
    browser.show_all().await;
    browser.find("[data-repeat][aria-disabled=false]").await;
    browser.take_screenshot("suggestion").await;
    browser.run("document.querySelector('[data-repeat]').scrollIntoView({ block: 'center' })").await;
    browser.press("[data-repeat]").await;
    assert!(said(calling).await.contains("bob"));
    // These values are allowed from now on, and no others.
    assert!(said(mail("ann@example.com")).await.contains("ann"));
    assert!(said(mail("bob@example.com")).await.contains("bob"));
    browser.wait_for_text("No pending approvals.").await;
    let other = mail("eve@example.com");
    browser.wait_for_text("1 of 1").await;
    assert!(!other.is_finished());
}
