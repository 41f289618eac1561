//! Errors of OAuth endpoints.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum length of third-party text that is displayed, in characters.
const MAX_SHOWN: usize = 200;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal),* $(,)?) => {
        /// The `error` of a refusal (RFC 6749, sections 4.1.2.1 and 5.2, and the extensions spoken here).
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
            /// One that is not known here.
            Other(Box<str>),
        }

        impl ErrorCode {
            /// The code as it appears in the protocol.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for ErrorCode {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$name,)*
                    other => Self::Other(shown(other).into()),
                }
            }
        }
    };
}

codes! {
    /// The user or the authorization server denied the request.
    AccessDenied = "access_denied",
    /// The token is valid but lacks a required scope.
    InsufficientScope = "insufficient_scope",
    /// The client is unknown or failed to authenticate.
    InvalidClient = "invalid_client",
    /// The metadata of a registration was rejected.
    InvalidClientMetadata = "invalid_client_metadata",
    /// The person has not yet entered the code (RFC 8628).
    AuthorizationPending = "authorization_pending",
    /// The code was not entered in time (RFC 8628).
    ExpiredToken = "expired_token",
    /// A proof of the key is missing or wrong.
    InvalidDpopProof = "invalid_dpop_proof",
    /// The code, refresh token or assertion is invalid or expired.
    InvalidGrant = "invalid_grant",
    /// A redirect URI of the registration was rejected.
    InvalidRedirectUri = "invalid_redirect_uri",
    /// A parameter is missing, repeated or malformed.
    InvalidRequest = "invalid_request",
    /// The scope is unknown, or exceeds the granted one.
    InvalidScope = "invalid_scope",
    /// The resource is unknown, or differs from the granted one.
    InvalidTarget = "invalid_target",
    /// The access token is invalid or expired.
    InvalidToken = "invalid_token",
    /// An internal error occurred.
    ServerError = "server_error",
    /// The client polls too often (RFC 8628).
    SlowDown = "slow_down",
    /// The server is temporarily unavailable.
    TemporarilyUnavailable = "temporarily_unavailable",
    /// The client may not use this grant.
    UnauthorizedClient = "unauthorized_client",
    /// Tokens of this type cannot be revoked (RFC 7009).
    UnsupportedTokenType = "unsupported_token_type",
    /// No such grant is spoken.
    UnsupportedGrantType = "unsupported_grant_type",
    /// No such answer is given.
    UnsupportedResponseType = "unsupported_response_type",
    /// The proof has to carry the nonce that comes with this answer.
    UseDpopNonce = "use_dpop_nonce",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Ok(Self::from(&*text))
    }
}

/// Body of an OAuth error response; also usable as an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorBody {
    /// Error code.
    pub error: ErrorCode,
    /// Explanation for people. It comes from the other party: display it only through [`shown`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_description: Option<String>,
}

impl ErrorBody {
    /// Creates an error body with a description.
    pub fn new(error: ErrorCode, description: impl Into<String>) -> Self {
        Self { error, error_description: Some(description.into()) }
    }
}

impl From<ErrorCode> for ErrorBody {
    fn from(error: ErrorCode) -> Self {
        Self { error, error_description: None }
    }
}

impl fmt::Display for ErrorBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.error.as_str())?;
        match self.error_description.as_deref().map(shown) {
            Some(text) if !text.is_empty() => write!(f, " ({text})"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ErrorBody {}

/// Makes third-party text safe to display: one line, no control characters, at most 200 characters.
#[must_use]
pub fn shown(text: &str) -> String {
    // Line breaks become spaces before control characters are dropped, so that words stay apart.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // One character more than is shown, so that the ellipsis only stands where something was cut.
    let mut short: String =
        words.chars().filter(|c| !c.is_control() && !is_invisible(*c)).take(MAX_SHOWN + 1).collect();
    if let Some((end, _)) = short.char_indices().nth(MAX_SHOWN) {
        short.truncate(end);
        short.push('…');
    }
    short
}

/// Returns true for characters that are invisible or change the writing direction: zero-width characters and direction
/// controls.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_what_is_there() {
        assert_eq!(shown("a\u{202e}b\u{200b}c\u{2066}d\u{feff}e\u{e0061} é"), "abcde é");
    }

    #[test]
    fn a_refusal_reads_and_writes_as_oauth_has_it() {
        let body: ErrorBody = serde_json::from_str(
            r#"{"error":"invalid_grant","error_description":"gone\u001b[31m\nnow","error_uri":"x"}"#,
        )
        .unwrap();
        assert_eq!(body.error, ErrorCode::InvalidGrant);
        assert_eq!(body.to_string(), "invalid_grant (gone[31m now)");
        assert_eq!(
            serde_json::to_string(&ErrorBody::from(ErrorCode::InvalidClient)).unwrap(),
            r#"{"error":"invalid_client"}"#
        );
        assert_eq!(ErrorCode::from("made_up").as_str(), "made_up");
        assert!(shown(&"x".repeat(1000)).chars().count() <= MAX_SHOWN + 1);
    }
}
