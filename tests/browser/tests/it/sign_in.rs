//! Sign-in to `hospes up` with a browser, by which an application is granted access.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use hospes_browser_tests::{HospesProgram, OpenIdProvider, RunningHospes, TestBrowser};

const ALLOW: &str = "button[value=allow]";
const DENY: &str = "button[value=deny]";

async fn sign_in_here(browser: &TestBrowser, name: &str, password: &str) {
    browser.fill("#user", name).await;
    browser.fill("#password", password).await;
    browser.press("button[type=submit]").await;
}

/// Signs in at the provider and agrees there, on its own pages.
async fn sign_in_there(browser: &TestBrowser, issuer: &str, name: &str) {
    browser.wait_for_url(issuer).await;
    browser.fill("input[name=login]", name).await;
    browser.fill("input[name=password]", "any").await;
    browser.press("button[type=submit]").await;
    browser.wait_for_text("Authorize").await;
    browser.press("button[type=submit]").await;
}

async fn call(hospes: &HospesProgram, up: &RunningHospes) -> hospes_browser_tests::ProgramOutput {
    hospes.run(&["call", &up.url, "time__now", "timezone=Asia/Tokyo"]).await
}

/// From the first refusal to an answer, through our own pages.
///
/// covers: AUTS-01 AUTS-11
#[tokio::test(flavor = "multi_thread")]
async fn with_a_password_of_the_configuration() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let up = hospes.start_gateway("[auth]\nusers = { ann = \"correct horse\" }");
    assert_eq!(call(&hospes, &up).await.code, Some(3), "a sign-in is wanted");
    let (page, signed_in) = hospes.login(&up.url);
    browser.open(&page).await;
    browser.wait_for_text("Sign in").await;
    browser.take_screenshot("sign-in").await;
    sign_in_here(&browser, "ann", "wrong").await;
    browser.wait_for_text("Wrong user name or password").await;
    browser.take_screenshot("sign-in-again").await;
    sign_in_here(&browser, "ann", "correct horse").await;
    let consent = browser.wait_for_text("Allow Hospes").await;
    // Who is asked, who asks, for what, and where the answer goes.
    for words in ["ann", "127.0.0.1:", "this computer", "Use all tools", &up.url] {
        assert!(consent.contains(words), "{words}: {consent}");
    }
    browser.take_screenshot("consent").await;
    browser.press(ALLOW).await;
    browser.wait_for_text("close this").await;
    browser.take_screenshot("done").await;
    // What comes back is in the address; no page of another site may learn it, and no script runs there.
    assert!(browser.url().await.as_str().starts_with("http://127.0.0.1:"));
    let ran = signed_in.await;
    assert!(ran.code == Some(0) && ran.said.contains("signed in to"), "{ran:?}");
    let called = call(&hospes, &up).await;
    assert!(called.code == Some(0) && called.said.contains("+09:00"), "{called:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_code_of_the_terminal() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let up = hospes.start_gateway("[auth]\nenabled = true");
    let (page, signed_in) = hospes.login(&up.url);
    browser.open(&page).await;
    let code = up.wait_for_line(|line| Some(line.split_once("the code is ")?.1.trim().to_owned()));
    browser.wait_for_text("terminal").await;
    browser.take_screenshot("code").await;
    browser.fill("#code", "2222-2222-2222").await;
    browser.press("button[type=submit]").await;
    browser.wait_for_text("Wrong code").await;
    browser.take_screenshot("code-again").await;
    // As it is typed on a telephone.
    browser.fill("#code", &code.to_lowercase().replace('-', " ")).await;
    browser.press("button[type=submit]").await;
    browser.wait_for_text("Allow Hospes").await;
    browser.press(ALLOW).await;
    browser.wait_for_text("close this").await;
    assert_eq!(signed_in.await.code, Some(0));
    assert_eq!(call(&hospes, &up).await.code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn and_may_say_no() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let up = hospes.start_gateway("[auth]\nusers = { ann = \"correct horse\" }");
    let (page, signed_in) = hospes.login(&up.url);
    browser.open(&page).await;
    sign_in_here(&browser, "ann", "correct horse").await;
    browser.wait_for_text("Allow Hospes").await;
    browser.press(DENY).await;
    let said = browser.wait_for_text("close this").await;
    assert!(said.contains("not signed in"), "{said}");
    browser.take_screenshot("denied").await;
    let ran = signed_in.await;
    assert!(ran.code != Some(0) && ran.said.contains("access_denied"), "{ran:?}");
    assert_eq!(call(&hospes, &up).await.code, Some(3));
}

fn delegating(provider: &OpenIdProvider, allow: &str) -> String {
    format!(
        "[auth.provider]\nissuer = \"{}\"\nclient_id = \"{}\"\nclient_secret = \"${{file:login.secret}}\"\n\
         scopes = [\"openid\", \"email\", \"groups\", \"offline_access\"]\nallow = {allow}",
        provider.issuer,
        OpenIdProvider::CLIENT
    )
}

/// Hospes shows the consent page, the provider signs the user in, and Hospes issues the token. A user who is not
/// allowed, or refuses at the provider, gets no token.
///
/// covers: AUT3-01 AUT3-02 AUT3-03 AUT3-09 AUT3-12
#[tokio::test(flavor = "multi_thread")]
async fn at_a_provider_that_is_not_ours() {
    let (Some(provider), Some(hospes)) = (OpenIdProvider::start(), HospesProgram::find()) else { return };
    std::fs::write(hospes.path("login.secret"), OpenIdProvider::SECRET).unwrap();
    let up = hospes.start_gateway(&delegating(&provider, "{ groups = \"mcp\", email = \"@example.org\" }"));

    // Somebody who can sign in there, and is none of those who are meant.
    let Some(browser) = TestBrowser::start().await else { return };
    let (page, signed_in) = hospes.login(&up.url);
    browser.open(&page).await;
    browser.press(ALLOW).await;
    sign_in_there(&browser, &provider.issuer, "eve").await;
    browser.wait_for_text("not signed in").await;
    let ran = signed_in.await;
    assert!(ran.code != Some(0) && ran.said.contains("is not allowed to use this server"), "{ran:?}");
    assert_eq!(provider.times("revocation 200").await, 1, "what it gave for her is given back");
    drop(browser);

    // Somebody who says no there.
    let Some(browser) = TestBrowser::start().await else { return };
    let (page, signed_in) = hospes.login(&up.url);
    browser.open(&page).await;
    browser.press(ALLOW).await;
    browser.wait_for_url(&provider.issuer).await;
    browser.press(".login-help a").await;
    browser.wait_for_text("not signed in").await;
    let ran = signed_in.await;
    assert!(ran.code != Some(0) && ran.said.contains("access_denied"), "{ran:?}");

    // Somebody who is meant.
    let (page, signed_in) = hospes.login(&up.url);
    browser.open(&page).await;
    let consent = browser.wait_for_text("Allow Hospes").await;
    assert!(consent.contains("You will then sign in at 127.0.0.1"), "{consent}");
    browser.take_screenshot("consent-provider").await;
    browser.press(ALLOW).await;
    sign_in_there(&browser, &provider.issuer, "ann").await;
    browser.wait_for_text("close this").await;
    let ran = signed_in.await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let called = call(&hospes, &up).await;
    assert!(called.code == Some(0) && called.said.contains("+09:00"), "{called:?}");

    // What it gave us is in nothing that we have said or kept in clear.
    let tokens = provider.tokens().await;
    assert!(tokens.len() >= 4, "{}", tokens.len());
    let kept: Vec<u8> = ["state/hospes/auth.db", "state/hospes/auth.db-wal", "state/hospes/credentials"]
        .into_iter()
        .flat_map(|file| std::fs::read(hospes.path(file)).unwrap_or_default())
        .collect();
    let all = format!("{}{}{}", String::from_utf8_lossy(&kept), ran.said, called.said);
    assert!(tokens.iter().all(|token| !all.contains(token.as_str())));
}
