//! Access tokens that say themselves what they are, at a resource that is somewhere else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hospes_auth::{FetchFuture, FetchRequest, FetchResponse, HttpFetch, Issuer, Resource};
use hospes_oauth_resource::{BearerAuth, JwtRules, JwtVerifier, TokenPrincipal, TokenVerifier as _};
use http::StatusCode;
use serde_json::{Value, json};

use super::{APP, ASKED, Ask, ISSUER, RESOURCE, Site};
use crate::{AccessTokenFormat, AuthStore, MemoryAuthStore, RecordKind};

const HOUR: u64 = 3600;

fn signing(settings: &mut super::AuthServerSettings) {
    settings.access_tokens = AccessTokenFormat::Jwt;
    settings.lifetimes.key = Duration::from_secs(24 * HOUR);
}

/// Reaches the server over its public interface and counts the requests.
struct Wire(Site, Arc<AtomicUsize>);

impl HttpFetch for Wire {
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let answer = self.0.get(request.url.path()).await;
            Ok(FetchResponse::new(answer.status(), answer.text().to_owned()))
        })
    }
}

/// Creates the verifier of a remote resource, with the number of its fetches.
fn elsewhere(site: &Site) -> (JwtVerifier, Arc<AtomicUsize>) {
    let fetched = Arc::default();
    let rules = JwtRules::new(Issuer::new(ISSUER).unwrap(), vec![Resource::new(RESOURCE).unwrap()]);
    (JwtVerifier::new(rules, Wire(site.clone(), Arc::clone(&fetched))), fetched)
}

/// The header and the claims.
fn parts(token: &str) -> (Value, Value) {
    use base64::Engine as _;
    let part = |text: &str| {
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    let mut all = token.split('.');
    (part(all.next().unwrap()), part(all.next().unwrap()))
}

#[tokio::test]
async fn a_signed_token_says_what_it_is() {
    let site = Site::with(signing);
    let metadata = site.get("/.well-known/oauth-authorization-server").await.json();
    assert_eq!(metadata["jwks_uri"], "https://as.example/jwks");
    let (token, _) = site.tokens().await;
    let (header, claims) = parts(&token);
    assert_eq!((&header["typ"], &header["alg"]), (&json!("at+jwt"), &json!("ES256")));
    let now = site.now();
    for (claim, value) in [
        ("iss", json!(ISSUER)),
        ("sub", json!("ann")),
        ("aud", json!(RESOURCE)),
        ("client_id", json!(APP)),
        ("scope", json!("mcp")),
        ("iat", json!(now)),
        ("exp", json!(now + 600)),
    ] {
        assert_eq!(claims[claim], value, "{claim}");
    }
    let (second, _) = site.tokens().await;
    assert_ne!(parts(&second).1["jti"], claims["jti"]);

    let keys = site.get("/jwks").await;
    assert_eq!(keys.header("cache-control"), "public, max-age=300");
    let keys = keys.json();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
    let key = &keys["keys"][0];
    assert_eq!((&key["kid"], &key["use"], &key["alg"]), (&header["kid"], &json!("sig"), &json!("ES256")));
    assert_eq!(key.get("d"), None, "what is private stays so");

    let (tokens, _) = elsewhere(&site);
    let who = tokens.verify(&token, now).await.unwrap();
    assert_eq!((&*who.subject, who.is_client, who.scopes.to_string()), ("ann", false, "mcp".to_owned()));
    assert!(site.is_good(&token).await);
    // Taken back, it is good nowhere where it is looked up.
    site.form("/revoke", &[("token", &token), ("client_id", APP)]).await;
    assert!(!site.is_good(&token).await);

    let opaque = Site::new();
    assert!(!opaque.server.serves("/jwks"));
}

/// The real guard elsewhere never misses a key, and asks for keys no more often than it must.
#[tokio::test]
async fn keys_change_and_no_token_is_refused_for_it() {
    let site = Site::with(signing);
    let (tokens, fetched) = elsewhere(&site);
    let guard_sees = async |token: &str| tokens.verify(token, site.now()).await;
    let published = async || {
        let keys = site.get("/jwks").await.json();
        let ids = keys["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    let (first, _) = site.tokens().await;
    let old = parts(&first).0["kid"].as_str().unwrap().to_owned();
    assert!(guard_sees(&first).await.is_ok());
    // More than an hour before its time the next key is published; the old one signs on.
    site.pass(23 * HOUR + 1800);
    assert_eq!(published().await.len(), 2);
    assert!(guard_sees(&site.tokens().await.0).await.is_ok());
    site.pass(1800 - 1);
    let (last, _) = site.tokens().await;
    assert_eq!(parts(&last).0["kid"], *old);
    assert!(guard_sees(&last).await.is_ok());
    let before = fetched.load(Ordering::Relaxed);
    site.pass(1);
    let (next, _) = site.tokens().await;
    assert_ne!(parts(&next).0["kid"], *old, "the next one signs");
    assert!(guard_sees(&next).await.is_ok() && guard_sees(&last).await.is_ok());
    assert_eq!(fetched.load(Ordering::Relaxed), before, "it was published before it signed");
    // The old key stays as long as a token of it is good anywhere.
    site.pass(599);
    assert!(guard_sees(&last).await.is_ok());
    assert!(published().await.contains(&old));
    site.pass(HOUR + 120 - 599 - 1);
    assert!(published().await.contains(&old));
    site.pass(1);
    assert!(!published().await.contains(&old));
    assert!(guard_sees(&last).await.is_err());
}

/// After a long pause there is a key all the same, and two nodes sign with the same.
#[tokio::test]
async fn nodes_share_their_keys() {
    let store: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
    let time = Arc::new(AtomicU64::new(1_000_000));
    let node = || Site::on(Arc::clone(&store), signing, Arc::clone(&time));
    let (one, other) = (node(), node());
    let key = |token: &str| parts(token).0["kid"].clone();
    let first = one.tokens().await.0;
    assert_eq!(key(&first), key(&other.tokens().await.0));
    one.pass(1000 * HOUR);
    let later = other.tokens().await.0;
    assert_ne!(key(&later), key(&first));
    assert_eq!(key(&later), key(&one.tokens().await.0));
    let (tokens, _) = elsewhere(&one);
    assert!(tokens.verify(&later, one.now()).await.is_ok());
}

/// The key that stays is found through the whole way: the token endpoint, the metadata, the keys, the guard.
#[tokio::test]
async fn a_guard_elsewhere_lets_in_who_has_a_signed_token() {
    let site = Site::with(signing);
    let (token, _) = site.tokens().await;
    let (tokens, _) = elsewhere(&site);
    let clock = hospes_auth::UnixClock::new({
        let time = Arc::clone(&site.time);
        move || time.load(Ordering::Relaxed)
    });
    let resource = Resource::new(RESOURCE).unwrap();
    let guard =
        BearerAuth::builder(resource, vec![Issuer::new(ISSUER).unwrap()], tokens).clock(clock).build();
    let ask = async |token: &str| {
        let mut request = http::Request::post("/mcp").header("authorization", format!("Bearer {token}"));
        request = request.header("content-type", "application/json");
        let mut request = request.body(()).unwrap();
        let checked = guard.check(&mut request).await;
        checked.map(|()| request.extensions().get::<TokenPrincipal>().unwrap().name())
    };
    assert_eq!(ask(&token).await.unwrap(), "https://as.example user ann");
    let forged = format!("{}x", &token[..token.len() - 1]);
    assert_eq!(ask(&forged).await.unwrap_err().status(), StatusCode::UNAUTHORIZED);
}

/// Elsewhere `sub` and `client_id` being the same says that the client acts for itself.
#[tokio::test]
async fn no_user_is_given_a_token_that_reads_as_a_clients() {
    let site = Site::with(|settings| {
        signing(settings);
        let redirects = vec![super::redirect_uri(super::REDIRECT)];
        settings.clients.push(super::RegisteredClient::public(super::client_id("ann"), redirects));
    });
    let ask = Ask::of("ann", ASKED);
    let code = site.code(&ask).await;
    // Waiting changes nothing about it.
    assert_eq!(site.redeem(&ask, &code).await.error(), (400, "invalid_grant".to_owned()));
}

/// Read access to the store of a server that encrypts its keys does not allow signing.
#[tokio::test]
async fn keys_are_sealed_where_they_are_kept() {
    let store: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
    let time = Arc::new(AtomicU64::new(1_000_000));
    let node = |seal: Option<u8>| {
        let mut site = Site::on(
            Arc::clone(&store),
            |settings| {
                signing(settings);
                settings.proof_nonces = true;
            },
            Arc::clone(&time),
        );
        if let Some(seal) = seal {
            site.server = site.server.sealing(&[seal; 32]).unwrap();
        }
        site
    };
    let kept = async |kind: RecordKind| {
        let records = store.list(kind, time.load(Ordering::Relaxed), 10).await.unwrap();
        records.into_iter().map(|record| serde_json::from_str(&record.value).unwrap()).collect::<Vec<Value>>()
    };
    let key = |token: &str| parts(token).0["kid"].clone();
    // Kept before there was a seal: sealed with the next look, and the same key.
    let (before, _) = node(None).tokens().await;
    assert_eq!(kept(RecordKind::Key).await[0]["sealed"], false);
    let plain = kept(RecordKind::Key).await[0]["document"].as_str().unwrap().to_owned();
    let site = node(Some(7));
    let (token, _) = site.tokens().await;
    assert_eq!(key(&token), key(&before));
    site.server.proof_nonces().issue(site.now()).await.unwrap();
    for kind in [RecordKind::Key, RecordKind::Nonce] {
        for record in kept(kind).await {
            assert_eq!(record["sealed"], true);
            assert!(!record["document"].as_str().unwrap().contains(&plain[20..60]), "{kind:?}");
        }
    }
    assert_eq!(key(&node(Some(7)).tokens().await.0), key(&token), "another start, the same seal");
    let (tokens, _) = elsewhere(&site);
    assert!(
        tokens.verify(&token, site.now()).await.is_ok() && tokens.verify(&before, site.now()).await.is_ok()
    );
    // Under another seal they are nobody's, and a new key signs.
    for other in [Some(8), None] {
        let (token, _) = node(other).tokens().await;
        assert_ne!(key(&token), key(&before), "{other:?}");
    }
    // What was sealed as one key opens as no other.
    let id = key(&token).as_str().unwrap().to_owned();
    let mut moved = store.get(RecordKind::Key, &id, site.now()).await.unwrap().unwrap();
    moved.key = "another".to_owned();
    store.put(moved).await.unwrap();
    let published = site.get("/jwks").await.json();
    assert!(published["keys"].as_array().unwrap().iter().all(|key| key["kid"] != "another"));
}
