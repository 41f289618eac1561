//! Tokens that require a request to another party.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use hospes_auth::{ClientId, FetchFuture, FetchRequest, FetchResponse, HttpFetch, Issuer, Resource};
use hospes_auth_testkit::{TestSigningKey, key_set};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use url::Url;

use crate::{IntrospectionVerifier, JwtRules, JwtVerifier, TokenVerifier as _, VerifyTokenError};

const NOW: u64 = 1_800_000_000;
const ISSUER: &str = "https://as.example/t1";
const KEYS: &str = "https://as.example/keys";
const RESOURCE: &str = "https://m.example/mcp";

/// Documents that change, and how often each was asked for.
#[derive(Clone, Default)]
struct Web(Arc<Mutex<HashMap<String, (Value, usize)>>>);

impl Web {
    fn put(&self, url: &str, document: Value) {
        let mut all = self.0.lock().unwrap();
        let asked = all.get(url).map_or(0, |(_, asked)| *asked);
        all.insert(url.to_owned(), (document, asked));
    }

    fn asked(&self, url: &str) -> usize {
        self.0.lock().unwrap().get(url).map_or(0, |(_, asked)| *asked)
    }
}

impl HttpFetch for Web {
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_> {
        let mut all = self.0.lock().unwrap();
        let found = all.get_mut(request.url.as_str()).map(|(document, asked)| {
            *asked += 1;
            FetchResponse::new(http::StatusCode::OK, document.to_string())
        });
        Box::pin(std::future::ready(found.ok_or_else(|| "nobody is there".into())))
    }
}

fn web(keys: &[&TestSigningKey]) -> Web {
    let web = Web::default();
    let place = "https://as.example/.well-known/oauth-authorization-server/t1";
    web.put(place, json!({ "issuer": ISSUER, "jwks_uri": KEYS }));
    web.put(KEYS, serde_json::to_value(key_set(keys.iter().copied())).unwrap());
    web
}

fn token(key: &TestSigningKey) -> String {
    key.sign(&json!({ "iss": ISSUER, "sub": "ann", "aud": RESOURCE, "exp": NOW + 100_000 }))
}

fn tokens(web: &Web) -> JwtVerifier {
    let rules = JwtRules::new(Issuer::new(ISSUER).unwrap(), vec![Resource::new(RESOURCE).unwrap()]);
    JwtVerifier::new(rules, web.clone())
}

#[tokio::test]
async fn keys_are_fetched_kept_and_fetched_again_when_they_change() {
    let (old, new, strange) =
        (TestSigningKey::new("k1"), TestSigningKey::new("k2"), TestSigningKey::new("k3"));
    let web = web(&[&old]);
    let tokens = tokens(&web);
    assert_eq!(tokens.verify("not.a.jwt", NOW).await, Err(VerifyTokenError::Invalid));
    assert_eq!(web.asked(KEYS), 0, "nothing is fetched for what is no token");
    for _ in 0..3 {
        assert!(tokens.verify(&token(&old), NOW).await.is_ok());
    }
    assert_eq!(web.asked(KEYS), 1);
    // Whoever makes up keys makes us ask once a minute, and no more.
    for second in 0..60 {
        assert_eq!(tokens.verify(&token(&strange), NOW + second).await, Err(VerifyTokenError::Invalid));
    }
    assert_eq!(web.asked(KEYS), 1);
    web.put(KEYS, serde_json::to_value(key_set([&old, &new])).unwrap());
    assert!(tokens.verify(&token(&new), NOW + 60).await.is_ok());
    assert!(tokens.verify(&token(&old), NOW + 60).await.is_ok());
    assert_eq!(web.asked(KEYS), 2);
    // A key that was taken away counts for an hour at most.
    web.put(KEYS, serde_json::to_value(key_set([&new])).unwrap());
    assert_eq!(tokens.verify(&token(&old), NOW + 60 + 3600).await, Err(VerifyTokenError::Invalid));
}

#[tokio::test]
async fn without_keys_no_token_is_good() {
    let key = TestSigningKey::new("k1");
    let web = Web::default();
    let nobody = tokens(&web);
    assert_eq!(nobody.verify(&token(&key), NOW).await, Err(VerifyTokenError::Unavailable));
    // The metadata of somebody else names no keys of ours.
    let web = self::web(&[&key]);
    let place = "https://as.example/.well-known/oauth-authorization-server/t1";
    web.put(place, json!({ "issuer": "https://as.example", "jwks_uri": KEYS }));
    assert_eq!(tokens(&web).verify(&token(&key), NOW).await, Err(VerifyTokenError::Unavailable));
    let told = tokens(&web).keys_at(Url::parse(KEYS).unwrap());
    assert!(told.verify(&token(&key), NOW).await.is_ok());
}

/// Documents that come when the test says so.
struct Slow(Web, Arc<Semaphore>);

impl HttpFetch for Slow {
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_> {
        Box::pin(async move {
            self.1.acquire().await.unwrap().forget();
            self.0.fetch(request).await
        })
    }
}

fn slow_tokens(web: &Web) -> (JwtVerifier, Arc<Semaphore>) {
    let may = Arc::new(Semaphore::new(0));
    let rules = JwtRules::new(Issuer::new(ISSUER).unwrap(), vec![Resource::new(RESOURCE).unwrap()]);
    (JwtVerifier::new(rules, Slow(web.clone(), Arc::clone(&may))), may)
}

#[tokio::test]
async fn whoever_waits_for_keys_has_what_one_fetch_brings() {
    let key = TestSigningKey::new("k1");
    let web = web(&[&key]);
    let (tokens, may) = slow_tokens(&web);
    let token = token(&key);
    let verify = || tokens.verify(&token, NOW);
    let (one, two, three, ()) =
        tokio::join!(verify(), verify(), verify(), async { may.add_permits(Semaphore::MAX_PERMITS) });
    assert!(one.is_ok() && two.is_ok() && three.is_ok(), "{one:?} {two:?} {three:?}");
    assert_eq!(web.asked(KEYS), 1);
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_no_fetch_of_keys() {
    let key = TestSigningKey::new("k1");
    let (tokens, may) = slow_tokens(&web(&[&key]));
    let token = token(&key);
    {
        let mut first = tokens.verify(&token, NOW);
        assert!(std::future::poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await);
    }
    may.add_permits(Semaphore::MAX_PERMITS);
    assert!(tokens.verify(&token, NOW).await.is_ok());
}

#[tokio::test]
async fn keys_that_have_moved_are_found_and_old_ones_end() {
    const MOVED: &str = "https://as.example/keys2";
    let (old, new) = (TestSigningKey::new("k1"), TestSigningKey::new("k2"));
    let web = web(&[&old]);
    let tokens = tokens(&web);
    assert!(tokens.verify(&token(&old), NOW).await.is_ok());
    web.0.lock().unwrap().remove(KEYS);
    let later = NOW + KEEP;
    assert_eq!(
        tokens.verify(&token(&old), later).await,
        Err(VerifyTokenError::Unavailable),
        "too old to go by"
    );
    assert_eq!(
        tokens.verify(&token(&old), later).await,
        Err(VerifyTokenError::Unavailable),
        "whoever comes next, too"
    );
    web.put(MOVED, serde_json::to_value(key_set([&new])).unwrap());
    let place = "https://as.example/.well-known/oauth-authorization-server/t1";
    web.put(place, json!({ "issuer": ISSUER, "jwks_uri": MOVED }));
    assert!(tokens.verify(&token(&new), later + 5).await.is_ok());
}

/// Time for which keys are used, in seconds.
const KEEP: u64 = 3600;

/// An endpoint that knows one token.
#[derive(Clone)]
struct Endpoint {
    said: Arc<Mutex<Option<Value>>>,
    asked: Arc<AtomicUsize>,
}

impl HttpFetch for Endpoint {
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        assert_eq!(request.headers["authorization"], "Basic cnM6cyUzQSUyNQ==", "form-encoded `rs` and `s:%`");
        assert_eq!(&request.body[..], b"token=opaque");
        let said = self.said.lock().unwrap().clone();
        Box::pin(std::future::ready(match said {
            Some(said) => Ok(FetchResponse::new(http::StatusCode::OK, said.to_string())),
            None => Err("nobody is there".into()),
        }))
    }
}

#[tokio::test]
async fn an_issuer_is_asked_and_its_answer_kept_for_a_while() {
    let endpoint = Endpoint { said: Arc::default(), asked: Arc::default() };
    let introspection = || {
        IntrospectionVerifier::new(
            Issuer::new(ISSUER).unwrap(),
            vec![Resource::new(RESOURCE).unwrap()],
            Url::parse("https://as.example/introspect").unwrap(),
            (&ClientId::new("rs").unwrap(), "s:%"),
            endpoint.clone(),
        )
    };
    let say = |said: Value| *endpoint.said.lock().unwrap() = Some(said);
    let asked = || endpoint.asked.load(Ordering::Relaxed);
    let tokens = introspection();
    assert_eq!(tokens.verify("opaque", NOW).await, Err(VerifyTokenError::Unavailable));
    let good = json!({ "active": true, "iss": ISSUER, "sub": "ann", "client_id": "app", "aud": RESOURCE,
        "scope": "a b", "exp": NOW + 90 });
    say(good.clone());
    let who = tokens.verify("opaque", NOW).await.unwrap();
    assert_eq!(
        (&*who.subject, who.scopes.to_string(), who.expires_at),
        ("ann", "a b".to_owned(), Some(NOW + 90))
    );
    assert_eq!(asked(), 2, "that nobody was there is not remembered");
    say(json!({ "active": false }));
    assert!(tokens.verify("opaque", NOW + 59).await.is_ok());
    assert_eq!((tokens.verify("opaque", NOW + 60).await, asked()), (Err(VerifyTokenError::Invalid), 3));
    say(good.clone());
    assert_eq!((tokens.verify("opaque", NOW + 64).await, asked()), (Err(VerifyTokenError::Invalid), 3));
    assert!(tokens.verify("opaque", NOW + 65).await.is_ok());
    assert_eq!(
        tokens.verify("opaque", NOW + 90).await,
        Err(VerifyTokenError::Invalid),
        "no longer than the token"
    );

    for aud in [json!([RESOURCE]), json!(["https://other.example", RESOURCE])] {
        let mut several = good.clone();
        several["aud"] = aud;
        say(several);
        assert!(introspection().verify("opaque", NOW).await.is_ok());
    }
    let mut mixed = good.clone();
    mixed["aud"] = json!([RESOURCE, 7]);
    say(mixed);
    assert_eq!(
        introspection().verify("opaque", NOW).await,
        Err(VerifyTokenError::Unavailable),
        "that cannot be read"
    );
    for (claim, value) in [
        ("active", json!(false)),
        ("aud", json!("https://m.example")),
        ("aud", json!(["https://m.example/mcp2"])),
        ("aud", json!([])),
        ("aud", Value::Null),
        ("iss", json!("https://other.example")),
        ("exp", json!(NOW)),
        ("cnf", json!({ "x5t#S256": "x" })),
        ("cnf", json!({ "jkt": "x", "x5t#S256": "x" })),
        ("cnf", json!("x")),
        ("sub", Value::Null),
    ] {
        let mut bad = good.clone();
        bad[claim] = value;
        say(bad);
        let (tokens, before) = (introspection(), asked());
        for _ in 0..2 {
            assert_eq!(tokens.verify("opaque", NOW).await, Err(VerifyTokenError::Invalid), "{claim}");
        }
        assert_eq!(asked(), before + 1, "{claim}: that is remembered");
    }
}

/// An endpoint that says nothing before it may.
struct Late(Arc<Semaphore>, Arc<AtomicUsize>);

impl HttpFetch for Late {
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_> {
        Box::pin(async move {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.acquire().await.unwrap().forget();
            let good = request.body.starts_with(b"token=good");
            let said = json!({ "active": good, "client_id": "app", "aud": RESOURCE });
            Ok(FetchResponse::new(http::StatusCode::OK, said.to_string()))
        })
    }
}

fn late() -> (IntrospectionVerifier, Arc<Semaphore>, Arc<AtomicUsize>) {
    let (may, asked) = (Arc::new(Semaphore::new(0)), Arc::<AtomicUsize>::default());
    let introspection = IntrospectionVerifier::new(
        Issuer::new(ISSUER).unwrap(),
        vec![Resource::new(RESOURCE).unwrap()],
        Url::parse("https://as.example/introspect").unwrap(),
        (&ClientId::new("rs").unwrap(), "s"),
        Late(Arc::clone(&may), Arc::clone(&asked)),
    );
    (introspection, may, asked)
}

#[tokio::test]
async fn an_issuer_is_asked_about_a_token_once_at_a_time() {
    let (tokens, may, asked) = late();
    let tokens = tokens.client_for_subject();
    {
        // Whoever asked first hangs up, and the next asks.
        let mut first = tokens.verify("good", NOW);
        assert!(std::future::poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await);
    }
    let verify = || tokens.verify("good", NOW);
    let (one, two, ()) = tokio::join!(verify(), verify(), async { may.add_permits(Semaphore::MAX_PERMITS) });
    let one = one.unwrap();
    assert_eq!((Ok(&one), asked.load(Ordering::Relaxed)), (two.as_ref(), 2));
    assert_eq!((&*one.subject, one.expires_at), ("app", Some(NOW + 60)), "no longer than the answer is used");
    // Bad answers, however many, do not push it out.
    for number in 0..20_000 {
        assert_eq!(tokens.verify(&format!("bad{number}"), NOW).await, Err(VerifyTokenError::Invalid));
    }
    let before = asked.load(Ordering::Relaxed);
    assert!(verify().await.is_ok());
    assert_eq!(asked.load(Ordering::Relaxed), before);
}
