//! Error responses of the resource server (RFC 6750, section 3; RFC 9728, section 5.1).

use bytes::Bytes;
use hospes_auth::dpop::{DPOP_NONCE, algorithm_names};
use hospes_auth::{Challenge, ErrorBody, ErrorCode, Scopes};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};

use super::token_verifier::VerifyTokenError;

/// Value of `Retry-After` when tokens cannot be checked, in seconds.
const RETRY_SECONDS: &str = "5";

/// Reasons a request is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BearerAuthError {
    /// The request has no token.
    NoToken,
    /// The token is presented in an invalid way.
    Malformed(&'static str),
    /// The token is invalid.
    Token(VerifyTokenError),
    /// Its token is bound to a key, and that is not proven. Why, for the log.
    Proof(&'static str),
    /// The proof has to carry this.
    Nonce(String),
    /// Its token does not cover all of these, which it would have to.
    Scopes(Scopes),
}

/// Accepted authentication schemes, as a challenge names them (RFC 9449, section 7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcceptedSchemes {
    /// Bearer tokens, which need no proof of a key.
    #[default]
    Bearer,
    /// Either that, or the token is bound to a key, which is proven.
    Both,
    /// Every token is bound to a key.
    Dpop,
}

impl AcceptedSchemes {
    /// Returns one challenge per scheme. The less demanding one comes first, because some clients read only the first.
    fn challenges(self) -> Vec<Challenge> {
        let bearer = Challenge::new("Bearer");
        match self {
            Self::Bearer => vec![bearer],
            Self::Both => vec![bearer, dpop()],
            Self::Dpop => vec![dpop()],
        }
    }
}

fn dpop() -> Challenge {
    Challenge::new("DPoP").with("algs", algorithm_names().join(" "))
}

impl BearerAuthError {
    /// Creates the response: the status, and a challenge for each of the `schemes` with the metadata URL and the
    /// required scopes. It reveals nothing about the token's content.
    #[must_use]
    pub fn response(&self, metadata: &str, scopes: &Scopes, schemes: AcceptedSchemes) -> Response<Bytes> {
        let all = |say: &dyn Fn(Challenge) -> Challenge| schemes.challenges().into_iter().map(say).collect();
        let (status, challenges, body): (_, Vec<Challenge>, _) = match self {
            Self::NoToken => {
                // RFC 6750, section 3.1: who has shown nothing is told of no error.
                let body = ErrorBody::new(ErrorCode::InvalidToken, "authentication required");
                (StatusCode::UNAUTHORIZED, all(&|challenge| located(challenge, metadata, scopes)), body)
            }
            Self::Token(VerifyTokenError::Unavailable) => {
                // No challenge here: the token may be good, and the client would throw it away and sign in
                // again.
                let body = ErrorBody::from(ErrorCode::TemporarilyUnavailable);
                (StatusCode::SERVICE_UNAVAILABLE, Vec::new(), body)
            }
            Self::Token(flaw) => {
                let body = ErrorBody::new(ErrorCode::InvalidToken, flaw.to_string());
                let challenges = all(&|challenge| located(with_error(challenge, &body), metadata, scopes));
                (StatusCode::UNAUTHORIZED, challenges, body)
            }
            Self::Scopes(needed) => {
                let body = ErrorBody::new(
                    ErrorCode::InsufficientScope,
                    "the token lacks a scope that this operation requires",
                );
                let challenges = all(&|challenge| located(with_error(challenge, &body), metadata, needed));
                (StatusCode::FORBIDDEN, challenges, body)
            }
            Self::Proof(_) | Self::Nonce(_) => {
                let body = match self {
                    Self::Nonce(_) => ErrorBody::from(ErrorCode::UseDpopNonce),
                    _ => ErrorBody::new(ErrorCode::InvalidDpopProof, "the DPoP proof is missing or invalid"),
                };
                let challenge = located(with_error(dpop(), &body), metadata, scopes);
                (StatusCode::UNAUTHORIZED, vec![challenge], body)
            }
            Self::Malformed(why) => {
                let body = ErrorBody::new(ErrorCode::InvalidRequest, *why);
                (StatusCode::BAD_REQUEST, all(&|challenge| with_error(challenge, &body)), body)
            }
        };
        let mut response = Response::new(serde_json::to_vec(&body).unwrap_or_default().into());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Self::Nonce(nonce) = self
            && let Ok(nonce) = HeaderValue::try_from(nonce)
        {
            headers.insert(DPOP_NONCE, nonce);
        }
        // Only the failed check has no challenge, and only that one passes by itself.
        if challenges.is_empty() {
            headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS));
        }
        for challenge in challenges {
            if let Ok(challenge) = HeaderValue::try_from(challenge.to_string()) {
                headers.append(WWW_AUTHENTICATE, challenge);
            }
        }
        response
    }
}

fn with_error(challenge: Challenge, body: &ErrorBody) -> Challenge {
    let challenge = challenge.with("error", &body.error);
    match &body.error_description {
        Some(text) => challenge.with("error_description", text),
        None => challenge,
    }
}

fn located(challenge: Challenge, metadata: &str, scopes: &Scopes) -> Challenge {
    let challenge = challenge.with("resource_metadata", metadata);
    if scopes.is_empty() { challenge } else { challenge.with("scope", scopes) }
}
