//! The first page: what needs a person, the map, and what went wrong.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;

use hospes::prelude::*;
use hospes_browser_tests::{HospesProgram, RunningHospes, TestBrowser};

/// Servers, of which one cannot be started.
pub(crate) const SERVERS: &str = "
[servers.time]
builtin = 'time'
[servers.everything]
builtin = 'everything'
[servers.lost]
command = 'no-such-program-anywhere'
";

const RULES: &str = "
[[rule]]
decide = 'ask'
server = 'time'
[[rule]]
decide = 'deny'
tool = 'greet'
";

fn up(hospes: &HospesProgram, args: &[&str]) -> RunningHospes {
    let policy = hospes.path("policy.toml");
    std::fs::write(&policy, RULES).unwrap();
    hospes.start_gateway_with(SERVERS, &[&["--policy", policy.to_str().unwrap()], args].concat())
}

/// The text of the table that says the same as the map.
async fn table(browser: &TestBrowser) -> String {
    let text = browser.run("return document.querySelector('.map-table').textContent").await;
    text.as_str().unwrap().to_owned()
}

const ENTER: &str = "\u{e007}";

#[tokio::test(flavor = "multi_thread")]
async fn home_shows_what_needs_a_person_what_runs_and_what_went_wrong() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let up = up(&hospes, &["--approval-timeout", "20"]);
    browser.open(&hospes.console().await).await;
    browser.wait_for_text("Nothing waits for you").await;
    // The endpoint, the state of the servers and the remedy of one that cannot be started.
    let text = browser.wait_for_text("hospes doctor lost").await;
    assert!(text.contains(&up.url) && text.contains("no-such-program-anywhere"), "{text}");
    assert!(text.contains("No application has called today"), "{text}");
    browser.take_screenshot("home-new").await;

    let agent = Arc::new(Client::connect(up.url.as_str()).await.unwrap());
    Client::call(&agent, "everything__greet", serde_json::json!({ "name": "x" })).await.unwrap();
    browser.find("[data-node=everything] .sharp").await;
    // A call that waits is needed, and seen as one that runs.
    let calling = tokio::spawn({
        let agent = Arc::clone(&agent);
        async move { Client::call(&agent, "time__now", serde_json::json!({})).await }
    });
    browser.find("[data-need=call]").await;
    browser.find("[data-node=time] .calm").await;
    browser.find(".map-line.flows").await;
    browser.take_screenshot("home-waits").await;
    while browser.run("return document.title").await != "(1) 1 thing needs you · hospes" {}
    let said = table(&browser).await;
    assert!(said.contains("everything") && said.contains("lost") && said.contains("retrying"), "{said}");

    // A server is chosen; the choice stands in the address and holds when the page is loaded again.
    browser.run("document.querySelector('[data-node=everything]').focus()").await;
    browser.keys(ENTER).await;
    browser.wait_for_text("only everything").await;
    assert!(browser.url().await.as_str().ends_with("/?server=everything"));
    assert!(!browser.text().await.contains("hospes doctor lost"), "another server's failures");
    let url = browser.url().await;
    browser.open(url.as_str()).await;
    browser.find("[data-node=everything][aria-pressed=true]").await;
    assert!(!table(&browser).await.contains("lost"));
    browser.keys("c").await;
    browser.wait_for_text("hospes doctor lost").await;

    // By keyboard to the call, and the decision.
    browser.keys("j").await;
    browser.keys(ENTER).await;
    browser.wait_for_text("1 of 1").await;
    browser.find("[data-once][aria-disabled=false]").await;
    browser.keys("o").await;
    assert!(!calling.await.unwrap().unwrap().has_failed());
    browser.keys("0").await;
    browser.wait_for_text("Nothing waits for you").await;
    browser.find("[data-node=time]:not(:has(.calm))").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_because_nobody_was_there_leads_to_a_rule() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let up = up(&hospes, &["--approval-timeout", "2"]);
    let agent = Client::connect(up.url.as_str()).await.unwrap();
    // The console counts as somebody who can decide, and nobody does.
    let refused = Client::call(&agent, "time__now", serde_json::json!({})).await.unwrap();
    assert!(refused.has_failed());
    browser.open(&hospes.console().await).await;
    browser.wait_for_text("refused because nobody was here").await;
    browser.press("[data-allow-next=now]").await;
    browser.wait_for_url(&format!("{}/rules/new?", browser.url().await.origin().ascii_serialization())).await;
    let url = browser.url().await;
    assert!(url.query().unwrap().starts_with("decide=allow&server=time&tool=now"), "{url}");
}

#[tokio::test(flavor = "multi_thread")]
async fn applications_are_listed_with_their_state() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let folder = hospes.path("home").join(".cursor");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("mcp.json"), "{ \"mcpServers\": {} }").unwrap();
    let _up = up(&hospes, &[]);
    browser.open(&hospes.console().await).await;
    browser.press("[data-add=application]").await;
    browser.wait_for_text("0 of 1 connected").await;
    let ran = hospes.run(&["connect", "cursor"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    browser.driver().refresh().await.unwrap();
    browser.wait_for_text("1 of 1 connected").await;
    browser.take_screenshot("connect").await;
    browser.keys("\u{e00c}").await;
    browser.press("[data-add=server]").await;
    browser.find("[data-registry]").await;
    browser.take_screenshot("add").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_activity_is_changed_by_keyboard_and_tools_have_percentiles() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let policy = hospes.path("policy.toml");
    std::fs::write(&policy, "[[rule]]\ndecide = 'allow'\n").unwrap();
    let up = hospes.start_gateway_with(SERVERS, &["--policy", policy.to_str().unwrap()]);
    let agent = Client::connect(up.url.as_str()).await.unwrap();
    Client::call(&agent, "time__now", serde_json::json!({})).await.unwrap();
    browser.open(&hospes.console().await).await;
    browser.wait_for_text("Nothing waits for you").await;
    browser.keys("3").await;
    browser.find("[data-items]").await;
    browser.press("[data-items] > summary").await;
    let table = browser.run("return document.querySelector('[data-items]').textContent").await;
    let table = table.as_str().unwrap();
    assert!(table.contains("time now") && table.contains("95 %") && table.contains("ms"), "{table}");
    // The chart of the durations of one tool, and back.
    browser.press("[data-item=now]").await;
    browser.wait_for_text("How long now of time took").await;
    browser.find("[data-item=now][aria-pressed=true]").await;
    assert!(browser.url().await.query().unwrap().contains("of=time&tool=now"));
    let lines = "return ['p50', 'p90', 'p95', 'p99'].map((one) => document.querySelectorAll(`.chart .dot-${one}, .chart .line-${one}`).length > 0)";
    assert_eq!(browser.run(lines).await, serde_json::json!([true, false, true, false]));
    browser.take_screenshot("activity-tool").await;
    browser.press("[data-item=now]").await;
    browser.wait_for_text("How long calls took").await;
    browser.find("[data-item=now][aria-pressed=false]").await;
    browser.keys("-").await;
    browser.wait_for_url(&format!("{}activity?range=7d", browser.url().await.join("/").unwrap())).await;
    // Three and a half days ago there was nothing.
    browser.keys("\u{e012}").await;
    browser.wait_for_text("No entries in this time range").await;
    assert!(browser.url().await.as_str().contains("until="));
    browser.keys("\u{e014}").await;
    browser.find("[data-items]").await;
    browser.keys("+").await;
    browser.wait_until_gone("[data-now]").await;
    assert!(!browser.url().await.as_str().contains("until="));
}

/// Home said that nothing waits while servers were blocked, and had nothing of those that were not started.
#[tokio::test(flavor = "multi_thread")]
async fn home_lists_servers_that_wait_for_review_those_not_started_and_mistakes_in_files() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let server = env!("CARGO_BIN_EXE_poisoned-notes");
    let config = format!(
        "[servers.notes]\ncommand = ['{server}', '{}']\n[servers.time]\nbuiltin = 'time'\n\
         [servers.lacking]\ncommand = ['no-such-program', '${{secret:lacked}}']\n",
        hospes.path("sent").display()
    );
    let policy = hospes.path("policy.toml");
    std::fs::write(&policy, RULES).unwrap();
    let _up = hospes.start_gateway_with(&config, &["--policy", policy.to_str().unwrap()]);
    browser.open(&hospes.console().await).await;
    let text = browser.wait_for_text("waits for your review").await;
    assert!(text.contains("was not started: ") && !text.contains("Nothing waits for you"), "{text}");
    assert!(text.contains("Rules: your own · 2 rules") && !text.contains("before that"), "{text}");
    browser.find("[data-not-started=lacking] code").await;
    browser.find("[data-not-started=lacking] [data-copy='hospes secret set lacked']").await;
    browser.find("[data-node=notes] .map-state.withheld").await;
    browser.take_screenshot("home-blocked").await;
    std::fs::write(&policy, "[[rule]]\ndecide = 'perhaps'\n").unwrap();
    let text = browser.wait_for_text("has had a mistake since").await;
    assert!(text.contains("perhaps"), "{text}");
    std::fs::write(&policy, RULES).unwrap();
    browser.find("main:not(:has([data-file-problem]))").await;
    browser.keys("2").await;
    browser.find(".card.withheld .state.withheld").await;
    browser.wait_for_text("2 servers not ready").await;
}
