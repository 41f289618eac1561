//! The person, and those who bring them to the page.

use std::io;
use std::sync::mpsc;

use hospes::client::{CallError, Target};
use hospes_auth_testkit::{get, send};

use super::*;
use crate::sign_in::SignInHandler as _;
use crate::{BrowserSignIn, DeferredSignIn};

pub(super) async fn refused(site: &Site, oauth: &OAuthClient) -> hospes::client::ConnectError {
    let target = Target::url(site.mcp()).authorizer(Arc::new(oauth.clone()));
    Client::builder().revision(Revision::LATEST).connect(target).await.unwrap_err()
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_error_says_so() {
    let site = Site::open().await;
    let error = refused(&site, &site.builder().build()).await;
    assert_eq!(error.status, Some(401));
    assert_eq!(error.what, "the server requires authorization: sign-in required");
    assert_eq!(error.hint.as_deref(), Some("sign in first"));
    assert_eq!(site.script().authorizations, 0);
}

#[tokio::test]
async fn somebody_else_can_bring_the_person_there() {
    let site = Site::open().await;
    let callback = RedirectUri::new("https://console.example/oauth/callback").unwrap();
    let oauth = site.builder().sign_in(DeferredSignIn::new(callback)).build();
    let error = refused(&site, &oauth).await;
    let url = error.sign_in.clone().unwrap();
    assert!(error.to_string().contains(&url), "{error}");
    let page = GuardedClient::new(EgressPolicy::public().allow_loopback());
    let page = page.fetch(hospes_auth::FetchRequest::get(Url::parse(&url).unwrap(), 1000)).await.unwrap();
    let back = page.headers["location"].to_str().unwrap().to_owned();
    let forged = oauth.finish(&format!("{back}x")).await;
    assert!(forged.is_err(), "another state");
    oauth.finish(&back).await.unwrap();
    assert!(oauth.finish(&back).await.is_err(), "once");
    call(&site.connect(&oauth).await, "x").await.unwrap();
}

/// Returns the page of a deferred sign-in, or the error.
async fn asked_elsewhere(oauth: &OAuthClient, scope: &str) -> Result<Url, FlowError> {
    let challenge = Challenge::parse(&format!("Bearer scope=\"{scope}\"")).into_iter().next();
    match oauth.sign_in(challenge).await {
        Err(FlowError::Visit(url)) => Ok(url),
        Err(error) => Err(error),
        Ok(_) => panic!("nobody has signed in"),
    }
}

#[tokio::test]
async fn who_asks_the_same_again_is_sent_to_the_same_page() {
    let site = Site::open().await;
    let callback = RedirectUri::new("https://console.example/oauth/callback").unwrap();
    let builder = site.builder().sign_in(DeferredSignIn::new(callback));
    let oauth = builder.settings(|settings| settings.max_pending_sign_ins = 3).build();
    let first = asked_elsewhere(&oauth, "a").await.unwrap();
    for _ in 0..20 {
        assert_eq!(asked_elsewhere(&oauth, "a").await.unwrap(), first);
    }
    // Another question is another page, as long as there is room; the first is not pushed out.
    for scope in ["b", "c"] {
        assert_ne!(asked_elsewhere(&oauth, scope).await.unwrap(), first);
    }
    let full = asked_elsewhere(&oauth, "d").await.unwrap_err();
    assert!(full.to_string().contains("max_pending_sign_ins"), "{full}");
    assert_eq!(asked_elsewhere(&oauth, "a").await.unwrap(), first);
    // What is about to end is not handed out any more, and what has ended takes no room.
    site.pass(601);
    let later = asked_elsewhere(&oauth, "a").await.unwrap();
    assert_ne!(later, first);
    site.pass(301);
    assert_ne!(asked_elsewhere(&oauth, "a").await.unwrap(), later);
    let page = GuardedClient::new(EgressPolicy::public().allow_loopback());
    let page = page.fetch(hospes_auth::FetchRequest::get(later, 1000)).await.unwrap();
    oauth.finish(page.headers["location"].to_str().unwrap()).await.unwrap();
}

/// covers: SECP-07
#[tokio::test]
async fn nobody_is_sent_where_nothing_would_be_sent() {
    let site = Site::open().await;
    let (browser, urls) = browser();
    let oauth = site.builder().sign_in(browser).build();
    for inside in ["https://10.0.0.1/authorize", "https://[fd00::1]/authorize", "https://0x0a000001/x"] {
        site.script().authorizes_at = Some(inside);
        let error = oauth.sign_in(None).await.unwrap_err();
        assert!(matches!(error, FlowError::Fetch { .. }), "{inside}: {error}");
    }
    assert!(urls.try_recv().is_err());
}

#[tokio::test]
async fn signing_in_takes_as_long_as_it_takes() {
    let site = Site::open().await;
    let oauth = site.builder().sign_in(site.person()).build();
    let client = site.connect(&oauth).await;
    site.script().good.clear();
    site.script().refresh_fails = Some(400);
    call(&client, "x").await.unwrap();
    assert_eq!(site.script().authorizations, 2);
}

/// A browser that hands over what it was to open.
fn browser() -> (BrowserSignIn, mpsc::Receiver<Url>) {
    let (opened, urls) = mpsc::channel();
    (BrowserSignIn::new(move |url: &Url| opened.send(url.clone()).map_err(io::Error::other)), urls)
}

#[tokio::test]
async fn a_listener_takes_the_answer_it_waits_for_and_nothing_else() {
    let site = Site::open().await;
    let (browser, urls) = browser();
    let oauth = site.builder().sign_in(browser).build();
    let signing = tokio::spawn(async move { oauth.sign_in(None).await });
    let url = tokio::task::spawn_blocking(move || urls.recv().unwrap()).await.unwrap();
    let asked: HashMap<_, _> = url.query_pairs().into_owned().collect();
    site.script().pkce.clone_from(&asked["code_challenge"]);
    let callback = Url::parse(&asked["redirect_uri"]).unwrap();
    assert_eq!((callback.host_str(), callback.path()), (Some("127.0.0.1"), "/callback"));
    let address = callback.socket_addrs(|| None).unwrap()[0];
    let state = &asked["state"];
    let good = format!("/callback?code=code+read&state={state}");
    for bad in
        ["/".to_owned(), "/callback".into(), "/callback?code=c&state=x".into(), good.replace("back", "bach")]
    {
        let answer = get(address, &bad).await;
        assert_eq!(answer.status, 404, "{bad}");
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("script"));
    }
    for (method, host) in
        [("POST", address.to_string()), ("GET", "evil.example".into()), ("GET", "127.0.0.1:1".into())]
    {
        let request = Request::builder().method(method).uri(&good).header("host", host);
        let answer = send(address, request.body(Full::default()).unwrap()).await;
        assert_eq!(answer.status, 404, "{method}");
    }
    let answer = get(address, &good).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("cache-control"), "no-store");
    for secret in ["code+read", "code read", state] {
        assert!(!answer.body.contains(secret), "{}", answer.body);
    }
    signing.await.unwrap().unwrap();
}

/// covers: SECP-06
#[tokio::test]
async fn no_page_is_opened_that_is_not_https_or_here() {
    let (browser, urls) = browser();
    for bad in
        ["javascript:alert(1)", "data:text/html,x", "file:///srv/x", "http://public.example/", "https:///"]
    {
        let Ok(url) = Url::parse(bad) else { continue };
        let ready = browser.listen(None).await.unwrap();
        let visit = crate::flow::AuthorizationPrompt {
            url,
            redirect_uri: ready.redirect_uri(),
            state: "s".into(),
            issuer: Issuer::new("https://as").unwrap(),
            scopes: Scopes::none(),
        };
        if bad != "https:///" {
            assert!(ready.visit(visit).await.is_err(), "{bad}");
        }
    }
    assert!(urls.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn nobody_is_waited_for_for_ever() {
    let (browser, _urls) = browser();
    let ready = browser.listen(None).await.unwrap();
    let visit = crate::flow::AuthorizationPrompt {
        url: Url::parse("https://as/authorize").unwrap(),
        redirect_uri: ready.redirect_uri(),
        state: "s".into(),
        issuer: Issuer::new("https://as").unwrap(),
        scopes: Scopes::none(),
    };
    let error = ready.visit(visit).await.unwrap_err();
    assert_eq!(error.to_string(), "timed out after 600s waiting for the sign-in");
}

#[tokio::test]
async fn the_port_of_before_is_taken_where_it_is_free() {
    let (browser, _urls) = browser();
    let first = browser.listen(None).await.unwrap();
    let place = first.redirect_uri();
    let other = browser.listen(Some(&place)).await.unwrap();
    assert_ne!(other.redirect_uri(), place, "somebody has it");
    drop(first);
    assert_eq!(browser.listen(Some(&place)).await.unwrap().redirect_uri(), place);
}

/// Loopback has many names and addresses; redirects are expected only at those where the listener is.
#[tokio::test]
async fn answers_are_expected_only_where_somebody_listens() {
    let (browser, _urls) = browser();
    for elsewhere in [
        "http://127.0.0.2:41233/callback",
        "http://x.localhost:41233/callback",
        "http://localhost.:1/callback",
    ] {
        let place = RedirectUri::new(elsewhere).unwrap();
        let here = browser.listen(Some(&place)).await.unwrap().redirect_uri();
        assert!(here.as_str().starts_with("http://127.0.0.1:"), "{elsewhere}: {here}");
    }
    let place = RedirectUri::new("http://localhost:0/there").unwrap();
    let here = browser.listen(Some(&place)).await.unwrap().redirect_uri();
    assert!(here.as_str().starts_with("http://localhost:") && here.as_str().ends_with("/there"), "{here}");
}

/// covers: AUTG-09
#[tokio::test]
async fn a_browser_is_sent_back_to_this_machine_only() {
    let (browser, _urls) = browser();
    for elsewhere in ["https://127.0.0.1/callback", "http://m.example/callback", "app:/callback"] {
        let Ok(elsewhere) = RedirectUri::new(elsewhere) else { continue };
        let place = browser.listen(Some(&elsewhere)).await.unwrap().redirect_uri();
        assert!(place.as_str().starts_with("http://127.0.0.1:"), "{place}");
    }
}

#[test]
fn what_came_back_is_not_shown() {
    let url = "http://127.0.0.1:1/callback?code=s3cret&state=s3cret".to_owned();
    let endpoint = Url::parse("https://me:s3cret@m/mcp?key=s3cret").unwrap();
    let cause = AuthorizationCause::new(endpoint, None);
    let flow = AuthorizationFlow::new(Arc::default(), cause.clone(), Seed::new(&[7; 32]), 1);
    for shown in [
        format!("{:?}", FlowInput::Redirected(url.clone())),
        format!("{:?}", SignInAnswer::Redirected(url)),
        format!("{cause:?}"),
        format!("{flow:?}"),
    ] {
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

#[tokio::test]
async fn an_error_of_a_call_says_what_is_the_matter() {
    let site = Site::open().await;
    let oauth = site.builder().sign_in(site.person()).build();
    let client = site.connect(&oauth).await;
    site.script().is_blind = true;
    let Err(CallError::NotAuthorized(why)) = call(&client, "x").await else { panic!("it was let in") };
    assert!(why.to_string().contains("rejected a token"), "{why}");
    assert_eq!(why.status.map(|status| status.as_u16()), Some(401));
    assert!(!format!("{why:?} {oauth:?}").contains("token1"));
}
