//! Middleware for an endpoint without sign-in. It admits programs of the host's user.

use std::fmt;
use std::net::SocketAddr;

use bytes::Bytes;
use hospes::transport::http_server::{
    CallerLabel as CallerWords, ConnectionLocal, Endpoint, HttpMiddleware, MiddlewareFuture, RemoteAddress,
};
use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{CallerLookupError, LocalCaller, ProgramTokenStore};

/// Rule that determines which callers are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallerRule {
    /// Programs of the same user that no host has started; others by the token.
    SameUser,
    /// Callers that show the token.
    Token,
}

/// Middleware that admits callers by a [`CallerRule`]. The caller is looked up once for each connection and is recorded
/// in the audit log.
pub struct CallerMiddleware {
    rule: CallerRule,
    local: SocketAddr,
    /// True if this process runs as the administrator.
    is_administrator: bool,
    /// Hash of the token, so that the duration of a comparison reveals nothing about it.
    token: [u8; 32],
    /// Tokens of single applications.
    applications: Option<ProgramTokenStore>,
}

/// Token that a request shows.
#[derive(Debug, PartialEq, Eq)]
enum ShownToken {
    /// None that is valid here.
    None,
    /// The token of the endpoint.
    Endpoint,
    /// The token of the named application.
    Application(String),
}

type CallerLookup = Result<LocalCaller, CallerLookupError>;

impl CallerMiddleware {
    /// Creates the middleware for the endpoint that listens at `local`.
    #[must_use]
    pub fn new(rule: CallerRule, local: SocketAddr, token: &str) -> Self {
        let is_administrator = super::is_administrator();
        Self { rule, local, is_administrator, token: Sha256::digest(token).into(), applications: None }
    }

    /// Also admits applications by tokens of their own, until these are revoked.
    #[must_use]
    pub fn application_tokens(mut self, tokens: ProgramTokenStore) -> Self {
        self.applications = Some(tokens);
        self
    }

    async fn identify_caller(&self, request: &Request<Incoming>) -> CallerLookup {
        let extensions = request.extensions();
        let Some(RemoteAddress(remote)) = extensions.get::<RemoteAddress>().copied() else {
            return Err(CallerLookupError::Elsewhere);
        };
        let local = self.local;
        // Polled for the first request of a connection only, which remembers what was found.
        let find = async move {
            // It reads much of `/proc`.
            let looked = tokio::task::spawn_blocking(move || LocalCaller::of_connection(local, remote)).await;
            looked.unwrap_or(Err(CallerLookupError::Elsewhere))
        };
        match extensions.get::<ConnectionLocal>() {
            Some(memory) => memory
                .get_or_init::<CallerLookup>(find)
                .await
                .map_or(Err(CallerLookupError::Elsewhere), |known| (*known).clone()),
            None => find.await,
        }
    }

    fn shows_token(&self, headers: &HeaderMap) -> ShownToken {
        let mut shown = headers.get_all(AUTHORIZATION).iter();
        // With two of them, what stands in front may have looked at the other one.
        let (Some(one), None) = (shown.next(), shown.next()) else { return ShownToken::None };
        let Some((scheme, token)) = one.to_str().ok().and_then(|text| text.split_once(' ')) else {
            return ShownToken::None;
        };
        if !scheme.eq_ignore_ascii_case("bearer") {
            return ShownToken::None;
        }
        let hash: [u8; 32] = Sha256::digest(token.trim()).into();
        if hash == self.token {
            return ShownToken::Endpoint;
        }
        // The file is read each time, so that a revoked token is refused at once.
        let application = self.applications.as_ref().and_then(|tokens| tokens.name_of(token.trim()));
        application.map_or(ShownToken::None, ShownToken::Application)
    }

    /// Returns the reason why the caller is refused. `None` if it is admitted.
    fn refusal_reason(&self, known: &CallerLookup, has_token: bool) -> Option<String> {
        // Before the token: a server that got hold of it is refused all the same.
        if let Ok(caller) = known
            && caller.is_server
            && self.rule == CallerRule::SameUser
        {
            return Some(format!(
                "{caller} is a server started by a host; servers may not call this endpoint"
            ));
        }
        if has_token {
            return None;
        }
        let token = "send the endpoint's token as `Authorization: Bearer TOKEN`";
        match (self.rule, known) {
            (CallerRule::SameUser, Ok(caller)) if caller.is_same_user() => None,
            (CallerRule::SameUser, Ok(caller)) => {
                Some(format!("{caller} does not belong to the user who runs this host: {token}"))
            }
            // From the administrator there are no secrets. A host of the administrator sees all processes: what it
            // cannot identify has just ended or been given another parent, and may be a server.
            (CallerRule::SameUser, Err(CallerLookupError::Hidden { uid: 0 })) if !self.is_administrator => {
                None
            }
            (CallerRule::SameUser, Err(why)) => Some(format!(
                "the calling program cannot be identified ({why}), and only programs of this user are allowed: {token}"
            )),
            (CallerRule::Token, _) => Some(format!("this endpoint requires a token: {token}")),
        }
    }
}

/// Adjusts the caller of a request that a proxy may have forwarded. The proxy is then not the real caller, although it
/// is a program of the user. Forwarding headers can be forged, but only lower the trust. A server started by a host
/// stays one, whatever headers it sends.
fn check_forwarded(known: CallerLookup, headers: &HeaderMap) -> CallerLookup {
    let is_server = known.as_ref().is_ok_and(|caller| caller.is_server);
    if is_server || !hospes_auth::is_forwarded(headers) { known } else { Err(CallerLookupError::Forwarded) }
}

impl HttpMiddleware for CallerMiddleware {
    fn receive<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        request: &'a mut Request<Incoming>,
    ) -> MiddlewareFuture<'a> {
        Box::pin(async move {
            let known = self.identify_caller(request).await;
            let known = check_forwarded(known, request.headers());
            let token = self.shows_token(request.headers());
            let has_token = token != ShownToken::None;
            // The token goes no further.
            request.headers_mut().remove(AUTHORIZATION);
            // A browser asks for pages of elsewhere first, and cannot show a token with that.
            let is_preflight = request.method() == http::Method::OPTIONS;
            if let Some(why) = self.refusal_reason(&known, has_token).filter(|_| !is_preflight) {
                tracing::warn!(why, "request rejected");
                // Parts come only from a whole request, and the body of this one must stay where it is.
                let (parts, ()) = {
                    let mut head = Request::new(());
                    *head.uri_mut() = request.uri().clone();
                    *head.headers_mut() = request.headers().clone();
                    head.into_parts()
                };
                let mut response = self.refuse(&why);
                endpoint.add_cors_headers(&parts, &mut response);
                return Some(response);
            }
            let words = match &known {
                Ok(caller) => caller.to_string(),
                Err(CallerLookupError::Hidden { uid }) => format!("a program of user {uid}"),
                Err(CallerLookupError::Forwarded) => "a program behind a proxy".to_owned(),
                Err(_) => "a program that could not be identified".to_owned(),
            };
            let words = match token {
                ShownToken::Application(name) => format!("{words}, with the token of {name}"),
                _ => words,
            };
            request.extensions_mut().insert(CallerWords::new(words));
            None
        })
    }
}

impl CallerMiddleware {
    fn refuse(&self, why: &str) -> Response<Bytes> {
        // The id is null because the body has not been read (JSON-RPC 2.0, section 5).
        let body = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32_600, "message": why } });
        let mut response = Response::new(Bytes::from(body.to_string()));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // What asks for a token sends clients to look for who makes them out; only where one is wanted of all is that right.
        *response.status_mut() = match self.rule {
            CallerRule::Token => {
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                StatusCode::UNAUTHORIZED
            }
            CallerRule::SameUser => StatusCode::FORBIDDEN,
        };
        response
    }
}

impl fmt::Debug for CallerMiddleware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerMiddleware")
            .field("rule", &self.rule)
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_administrator_hides_is_served_to_other_users_alone() {
        let front = |is_administrator| CallerMiddleware {
            rule: CallerRule::SameUser,
            local: ([127, 0, 0, 1], 1).into(),
            is_administrator,
            token: [0; 32],
            applications: None,
        };
        let hidden = |uid| Err(CallerLookupError::Hidden { uid });
        assert_eq!(front(false).refusal_reason(&hidden(0), false), None);
        assert!(front(true).refusal_reason(&hidden(0), false).is_some());
        assert_eq!(front(true).refusal_reason(&hidden(0), true), None);
        assert!(front(false).refusal_reason(&hidden(1000), false).is_some());
    }
}
