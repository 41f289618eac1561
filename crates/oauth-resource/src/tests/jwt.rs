//! Tokens that are not what they should be.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hospes_auth::jwt::VerifyJwtError;
use hospes_auth::{GroupsClaim, Issuer, Resource};
use hospes_auth_testkit::{TestSigningKey, key_set};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{JwtRules, TokenPrincipal, check_jwt};

const NOW: u64 = 1_800_000_000;

fn claims() -> Value {
    json!({
        "iss": "https://as.example/t1", "sub": "ann", "aud": "https://m.example/mcp", "exp": NOW + 600,
        "iat": NOW, "jti": "t-1", "client_id": "https://app.example/client.json", "scope": "files:read mail",
    })
}

fn rules() -> JwtRules {
    let audience = Resource::new("https://m.example/mcp").unwrap();
    JwtRules::new(Issuer::new("https://as.example/t1").unwrap(), vec![audience])
}

fn check(key: &TestSigningKey, token: &str) -> Result<TokenPrincipal, VerifyJwtError> {
    check_jwt(token, &key_set([key]), &rules(), NOW)
}

#[test]
fn a_good_token_says_who_calls() {
    let key = TestSigningKey::new("k1");
    let who = check(&key, &key.sign(&claims())).unwrap();
    assert_eq!(
        (who.subject.as_str(), who.token_id.as_str(), who.expires_at),
        ("ann", "t-1", Some(NOW + 600 + 60))
    );
    assert_eq!(who.scopes.to_string(), "files:read mail");
    assert_eq!(who.client_id.unwrap().as_str(), "https://app.example/client.json");
    let mut list = claims();
    list["aud"] = json!(["https://other.example", "https://m.example/mcp"]);
    list["scope"].take();
    list["scp"] = json!(["a", "b"]);
    assert_eq!(check(&key, &key.sign(&list)).unwrap().scopes.to_string(), "a b");
    let mut kind = key.header();
    kind.typ = Some("application/AT+JWT".to_owned());
    assert!(check(&key, &key.sign_as(&kind, &claims())).is_ok());
}

/// A list that the issuer has left out must not count as an empty one: a rule may deny something to a group.
#[test]
fn groups_are_those_of_the_configured_claim() {
    let key = TestSigningKey::new("k1");
    let mut reading = rules();
    reading.groups = Some(GroupsClaim::new("roles"));
    let groups = |rules: &JwtRules, more: &[(&str, Value)]| {
        let mut claims = claims();
        for (name, value) in more {
            claims[*name] = value.clone();
        }
        check_jwt(&key.sign(&claims), &key_set([&key]), rules, NOW).map(|who| who.groups)
    };
    let staff = [("roles", json!(["staff", "it"])), ("groups", json!(["admins"]))];
    assert_eq!(groups(&reading, &staff).unwrap(), ["staff", "it"]);
    assert!(groups(&rules(), &staff).unwrap().is_empty(), "not read");
    assert!(groups(&reading, &[]).unwrap().is_empty());
    let overage = [("_claim_names", json!({ "roles": "src1" }))];
    let refused = groups(&reading, &overage);
    assert!(matches!(refused, Err(VerifyJwtError::Invalid(_))), "{refused:?}");
    assert!(groups(&rules(), &overage).is_ok());
}

/// covers: AUTR-10
#[test]
fn a_token_for_somebody_else_is_refused() {
    let key = TestSigningKey::new("k1");
    for (claim, value) in [
        ("aud", json!("https://m.example/mcp2")),
        ("aud", json!("https://m.example")),
        ("aud", json!("https://m.example/mcp/")),
        ("aud", json!("https://M.example/mcp")),
        ("aud", json!(["https://m.example/mc", "https://other.example/mcp"])),
        ("aud", json!([])),
        ("aud", Value::Null),
        ("iss", json!("https://as.example/t1/")),
        ("iss", json!("https://as.example")),
        ("iss", json!(["https://as.example/t1"])),
        ("iss", Value::Null),
        ("sub", Value::Null),
        ("exp", Value::Null),
        ("exp", json!("tomorrow")),
        ("nbf", json!(NOW + 61)),
        // An ID token says who somebody is.
        ("nonce", json!("n")),
        ("at_hash", json!("h")),
        // Bound in a way that is not understood.
        ("cnf", json!({ "x5t#S256": "x" })),
        ("cnf", json!({ "jkt": "x", "x5t#S256": "x" })),
        ("cnf", json!({})),
    ] {
        let mut claims = claims();
        claims[claim] = value.clone();
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(claim);
        }
        assert!(
            matches!(check(&key, &key.sign(&claims)), Err(VerifyJwtError::Invalid(_))),
            "{claim}: {value}"
        );
    }
}

/// A token may be made out for several resources; ours has to be one of them, whole and as a text.
///
/// covers: AUTR-10
#[test]
fn a_token_for_several_is_good_where_it_names_us() {
    const OURS: &str = "https://m.example/mcp";
    const OTHER: &str = "https://other.example";
    let key = TestSigningKey::new("k1");
    for (aud, good) in [
        (json!([OURS]), true),
        (json!([OURS, OTHER]), true),
        (json!([OTHER, OURS]), true),
        (json!([OURS, OURS]), true),
        (json!([]), false),
        (json!([OTHER]), false),
        (json!(["https://m.example/mc", "p"]), false),
        (json!(["https://m.example/mcp/"]), false),
        (json!(["https://m.example/mcp https://other.example"]), false),
        (json!(["https://m.example/mcp,https://other.example"]), false),
        (json!([""]), false),
        // What is no list of texts is not read at all, whatever else is in it.
        (json!([OURS, 7]), false),
        (json!([OURS, null]), false),
        (json!([OURS, [OTHER]]), false),
        (json!([[OURS]]), false),
        (json!([{ "aud": OURS }]), false),
        (json!({ "0": OURS }), false),
        (json!(true), false),
    ] {
        let mut claims = claims();
        claims["aud"] = aud.clone();
        let checked = check(&key, &key.sign(&claims));
        assert_eq!(checked.is_ok(), good, "{aud}");
        assert!(good || matches!(checked, Err(VerifyJwtError::Invalid(_))), "{aud}: {checked:?}");
    }
}

#[test]
fn time_is_kept_within_a_minute() {
    let key = TestSigningKey::new("k1");
    for (exp, good) in [(NOW - 60, false), (NOW - 59, true), (0, false)] {
        let mut claims = claims();
        claims["exp"] = json!(exp);
        let checked = check(&key, &key.sign(&claims));
        assert_eq!(checked.is_ok(), good, "{exp}");
        assert!(good || checked == Err(VerifyJwtError::Expired));
    }
    let mut early = claims();
    early["nbf"] = json!(NOW + 60);
    assert!(check(&key, &key.sign(&early)).is_ok());
}

#[test]
fn a_token_must_be_signed_by_a_key_of_the_issuer_as_agreed() {
    let (key, other) = (TestSigningKey::new("k1"), TestSigningKey::new("k1"));
    assert_eq!(check(&key, &other.sign(&claims())), Err(VerifyJwtError::Invalid("invalid signature")));
    let unknown = TestSigningKey::new("k2");
    assert_eq!(check(&key, &unknown.sign(&claims())), Err(VerifyJwtError::UnknownKey));

    // A token without a key's name is checked with the only key there is, if there is only one.
    let mut nameless = key.header();
    nameless.kid = None;
    let token = key.sign_as(&nameless, &claims());
    assert!(check(&key, &token).is_ok());
    assert_eq!(check_jwt(&token, &key_set([&key, &other]), &rules(), NOW), Err(VerifyJwtError::UnknownKey));

    // `none`, with and without a signature.
    let good = key.sign(&claims());
    let (_, rest) = good.split_once('.').unwrap();
    let (body, signature) = rest.split_once('.').unwrap();
    for alg in ["none", "None", "nOnE"] {
        let header = json!({ "alg": alg, "typ": "at+jwt", "kid": "k1" }).to_string();
        let header = URL_SAFE_NO_PAD.encode(header);
        for token in [format!("{header}.{body}."), format!("{header}.{body}.{signature}")] {
            assert!(check(&key, &token).is_err());
        }
    }
    // The public key as a shared secret.
    let mut shared = Header::new(Algorithm::HS256);
    (shared.typ, shared.kid) = (Some("at+jwt".to_owned()), Some("k1".to_owned()));
    for secret in [key.public_bytes(), serde_json::to_vec(&key.public()).unwrap()] {
        let token = jsonwebtoken::encode(&shared, &claims(), &EncodingKey::from_secret(&secret)).unwrap();
        let mut lax = rules();
        lax.algorithms.push(Algorithm::HS256);
        assert!(matches!(check_jwt(&token, &key_set([&key]), &lax, NOW), Err(VerifyJwtError::Invalid(_))));
    }
    // An algorithm that this issuer does not use.
    let mut narrow = rules();
    narrow.algorithms = vec![Algorithm::EdDSA];
    assert!(check_jwt(&good, &key_set([&key]), &narrow, NOW).is_err());
    // A key for something else.
    let mut keys = key_set([&key]);
    keys.keys[0].common.public_key_use = Some(jsonwebtoken::jwk::PublicKeyUse::Encryption);
    assert_eq!(check_jwt(&good, &keys, &rules(), NOW), Err(VerifyJwtError::UnknownKey));
}

#[test]
fn only_access_tokens_are_taken_unless_told_otherwise() {
    let key = TestSigningKey::new("k1");
    for kind in [Some("JWT"), Some("id+jwt"), Some("at+jwt; x"), None] {
        let mut header = key.header();
        header.typ = kind.map(str::to_owned);
        let token = key.sign_as(&header, &claims());
        assert!(check(&key, &token).is_err(), "{kind:?}");
        let mut older = rules();
        older.any_type = true;
        assert!(check_jwt(&token, &key_set([&key]), &older, NOW).is_ok(), "{kind:?}");
    }
}

#[test]
fn a_token_that_is_too_long_is_not_read() {
    let key = TestSigningKey::new("k1");
    let mut long = claims();
    long["more"] = json!("x".repeat(16 * 1024));
    assert_eq!(check(&key, &key.sign(&long)), Err(VerifyJwtError::Invalid("the token is too long")));
}

proptest! {
    #[test]
    fn nothing_that_is_read_panics(token in "[A-Za-z0-9._=-]{0,80}|\\PC{0,40}") {
        let keys = jsonwebtoken::jwk::JwkSet { keys: Vec::new() };
        prop_assert!(check_jwt(&token, &keys, &rules(), NOW).is_err());
    }
}

#[test]
fn a_token_that_asks_for_extensions_is_refused() {
    let key = TestSigningKey::new("k1");
    let token = key.sign(&claims());
    let (header, rest) = token.split_once('.').unwrap();
    let mut header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
    header["crit"] = json!(["b64"]);
    let token = format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header.to_string()));
    let flaw = VerifyJwtError::Invalid("unsupported critical extension (`crit`)");
    assert_eq!(check(&key, &token), Err(flaw));
}
