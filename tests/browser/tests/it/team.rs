//! A console for a team: people sign in at a provider that is not ours, and each sees what is theirs.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::net::TcpListener;
use std::sync::Arc;

use hospes_browser_tests::{HospesProgram, OpenIdProvider, ProgramOutput, RunningHospes, TestBrowser};
use tokio::task::JoinHandle;

/// Rule that asks whoever calls.
const ASK: &str = "[[rule]]\ndecide = 'ask'\nserver = 'time'\n";

/// A gateway for the users of a provider, with these rules and a console at a port that is known before.
fn up(hospes: &HospesProgram, provider: &OpenIdProvider, rules: &str) -> (RunningHospes, String) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = free.local_addr().unwrap().to_string();
    drop(free);
    std::fs::write(hospes.path("login.secret"), OpenIdProvider::SECRET).unwrap();
    let policy = hospes.path("policy.toml");
    std::fs::write(&policy, rules).unwrap();
    let (issuer, client) = (&provider.issuer, OpenIdProvider::CLIENT);
    let config = format!(
        "[auth.provider]
        issuer = '{issuer}'
        client_id = '{client}'
        client_secret = '${{file:login.secret}}'
        scopes = ['openid', 'groups', 'email', 'offline_access']
        allow = 'everybody'
        [console.team]
        issuer = '{issuer}'
        client_id = '{client}'
        client_secret = '${{file:login.secret}}'
        public_url = 'http://{place}'
        scopes = ['openid', 'groups', 'email', 'offline_access']
        [console.team.roles]
        member = ['mcp']
        admin = ['admins']
        [servers.time]
        builtin = 'time'
        "
    );
    let args = ["--policy", policy.to_str().unwrap(), "--console", &place];
    (hospes.start_gateway_with(&config, &args), format!("http://{place}"))
}

/// Agrees to what the provider asks, after the name if it does not know the browser yet, until the browser is elsewhere.
async fn sign_in_there(browser: &TestBrowser, provider: &OpenIdProvider, name: &str) {
    browser.wait_for_url(&provider.issuer).await;
    if browser.text().await.contains("Sign-in") || !browser.text().await.contains("Authorize") {
        browser.fill("input[name=login]", name).await;
        browser.fill("input[name=password]", "any").await;
        browser.press("button[type=submit]").await;
        browser.wait_for_text("Authorize").await;
    }
    browser.press("button[type=submit]").await;
}

/// Signs an application of a person in at the endpoint.
async fn connect(
    browser: &TestBrowser,
    provider: &OpenIdProvider,
    up: &RunningHospes,
    name: &str,
) -> HospesProgram {
    let own = HospesProgram::find().unwrap();
    let (page, signed_in) = own.login(&up.url);
    browser.open(&page).await;
    browser.press("button[value=allow]").await;
    sign_in_there(browser, provider, name).await;
    browser.wait_for_text("close this").await;
    assert_eq!(signed_in.await.code, Some(0));
    own
}

async fn enter(browser: &TestBrowser, provider: &OpenIdProvider, console: &str, name: &str) {
    browser.open(console).await;
    browser.wait_for_text("This console is for a team").await;
    browser.press("#sign-in").await;
    sign_in_there(browser, provider, name).await;
}

fn call(own: HospesProgram, up: &RunningHospes, zone: &str) -> JoinHandle<ProgramOutput> {
    let words = ["call".to_owned(), up.url.clone(), "time__now".to_owned(), format!("timezone={zone}")];
    tokio::spawn(async move { own.run(&words.each_ref().map(String::as_str)).await })
}

/// The status of a request that a page of the console makes.
async fn status(browser: &TestBrowser, method: &str, path: &str) -> i64 {
    let script = format!(
        "const headers = {{ 'x-hospes-key': localStorage.getItem('hospes-key'), 'content-type': 'application/json' }};
         const body = '{method}' === 'GET' ? undefined : JSON.stringify({{ decision: 'allow' }});
         return (await fetch('{path}', {{ method: '{method}', headers, body }})).status;"
    );
    browser.run(&script).await.as_i64().unwrap()
}

/// Two people and an administrator: each sees and decides only their own calls.
#[tokio::test(flavor = "multi_thread")]
async fn two_people_see_and_decide_only_their_own() {
    let (Some(provider), Some(hospes)) = (OpenIdProvider::start(), HospesProgram::find()) else { return };
    let (Some(of_ann), Some(of_bob)) = (TestBrowser::start().await, TestBrowser::start().await) else {
        return;
    };
    let hospes = Arc::new(hospes);
    let (up, console) = up(&hospes, &provider, ASK);
    let ann = connect(&of_ann, &provider, &up, "ann").await;
    let bob = connect(&of_bob, &provider, &up, "bob").await;

    of_ann.open(&console).await;
    of_ann.wait_for_text("This console is for a team").await;
    of_ann.take_screenshot("team-door").await;
    enter(&of_ann, &provider, &console, "ann").await;
    enter(&of_bob, &provider, &console, "bob").await;
    for (browser, name) in [(&of_ann, "ann@example.org"), (&of_bob, "bob@example.org")] {
        let text = browser.wait_for_text("No pending approvals").await;
        assert!(text.contains(name) && text.contains("member") && text.contains("Sign out"), "{text}");
        for hidden in ["Home", "Servers", "Models"] {
            assert!(!text.lines().any(|line| line == hidden), "{hidden}: {text}");
        }
        // A secret that pages cannot read, and no other cookie.
        assert_eq!(browser.run("return document.cookie;").await, "");
    }

    let called = (call(ann, &up, "Asia/Tokyo"), call(bob, &up, "Europe/Paris"));
    let (text_of_ann, text_of_bob) =
        (of_ann.wait_for_text("Asia/Tokyo").await, of_bob.wait_for_text("Europe/Paris").await);
    assert!(!text_of_ann.contains("Europe/Paris") && !text_of_bob.contains("Asia/Tokyo"));
    of_ann.take_screenshot("team-approvals").await;
    let id = of_ann.run("return (await (await fetch('/api/approvals')).json()).open[0].id;").await;
    let id = id.as_str().unwrap();
    for (method, path, expected) in [
        ("GET", format!("/api/approvals/{id}"), 404),
        ("POST", format!("/api/approvals/{id}"), 404),
        ("GET", "/api/servers".to_owned(), 403),
        ("GET", "/api/setup".to_owned(), 403),
        ("POST", "/api/servers/time/restart".to_owned(), 403),
    ] {
        assert_eq!(status(&of_bob, method, &path).await, expected, "{method} {path}");
    }
    assert_eq!(status(&of_ann, "POST", &format!("/api/approvals/{id}")).await, 200);
    let ran = called.0.await.unwrap();
    assert!(ran.code == Some(0) && ran.said.contains("+09:00"), "{ran:?}");
    of_ann.wait_for_text("No pending approvals").await;
    of_bob.wait_for_text("Europe/Paris").await;
    called.1.abort();

    // The record and the sessions are their own.
    of_ann.keys("1").await;
    of_ann.wait_for_url(&format!("{console}/activity")).await;
    of_ann.wait_for_text("The last").await;
    of_ann.take_screenshot("team-activity").await;
    of_bob.open(&format!("{console}/sessions")).await;
    let text = of_bob.wait_for_text("this browser").await;
    assert!(text.contains("bob@example.org") && !text.contains("ann"), "{text}");
    of_bob.take_screenshot("team-sessions").await;

    // A session that ends here is over in the other window, too.
    of_ann.press("#sign-out").await;
    of_ann.wait_for_text("This console is for a team").await;
    assert_eq!(status(&of_ann, "GET", "/api/approvals").await, 401);

    // An administrator sees the sessions of others and ends them, and decides for nobody.
    drop(of_ann);
    let Some(of_root) = TestBrowser::start().await else { return };
    enter(&of_root, &provider, &console, "root").await;
    let text = of_root.wait_for_text("No pending approvals").await;
    assert!(text.contains("Servers") && text.contains("admin"), "{text}");
    of_root.open(&format!("{console}/servers")).await;
    of_root.wait_for_text("Every server is ready").await;
    of_root.take_screenshot("team-servers").await;
    of_root.open(&format!("{console}/sessions")).await;
    of_root.wait_for_text("bob@example.org").await;
    of_root.click("[data-end]:not(li:has(.chip.calm) *)").await;
    of_bob.wait_for_text("This console is for a team").await;

    // Somebody who can sign in there, and has no role.
    drop(of_root);
    let Some(of_eve) = TestBrowser::start().await else { return };
    enter(&of_eve, &provider, &console, "eve").await;
    of_eve.wait_for_text("none of the groups of this account has a role here").await;
    of_eve.take_screenshot("team-refused").await;
    assert_eq!(status(&of_eve, "GET", "/api/console").await, 401);

    // Tokens of the provider are nowhere in clear.
    let kept: Vec<u8> = ["state/hospes/state.db", "state/hospes/state.db-wal"]
        .into_iter()
        .flat_map(|file| std::fs::read(hospes.path(file)).unwrap_or_default())
        .collect();
    let all = format!("{}{}", String::from_utf8_lossy(&kept), up.said_so_far());
    assert!(kept.len() > 1000, "the state is looked at");
    assert!(provider.tokens().await.iter().all(|token| !all.contains(token.as_str())));
}

/// A call that somebody else has to allow: whose call it is and for whom it waits is read on the page, and nobody else sees
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_of_the_named_group_decides_for_somebody_else() {
    let (Some(provider), Some(hospes)) = (OpenIdProvider::start(), HospesProgram::find()) else { return };
    let (Some(of_ann), Some(of_bob)) = (TestBrowser::start().await, TestBrowser::start().await) else {
        return;
    };
    let (up, console) = up(&hospes, &provider, &format!("{ASK}approver = ['admins']\nnot_self = true\n"));
    let ann = connect(&of_ann, &provider, &up, "ann").await;
    enter(&of_ann, &provider, &console, "ann").await;
    enter(&of_bob, &provider, &console, "bob").await;
    of_bob.wait_for_text("No pending approvals").await;
    let called = call(ann, &up, "Asia/Tokyo");
    let text = of_ann.wait_for_text("Asia/Tokyo").await;
    assert!(text.contains("Waits for a member of") && text.contains("You can deny it"), "{text}");
    of_ann.take_screenshot("team-waits-for-approver").await;
    let id = of_ann.run("return (await (await fetch('/api/approvals')).json()).open[0].id;").await;
    let path = format!("/api/approvals/{}", id.as_str().unwrap());
    // Neither by the key of the card nor by a request.
    of_ann.keys("j").await;
    of_ann.find(".matter.chosen").await;
    of_ann.keys("o").await;
    assert_eq!(status(&of_ann, "POST", &path).await, 403);
    assert_eq!(status(&of_bob, "GET", &path).await, 404);
    assert!(of_bob.text().await.contains("No pending approvals"));

    drop(of_bob);
    let Some(of_root) = TestBrowser::start().await else { return };
    enter(&of_root, &provider, &console, "root").await;
    let text = of_root.wait_for_text("Asia/Tokyo").await;
    let (whose, what) = (text.find("ann@example.org"), text.find("Asia/Tokyo"));
    assert!(whose.is_some() && whose < what, "{text}");
    of_root.take_screenshot("team-approver").await;
    of_root.show_all().await;
    of_root.find("[data-once][aria-disabled=false]").await;
    of_root.keys("j").await;
    of_root.find(".matter.chosen").await;
    of_root.keys("o").await;
    let ran = called.await.unwrap();
    assert!(ran.code == Some(0) && ran.said.contains("+09:00"), "{ran:?}");
    of_root.wait_for_text("No pending approvals").await;
}
