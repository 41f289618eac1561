//! The first steps of a person: servers, applications, rules, notifications, the first call.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use hospes::prelude::*;
use hospes_browser_tests::{HospesProgram, TestBrowser};

const ENTER: &str = "\u{e007}";
const SPACE: &str = " ";

/// Cursor's file, with a token that nobody may see.
const CURSOR: &str = r#"{
  "mcpServers": {
    "clock": { "command": "no-such-program-anywhere", "args": ["--zone", "UTC"], "env": { "API_TOKEN": "sk-live-4eC39HqLyjWDarjtT1zdp7dc0123456789" } },
    "notes": { "command": "no-such-program-either" }
  }
}
"#;

/// All five steps by keyboard. Each can be skipped, the host keeps how far it is, and files are changed only by a press on the
/// button below the difference.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_steps_end_on_home_with_a_first_call() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let cursor = hospes.path("home/.cursor/mcp.json");
    std::fs::create_dir_all(cursor.parent().unwrap()).unwrap();
    std::fs::write(&cursor, CURSOR).unwrap();
    let policy = hospes.path("policy.toml");
    std::fs::write(&policy, "# mine\npreset = 'balanced'\n").unwrap();
    let up = hospes.start_gateway_with(
        "# my servers\n[servers.time]\nbuiltin = 'time'\n",
        &["--policy", policy.to_str().unwrap()],
    );
    browser.open(&hospes.console().await).await;
    // It blocks nothing: Home is there with a line that leads on.
    browser.wait_for_text("Nothing waits for you").await;
    browser.find("[data-welcome]").await;
    browser.take_screenshot("home-welcome").await;
    browser.press("[data-welcome] a").await;

    // 1: what the applications know, without secrets; ticked off by keyboard.
    let page = browser.wait_for_text("no-such-program-either").await;
    assert!(page.contains("1 of 5") && page.contains("1 secret"), "{page}");
    assert!(!page.contains("sk-live"), "{page}");
    browser.take_screenshot("welcome-servers").await;
    browser.run("document.getElementById('import-notes').focus()").await;
    browser.keys(SPACE).await;
    browser.wait_for_text("Import 1 server into").await;
    browser.run("document.querySelector('[data-run-import]').focus()").await;
    browser.keys(ENTER).await;
    browser.wait_for_text("1 server added to").await;
    let config = std::fs::read_to_string(hospes.path("hospes.toml")).unwrap();
    assert!(
        config.starts_with("# my servers\n") && config.contains("clock") && !config.contains("notes"),
        "{config}"
    );
    assert!(!config.contains("sk-live"), "{config}");

    // 2: the change of a file is shown first, and undone exactly.
    browser.keys("n").await;
    browser.wait_for_text("2 of 5").await;
    browser.press("[data-preview=cursor]").await;
    browser.find("[data-application=cursor] .diff-line.new").await;
    assert_eq!(std::fs::read_to_string(&cursor).unwrap(), CURSOR, "shown, and not changed");
    assert!(!browser.text().await.contains("sk-live"));
    browser.take_screenshot("welcome-connect").await;
    browser.run("document.querySelector('[data-connect=cursor]').focus()").await;
    browser.keys(ENTER).await;
    browser.find("[data-disconnect=cursor]").await;
    assert!(std::fs::read_to_string(&cursor).unwrap().contains("hospes"));
    browser.run("document.querySelector('[data-disconnect=cursor]').focus()").await;
    browser.keys(ENTER).await;
    browser.find("[data-preview=cursor]").await;
    assert_eq!(std::fs::read_to_string(&cursor).unwrap(), CURSOR);

    // How far it is holds in another window.
    browser.keys("n").await;
    browser.wait_for_text("3 of 5").await;
    let origin = browser.url().await.origin().ascii_serialization();
    browser.open(&format!("{origin}/welcome")).await;
    browser.wait_for_text("3 of 5").await;

    // 3: a preset, and its undo.
    browser.take_screenshot("welcome-rules").await;
    browser.press("[data-preset=cautious]").await;
    browser.find("[data-preset=cautious][aria-pressed=true]").await;
    assert_eq!(std::fs::read_to_string(&policy).unwrap(), "# mine\npreset = \"cautious\"\n");
    browser.press("[data-undo]").await;
    browser.find("[data-preset=balanced][aria-pressed=true]").await;
    assert_eq!(std::fs::read_to_string(&policy).unwrap(), "# mine\npreset = 'balanced'\n");

    // Arguments are recorded from now on: the host follows its own file.
    browser.press("[data-recording]").await;
    let file = || std::fs::read_to_string(hospes.path("hospes.toml")).unwrap();
    browser.find("[data-recording]:checked").await;
    up.wait_for_line(|line| line.contains("audit_arguments=on").then_some(()));
    assert!(
        file().ends_with("[audit]\narguments = true\n") && file().starts_with("# my servers\n"),
        "{}",
        file()
    );

    // 4: without a desktop the page says what that means.
    browser.keys("n").await;
    browser.wait_for_text("4 of 5").await;
    browser.press("[data-notify]").await;
    browser.find("[data-notified]").await;

    // 5: the first call is seen as it comes.
    browser.keys("n").await;
    browser.wait_for_text("The first call is shown here").await;
    browser.take_screenshot("welcome-waits").await;
    let agent = Client::connect(up.url.as_str()).await.unwrap();
    Client::call(&agent, "time__now", serde_json::json!({})).await.unwrap();
    browser.find("[data-first-call]").await;
    browser.take_screenshot("welcome-called").await;
    browser.run("document.querySelector('[data-next]').focus()").await;
    browser.keys(ENTER).await;
    browser.wait_for_text("Went wrong today").await;
    browser.wait_until_gone("[data-welcome]").await;
    browser.open(&format!("{origin}/")).await;
    browser.wait_for_text("Went wrong today").await;
    browser.wait_until_gone("[data-welcome]").await;
}
