//! A real MCP client against a site on loopback: its MCP endpoint, its authorization server, and a person who agrees to
//! everything.

mod device;
mod killed;
mod renewal;
mod repair;
mod revoking;
mod secrets;
mod signing_in;
mod tokens;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hospes::client::{Client, Target};
use hospes::model::Revision;
use hospes_auth::egress::EgressPolicy;
use hospes_auth::{Issuer, RedirectUri};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::*;
use crate::UnattendedSignIn;
use crate::flow::{AuthorizationCause, AuthorizationFlow};
use crate::sign_in::{RedirectListener, SignInAnswer};

/// Script of the test site, and its observations.
#[derive(Default)]
struct Script {
    /// Token to scopes; what is not here is not let in.
    good: HashMap<String, String>,
    issued: u32,
    /// Code challenge of the last authorization.
    pkce: String,
    authorizations: u32,
    refreshes: u32,
    registrations: u32,
    /// Scope that every tool call requires.
    wants: Option<&'static str>,
    /// No scopes are enough.
    is_insatiable: bool,
    /// Calls of tools are refused for another reason, in these words.
    is_closed: Option<&'static str>,
    /// Status of a refused refresh, and its error if it is not `invalid_grant`.
    refresh_fails: Option<u16>,
    refresh_error: Option<&'static str>,
    /// Prefix of tokens, codes and client secrets.
    mark: &'static str,
    /// Clients are given a secret.
    gives_secrets: bool,
    /// Issuer of the tokens, if it is another site.
    issuer: Option<String>,
    /// The code was entered.
    is_entered: bool,
    /// Error of the device code, in place of its entry.
    code_fails: Option<&'static str>,
    /// The request for this path is not answered: before anything is done about it, or after.
    stuck: Option<(&'static str, bool)>,
    /// Delays the response of the token endpoint until it is released.
    hold: Option<Arc<Hold>>,
    /// Status of revocation responses, if the endpoint exists.
    revokes: Option<u16>,
    /// Those, with who gives them up.
    revoked: Vec<HashMap<String, String>>,
    /// Everybody is let in.
    is_open: bool,
    /// A GET request for the stream is answered as if it had no token.
    is_silent: bool,
    /// Target of the redirect at the MCP endpoint.
    moved_to: Option<String>,
    /// URL of another authorization endpoint.
    authorizes_at: Option<&'static str>,
    /// Every token is rejected.
    is_blind: bool,
    /// Path, query and `EndpointAuthorization` of each request.
    seen: Vec<(String, String, Option<String>)>,
}

impl Script {
    /// Returns true if it has registered a client with this id.
    fn knows(&self, id: &str) -> bool {
        id.strip_prefix("new")
            .and_then(|number| number.parse().ok())
            .is_some_and(|number: u32| (1..=self.registrations).contains(&number))
    }
}

#[derive(Default)]
struct Hold {
    arrived: Notify,
    go: Notify,
}

struct Site {
    url: String,
    script: Mutex<Script>,
    now: Arc<AtomicU64>,
    /// A request got stuck.
    is_stuck: Notify,
}

impl Site {
    async fn open() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let now = Arc::new(AtomicU64::new(1_800_000_000));
        let site = Arc::new(Self { url, script: Mutex::default(), now, is_stuck: Notify::new() });
        let served = Arc::clone(&site);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let site = Arc::clone(&served);
                let answer = service_fn(move |request| {
                    let site = Arc::clone(&site);
                    async move { Ok::<_, Infallible>(site.answer(request).await) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        site
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    fn mcp(&self) -> String {
        format!("{}/mcp", self.url)
    }

    fn builder(&self) -> OAuthClientBuilder {
        let now = Arc::clone(&self.now);
        let clock = UnixClock::new(move || now.load(Ordering::SeqCst));
        OAuthClient::builder(&self.mcp()).unwrap().clock(clock)
    }

    fn person(&self) -> UnattendedSignIn {
        let client = GuardedClient::new(EgressPolicy::public().allow_loopback());
        UnattendedSignIn::new(client, RedirectUri::new("http://127.0.0.1:41233/callback").unwrap())
    }

    fn oauth(&self) -> OAuthClient {
        self.builder().sign_in(self.person()).build()
    }

    async fn connect(&self, oauth: &OAuthClient) -> Client {
        let target = Target::url(self.mcp()).authorizer(Arc::new(oauth.clone()));
        Client::builder().revision(Revision::LATEST).connect(target).await.unwrap()
    }

    fn pass(&self, seconds: u64) {
        self.now.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Returns the tokens sent to the MCP endpoint, one entry per request.
    fn shown(&self) -> Vec<Option<String>> {
        let script = self.script();
        script.seen.iter().filter(|(path, ..)| path == "/mcp").map(|(.., shown)| shown.clone()).collect()
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let stuck = self.script().stuck.filter(|(place, _)| *place == request.uri().path());
        match stuck {
            None => return self.answer_now(request).await,
            Some((_, true)) => drop(self.answer_now(request).await),
            Some((_, false)) => {}
        }
        self.is_stuck.notify_one();
        std::future::pending().await
    }

    async fn answer_now(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let (path, query) = (head.uri.path().to_owned(), head.uri.query().unwrap_or_default().to_owned());
        let shown = head.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
        self.script().seen.push((path.clone(), query.clone(), shown.clone()));
        let url = &self.url;
        let moved_to = self.script().moved_to.clone().filter(|_| path == "/mcp");
        if let Some(there) = moved_to {
            let mut response = say(307, &json!({}));
            response.headers_mut().insert("location", there.parse().unwrap());
            return response;
        }
        match path.as_str() {
            "/elsewhere" => self.mcp_answer(shown.as_deref(), &body),
            "/mcp" if head.method == http::Method::GET && !self.script().is_silent => say(405, &json!({})),
            "/mcp" if head.method == http::Method::GET => self.mcp_answer(None, &body),
            "/mcp" => self.mcp_answer(shown.as_deref(), &body),
            "/.well-known/oauth-protected-resource/mcp" => say(
                200,
                &json!({ "resource": self.mcp(), "authorization_servers": [self.script().issuer.as_ref().unwrap_or(url)] }),
            ),
            "/.well-known/oauth-authorization-server" => {
                let mut said = json!({
                    "issuer": url, "authorization_endpoint": self.script().authorizes_at
                        .map_or_else(|| format!("{url}/authorize"), str::to_owned),
                    "token_endpoint": format!("{url}/token"), "registration_endpoint": format!("{url}/register"),
                    "code_challenge_methods_supported": ["S256"],
                    "device_authorization_endpoint": format!("{url}/device"),
                });
                if self.script().revokes.is_some() {
                    said["revocation_endpoint"] = format!("{url}/revoke").into();
                }
                say(200, &said)
            }
            "/revoke" => {
                let mut script = self.script();
                script.revoked.push(url::form_urlencoded::parse(&body).into_owned().collect());
                let error = script.refresh_error.unwrap_or("unsupported_token_type");
                say(script.revokes.unwrap_or(404), &json!({ "error": error }))
            }
            "/register" => {
                let mut script = self.script();
                script.registrations += 1;
                let mut client = json!({ "client_id": format!("new{}", script.registrations) });
                if script.gives_secrets {
                    client["client_secret"] = format!("{}client", script.mark).into();
                    client["token_endpoint_auth_method"] = "client_secret_post".into();
                }
                say(201, &client)
            }
            "/device" => {
                let code = format!("{}device", self.script().mark);
                say(
                    200,
                    &json!({
                        "device_code": code, "user_code": "ABCD", "verification_uri": format!("{url}/enter"),
                        "expires_in": 60, "interval": 1,
                    }),
                )
            }
            "/authorize" => {
                self.script().authorizations += 1;
                let asked: HashMap<_, _> =
                    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
                assert!(self.script().knows(&asked["client_id"]), "{asked:?}");
                self.script().pkce.clone_from(&asked["code_challenge"]);
                let mut back = Url::parse(&asked["redirect_uri"]).unwrap();
                let scope = asked.get("scope").cloned().unwrap_or_default();
                back.query_pairs_mut()
                    .append_pair("code", &format!("{}code {scope}", self.script().mark))
                    .append_pair("state", &asked["state"]);
                let mut response = say(302, &json!({}));
                response.headers_mut().insert("location", back.as_str().parse().unwrap());
                response
            }
            "/token" => {
                let answer = self.token_answer(&body);
                let hold = self.script().hold.clone();
                if let Some(hold) = hold {
                    hold.arrived.notify_one();
                    hold.go.notified().await;
                }
                answer
            }
            _ => say(404, &json!({})),
        }
    }

    fn mcp_answer(&self, shown: Option<&str>, body: &[u8]) -> Response<Full<Bytes>> {
        let script = self.script();
        let token = shown.and_then(|shown| shown.strip_prefix("Bearer ")).unwrap_or_default();
        let refuse = |status, challenge: String| {
            let mut response = say(status, &json!({}));
            response.headers_mut().insert("www-authenticate", challenge.parse().unwrap());
            response
        };
        let known = script.good.get(token).filter(|_| !script.is_blind).map(String::as_str);
        let Some(scopes) = known.or_else(|| script.is_open.then_some("")) else {
            return refuse(401, "Bearer scope=\"read\"".into());
        };
        let message: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let is_call = message["method"] == "tools/call";
        if let Some(wants) = script.wants.filter(|_| is_call)
            && (script.is_insatiable || !scopes.split(' ').any(|scope| scope == wants))
        {
            return refuse(403, format!("Bearer error=\"insufficient_scope\", scope=\"{wants}\""));
        }
        if let Some(challenge) = script.is_closed.filter(|_| is_call) {
            return refuse(403, challenge.into());
        }
        let result = json!({
            "protocolVersion": "2025-11-25", "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
            "serverInfo": { "name": "site", "version": "1" }, "content": [], "tools": [], "ttlMs": 0,
            "cacheScope": "private",
        });
        say(200, &json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
    }

    fn token_answer(&self, body: &[u8]) -> Response<Full<Bytes>> {
        let form: HashMap<_, _> = url::form_urlencoded::parse(body).into_owned().collect();
        let mut script = self.script();
        assert!(script.knows(&form["client_id"]), "{form:?}");
        let scope = if form["grant_type"].ends_with("device_code") {
            if let Some(error) = script.code_fails {
                return say(400, &json!({ "error": error }));
            }
            if !script.is_entered {
                return say(400, &json!({ "error": "authorization_pending" }));
            }
            "read".to_owned()
        } else if form["grant_type"].ends_with("jwt-bearer") {
            // What the platform vouches for is what is granted.
            form["assertion"].clone()
        } else if form["grant_type"] == "client_credentials" {
            assert_eq!(form["client_secret"], "secret");
            "read".to_owned()
        } else if form["grant_type"] == "refresh_token" {
            script.refreshes += 1;
            if let Some(status) = script.refresh_fails {
                return say(status, &json!({ "error": script.refresh_error.unwrap_or("invalid_grant") }));
            }
            if form["refresh_token"] != format!("{}refresh {}", script.mark, script.issued) {
                return say(400, &json!({ "error": "invalid_grant" }));
            }
            "read".to_owned()
        } else {
            assert!(hospes_auth::pkce::verify_challenge(&form["code_verifier"], &script.pkce));
            assert_eq!(form.contains_key("client_secret"), script.gives_secrets, "as it was registered");
            form["code"].strip_prefix(&format!("{}code ", script.mark)).unwrap().to_owned()
        };
        script.issued += 1;
        let number = script.issued;
        let mark = script.mark;
        script.good.insert(format!("{mark}token{number}"), scope);
        say(
            200,
            &json!({
                "access_token": format!("{mark}token{number}"), "token_type": "Bearer", "expires_in": 600,
                "refresh_token": format!("{mark}refresh {number}"),
            }),
        )
    }
}

fn say(status: u16, body: &serde_json::Value) -> Response<Full<Bytes>> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "application/json".parse().unwrap());
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
    *response.headers_mut() = headers;
    response
}

async fn call(client: &Client, tool: &str) -> Result<(), hospes::client::CallError> {
    client.call(tool, json!({})).await.map(drop)
}
