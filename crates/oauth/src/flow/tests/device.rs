//! Codes that are entered on another machine.

use hospes_auth::metadata::ServerMetadataError;

use super::*;
use crate::GrantType;

const AT: &str = "https://as/device";
const TOKEN: &str = "https://as/token";

fn world() -> World {
    let codes = json!({
        "device_code": "s3cret-code", "user_code": "WDJB-MJHT", "verification_uri": "https://as/enter",
        "verification_uri_complete": "https://as/enter?code=WDJB-MJHT", "expires_in": 600, "interval": 7,
    });
    World::new()
        .server(json!({ "device_authorization_endpoint": AT }))
        .settings(|settings| settings.grant = GrantType::Device)
        .page(AT, 200, codes)
        .page(TOKEN, 400, pending())
}

fn pending() -> Value {
    json!({ "error": "authorization_pending" })
}

fn then(mut world: World, pages: &[(u16, Value)]) -> World {
    world.later.extend(pages.iter().map(|(status, body)| (TOKEN.to_owned(), *status, body.clone())));
    world
}

/// covers: AUTC-28
#[test]
fn a_code_is_shown_and_asked_about_until_it_was_entered() {
    let slow = json!({ "error": "slow_down" });
    let busy = json!({});
    let mut world =
        then(world(), &[(400, pending()), (400, slow), (503, busy), (400, pending()), (200, token())]);
    let tokens = world.play().unwrap();
    assert_eq!(tokens.issuer.as_str(), "https://as");
    assert_eq!(world.waited, [7, 7, 12, 24, 24], "longer when told, and twice as long when it is overloaded");
    assert!(world.visited.is_empty());
    let [shown] = &world.shown[..] else { panic!("{:?}", world.shown) };
    assert_eq!(
        (shown.user_code.as_str(), shown.verification_uri.as_str()),
        ("WDJB-MJHT", "https://as/enter")
    );
    assert!(shown.verification_uri_complete.is_some());
    assert_eq!(shown.ends_at, NOW + 600);
    let asked = world.asked.iter().find(|request| request.url.as_str() == AT).unwrap();
    let asked = fields(&asked.body);
    assert_eq!(
        (asked["client_id"].as_str(), asked["resource"].as_str()),
        ("https://hospes.example/client.json", "https://m/mcp")
    );
    assert!(!asked.contains_key("grant_type"));
    let form = world.form();
    assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:device_code");
    assert_eq!((form["device_code"].as_str(), form["resource"].as_str()), ("s3cret-code", "https://m/mcp"));
    assert!(!format!("{:?} {shown:?}", world.asked).contains("s3cret"));
}

#[test]
fn who_says_no_or_nothing_is_not_asked_for_ever() {
    let mut denied = then(world(), &[(400, pending()), (400, json!({ "error": "access_denied" }))]);
    assert!(matches!(denied.play(), Err(FlowError::Refused(_))));
    let mut over = then(world(), &[(400, json!({ "error": "expired_token" }))]);
    assert_eq!(over.play().unwrap_err(), FlowError::CodeExpired);
    let mut silent = world();
    assert_eq!(silent.play().unwrap_err(), FlowError::CodeExpired);
    assert!(silent.waited.iter().sum::<u64>() <= 607, "{:?}", silent.waited);
    let mut endless = world().with(AT, json!({ "expires_in": 1_000_000, "interval": 60 }));
    assert_eq!(endless.play().unwrap_err(), FlowError::CodeExpired);
    assert!(endless.waited.iter().sum::<u64>() <= 1860, "half an hour, whatever the server says");
}

#[test]
fn a_page_that_nobody_should_visit_is_not_shown() {
    for bad in ["http://as/enter", "javascript:alert(1)", "http://127.0.0.1:1/enter", "https://localhost/"] {
        let mut world = world().with(AT, json!({ "verification_uri": bad }));
        assert!(matches!(world.play(), Err(FlowError::Malformed { .. })), "{bad}");
        assert!(world.shown.is_empty());
    }
    let complete =
        json!({ "verification_uri_complete": "javascript:alert(1)", "user_code": "A\u{1b}[31mB\u{202e}" });
    let mut odd = then(world().with(AT, complete), &[(200, token())]);
    odd.play().unwrap();
    assert_eq!(odd.shown[0].verification_uri_complete, None);
    assert_eq!(odd.shown[0].user_code, "A[31mB");
}

#[test]
fn a_client_is_registered_for_codes_where_it_has_to_be() {
    let register = "https://as/register";
    let mut world = then(world(), &[(200, token())])
        .settings(|settings| settings.metadata_url = None)
        .server(json!({ "registration_endpoint": register }))
        .page(register, 201, json!({ "client_id": "new" }));
    let tokens = world.play().unwrap();
    assert_eq!(tokens.client.id.as_str(), "new");
    let asked = world.asked.iter().find(|request| request.url.as_str() == register).unwrap();
    let asked: Value = serde_json::from_slice(&asked.body).unwrap();
    assert_eq!(
        asked["grant_types"],
        json!(["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"])
    );
    // The same client again; but one that was registered for browsers cannot do it.
    let mut again = then(self::world(), &[(200, token())]).settings(|settings| settings.metadata_url = None);
    again.known = world.kept.pop();
    assert_eq!(again.play().unwrap().client.id.as_str(), "new");
    let mut other = self::world().settings(|settings| settings.metadata_url = None);
    other.known = again.known.clone().map(|mut known| {
        known.redirect_uri = Some(RedirectUri::new(CALLBACK).unwrap());
        known
    });
    assert!(matches!(other.play(), Err(FlowError::NeedsClientId(_))));
}

/// Errors of the device authorization endpoint name that endpoint.
#[test]
fn what_the_endpoint_of_codes_gets_wrong_is_said_of_it() {
    for (status, page) in [(404, json!({})), (200, json!({ "device_code": 1 })), (200, json!("x"))] {
        let error = world().page("https://as/device", status, page).play().unwrap_err();
        let words = error.to_string();
        assert!(words.starts_with("the device authorization endpoint at https://as/device"), "{words}");
    }
}

#[test]
fn a_server_without_codes_is_said_to_have_none() {
    let mut world = world().server(json!({ "device_authorization_endpoint": null }));
    let error = world.play().unwrap_err();
    assert!(matches!(error, FlowError::Server(ServerMetadataError::Endpoint { .. })));
    assert!(error.to_string().contains("device_authorization_endpoint"), "{error}");
}
