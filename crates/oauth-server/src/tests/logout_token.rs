//! Logout tokens of the provider, and tokens that are none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hospes_auth::UnixClock;
use hospes_auth_testkit::TestSigningKey;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use super::delegated::{THIRD, Third, provider};
use crate::{PersonSignIn, PersonSignInError, ProviderLogout};

const NOW: u64 = 1_000_000;
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// A provider with a key, and who is told of sign-outs.
struct Told {
    third: Third,
    key: TestSigningKey,
    time: Arc<AtomicU64>,
    sign_in: PersonSignIn,
}

impl Told {
    fn new() -> Self {
        let (third, key, time) = (Third::default(), TestSigningKey::new("k1"), Arc::new(AtomicU64::new(NOW)));
        third.publish([&key]);
        let clock = Arc::clone(&time);
        let sign_in =
            PersonSignIn::new(provider(&third)).clock(UnixClock::new(move || clock.load(Ordering::Relaxed)));
        Self { third, key, time, sign_in }
    }

    async fn check(&self, token: &str) -> Result<ProviderLogout, PersonSignInError> {
        self.sign_in.check_logout(token).await
    }

    async fn is_refused(&self, token: &str, what: &str) {
        let checked = self.check(token).await;
        assert!(matches!(checked, Err(PersonSignInError::Refused(_))), "{what}: {checked:?}");
    }
}

fn claims() -> Value {
    json!({
        "iss": THIRD, "aud": "hospes-there", "iat": NOW, "exp": NOW + 120, "jti": "t-1", "sub": "u-17",
        "sid": "s-1", "events": { EVENT: {} },
    })
}

fn header(key: &TestSigningKey, kind: Option<&str>) -> Header {
    let mut header = key.header();
    header.typ = kind.map(str::to_owned);
    header
}

#[tokio::test]
async fn a_logout_token_names_a_person_or_a_session() {
    let told = Told::new();
    let sign = |claims: &Value| told.key.sign_as(&header(&told.key, Some("logout+jwt")), claims);
    let logout = told.check(&sign(&claims())).await.unwrap();
    assert_eq!((logout.issuer.as_str(), logout.id.as_str()), (THIRD, "t-1"));
    assert_eq!((logout.subject.as_deref(), logout.session.as_deref()), (Some("u-17"), Some("s-1")));
    // As long as the token could be accepted.
    assert_eq!(logout.until, NOW + 360);
    for (without, subject, session) in [("sub", None, Some("s-1")), ("sid", Some("u-17"), None)] {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(without);
        claims["aud"] = json!(["other", "hospes-there"]);
        let logout = told.check(&sign(&claims)).await.unwrap();
        assert_eq!((logout.subject.as_deref(), logout.session.as_deref()), (subject, session));
    }
    for kind in [None, Some("JWT"), Some("application/logout+jwt")] {
        assert!(told.check(&told.key.sign_as(&header(&told.key, kind), &claims())).await.is_ok(), "{kind:?}");
    }
}

/// Other tokens of the provider, tokens for others, and what anybody can make, must end nobody's sessions.
#[tokio::test]
async fn what_is_no_logout_token_for_us_is_refused() {
    let told = Told::new();
    for (claim, value) in [
        ("iss", json!("https://evil.example")),
        ("iss", Value::Null),
        ("aud", json!("another-client")),
        ("aud", json!(["another-client"])),
        ("aud", json!([])),
        ("aud", Value::Null),
        ("iat", json!(NOW - 360)),
        ("iat", json!(NOW + 61)),
        ("iat", json!("now")),
        ("iat", Value::Null),
        ("exp", json!(NOW - 60)),
        ("exp", Value::Null),
        ("jti", json!("")),
        ("jti", json!(7)),
        ("jti", json!("x".repeat(257))),
        ("jti", Value::Null),
        ("events", json!({})),
        ("events", json!({ EVENT: true })),
        ("events", json!({ "http://schemas.openid.net/event/other": {} })),
        ("events", json!([EVENT])),
        ("events", json!(EVENT)),
        ("events", Value::Null),
        ("nonce", json!("n")),
        ("sub", json!(["u-17"])),
        ("sid", json!(17)),
    ] {
        let mut claims = claims();
        claims[claim] = value.clone();
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(claim);
        }
        told.is_refused(&told.key.sign_as(&header(&told.key, None), &claims), &format!("{claim} {value}"))
            .await;
    }
    let mut with = claims();
    with["nonce"] = Value::Null;
    told.is_refused(&told.key.sign_as(&header(&told.key, None), &with), "a nonce without a value").await;
    let mut nobody = claims();
    ["sub", "sid"].iter().for_each(|name| drop(nobody.as_object_mut().unwrap().remove(*name)));
    told.is_refused(&told.key.sign_as(&header(&told.key, None), &nobody), "nobody").await;
    for kind in ["at+jwt", "secevent+jwt", "logout"] {
        told.is_refused(&told.key.sign_as(&header(&told.key, Some(kind)), &claims()), kind).await;
    }
}

#[tokio::test]
async fn a_logout_token_is_signed_with_a_present_key_of_the_provider() {
    let told = Told::new();
    let good = told.key.sign_as(&header(&told.key, None), &claims());
    assert!(told.check(&good).await.is_ok());
    // Without a signature, and with the public key as a shared secret.
    let (_, rest) = good.split_once('.').unwrap();
    let (body, signature) = rest.split_once('.').unwrap();
    for alg in ["none", "None"] {
        let head = URL_SAFE_NO_PAD.encode(json!({ "alg": alg, "kid": "k1" }).to_string());
        for token in [format!("{head}.{body}."), format!("{head}.{body}.{signature}")] {
            told.is_refused(&token, alg).await;
        }
    }
    let mut shared = Header::new(Algorithm::HS256);
    shared.kid = Some("k1".to_owned());
    for secret in [told.key.public_bytes(), b"s3cret".to_vec()] {
        let token = jsonwebtoken::encode(&shared, &claims(), &EncodingKey::from_secret(&secret)).unwrap();
        told.is_refused(&token, "HS256").await;
    }
    let forger = TestSigningKey::new("k1");
    told.is_refused(&forger.sign_as(&header(&forger, None), &claims()), "another key").await;
    for token in ["", "a.b.c", "a.b", &good[..good.len() - 2], &good.replacen('.', "", 1)] {
        told.is_refused(token, token).await;
    }
    // The provider has replaced its key.
    let new = TestSigningKey::new("k2");
    told.third.publish([&new]);
    let pass = |seconds: u64| told.time.fetch_add(seconds, Ordering::Relaxed);
    pass(61);
    let mut later = claims();
    later["iat"] = json!(NOW + 61);
    assert!(told.check(&new.sign_as(&header(&new, None), &later)).await.is_ok());
    told.is_refused(&told.key.sign_as(&header(&told.key, None), &later), "a key that is published no more")
        .await;
    // While keys cannot be fetched, nothing is believed.
    told.third.break_off(Some("away"));
    pass(3601);
    later["iat"] = json!(NOW + 3662);
    later["exp"] = json!(NOW + 3762);
    let unknown = told.check(&new.sign_as(&header(&new, None), &later)).await;
    assert!(matches!(unknown, Err(PersonSignInError::Unreachable(_))), "{unknown:?}");
}
