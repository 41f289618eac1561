//! Flows with scripted answers: each test plays the servers and the browser.

mod code;
mod device;
mod discovery;
mod other_grants;
mod redirect;
mod registration;
mod renewal;

use std::collections::{HashMap, VecDeque};

use hospes_auth::egress::FetchError;
use hospes_auth::{Challenge, ClientId, FetchRequest, FetchResponse, Issuer, RedirectUri, Scopes, Seed};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use url::Url;

use super::*;
use crate::{
    ClientAuth, ClientIdentity, ClientRegistration, GrantType, LegacyDiscovery, OAuthClientSettings,
    PreregisteredOAuthClient, RedirectError, TokenSet,
};

pub(super) const NOW: u64 = 1_800_000_000;
pub(super) const CALLBACK: &str = "http://127.0.0.1:41233/callback";

/// Scripted environment of a flow.
pub(super) struct World {
    pub(super) settings: OAuthClientSettings,
    pub(super) cause: AuthorizationCause,
    pub(super) pages: HashMap<String, (u16, Value)>,
    pub(super) known: Option<ClientRegistration>,
    pub(super) now: u64,
    /// The parameters with which the browser comes back, besides `state`.
    pub(super) answer: Vec<(&'static str, String)>,
    pub(super) asked: Vec<FetchRequest>,
    pub(super) visited: Vec<Url>,
    pub(super) kept: Vec<ClientRegistration>,
    pub(super) shown: Vec<DevicePrompt>,
    pub(super) waited: Vec<u64>,
    /// Pages that change, one after each wait.
    pub(super) later: VecDeque<(String, u16, Value)>,
}

impl World {
    /// A server at `https://m/mcp` whose tokens `https://as` makes out, for clients with a metadata document.
    pub(super) fn new() -> Self {
        let settings = OAuthClientSettings {
            metadata_url: Some(ClientId::new("https://hospes.example/client.json").unwrap()),
            ..OAuthClientSettings::default()
        };
        Self {
            settings,
            cause: AuthorizationCause::new(Url::parse("https://m/mcp").unwrap(), None),
            pages: HashMap::new(),
            known: None,
            now: NOW,
            answer: vec![("code", "c0de".into())],
            asked: Vec::new(),
            visited: Vec::new(),
            kept: Vec::new(),
            shown: Vec::new(),
            waited: Vec::new(),
            later: VecDeque::new(),
        }
        .page(
            "https://m/.well-known/oauth-protected-resource/mcp",
            200,
            resource("https://m/mcp", "https://as"),
        )
        .page("https://as/.well-known/oauth-authorization-server", 200, server("https://as"))
        .page("https://as/token", 200, token())
    }

    pub(super) fn page(mut self, url: &str, status: u16, body: Value) -> Self {
        self.pages.insert(url.to_owned(), (status, body));
        self
    }

    pub(super) fn without(mut self, url: &str) -> Self {
        self.pages.remove(url).unwrap();
        self
    }

    /// Changes members of a page; null takes one away.
    pub(super) fn with(mut self, url: &str, change: Value) -> Self {
        let (_, page) = self.pages.get_mut(url).unwrap();
        for (name, value) in change.as_object().unwrap() {
            if value.is_null() {
                page.as_object_mut().unwrap().remove(name);
            } else {
                page[name] = value.clone();
            }
        }
        self
    }

    pub(super) fn server(self, change: Value) -> Self {
        self.with("https://as/.well-known/oauth-authorization-server", change)
    }

    pub(super) fn challenge(mut self, line: &str) -> Self {
        self.cause.challenge = Challenge::parse(line).into_iter().next();
        self
    }

    pub(super) fn settings(mut self, change: impl FnOnce(&mut OAuthClientSettings)) -> Self {
        change(&mut self.settings);
        self
    }

    pub(super) fn answer(mut self, answer: &[(&'static str, &str)]) -> Self {
        self.answer = answer.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self
    }

    /// Plays until the end.
    pub(super) fn play(&mut self) -> Result<TokenSet, FlowError> {
        let mut flow = AuthorizationFlow::new(
            Arc::new(self.settings.clone()),
            self.cause.clone(),
            Seed::new(&[7; 32]),
            self.now,
        );
        for _ in 0..200 {
            let input = match flow.poll_effect().clone() {
                FlowEffect::Done(tokens) => return Ok(*tokens),
                FlowEffect::Failed(error) => return Err(error),
                FlowEffect::Fetch(request) => FlowInput::Response(self.fetch(request)),
                FlowEffect::Recall(issuer) => FlowInput::Registration(
                    self.known.clone().filter(|known| known.issuer == issuer).map(Box::new),
                ),
                FlowEffect::Listen { preferred } => {
                    let callback = RedirectUri::new(CALLBACK).unwrap();
                    FlowInput::Listening(preferred.unwrap_or(callback))
                }
                FlowEffect::Keep(registration) => {
                    self.kept.push(*registration);
                    FlowInput::Kept
                }
                FlowEffect::Show(prompt) => {
                    self.shown.push(*prompt);
                    FlowInput::Shown
                }
                FlowEffect::Wait(time) => {
                    self.waited.push(time.as_secs());
                    self.now += time.as_secs();
                    if let Some((url, status, body)) = self.later.pop_front() {
                        self.pages.insert(url, (status, body));
                    }
                    FlowInput::Waited
                }
                FlowEffect::Visit(visit) => {
                    self.visited.push(visit.url.clone());
                    FlowInput::Redirected(self.redirect(&visit))
                }
            };
            flow.handle(input, self.now);
        }
        panic!("no end: {:?}", self.asked);
    }

    fn fetch(&mut self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        self.asked.push(request.clone());
        // A page may say something else to whoever names this machine so.
        let is_named = String::from_utf8_lossy(&request.body).contains("http://localhost:");
        let named = self.pages.get(&format!("{} localhost", request.url)).filter(|_| is_named);
        let known = named.or_else(|| self.pages.get(request.url.as_str()));
        let (status, body) = known.cloned().unwrap_or((404, json!({})));
        if status == 0 {
            return Err(FetchError::Unreachable);
        }
        let status = StatusCode::from_u16(status).unwrap();
        let mut response = FetchResponse::new(status, serde_json::to_vec(&body).unwrap());
        if let Some(nonce) = body.get("nonce").and_then(Value::as_str) {
            response.headers.insert("dpop-nonce", HeaderValue::from_str(nonce).unwrap());
        }
        Ok(response)
    }

    fn redirect(&self, visit: &AuthorizationPrompt) -> String {
        let mut url = visit.redirect_uri.url().unwrap();
        url.query_pairs_mut().append_pair("state", &visit.state).extend_pairs(&self.answer);
        url.into()
    }

    pub(super) fn urls(&self) -> Vec<&str> {
        self.asked.iter().map(|request| request.url.as_str()).collect()
    }

    /// The form that was posted last.
    pub(super) fn form(&self) -> HashMap<String, String> {
        fields(&self.asked.last().unwrap().body)
    }

    /// Returns the parameters of the authorization request, each of which occurs once.
    pub(super) fn question(&self) -> HashMap<String, String> {
        let pairs: Vec<_> = self.visited.last().unwrap().query_pairs().into_owned().collect();
        let map: HashMap<_, _> = pairs.iter().cloned().collect();
        assert_eq!(map.len(), pairs.len(), "{pairs:?}");
        map
    }
}

pub(super) fn fields(body: &[u8]) -> HashMap<String, String> {
    url::form_urlencoded::parse(body).into_owned().collect()
}

pub(super) fn resource(resource: &str, issuer: &str) -> Value {
    json!({ "resource": resource, "authorization_servers": [issuer] })
}

pub(super) fn server(issuer: &str) -> Value {
    let at = |path: &str| format!("{issuer}{path}");
    json!({
        "issuer": issuer, "authorization_endpoint": at("/authorize"), "token_endpoint": at("/token"),
        "code_challenge_methods_supported": ["S256"], "client_id_metadata_document_supported": true,
    })
}

pub(super) fn token() -> Value {
    json!({ "access_token": "acc3ss", "token_type": "Bearer", "expires_in": 600, "refresh_token": "refr3sh" })
}
