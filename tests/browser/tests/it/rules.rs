//! The rule editor.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use hospes::prelude::*;
use hospes_browser_tests::{HospesProgram, TestBrowser};

const RULES: &str = "# Mine.
[[rule]]
name = 'the time is precious' # very
decide = 'ask'
server = 'time'
";

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_shows_its_effect_is_saved_with_comments_kept_and_undone() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let policy = hospes.path("policy.toml");
    std::fs::write(&policy, RULES).unwrap();
    let up = hospes.start_gateway_with(
        "[servers.time]\nbuiltin = 'time'\n",
        &["--policy", policy.to_str().unwrap(), "--approval-timeout", "1", "--audit-arguments"],
    );
    let agent = Client::connect(up.url.as_str()).await.unwrap();
    let call =
        async || Client::call(&agent, "time__now", serde_json::json!({ "timezone": "UTC" })).await.unwrap();
    assert!(call().await.has_failed(), "nobody is there");
    browser.open(&hospes.console().await).await;
    browser.press("[data-allow-next=now]").await;

    // What it would have decided, and that an earlier rule is in the way.
    browser.find("[data-conflict='1']").await;
    browser.wait_for_text("the time is precious").await;
    browser.take_screenshot("rule-conflict").await;
    browser.press("[data-conflict] button").await;
    browser.wait_for_text("would have allowed 1").await;
    // Names that do not exist are told, with the nearest that do.
    browser.fill("#rule-tool", "nwo").await;
    let text = browser.wait_for_text("did you mean").await;
    assert!(text.contains("now"), "{text}");
    browser.fill("#rule-tool", "now").await;
    browser.wait_until_gone("[data-unmatched]").await;
    browser.wait_for_text("would have allowed 1").await;
    // The address is the rule, so it can be kept.
    let url = browser.url().await;
    browser.open(url.as_str()).await;
    browser.wait_for_text("would have allowed 1").await;
    // The fields below are open, because one of them, the place, is part of the address.
    browser.fill("#rule-name", "shown \u{202e}name").await;
    browser.wait_for_text("\\U0000202E").await;
    browser.take_screenshot("rule-effect").await;

    browser.find("[data-save]:not(:disabled)").await;
    browser.run("document.querySelector('#rule-name').focus()").await;
    browser.keys("\u{e007}").await;
    browser.find("[data-undo]").await;
    let text = std::fs::read_to_string(&policy).unwrap();
    assert!(text.starts_with("# Mine.\n") || text.ends_with(RULES.trim_start_matches("# Mine.\n")), "{text}");
    assert!(text.contains("'the time is precious' # very") && text.contains("decide = \"allow\""), "{text}");
    while call().await.has_failed() {}
    browser.press("[data-undo]").await;
    browser.wait_for_text("The rule is removed again").await;
    assert_eq!(std::fs::read_to_string(&policy).unwrap(), RULES);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_cannot_be_saved_says_why() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let policy = hospes.path("policy.toml");
    std::fs::write(&policy, RULES).unwrap();
    let _up = hospes
        .start_gateway_with("[servers.time]\nbuiltin = 'time'\n", &["--policy", policy.to_str().unwrap()]);
    browser.open(&hospes.console().await).await;
    browser.wait_for_text("Nothing waits for you").await;
    browser.keys("4").await;
    browser.press("[data-new-rule]").await;
    browser.find("[data-effect]").await;
    // The file is broken by hand in the meantime.
    std::fs::write(&policy, format!("{RULES}oops")).unwrap();
    browser.fill("#rule-server", "time").await;
    browser.find("[data-save]:disabled").await;
    browser.find(".rule-editor .problem").await;
    assert_eq!(std::fs::read_to_string(&policy).unwrap(), format!("{RULES}oops"));
}

/// Three like answers become a rule for exactly these values: added and undone by keyboard.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_is_proposed_from_like_answers_added_and_undone() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let policy = hospes.path("policy.toml");
    std::fs::write(&policy, RULES).unwrap();
    let up = hospes.start_gateway_with(
        "[servers.time]\nbuiltin = 'time'\n",
        &["--policy", policy.to_str().unwrap(), "--audit-arguments"],
    );
    browser.open(&hospes.console().await).await;
    browser.wait_for_text("Nothing waits for you").await;
    let agent = std::sync::Arc::new(Client::connect(up.url.as_str()).await.unwrap());
    let call = |zone: &str| {
        let (agent, zone) = (std::sync::Arc::clone(&agent), zone.to_owned());
        tokio::spawn(async move {
            Client::call(&agent, "time__now", serde_json::json!({ "timezone": zone })).await.unwrap()
        })
    };
    browser.keys("4").await;
    browser.wait_for_text("the time is precious").await;
    assert!(!browser.text().await.contains("Proposed rules"));
    browser.keys("1").await;
    for (zone, button) in [("UTC", "once"), ("Asia/Tokyo", "deny"), ("UTC", "once"), ("UTC", "once")] {
        let calling = call(zone);
        browser.wait_for_text("1 of 1").await;
        browser.show_all().await;
        browser.find(&format!("[data-{button}][aria-disabled=false]")).await;
        browser.press(&format!("[data-{button}]")).await;
        assert_eq!(calling.await.unwrap().has_failed(), button == "deny");
        browser.wait_for_text("No pending approvals.").await;
    }
    browser.keys("4").await;
    let page = browser.wait_for_text("asked 4 times, allowed 3").await;
    for words in ["All of these had the values below", "would have allowed 3, 1 unchanged", "UTC"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!page.contains("Tokyo"), "{page}");
    browser.take_screenshot("rule-proposed").await;
    browser.keys("j").await;
    browser.keys("\u{e007}").await;
    browser.find("[data-undo]").await;
    let text = std::fs::read_to_string(&policy).unwrap();
    assert!(text.contains("{ is = \"UTC\" }") && text.contains("'the time is precious' # very"), "{text}");
    browser.take_screenshot("rule-added").await;
    // Not asked any more. The host reads the file soon after it was saved; a call before that waits, and is given up.
    loop {
        let mut calling = call("UTC");
        match tokio::time::timeout(std::time::Duration::from_millis(500), &mut calling).await {
            Ok(answer) => break assert!(!answer.unwrap().has_failed()),
            Err(_waits) => calling.abort(),
        }
    }
    browser.press("[data-undo]").await;
    browser.wait_for_text("The rule is removed again").await;
    assert_eq!(std::fs::read_to_string(&policy).unwrap(), RULES);
    browser.wait_for_text("asked").await;
}

const TWO: &str = "# Mine.
preset = 'open'

# About the time.
[[rule]]
name = 'the time is precious' # very
decide = 'ask'
server = 'time'
until = 2099-01-01

[[rule]]
name = 'never now'
decide = 'deny'
tool = 'now'
reason = 'not now'
arguments = { timezone = { is = 'UTC' } }
";

/// All of it by keyboard.
#[tokio::test(flavor = "multi_thread")]
async fn saved_rules_are_changed_moved_and_deleted_and_that_is_undone() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let policy = hospes.path("policy.toml");
    let text = || std::fs::read_to_string(&policy).unwrap();
    std::fs::write(&policy, TWO).unwrap();
    let up = hospes.start_gateway_with(
        "[servers.time]\nbuiltin = 'time'\n",
        &["--policy", policy.to_str().unwrap(), "--approval-timeout", "1", "--audit-arguments"],
    );
    let agent = Client::connect(up.url.as_str()).await.unwrap();
    let call =
        async || Client::call(&agent, "time__now", serde_json::json!({ "timezone": "UTC" })).await.unwrap();
    assert!(call().await.has_failed(), "nobody is there");
    browser.open(&hospes.console().await).await;
    browser.wait_for_text("Nothing waits for you").await;
    browser.keys("4").await;

    // The first rule that matches decides: moved up, the other one does.
    let page = browser.wait_for_text("never now").await;
    assert!(page.contains("The first rule that matches a call decides"), "{page}");
    browser.find("[data-rule-up='1']:disabled").await;
    browser.take_screenshot("rules-list").await;
    browser.press("[data-rule-up='2']").await;
    browser.wait_for_text("is moved up").await;
    browser.find("[data-rule-number='1'] [data-rule-down]:not(:disabled)").await;
    let moved = text();
    assert!(moved.find("never now") < moved.find("# About the time.\n[[rule]]\nname = 'the time"), "{moved}");
    while !call().await.all_text().contains("not now") {}
    browser.press("[data-undo-rules]").await;
    browser.wait_for_text("The rules are as they were before").await;
    assert_eq!(text(), TWO);

    // Changed in the editor, with the effect on what was called; what it does not know stays.
    browser.press("[data-rule-edit='1']").await;
    let page = browser.wait_for_text("Change rule 1").await;
    assert!(page.contains("policy.toml, line"), "{page}");
    browser.wait_for_text("until = 2099-01-01").await;
    browser.wait_for_text("would have asked").await;
    browser.fill("#rule-tool", "now").await;
    browser.wait_for_text("tool = \"now\"").await;
    browser.take_screenshot("rule-change").await;
    browser.fill("#rule-tool", "nwo").await;
    browser.wait_for_text("would no longer have decided").await;
    browser.fill("#rule-tool", "now").await;
    browser.wait_until_gone("[data-unmatched]").await;
    browser.press("[data-save]").await;
    browser.find("[data-undo]").await;
    assert_eq!(text(), TWO.replace("2099-01-01\n", "2099-01-01\ntool = \"now\"\n"));
    browser.press("[data-undo]").await;
    browser.wait_for_text("The rule is as it was before").await;
    assert_eq!(text(), TWO);
    // A change of somebody else in the meantime is not overwritten.
    let theirs = format!("{TWO}# theirs\n");
    std::fs::write(&policy, &theirs).unwrap();
    browser.fill("#rule-tool", "convert").await;
    browser.wait_for_text("has changed in the meantime").await;
    browser.find("[data-save]:disabled").await;
    browser.press(".crumb a").await;

    // Deleted with its comment, and undone.
    browser.press("[data-rule-remove='1']").await;
    browser.wait_for_text("is deleted").await;
    assert!(
        !text().contains("About the time") && text().contains("preset = 'open'\n\n[[rule]]\nname = 'never"),
        "{}",
        text()
    );
    browser.press("[data-undo-rules]").await;
    browser.wait_for_text("The rules are as they were before").await;
    assert_eq!(text(), theirs);

    // Rules that the console cannot write are shown with their file and line.
    std::fs::write(&policy, "rule = [{ name = 'in one line', decide = 'ask' }]\n").unwrap();
    browser.wait_for_text("in one line").await;
    let page = browser.wait_for_text("The rules can only be read here").await;
    assert!(page.contains("policy.toml, line 1"), "{page}");
    browser.wait_until_gone("[data-rule-edit]").await;
}
