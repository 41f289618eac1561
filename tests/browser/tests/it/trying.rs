//! Tools that the person calls on their page.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use hospes_browser_tests::{HospesProgram, RunningHospes, TestBrowser};

const CTRL: &str = "\u{e009}";
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
const NULL: &str = "\u{e000}";

/// Characters that shells, JSON and fields treat in their own ways.
const HARD: &str = r#"it's "$HOME" `id` \n ${x} %s !! 99999999999999999999 ü"#;

struct Trying {
    browser: TestBrowser,
    hospes: HospesProgram,
    _up: RunningHospes,
    origin: String,
}

impl Trying {
    async fn begin(rules: &str) -> Option<Self> {
        let (browser, hospes) = (TestBrowser::start().await?, HospesProgram::find()?);
        let work = hospes.path("work");
        std::fs::create_dir_all(&work).unwrap();
        let policy = hospes.path("policy.toml");
        std::fs::write(&policy, rules).unwrap();
        let servers = format!(
            "[servers.everything]\nbuiltin = 'everything'\n[servers.time]\nbuiltin = 'time'\n\
             [servers.files]\nbuiltin = 'files'\nargs = ['--write', '{}']\n",
            work.display()
        );
        let up = hospes.start_gateway_with(&servers, &["--policy", policy.to_str().unwrap()]);
        browser.open(&hospes.console().await).await;
        browser.wait_for_text("Nothing waits for you").await;
        let origin = browser.url().await.origin().ascii_serialization();
        Some(Self { browser, hospes, _up: up, origin })
    }

    async fn open(&self, server: &str, tool: &str) {
        self.browser.open(&format!("{}/servers/{server}/tools/{tool}", self.origin)).await;
        self.browser.find("[data-call]").await;
    }

    async fn result(&self) -> String {
        self.browser.find("[data-outcome]").await;
        let text = self.browser.run("return document.querySelector('.try-result').textContent").await;
        text.as_str().unwrap().to_owned()
    }
}

const ALLOW: &str = "[[rule]]\ndecide = 'allow'\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_called_by_keyboard_and_its_command_does_the_same_in_a_shell() {
    let Some(house) = Trying::begin(ALLOW).await else { return };
    let browser = &house.browser;
    // From the list of tools of the server.
    browser.open(&format!("{}/servers/everything", house.origin)).await;
    browser.find("[data-try=greet]").await;
    browser.run("document.querySelector('[data-try=greet]').closest('details').open = true").await;
    browser.press("[data-try=greet]").await;
    browser.fill("#argument-name", HARD).await;
    let field = browser.find("#argument-name").await;
    field.send_keys(format!("{CTRL}{ENTER}{NULL}")).await.unwrap();
    let said = house.result().await;
    assert!(said.contains(HARD) && said.contains("done"), "{said}");
    browser.take_screenshot("try-greet").await;
    // Exactly the same call from a shell.
    let command = browser.run("return document.querySelector('[data-command]').textContent").await;
    let ran = house.hospes.run_in_shell(command.as_str().unwrap()).await;
    assert!(ran.code == Some(0) && ran.said.contains(HARD), "{command}: {ran:?}");
    // The button copies just that.
    let copied = browser.run("return document.querySelector('.try-do [data-copy]').dataset.copy").await;
    assert_eq!(copied, command);
    // Earlier calls fill the form again, in this window.
    browser.fill("#argument-name", "other").await;
    browser.run("document.querySelector('[data-again]').focus()").await;
    browser.keys(ENTER).await;
    let again = browser.run("return document.querySelector('#argument-name').value").await;
    assert_eq!(again, HARD.replace("\\u{", "\\u{5c}u{"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_tells_absent_from_null_and_nests() {
    let Some(house) = Trying::begin(ALLOW).await else { return };
    let browser = &house.browser;
    house.open("everything", "json_schema_2020_12_tool").await;
    let json = async || {
        browser.run("document.querySelector('.try-form .tabs button:last-child').click()").await;
        let text = browser.run("return document.querySelector('[data-json]').value").await;
        browser.run("document.querySelector('.try-form .tabs button').click()").await;
        serde_json::from_str::<serde_json::Value>(text.as_str().unwrap()).unwrap()
    };
    let set = async |id: &str, state: &str| {
        let script = format!(
            "const field = document.getElementById('{id}-presence'); field.value = '{state}'; \
             field.dispatchEvent(new Event('change'))"
        );
        browser.run(&script).await;
    };
    assert_eq!(json().await, serde_json::json!({}));
    set("argument-address", "value").await;
    set("argument-address-city", "value").await;
    browser.fill("#argument-address-city", "Graz").await;
    set("argument-contactMethod", "value").await;
    assert_eq!(json().await, serde_json::json!({ "address": { "city": "Graz" }, "contactMethod": "phone" }));
    set("argument-contactMethod", "absent").await;
    assert_eq!(json().await, serde_json::json!({ "address": { "city": "Graz" } }));
    browser.take_screenshot("try-form").await;
    house.open("time", "now").await;
    set("argument-timezone", "null").await;
    assert_eq!(json().await, serde_json::json!({ "timezone": null }));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_destroys_needs_a_second_press_rules_ask_and_a_call_is_cancelled() {
    let Some(house) = Trying::begin("[[rule]]\ndecide = 'ask'\ntool = 'write_file'\n").await else { return };
    let browser = &house.browser;
    house.open("files", "write_file").await;
    browser.fill("#argument-path", "a.txt").await;
    browser.fill("#argument-content", "from the console").await;
    browser.press("[data-call]").await;
    browser.wait_for_text("Press again: this may destroy something").await;
    // Twice at once is one press.
    browser.run("document.querySelector('[data-call]').click()").await;
    assert!(!browser.text().await.contains("waits for a decision"));
    let waits = async || {
        loop {
            browser.run("document.querySelector('[data-call]')?.click()").await;
            if browser.text().await.contains("waits for a decision") {
                return;
            }
        }
    };
    waits().await;
    browser.take_screenshot("try-waits").await;
    // Given up: the approval goes with it.
    browser.click("h1").await;
    browser.keys(ESCAPE).await;
    assert!(house.result().await.contains("cancelled"));
    browser.click("h1").await;
    waits().await;
    browser.press("[data-decide]").await;
    browser.wait_for_text("you, in the console").await;
    browser.find("[data-once][aria-disabled=false]").await;
    // A key would decide only about a card that was chosen before; a pressed button is a choice.
    browser.press("[data-once]").await;
    browser.wait_for_text("No pending approvals").await;
    browser.driver().back().await.unwrap();
    browser.find("[data-outcome=done]").await;
    assert_eq!(std::fs::read_to_string(house.hospes.path("work/a.txt")).unwrap(), "from the console");
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_drawn_and_secrets_are_not_kept() {
    let Some(house) = Trying::begin(ALLOW).await else { return };
    let browser = &house.browser;
    house.open("everything", "test_image_content").await;
    browser.keys("x").await;
    browser.find("canvas[data-drawn]").await;
    house.open("everything", "greet").await;
    browser.run("document.querySelector('.try-form .tabs button:last-child').click()").await;
    browser
        .run(
            "const box = document.querySelector('[data-json]'); \
             box.value = JSON.stringify({ name: 'x', inner: { api_key: 'hunter2' } }); \
             box.dispatchEvent(new Event('input'))",
        )
        .await;
    browser.press("[data-call]").await;
    browser.find("[data-outcome]").await;
    let kept = browser.run("return sessionStorage.getItem('hospes-tried') + localStorage.length").await;
    let kept = kept.as_str().unwrap();
    assert!(kept.contains("greet") && !kept.contains("hunter2"), "{kept}");
}
