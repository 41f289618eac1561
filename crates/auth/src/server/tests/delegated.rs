//! Users who sign in at somebody else's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use super::{Answer, Ask, Browser, Site, settings};
use crate::fetch::{Fetch, FetchFuture};
use crate::pkce::verify_challenge;
use crate::resource::{Flaw, Verify as _};
use crate::server::{
    AccessTokens, Admission, AuthServer, Kind, MemoryStore, Provider, Record, SignIn, Store, StoreFuture,
    Swapped, Taken,
};
use crate::{ClientId, Clock, Issuer, Response, Scopes};

const THIRD: &str = "https://third.example";
const CALLBACK: &str = "https://as.example/upstream/callback";

/// Another's authorization server, as far as it is spoken to without a browser.
#[derive(Clone, Default)]
struct Third(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Code to challenge and nonce.
    codes: Mutex<HashMap<String, (String, String)>>,
    issued: AtomicUsize,
    refreshed: AtomicUsize,
    revoked: Mutex<Vec<String>>,
    /// What it does not do.
    broken: Mutex<Option<&'static str>>,
    /// The refresh token that is good: each is good once.
    current: Mutex<String>,
    /// Renewals wait here, when there is one.
    gate: Mutex<Option<Arc<Semaphore>>>,
    /// What it says at its endpoint for that.
    userinfo: Mutex<Value>,
}

impl Third {
    fn break_off(&self, what: Option<&'static str>) {
        *self.0.broken.lock().unwrap() = what;
    }

    /// What its user's browser is sent back with.
    fn sign_in(&self, away: &HashMap<String, String>) -> String {
        let code = format!("third-code-{}", self.0.codes.lock().unwrap().len());
        let kept = (away["code_challenge"].clone(), away["nonce"].clone());
        self.0.codes.lock().unwrap().insert(code.clone(), kept);
        code
    }

    fn tokens(&self, nonce: Option<&str>) -> Value {
        let number = self.0.issued.fetch_add(1, Ordering::Relaxed);
        let for_ever = self.is(Some("for ever"));
        let (lifetime, exp) = if for_ever { (u64::MAX, u64::MAX) } else { (300, 9_999_999_999) };
        let mut tokens = json!({ "access_token": format!("third-access-{number}"), "token_type": "Bearer",
            "expires_in": lifetime });
        if self.is(None) {
            let refresh = format!("third-refresh-{number}");
            self.0.current.lock().unwrap().clone_from(&refresh);
            tokens["refresh_token"] = refresh.into();
        }
        if let Some(nonce) = nonce {
            let claims = json!({ "iss": THIRD, "sub": "u-17", "aud": "hospes-there", "exp": exp,
                "nonce": nonce });
            tokens["id_token"] = format!("x.{}.x", URL_SAFE_NO_PAD.encode(claims.to_string())).into();
        }
        tokens
    }

    fn is(&self, what: Option<&'static str>) -> bool {
        *self.0.broken.lock().unwrap() == what
    }

    fn answer(&self, request: &crate::Request) -> Option<Response> {
        let good = |value: Value| Some(Response::new(StatusCode::OK, value.to_string()));
        let bad =
            |error: &str| Some(Response::new(StatusCode::BAD_REQUEST, json!({ "error": error }).to_string()));
        let form: HashMap<_, _> = url::form_urlencoded::parse(&request.body).into_owned().collect();
        let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        if self.is(Some("away")) {
            return None;
        }
        match request.url.path() {
            "/.well-known/oauth-authorization-server" => good(json!({
                "issuer": THIRD, "authorization_endpoint": "https://third.example/authorize?tenant=1",
                "token_endpoint": "https://third.example/token",
                "introspection_endpoint": "https://third.example/introspect",
                "revocation_endpoint": "https://third.example/revoke",
                "userinfo_endpoint": "https://third.example/userinfo",
                "authorization_response_iss_parameter_supported": true,
            })),
            "/token" => {
                assert_eq!(request.headers["authorization"], "Basic aG9zcGVzLXRoZXJlOnMzY3JldA==");
                match field("grant_type") {
                    "authorization_code" => {
                        let Some((challenge, nonce)) = self.0.codes.lock().unwrap().remove(field("code"))
                        else {
                            return bad("invalid_grant");
                        };
                        assert!(verify_challenge(field("code_verifier"), &challenge));
                        assert_eq!(field("redirect_uri"), CALLBACK);
                        good(self.tokens(Some(&nonce)))
                    }
                    "refresh_token" if self.is(Some("revoked")) => bad("invalid_grant"),
                    "refresh_token" if *self.0.current.lock().unwrap() != field("refresh_token") => {
                        bad("invalid_grant")
                    }
                    "refresh_token" => {
                        self.0.refreshed.fetch_add(1, Ordering::Relaxed);
                        good(self.tokens(None))
                    }
                    _ => bad("unsupported_grant_type"),
                }
            }
            "/introspect" if self.is(Some("forbids")) => {
                Some(Response::new(StatusCode::FORBIDDEN, "not for you"))
            }
            "/introspect" if self.is(Some("failing")) => {
                Some(Response::new(StatusCode::BAD_GATEWAY, json!({ "active": true }).to_string()))
            }
            "/introspect" => good(json!({ "active": !self.is(Some("revoked")) })),
            "/userinfo" => {
                assert!(
                    request.headers["authorization"].to_str().unwrap().starts_with("Bearer third-access-")
                );
                good(self.0.userinfo.lock().unwrap().clone())
            }
            "/revoke" => {
                self.0.revoked.lock().unwrap().push(field("token").to_owned());
                good(json!({}))
            }
            other => panic!("{other} is not asked for"),
        }
    }
}

impl Fetch for Third {
    fn fetch(&self, request: crate::Request) -> FetchFuture<'_> {
        let answer = self.answer(&request).ok_or_else(|| "nobody was reached there".into());
        let renewal = String::from_utf8_lossy(&request.body).contains("grant_type=refresh_token");
        let gate = self.0.gate.lock().unwrap().clone().filter(|_| renewal);
        Box::pin(async move {
            if let Some(gate) = gate {
                gate.acquire().await.unwrap().forget();
            }
            answer
        })
    }
}

fn provider(third: &Third) -> Provider {
    let (issuer, client) = (Issuer::new(THIRD).unwrap(), ClientId::new("hospes-there").unwrap());
    Provider::new(issuer, client, &[7; 32], third.clone()).unwrap().secret("s3cret")
}

fn node(third: &Third, store: Arc<dyn Store>, time: &Arc<AtomicU64>) -> Site {
    node_of(provider(third), store, time)
}

fn node_of(provider: Provider, store: Arc<dyn Store>, time: &Arc<AtomicU64>) -> Site {
    let now = Arc::clone(time);
    let server = AuthServer::new(settings(), store, SignIn::default())
        .unwrap()
        .delegating(provider)
        .clock(Clock::new(move || now.load(Ordering::Relaxed)));
    Site::of(server, Arc::clone(time))
}

fn site(third: &Third) -> Site {
    node(third, Arc::new(MemoryStore::new()), &Arc::new(AtomicU64::new(1_000_000)))
}

/// Comes back from the other with these parameters.
async fn come_back(browser: &Browser, extra: Option<&str>, fields: &[(&str, &str)]) -> Answer {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let mut request = Request::get(format!("/upstream/callback?{query}"));
    let cookies = [browser.cookie.as_deref(), extra];
    for cookie in cookies.into_iter().flatten() {
        request = request.header("cookie", cookie);
    }
    browser.site.send(request.body(()).unwrap().into_parts().0, "").await
}

/// Agrees, and is sent away: where to, and the cookie for the way back.
async fn go_away(browser: &mut Browser, asked: &Ask) -> (HashMap<String, String>, String) {
    let consent = browser.open(asked).await;
    assert!(
        consent.text().contains("The App") && consent.text().contains("third.example"),
        "{}",
        consent.text()
    );
    let kept = browser.cookie.clone();
    let away = browser.decide(&consent, "allow").await;
    let cookies =
        away.0.headers().get_all("set-cookie").iter().map(|value| value.to_str().unwrap().to_owned());
    let cookie =
        cookies.into_iter().find(|cookie| cookie.starts_with("__Host-hospes_up=")).expect("a cookie");
    for part in ["; Secure", "; HttpOnly", "; SameSite=Lax", "; Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    browser.cookie = kept;
    let (address, fields) = away.back().unwrap();
    assert_eq!(address, "https://third.example/authorize");
    (fields, cookie.split(';').next().unwrap().to_owned())
}

async fn tokens(browser: &mut Browser, third: &Third) -> (String, String) {
    let asked = Ask::new();
    let (away, cookie) = go_away(browser, &asked).await;
    let code = third.sign_in(&away);
    let fields = [("code", &*code), ("state", &*away["state"]), ("iss", THIRD)];
    let back = come_back(browser, Some(&cookie), &fields).await;
    let code = back.answer()["code"].clone();
    browser.site.clone().redeem(&asked, &code).await.tokens()
}

async fn check(site: &Site, token: &str) -> Result<String, Flaw> {
    site.guard().verify(token, site.now()).await.map(|who| who.subject)
}

/// From our page to the other's, and back to the client with a token of ours.
///
/// covers: AUT3-01 AUT3-02 AUT3-03 AUT3-13
#[tokio::test]
async fn a_user_signs_in_at_the_others() {
    let third = Third::default();
    let site = site(&third);
    let mut browser = Browser::new(&site);
    let asked = Ask::new();
    let (away, cookie) = go_away(&mut browser, &asked).await;
    assert_eq!((&*away["client_id"], &*away["redirect_uri"]), ("hospes-there", CALLBACK));
    assert_eq!((&*away["scope"], &*away["tenant"]), ("openid", "1"));
    assert_ne!(away["state"], "st&te=1", "the client's state is the client's");
    assert_ne!(away["code_challenge"], asked.verifier.challenge());
    let code = third.sign_in(&away);
    let fields = [("code", &*code), ("state", &*away["state"]), ("iss", THIRD)];
    let back = come_back(&browser, Some(&cookie), &fields).await;
    let (address, answer) = back.back().unwrap();
    assert_eq!((&*address, &*answer["state"], &*answer["iss"]), (super::ASKED, "st&te=1", super::ISSUER));
    let token = site.redeem(&asked, &answer["code"]).await;
    let (access, refresh) = token.tokens();
    assert_eq!(check(&site, &access).await.unwrap(), "https://third.example u-17");
    // Nothing of the other's is in anything that a client or a browser gets.
    for said in [back.text(), back.header("location"), token.text()] {
        assert!(!said.contains("third-access") && !said.contains("third-refresh"), "{said}");
    }
    // Nor can it be read where it is kept.
    for record in site.server.0.store.list(crate::server::Kind::Upstream, 0, 10).await.unwrap() {
        assert!(!record.value.contains("third-"), "{}", record.value);
    }
    // Giving ours back gives the other's back.
    site.form("/revoke", &[("token", &refresh), ("client_id", super::APP)]).await;
    assert_eq!(*third.0.revoked.lock().unwrap(), ["third-refresh-0"]);
    assert_eq!(check(&site, &access).await, Err(Flaw::Invalid));
}

/// Whoever is signed in at the other's still says for each client whether they want it.
///
/// covers: AUT3-16 AUT3-17
#[tokio::test]
async fn nobody_is_sent_away_or_taken_back_who_has_not_agreed_here() {
    let third = Third::default();
    let site = site(&third);
    let mut browser = Browser::new(&site);
    tokens(&mut browser, &third).await;
    let page = browser.open(&Ask::of("other", super::ASKED)).await;
    assert!(page.back().is_none(), "a consent page, whatever cookies there are");
    let set = page.0.headers().get_all("set-cookie").iter().map(|value| value.to_str().unwrap().to_owned());
    assert!(set.into_iter().all(|cookie| !cookie.starts_with("__Host-hospes_up")), "none before approval");

    let (away, cookie) = go_away(&mut browser, &Ask::new()).await;
    let code = third.sign_in(&away);
    let good = [("code", &*code), ("state", &*away["state"]), ("iss", THIRD)];
    let refused = StatusCode::BAD_REQUEST;
    assert_eq!(come_back(&browser, None, &good).await.status(), refused, "without the cookie");
    let (other, others) = go_away(&mut Browser::new(&site), &Ask::new()).await;
    assert_eq!(come_back(&browser, Some(&others), &good).await.status(), refused, "with another's");
    let wrong = [("code", &*code), ("state", &*other["state"]), ("iss", THIRD)];
    assert_eq!(come_back(&browser, Some(&cookie), &wrong).await.status(), refused, "with another's state");
    let none = [("code", &*code), ("iss", THIRD)];
    assert_eq!(come_back(&browser, Some(&cookie), &none).await.status(), refused);
    let twice = [good[0], good[1], good[1], good[2]];
    assert_eq!(come_back(&browser, Some(&cookie), &twice).await.status(), refused);
    assert!(come_back(&browser, Some(&cookie), &good).await.answer().contains_key("code"));
    assert_eq!(come_back(&browser, Some(&cookie), &good).await.status(), refused, "once");
    let (away, cookie) = go_away(&mut browser, &Ask::new()).await;
    site.pass(600);
    let late = [("code", "x"), ("state", &*away["state"]), ("iss", THIRD)];
    assert_eq!(come_back(&browser, Some(&cookie), &late).await.status(), refused, "too late");
}

/// covers: AUT3-12
#[tokio::test]
async fn what_goes_wrong_at_the_others_is_told_in_our_words() {
    let third = Third::default();
    let site = site(&third);
    for (fields, error) in [
        (vec![("error", "access_denied"), ("iss", THIRD)], "access_denied"),
        (vec![("error", "made_up"), ("error_description", "secret detail"), ("iss", THIRD)], "server_error"),
        (vec![("code", "wrong"), ("iss", THIRD)], "server_error"),
        (vec![("code", "x"), ("iss", "https://third.example/")], "server_error"),
        (vec![("error", "access_denied"), ("iss", "https://evil.example")], "server_error"),
        (vec![("code", "x")], "server_error"),
    ] {
        let mut browser = Browser::new(&site);
        let (away, cookie) = go_away(&mut browser, &Ask::new()).await;
        let fields = [vec![("state", &*away["state"])], fields].concat();
        let back = come_back(&browser, Some(&cookie), &fields).await;
        assert_eq!(back.answer()["error"], error, "{fields:?}");
        assert!(!back.header("location").contains("secret"));
        assert_eq!(back.answer()["iss"], super::ISSUER);
    }
}

/// Two nodes, and what a token rests on runs out: it is renewed once, and checked from time to time.
///
/// covers: AUT3-04 AUT3-05 AUT3-06 AUT3-07 AUT3-09
#[tokio::test]
async fn ours_is_good_as_long_as_theirs() {
    let third = Third::default();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let time = Arc::new(AtomicU64::new(1_000_000));
    let nodes = [node(&third, Arc::clone(&store), &time), node(&third, Arc::clone(&store), &time)];
    let mut browser = Browser::new(&nodes[0]);
    let (access, refresh) = tokens(&mut browser, &third).await;
    nodes[0].pass(300);
    let checks = (0..50).map(|at| {
        let (site, access) = (nodes[at % 2].clone(), access.clone());
        tokio::spawn(async move { check(&site, &access).await.is_ok() })
    });
    for done in checks.collect::<Vec<_>>() {
        assert!(done.await.unwrap());
    }
    assert_eq!(third.0.refreshed.load(Ordering::Relaxed), 1, "once for all");
    // Not there: nobody is let in who would have to be checked, and nothing is thrown away.
    nodes[0].pass(60);
    third.break_off(Some("away"));
    assert_eq!(check(&nodes[1], &access).await, Err(Flaw::Unavailable));
    third.break_off(None);
    assert!(check(&nodes[1], &access).await.is_ok());
    // Taken back there: noticed within a minute, and for good.
    third.break_off(Some("revoked"));
    assert!(check(&nodes[0], &access).await.is_ok());
    nodes[0].pass(60);
    assert_eq!(check(&nodes[0], &access).await, Err(Flaw::Invalid));
    third.break_off(None);
    assert_eq!(check(&nodes[1], &access).await, Err(Flaw::Invalid));
    assert_eq!(nodes[1].refresh(&refresh, super::APP, &[]).await.error().1, "invalid_grant");
}

/// Nobody shows us the tokens of a resource elsewhere, which reads them itself or asks: theirs is asked about when ours
/// is renewed, and when we are asked.
///
/// covers: AUT3-05 AUT3-06
#[tokio::test]
async fn what_rests_on_theirs_is_renewed_as_long_as_theirs_holds() {
    let third = Third::default();
    let now = Arc::new(AtomicU64::new(1_000_000));
    let time = Arc::clone(&now);
    let mut settings = settings();
    settings.access_tokens = AccessTokens::Jwt;
    let server = AuthServer::new(settings, Arc::new(MemoryStore::new()), SignIn::default()).unwrap();
    let server = server.delegating(provider(&third)).clock(Clock::new(move || time.load(Ordering::Relaxed)));
    let site = Site::of(server, now);
    let machine = super::basic("machine", "s3cret:%+ä");
    let introspect = async |token: &str| {
        site.form_with("/introspect", &[("token", token)], &[("authorization", &*machine)]).await
    };
    let (access, first) = tokens(&mut Browser::new(&site), &third).await;
    site.pass(60);
    third.break_off(Some("away"));
    assert_eq!(site.refresh(&first, super::APP, &[]).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(introspect(&access).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    third.break_off(None);
    assert_eq!(introspect(&access).await.json()["active"], true);
    let (_, second) = site.refresh(&first, super::APP, &[]).await.tokens();
    site.pass(60);
    third.break_off(Some("revoked"));
    // The answer to the first might have been lost: it is not told again either.
    assert_eq!(site.refresh(&first, super::APP, &[]).await.error().1, "invalid_grant");
    assert_eq!(site.refresh(&second, super::APP, &[]).await.error().1, "invalid_grant");
    assert_eq!(introspect(&access).await.json(), json!({ "active": false }));

    third.break_off(None);
    let (access, refresh) = tokens(&mut Browser::new(&site), &third).await;
    site.pass(60);
    third.break_off(Some("revoked"));
    assert_eq!(introspect(&access).await.json(), json!({ "active": false }), "whoever is asked first");
    assert_eq!(site.refresh(&refresh, super::APP, &[]).await.error().1, "invalid_grant");
    third.break_off(None);
    let (access, refresh) = tokens(&mut Browser::new(&site), &third).await;
    site.pass(60);
    third.break_off(Some("revoked"));
    assert_eq!(site.refresh(&refresh, super::APP, &[]).await.error().1, "invalid_grant");
    third.break_off(None);
    assert_eq!(introspect(&access).await.json(), json!({ "active": false }));
}

/// A provider that does not let us ask shuts nobody out; one that fails is waited for.
#[tokio::test]
async fn a_provider_may_keep_to_itself_whether_its_tokens_hold() {
    let third = Third::default();
    let site = site(&third);
    let (access, _) = tokens(&mut Browser::new(&site), &third).await;
    site.pass(60);
    third.break_off(Some("failing"));
    assert_eq!(check(&site, &access).await, Err(Flaw::Unavailable), "whatever it says");
    third.break_off(Some("forbids"));
    assert!(check(&site, &access).await.is_ok());
    site.pass(60);
    assert!(check(&site, &access).await.is_ok());
}

#[tokio::test]
async fn theirs_may_last_for_ever() {
    let third = Third::default();
    third.break_off(Some("for ever"));
    let site = site(&third);
    let (access, _) = tokens(&mut Browser::new(&site), &third).await;
    site.pass(300);
    assert!(check(&site, &access).await.is_ok());
}

/// Without a way to renew theirs, ours ends with it.
///
/// covers: AUT3-10
#[tokio::test]
async fn what_cannot_be_renewed_ends() {
    let third = Third::default();
    third.break_off(Some("no refresh"));
    let site = site(&third);
    let mut browser = Browser::new(&site);
    let (access, refresh) = tokens(&mut browser, &third).await;
    site.pass(59);
    assert!(check(&site, &access).await.is_ok());
    site.pass(241);
    assert_eq!(check(&site, &access).await, Err(Flaw::Invalid), "five minutes, not ten");
    assert_eq!(site.refresh(&refresh, super::APP, &[]).await.error().1, "invalid_grant");
}

/// A store in which whoever claims first is held up until somebody else has had the lease and is done with it.
#[derive(Debug, Default)]
struct Late {
    inner: MemoryStore,
    claims: AtomicUsize,
    done: Notify,
}

impl Store for Late {
    fn put(&self, record: Record) -> StoreFuture<'_, bool> {
        self.inner.put(record)
    }

    fn get<'a>(&'a self, kind: Kind, key: &'a str, now: u64) -> StoreFuture<'a, Option<Record>> {
        self.inner.get(kind, key, now)
    }

    fn take<'a>(&'a self, kind: Kind, key: &'a str, now: u64) -> StoreFuture<'a, Taken> {
        self.inner.take(kind, key, now)
    }

    fn claim<'a>(&'a self, key: &'a str, until: u64, now: u64) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            if self.claims.fetch_add(1, Ordering::Relaxed) == 0 {
                self.done.notified().await;
            }
            self.inner.claim(key, until, now).await
        })
    }

    fn swap_refresh<'a>(
        &'a self,
        old: &'a str,
        new: Record,
        note: &'a str,
        now: u64,
        window: u64,
    ) -> StoreFuture<'a, Swapped> {
        self.inner.swap_refresh(old, new, note, now, window)
    }

    fn forget<'a>(&'a self, kind: Kind, key: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let gone = self.inner.forget(kind, key).await;
            if kind == Kind::Claim {
                self.done.notify_one();
            }
            gone
        })
    }

    fn revoke_grant<'a>(&'a self, grant: &'a str, until: u64) -> StoreFuture<'a, ()> {
        self.inner.revoke_grant(grant, until)
    }

    fn count(&self, kind: Kind) -> StoreFuture<'_, usize> {
        self.inner.count(kind)
    }

    fn list(&self, kind: Kind, now: u64, most: usize) -> StoreFuture<'_, Vec<Record>> {
        self.inner.list(kind, now, most)
    }

    fn sweep(&self, now: u64) -> StoreFuture<'_, ()> {
        self.inner.sweep(now)
    }
}

/// One node finds that theirs has run out, and gets the lease only when another has renewed it already: the refresh token
/// that it knows is spent by then, and with a provider that rotates them showing it would end everything.
///
/// covers: AUT3-07
#[tokio::test]
async fn a_spent_token_of_theirs_is_not_shown_again() {
    let third = Third::default();
    let store: Arc<dyn Store> = Arc::new(Late::default());
    let time = Arc::new(AtomicU64::new(1_000_000));
    let nodes = [node(&third, Arc::clone(&store), &time), node(&third, Arc::clone(&store), &time)];
    let mut browser = Browser::new(&nodes[0]);
    let (access, _) = tokens(&mut browser, &third).await;
    nodes[0].pass(300);
    let (first, second) = tokio::join!(check(&nodes[0], &access), check(&nodes[1], &access));
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    assert_eq!(third.0.refreshed.load(Ordering::Relaxed), 1);
}

/// Whoever called goes away while theirs is renewed: what came back is kept all the same.
///
/// covers: AUT3-07
#[tokio::test]
async fn a_renewal_of_theirs_runs_to_its_end() {
    let third = Third::default();
    let site = site(&third);
    let mut browser = Browser::new(&site);
    let (access, _) = tokens(&mut browser, &third).await;
    site.pass(300);
    let gate = Arc::new(Semaphore::new(0));
    *third.0.gate.lock().unwrap() = Some(Arc::clone(&gate));
    {
        let mut gone = std::pin::pin!(check(&site, &access));
        let asked = async {
            while third.0.refreshed.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = &mut gone => panic!("it waits"),
            () = asked => {}
        }
    }
    gate.add_permits(1);
    assert!(check(&site, &access).await.is_ok());
    assert_eq!(third.0.refreshed.load(Ordering::Relaxed), 1, "the caller is gone, the renewal is not");
}

/// A renewal that takes too long is given up, and the lease with it; one that took longer than the lease leaves alone what
/// is another's by then.
///
/// covers: AUT3-07
#[tokio::test(start_paused = true)]
async fn a_lease_is_given_back_by_who_has_it() {
    let third = Third::default();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let site = node(&third, Arc::clone(&store), &Arc::new(AtomicU64::new(1_000_000)));
    let (access, _) = tokens(&mut Browser::new(&site), &third).await;
    let grant = store.list(Kind::Upstream, site.now(), 1).await.unwrap().remove(0).key;
    let lease = format!("upstream {grant}");
    site.pass(300);
    for (takes, is_free) in [(45, true), (60, false)] {
        let gate = Arc::new(Semaphore::new(0));
        *third.0.gate.lock().unwrap() = Some(Arc::clone(&gate));
        let before = third.0.refreshed.load(Ordering::Relaxed);
        let begun = async {
            while third.0.refreshed.load(Ordering::Relaxed) == before {
                tokio::task::yield_now().await;
            }
            site.pass(takes);
            if !is_free {
                assert!(store.claim(&lease, site.now() + 60, site.now()).await.unwrap(), "it has lapsed");
            }
        };
        let (checked, ()) = tokio::join!(check(&site, &access), begun);
        assert_eq!(checked, Err(Flaw::Unavailable));
        assert_eq!(store.claim(&lease, site.now() + 1, site.now()).await.unwrap(), is_free, "{takes}");
        site.pass(1);
        // What theirs was replaced by is lost here, not there.
        *third.0.current.lock().unwrap() = "third-refresh-0".to_owned();
    }
}

/// Only those come in whom the configuration means, by what the provider says of them in either place.
///
/// covers: AUT3-12
#[tokio::test]
async fn not_everybody_is_let_in_who_signs_in_there() {
    let third = Third::default();
    let of = |groups: &[&str]| {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        provider(&third).admitting(Admission::only([("groups".to_owned(), groups)]))
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let time = Arc::new(AtomicU64::new(1_000_000));
    let site = node_of(of(&["mcp"]), Arc::clone(&store), &time);
    let back = async |said: Value| {
        *third.0.userinfo.lock().unwrap() = said;
        let mut browser = Browser::new(&site);
        let (away, cookie) = go_away(&mut browser, &Ask::new()).await;
        let code = third.sign_in(&away);
        let fields = [("code", &*code), ("state", &*away["state"]), ("iss", THIRD)];
        come_back(&browser, Some(&cookie), &fields).await
    };
    let refused = back(json!({ "sub": "u-17", "groups": ["staff"] })).await;
    assert_eq!(refused.answer()["error"], "access_denied");
    assert!(refused.answer()["error_description"].contains("third.example"));
    assert_eq!(*third.0.revoked.lock().unwrap(), ["third-refresh-0"], "and theirs is given back");
    let other = back(json!({ "sub": "u-18", "groups": ["mcp"] })).await;
    assert_eq!(other.answer()["error"], "server_error", "what is said of somebody else is not used");
    assert!(back(json!({ "sub": "u-17", "groups": ["mcp"] })).await.answer().contains_key("code"));

    let mut browser = Browser::new(&site);
    let (access, _) = tokens(&mut browser, &third).await;
    assert!(check(&site, &access).await.is_ok());
    // The next start has other rules.
    let other = node_of(of(&["admins"]), store, &time);
    assert_eq!(check(&other, &access).await, Err(Flaw::Invalid));
    assert_eq!(check(&site, &access).await, Err(Flaw::Invalid), "for good");
}

/// Some providers want a parameter of their own, and for a token that lasts a consent of theirs; none of what the flow
/// itself sends can be replaced.
#[tokio::test]
async fn users_are_sent_with_what_the_provider_wants() {
    let third = Third::default();
    let (store, time) = (Arc::new(MemoryStore::new()), Arc::new(AtomicU64::new(1_000_000)));
    let scopes = Scopes::parse("openid offline_access");
    let more =
        provider(&third).scopes(scopes.clone()).parameter("access_type", "offline").parameter("state", "x");
    let (away, _) = go_away(&mut Browser::new(&node_of(more, store.clone(), &time)), &Ask::new()).await;
    assert_eq!((&*away["access_type"], &*away["prompt"]), ("offline", "consent"));
    assert_ne!(away["state"], "x");
    let own = provider(&third).scopes(scopes).parameter("prompt", "select_account consent");
    let (away, _) = go_away(&mut Browser::new(&node_of(own, store, &time)), &Ask::new()).await;
    assert_eq!(away["prompt"], "select_account consent");
}
