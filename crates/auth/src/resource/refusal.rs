//! How a request is refused (RFC 6750, section 3; RFC 9728, section 5.1).

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};

use super::Flaw;
use crate::client::DPOP_NONCE;
use crate::proofs::algorithm_names;
use crate::{Challenge, ErrorBody, ErrorCode, Scopes};

/// How long a client waits before it asks again when tokens cannot be checked, in seconds.
const RETRY_SECONDS: &str = "5";

/// Why a request does not come through.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// It shows no token.
    NoToken,
    /// It shows one in a way that is not allowed.
    Malformed(&'static str),
    /// Its token is not good.
    Token(Flaw),
    /// Its token is bound to a key, and that is not proven. Why, for the log.
    Proof(&'static str),
    /// The proof has to carry this.
    Nonce(String),
    /// Its token does not cover all of these, which it would have to.
    Scopes(Scopes),
}

impl Refused {
    /// The response: the status of the case, and a challenge that says where to get a token (`metadata`, a URL) and with
    /// which scopes. It says nothing of what is in the token.
    #[must_use]
    pub fn response(&self, metadata: &str, scopes: &Scopes) -> Response<Bytes> {
        let bearer = Challenge::new("Bearer");
        let (status, challenge, body) = match self {
            Self::NoToken => {
                // RFC 6750, section 3.1: who has shown nothing is told of no error.
                let body = ErrorBody::new(ErrorCode::InvalidToken, "authentication required");
                (StatusCode::UNAUTHORIZED, Some(located(bearer, metadata, scopes)), body)
            }
            Self::Token(Flaw::Unavailable) => {
                (StatusCode::SERVICE_UNAVAILABLE, None, ErrorBody::from(ErrorCode::TemporarilyUnavailable))
            }
            Self::Token(flaw) => {
                let body = ErrorBody::new(ErrorCode::InvalidToken, flaw.to_string());
                let challenge = located(with_error(bearer, &body), metadata, scopes);
                (StatusCode::UNAUTHORIZED, Some(challenge), body)
            }
            Self::Scopes(needed) => {
                let body = ErrorBody::new(
                    ErrorCode::InsufficientScope,
                    "the token does not cover what this operation needs",
                );
                let challenge = located(with_error(bearer, &body), metadata, needed);
                (StatusCode::FORBIDDEN, Some(challenge), body)
            }
            Self::Proof(_) | Self::Nonce(_) => {
                let body = match self {
                    Self::Nonce(_) => ErrorBody::from(ErrorCode::UseDpopNonce),
                    _ => ErrorBody::new(
                        ErrorCode::InvalidDpopProof,
                        "the proof of the key is missing or wrong",
                    ),
                };
                let dpop = Challenge::new("DPoP").with("algs", algorithm_names().join(" "));
                (StatusCode::UNAUTHORIZED, Some(located(with_error(dpop, &body), metadata, scopes)), body)
            }
            Self::Malformed(why) => {
                let body = ErrorBody::new(ErrorCode::InvalidRequest, *why);
                (StatusCode::BAD_REQUEST, Some(with_error(bearer, &body)), body)
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
        match challenge.map(|challenge| HeaderValue::try_from(challenge.to_string())) {
            Some(Ok(challenge)) => drop(headers.insert(WWW_AUTHENTICATE, challenge)),
            Some(Err(_)) => {}
            None => drop(headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS))),
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
