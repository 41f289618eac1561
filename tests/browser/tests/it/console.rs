//! A person sees and decides what happens, on the pages of the console.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;

use bytes::Bytes;
use hospes_browser_tests::{HospesProgram, ProgramOutput, RecordingSite, RunningHospes, TestBrowser, fetch};
use tokio::task::JoinHandle;

const SERVERS: &str = "
[servers.time]
builtin = 'time'
[servers.everything]
builtin = 'everything'
[servers.notes]
command = 'no-such-program-anywhere'
[servers.\"odd\\u202Ename\"]
command = 'no-such-program-either'
";

/// Everything that a browser sees, with rules under which the time is asked about.
fn up(hospes: &HospesProgram, args: &[&str]) -> RunningHospes {
    let policy = hospes.path("policy.toml");
    let rules = "
trusted = ['everything']
[[rule]]
name = 'the time is precious'
decide = 'ask'
server = 'time'
tool = 'now'
[[rule]]
decide = 'deny'
server = 'everything'
tool = 'greet'
reason = 'nobody is greeted here'
[[rule]]
decide = 'allow'
server = 'everything'
tool = 'test_simple_text'
";
    std::fs::write(&policy, rules).unwrap();
    hospes.start_gateway_with(SERVERS, &[&["--policy", policy.to_str().unwrap()], args].concat())
}

fn call(hospes: &Arc<HospesProgram>, up: &RunningHospes, words: &[&str]) -> JoinHandle<ProgramOutput> {
    let words: Vec<String> =
        [&["call", &up.url], words].concat().iter().map(|word| (*word).to_owned()).collect();
    let hospes = Arc::clone(hospes);
    tokio::spawn(async move { hospes.run(&words.iter().map(String::as_str).collect::<Vec<_>>()).await })
}

async fn open(browser: &TestBrowser, hospes: &HospesProgram) -> String {
    let link = hospes.console().await;
    browser.open(&link).await;
    browser.wait_for_text("Nothing waits for you").await;
    browser.keys("1").await;
    browser.wait_for_text("No pending approvals").await;
    browser.wait_for_text("live").await;
    assert!(!browser.url().await.as_str().contains('#'), "the token is gone from the address");
    link
}

/// Shows the tools that exist and the calls as they happen.
///
/// covers: TOOL-03 TOOL-04
#[tokio::test(flavor = "multi_thread")]
async fn a_link_opens_the_console_once_and_pages_show_what_there_is() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let hospes = Arc::new(hospes);
    let up = up(&hospes, &[]);
    let link = open(&browser, &hospes).await;
    browser.take_screenshot("console-nothing-waits").await;

    // Servers: what is wrong with those that are not there, and what hides in a name is seen.
    browser.keys("2").await;
    browser.wait_for_text("Next attempt in").await;
    browser.wait_for_text("odd\\u{202e}name").await;
    browser.wait_for_text("36 tools").await;
    browser.take_screenshot("console-servers").await;
    browser.press("[data-restart=time]").await;
    browser.wait_for_text("time is being restarted").await;
    browser.press("[data-name=everything] .name").await;
    browser.wait_for_text("greet").await;
    browser.press(".definition summary").await;
    browser.take_screenshot("console-server").await;

    // What was called is found, and what was refused is told apart.
    let called = call(&hospes, &up, &["everything__test_simple_text"]).await.unwrap();
    assert_eq!(called.code, Some(0), "{called:?}");
    let refused = call(&hospes, &up, &["everything__greet", "name=x"]).await.unwrap();
    assert!(refused.said.contains("nobody is greeted here"), "{refused:?}");
    browser.keys("3").await;
    browser.wait_for_text("greet").await;
    browser.wait_for_text("How long calls took").await;
    browser.fill("[data-search]", "greet").await;
    browser.wait_until_gone(".entry.well").await;
    browser.press(".entry-line").await;
    let text = browser.wait_for_text("Chain hash").await;
    assert!(text.contains("refused") && text.contains("deny"), "{text}");
    browser.take_screenshot("console-activity").await;
    // What is called now is seen now.
    call(&hospes, &up, &["everything__greet", "name=y"]).await.unwrap();
    browser.find(".entry + .entry").await;

    browser.click("h1").await;
    browser.keys("4").await;
    browser.wait_for_text("nobody is greeted here").await;
    browser.keys("5").await;
    browser.wait_for_text("No model is configured").await;
    browser.keys("6").await;
    browser.wait_for_text("this browser").await;
    browser.take_screenshot("console-sessions").await;
    browser.keys("?").await;
    browser.wait_for_text("previous item").await;
    browser.take_screenshot("console-keys").await;
    browser.press("dialog button").await;

    // The link was good once; a session that is ended is out.
    browser.press("[data-end]").await;
    browser.wait_for_text("This browser is not signed in").await;
    browser.take_screenshot("console-out").await;
    browser.open(&link).await;
    browser.wait_for_text("This link is no longer valid").await;
    browser.take_screenshot("console-link-used").await;
}

/// Before a tool is called, with what it is and what it would get; and after a no it is not.
///
/// covers: TOOL-02 TOOL-05 HOST-03 HOST-09
#[tokio::test(flavor = "multi_thread")]
async fn a_person_denies_edits_allows_and_rules_at_the_console() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let hospes = Arc::new(hospes);
    let up = up(&hospes, &["--audit-arguments"]);
    open(&browser, &hospes).await;

    // No, and why.
    let calling = call(&hospes, &up, &["time__now", "timezone=Asia/Tokyo"]);
    browser.wait_for_text("the time is precious").await;
    browser.find("[data-deny][aria-disabled=false]").await;
    assert_eq!(browser.run("return document.activeElement.hasAttribute('data-deny')").await, true);
    browser.take_screenshot("console-approval").await;
    // What it is, in its server's words, which are told from ours.
    browser.run("document.querySelector('.said-of').scrollIntoView({ block: 'center' })").await;
    browser.press(".said-of summary").await;
    browser.wait_for_text("The current date and time.").await;
    browser.fill("#reason", "it is late enough").await;
    browser.press("[data-deny]").await;
    let ran = calling.await.unwrap();
    assert!(ran.code == Some(5) && ran.said.contains("it is late enough"), "{ran:?}");
    // What comes while the page still shows a decision has to be chosen.
    browser.wait_for_text("No pending approvals.").await;

    // Enter allows nothing, and neither does what comes too soon.
    let calling = call(&hospes, &up, &["time__now", "timezone=Asia/Tokyo"]);
    browser.find("[data-once][aria-disabled=false]").await;
    browser.run("document.querySelector('[data-once]').focus()").await;
    browser.keys("\u{e007}").await;
    browser.wait_for_text("1 of 1").await;

    // Changed, it goes as it was changed.
    browser.keys("e").await;
    browser.fill("#field-timezone", "Europe/Lisbon").await;
    browser.press("[data-edit]").await;
    browser.wait_for_text("edited by you").await;
    browser.take_screenshot("console-edited").await;
    browser.press("[data-once]").await;
    let ran = calling.await.unwrap();
    assert!(ran.code == Some(0) && ran.said.contains("Europe/Lisbon"), "{ran:?}");
    browser.wait_for_text("No pending approvals.").await;

    // Always, within a rule; then nobody is asked, until it is revoked.
    let calling = call(&hospes, &up, &["time__now", "timezone=Asia/Tokyo"]);
    browser.find("[data-always][aria-disabled=false]").await;
    browser.keys("v").await;
    browser.wait_for_text("\"Asia/Tokyo\"").await;
    browser.keys("j").await;
    browser.keys("A").await;
    browser.wait_for_text("From now on").await;
    browser.take_screenshot("console-rule").await;
    browser.press("[data-give]").await;
    assert_eq!(calling.await.unwrap().code, Some(0));
    assert_eq!(call(&hospes, &up, &["time__now", "timezone=Asia/Tokyo"]).await.unwrap().code, Some(0));
    browser.open(&format!("{}/grants", origin(&browser).await)).await;
    browser.wait_for_text("given").await;
    browser.wait_for_text("used 1 time").await;
    browser.take_screenshot("console-grants").await;
    browser.press("[data-revoke=now]").await;
    browser.wait_for_text("No lasting grants").await;
    let calling = call(&hospes, &up, &["time__now", "timezone=Asia/Tokyo"]);
    // The number of those that wait is told on every page.
    browser.wait_for_text("waiting").await;
    browser.keys("1").await;
    browser.find("[data-session][aria-disabled=false]").await;
    browser.keys("j").await;
    browser.keys("s").await;
    assert_eq!(calling.await.unwrap().code, Some(0));
    browser.wait_for_text("for this session").await;
    browser.keys("3").await;
    browser.wait_for_text("time").await;
    browser.wait_for_text("Entries over time").await;
    browser.take_screenshot("console-activity-all").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_is_a_no_and_several_wait_in_order() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let hospes = Arc::new(hospes);
    let up = up(&hospes, &["--approval-timeout", "8"]);
    open(&browser, &hospes).await;
    let first = call(&hospes, &up, &["time__now", "timezone=Asia/Tokyo"]);
    browser.wait_for_text("1 of 1").await;
    let second = call(&hospes, &up, &["time__now", "timezone=Europe/Rome"]);
    // What is looked at stays where it is.
    let text = browser.wait_for_text("1 of 2").await;
    // Rows show the main argument of each call; below the number is the card alone.
    let card = text.split_once("1 of 2").unwrap().1.split_once("Deny").unwrap().0;
    assert!(card.contains("Asia/Tokyo") && !card.contains("Europe/Rome"), "{text}");
    browser.take_screenshot("console-queue").await;
    browser.keys("j").await;
    browser.find(".matter.chosen").await;
    browser.keys("j").await;
    browser.wait_for_text("2 of 2").await;
    for calling in [first, second] {
        assert_eq!(calling.await.unwrap().code, Some(5), "nobody decided");
    }
    browser.wait_for_text("expired").await;
    browser.wait_for_text("no decision in time").await;
}

/// Pages of elsewhere, in the same browser, with its cookies.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_elsewhere_can_neither_ask_press_nor_frame() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let hospes = Arc::new(hospes);
    let _up = up(&hospes, &[]);
    open(&browser, &hospes).await;
    let console = origin(&browser).await;
    // The same address at another port: for cookies it is the same site.
    let page = format!(
        "<!doctype html><iframe src='{console}/servers'></iframe><form method='post' action='{console}/api/servers/time/restart'
         enctype='text/plain'><input name='{{}}' value=''></form>"
    );
    let evil = RecordingSite::serve(page).await;
    browser.open(&evil.origin).await;
    let tried = browser
        .run(&format!(
            "const tried = [];
             for (const [method, mode] of [['GET', 'cors'], ['POST', 'cors'], ['POST', 'no-cors']]) {{
               tried.push(await fetch('{console}/api/servers/time/restart', {{ method, mode, credentials: 'include', body: method === 'POST' ? '{{}}' : undefined }})
                 .then((answer) => answer.type === 'opaque' ? 'opaque' : answer.status, () => 'refused'));
             }}
             const frame = document.querySelector('iframe');
             return [tried, frame.contentDocument === null, frame.contentWindow.length];"
        ))
        .await;
    // Without the answer being shown it still did nothing: the record says that nobody restarted anything.
    assert_eq!(tried[0][0], "refused", "{tried}");
    assert_eq!(tried[0][1], "refused", "{tried}");
    browser.run("document.forms[0].submit()").await;
    browser.wait_for_text("only pages of the console itself may send requests").await;
    browser.open(&format!("{console}/activity?kind=server&text=restart")).await;
    browser.wait_for_text("No matching entries").await;
    // What is not a browser has no session, whatever it claims to be.
    let request = http::Request::get(format!("{console}/api/servers")).header("origin", &console);
    let answer = fetch(request.body(Bytes::new()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 401);
}

async fn origin(browser: &TestBrowser) -> String {
    browser.url().await.origin().ascii_serialization()
}
