//! Extraction of the token from a request.

use hospes_auth::jwt::MAX_TOKEN_LENGTH;

use http::Request;
use http::header::AUTHORIZATION;

use crate::bearer_error::BearerAuthError;

/// Authentication scheme in which a token is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenScheme {
    Bearer,
    /// With a proof of the key that it is bound to.
    Dpop,
}

/// Returns the token of a request, which must be in exactly one allowed place.
pub(super) fn extract_token<B>(request: &Request<B>) -> Result<(TokenScheme, &str), BearerAuthError> {
    let query = request.uri().query().unwrap_or_default();
    if url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "access_token") {
        // Addresses end up in logs and histories.
        return Err(BearerAuthError::Malformed("access tokens in the query string are not accepted"));
    }
    let mut headers = request.headers().get_all(AUTHORIZATION).iter();
    let Some(header) = headers.next() else { return Err(BearerAuthError::NoToken) };
    if headers.next().is_some() {
        return Err(BearerAuthError::Malformed("the request has more than one Authorization header"));
    }
    let malformed = BearerAuthError::Malformed("the Authorization header is malformed");
    let Ok(header) = header.to_str() else { return Err(malformed) };
    let (scheme, token) = header.split_once(' ').unwrap_or((header, ""));
    let scheme = match scheme {
        _ if scheme.eq_ignore_ascii_case("bearer") => TokenScheme::Bearer,
        _ if scheme.eq_ignore_ascii_case("dpop") => TokenScheme::Dpop,
        // Another scheme is not a malformed token: the challenge then says which schemes are accepted.
        _ => return Err(BearerAuthError::NoToken),
    };
    let token = token.trim_matches(' ');
    // The characters of `b64token` (RFC 6750, section 2.1).
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if token.is_empty() || token.len() > MAX_TOKEN_LENGTH || !token.bytes().all(allowed) {
        return Err(malformed);
    }
    Ok((scheme, token))
}
