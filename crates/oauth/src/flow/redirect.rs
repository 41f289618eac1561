//! Validation of the authorization response from the browser.

use hospes_auth::{ErrorBody, ErrorCode, Issuer};
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;
use url::Url;

use crate::error::RedirectError;

/// Maximum time to wait for an authorization response, in seconds.
pub(crate) const PENDING_SECONDS: u64 = 600;

/// Expected properties of an authorization response.
pub(super) struct ExpectedResponse<'a> {
    pub(super) state: &'a SecretString,
    pub(super) issuer: &'a Issuer,
    /// True if the server declares that its responses always have `iss`.
    pub(super) iss_required: bool,
    pub(super) created_at: u64,
}

/// Returns the code in `answer`, if it is the `expected` response. As in RFC 9207, the issuer is checked before
/// anything else is trusted or shown.
pub(super) fn read(
    expected: &ExpectedResponse<'_>,
    answer: &str,
    now: u64,
) -> Result<SecretString, RedirectError> {
    if now > expected.created_at.saturating_add(PENDING_SECONDS) {
        return Err(RedirectError::Expired);
    }
    let url = Url::parse(answer).map_err(|_| RedirectError::Elsewhere)?;
    let [mut code, mut state, mut iss, mut error, mut description] = [const { None::<String> }; 5];
    for (name, value) in parameters(&url) {
        let (name, place) = match name.as_str() {
            "code" => ("code", &mut code),
            "state" => ("state", &mut state),
            "iss" => ("iss", &mut iss),
            "error" => ("error", &mut error),
            "error_description" => ("error_description", &mut description),
            // Unknown parameters of an answer are ignored (RFC 6749, section 4.1.2).
            _ => continue,
        };
        // No parameter may be repeated (RFC 6749, section 3.1): two readers could take two different
        // values.
        if place.replace(value).is_some() {
            return Err(RedirectError::Repeated(name));
        }
    }
    let sent = expected.state.expose_secret().as_bytes();
    if !state.is_some_and(|state| bool::from(state.as_bytes().ct_eq(sent))) {
        return Err(RedirectError::State);
    }
    match iss {
        // Byte for byte: whatever is made the same here could be somebody else's.
        Some(iss) if iss == expected.issuer.as_str() => {}
        // AUTC-48: `iss` may only be missing where the server has not announced it.
        None if !expected.iss_required => {}
        _ => return Err(RedirectError::Issuer),
    }
    if let Some(error) = error {
        return Err(RedirectError::Refused(refusal(&error, description)));
    }
    code.filter(|code| !code.is_empty()).map(SecretString::from).ok_or(RedirectError::NoCode)
}

/// Returns the query parameters of a URL.
fn parameters(url: &Url) -> Vec<(String, String)> {
    url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// Converts the error parameters of a response to an error body that is safe to display.
fn refusal(error: &str, description: Option<String>) -> ErrorBody {
    let mut body = ErrorBody::from(ErrorCode::from(error));
    body.error_description = description;
    body
}
