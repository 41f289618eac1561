//! Answers of a provider that is not ours, which come too late or to the wrong person.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use hospes_browser_tests::{HospesProgram, OpenIdProvider, RecordingSite, RunningHospes, TestBrowser};
use url::Url;

const CHALLENGE: &str = "ZtNPunH49FD35FWYhT5Tv8I7vRKQJ8uxMaL0_9eHjNA";
const ALLOW: &str = "button[value=allow]";

/// `hospes up`, where users sign in at the provider, and an application.
async fn place(provider: &OpenIdProvider) -> Option<(HospesProgram, RunningHospes, RecordingSite)> {
    let hospes = HospesProgram::find()?;
    let up = hospes.start_gateway(&format!(
        "[auth.clients.app]\nredirect_uris = [\"http://127.0.0.1/callback\"]\n\
         [auth.provider]\nissuer = \"{}\"\nclient_id = \"{}\"\nclient_secret = \"{}\"\nallow = \"everybody\"",
        provider.issuer,
        OpenIdProvider::CLIENT,
        OpenIdProvider::SECRET
    ));
    Some((hospes, up, RecordingSite::serve("<p>the application</p>").await))
}

/// Begins at the application, agrees at ours, and signs in at the provider, up to its last question.
async fn to_the_last_question(
    browser: &TestBrowser,
    up: &RunningHospes,
    back: &RecordingSite,
    provider: &OpenIdProvider,
    name: &str,
) {
    let mut url = Url::parse(&format!("{}/authorize", up.origin())).unwrap();
    url.query_pairs_mut().extend_pairs([
        ("response_type", "code"),
        ("client_id", "app"),
        ("redirect_uri", &format!("{}/callback", back.origin)),
        ("state", "s-1"),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("resource", &up.url),
    ]);
    browser.open(url.as_str()).await;
    browser.press(ALLOW).await;
    browser.wait_for_url(&provider.issuer).await;
    browser.fill("input[name=login]", name).await;
    browser.fill("input[name=password]", "any").await;
    browser.press("button[type=submit]").await;
    browser.wait_for_text("Authorize").await;
}

/// Mallory completes the flow with an account of their own. Another user's browser, whose own sign-in is under way,
/// then delivers the answer. The code is valid, but the state belongs to another browser.
///
/// covers: AUT3-17
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_somebody_elses_question_is_nobodys() {
    let Some(provider) = OpenIdProvider::start() else { return };
    let (Some(mallory), Some(victim)) = (TestBrowser::start().await, TestBrowser::start().await) else {
        return;
    };
    let Some((_hospes, up, back)) = place(&provider).await else { return };
    to_the_last_question(&mallory, &up, &back, &provider, "mallory").await;
    // Their browser does not hand the answer in: it has lost what it was known by.
    for cookie in mallory.driver().get_all_cookies().await.unwrap() {
        if cookie.name.starts_with("hospes_up") {
            mallory.driver().delete_cookie(cookie.name).await.unwrap();
        }
    }
    mallory.press("button[type=submit]").await;
    mallory.wait_for_url(up.origin()).await;
    mallory.wait_for_text("no longer valid").await;
    let answer = mallory.url().await;
    assert!(answer.query_pairs().any(|(name, _)| name == "code"), "{answer}");

    to_the_last_question(&victim, &up, &back, &provider, "ann").await;
    let question = victim.url().await;
    victim.open(answer.as_str()).await;
    victim.wait_for_text("no longer valid").await;
    for status in [200, 400] {
        assert_eq!(provider.times(&format!("authorization_code {status}")).await, 0, "it was not redeemed");
    }
    assert!(!back.asked().iter().any(|path| path.starts_with("/callback")), "{:?}", back.asked());
    // Their own goes on as if nothing had been.
    victim.open(question.as_str()).await;
    victim.wait_for_text("Authorize").await;
    victim.press("button[type=submit]").await;
    victim.wait_for_text("the application").await;
    assert_eq!(provider.times("authorization_code 200").await, 1);
}
