//! Tokens that are shown, renewed, and found wanting.

use hospes::client::{Authorizer as _, CallError, OutboundRequest};

use super::*;
use crate::{
    ClientAuth, CredentialStore, FileCredentialStore, GrantType, MemoryCredentialStore,
    PreregisteredOAuthClient, StoreKey,
};

/// covers: AUTG-11 AUTC-01 AUTC-13 AUTC-14 AUTC-15 AUTC-22
#[tokio::test]
async fn a_refusal_leads_to_a_token_that_every_request_shows() {
    let site = Site::open().await;
    let client = site.connect(&site.oauth()).await;
    call(&client, "x").await.unwrap();
    call(&client, "y").await.unwrap();
    let shown = site.shown();
    assert_eq!(shown[0], None);
    assert!(shown.len() >= 4);
    assert!(shown[1..].iter().all(|shown| shown.as_deref() == Some("Bearer token1")), "{shown:?}");
    let script = site.script();
    assert_eq!((script.authorizations, script.registrations), (1, 1));
    for (path, query, shown) in &script.seen {
        assert!(!query.contains("token1"), "{path}?{query}");
        assert!(path == "/mcp" || shown.is_none(), "{path}");
    }
}

/// covers: AUTC-31
#[tokio::test]
async fn a_token_is_shown_to_nobody_else() {
    let site = Site::open().await;
    let oauth = site.oauth();
    oauth.sign_in(None).await.unwrap();
    let post = http::Method::POST;
    let to = async |url: &str| {
        let url = Url::parse(url).unwrap();
        oauth.headers(OutboundRequest::new(&post, &url)).await.unwrap()
    };
    let here = |path: &str| format!("{}{path}", site.url);
    for its in ["/mcp", "/mcp/", "/mcp?x=1", "/mcp/deeper"] {
        assert!(to(&here(its)).await.contains_key("authorization"), "{its}");
    }
    let secure = here("/mcp").replace("http:", "https:");
    for other in ["https://evil.example/mcp", "http://127.0.0.1:1/mcp", &secure] {
        assert!(to(other).await.is_empty(), "{other}");
    }
    for neighbour in ["/", "/mcpx", "/mc", "/other", "/mcp/../other", "/mcp/%2e%2e/other", "/MCP"] {
        assert!(to(&here(neighbour)).await.is_empty(), "{neighbour}");
    }
    // A server of 2024-11-05 has a stream, and another URL for messages that the stream announces.
    let announced = async |url: &str| {
        let url = Url::parse(url).unwrap();
        oauth.headers(OutboundRequest::new(&post, &url).announced()).await.unwrap()
    };
    assert!(announced(&here("/messages?session=1")).await.contains_key("authorization"));
    assert!(announced("https://evil.example/messages").await.is_empty());
    assert!(announced(&secure).await.is_empty());
}

/// A redirect may lead to a foreign path at the same origin.
#[tokio::test]
async fn a_server_that_has_moved_is_to_be_named_anew() {
    let site = Site::open().await;
    let oauth = site.oauth();
    oauth.sign_in(None).await.unwrap();
    let client = site.connect(&oauth).await;
    site.script().moved_to = Some("/elsewhere".to_owned());
    let Err(CallError::NotAuthorized(why)) = call(&client, "x").await else { panic!("it was let in") };
    assert!(why.to_string().contains("/elsewhere") && why.to_string().contains("moved"), "{why}");
    assert_eq!(why.status.map(|status| status.as_u16()), Some(401));
    let script = site.script();
    assert!(script.seen.iter().all(|(path, _, shown)| path != "/elsewhere" || shown.is_none()));
    assert_eq!(script.authorizations, 1);
}

/// A redirect to another origin is not followed, so that no token is sent there.
#[tokio::test]
async fn a_token_goes_with_no_redirect_to_another_origin() {
    let (site, other) = (Site::open().await, Site::open().await);
    other.script().is_open = true;
    let client = site.connect(&site.oauth()).await;
    site.script().moved_to = Some(other.mcp());
    call(&client, "x").await.unwrap_err();
    assert_eq!(other.script().seen, [], "whatever it would have been shown");
    // It would have heard whoever came.
    call(&other.connect(&other.oauth()).await, "x").await.unwrap();
    assert!(!other.script().seen.is_empty());
}

#[tokio::test]
async fn a_stale_token_is_renewed_once_for_all() {
    let site = Site::open().await;
    let oauth = site.oauth();
    let client = site.connect(&oauth).await;
    call(&client, "x").await.unwrap();
    site.pass(545);
    let calls = (0..50).map(|_| call(&client, "x"));
    for called in futures_of(calls).await {
        called.unwrap();
    }
    {
        let script = site.script();
        assert_eq!((script.refreshes, script.authorizations), (1, 1));
    }
    let shown = site.shown();
    assert!(shown[shown.len() - 50..].iter().all(|shown| shown.as_deref() == Some("Bearer token2")));
}

/// All of them, at once.
async fn futures_of<F: Future>(calls: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut calls: Vec<_> = calls.map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = calls.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (call, done) in calls.iter_mut().zip(&mut done) {
            if done.is_none()
                && let std::task::Poll::Ready(value) = call.as_mut().poll(cx)
            {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[tokio::test]
async fn a_token_that_was_revoked_is_renewed_and_the_request_repeated_once() {
    let site = Site::open().await;
    let client = site.connect(&site.oauth()).await;
    site.script().good.clear();
    for called in futures_of((0..10).map(|_| call(&client, "x"))).await {
        called.unwrap();
    }
    let script = site.script();
    assert_eq!((script.refreshes, script.authorizations), (1, 1));
}

#[tokio::test]
async fn a_dead_refresh_token_is_forgotten_and_another_failure_is_not() {
    let site = Site::open().await;
    let store: Arc<dyn CredentialStore> = Arc::new(MemoryCredentialStore::new());
    let oauth = site.builder().store(Arc::clone(&store)).build();
    let signed = site.builder().sign_in(site.person()).store(Arc::clone(&store)).build();
    signed.sign_in(None).await.unwrap();
    let client = site.connect(&oauth).await;
    site.script().good.clear();
    site.script().refresh_fails = Some(503);
    assert!(matches!(call(&client, "x").await, Err(CallError::NotAuthorized(_))));
    assert!(oauth.tokens().await.unwrap().unwrap().refresh.is_some(), "that may pass");
    assert_eq!(store.names("tokens ").unwrap().len(), 1);
    site.script().refresh_fails = Some(400);
    assert!(matches!(call(&client, "x").await, Err(CallError::NotAuthorized(_))));
    assert!(oauth.tokens().await.unwrap().is_none());
    assert!(store.names("tokens ").unwrap().is_empty());
}

#[tokio::test]
async fn a_server_that_refuses_what_it_asked_for_is_given_up() {
    let site = Site::open().await;
    let client = site.connect(&site.oauth()).await;
    site.script().is_blind = true;
    let error = call(&client, "x").await.unwrap_err();
    assert!(matches!(&error, CallError::NotAuthorized(_)), "{error}");
    assert_eq!(site.script().authorizations, 2, "one for the request, and no more");
}

/// covers: AUTC-42
#[tokio::test]
async fn more_is_asked_for_when_an_operation_wants_more() {
    let site = Site::open().await;
    let client = site.connect(&site.oauth()).await;
    site.script().wants = Some("write");
    for called in futures_of((0..5).map(|_| call(&client, "x"))).await {
        called.unwrap();
    }
    let script = site.script();
    assert_eq!(script.authorizations, 2, "those that wanted the same share it");
    let asked = script.seen.iter().rfind(|(path, ..)| path == "/authorize").unwrap().1.clone();
    assert!(asked.contains("scope=read+write"), "{asked}");
    assert_eq!(script.registrations, 1);
}

/// covers: AUTC-44
#[tokio::test]
async fn it_is_not_asked_for_more_for_ever() {
    let site = Site::open().await;
    let client = site.connect(&site.oauth()).await;
    site.script().wants = Some("write");
    site.script().is_insatiable = true;
    for _ in 0..4 {
        let error = call(&client, "x").await.unwrap_err();
        assert!(matches!(&error, CallError::Http(http) if http.status == Some(403)), "{error}");
    }
    assert_eq!(site.script().authorizations, 3);
    // What one operation was refused says nothing of another.
    call(&client, "y").await.unwrap_err();
    assert!(site.script().authorizations > 3);
}

/// covers: AUTC-44
#[tokio::test]
async fn what_was_asked_for_in_vain_is_forgotten_after_a_success_and_after_an_hour() {
    let site = Site::open().await;
    let client = site.connect(&site.oauth()).await;
    for wants in ["a", "b", "c", "d"] {
        site.script().wants = Some(wants);
        call(&client, "x").await.unwrap();
    }
    assert_eq!(site.script().authorizations, 5, "each was granted, so none counts");
    site.script().is_insatiable = true;
    for _ in 0..3 {
        call(&client, "x").await.unwrap_err();
    }
    assert_eq!(site.script().authorizations, 7);
    // Long-lived tokens, so that nothing is renewed meanwhile.
    site.pass(3599);
    call(&client, "x").await.unwrap_err();
    assert_eq!(site.script().authorizations, 7);
    site.pass(1);
    for _ in 0..3 {
        call(&client, "x").await.unwrap_err();
    }
    assert_eq!(site.script().authorizations, 9);
}

/// covers: AUTC-43
#[tokio::test]
async fn a_client_that_asks_for_itself_stops_where_more_is_wanted() {
    let site = Site::open().await;
    site.script().registrations = 1;
    let given = PreregisteredOAuthClient::new(hospes_auth::ClientId::new("new1").unwrap())
        .auth(ClientAuth::Post("secret".into()));
    let oauth = site.builder().grant(GrantType::ClientCredentials).client(given).build();
    let client = site.connect(&oauth).await;
    call(&client, "x").await.unwrap();
    site.script().wants = Some("write");
    for _ in 0..3 {
        let error = call(&client, "x").await.unwrap_err();
        assert!(matches!(&error, CallError::Http(http) if http.status == Some(403)), "{error}");
    }
    assert_eq!(site.script().issued, 1, "what it may ask for was settled when it was registered");
}

/// The platform replaces its token; each request to the token endpoint shows the one of that moment.
#[tokio::test]
async fn a_platforms_token_is_read_anew_for_each_request() {
    let site = Site::open().await;
    site.script().registrations = 1;
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("token");
    let given = PreregisteredOAuthClient::new(hospes_auth::ClientId::new("new1").unwrap());
    let grant = GrantType::Workload(crate::WorkloadToken::file(&file));
    let oauth = site.builder().grant(grant).client(given).build();
    assert!(matches!(oauth.sign_in(None).await, Err(crate::FlowError::Workload(_))));
    assert_eq!(site.script().issued, 0);
    for (number, token) in ["read", "write"].into_iter().enumerate() {
        std::fs::write(&file, token).unwrap();
        oauth.sign_in(None).await.unwrap();
        assert_eq!(site.script().good[&format!("token{}", number + 1)], token);
    }
}

/// covers: AUTG-01
#[tokio::test]
async fn nobody_signs_in_where_everybody_is_let_in() {
    let site = Site::open().await;
    site.script().is_open = true;
    call(&site.connect(&site.oauth()).await, "x").await.unwrap();
    let script = site.script();
    assert_eq!((script.authorizations, script.registrations), (0, 0));
    assert!(script.seen.iter().all(|(path, ..)| path == "/mcp"));
}

#[tokio::test]
async fn another_refusal_is_only_that() {
    let site = Site::open().await;
    let client = site.connect(&site.oauth()).await;
    for challenge in [
        "Bearer error=\"invalid_token\"",
        "Bearer scope=\"write\"",
        "Basic error=\"insufficient_scope\"",
        "Bearer error=\"insufficient_scope",
        "",
    ] {
        site.script().is_closed = Some(challenge);
        let error = call(&client, "x").await.unwrap_err();
        assert!(matches!(&error, CallError::Http(http) if http.status == Some(403)), "{challenge}: {error}");
        let script = site.script();
        assert_eq!((script.authorizations, script.refreshes), (1, 0), "{challenge}");
    }
}

/// covers: AUTC-51
#[tokio::test]
async fn a_server_that_moves_to_another_issuer_is_signed_in_to_anew() {
    let (site, other) = (Site::open().await, Site::open().await);
    let oauth = site.oauth();
    let client = site.connect(&oauth).await;
    call(&client, "x").await.unwrap();
    other.script().registrations = 6;
    {
        let mut script = site.script();
        script.issuer = Some(other.url.clone());
        (script.refresh_fails, script.is_blind) = (Some(400), true);
    }
    // The MCP endpoint takes what the other has made out.
    other.script().mark = "of-the-other-";
    site.script().good.insert("of-the-other-token1".to_owned(), "read".to_owned());
    call(&client, "x").await.unwrap_err();
    site.script().is_blind = false;
    call(&client, "x").await.unwrap();
    let tokens = oauth.tokens().await.unwrap().unwrap();
    assert_eq!((tokens.issuer.as_str(), tokens.client.id.as_str()), (&*other.url, "new7"));
    let script = other.script();
    assert_eq!((script.authorizations, script.registrations, script.refreshes), (1, 7, 0));
    for (path, query, shown) in &script.seen {
        assert!(!query.contains("new1") && !query.contains("refresh") && shown.is_none(), "{path}?{query}");
    }
}

/// covers: AUTC-18
#[tokio::test]
async fn what_was_kept_is_used_again() {
    let site = Site::open().await;
    let folder = tempfile::tempdir().unwrap();
    let store = || {
        let key = StoreKey::Random(zeroize::Zeroizing::new([1; 32]));
        Arc::new(FileCredentialStore::new(folder.path().join("credentials"), key))
    };
    let first = site.builder().sign_in(site.person()).store(store()).build();
    call(&site.connect(&first).await, "x").await.unwrap();
    // Two processes, both with the first token, which is about to end: the second to renew finds what the first has
    // got. The site would take the old refresh token no second time.
    let (one, two) = (site.builder().store(store()).build(), site.builder().store(store()).build());
    let (first, second) = (site.connect(&one).await, site.connect(&two).await);
    assert_eq!(site.script().authorizations, 1);
    site.pass(545);
    call(&first, "x").await.unwrap();
    call(&second, "x").await.unwrap();
    assert_eq!(site.script().refreshes, 1);
    one.sign_out().await.unwrap();
    assert!(site.builder().store(store()).build().tokens().await.unwrap().is_none());
}
