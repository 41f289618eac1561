//! Two hosts on one store, and a provider that is not ours: what our tokens rest on.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hospes::Server;
use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes_auth::egress::{EgressPolicy, GuardedClient};
use hospes_auth::{ClientId, Issuer, RedirectUri, Resource, Scopes, UnixClock};
use hospes_browser_tests::{OpenIdProvider, RecordingSite, TestBrowser, fetch};
use hospes_oauth_resource::BearerAuth;
use hospes_oauth_server::{
    AuthServer, AuthServerSettings, AuthStore, LocalSignIn, MemoryAuthStore, RegisteredClient,
    SignInProvider, SqlAuthStore,
};
use http::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::Url;

const VERIFIER: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const CHALLENGE: &str = "ZtNPunH49FD35FWYhT5Tv8I7vRKQJ8uxMaL0_9eHjNA";

/// Hosts that are one to their users: one issuer, one store, one clock.
struct Hosts {
    /// The address of each; the first is the public one.
    origins: Vec<String>,
    time: Arc<AtomicU64>,
}

impl Hosts {
    async fn start(provider: &OpenIdProvider, store: Arc<dyn AuthStore>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let time = Arc::new(AtomicU64::new(now));
        let mut origins: Vec<String> = Vec::new();
        for _ in 0..2 {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            origins.push(format!("http://{}", listener.local_addr().unwrap()));
            let (public, clock) = (origins[0].clone(), Arc::clone(&time));
            let clock = UnixClock::new(move || clock.load(Ordering::Relaxed));
            let resource = Resource::new(format!("{public}/mcp")).unwrap();
            let issuer = Issuer::new(public).unwrap();
            let mut settings =
                AuthServerSettings::new(issuer.clone(), resource.clone()).scope("mcp", "Use it all");
            let back = RedirectUri::new("http://127.0.0.1/callback").unwrap();
            settings.clients = vec![RegisteredClient::public(ClientId::new("app").unwrap(), vec![back])];
            let there = Issuer::new(provider.issuer.as_str()).unwrap();
            let fetch = GuardedClient::new(EgressPolicy::public().allow_host("127.0.0.1").allow_loopback());
            let client = ClientId::new(OpenIdProvider::CLIENT).unwrap();
            let provider = SignInProvider::new(there, client, &[7; 32], fetch).unwrap();
            let provider =
                provider.secret(OpenIdProvider::SECRET).scopes(Scopes::parse("openid offline_access"));
            let server = AuthServer::new(settings, Arc::clone(&store), LocalSignIn::default()).unwrap();
            let server = server.delegating(provider).clock(clock.clone());
            let guard = BearerAuth::builder(resource.clone(), vec![issuer], server.tokens_for([resource]));
            let guard = guard.clock(clock).build();
            let endpoint =
                Endpoint::builder(Server::new("node", "1").tool("greet", || async { "let in" })).build();
            let http =
                HttpServer::from_listener(listener, endpoint).unwrap().middleware(server.in_front_of(guard));
            tokio::spawn(http.serve());
        }
        Self { origins, time }
    }

    fn pass(&self, seconds: u64) {
        self.time.fetch_add(seconds, Ordering::Relaxed);
    }

    /// Starts a flow at an application, consents here, and signs in at the provider, up to the provider's last
    /// question.
    async fn begin(&self, browser: &TestBrowser, provider: &OpenIdProvider) -> (RecordingSite, String) {
        let back = RecordingSite::serve("<p>the application</p>").await;
        let callback = format!("{}/callback", back.origin);
        let mut url = Url::parse(&format!("{}/authorize", self.origins[0])).unwrap();
        url.query_pairs_mut().extend_pairs([
            ("response_type", "code"),
            ("client_id", "app"),
            ("redirect_uri", &callback),
            ("state", "s-1"),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
        ]);
        browser.open(url.as_str()).await;
        browser.press("button[value=allow]").await;
        browser.wait_for_url(&provider.issuer).await;
        browser.fill("input[name=login]", "ann").await;
        browser.fill("input[name=password]", "any").await;
        browser.press("button[type=submit]").await;
        browser.wait_for_text("Authorize").await;
        (back, callback)
    }

    /// Signs a user in and redeems the answer. Returns the issued tokens, and everything that was sent on the way.
    async fn sign_in(&self, browser: &TestBrowser, provider: &OpenIdProvider) -> (Value, String) {
        let (back, callback) = self.begin(browser, provider).await;
        browser.press("button[type=submit]").await;
        browser.wait_for_text("the application").await;
        let answer = Url::parse(&format!("http://x{}", back.asked().remove(0))).unwrap();
        let code = answer.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("code_verifier", VERIFIER),
            ("redirect_uri", &callback),
            ("client_id", "app"),
        ];
        let (status, token) = self.token(&fields).await;
        assert_eq!(status, StatusCode::OK, "{token}");
        let said = format!("{answer} {token}");
        (token, said)
    }

    async fn token(&self, fields: &[(&str, &str)]) -> (StatusCode, Value) {
        let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = Request::post(format!("{}/token", self.origins[0]))
            .header("content-type", "application/x-www-form-urlencoded");
        let answer = fetch(request.body(Bytes::from(form)).unwrap()).await.unwrap();
        (answer.status(), serde_json::from_slice(answer.body()).unwrap())
    }

    async fn call(&self, node: usize, token: &Value) -> Response<Bytes> {
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {} });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "greet", "arguments": {}, "_meta": meta } });
        let request = Request::post(format!("{}/mcp", self.origins[node]))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "greet")
            .header("authorization", format!("Bearer {}", token["access_token"].as_str().unwrap()));
        fetch(request.body(Bytes::from(message.to_string())).unwrap()).await.unwrap()
    }
}

/// Theirs runs out in the middle of many calls at both hosts: it is renewed once, with a provider that takes a second use
/// of a refresh token for theft. Taken back there, ours dies everywhere.
///
/// covers: AUT3-04 AUT3-05 AUT3-06 AUT3-07 AUT3-09
#[tokio::test(flavor = "multi_thread")]
async fn ours_is_good_as_long_as_theirs() {
    let folder = tempfile::tempdir().unwrap();
    for store in [None, Some(folder.path().join("auth.db"))] {
        let (Some(provider), Some(browser)) = (OpenIdProvider::start(), TestBrowser::start().await) else {
            return;
        };
        let store: Arc<dyn AuthStore> = match store {
            None => Arc::new(MemoryAuthStore::new()),
            Some(file) => Arc::new(SqlAuthStore::open(&file).unwrap()),
        };
        let hosts = Arc::new(Hosts::start(&provider, store).await);
        let (token, mut said) = hosts.sign_in(&browser, &provider).await;
        assert_eq!(provider.times("authorization_code 200").await, 1);
        for round in 1..=3 {
            hosts.pass(301);
            let calls = (0..16).map(|at| {
                let (hosts, token) = (Arc::clone(&hosts), token.clone());
                tokio::spawn(async move { hosts.call(at % 2, &token).await })
            });
            for call in calls.collect::<Vec<_>>() {
                let answer = call.await.unwrap();
                let text = String::from_utf8_lossy(answer.body()).into_owned();
                // Ours ends after ten minutes; what it rests on goes on.
                let wanted = if round < 2 { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
                assert_eq!(answer.status(), wanted, "{round}: {text}");
                said += &format!("{:?}{text}", answer.headers());
            }
        }
        assert_eq!(provider.times("refresh_token 200").await, 1, "once for all calls at both");
        assert_eq!(provider.times("refresh_token 400").await, 0);

        // A new token of ours, and theirs is renewed again for it.
        let refresh = token["refresh_token"].as_str().unwrap();
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh), ("client_id", "app")];
        let (status, token) = hosts.token(&fields).await;
        assert_eq!(status, StatusCode::OK, "{token}");
        assert_eq!(hosts.call(1, &token).await.status(), StatusCode::OK);
        assert_eq!(provider.times("refresh_token 200").await, 2);

        provider.revoke().await;
        hosts.pass(61);
        let refused = hosts.call(0, &token).await;
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
        assert!(refused.headers()["www-authenticate"].to_str().unwrap().contains("invalid_token"));
        assert_eq!(hosts.call(1, &token).await.status(), StatusCode::UNAUTHORIZED);
        let refresh = token["refresh_token"].as_str().unwrap();
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh), ("client_id", "app")];
        let (status, dead) = hosts.token(&fields).await;
        assert_eq!((status, &dead["error"]), (StatusCode::BAD_REQUEST, &json!("invalid_grant")));

        // Nothing of theirs was in anything that a client has heard.
        said += &format!("{token}{dead}{refused:?}");
        let tokens = provider.tokens().await;
        assert!(tokens.len() >= 9, "{}", tokens.len());
        assert!(tokens.iter().all(|token| !said.contains(token.as_str())), "{said}");
    }
}

/// Somebody leaves the provider's last question open for longer than we wait for the answer.
///
/// covers: AUT3-17
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_too_late_is_nobodys() {
    let (Some(provider), Some(browser)) = (OpenIdProvider::start(), TestBrowser::start().await) else {
        return;
    };
    let hosts = Hosts::start(&provider, Arc::new(MemoryAuthStore::new())).await;
    let (back, _) = hosts.begin(&browser, &provider).await;
    hosts.pass(600);
    browser.press("button[type=submit]").await;
    browser.wait_for_url(&hosts.origins[0]).await;
    browser.wait_for_text("no longer valid").await;
    for status in [200, 400] {
        assert_eq!(provider.times(&format!("authorization_code {status}")).await, 0, "it was not redeemed");
    }
    assert!(!back.asked().iter().any(|path| path.starts_with("/callback")), "{:?}", back.asked());
    // Whoever begins again is let in.
    let Some(again) = TestBrowser::start().await else { return };
    hosts.sign_in(&again, &provider).await;
}
