//! Tokens that are bound to a key, at the guard.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use hospes_auth::dpop::{ProofNonces, ProofReplayCache, ProofStoreFuture, SharedProofStore};
use hospes_auth::{Challenge, Issuer, Resource, RotatingKey, Scopes, UnixClock};
use hospes_auth_testkit::TestSigningKey;
use hospes_oauth::ProofKey;
use http::{Method, Request, Response, StatusCode};
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};
use url::Url;

use crate::{BearerAuth, BearerAuthBuilder, StaticTokenVerifier, TokenPrincipal};

const ISSUER: &str = "https://as.example";
const RESOURCE: &str = "https://m.example/mcp";

fn thumbprint(proof: &str) -> String {
    let header = jsonwebtoken::decode_header(proof).unwrap();
    header.jwk.unwrap().thumbprint(jsonwebtoken::jwk::ThumbprintHash::SHA256).unwrap()
}

/// A guard that knows a token bound to a key, and one that is not.
struct Place {
    guard: BearerAuth,
    key: ProofKey,
    time: Arc<AtomicU64>,
}

impl Place {
    fn with(change: impl FnOnce(BearerAuthBuilder) -> BearerAuthBuilder) -> Self {
        Self::knowing(ProofKey::generate().unwrap(), change)
    }

    /// With a token that is bound to this key.
    fn knowing(key: ProofKey, change: impl FnOnce(BearerAuthBuilder) -> BearerAuthBuilder) -> Self {
        let url = Url::parse(RESOURCE).unwrap();
        let sample = key.prove(&Method::POST, &url, None, None, "sample".into(), 0).unwrap();
        let mut bound = TokenPrincipal::new(Issuer::new(ISSUER).unwrap(), "ann");
        bound.scopes = Scopes::parse("mcp");
        let plain = bound.clone();
        bound.proof_key = Some(thumbprint(sample.to_str().unwrap()));
        let tokens = StaticTokenVerifier::none().with("bound", bound).with("plain", plain);
        let time = Arc::new(AtomicU64::new(1_000_000));
        let now = Arc::clone(&time);
        let guard =
            BearerAuth::builder(Resource::new(RESOURCE).unwrap(), vec![Issuer::new(ISSUER).unwrap()], tokens)
                .clock(UnixClock::new(move || now.load(Ordering::Relaxed)));
        Self { guard: change(guard).build(), key, time }
    }

    fn now(&self) -> u64 {
        self.time.load(Ordering::Relaxed)
    }

    /// The key, as a proof shows it.
    fn public(&self) -> Value {
        let proof = self.proof("public", None);
        let head = URL_SAFE_NO_PAD.decode(proof.split('.').next().unwrap()).unwrap();
        serde_json::from_slice::<Value>(&head).unwrap()["jwk"].take()
    }

    /// A proof for a call with the bound token.
    fn proof(&self, id: &str, nonce: Option<&str>) -> String {
        let url = Url::parse(RESOURCE).unwrap();
        let proof = self.key.prove(&Method::POST, &url, Some("bound"), nonce, id.to_owned(), self.now());
        proof.unwrap().to_str().unwrap().to_owned()
    }

    async fn call(&self, shown: &str, proofs: &[&str]) -> Result<Request<()>, Response<Bytes>> {
        let mut request = Request::post("/mcp?x=1").header("authorization", shown);
        for proof in proofs {
            request = request.header("dpop", *proof);
        }
        let mut request = request.body(()).unwrap();
        self.guard.check(&mut request).await.map(|()| request)
    }

    /// Returns the error of a response and the scheme of its challenge.
    async fn refused(&self, shown: &str, proofs: &[&str]) -> (String, String) {
        let response = self.call(shown, proofs).await.unwrap_err();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        let challenge = Challenge::for_tokens(response.headers()).unwrap();
        assert!(challenge.get("resource_metadata").is_some());
        let scheme = if challenge.has_scheme("DPoP") { "DPoP" } else { "Bearer" };
        (scheme.to_owned(), challenge.get("error").unwrap_or_default().to_owned())
    }
}

#[tokio::test]
async fn a_bound_token_needs_a_proof_and_others_need_none() {
    let place = Place::with(|guard| guard);
    let request = place.call("DPoP bound", &[&place.proof("1", None)]).await.unwrap();
    assert!(!request.headers().contains_key("dpop") && !request.headers().contains_key("authorization"));
    place.call("dpop bound", &[&place.proof("2", None)]).await.unwrap();
    place.call("Bearer plain", &[]).await.unwrap();
    let token = ("Bearer".to_owned(), "invalid_token".to_owned());
    assert_eq!(place.refused("Bearer bound", &[]).await, token, "whoever has stolen it leaves out the proof");
    assert_eq!(place.refused("Bearer bound", &[&place.proof("3", None)]).await, token);
    assert_eq!(place.refused("DPoP plain", &[&place.proof("4", None)]).await, token);
}

#[tokio::test]
async fn a_proof_is_good_once_for_its_request_and_by_its_key() {
    let place = Place::with(|guard| guard);
    let bad = ("DPoP".to_owned(), "invalid_dpop_proof".to_owned());
    let once = place.proof("1", None);
    place.call("DPoP bound", &[&once]).await.unwrap();
    assert_eq!(place.refused("DPoP bound", &[&once]).await, bad, "replayed");
    assert_eq!(place.refused("DPoP bound", &[]).await, bad, "none");
    let two = [&*place.proof("2", None), &*place.proof("3", None)];
    assert_eq!(place.refused("DPoP bound", &two).await, bad, "two");
    let now = place.now();
    let prove = |method: &Method, url: &str, token: Option<&str>, time: u64| {
        let url = Url::parse(url).unwrap();
        let proof = place.key.prove(method, &url, token, None, format!("{method} {url} {time}"), time);
        proof.unwrap().to_str().unwrap().to_owned()
    };
    for (what, proof) in [
        ("method", prove(&Method::GET, RESOURCE, Some("bound"), now)),
        ("path", prove(&Method::POST, "https://m.example/other", Some("bound"), now)),
        ("host", prove(&Method::POST, "https://evil.example/mcp", Some("bound"), now)),
        ("scheme", prove(&Method::POST, "http://m.example/mcp", Some("bound"), now)),
        ("token", prove(&Method::POST, RESOURCE, Some("other"), now + 1)),
        ("no token", prove(&Method::POST, RESOURCE, None, now + 2)),
        ("early", prove(&Method::POST, RESOURCE, Some("bound"), now - 301)),
        ("late", prove(&Method::POST, RESOURCE, Some("bound"), now + 301)),
        ("garbage", "x.y.z".to_owned()),
    ] {
        assert_eq!(place.refused("DPoP bound", &[&proof]).await, bad, "{what}");
    }
    let other = Place::with(|guard| guard);
    assert_eq!(place.refused("DPoP bound", &[&other.proof("1", None)]).await, bad, "another key");
    // The address may be written with a query, which does not count.
    let query = prove(&Method::POST, "https://m.example/mcp", Some("bound"), now + 5);
    place.call("DPoP bound", &[&query]).await.unwrap();
}

/// Each is signed with the key itself, so that nothing is wrong with it but what is named.
#[tokio::test]
async fn a_proof_shows_its_public_key_alone() {
    let place = Place::with(|guard| guard);
    let (public, document) = (place.public(), place.key.document());
    let signing = EncodingKey::from_ec_der(document);
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let hash = digest(&SHA256, b"bound");
    let signed = |head: &Value, id: &str| {
        let claims = json!({ "jti": id, "htm": "POST", "htu": RESOURCE, "iat": place.now(),
            "ath": URL_SAFE_NO_PAD.encode(hash) });
        let message = format!("{}.{}", part(head), part(&claims));
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &signing, Algorithm::ES256).unwrap();
        format!("{message}.{signature}")
    };
    let head = json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": public });
    let changed = |name: &str, value: Value| {
        let mut head = head.clone();
        head[name] = value;
        signed(&head, name)
    };
    place.call("DPoP bound", &[&signed(&head, "unchanged")]).await.unwrap();
    let with = |name: &str| {
        let mut key = public.clone();
        key[name] = "AAAA".into();
        changed("jwk", key)
    };
    let none = json!({ "typ": "dpop+jwt", "alg": "ES256" });
    let secret = json!({ "typ": "dpop+jwt", "alg": "HS256", "jwk": { "kty": "oct", "k": "AAAA" } });
    for (what, proof) in [
        ("private", with("d")),
        ("private, of another kind", with("p")),
        ("secret", with("k")),
        ("no key", changed("jwk", Value::Null)),
        ("another key", changed("jwk", json!(TestSigningKey::new("k").public()))),
        ("type", changed("typ", json!("JWT"))),
        ("none", changed("alg", json!("none"))),
        ("symmetric", changed("alg", json!("HS256"))),
        ("secret key", signed(&secret, "secret key")),
        ("none shown", signed(&none, "none shown")),
    ] {
        let error = place.refused("DPoP bound", &[&proof]).await.1;
        assert_eq!(error, "invalid_dpop_proof", "{what}");
    }
}

#[tokio::test]
async fn a_guard_may_want_nonces_and_proofs_of_all() {
    let place = Place::with(|guard| guard.proof_nonces(ProofNonces::in_process()));
    let response = place.call("DPoP bound", &[&place.proof("1", None)]).await.unwrap_err();
    assert_eq!(Challenge::for_tokens(response.headers()).unwrap().get("error"), Some("use_dpop_nonce"));
    let nonce = response.headers()["dpop-nonce"].to_str().unwrap().to_owned();
    place.call("DPoP bound", &[&place.proof("2", Some(&nonce))]).await.unwrap();
    place.time.fetch_add(300, Ordering::Relaxed);
    let error = place.refused("DPoP bound", &[&place.proof("3", Some(&nonce))]).await.1;
    assert_eq!(error, "use_dpop_nonce", "it is old");

    let strict = Place::with(BearerAuthBuilder::require_proofs);
    assert_eq!(strict.refused("Bearer plain", &[]).await.1, "invalid_token");
    strict.call("DPoP bound", &[&strict.proof("1", None)]).await.unwrap();
    let metadata = Request::get("/.well-known/oauth-protected-resource/mcp").body(()).unwrap();
    let metadata: Value = serde_json::from_slice(strict.guard.metadata(&metadata).unwrap().body()).unwrap();
    assert_eq!(metadata["dpop_bound_access_tokens_required"], true);
    let own = TokenPrincipal::new(Issuer::new(ISSUER).unwrap(), "ann");
    let lenient = Place::with(|guard| guard.require_proofs().exempt(&own));
    lenient.call("Bearer plain", &[]).await.unwrap();
    assert_eq!(lenient.refused("Bearer bound", &[]).await.1, "invalid_token", "what is bound stays so");
    let other = TokenPrincipal::new(Issuer::new(ISSUER).unwrap(), "bob");
    let strict = Place::with(|guard| guard.require_proofs().exempt(&other));
    assert_eq!(strict.refused("Bearer plain", &[]).await.1, "invalid_token");
    assert!(metadata["dpop_signing_alg_values_supported"].as_array().unwrap().contains(&json!("ES256")));
}

/// Store of used proofs that several guards share.
#[derive(Default)]
struct ProofTestStore(Mutex<HashSet<String>>);

impl SharedProofStore for ProofTestStore {
    fn claim_proof<'a>(&'a self, proof: &'a str, _: u64, _: u64) -> ProofStoreFuture<'a, bool> {
        Box::pin(async move { Ok(self.0.lock().unwrap().insert(proof.to_owned())) })
    }

    fn nonce_keys(&self, _: u64) -> ProofStoreFuture<'_, Vec<RotatingKey>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn store_nonce_key<'a>(&'a self, _: &'a RotatingKey, _: u64) -> ProofStoreFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// Several guards behind one address.
#[tokio::test]
async fn a_proof_that_was_used_at_one_guard_is_good_at_no_other() {
    let store: Arc<dyn SharedProofStore> = Arc::new(ProofTestStore::default());
    let key = ProofKey::generate().unwrap();
    let again = || ProofKey::from_document(key.document()).unwrap();
    let shared =
        || Place::knowing(again(), |guard| guard.used_proofs(ProofReplayCache::shared(Arc::clone(&store))));
    let (one, two) = (shared(), shared());
    let proof = one.proof("1", None);
    one.call("DPoP bound", &[&proof]).await.unwrap();
    let (_, error) = two.refused("DPoP bound", &[&proof]).await;
    assert_eq!(error, "invalid_dpop_proof", "replayed");
    two.call("DPoP bound", &[&two.proof("2", None)]).await.unwrap();
    assert_eq!(one.refused("DPoP bound", &[&two.proof("2", None)]).await.1, "invalid_dpop_proof");
    // Each on its own knows nothing of the others.
    Place::knowing(again(), |guard| guard).call("DPoP bound", &[&proof]).await.unwrap();
}

/// A challenge uses the schemes in which tokens are accepted (RFC 9449, section 7.1).
#[tokio::test]
async fn a_challenge_is_made_in_the_schemes_that_are_taken() {
    type Change = fn(BearerAuthBuilder) -> BearerAuthBuilder;
    let ways: [(Change, &[&str]); 3] = [
        (|guard| guard, &["Bearer"]),
        (BearerAuthBuilder::offer_proofs, &["Bearer", "DPoP"]),
        (BearerAuthBuilder::require_proofs, &["DPoP"]),
    ];
    for (change, schemes) in ways {
        let place = Place::with(|guard| change(guard).scopes(&Scopes::parse("mcp")));
        for (shown, error) in [(None, None), (Some("Bearer stolen"), Some("invalid_token"))] {
            let mut request = Request::post("/mcp");
            if let Some(shown) = shown {
                request = request.header("authorization", shown);
            }
            let refused = place.guard.check(&mut request.body(()).unwrap()).await.unwrap_err();
            let all = Challenge::from_headers(refused.headers());
            let known = ["Bearer", "DPoP"];
            let said: Vec<_> =
                all.iter().map(|one| *known.iter().find(|known| one.has_scheme(known)).unwrap()).collect();
            assert_eq!(said, schemes, "{shown:?}");
            for challenge in &all {
                assert_eq!(challenge.get("error"), error, "{schemes:?}");
                assert_eq!(challenge.scopes(), Some(Scopes::parse("mcp")));
                assert!(challenge.get("resource_metadata").is_some());
                let algorithms = challenge.get("algs").unwrap_or_default();
                assert_eq!(algorithms.split(' ').any(|name| name == "ES256"), challenge.has_scheme("DPoP"));
            }
        }
    }
    // More scopes are asked for in the same way.
    let rules = crate::ScopeRules::default().always(Scopes::parse("more"));
    let strict = Place::with(|guard| guard.require_proofs().rules(rules));
    let refused = strict.call("DPoP bound", &[&strict.proof("1", None)]).await.unwrap_err();
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let all = Challenge::from_headers(refused.headers());
    assert!(all.len() == 1 && all[0].has_scheme("DPoP") && all[0].wants_more_scopes(), "{all:?}");
}
