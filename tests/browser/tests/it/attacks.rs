//! Attacks by other pages on the browser of a signed-in user.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use hospes_browser_tests::{HospesProgram, OpenIdProvider, RecordingSite, RunningHospes, TestBrowser};
use url::Url;

const ALLOW: &str = "button[value=allow]";
/// That of `a` written 43 times.
const CHALLENGE: &str = "ZtNPunH49FD35FWYhT5Tv8I7vRKQJ8uxMaL0_9eHjNA";

const USERS: &str = "[auth]\nusers = { ann = \"correct horse\" }\n[auth.clients.app]\nname = \"The App\"\n\
    redirect_uris = [\"http://127.0.0.1/callback\"]\n[auth.clients.other]\nredirect_uris = [\"http://127.0.0.1/callback\"]";

fn authorize(up: &RunningHospes, client: &str, back: &RecordingSite) -> String {
    let mut url = Url::parse(&format!("{}/authorize", up.origin())).unwrap();
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", client)
        .append_pair("redirect_uri", &format!("{}/callback", back.origin))
        .append_pair("state", "s-1")
        .append_pair("code_challenge", CHALLENGE)
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", &up.url);
    url.into()
}

async fn sign_in(browser: &TestBrowser, page: &str) {
    browser.open(page).await;
    browser.fill("#user", "ann").await;
    browser.fill("#password", "correct horse").await;
    browser.press("button[type=submit]").await;
    browser.find(ALLOW).await;
}

fn answers(pages: &RecordingSite) -> Vec<String> {
    pages.asked().into_iter().filter(|path| path.starts_with("/callback?")).collect()
}

/// Somebody is signed in here. A page of another site frames our consent, and would have them press what they do not see.
///
/// covers: AUT3-15
#[tokio::test(flavor = "multi_thread")]
async fn a_frame_shows_nothing_of_ours() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let up = hospes.start_gateway(USERS);
    let back = RecordingSite::serve("<p>the application</p>").await;
    let page = authorize(&up, "app", &back);
    sign_in(&browser, &page).await;
    // The same site but for the port, so that cookies would come along, and another one.
    for host in ["127.0.0.1", "localhost"] {
        let frame = RecordingSite::serve(format!(
            "<p>win a prize</p><iframe src=\"{}\"></iframe>",
            page.replace('&', "&amp;")
        ))
        .await;
        browser.open(&frame.origin.replace("127.0.0.1", host)).await;
        browser.wait_for_text("win a prize").await;
        let inside = browser.find("iframe").await;
        inside.enter_frame().await.unwrap();
        let body = browser.text().await;
        assert!(!body.contains("The App") && !body.contains("Allow"), "{body}");
        assert!(browser.driver().find(thirtyfour::By::Css("form")).await.is_err(), "no form: {body}");
        browser.driver().enter_default_frame().await.unwrap();
    }
    // The page itself is there.
    browser.open(&page).await;
    browser.wait_for_text("The App").await;
}

/// A form that was sent once decides nothing again, and a page of another site sends none for us.
///
/// covers: AUT3-15
#[tokio::test(flavor = "multi_thread")]
async fn a_consent_is_given_once_and_here() {
    let (Some(browser), Some(hospes)) = (TestBrowser::start().await, HospesProgram::find()) else { return };
    let up = hospes.start_gateway(USERS);
    let back = RecordingSite::serve("<p>the application</p>").await;
    sign_in(&browser, &authorize(&up, "app", &back)).await;
    let hidden = async |name: &str| {
        let field = browser.find(&format!("input[name={name}]")).await;
        field.value().await.unwrap().unwrap()
    };
    let (request, csrf) = (hidden("request").await, hidden("csrf").await);
    // Whatever an attacker has read over somebody's shoulder.
    let form = format!(
        "<form method=post action=\"{}/consent\"><input name=request value=\"{request}\"><input name=csrf value=\"{csrf}\">\
         <button name=decision value=allow>Play</button></form>",
        up.origin()
    );
    let ours = browser.driver().window().await.unwrap();
    let other = browser.driver().new_tab().await.unwrap();
    browser.driver().switch_to_window(other).await.unwrap();
    for host in ["127.0.0.1", "localhost"] {
        let evil = RecordingSite::serve(form.clone()).await;
        browser.open(&evil.origin.replace("127.0.0.1", host)).await;
        browser.press("button").await;
        browser.wait_for_url(up.origin()).await;
        assert!(answers(&back).is_empty(), "{host}: {:?}", back.asked());
    }
    browser.driver().switch_to_window(ours).await.unwrap();
    browser.press(ALLOW).await;
    browser.wait_for_text("the application").await;
    assert_eq!(answers(&back).len(), 1, "{:?}", back.asked());
    // The same once more, from a page of ours.
    let again = format!(
        "const f = document.createElement('form'); f.method = 'post'; f.action = '/consent'; \
         for (const [n, v] of [['request', '{request}'], ['csrf', '{csrf}'], ['decision', 'allow']]) {{ \
         const i = document.createElement('input'); i.name = n; i.value = v; f.append(i); }} \
         document.body.append(f); f.submit();"
    );
    browser.open(&format!("{}/authorize", up.origin())).await;
    browser.wait_for_text("Unknown application").await;
    browser.take_screenshot("problem").await;
    browser.run(&again).await;
    browser.wait_for_text("no longer valid").await;
    browser.take_screenshot("too-late").await;
    assert_eq!(answers(&back).len(), 1, "{:?}", back.asked());
}

fn delegating(provider: &OpenIdProvider) -> String {
    format!(
        "{}\n[auth.provider]\nissuer = \"{}\"\nclient_id = \"{}\"\nclient_secret = \"{}\"\nallow = \"everybody\"",
        USERS.replace("users = { ann = \"correct horse\" }", ""),
        provider.issuer,
        OpenIdProvider::CLIENT,
        OpenIdProvider::SECRET
    )
}

/// Confused deputy: a user is signed in at the provider and has consented to Hospes there. Another application now
/// sends them to Hospes. The provider would let them through without asking; the consent page of Hospes does not.
///
/// covers: AUT3-13 AUT3-14 AUT3-16
#[tokio::test(flavor = "multi_thread")]
async fn who_is_signed_in_there_is_asked_here_for_each_application() {
    let (Some(provider), Some(hospes)) = (OpenIdProvider::start(), HospesProgram::find()) else { return };
    let Some(browser) = TestBrowser::start().await else { return };
    let up = hospes.start_gateway(&delegating(&provider));
    let back = RecordingSite::serve("<p>the application</p>").await;
    browser.open(&authorize(&up, "app", &back)).await;
    browser.press(ALLOW).await;
    browser.wait_for_url(&provider.issuer).await;
    browser.fill("input[name=login]", "ann").await;
    browser.fill("input[name=password]", "any").await;
    browser.press("button[type=submit]").await;
    browser.wait_for_text("Authorize").await;
    browser.press("button[type=submit]").await;
    browser.wait_for_text("the application").await;
    assert_eq!(answers(&back).len(), 1);
    // The provider's cookie is alive: it does not ask the same application again.
    browser.open(&authorize(&up, "app", &back)).await;
    browser.press(ALLOW).await;
    browser.wait_for_url(&back.origin).await;
    browser.wait_for_text("the application").await;
    assert_eq!(answers(&back).len(), 2, "the provider has asked nobody");
    assert!(answers(&back).iter().all(|answer| answer.contains("code=")), "{:?}", answers(&back));

    let asked = provider.recorded_state().await["states"].as_array().unwrap().len();
    let evil = RecordingSite::serve("<p>the attacker</p>").await;
    browser.open(&authorize(&up, "other", &evil)).await;
    let consent = browser.wait_for_text("Allow other").await;
    let place = evil.origin.trim_start_matches("http://");
    assert!(consent.contains(place), "where the answer would go: {consent}");
    // Nothing has gone to the provider for it, and no mark was set for the way back.
    assert_eq!(provider.recorded_state().await["states"].as_array().unwrap().len(), asked);
    assert!(evil.asked().is_empty(), "{:?}", evil.asked());
    browser.press("button[value=deny]").await;
    browser.wait_for_text("the attacker").await;
    let refused = answers(&evil).remove(0);
    assert!(refused.contains("error=access_denied") && !refused.contains("code="), "{refused}");
}

/// Somebody else's browser comes back with an answer of the provider: with the right state, and without our cookie.
///
/// covers: AUT3-16 AUT3-17
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_the_provider_is_good_in_its_browser_only() {
    let (Some(provider), Some(hospes)) = (OpenIdProvider::start(), HospesProgram::find()) else { return };
    let (Some(browser), Some(victim)) = (TestBrowser::start().await, TestBrowser::start().await) else {
        return;
    };
    let up = hospes.start_gateway(&delegating(&provider));
    let back = RecordingSite::serve("<p>the application</p>").await;
    browser.open(&authorize(&up, "app", &back)).await;
    let port = Url::parse(&up.url).unwrap().port().unwrap();
    let name = format!("hospes_up-{port}");
    assert!(browser.driver().get_named_cookie(&name).await.is_err(), "none before the consent");
    browser.press(ALLOW).await;
    browser.wait_for_url(&provider.issuer).await;
    let state = provider.recorded_state().await["states"][0].as_str().unwrap().to_owned();
    let answer = format!("{}/upstream/callback?code=c&state={state}&iss={}", up.origin(), provider.issuer);
    victim.open(&answer).await;
    victim.wait_for_text("no longer valid").await;
    // A cookie that was planted is none of ours.
    victim.open(&authorize(&up, "app", &back)).await;
    let planted = thirtyfour::Cookie::new(&name, "A".repeat(43));
    victim.driver().add_cookie(planted).await.unwrap();
    victim.open(&answer).await;
    victim.wait_for_text("no longer valid").await;
    assert_eq!(provider.times("authorization_code 400").await, 0, "nothing was asked for it");

    // And with somebody else's issuer even the right browser gets nothing; the code goes nowhere.
    browser.open(&answer.replace(&provider.issuer, "https://evil.example")).await;
    browser.wait_for_text("the application").await;
    let refused = answers(&back).remove(0);
    assert!(refused.contains("error=server_error") && !refused.contains("code="), "{refused}");
    assert_eq!(provider.times("authorization_code 400").await, 0);
    // It was used up by that.
    browser.open(&answer).await;
    browser.wait_for_text("no longer valid").await;
}
