//! Tokens that are renewed.

use secrecy::ExposeSecret as _;

use super::*;
use crate::{TokenRefresh, TokenRefreshStep};

fn tokens() -> TokenSet {
    World::new().challenge("Bearer scope=\"a b\"").play().unwrap()
}

fn renew(tokens: &TokenSet, status: u16, body: &Value) -> (HashMap<String, String>, TokenRefreshStep) {
    let mut seed = Seed::new(&[9; 32]);
    let (mut renewal, request) = TokenRefresh::begin(tokens, None, &mut seed, NOW).unwrap().unwrap();
    assert_eq!(request.url.as_str(), "https://as/token");
    let response =
        FetchResponse::new(StatusCode::from_u16(status).unwrap(), serde_json::to_vec(body).unwrap());
    (fields(&request.body), renewal.handle(&response, &mut seed, NOW + 500))
}

#[test]
fn a_renewal_names_the_resource_and_takes_the_new_refresh_token() {
    let (form, renewed) = renew(
        &tokens(),
        200,
        &json!({
            "access_token": "second", "token_type": "Bearer", "expires_in": "60", "refresh_token": "next",
        }),
    );
    assert_eq!((form["grant_type"].as_str(), form["refresh_token"].as_str()), ("refresh_token", "refr3sh"));
    assert_eq!(form["resource"], "https://m/mcp");
    assert_eq!(form["client_id"], "https://hospes.example/client.json");
    let TokenRefreshStep::Tokens(renewed) = renewed else { panic!("{renewed:?}") };
    assert_eq!(renewed.access.expose_secret(), "second");
    assert_eq!(renewed.refresh.as_ref().unwrap().expose_secret(), "next");
    assert_eq!(renewed.expires_at, Some(NOW + 560));
    assert_eq!(renewed.granted, Scopes::parse("a b"));
}

#[test]
fn a_refresh_token_stays_when_no_other_comes() {
    let (_, renewed) = renew(&tokens(), 200, &json!({ "access_token": "second", "token_type": "Bearer" }));
    let TokenRefreshStep::Tokens(renewed) = renewed else { panic!("{renewed:?}") };
    assert_eq!(renewed.refresh.unwrap().expose_secret(), "refr3sh");
}

#[test]
fn only_a_clear_no_loses_the_tokens() {
    let (_, lost) = renew(&tokens(), 400, &json!({ "error": "invalid_grant" }));
    assert!(matches!(lost, TokenRefreshStep::Lost));
    for (status, body) in [
        (503, json!({})),
        (500, json!({ "error": "invalid_grant" })),
        (400, json!({ "error": "temporarily_unavailable" })),
        (401, json!({ "error": "invalid_client" })),
        (200, json!({})),
    ] {
        let (_, renewed) = renew(&tokens(), status, &body);
        assert!(matches!(renewed, TokenRefreshStep::Failed(_)), "{status} {body} {renewed:?}");
    }
}

#[test]
fn tokens_are_stale_before_they_expire() {
    let mut tokens = tokens();
    assert!(!tokens.is_stale(NOW + 539) && tokens.is_stale(NOW + 540), "a tenth of ten minutes");
    tokens.expires_at = Some(NOW + 100);
    assert!(!tokens.is_stale(NOW + 69) && tokens.is_stale(NOW + 70), "half a minute");
    tokens.expires_at = Some(NOW + 10);
    assert!(!tokens.is_stale(NOW) && tokens.is_stale(NOW + 5));
    assert!(!tokens.is_expired(NOW + 9) && tokens.is_expired(NOW + 10));
}

#[test]
fn nothing_renews_tokens_without_a_refresh_token() {
    let mut tokens = tokens();
    tokens.refresh = None;
    assert!(TokenRefresh::begin(&tokens, None, &mut Seed::new(&[9; 32]), NOW).unwrap().is_none());
}
