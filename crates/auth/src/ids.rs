//! Identifiers of OAuth parties, compared as received strings.
//!
//! A URL parser would change them (`https://as` becomes `https://as/`), and a changed identifier names another party.
//! Each is kept as the text that was received and is parsed only to fetch from it or to compare origins.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

/// Reason a text is not a valid identifier of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {why}")]
pub struct InvalidIdentifier {
    what: &'static str,
    why: &'static str,
}

/// Maximum length of an identifier, in bytes.
const MAX_LENGTH: usize = 2048;

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Box<str>);

        impl $name {
            /// Creates an identifier if the text is valid.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidIdentifier> {
                let text = text.into();
                let checked = if text.len() > MAX_LENGTH {
                    Err("must not be longer than 2048 bytes")
                } else {
                    $check(&text)
                };
                match checked {
                    Ok(()) => Ok(Self(text.into())),
                    Err(why) => Err(InvalidIdentifier { what: $what, why }),
                }
            }

            /// Returns the text as received.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidIdentifier;

            fn try_from(text: String) -> Result<Self, InvalidIdentifier> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.into()
            }
        }
    };
}

identifier! {
    /// An authorization server, by the identifier it gives itself (RFC 8414, section 2): an `http` or `https` URL
    /// without query and fragment.
    Issuer, "an issuer", check_issuer
}

identifier! {
    /// Audience of a token, the `resource` of RFC 8707: an absolute URI without fragment.
    Resource, "a resource", check_resource
}

identifier! {
    /// A client, by the name an authorization server knows it under.
    ClientId, "a client id", check_client_id
}

identifier! {
    /// Redirect URI of a client: an absolute URI without fragment and user information.
    RedirectUri, "a redirect URI", check_redirect
}

macro_rules! url_of {
    ($($name:ident),*) => {$(
        impl $name {
            /// Parses the identifier, for fetching or inspection. The parsed URL must not be compared or sent in its
            /// place.
            #[must_use]
            pub fn url(&self) -> Option<Url> {
                Url::parse(&self.0).ok()
            }
        }
    )*};
}

url_of!(Issuer, Resource, ClientId, RedirectUri);

fn check_url(text: &str) -> Result<Url, &'static str> {
    if text.contains('#') {
        return Err("must not have a fragment");
    }
    // The URL parser drops line breaks and tabs and escapes spaces, so the text would name another URL than
    // it fetches.
    if text.bytes().any(|byte| byte.is_ascii_control() || byte == b' ') {
        return Err("contains characters that are not allowed in a URL");
    }
    let url = Url::parse(text).map_err(|_| "is not an absolute URL")?;
    // With user information, `https://known.example@other.example` shows people another host than the one
    // it names.
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain a user name or password");
    }
    Ok(url)
}

fn check_issuer(text: &str) -> Result<(), &'static str> {
    let url = check_url(text)?;
    match (url.scheme(), url.query()) {
        ("http" | "https", None) => Ok(()),
        ("http" | "https", Some(_)) => Err("must not have a query"),
        _ => Err("is not an http or https URL"),
    }
}

fn check_resource(text: &str) -> Result<(), &'static str> {
    check_url(text).map(drop)
}

fn check_redirect(text: &str) -> Result<(), &'static str> {
    check_url(text).map(drop)
}

fn check_client_id(text: &str) -> Result<(), &'static str> {
    match text.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
        // The characters are those of VSCHAR (RFC 6749, appendix A.1), which lets `client_id` be empty; no
        // client is.
        _ if text.is_empty() => Err("is empty"),
        true => Ok(()),
        false => Err("contains characters that are not printable ASCII"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_kept_as_they_came() {
        for text in ["https://as", "https://as/", "https://AS:443/t1", "https://as/t1/"] {
            assert_eq!(Issuer::new(text).unwrap().as_str(), text);
        }
        assert_ne!(Issuer::new("https://as").unwrap(), Issuer::new("https://as/").unwrap());
    }

    #[test]
    fn refuse_what_names_nobody() {
        for text in [
            "",
            "as",
            "https://as?x=1",
            "https://as#x",
            "ftp://as",
            "https://me@as",
            "https://a s",
            "https://as\n",
        ] {
            assert!(Issuer::new(text).is_err(), "{text:?}");
        }
        assert!(Resource::new("https://m/mcp#part").is_err());
        assert!(RedirectUri::new("http://127.0.0.1:1@evil.example/callback").is_err());
        assert!(ClientId::new("n\u{e4}me").is_err());
        let long = format!("https://as/{}", "x".repeat(MAX_LENGTH));
        assert_eq!(
            Issuer::new(long).unwrap_err().to_string(),
            "an issuer must not be longer than 2048 bytes"
        );
    }
}
