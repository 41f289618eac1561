//! HTTP endpoints of the server.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use hospes::transport::http_server::{Endpoint, HttpMiddleware, MiddlewareFuture, RemoteAddress};
use hospes_auth::dpop::{DPOP_NONCE, algorithm_names};
use hospes_auth::metadata::AuthorizationServerMetadata;
use hospes_auth::{Challenge, ErrorBody, ErrorCode, Issuer, PAGE_STYLE};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde::Serialize;
use url::Url;

use super::auth_server::AuthServer;
use super::clients::ClientAuthMethod;
use super::form::RequestForm;
use super::limits::{RETRY_SECONDS, rate_limit_address};
use super::registration::RegisterClientError;
use super::settings::{AccessTokenFormat, OFFLINE, TrustedDocuments};
use super::store::AuthStoreError;
use super::tokens::{KEYS_CACHE, TokenRequestError};

/// Maximum length of a request body, in bytes: the limit `max_form_bytes`.
const MAX_FORM_BYTES: usize = 64 * 1024;
/// Maximum time to receive a request body.
const FORM_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AuthRoute {
    Metadata,
    Authorize,
    SignIn,
    Consent,
    Upstream,
    Token,
    Register,
    Revoke,
    Introspect,
    Keys,
    Style,
    Connect,
    Document,
}

impl AuthRoute {
    const fn methods(self) -> &'static str {
        match self {
            Self::Metadata | Self::Keys | Self::Style | Self::Upstream | Self::Document => "GET",
            Self::Authorize | Self::Connect => "GET, POST",
            _ => "POST",
        }
    }

    fn takes(self, method: &Method) -> bool {
        self.methods().split(", ").any(|known| known == method.as_str())
    }

    /// Returns true if only forms of this server's own pages are accepted there.
    const fn is_browser_form(self) -> bool {
        matches!(self, Self::SignIn | Self::Consent | Self::Connect)
    }

    /// Returns true if the route exists on a server that issues no tokens.
    const fn is_page_of_accounts(self) -> bool {
        matches!(self, Self::Connect | Self::Upstream | Self::Style | Self::Document)
    }

    /// Returns true for routes of programs, also in browsers (CORS), which never use cookies.
    const fn allows_cors(self) -> bool {
        matches!(
            self,
            Self::Metadata | Self::Keys | Self::Token | Self::Register | Self::Revoke | Self::Document
        )
    }
}

impl AuthServer {
    fn route(&self, path: &str) -> Option<AuthRoute> {
        self.known_route(path).filter(|route| !self.has_only_pages() || route.is_page_of_accounts())
    }

    fn known_route(&self, path: &str) -> Option<AuthRoute> {
        if self.document_path().is_some_and(|known| known == path) {
            return Some(AuthRoute::Document);
        }
        // The path of the issuer comes after the well-known part (RFC 8414, section 3.1).
        if let Some(rest) = path.strip_prefix("/.well-known/oauth-authorization-server") {
            return (rest == self.base()).then_some(AuthRoute::Metadata);
        }
        Some(match path.strip_prefix(self.base())? {
            "/authorize" => AuthRoute::Authorize,
            "/sign-in" => AuthRoute::SignIn,
            "/consent" => AuthRoute::Consent,
            "/upstream/callback" if self.provider().is_some() => AuthRoute::Upstream,
            "/token" => AuthRoute::Token,
            "/register" if self.settings().registration => AuthRoute::Register,
            "/revoke" => AuthRoute::Revoke,
            "/introspect" => AuthRoute::Introspect,
            "/jwks" if self.signs() => AuthRoute::Keys,
            "/oauth-style.css" => AuthRoute::Style,
            path if self.is_connect_path(path) => AuthRoute::Connect,
            _ => return None,
        })
    }

    /// Returns the path of this host's own client metadata document. Requests must use the path exactly as in the URL.
    fn document_path(&self) -> Option<String> {
        let url = Url::parse(self.0.document.as_ref()?.client_id.as_str()).ok()?;
        Some(url.path().to_owned())
    }

    fn signs(&self) -> bool {
        self.settings().access_tokens == AccessTokenFormat::Jwt
    }

    /// Returns true if this server answers on this path.
    #[must_use]
    pub fn serves(&self, path: &str) -> bool {
        self.route(path).is_some()
    }

    /// Returns the URL of this endpoint.
    pub(super) fn endpoint(&self, name: &str) -> String {
        format!("{}/{name}", self.settings().issuer.as_str().trim_end_matches('/'))
    }

    /// Returns the metadata of the server.
    #[must_use]
    pub fn metadata(&self) -> AuthorizationServerMetadata {
        let settings = self.settings();
        let endpoint = |name: &str| Some(self.endpoint(name));
        let list = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let mut metadata = AuthorizationServerMetadata::new(Issuer::clone(&settings.issuer));
        metadata.authorization_endpoint = endpoint("authorize");
        metadata.token_endpoint = endpoint("token");
        metadata.registration_endpoint = endpoint("register").filter(|_| settings.registration);
        metadata.revocation_endpoint = endpoint("revoke");
        metadata.introspection_endpoint = endpoint("introspect");
        metadata.jwks_uri = endpoint("jwks").filter(|_| self.signs());
        let scopes = settings.scopes.iter().map(|(name, _)| name.as_str()).chain([OFFLINE]);
        metadata.scopes_supported = list(&scopes.collect::<Vec<_>>());
        metadata.response_types_supported = list(&["code"]);
        metadata.response_modes_supported = list(&["query"]);
        metadata.grant_types_supported = list(&self.grants());
        metadata.code_challenge_methods_supported = list(&["S256"]);
        metadata.token_endpoint_auth_methods_supported = list(&ClientAuthMethod::NAMES);
        metadata.token_endpoint_auth_signing_alg_values_supported = Some(algorithm_names());
        metadata.dpop_signing_alg_values_supported = Some(algorithm_names());
        let documents = self.0.fetch.is_some() && settings.documents != TrustedDocuments::None;
        metadata.client_id_metadata_document_supported = documents.then_some(true);
        metadata.authorization_response_iss_parameter_supported = Some(true);
        metadata.protected_resources = Some(settings.resources.clone());
        metadata
    }

    /// Answers a request that has been read. Returns `None` if the path does not belong to the server.
    pub async fn answer(&self, parts: &Parts, body: &[u8]) -> Option<Response<Bytes>> {
        let route = self.route(parts.uri.path())?;
        let mut response = self.answer_route(route, parts, body).await;
        if route.allows_cors() {
            let headers = response.headers_mut();
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(route.methods()));
            headers.insert(
                ACCESS_CONTROL_ALLOW_HEADERS,
                HeaderValue::from_static("authorization, content-type, dpop, mcp-protocol-version"),
            );
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("dpop-nonce"));
        }
        Some(response)
    }

    async fn answer_route(&self, route: AuthRoute, parts: &Parts, body: &[u8]) -> Response<Bytes> {
        if !self.names_issuer_host(parts) {
            tracing::warn!(path = parts.uri.path(), "request rejected: unexpected Host header");
            return empty(StatusCode::MISDIRECTED_REQUEST);
        }
        if route.is_browser_form() && self.is_cross_origin(parts) {
            tracing::warn!(path = parts.uri.path(), "cross-origin form submission rejected");
            return empty(StatusCode::FORBIDDEN);
        }
        // Before anything is counted: a preflight is the browser's own and carries no credentials.
        if parts.method == Method::OPTIONS && route.allows_cors() {
            return empty(StatusCode::NO_CONTENT);
        }
        if !route.takes(&parts.method) {
            let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(route.methods()));
            return response;
        }
        // A sweep that fails costs room only: records that have run out are not read.
        if let Err(error) = self.sweep().await {
            tracing::warn!(%error, "cannot delete expired records");
        }
        if let Err(wait) = self.check_rate_limit(route, self.sender(parts)).await {
            if route == AuthRoute::SignIn {
                return self.rate_limited_page("Too many sign-in attempts from this address.", wait);
            }
            let mut response = oauth_error(
                StatusCode::TOO_MANY_REQUESTS,
                &ErrorBody::from(ErrorCode::TemporarilyUnavailable),
            );
            let seconds = HeaderValue::from(wait.as_secs().max(1));
            response.headers_mut().insert(RETRY_AFTER, seconds);
            return response;
        }
        let is_form = route != AuthRoute::Register && parts.method == Method::POST;
        if is_form && !has_type(parts, "application/x-www-form-urlencoded") {
            let body = ErrorBody::new(ErrorCode::InvalidRequest, "the body must be a URL-encoded form");
            return oauth_error(StatusCode::BAD_REQUEST, &body);
        }
        let query = parts.uri.query().unwrap_or_default();
        // A POST has its parameters in the body alone, because URLs with secrets end up in logs.
        let form = RequestForm::parse(if is_form { body } else { query.as_bytes() });
        match route {
            AuthRoute::Metadata => json(StatusCode::OK, &self.metadata(), "public, max-age=300"),
            AuthRoute::Document => json(StatusCode::OK, &self.0.document, "public, max-age=300"),
            AuthRoute::Keys => match self.published_keys().await {
                Ok(keys) => json(StatusCode::OK, &keys, KEYS_CACHE),
                Err(error) => store_error(&error),
            },
            AuthRoute::Style => {
                let mut response = Response::new(Bytes::from_static(PAGE_STYLE.as_bytes()));
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8"));
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
                response
            }
            AuthRoute::Authorize => self.page_or_unavailable(self.authorize(parts, &form).await),
            AuthRoute::SignIn => self.page_or_unavailable(self.take_sign_in(parts, &form).await),
            AuthRoute::Upstream => {
                self.page_or_unavailable(self.handle_provider_callback(parts, &form).await)
            }
            AuthRoute::Connect => self.page_or_unavailable(self.connect(parts, &form).await),
            AuthRoute::Consent => self.page_or_unavailable(self.decide(parts, &form).await),
            AuthRoute::Token => token_endpoint_response(
                self.handle_token_request(parts, &form).await.map(|token| uncached_json(&token)),
            ),
            AuthRoute::Introspect => {
                token_endpoint_response(self.introspect(parts, &form).await.map(|said| uncached_json(&said)))
            }
            AuthRoute::Revoke => token_endpoint_response(
                self.revoke(parts, &form).await.map(|()| uncached_json(&serde_json::json!({}))),
            ),
            AuthRoute::Register if !has_type(parts, "application/json") => {
                let body = ErrorBody::new(ErrorCode::InvalidClientMetadata, "the body must be JSON");
                oauth_error(StatusCode::BAD_REQUEST, &body)
            }
            AuthRoute::Register => match self.register(body).await {
                Ok(registered) => json(StatusCode::CREATED, &registered, "no-store"),
                Err(RegisterClientError::Refused(body)) => oauth_error(StatusCode::BAD_REQUEST, &body),
                Err(RegisterClientError::Store(error)) => store_error(&error),
            },
        }
    }

    /// Returns true if a request names the issuer's host. A page whose name was rebound to this address (DNS rebinding)
    /// would otherwise share our origin and could use our pages.
    fn names_issuer_host(&self, parts: &Parts) -> bool {
        let Some(own) = self.settings().issuer.url() else { return false };
        let mut named = parts.headers.get_all(HOST).iter();
        let host = match (parts.uri.authority(), named.next(), named.next()) {
            (_, _, Some(_)) | (None, None, None) => return false,
            (Some(authority), _, None) => authority.as_str(),
            (None, Some(host), None) => host.to_str().unwrap_or_default(),
        };
        // Parsed with the scheme, so that its own port may be said or not.
        let asked = Url::parse(&format!("{}://{host}/", own.scheme()));
        asked.is_ok_and(|asked| asked.origin() == own.origin() && asked.username().is_empty())
    }

    /// Returns true if a form was sent by a page of another origin.
    fn is_cross_origin(&self, parts: &Parts) -> bool {
        if parts.method != Method::POST {
            return false;
        }
        let header = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap_or_default());
        match (header("origin"), header("sec-fetch-site")) {
            // Extensions and settings of a browser hide the origin.
            (None | Some("null"), Some(site)) => site != "same-origin",
            (Some(origin), _) => {
                let own = self.settings().issuer.url().map(|url| url.origin());
                Url::parse(origin).ok().map(|url| url.origin()) != own
            }
            // Not a browser: those send `Origin` with every form that goes to another origin.
            (None, None) => false,
        }
    }

    async fn check_rate_limit(&self, route: AuthRoute, from: Option<IpAddr>) -> Result<(), Duration> {
        match route {
            AuthRoute::Token | AuthRoute::Revoke | AuthRoute::Introspect => self.0.tokens.check(from).await,
            AuthRoute::Register => self.0.registrations.check(from).await,
            AuthRoute::SignIn => self.0.sign_ins.check_address(from).await,
            AuthRoute::Authorize | AuthRoute::Connect => self.0.authorizations.check(from).await,
            _ => Ok(()),
        }
    }

    /// Address that a request counts for in all limits: the client's, as far as trusted proxies state it. None if the request
    /// did not come from a socket.
    pub(super) fn sender(&self, parts: &Parts) -> Option<IpAddr> {
        let peer = parts.extensions.get::<RemoteAddress>()?.0.ip();
        Some(rate_limit_address(self.0.proxies.client(peer, &parts.headers)))
    }

    fn page_or_unavailable(&self, page: Result<Response<Bytes>, AuthStoreError>) -> Response<Bytes> {
        page.unwrap_or_else(|error| {
            tracing::error!(%error, "authorization request failed");
            self.unavailable_page("The server cannot access its database.")
        })
    }

    /// Answers a request from a socket. Returns `None` if the path does not belong to the server.
    async fn receive(&self, request: &mut Request<hyper::body::Incoming>) -> Option<Response<Bytes>> {
        // Checked before the body is read, which the endpoint behind this needs for itself.
        self.route(request.uri().path())?;
        let mut head = Request::new(()).into_parts().0;
        head.method = request.method().clone();
        head.uri = request.uri().clone();
        head.headers = request.headers().clone();
        if let Some(from) = request.extensions().get::<RemoteAddress>() {
            head.extensions.insert(*from);
        }
        let body = Limited::new(request.body_mut(), MAX_FORM_BYTES).collect();
        match tokio::time::timeout(FORM_TIMEOUT, body).await {
            Ok(Ok(body)) => self.answer(&head, &body.to_bytes()).await,
            Ok(Err(_)) => Some(empty(StatusCode::PAYLOAD_TOO_LARGE)),
            Err(_) => Some(empty(StatusCode::REQUEST_TIMEOUT)),
        }
    }
}

/// An authorization server on the same socket as an endpoint, with further middleware behind it, usually the
/// bearer-token middleware that accepts its tokens.
#[derive(Clone, Debug)]
pub struct AuthServerFront<F> {
    server: AuthServer,
    front: F,
}

impl AuthServer {
    /// Serves this server in front of `front`, the middleware of an endpoint on the same socket.
    pub fn in_front_of<F: HttpMiddleware>(self, front: F) -> AuthServerFront<F> {
        AuthServerFront { server: self, front }
    }
}

impl<F: HttpMiddleware> HttpMiddleware for AuthServerFront<F> {
    fn receive<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        request: &'a mut Request<hyper::body::Incoming>,
    ) -> MiddlewareFuture<'a> {
        Box::pin(async move {
            // Before the guard: clients come to these endpoints to get a token in the first place.
            if let Some(answer) = self.server.receive(request).await {
                return Some(answer);
            }
            self.front.receive(endpoint, request).await
        })
    }
}

fn has_type(parts: &Parts, wanted: &str) -> bool {
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted)
}

fn empty(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}

fn json(status: StatusCode, value: &impl Serialize, cache: &'static str) -> Response<Bytes> {
    let mut response = Response::new(serde_json::to_vec(value).unwrap_or_default().into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    response
}

fn uncached_json(value: &serde_json::Value) -> Response<Bytes> {
    json(StatusCode::OK, value, "no-store")
}

fn oauth_error(status: StatusCode, body: &ErrorBody) -> Response<Bytes> {
    json(status, body, "no-store")
}

fn store_error(error: &AuthStoreError) -> Response<Bytes> {
    tracing::error!(%error, "request to the authorization server failed");
    unavailable()
}

fn unavailable() -> Response<Bytes> {
    let mut response =
        oauth_error(StatusCode::SERVICE_UNAVAILABLE, &ErrorBody::from(ErrorCode::TemporarilyUnavailable));
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS));
    response
}

fn token_endpoint_response(done: Result<Response<Bytes>, TokenRequestError>) -> Response<Bytes> {
    match done {
        Ok(response) => response,
        Err(TokenRequestError::Refused(body)) => {
            // 401 is for `invalid_client`, and 400 for all other codes (RFC 6749, section 5.2).
            let client = body.error == ErrorCode::InvalidClient;
            oauth_error(if client { StatusCode::UNAUTHORIZED } else { StatusCode::BAD_REQUEST }, &body)
        }
        Err(TokenRequestError::Basic(body)) => {
            let mut response = oauth_error(StatusCode::UNAUTHORIZED, &body);
            // A client that used the header is told its scheme (RFC 6749, section 5.2).
            let challenge = Challenge::new("Basic").with("realm", "token");
            if let Ok(challenge) = HeaderValue::try_from(challenge.to_string()) {
                response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            }
            response
        }
        Err(TokenRequestError::Later) => unavailable(),
        Err(TokenRequestError::Nonce(nonce)) => {
            let body = ErrorBody::new(
                ErrorCode::UseDpopNonce,
                "the DPoP proof must contain the nonce of this response",
            );
            let mut response = oauth_error(StatusCode::BAD_REQUEST, &body);
            if let Ok(nonce) = HeaderValue::try_from(nonce) {
                response.headers_mut().insert(DPOP_NONCE, nonce);
            }
            response
        }
        Err(TokenRequestError::Store(error)) => store_error(&error),
    }
}
