//! Tokens for which somebody else has to be asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use url::Url;

use crate::fetch::{Fetch, FetchFuture};
use crate::resource::{Flaw, Introspection, IssuerTokens, JwtRules, Verify as _};
use crate::testing::{SigningKey, key_set};
use crate::{ClientId, Issuer, Request, Resource, Response};

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

impl Fetch for Web {
    fn fetch(&self, request: Request) -> FetchFuture<'_> {
        let mut all = self.0.lock().unwrap();
        let found = all.get_mut(request.url.as_str()).map(|(document, asked)| {
            *asked += 1;
            Response::new(http::StatusCode::OK, document.to_string())
        });
        Box::pin(std::future::ready(found.ok_or_else(|| "nobody is there".into())))
    }
}

fn web(keys: &[&SigningKey]) -> Web {
    let web = Web::default();
    let place = "https://as.example/.well-known/oauth-authorization-server/t1";
    web.put(place, json!({ "issuer": ISSUER, "jwks_uri": KEYS }));
    web.put(KEYS, serde_json::to_value(key_set(keys.iter().copied())).unwrap());
    web
}

fn token(key: &SigningKey) -> String {
    key.sign(&json!({ "iss": ISSUER, "sub": "ann", "aud": RESOURCE, "exp": NOW + 100_000 }))
}

fn tokens(web: &Web) -> IssuerTokens {
    let rules = JwtRules::new(Issuer::new(ISSUER).unwrap(), vec![Resource::new(RESOURCE).unwrap()]);
    IssuerTokens::new(rules, web.clone())
}

#[tokio::test]
async fn keys_are_fetched_kept_and_fetched_again_when_they_change() {
    let (old, new, strange) = (SigningKey::new("k1"), SigningKey::new("k2"), SigningKey::new("k3"));
    let web = web(&[&old]);
    let tokens = tokens(&web);
    assert_eq!(tokens.verify("not.a.jwt", NOW).await, Err(Flaw::Invalid));
    assert_eq!(web.asked(KEYS), 0, "nothing is fetched for what is no token");
    for _ in 0..3 {
        assert!(tokens.verify(&token(&old), NOW).await.is_ok());
    }
    assert_eq!(web.asked(KEYS), 1);
    // Whoever makes up keys makes us ask once a minute, and no more.
    for second in 0..60 {
        assert_eq!(tokens.verify(&token(&strange), NOW + second).await, Err(Flaw::Invalid));
    }
    assert_eq!(web.asked(KEYS), 1);
    web.put(KEYS, serde_json::to_value(key_set([&old, &new])).unwrap());
    assert!(tokens.verify(&token(&new), NOW + 60).await.is_ok());
    assert!(tokens.verify(&token(&old), NOW + 60).await.is_ok());
    assert_eq!(web.asked(KEYS), 2);
    // A key that was taken away counts for an hour at most.
    web.put(KEYS, serde_json::to_value(key_set([&new])).unwrap());
    assert_eq!(tokens.verify(&token(&old), NOW + 60 + 3600).await, Err(Flaw::Invalid));
}

#[tokio::test]
async fn without_keys_no_token_is_good() {
    let key = SigningKey::new("k1");
    let web = Web::default();
    let nobody = tokens(&web);
    assert_eq!(nobody.verify(&token(&key), NOW).await, Err(Flaw::Unavailable));
    // The metadata of somebody else names no keys of ours.
    let web = self::web(&[&key]);
    let place = "https://as.example/.well-known/oauth-authorization-server/t1";
    web.put(place, json!({ "issuer": "https://as.example", "jwks_uri": KEYS }));
    assert_eq!(tokens(&web).verify(&token(&key), NOW).await, Err(Flaw::Unavailable));
    let told = tokens(&web).keys_at(Url::parse(KEYS).unwrap());
    assert!(told.verify(&token(&key), NOW).await.is_ok());
}

/// An endpoint that knows one token.
#[derive(Clone)]
struct Endpoint {
    said: Arc<Mutex<Option<Value>>>,
    asked: Arc<AtomicUsize>,
}

impl Fetch for Endpoint {
    fn fetch(&self, request: Request) -> FetchFuture<'_> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        assert_eq!(request.headers["authorization"], "Basic cnM6cyUzQSUyNQ==", "form-encoded `rs` and `s:%`");
        assert_eq!(&request.body[..], b"token=opaque");
        let said = self.said.lock().unwrap().clone();
        Box::pin(std::future::ready(match said {
            Some(said) => Ok(Response::new(http::StatusCode::OK, said.to_string())),
            None => Err("nobody is there".into()),
        }))
    }
}

#[tokio::test]
async fn an_issuer_is_asked_and_its_answer_kept_for_a_while() {
    let endpoint = Endpoint { said: Arc::default(), asked: Arc::default() };
    let introspection = || {
        Introspection::new(
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
    assert_eq!(tokens.verify("opaque", NOW).await, Err(Flaw::Unavailable));
    let good = json!({ "active": true, "iss": ISSUER, "sub": "ann", "aud": RESOURCE, "scope": "a b", "exp": NOW + 90 });
    say(good.clone());
    let who = tokens.verify("opaque", NOW).await.unwrap();
    assert_eq!(
        (&*who.subject, who.scopes.to_string(), who.expires_at),
        ("ann", "a b".to_owned(), Some(NOW + 90))
    );
    assert_eq!(asked(), 2, "that nobody was there is not remembered");
    say(json!({ "active": false }));
    assert!(tokens.verify("opaque", NOW + 59).await.is_ok());
    assert_eq!((tokens.verify("opaque", NOW + 60).await, asked()), (Err(Flaw::Invalid), 3));
    say(good.clone());
    assert_eq!((tokens.verify("opaque", NOW + 64).await, asked()), (Err(Flaw::Invalid), 3));
    assert!(tokens.verify("opaque", NOW + 65).await.is_ok());
    assert_eq!(tokens.verify("opaque", NOW + 90).await, Err(Flaw::Invalid), "no longer than the token");

    for (claim, value) in [
        ("active", json!(false)),
        ("aud", json!("https://m.example")),
        ("aud", json!(["https://m.example/mcp2"])),
        ("aud", Value::Null),
        ("iss", json!("https://other.example")),
        ("exp", json!(NOW)),
        ("cnf", json!({ "jkt": "x" })),
    ] {
        let mut bad = good.clone();
        bad[claim] = value;
        say(bad);
        assert_eq!(introspection().verify("opaque", NOW).await, Err(Flaw::Invalid), "{claim}");
    }
}
