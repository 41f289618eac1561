//! The pages of the console, judged by axe-core at two sizes and in two color schemes.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;

use hospes::prelude::*;
use hospes_browser_tests::{HospesProgram, TestBrowser};

use crate::home::SERVERS;

const RULES: &str = "
[[rule]]
name = 'ask about the time'
decide = 'ask'
server = 'time'
[[rule]]
decide = 'deny'
tool = 'greet'
";

/// Pages, each with words that are there once it is whole.
const PAGES: [(&str, &str); 20] = [
    ("/", "Went wrong today"),
    ("/approvals", "1 of 1"),
    ("/servers", "Next attempt"),
    ("/servers/everything", "tools"),
    ("/servers/everything/tools/greet", "Call"),
    ("/activity", "Entries over time"),
    ("/grants", "ask about the time"),
    ("/rules/new", "In the file"),
    ("/rules/1", "Change rule 1"),
    ("/profiles", "/mcp/work"),
    ("/profiles/work", "Save"),
    ("/models", "No model is configured"),
    ("/sessions", "this browser"),
    ("/add", "hospes add"),
    ("/connect", "Connect an application"),
    ("/welcome?step=1", "1 of 5"),
    ("/welcome?step=2", "2 of 5"),
    ("/welcome?step=3", "cautious"),
    ("/welcome?step=4", "4 of 5"),
    ("/welcome?step=5", "5 of 5"),
];

/// Opens each page and collects what is serious about it.
async fn examine(browser: &TestBrowser, pages: &[(&str, &str)]) -> Option<Vec<String>> {
    let origin = browser.url().await.origin().ascii_serialization();
    let mut found = Vec::new();
    for (path, words) in pages {
        browser.open(&format!("{origin}{path}")).await;
        browser.wait_for_text(words).await;
        found.extend(examine_shown(browser, path).await?);
    }
    Some(found)
}

/// Collects what is serious about what the browser shows, in each size and scheme. `None` if the environment names no
/// axe-core.
pub(crate) async fn examine_shown(browser: &TestBrowser, name: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for (width, height) in [(1280, 900), (390, 844)] {
        browser.resize_window(width, height).await;
        // Lists and charts scroll in their own boxes; the page does not.
        let wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        let wide = browser.run(wide).await.as_f64().unwrap_or_default();
        if wide > 0.0 {
            found.push(format!("{name} {width}: the page is {wide} pixels wider than the window"));
        }
        for scheme in ["light", "dark"] {
            browser.set_color_scheme(scheme).await;
            let problems = browser.find_accessibility_problems().await?;
            found.extend(problems.into_iter().map(|one| format!("{name} {width} {scheme}: {one}")));
        }
    }
    browser.resize_window(1280, 900).await;
    Some(found)
}

/// Fails if something is serious about what the browser shows.
pub(crate) async fn assert_accessible(browser: &TestBrowser, name: &str) {
    let problems = examine_shown(browser, name).await.unwrap_or_default();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_has_a_serious_accessibility_problem() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let policy = hospes.path("policy.toml");
    std::fs::write(&policy, RULES).unwrap();
    let config = format!("{SERVERS}\n[profiles.work]\nservers = ['time']\n");
    let up = hospes.start_gateway_with(&config, &["--policy", policy.to_str().unwrap()]);
    browser.open(&hospes.console().await).await;
    browser.wait_for_text("Nothing waits for you").await;
    let agent = Arc::new(Client::connect(up.url.as_str()).await.unwrap());
    Client::call(&agent, "everything__greet", serde_json::json!({ "name": "x" })).await.unwrap();
    let calling = tokio::spawn({
        let agent = Arc::clone(&agent);
        async move { Client::call(&agent, "time__now", serde_json::json!({})).await }
    });
    let Some(problems) = examine(&browser, &PAGES).await else { return };
    calling.abort();
    assert!(problems.is_empty(), "{}\n{}", problems.len(), problems.join("\n"));
}

/// A rule that must find something, so that silence of the other test means something.
#[tokio::test(flavor = "multi_thread")]
async fn a_button_without_a_name_is_found() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let _up = hospes.start_gateway_with(SERVERS, &[]);
    browser.open(&hospes.console().await).await;
    browser.wait_for_text("Nothing waits for you").await;
    browser.run("document.body.append(document.createElement('button'))").await;
    let Some(problems) = browser.find_accessibility_problems().await else { return };
    assert!(problems.iter().any(|one| one.starts_with("button-name")), "{problems:?}");
}
