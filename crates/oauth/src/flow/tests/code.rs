//! The question to the person, and what becomes of the answer.

use hospes_auth::Scopes;
use secrecy::ExposeSecret as _;

use super::*;

const RESOURCE: &str = "https://m/.well-known/oauth-protected-resource/mcp";

/// covers: AUTC-17 AUTC-28
#[test]
fn a_code_is_asked_for_and_redeemed_with_its_verifier_and_resource() {
    let mut world = World::new().with(RESOURCE, json!({ "resource": "HTTPS://M:443/mcp" }));
    let tokens = world.play().unwrap();
    let question = world.question();
    assert_eq!(question["response_type"], "code");
    assert_eq!(question["client_id"], "https://hospes.example/client.json");
    assert_eq!(question["redirect_uri"], CALLBACK);
    assert_eq!(question["resource"], "HTTPS://M:443/mcp", "byte for byte");
    assert_eq!(question["code_challenge_method"], "S256");
    assert!(question["state"].len() >= 43);
    let form = world.form();
    assert_eq!(form["grant_type"], "authorization_code");
    assert_eq!(form["code"], "c0de");
    assert_eq!(form["redirect_uri"], CALLBACK);
    assert_eq!(form["resource"], "HTTPS://M:443/mcp");
    assert_eq!(form["client_id"], "https://hospes.example/client.json");
    assert!(hospes_auth::pkce::verify_challenge(&form["code_verifier"], &question["code_challenge"]));
    assert_eq!(tokens.access.expose_secret(), "acc3ss");
    assert_eq!(tokens.refresh.unwrap().expose_secret(), "refr3sh");
    assert_eq!(tokens.expires_at, Some(NOW + 600));
}

#[test]
fn the_query_of_the_endpoint_stays() {
    let mut world =
        World::new().server(json!({ "authorization_endpoint": "https://as/authorize?tenant=t1" }));
    world.play().unwrap();
    assert!(world.visited[0].as_str().starts_with("https://as/authorize?tenant=t1&response_type=code"));
}

/// covers: AUTC-40 AUTC-41
#[test]
fn scopes_are_those_of_the_challenge_else_those_listed_else_none() {
    let listed = json!({ "scopes_supported": ["a", "b"] });
    let mut challenged = World::new().with(RESOURCE, listed.clone()).challenge("Bearer scope=\"x y\"");
    challenged.play().unwrap();
    assert_eq!(challenged.question()["scope"], "x y");
    let mut all = World::new().with(RESOURCE, listed);
    all.play().unwrap();
    assert_eq!(all.question()["scope"], "a b");
    let mut none = World::new();
    none.play().unwrap();
    assert!(!none.question().contains_key("scope"));
}

#[test]
fn offline_access_is_asked_for_only_where_the_server_lists_it() {
    let world = || World::new().challenge("Bearer scope=x");
    let mut lists = world().server(json!({ "scopes_supported": ["x", "offline_access"] }));
    lists.play().unwrap();
    assert_eq!(lists.question()["scope"], "x offline_access");
    let mut not = world().with(RESOURCE, json!({ "scopes_supported": ["offline_access"] }));
    not.play().unwrap();
    assert_eq!(not.question()["scope"], "x");
    let mut unwanted = world()
        .server(json!({ "scopes_supported": ["offline_access"] }))
        .settings(|settings| settings.offline_access = false);
    unwanted.play().unwrap();
    assert_eq!(unwanted.question()["scope"], "x");
}

/// covers: AUTC-45
#[test]
fn more_is_asked_for_together_with_what_was_asked_for_before() {
    let mut world = World::new().challenge("Bearer error=insufficient_scope, scope=\"write read\"");
    world.cause.requested_before = Scopes::parse("read list");
    let tokens = world.play().unwrap();
    assert_eq!(world.question()["scope"], "read list write");
    assert_eq!(tokens.requested, Scopes::parse("read list write"));
    assert_eq!(tokens.granted, tokens.requested, "what is not said is as it was asked for");
}

#[test]
fn what_was_granted_is_what_is_held() {
    let mut world =
        World::new().challenge("Bearer scope=\"a b\"").with("https://as/token", json!({ "scope": "a" }));
    let tokens = world.play().unwrap();
    assert_eq!((tokens.granted, tokens.requested), (Scopes::parse("a"), Scopes::parse("a b")));
}

/// covers: AUTC-55
#[test]
fn nothing_is_assumed_of_an_answer() {
    let mut bare =
        World::new().page("https://as/token", 200, json!({ "access_token": "x", "token_type": "bearer" }));
    let tokens = bare.play().unwrap();
    assert!(tokens.refresh.is_none() && tokens.expires_at.is_none());
    assert!(!tokens.is_stale(u64::MAX) && !tokens.is_expired(u64::MAX));
    for answer in [
        json!({ "access_token": "x", "token_type": "mac" }),
        json!({ "access_token": "x", "token_type": "DPoP" }),
        json!({ "access_token": "x" }),
        json!({ "token_type": "Bearer" }),
        json!([]),
    ] {
        let mut world = World::new().page("https://as/token", 200, answer.clone());
        assert!(world.play().is_err(), "{answer}");
    }
}

#[test]
fn a_refusal_is_told_in_the_servers_words() {
    let body = json!({ "error": "invalid_grant", "error_description": "no such code" });
    let mut world = World::new().page("https://as/token", 400, body);
    assert_eq!(
        world.play().unwrap_err().to_string(),
        "the authorization server rejected the request: invalid_grant (no such code)"
    );
    let tried = world.urls().iter().filter(|url| **url == "https://as/token").count();
    assert_eq!(tried, 1, "a code is shown once");
}

#[test]
fn no_secret_is_shown() {
    let mut world = World::new().settings(|settings| {
        settings.given = Some(PreregisteredOAuthClient::new(ClientId::new("us").unwrap()).secret("s3cret"));
    });
    let flow = AuthorizationFlow::new(
        Arc::new(world.settings.clone()),
        world.cause.clone(),
        Seed::new(&[7; 32]),
        NOW,
    );
    let tokens = world.play().unwrap();
    let shown = format!("{tokens:?} {:?} {:?} {flow:?} {:?}", world.settings, world.asked, world.kept);
    for secret in ["acc3ss", "refr3sh", "s3cret", "c0de", &world.form()["code_verifier"]] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

#[test]
fn an_answer_that_was_not_asked_for_ends_the_flow() {
    let world = World::new();
    let start = || {
        AuthorizationFlow::new(
            Arc::new(world.settings.clone()),
            world.cause.clone(),
            Seed::new(&[7; 32]),
            NOW,
        )
    };
    for input in [FlowInput::Kept, FlowInput::Redirected(CALLBACK.into()), FlowInput::Registration(None)] {
        let mut flow = start();
        flow.handle(input, NOW);
        assert!(matches!(flow.poll_effect(), FlowEffect::Failed(FlowError::OutOfOrder)));
        flow.handle(FlowInput::Kept, NOW);
        assert!(
            matches!(flow.poll_effect(), FlowEffect::Failed(FlowError::OutOfOrder)),
            "and it stays ended"
        );
    }
}
