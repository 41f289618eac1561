//! Users who sign in at another provider.

mod groups;
mod leases;
mod lives;
mod signing_in;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hospes_auth::pkce::verify_challenge;
use hospes_auth::{ClientId, FetchFuture, FetchResponse, HttpFetch, Issuer, UnixClock};
use hospes_auth_testkit::{PATIENCE, TestSigningKey};
use hospes_oauth_resource::{TokenVerifier as _, VerifyTokenError};
use http::{Request, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use super::{Answer, Ask, Browser, Site, settings};
use crate::{AuthServer, AuthStore, LocalSignIn, MemoryAuthStore, SignInProvider};

pub(in crate::tests) const THIRD: &str = "https://third.example";
const CALLBACK: &str = "https://as.example/upstream/callback";

/// Authorization server of the provider, as far as it is used without a browser.
#[derive(Clone, Default)]
pub(in crate::tests) struct Third(Arc<Inner>);

#[derive(Default)]
pub(super) struct Inner {
    /// Code to challenge and nonce.
    codes: Mutex<HashMap<String, (String, String)>>,
    issued: AtomicUsize,
    refreshed: AtomicUsize,
    revoked: Mutex<Vec<String>>,
    /// Something was.
    was_revoked: Notify,
    /// Function that is out of order.
    broken: Mutex<Option<&'static str>>,
    /// The refresh token that is good: each is good once.
    current: Mutex<String>,
    /// Renewals wait here, when there is one.
    gate: Mutex<Option<Arc<Semaphore>>>,
    /// Response of its userinfo endpoint.
    userinfo: Mutex<Value>,
    /// User who signs in there. Default: `u-17`.
    subject: Mutex<Option<&'static str>>,
    /// Keys that it publishes.
    keys: Mutex<Value>,
}

impl Third {
    pub(in crate::tests) fn break_off(&self, what: Option<&'static str>) {
        *self.0.broken.lock() = what;
    }

    /// Sets the user who signs in there from now on.
    pub(in crate::tests) fn is_visited_by(&self, subject: &'static str) {
        *self.0.subject.lock() = Some(subject);
    }

    /// Sets the response of its userinfo endpoint.
    pub(in crate::tests) fn set_userinfo(&self, claims: Value) {
        *self.0.userinfo.lock() = claims;
    }

    /// Sets the keys that it publishes from now on.
    pub(in crate::tests) fn publish<'k>(&self, keys: impl IntoIterator<Item = &'k TestSigningKey>) {
        *self.0.keys.lock() = serde_json::to_value(hospes_auth_testkit::key_set(keys)).unwrap();
    }

    /// Returns the response that the browser brings back.
    pub(in crate::tests) fn sign_in(&self, away: &HashMap<String, String>) -> String {
        let code = format!("third-code-{}", self.0.codes.lock().len());
        let kept = (away["code_challenge"].clone(), away["nonce"].clone());
        self.0.codes.lock().insert(code.clone(), kept);
        code
    }

    /// Waits for a revocation and returns the revoked tokens.
    async fn given_back(&self) -> Vec<String> {
        tokio::time::timeout(PATIENCE, self.0.was_revoked.notified()).await.expect("something is given back");
        self.0.revoked.lock().clone()
    }

    fn tokens(&self, nonce: Option<&str>) -> Value {
        let number = self.0.issued.fetch_add(1, Ordering::Relaxed);
        let for_ever = self.is(Some("for ever"));
        let (lifetime, exp) = if for_ever { (u64::MAX, u64::MAX) } else { (300, 9_999_999_999) };
        let mut tokens = json!({ "access_token": format!("third-access-{number}"), "token_type": "Bearer",
            "expires_in": lifetime });
        if self.is(None) {
            let refresh = format!("third-refresh-{number}");
            self.0.current.lock().clone_from(&refresh);
            tokens["refresh_token"] = refresh.into();
        }
        if let Some(nonce) = nonce {
            let subject = self.0.subject.lock().unwrap_or("u-17");
            let claims = json!({ "iss": THIRD, "sub": subject, "aud": "hospes-there", "exp": exp,
                "nonce": nonce });
            tokens["id_token"] = format!("x.{}.x", URL_SAFE_NO_PAD.encode(claims.to_string())).into();
        }
        tokens
    }

    fn is(&self, what: Option<&'static str>) -> bool {
        *self.0.broken.lock() == what
    }

    fn answer(&self, request: &hospes_auth::FetchRequest) -> Option<FetchResponse> {
        let good = |value: Value| Some(FetchResponse::new(StatusCode::OK, value.to_string()));
        let bad = |error: &str| {
            Some(FetchResponse::new(StatusCode::BAD_REQUEST, json!({ "error": error }).to_string()))
        };
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
                "jwks_uri": "https://third.example/keys",
                "authorization_response_iss_parameter_supported": true,
            })),
            "/token" => {
                assert_eq!(request.headers["authorization"], "Basic aG9zcGVzLXRoZXJlOnMzY3JldA==");
                match field("grant_type") {
                    "authorization_code" => {
                        let Some((challenge, nonce)) = self.0.codes.lock().remove(field("code")) else {
                            return bad("invalid_grant");
                        };
                        assert!(verify_challenge(field("code_verifier"), &challenge));
                        assert_eq!(field("redirect_uri"), CALLBACK);
                        good(self.tokens(Some(&nonce)))
                    }
                    "refresh_token" if self.is(Some("revoked")) => bad("invalid_grant"),
                    "refresh_token" if *self.0.current.lock() != field("refresh_token") => {
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
                Some(FetchResponse::new(StatusCode::FORBIDDEN, "not for you"))
            }
            "/introspect" if self.is(Some("failing")) => {
                Some(FetchResponse::new(StatusCode::BAD_GATEWAY, json!({ "active": true }).to_string()))
            }
            "/introspect" => good(json!({ "active": !self.is(Some("revoked")) })),
            "/userinfo" if self.is(Some("userinfo")) => {
                Some(FetchResponse::new(StatusCode::BAD_GATEWAY, "out of order"))
            }
            "/userinfo" => {
                assert!(
                    request.headers["authorization"].to_str().unwrap().starts_with("Bearer third-access-")
                );
                good(self.0.userinfo.lock().clone())
            }
            "/keys" => good(self.0.keys.lock().clone()),
            "/revoke" => {
                self.0.revoked.lock().push(field("token").to_owned());
                self.0.was_revoked.notify_one();
                good(json!({}))
            }
            other => panic!("{other} is not asked for"),
        }
    }
}

impl HttpFetch for Third {
    fn fetch(&self, request: hospes_auth::FetchRequest) -> FetchFuture<'_> {
        if self.is(Some("silent")) {
            return Box::pin(std::future::pending());
        }
        let answer = self.answer(&request).ok_or_else(|| "nobody was reached there".into());
        let renewal = String::from_utf8_lossy(&request.body).contains("grant_type=refresh_token");
        let gate = self.0.gate.lock().clone().filter(|_| renewal);
        Box::pin(async move {
            if let Some(gate) = gate {
                gate.acquire().await.unwrap().forget();
            }
            answer
        })
    }
}

pub(in crate::tests) fn provider(third: &Third) -> SignInProvider {
    let (issuer, client) = (Issuer::new(THIRD).unwrap(), ClientId::new("hospes-there").unwrap());
    SignInProvider::new(issuer, client, &[7; 32], third.clone()).unwrap().secret("s3cret")
}

pub(in crate::tests) fn node(third: &Third, store: Arc<dyn AuthStore>, time: &Arc<AtomicU64>) -> Site {
    node_of(provider(third), store, time)
}

pub(in crate::tests) fn node_of(
    provider: SignInProvider,
    store: Arc<dyn AuthStore>,
    time: &Arc<AtomicU64>,
) -> Site {
    let now = Arc::clone(time);
    let server = AuthServer::new(settings(), store, LocalSignIn::default())
        .unwrap()
        .delegating(provider)
        .clock(UnixClock::new(move || now.load(Ordering::Relaxed)));
    Site::of(server, Arc::clone(time))
}

pub(in crate::tests) fn site(third: &Third) -> Site {
    node(third, Arc::new(MemoryAuthStore::new()), &Arc::new(AtomicU64::new(1_000_000)))
}

/// Comes back from the other with these parameters.
pub(in crate::tests) async fn come_back(
    browser: &Browser,
    extra: Option<&str>,
    fields: &[(&str, &str)],
) -> Answer {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let mut request = Request::get(format!("/upstream/callback?{query}"));
    let cookies = [browser.cookie.as_deref(), extra];
    for cookie in cookies.into_iter().flatten() {
        request = request.header("cookie", cookie);
    }
    browser.site.send(request.body(()).unwrap().into_parts().0, "").await
}

/// Agrees, and is sent away: where to, and the cookie for the way back.
pub(in crate::tests) async fn go_away(
    browser: &mut Browser,
    asked: &Ask,
) -> (HashMap<String, String>, String) {
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

pub(in crate::tests) async fn tokens(browser: &mut Browser, third: &Third) -> (String, String) {
    let asked = Ask::new();
    let (away, cookie) = go_away(browser, &asked).await;
    let code = third.sign_in(&away);
    let fields = [("code", &*code), ("state", &*away["state"]), ("iss", THIRD)];
    let back = come_back(browser, Some(&cookie), &fields).await;
    let code = back.answer()["code"].clone();
    browser.site.clone().redeem(&asked, &code).await.tokens()
}

pub(in crate::tests) async fn check(site: &Site, token: &str) -> Result<String, VerifyTokenError> {
    site.guard().verify(token, site.now()).await.map(|who| who.subject)
}
