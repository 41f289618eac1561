//! Tokens that are bound to a key of our client's, with and without nonces, at both servers.

use hospes_auth_testkit::send;
use hospes_oauth::AccessTokenType;
use http::StatusCode;
use secrecy::ExposeSecret as _;

use super::*;

#[tokio::test]
async fn a_bound_token_is_got_shown_and_renewed_whoever_wants_nonces() {
    for (there, here) in [(false, false), (true, false), (false, true), (true, true)] {
        let site = AuthTestSite::open(
            clock(),
            |settings| settings.proof_nonces = there,
            |server| server,
            |guard, server| match here {
                true => guard.require_proofs().proof_nonces(server.proof_nonces()),
                false => guard.require_proofs(),
            },
        )
        .await;
        let given = PreregisteredOAuthClient::new(id("app"));
        let oauth = site.builder().client(given).sign_in(AnnSignIn(site.address)).build();
        let client = site.connect(&oauth).await.unwrap_or_else(|error| panic!("{there} {here}: {error}"));
        call(&client).await.unwrap();
        let first = oauth.tokens().await.unwrap().unwrap();
        assert_eq!(first.kind, AccessTokenType::Dpop, "{there} {here}");
        // The nonces are old by then, and the token has to be renewed.
        site.pass(590);
        call(&client).await.unwrap_or_else(|error| panic!("{there} {here}: {error}"));
        let second = oauth.tokens().await.unwrap().unwrap();
        assert_ne!(first.access.expose_secret(), second.access.expose_secret(), "it was renewed");
        // For itself too.
        let robot = site.robot(GrantType::ClientCredentials);
        let client = site.connect(&robot).await.unwrap_or_else(|error| panic!("{there} {here}: {error}"));
        call(&client).await.unwrap();
        assert_eq!(robot.tokens().await.unwrap().unwrap().kind, AccessTokenType::Dpop);
    }
}

/// An attacker with only the token lacks the key.
#[tokio::test]
async fn a_bound_token_is_of_no_use_without_its_key() {
    let site = AuthTestSite::open(clock(), |_| {}, |server| server, |guard, _| guard.offer_proofs()).await;
    let bound = AuthTestSite::open(clock(), |_| {}, |server| server, |guard, _| guard.require_proofs()).await;
    let oauth = bound.robot(GrantType::ClientCredentials);
    call(&bound.connect(&oauth).await.unwrap()).await.unwrap();
    let token = oauth.tokens().await.unwrap().unwrap().access.expose_secret().to_owned();
    for scheme in ["Bearer", "DPoP"] {
        let request = http::Request::post("/mcp")
            .header("authorization", format!("{scheme} {token}"))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(http_body_util::Full::new(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.into()));
        let answer = send(bound.address, request.unwrap()).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{scheme}: {}", answer.body);
    }
    // Where keys are only offered, plain tokens go on being good.
    let plain = site.robot(GrantType::ClientCredentials);
    call(&site.connect(&plain).await.unwrap()).await.unwrap();
}
