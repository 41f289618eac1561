//! Grants without a person, and tokens bound to a key.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::*;
use crate::{AccessTokenType, ClientSigningKey, IdentityProvider, ProofKey};

fn given() -> PreregisteredOAuthClient {
    PreregisteredOAuthClient::new(ClientId::new("us").unwrap())
}

fn part(jwt: &str, index: usize) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(jwt.split('.').nth(index).unwrap()).unwrap()).unwrap()
}

fn machine() -> World {
    World::new().challenge("Bearer scope=x").settings(|settings| {
        settings.grant = GrantType::ClientCredentials;
        settings.given = Some(given().secret("s"));
    })
}

/// covers: AUTC-20
#[test]
fn a_client_asks_for_itself_with_its_secret() {
    let mut world = machine();
    world.play().unwrap();
    let form = world.form();
    assert_eq!(form["grant_type"], "client_credentials");
    assert_eq!((form["resource"].as_str(), form["scope"].as_str()), ("https://m/mcp", "x"));
    let header = world.asked.last().unwrap().headers["authorization"].to_str().unwrap().to_owned();
    assert_eq!(header, format!("Basic {}", STANDARD.encode("us:s")));
    assert!(world.visited.is_empty());
    let mut bare = machine().settings(|settings| settings.given = Some(given()));
    assert!(matches!(bare.play(), Err(FlowError::ClientAuth { .. })));
    let mut nobody = machine().settings(|settings| settings.given = None);
    assert!(matches!(nobody.play(), Err(FlowError::NeedsClientId(_))));
}

#[test]
fn a_client_that_asks_for_itself_belongs_to_the_first_it_meets() {
    let vouched = GrantType::Workload("platform-jwt".into());
    for grant in [GrantType::ClientCredentials, vouched] {
        let mut world = machine().settings(|settings| settings.grant = grant);
        world.play().unwrap();
        assert_eq!((world.kept[0].issuer.as_str(), world.kept[0].client.id.as_str()), ("https://as", "us"));
        world.cause.bound = Some(hospes_auth::Issuer::new("https://as").unwrap());
        world.play().unwrap();
        assert_eq!(world.kept.len(), 1);
        let asked = world.asked.len();
        world.cause.bound = Some(hospes_auth::Issuer::new("https://old").unwrap());
        assert!(matches!(world.play(), Err(FlowError::OtherIssuer { .. })));
        assert!(!world.urls()[asked..].contains(&"https://as/token"));
    }
}

#[test]
fn a_client_asks_for_itself_with_its_key() {
    let document =
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    let begin = "-----BEGIN PRIVATE KEY-----";
    let pem = format!("{begin}\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(document.as_ref()));
    let key = ClientSigningKey::from_pem(&pem, "ES256").unwrap().key_id("k1");
    assert!(
        ClientSigningKey::from_pem(&pem, "EdDSA").is_err()
            && ClientSigningKey::from_pem(&pem, "HS256").is_err()
    );
    let mut world = machine().settings(|settings| {
        settings.given = Some(given().auth(ClientAuth::Key(key)));
    });
    world.play().unwrap();
    let form = world.form();
    assert_eq!(form["client_assertion_type"], "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
    assert!(!form.contains_key("client_id"));
    let (header, claims) = (part(&form["client_assertion"], 0), part(&form["client_assertion"], 1));
    assert_eq!(header, json!({ "typ": "client-authentication+jwt", "alg": "ES256", "kid": "k1" }));
    assert_eq!((&claims["iss"], &claims["sub"]), (&json!("us"), &json!("us")));
    assert_eq!(claims["aud"], "https://as", "the issuer, and no list");
    assert_eq!((&claims["iat"], &claims["exp"]), (&json!(NOW), &json!(NOW + 60)));
    assert!(claims["jti"].as_str().unwrap().len() > 20);
}

#[test]
fn an_identity_provider_vouches_and_nobody_is_asked() {
    let url = Url::parse("https://idp/token").unwrap();
    let idp = ClientIdentity::new(ClientId::new("at-idp").unwrap(), ClientAuth::None);
    let exchanged = json!({
        "access_token": "jag", "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag", "token_type": "N_A",
    });
    let world = || {
        World::new()
            .settings(|settings| {
                settings.grant = GrantType::Enterprise(IdentityProvider::new(
                    url.clone(),
                    idp.clone(),
                    "id-token".to_owned(),
                ));
                settings.given = Some(given().secret("s"));
            })
            .page("https://idp/token", 200, exchanged.clone())
    };
    let mut good = world();
    good.play().unwrap();
    let first = fields(&good.asked[2].body);
    assert_eq!(first["grant_type"], "urn:ietf:params:oauth:grant-type:token-exchange");
    assert_eq!(first["requested_token_type"], "urn:ietf:params:oauth:token-type:id-jag");
    assert_eq!(first["audience"], "https://as");
    assert_eq!(first["resource"], "https://m/mcp");
    assert_eq!((first["subject_token"].as_str(), first["client_id"].as_str()), ("id-token", "at-idp"));
    let form = good.form();
    assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:jwt-bearer");
    assert_eq!(form["assertion"], "jag");
    assert!(good.visited.is_empty());
    let mut other = world().with("https://idp/token", json!({ "issued_token_type": "id_token" }));
    assert!(other.play().is_err());
    assert!(!other.urls().contains(&"https://as/token"));
}

#[test]
fn a_platform_vouches_once() {
    let world = || {
        World::new().settings(|settings| {
            settings.grant = GrantType::Workload("platform-jwt".into());
            settings.given = Some(given());
        })
    };
    let mut good = world();
    good.play().unwrap();
    let form = good.form();
    assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:jwt-bearer");
    assert_eq!((form["assertion"].as_str(), form["client_id"].as_str()), ("platform-jwt", "us"));
    let mut refused = world().page("https://as/token", 400, json!({ "error": "invalid_grant" }));
    refused.play().unwrap_err();
    assert_eq!(
        refused.urls().iter().filter(|url| **url == "https://as/token").count(),
        1,
        "and is not asked again"
    );
    assert!(refused.visited.is_empty());
}

fn bound() -> World {
    let mut world = World::new()
        .challenge("DPoP algs=\"ES256\"")
        .server(json!({ "dpop_signing_alg_values_supported": ["ES256"] }))
        .with("https://as/token", json!({ "token_type": "DPoP" }));
    world.cause.proof_key = Some(Arc::new(ProofKey::generate().unwrap()));
    world
}

#[test]
fn a_token_is_bound_to_a_key_where_that_is_wanted() {
    let mut world = bound();
    let tokens = world.play().unwrap();
    assert_eq!(tokens.kind, AccessTokenType::Dpop);
    assert!(tokens.proof_key.is_some());
    let proof = world.asked.last().unwrap().headers["dpop"].to_str().unwrap().to_owned();
    let claims = part(&proof, 1);
    assert_eq!((&claims["htm"], &claims["htu"]), (&json!("POST"), &json!("https://as/token")));
    assert_eq!(claims.get("ath"), None);
    let mut plain = bound();
    plain.cause.challenge = None;
    assert!(plain.play().is_err(), "a bound token that was not asked for cannot be shown");
    assert!(!plain.asked.last().unwrap().headers.contains_key("dpop"));
}

#[test]
fn a_nonce_is_shown_once_when_it_is_demanded() {
    let mut world =
        bound().page("https://as/token", 400, json!({ "error": "use_dpop_nonce", "nonce": "n1" }));
    world.play().unwrap_err();
    let proofs: Vec<_> = world
        .asked
        .iter()
        .filter_map(|request| request.headers.get("dpop")?.to_str().ok())
        .map(|proof| part(proof, 1))
        .collect();
    assert_eq!(proofs.len(), 2, "once more, and not for ever");
    assert_eq!((proofs[0].get("nonce"), &proofs[1]["nonce"]), (None, &json!("n1")));
    assert_ne!(proofs[0]["jti"], proofs[1]["jti"]);
}
