//! Bearer-token middleware for an endpoint.

mod builder;
mod presented_token;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hospes::Params;
use hospes::transport::http_server::{
    self, CallGuard, Endpoint, HttpMiddleware, MiddlewareFuture, StreamDeadline,
};
use hospes_auth::dpop::{DPOP, DpopProof, ProofNonces, ProofReplayCache, ProofStoreError, read_proof};
use hospes_auth::{Scopes, UnixClock, fingerprint};
use hospes_model::{JsonRpcMessage, RawJson, message};
use http::header::{
    ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION,
    CACHE_CONTROL, CONTENT_TYPE,
};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Body;
use url::Url;

use super::bearer_error::{AcceptedSchemes, BearerAuthError};
use super::principal::TokenPrincipal;
use super::scope_rules::ScopeRules;
use super::token_verifier::{TokenVerifier, VerifyTokenError};

pub use builder::BearerAuthBuilder;
use presented_token::{TokenScheme, extract_token};

/// Time for which clients may cache the metadata.
pub const DEFAULT_METADATA_AGE: Duration = Duration::from_secs(300);

/// Maximum number of bytes, and maximum time, for reading a request that lacks a scope. Its body shows which other
/// scopes its calls need.
const MAX_READ_FOR_SCOPES: usize = 256 * 1024;
const READ_FOR_SCOPES_TIMEOUT: Duration = Duration::from_secs(5);

/// Middleware that requires every request to an endpoint to have a token issued for it.
///
/// It is the [`HttpMiddleware`] of an [`HttpServer`](hospes::transport::http_server::HttpServer), and a
/// [`Layer`](tower_layer::Layer) over an endpoint in another HTTP server. Cheap to clone.
#[derive(Clone)]
pub struct BearerAuth(Arc<BearerAuthInner>);

struct BearerAuthInner {
    verify: Box<dyn TokenVerifier>,
    rules: ScopeRules,
    clock: UnixClock,
    /// Addresses of the endpoint. The first one applies if none matches.
    doors: Vec<ResourceAddress>,
    /// Scopes to request first.
    scopes: Scopes,
    /// Accepted token schemes: bearer tokens, tokens bound to a key, or both.
    schemes: AcceptedSchemes,
    /// Name of the principal whose unbound tokens are accepted.
    exempt: Option<String>,
    nonces: Option<ProofNonces>,
    used: ProofReplayCache,
}

/// One address of an endpoint. Each address is a resource of its own.
struct ResourceAddress {
    url: Option<Url>,
    /// The path of the address.
    path: String,
    /// URL of its metadata, as a challenge names it.
    location: String,
    /// The paths that is served on.
    served: Vec<String>,
    metadata: Bytes,
}

impl BearerAuth {
    /// Answers requests for the metadata. Pages of any origin may read it, because it is public.
    #[must_use]
    pub fn metadata<B>(&self, request: &Request<B>) -> Option<Response<Bytes>> {
        let door =
            self.0.doors.iter().find(|door| door.served.iter().any(|path| path == request.uri().path()))?;
        let mut response = Response::new(Bytes::new());
        match *request.method() {
            Method::GET | Method::HEAD => {
                *response.body_mut() = door.metadata.clone();
                let age = format!("public, max-age={}", DEFAULT_METADATA_AGE.as_secs());
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                if let Ok(age) = HeaderValue::try_from(age) {
                    response.headers_mut().insert(CACHE_CONTROL, age);
                }
            }
            Method::OPTIONS => *response.status_mut() = StatusCode::NO_CONTENT,
            _ => *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED,
        }
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET"));
        // Clients in browsers may send this header with the discovery (AUTC-04), and a preflight asks for
        // it first.
        headers.insert("access-control-allow-headers", HeaderValue::from_static("mcp-protocol-version"));
        Some(response)
    }

    /// Checks the token of a request and adds the principal, its scopes and its expiry to the request's extensions. The
    /// token itself is not passed on.
    ///
    /// # Errors
    /// The response to a rejected request.
    pub async fn check<B>(&self, request: &mut Request<B>) -> Result<(), Response<Bytes>> {
        let checked = self.admit(request).await;
        let principal = checked.map_err(|refused| self.refusal_response(&refused, request.uri().path()))?;
        self.attach_principal(principal, request);
        Ok(())
    }

    pub(super) fn refusal_response(&self, refused: &BearerAuthError, path: &str) -> Response<Bytes> {
        tracing::info!(path, ?refused, "request rejected");
        refused.response(self.0.location(path), &self.0.scopes, self.0.schemes)
    }

    /// Collects all scopes that the calls of a refused request need, so that the client asks its user only once. A body
    /// that cannot be read in time adds none.
    pub(super) async fn collect_needed_scopes<B: Body>(&self, method: &Method, body: B) -> Scopes
    where
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let rules = &self.0.rules;
        let always = rules.always_required().clone();
        if !rules.vary_by_call() || method != Method::POST {
            return always;
        }
        let body = Limited::new(body, MAX_READ_FOR_SCOPES).collect();
        let Ok(Ok(body)) = tokio::time::timeout(READ_FOR_SCOPES_TIMEOUT, body).await else { return always };
        let body = body.to_bytes();
        let needed = |message: &JsonRpcMessage<'_>| {
            let JsonRpcMessage::Request(request) = message else { return Scopes::none() };
            let params =
                request.params.map_or_else(RawJson::empty_object, |raw| RawJson::slice_of(&body, raw));
            rules.needed(&hospes_model::Method::from_name(&request.method), &Params::new(params))
        };
        match message::decode(&body) {
            Ok(message::Frame::Single(message)) => always.union(&needed(&message)),
            Ok(message::Frame::Batch(messages)) => {
                let read = messages.iter().filter_map(|message| message.as_ref().ok());
                read.fold(always, |all, message| all.union(&needed(message)))
            }
            Err(_) => always,
        }
    }

    pub(super) async fn admit<B>(&self, request: &Request<B>) -> Result<TokenPrincipal, BearerAuthError> {
        let (scheme, token) = extract_token(request)?;
        let inner = &self.0;
        let now = inner.clock.now();
        let principal = match inner.verify.verify(token, now).await {
            Ok(principal) => principal,
            Err(flaw) => {
                tracing::debug!(token = fingerprint(token), %flaw, "token rejected");
                return Err(BearerAuthError::Token(flaw));
            }
        };
        match (&principal.proof_key, scheme) {
            (Some(key), TokenScheme::Dpop) => {
                let proof = self.check_proof(request, token, key, now)?;
                // Claimed last: only a proof that is otherwise in order may count as used.
                self.claim_proof(&proof, now).await?;
            }
            (None, TokenScheme::Bearer)
                if inner.schemes != AcceptedSchemes::Dpop || inner.is_exempt(&principal) => {}
            // Who has stolen it must not be let in because they leave out the proof.
            _ => {
                tracing::debug!(
                    token = fingerprint(token),
                    ?scheme,
                    "token sent with the wrong authentication scheme"
                );
                return Err(BearerAuthError::Token(VerifyTokenError::Invalid));
            }
        }
        let always = inner.rules.always_required();
        if !inner.rules.covers(&principal.scopes, always) {
            return Err(BearerAuthError::Scopes(always.clone()));
        }
        Ok(principal)
    }

    /// Checks that the sender of `token` has the key that it is bound to (RFC 9449, section 7).
    fn check_proof<B>(
        &self,
        request: &Request<B>,
        token: &str,
        key: &str,
        now: u64,
    ) -> Result<DpopProof, BearerAuthError> {
        let inner = &self.0;
        // The configured address, not the Host header: the sender chooses that one, and a proxy may rewrite
        // it.
        let url = inner.doors.first().and_then(|door| door.url.as_ref()).map(|url| {
            let mut url = url.clone();
            url.set_path(request.uri().path());
            url
        });
        let url = url
            .ok_or(BearerAuthError::Proof("no resource URL is configured to check the DPoP proof against"))?;
        let proof = read_proof(request.headers(), request.method(), &url, Some(token), now);
        let proof = proof
            .map_err(BearerAuthError::Proof)?
            .ok_or(BearerAuthError::Proof("the DPoP proof is missing"))?;
        if proof.key != key {
            return Err(BearerAuthError::Proof(
                "the DPoP proof is signed with another key than the token is bound to",
            ));
        }
        Ok(proof)
    }

    async fn claim_proof(&self, proof: &DpopProof, now: u64) -> Result<(), BearerAuthError> {
        let lost = |error: ProofStoreError| {
            tracing::error!(%error, "cannot check the DPoP proof for replay");
            BearerAuthError::Token(VerifyTokenError::Unavailable)
        };
        // Before the claim: proofs that were made in advance, without a nonce, must not fill the memory of
        // used ones.
        if let Some(nonces) = &self.0.nonces
            && !nonces.check(proof, now).await.map_err(lost)?
        {
            return Err(BearerAuthError::Nonce(nonces.issue(now).await.map_err(lost)?));
        }
        if !self.0.used.claim(proof, now).await.map_err(lost)? {
            return Err(BearerAuthError::Proof("the DPoP proof was already used"));
        }
        Ok(())
    }

    pub(super) fn attach_principal<B>(&self, principal: TokenPrincipal, request: &mut Request<B>) {
        // AUTR-11: nothing behind this point can pass the token on.
        request.headers_mut().remove(AUTHORIZATION);
        request.headers_mut().remove(DPOP);
        let path = request.uri().path().to_owned();
        let extensions = request.extensions_mut();
        extensions.insert(http_server::Principal::new(principal.name()));
        if !principal.groups.is_empty() {
            extensions.insert(http_server::PrincipalGroups::new(principal.groups.clone()));
        }
        if let Some(end) = principal.expires_at {
            let left = Duration::from_secs(end.saturating_sub(self.0.clock.now()));
            // Beyond what a clock can show there is no end.
            if let Some(end) = tokio::time::Instant::now().checked_add(left) {
                // A stream must not outlive the token that opened it.
                extensions.insert(StreamDeadline(end));
            }
        }
        if self.0.rules.vary_by_call() {
            let (inner, scopes) = (Arc::clone(&self.0), principal.scopes.clone());
            let location = inner.location(&path).to_owned();
            extensions.insert(CallGuard::for_all(move |calls| {
                // Of all the calls of a batch: its client asks its user once.
                let needed = calls.iter().fold(Scopes::none(), |all, (method, params)| {
                    all.union(&inner.rules.needed(method, params))
                });
                if inner.rules.covers(&scopes, &needed) {
                    return Ok(());
                }
                let methods: Vec<_> = calls.iter().map(|(method, _)| method.name()).collect();
                tracing::info!(?methods, %needed, "request rejected: insufficient scope");
                Err(Box::new(BearerAuthError::Scopes(needed).response(
                    &location,
                    &inner.scopes,
                    inner.schemes,
                )))
            }));
        }
        extensions.insert(principal);
    }

    /// Returns true for a CORS preflight request, which never carries a token.
    pub(super) fn is_preflight<B>(request: &Request<B>) -> bool {
        request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    }
}

impl HttpMiddleware for BearerAuth {
    fn receive<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        request: &'a mut Request<hyper::body::Incoming>,
    ) -> MiddlewareFuture<'a> {
        Box::pin(async move {
            if let Some(metadata) = self.metadata(request) {
                return Some(metadata);
            }
            if !endpoint.serves(request.uri().path()) || Self::is_preflight(request) {
                return None;
            }
            let head = clone_head(request);
            if endpoint.admit_sender(&head).is_err() {
                // The endpoint says so: a page that may not ask is told of no tokens.
                return None;
            }
            let refused = match self.admit(request).await {
                Ok(principal) => {
                    self.attach_principal(principal, request);
                    return None;
                }
                // The body is only read of a request that is refused anyway: otherwise the endpoint needs
                // it whole.
                Err(BearerAuthError::Scopes(_)) => BearerAuthError::Scopes(
                    self.collect_needed_scopes(&head.method, request.body_mut()).await,
                ),
                Err(refused) => refused,
            };
            let mut refusal = self.refusal_response(&refused, request.uri().path());
            endpoint.add_cors_headers(&head, &mut refusal);
            Some(refusal)
        })
    }
}

/// Copies the parts of a request that the endpoint needs to check its origin.
fn clone_head<B>(request: &Request<B>) -> Parts {
    // `Parts` has no constructor of its own.
    let mut head = Request::new(()).into_parts().0;
    head.method = request.method().clone();
    head.uri = request.uri().clone();
    head.headers = request.headers().clone();
    head
}

impl BearerAuthInner {
    fn is_exempt(&self, principal: &TokenPrincipal) -> bool {
        self.exempt.as_ref().is_some_and(|name| *name == principal.name())
    }

    /// Returns the URL of the metadata of the resource at this path.
    fn location(&self, path: &str) -> &str {
        let door = self.doors.iter().find(|door| door.path == path).or_else(|| self.doors.first());
        door.map_or("", |door| &door.location)
    }
}

impl fmt::Debug for BearerAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerAuth").field("location", &self.0.location("")).finish_non_exhaustive()
    }
}
