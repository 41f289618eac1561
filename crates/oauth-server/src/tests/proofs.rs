//! Tokens that are bound to a key of the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hospes_auth::dpop::ProofNonces;
use hospes_oauth::ProofKey;
use hospes_oauth_resource::TokenVerifier as _;
use http::{Method, StatusCode};
use serde_json::json;
use url::Url;

use super::watched::{Pause, Step, Steps, Watched};
use super::{APP, Answer, Ask, Browser, RESOURCE, Site, basic};
use crate::{AuthStore, MemoryAuthStore, RecordKind};

/// A proof for the token endpoint.
fn proof(key: &ProofKey, site: &Site, id: &str, nonce: Option<&str>) -> String {
    let url = Url::parse("https://as.example/token").unwrap();
    let proof = key.prove(&Method::POST, &url, None, nonce, id.to_owned(), site.now()).unwrap();
    proof.to_str().unwrap().to_owned()
}

async fn redeem(site: &Site, asked: &Ask, code: &str, proof: Option<&str>) -> Answer {
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("code_verifier", asked.verifier.expose()),
        ("redirect_uri", &*asked.redirect),
        ("client_id", APP),
    ];
    let headers: Vec<_> = proof.iter().map(|proof| ("dpop", *proof)).collect();
    site.form_with("/token", &fields, &headers).await
}

async fn refresh(site: &Site, token: &str, proof: Option<&str>) -> Answer {
    let fields = [("grant_type", "refresh_token"), ("refresh_token", token), ("client_id", APP)];
    let headers: Vec<_> = proof.iter().map(|proof| ("dpop", *proof)).collect();
    site.form_with("/token", &fields, &headers).await
}

#[tokio::test]
async fn a_token_is_bound_to_the_key_that_was_proven() {
    let site = Site::with(|settings| settings.access_tokens = crate::AccessTokenFormat::Jwt);
    let (key, other) = (ProofKey::generate().unwrap(), ProofKey::generate().unwrap());
    let asked = Ask::new();
    let code = site.code(&asked).await;
    let answer = redeem(&site, &asked, &code, Some(&proof(&key, &site, "1", None))).await;
    assert_eq!(answer.json()["token_type"], "DPoP");
    let (access, first) = answer.tokens();
    let who = site.guard().verify(&access, site.now()).await.unwrap();
    let bound = who.proof_key.unwrap();
    let said = site.form_with("/introspect", &[("token", &*access)], &[("authorization", &*machine())]).await;
    assert_eq!(said.json()["cnf"], json!({ "jkt": bound }));
    let claims = {
        use base64::Engine as _;
        let part = access.split('.').nth(1).unwrap();
        let part = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).unwrap();
        serde_json::from_slice::<serde_json::Value>(&part).unwrap()
    };
    assert_eq!(claims["cnf"], json!({ "jkt": bound }), "and whoever reads it elsewhere knows");

    // The refresh token of a client without a secret is worth nothing without the key, and is not lost by a try.
    let grant = (400, "invalid_grant".to_owned());
    assert_eq!(refresh(&site, &first, None).await.error(), grant);
    assert_eq!(refresh(&site, &first, Some(&proof(&other, &site, "1", None))).await.error(), grant);
    let (_, second) = refresh(&site, &first, Some(&proof(&key, &site, "2", None))).await.tokens();
    assert_eq!(refresh(&site, &first, None).await.error(), grant, "nor is its successor had without");
    let (_, again) = refresh(&site, &first, Some(&proof(&key, &site, "3", None))).await.tokens();
    assert_eq!(second, again);

    let (plain, _) = site.tokens().await;
    assert_eq!(site.guard().verify(&plain, site.now()).await.unwrap().proof_key, None);
    let metadata = site.get("/.well-known/oauth-authorization-server").await.json();
    assert!(metadata["dpop_signing_alg_values_supported"].as_array().unwrap().contains(&json!("ES256")));
}

fn machine() -> String {
    basic("machine", "s3cret:%+ä")
}

/// A client with a secret shows with that who it is; its refresh token may go with another key.
#[tokio::test]
async fn a_refresh_token_of_a_client_with_a_secret_is_bound_to_that() {
    let site = Site::new();
    let (key, other) = (ProofKey::generate().unwrap(), ProofKey::generate().unwrap());
    let asked = Ask::of("machine", "https://machine.example/callback");
    let mut browser = Browser::new(&site);
    let consent = browser.sign_in(&asked).await;
    let code = browser.decide(&consent, "allow").await.answer()["code"].clone();
    let send = async |fields: &[(&str, &str)], proof: String| {
        site.form_with("/token", fields, &[("authorization", &*machine()), ("dpop", &*proof)]).await
    };
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", &*code),
        ("code_verifier", asked.verifier.expose()),
        ("resource", RESOURCE),
    ];
    let (_, token) = send(&fields, proof(&key, &site, "1", None)).await.tokens();
    let fields = [("grant_type", "refresh_token"), ("refresh_token", &*token)];
    let answer = send(&fields, proof(&other, &site, "1", None)).await;
    assert_eq!((answer.status(), &answer.json()["token_type"]), (StatusCode::OK, &json!("DPoP")));
}

#[tokio::test]
async fn a_proof_that_is_not_in_order_binds_nothing() {
    let site = Site::new();
    let key = ProofKey::generate().unwrap();
    let bad = (400, "invalid_dpop_proof".to_owned());
    let (_, token) = site.tokens().await;
    let used = proof(&key, &site, "1", None);
    assert_eq!(refresh(&site, "x", Some(&used)).await.error().1, "invalid_grant");
    assert_eq!(refresh(&site, &token, Some(&used)).await.error(), bad, "once, whatever came of it");
    let at = |url: &str, method: &Method, time: u64| {
        let url = Url::parse(url).unwrap();
        let proof = key.prove(method, &url, None, None, format!("{url} {time}"), time).unwrap();
        proof.to_str().unwrap().to_owned()
    };
    let (here, now) = ("https://as.example/token", site.now());
    for proof in [
        at(here, &Method::GET, now),
        at("https://as.example/other", &Method::POST, now),
        at("https://other.example/token", &Method::POST, now),
        at(here, &Method::POST, now - 301),
        at(here, &Method::POST, now + 301),
        "x".to_owned(),
        format!("{}x", at(here, &Method::POST, now)),
    ] {
        assert_eq!(refresh(&site, &token, Some(&proof)).await.error(), bad, "{proof}");
    }
    let two = [("dpop", &*at(here, &Method::POST, now)), ("dpop", &*at(here, &Method::POST, now + 1))];
    let fields = [("grant_type", "refresh_token"), ("refresh_token", &*token), ("client_id", APP)];
    assert_eq!(site.form_with("/token", &fields, &two).await.error(), bad);
    assert_eq!(refresh(&site, &token, None).await.status(), StatusCode::OK, "nothing was swapped");
}

/// A server that wants its nonce says so, and a client that did not know it loses nothing.
#[tokio::test]
async fn a_nonce_is_asked_for_where_it_is_wanted() {
    let site = Site::with(|settings| settings.proof_nonces = true);
    let key = ProofKey::generate().unwrap();
    let asked = Ask::new();
    let code = site.code(&asked).await;
    let first = redeem(&site, &asked, &code, Some(&proof(&key, &site, "1", None))).await;
    assert_eq!(first.error(), (400, "use_dpop_nonce".to_owned()));
    assert!(first.header("access-control-expose-headers").contains("dpop-nonce"));
    let nonce = first.header("dpop-nonce").to_owned();
    for (id, wrong) in [("2", "x".to_owned()), ("3", format!("{nonce}x"))] {
        let answer = redeem(&site, &asked, &code, Some(&proof(&key, &site, id, Some(&wrong)))).await;
        assert_eq!(answer.error().1, "use_dpop_nonce");
    }
    let answer = redeem(&site, &asked, &code, Some(&proof(&key, &site, "4", Some(&nonce)))).await;
    let (_, token) = answer.tokens();
    site.pass(300);
    let late = refresh(&site, &token, Some(&proof(&key, &site, "5", Some(&nonce)))).await;
    assert_eq!(late.error().1, "use_dpop_nonce");
    let nonce = late.header("dpop-nonce").to_owned();
    refresh(&site, &token, Some(&proof(&key, &site, "6", Some(&nonce)))).await.tokens();
}

/// An authorization request may name the key that will redeem the code.
#[tokio::test]
async fn a_code_may_be_bound_to_a_key_from_the_beginning() {
    let site = Site::new();
    let (key, other) = (ProofKey::generate().unwrap(), ProofKey::generate().unwrap());
    let thumbprint = {
        let sample = proof(&key, &site, "0", None);
        let header = jsonwebtoken::decode_header(&sample).unwrap();
        header.jwk.unwrap().thumbprint(jsonwebtoken::jwk::ThumbprintHash::SHA256).unwrap()
    };
    for (good, shown) in [(false, Some(&other)), (false, None), (true, Some(&key))] {
        let asked = Ask::new().and("dpop_jkt", &thumbprint);
        let code = site.code(&asked).await;
        let proof = shown.map(|key| proof(key, &site, &code, None));
        let answer = redeem(&site, &asked, &code, proof.as_deref()).await;
        assert_eq!(answer.status() == StatusCode::OK, good, "{}", answer.text());
    }
    let back = site.get(&Ask::new().and("dpop_jkt", "x").path()).await;
    assert_eq!(back.answer()["error"], "invalid_request");
}

/// Two nodes that ask for nonces.
fn asking([one, other]: [Arc<dyn AuthStore>; 2]) -> [Site; 2] {
    let time = Arc::new(AtomicU64::new(1_000_000));
    [one, other].map(|store| Site::on(store, |settings| settings.proof_nonces = true, Arc::clone(&time)))
}

/// A client that asks one node and then the other is not sent back and forth, however long both have been there and
/// whichever of them was there first.
#[tokio::test]
async fn a_nonce_of_one_node_is_good_at_the_others() {
    for (one, other, _folder) in super::grants::stores() {
        let nodes = asking([one, other]);
        let key = ProofKey::generate().unwrap();
        for (round, pause) in [0, 299, 3600, 1, 7200, 30 * 24 * 3600].into_iter().enumerate() {
            nodes[0].pass(pause);
            // Without a proof no nonce is asked for.
            let (_, token) = nodes[round % 2].tokens().await;
            let (near, far) = (&nodes[round % 2], &nodes[(round + 1) % 2]);
            let first = refresh(near, &token, Some(&proof(&key, near, &format!("{round}a"), None))).await;
            assert_eq!(first.error().1, "use_dpop_nonce");
            let nonce = first.header("dpop-nonce").to_owned();
            let carried = proof(&key, far, &format!("{round}b"), Some(&nonce));
            let (_, next) = refresh(far, &token, Some(&carried)).await.tokens();
            let again = refresh(near, &next, Some(&carried)).await;
            assert_eq!(again.error().1, "invalid_dpop_proof", "a proof is good once at all of them");
        }
        // Nobody makes one up, nor before its time.
        let (_, token) = nodes[0].tokens().await;
        let ahead = nodes[1].server.proof_nonces().issue(nodes[1].now() + 61).await.unwrap();
        let skewed = nodes[1].server.proof_nonces().issue(nodes[1].now() + 60).await.unwrap();
        let strange = Site::with(|settings| settings.proof_nonces = true);
        let strange = strange.server.proof_nonces().issue(nodes[0].now()).await.unwrap();
        for (id, bad) in [("x", ahead), ("y", strange)] {
            let answer = refresh(&nodes[0], &token, Some(&proof(&key, &nodes[0], id, Some(&bad)))).await;
            assert_eq!(answer.error().1, "use_dpop_nonce", "{id}");
        }
        let good = proof(&key, &nodes[0], "z", Some(&skewed));
        refresh(&nodes[0], &token, Some(&good)).await.tokens();
    }
}

/// Nonce keys rotate, and each is kept exactly as long as its nonces are valid. For invented nonces the store is read
/// at most once a second.
#[tokio::test]
async fn the_keys_of_nonces_change() {
    let looked = Arc::new(AtomicUsize::new(0));
    let store: Arc<dyn AuthStore> =
        Arc::new(Watched::new(MemoryAuthStore::new(), Looks(Arc::clone(&looked))));
    let site =
        Site::on(Arc::clone(&store), |settings| settings.proof_nonces = true, Arc::new(1_000_000.into()));
    let nonces = site.server.proof_nonces();
    let kept = async || store.count(RecordKind::Nonce).await.unwrap();
    nonces.issue(site.now()).await.unwrap();
    assert_eq!(kept().await, 1);
    site.pass(3599);
    let last = nonces.issue(site.now()).await.unwrap();
    site.pass(1);
    nonces.issue(site.now()).await.unwrap();
    assert_eq!(kept().await, 2);
    let key = ProofKey::generate().unwrap();
    let (_, token) = site.tokens().await;
    let (_, token) = refresh(&site, &token, Some(&proof(&key, &site, "1", Some(&last)))).await.tokens();
    let made_up = ProofNonces::in_process().issue(site.now()).await.unwrap();
    let before = looked.load(Ordering::Relaxed);
    for id in 0..20 {
        let proof = proof(&key, &site, &format!("m{id}"), Some(&made_up));
        assert_eq!(refresh(&site, &token, Some(&proof)).await.error().1, "use_dpop_nonce");
    }
    assert!(looked.load(Ordering::Relaxed) - before <= 1);
    site.pass(300 + 60);
    store.sweep(site.now()).await.unwrap();
    assert_eq!(kept().await, 1);
}

/// Counts how often records are listed.
struct Looks(Arc<AtomicUsize>);

impl Steps for Looks {
    fn before(&self, step: Step) -> Pause<'_> {
        if step == Step::List {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Box::pin(std::future::ready(()))
    }
}

/// If bound tokens are required, no unbound one is issued, and the grant is not used up by the attempt.
#[tokio::test]
async fn without_a_proof_there_is_no_token_where_one_is_wanted() {
    let site = Site::with(|settings| settings.require_proofs = true);
    let key = ProofKey::generate().unwrap();
    let bad = (400, "invalid_dpop_proof".to_owned());
    let asked = Ask::new();
    let code = site.code(&asked).await;
    assert_eq!(redeem(&site, &asked, &code, None).await.error(), bad);
    let (_, token) = redeem(&site, &asked, &code, Some(&proof(&key, &site, "1", None))).await.tokens();
    assert_eq!(refresh(&site, &token, None).await.error(), bad);
    let own = [("grant_type", "client_credentials")];
    let machine = machine();
    let plain = site.form_with("/token", &own, &[("authorization", &*machine)]).await;
    assert_eq!(plain.error(), bad);
    let proof = proof(&key, &site, "2", None);
    let bound = site.form_with("/token", &own, &[("authorization", &*machine), ("dpop", &*proof)]).await;
    assert_eq!(bound.json()["token_type"], "DPoP");
}
