//! Requests to a guarded endpoint.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes::{Context, Server};
use hospes_auth::jwt::VerifyJwtError;
use hospes_auth::{Challenge, Issuer, Resource, Scopes, UnixClock};
use hospes_auth_testkit::{AuthTestResponse, TestSigningKey, begin, get, key_set, send};
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::{
    AnyTokenVerifier, BearerAuth, BearerAuthBuilder, JwtRules, ScopeRules, StaticTokenVerifier,
    TokenPrincipal, TokenVerifier, VerifyFuture, VerifyTokenError, check_jwt,
};

const ISSUER: &str = "https://as.example";
const RESOURCE: &str = "https://m.example/mcp";
const METADATA: &str = "https://m.example/.well-known/oauth-protected-resource/mcp";

fn principal(subject: &str, scopes: &str) -> TokenPrincipal {
    let mut principal = TokenPrincipal::new(Issuer::new(ISSUER).unwrap(), subject);
    principal.scopes = Scopes::parse(scopes);
    principal
}

fn tokens() -> StaticTokenVerifier {
    StaticTokenVerifier::none()
        .with("ann-token", principal("ann", "mcp"))
        .with("bob-token", principal("bob", "mcp"))
        .with("strong-token", principal("ann", "mcp files"))
        .with("weak-token", principal("ann", "other"))
}

/// A guarded server, and how many handlers have run.
struct Site {
    address: SocketAddr,
    runs: Arc<AtomicUsize>,
}

impl Site {
    async fn new() -> Self {
        Self::with(tokens(), |guard| guard).await
    }

    async fn with(
        verify: impl TokenVerifier,
        settings: impl FnOnce(BearerAuthBuilder) -> BearerAuthBuilder,
    ) -> Self {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let server = Server::new("x", "1")
            .tool("who", move |ctx: Context| {
                counted.fetch_add(1, Ordering::Relaxed);
                async move {
                    let http = ctx.http().expect("over HTTP");
                    let principal = http.extensions.get::<TokenPrincipal>().expect("guarded");
                    let token = http.headers.contains_key("authorization");
                    format!("{} {} {token}", principal.subject, ctx.principal().unwrap_or("nobody"))
                }
            })
            .tool("delete", || async { "deleted" })
            .tool("ask", |ctx: Context| async move {
                let name: String = ctx.elicit("Your name?").key("name").await?;
                Ok::<_, hospes::Error>(name)
            });
        let endpoint = Endpoint::builder(server).sse(true).allow_host("m.example").build();
        let rules = ScopeRules::default()
            .always(Scopes::parse("mcp"))
            .tool("delete", Scopes::parse("files:read files:write"))
            .tool("ask", Scopes::parse("people"))
            .implies("files", Scopes::parse("files:all"))
            .implies("files:all", Scopes::parse("files:read files:write"));
        let guard =
            BearerAuth::builder(Resource::new(RESOURCE).unwrap(), vec![Issuer::new(ISSUER).unwrap()], verify);
        let guard = settings(guard.rules(rules).name("the example")).build();
        let server = HttpServer::bind("127.0.0.1:0", endpoint).await.unwrap().middleware(guard);
        let address = server.local_addr();
        tokio::spawn(server.serve());
        Self { address, runs }
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }

    async fn call(&self, tool: &str, headers: &[(&str, &str)]) -> AuthTestResponse {
        send(self.address, call(tool, headers)).await
    }

    async fn in_session(&self, session: &str, token: &str, message: Value) -> AuthTestResponse {
        send(self.address, post("/mcp", &message, &[("mcp-session-id", session), ("authorization", token)]))
            .await
    }

    async fn session(&self, revision: &str, token: &str) -> String {
        let open = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": revision, "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "peer", "version": "1" },
        } });
        let opened = send(self.address, post("/mcp", &open, &[("authorization", token)])).await;
        assert_eq!(opened.status, StatusCode::OK, "{}", opened.body);
        let id = opened.header("mcp-session-id").to_owned();
        let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.in_session(&id, token, done).await.status, StatusCode::ACCEPTED);
        id
    }
}

fn post(path: &str, body: &Value, headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let mut request = Request::post(path)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.to_string().into())).unwrap()
}

/// A call of the newest revision.
fn call(tool: &str, headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let own = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)];
    post("/mcp", &modern("tools/call", json!({ "name": tool, "arguments": {} })), &[&own, headers].concat())
}

fn modern(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

fn tool(name: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": name, "arguments": {} } })
}

fn challenge(answer: &AuthTestResponse) -> Challenge {
    Challenge::for_tokens(&answer.headers).unwrap_or_else(|| panic!("no challenge: {:?}", answer.headers))
}

/// Each revision sends requests in its own way, and all are rejected without a token.
///
/// covers: HTTP-07 SSE-07 AUTR-01 AUTR-08 AUTR-12 AUTR-13
#[tokio::test]
async fn without_a_token_there_is_only_a_challenge() {
    let site = Site::new().await;
    let open = |revision: &str| {
        let params = json!({ "protocolVersion": revision, "capabilities": {},
            "clientInfo": { "name": "peer", "version": "1" } });
        post("/mcp", &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }), &[])
    };
    let mut requests = vec![
        call("who", &[]),
        call("who", &[("authorization", "Basic YW5uOnRva2Vu")]),
        Request::get("/mcp").header("accept", "text/event-stream").body(Full::default()).unwrap(),
        Request::get("/sse").header("accept", "text/event-stream").body(Full::default()).unwrap(),
        post("/messages?sessionId=x", &tool("who"), &[]),
        Request::delete("/mcp").header("mcp-session-id", "x").body(Full::default()).unwrap(),
        Request::post("/mcp").body(Full::new("{".into())).unwrap(),
    ];
    requests.extend(["2025-03-26", "2025-06-18", "2025-11-25"].map(open));
    for request in requests {
        let what = format!("{} {}", request.method(), request.uri());
        let answer = send(site.address, request).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{what}");
        let challenge = challenge(&answer);
        assert_eq!(challenge.get("resource_metadata"), Some(METADATA), "{what}");
        assert_eq!(challenge.get("error"), None, "{what}");
        assert_eq!(challenge.scopes().unwrap().to_string(), "mcp", "{what}");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.json()["error"], "invalid_token");
    }
    assert_eq!(site.runs(), 0);
    let answer = site.call("who", &[("authorization", "bEARER  ann-token")]).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let text = answer.json()["result"]["content"][0]["text"].clone();
    assert_eq!(text, "ann https://as.example user ann false", "and handlers do not see the token");
}

/// The path and origin of the request change nothing.
///
/// covers: AUTR-07 AUTR-09 AUTR-18
#[tokio::test]
async fn metadata_is_at_both_places_and_from_the_configuration() {
    let site = Site::with(tokens(), |guard| guard.scopes(&Scopes::parse("mcp files offline_access"))).await;
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let request = Request::get(path)
            .header("host", "evil.example")
            .header("x-forwarded-host", "evil.example")
            .header("x-forwarded-proto", "http")
            .header("forwarded", "host=evil.example")
            .header("origin", "https://page.example");
        let answer = send(site.address, request.body(Full::default()).unwrap()).await;
        assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, "application/json"));
        assert_eq!(answer.header("access-control-allow-origin"), "*");
        assert_eq!(answer.header("cache-control"), "public, max-age=300");
        assert_eq!(
            answer.json(),
            json!({
                "resource": RESOURCE, "authorization_servers": [ISSUER], "scopes_supported": ["mcp", "files"],
                "bearer_methods_supported": ["header"], "resource_name": "the example",
            })
        );
    }
    assert_eq!(get(site.address, "/.well-known/oauth-protected-resource/other").await.status, 404);
    let answer = site.call("who", &[("host", "m.example"), ("x-forwarded-host", "evil.example")]).await;
    assert_eq!(challenge(&answer).get("resource_metadata"), Some(METADATA));
    assert_eq!(challenge(&answer).get("scope"), Some("mcp files"));
    let one = Site::with(tokens(), |guard| guard.alone(false)).await;
    assert_eq!(get(one.address, "/.well-known/oauth-protected-resource").await.status, 404);
}

/// The older transport has its own address, which clients compare with the address that they reached.
#[tokio::test]
async fn each_address_of_an_endpoint_is_a_resource() {
    let older = Resource::new("https://m.example/sse").unwrap();
    let site = Site::with(tokens(), |guard| guard.also(older)).await;
    let said = get(site.address, "/.well-known/oauth-protected-resource/sse").await.json();
    assert_eq!(said["resource"], "https://m.example/sse");
    let root = get(site.address, "/.well-known/oauth-protected-resource").await.json();
    assert_eq!(root["resource"], RESOURCE);
    let answer = get(site.address, "/sse").await;
    let there = "https://m.example/.well-known/oauth-protected-resource/sse";
    assert_eq!(challenge(&answer).get("resource_metadata"), Some(there));
}

struct Jwt(TestSigningKey, JwtRules);

impl TokenVerifier for Jwt {
    fn verify<'a>(&'a self, token: &'a str, now: u64) -> VerifyFuture<'a> {
        let checked = check_jwt(token, &key_set([&self.0]), &self.1, now).map_err(VerifyTokenError::from);
        Box::pin(std::future::ready(checked))
    }
}

/// The defect of a token is only logged, not returned.
///
/// covers: AUTR-02 AUTR-03 AUTR-04
#[tokio::test]
async fn a_token_that_is_not_good_is_refused() {
    let now = UnixClock::system().now();
    let rules = JwtRules::new(Issuer::new(ISSUER).unwrap(), vec![Resource::new(RESOURCE).unwrap()]);
    let key = TestSigningKey::new("k");
    let signed = |audience: &str, exp: u64| {
        key.sign(&json!({ "iss": ISSUER, "sub": "ann", "aud": audience, "exp": exp, "scope": "mcp" }))
    };
    let good = signed(RESOURCE, now + 600);
    let bad = [
        ("garbage".to_owned(), "the token is not valid"),
        (format!("{good}x"), "the token is not valid"),
        (signed("https://m.example/other", now + 600), "the token is not valid"),
        (signed(RESOURCE, now - 600), "the token has expired"),
    ];
    let site = Site::with(AnyTokenVerifier::none().or(tokens()).or(Jwt(key, rules)), |guard| guard).await;
    for (token, why) in bad {
        let answer = site.call("who", &[("authorization", &format!("Bearer {token}"))]).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
        let challenge = challenge(&answer);
        assert_eq!(challenge.get("error"), Some("invalid_token"));
        assert_eq!(challenge.get("error_description"), Some(why));
        assert_eq!(challenge.get("resource_metadata"), Some(METADATA));
        assert_eq!(answer.json()["error"], "invalid_token");
    }
    assert_eq!(site.runs(), 0);
    let answer = site.call("who", &[("authorization", &format!("Bearer {good}"))]).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
}

/// covers: AUTR-06
#[tokio::test]
async fn a_token_in_the_wrong_place_is_a_bad_request() {
    let site = Site::new().await;
    let mut query = call("who", &[]);
    *query.uri_mut() = "/mcp?access_token=ann-token".parse().unwrap();
    let mut both = call("who", &[("authorization", "Bearer ann-token")]);
    *both.uri_mut() = "/mcp?x=1&access%5Ftoken=ann-token".parse().unwrap();
    let requests = [
        query,
        both,
        call("who", &[("authorization", "Bearer ann-token"), ("authorization", "Bearer ann-token")]),
        call("who", &[("authorization", "Bearer ")]),
        call("who", &[("authorization", "Bearer")]),
        call("who", &[("authorization", "Bearer ann token")]),
        call("who", &[("authorization", "Bearer \"ann-token\"")]),
    ];
    for request in requests {
        let what = format!("{:?}", request.headers().get("authorization"));
        let answer = send(site.address, request).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{what}");
        assert_eq!(challenge(&answer).get("error"), Some("invalid_request"));
        assert_eq!(answer.json()["error"], "invalid_request");
    }
    assert_eq!(site.runs(), 0);
}

/// The tool is named in the body, and the revision decides where that is read; the refusal is the same.
///
/// covers: AUTR-05 AUTR-14 AUTR-15 AUTR-16 AUTR-17
#[tokio::test]
async fn a_call_needs_the_scopes_of_its_tool() {
    let site = Site::new().await;
    let refused = |answer: &AuthTestResponse, scopes: &str| {
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.body);
        let challenge = challenge(answer);
        assert!(challenge.wants_more_scopes());
        assert_eq!(challenge.get("scope"), Some(scopes), "all of them at once");
        assert_eq!(challenge.get("resource_metadata"), Some(METADATA));
        assert_eq!(answer.json()["error"], "insufficient_scope");
    };
    refused(&site.call("who", &[("authorization", "Bearer weak-token")]).await, "mcp");
    let all = "mcp files:read files:write";
    // Its client asks its user once.
    refused(&site.call("delete", &[("authorization", "Bearer weak-token")]).await, all);
    let batch = json!([tool("who"), tool("delete")]);
    let request = post("/mcp", &batch, &[("authorization", "Bearer weak-token")]);
    refused(&send(site.address, request).await, all);
    refused(&site.call("delete", &[("authorization", "Bearer ann-token")]).await, all);
    let answer = site.call("delete", &[("authorization", "Bearer strong-token")]).await;
    assert_eq!(answer.status, StatusCode::OK, "one scope implies the others");
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = site.session(revision, "Bearer ann-token").await;
        refused(&site.in_session(&session, "Bearer ann-token", tool("delete")).await, all);
        if revision == "2025-03-26" {
            let batch = json!([tool("who"), tool("delete")]);
            let before = site.runs();
            refused(&site.in_session(&session, "Bearer ann-token", batch).await, all);
            assert_eq!(site.runs(), before, "one that may not be made, and none is");
            // What one lacks and what the other lacks, in either order.
            for batch in [[tool("ask"), tool("delete")], [tool("delete"), tool("ask")]] {
                let answer = site.in_session(&session, "Bearer ann-token", json!(batch)).await;
                let scopes = challenge(&answer).scopes().unwrap();
                assert_eq!(answer.status, StatusCode::FORBIDDEN);
                assert!(scopes.contains_all(&Scopes::parse("mcp people files:read files:write")), "{scopes}");
            }
        }
        // The session is the user's; what may be done is the token's matter.
        let answer = site.in_session(&session, "Bearer strong-token", tool("delete")).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    }
    let (_stream, messages) = sse(&site, "Bearer ann-token").await;
    let request = post(&messages, &tool("delete"), &[("authorization", "Bearer ann-token")]);
    refused(&send(site.address, request).await, all);
}

/// Opens a stream of 2024-11-05; returns it and where to post to.
async fn sse(site: &Site, token: &str) -> (hospes_auth_testkit::AuthTestStream, String) {
    let request = Request::get("/sse").header("accept", "text/event-stream").header("authorization", token);
    let mut stream = begin(site.address, request.body(Full::default()).unwrap()).await;
    assert_eq!(stream.status, StatusCode::OK);
    let first = stream.piece().await.unwrap();
    let messages = first.lines().find_map(|line| line.strip_prefix("data:")).unwrap().trim().to_owned();
    (stream, messages)
}

/// The id of a session or a stream alone grants no access.
///
/// covers: SECP-09 SECP-10
#[tokio::test]
async fn a_session_is_its_users_and_authenticates_nobody() {
    let site = Site::new().await;
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = site.session(revision, "Bearer ann-token").await;
        let answer = site.in_session(&session, "Bearer bob-token", tool("who")).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{revision}");
        let unknown = site.in_session("0123456789abcdef", "Bearer bob-token", tool("who")).await;
        assert_eq!(answer.body, unknown.body, "as if there were none");
        let bare = send(site.address, post("/mcp", &tool("who"), &[("mcp-session-id", &*session)])).await;
        assert_eq!(bare.status, StatusCode::UNAUTHORIZED);
        for (method, token) in [("GET", "Bearer bob-token"), ("DELETE", "Bearer bob-token")] {
            let request = Request::builder()
                .method(method)
                .uri("/mcp")
                .header("accept", "text/event-stream")
                .header("mcp-session-id", &session)
                .header("authorization", token);
            let answer = send(site.address, request.body(Full::default()).unwrap()).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method}");
        }
        let answer = site.in_session(&session, "Bearer ann-token", tool("who")).await;
        assert_eq!(answer.status, StatusCode::OK, "it is still there");
    }
    let (_stream, messages) = sse(&site, "Bearer ann-token").await;
    let other = post(&messages, &tool("who"), &[("authorization", "Bearer bob-token")]);
    assert_eq!(send(site.address, other).await.status, StatusCode::NOT_FOUND);
    let bare = post(&messages, &tool("who"), &[]);
    assert_eq!(send(site.address, bare).await.status, StatusCode::UNAUTHORIZED);
    let own = post(&messages, &tool("who"), &[("authorization", "Bearer ann-token")]);
    assert_eq!(send(site.address, own).await.status, StatusCode::ACCEPTED);
}

/// A user cannot send anything into another user's session: neither an answer to a question nor a message for a stream.
#[tokio::test]
async fn an_answer_of_another_is_no_answer() {
    let tokens = StaticTokenVerifier::none()
        .with("ann-token", principal("ann", "mcp people"))
        .with("bob-token", principal("bob", "mcp people"));
    let site = Site::with(tokens, |guard| guard).await;
    let session = site.session("2025-11-25", "Bearer ann-token").await;
    let headers = [("mcp-session-id", &*session), ("authorization", "Bearer ann-token")];
    let mut asking = begin(site.address, post("/mcp", &tool("ask"), &headers)).await;
    let question = loop {
        let piece = asking.piece().await.unwrap();
        let data = piece.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
        if let Some(question) = data.filter_map(|data| serde_json::from_str::<Value>(data).ok()).next() {
            break question;
        }
    };
    let answer = |name: &str| {
        let result = json!({ "action": "accept", "content": { "value": name } });
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })
    };
    let bobs = site.session("2025-11-25", "Bearer bob-token").await;
    site.in_session(&bobs, "Bearer bob-token", answer("Bob")).await;
    let status = site.in_session(&session, "Bearer bob-token", answer("Bob")).await.status;
    assert_eq!(status, StatusCode::NOT_FOUND);
    site.in_session(&session, "Bearer ann-token", answer("Ann")).await;
    let rest = asking.whole().await.body;
    assert!(rest.contains("Ann") && !rest.contains("Bob"), "{rest}");
}

/// A stream of changes lives as long as the token it was opened with.
#[tokio::test]
async fn streams_of_changes_end_with_the_token() {
    let now = UnixClock::system().now();
    let clock = UnixClock::new(move || now);
    let mut ann = principal("ann", "mcp");
    // By the clock of the guard the token lasts two seconds.
    ann.expires_at = Some(now + 2);
    let site = Site::with(StaticTokenVerifier::none().with("short", ann), |guard| guard.clock(clock)).await;
    let listen = modern("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "subscriptions/listen"),
        ("authorization", "Bearer short"),
    ];
    let modern = begin(site.address, post("/mcp", &listen, &headers)).await;
    let session = site.session("2025-11-25", "Bearer short").await;
    let stream = Request::get("/mcp")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &session)
        .header("authorization", "Bearer short");
    let legacy = begin(site.address, stream.body(Full::default()).unwrap()).await;
    let (oldest, _) = sse(&site, "Bearer short").await;
    for stream in [modern, legacy, oldest] {
        assert_eq!(
            (stream.status, &stream.headers["content-type"]),
            (StatusCode::OK, &"text/event-stream".parse().unwrap())
        );
        // It ends, or the helper loses patience.
        stream.whole().await;
    }
}

struct Unreachable;

impl TokenVerifier for Unreachable {
    fn verify<'a>(&'a self, _: &'a str, _: u64) -> VerifyFuture<'a> {
        Box::pin(std::future::ready(Err(VerifyTokenError::Unavailable)))
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_checked_is_not_taken() {
    let site = Site::with(AnyTokenVerifier::none().or(tokens()).or(Unreachable), |guard| guard).await;
    let answer = site.call("who", &[("authorization", "Bearer unknown")]).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(Challenge::for_tokens(&answer.headers).is_none());
    assert!(!answer.header("retry-after").is_empty());
    assert_eq!(site.runs(), 0);
    // What another verifier knows is good all the same.
    assert_eq!(site.call("who", &[("authorization", "Bearer ann-token")]).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_page_that_may_not_ask_is_not_told_to_sign_in() {
    let site = Site::new().await;
    let answer = site.call("who", &[("origin", "https://evil.example")]).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(Challenge::for_tokens(&answer.headers).is_none(), "nobody steps up for that");
    assert_eq!(answer.json()["jsonrpc"], "2.0");
    let answer = site.call("who", &[("origin", "http://localhost:6274")]).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert_eq!(answer.header("access-control-allow-origin"), "http://localhost:6274");
    assert!(answer.header("access-control-expose-headers").contains("www-authenticate"));
    let preflight = Request::options("/mcp")
        .header("origin", "http://localhost:6274")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization");
    let answer = send(site.address, preflight.body(Full::default()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT, "it never carries a token");
    assert_eq!(answer.header("access-control-allow-headers"), "authorization");
}

/// Bearer-token middleware in another HTTP server.
#[tokio::test]
async fn the_layer_guards_as_the_front_does() {
    use tower_layer::Layer as _;
    use tower_service::Service as _;
    let endpoint = Endpoint::new(Server::new("x", "1").tool("hi", || async { "hi" }));
    let issuers = vec![Issuer::new(ISSUER).unwrap()];
    let rules = ScopeRules::default()
        .always(Scopes::parse("mcp"))
        .tool("delete", Scopes::parse("files:read files:write"));
    let guard = BearerAuth::builder(Resource::new(RESOURCE).unwrap(), issuers, tokens()).rules(rules).build();
    let mut service = guard.layer(endpoint);
    let local = [("host", "localhost")];
    let answer = service.call(call("hi", &local)).await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    let named = [("host", "localhost"), ("authorization", "Bearer ann-token")];
    assert_eq!(service.call(call("hi", &named)).await.unwrap().status(), StatusCode::OK);
    // All that the call needs, where the token lacks what every call needs, and where it lacks the rest.
    for token in ["Bearer weak-token", "Bearer ann-token"] {
        let weak = [("host", "localhost"), ("authorization", token)];
        let answer = service.call(call("delete", &weak)).await.unwrap();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        let challenge = Challenge::for_tokens(answer.headers()).unwrap();
        assert_eq!(challenge.get("scope"), Some("mcp files:read files:write"), "{token}");
    }
    let metadata = Request::get("/.well-known/oauth-protected-resource").body(Full::default()).unwrap();
    assert_eq!(service.call(metadata).await.unwrap().status(), StatusCode::OK);
}

#[test]
fn a_client_that_acts_for_itself_is_nobody_else() {
    let user = principal("c1", "");
    let mut client = principal("c1", "");
    client.client_id = Some(hospes_auth::ClientId::new("c1").unwrap());
    client.is_client = true;
    assert_ne!(user.name(), client.name());
    assert_eq!(VerifyTokenError::from(VerifyJwtError::Expired), VerifyTokenError::Expired);
}
