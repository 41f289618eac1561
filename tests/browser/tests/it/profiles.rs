//! The page of the profiles.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use hospes::prelude::*;
use hospes_browser_tests::{HospesProgram, TestBrowser};

const SERVERS: &str =
    "# mine\n[servers.time]\nbuiltin = 'time' # the clock\n[servers.everything]\nbuiltin = 'everything'\n";

#[tokio::test(flavor = "multi_thread")]
async fn profiles_are_created_changed_and_deleted_with_comments_kept() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let up = hospes.start_gateway_with(SERVERS, &[]);
    let file = hospes.path("hospes.toml");
    let text = || std::fs::read_to_string(&file).unwrap();
    let before = text();
    browser.open(&hospes.console().await).await;
    browser.wait_for_text("Nothing waits for you").await;
    browser.keys("2").await;
    browser.press("[data-profiles]").await;
    browser.wait_for_text("No profiles.").await;
    browser.press("[data-new-profile]").await;
    browser.fill("#profile-name", "work").await;
    browser.fill("#profile-title", "At <b>work</b> \u{202e}").await;
    browser.press("[data-server='time']").await;
    browser.press(".profile-list summary").await;
    browser.fill("#exclude-time", "convert*").await;
    browser.take_screenshot("profile-new").await;
    browser.press("[data-save]").await;
    let shown = browser.wait_for_text("/mcp/work").await;
    assert!(shown.contains("time: without convert*"), "{shown}");
    browser.take_screenshot("profiles").await;
    let written = text();
    assert!(written.starts_with(&before) && written.contains("[profiles.work]"), "{written}");
    assert!(written.contains("servers = [\"time\"]"), "{written}");
    let endpoint = format!("{}/work", up.url);
    let tools = async || -> Vec<String> {
        let Ok(client) = Client::connect(endpoint.as_str()).await else { return Vec::new() };
        let tools = client.tools().all().await.unwrap_or_default();
        tools.into_iter().map(|tool| tool.name).filter(|name| !name.starts_with("hospes__")).collect()
    };
    while tools().await != ["time__now"] {}

    // Changed while its endpoint is used, and on a narrow screen.
    browser.resize_window(420, 900).await;
    browser.press("[data-edit-profile='work']").await;
    browser.press("[data-server='everything']").await;
    browser.take_screenshot("profile-edit-narrow").await;
    browser.press("[data-save]").await;
    while tools().await.len() < 3 {}
    browser.wait_for_text("time, everything").await;
    browser.press("[data-remove-profile='work']").await;
    browser.press("[data-sure]").await;
    browser.wait_for_text("No profiles.").await;
    assert_eq!(text().trim_end(), before.trim_end());
    while !tools().await.is_empty() {}

    // What is wrong is said, and nothing is written.
    browser.press("[data-new-profile]").await;
    browser.fill("#profile-name", "time").await;
    browser.press("[data-save]").await;
    browser.wait_for_text("the server `time` has the endpoint `/mcp/time` already").await;
    browser.fill("#profile-name", "play").await;
    std::fs::write(&file, format!("{before}oops")).unwrap();
    browser.press("[data-save]").await;
    browser.wait_for_text("nothing was changed").await;
}
