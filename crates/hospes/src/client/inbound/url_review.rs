//! Review of a URL before a person opens it.

use std::fmt;

/// A URL that a server asks the user to open, parsed for display (ELIC-29, ELIC-31).
///
/// A review fetches nothing. An application shows the whole [`url`](Self::url), highlights the [`domain`](Self::domain)
/// and displays the [`warnings`](Self::warnings). Once the person agrees, it opens the URL in their browser, never
/// through a shell.
///
/// ```
/// # use hospes::client::UrlReview;
/// let review = UrlReview::of("https://accounts.example.com/sign-in?for=files").unwrap();
/// assert_eq!(review.domain, "accounts.example.com");
/// assert!(review.warnings.is_empty());
/// assert!(UrlReview::of("javascript:alert(1)").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UrlReview {
    /// The whole URL in ASCII, as used by browsers.
    pub url: String,
    /// Host in ASCII.
    pub domain: String,
    /// Warnings for the person.
    pub warnings: Vec<UrlWarning>,
}

/// Reason to check a URL carefully.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlWarning {
    /// The domain has letters beyond ASCII, which may look like others (Punycode).
    Punycode,
    /// The connection is not encrypted.
    NotEncrypted,
    /// The host is an address and no name.
    Address,
}

impl fmt::Display for UrlWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Punycode => "the domain contains characters that may look like others",
            Self::NotEncrypted => "the connection is not encrypted",
            Self::Address => "the host is an IP address instead of a name",
        })
    }
}

/// Reason a person must not be sent to a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlReviewError {
    /// The text is not a URL.
    #[error("it is not a valid URL")]
    Malformed,
    /// It is no page of the web: only `https` is, and `http`.
    #[error("only https and http URLs can be opened")]
    Scheme,
    /// It holds a name or a password, which also lets one host look like another.
    #[error("a URL that contains credentials cannot be opened")]
    Credentials,
}

impl UrlReview {
    /// Parses and checks a URL.
    ///
    /// # Errors
    /// When no person should be sent there.
    pub fn of(url: &str) -> Result<Self, UrlReviewError> {
        // The parser removes tabs and line breaks silently: what is shown would not be what the server sent.
        if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(UrlReviewError::Malformed);
        }
        let url = url::Url::parse(url).map_err(|_| UrlReviewError::Malformed)?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(UrlReviewError::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlReviewError::Credentials);
        }
        let host = url.host().ok_or(UrlReviewError::Malformed)?;
        let (is_name, is_here) = match &host {
            // RFC 6761, section 6.3, reserves these names for the own machine.
            url::Host::Domain(name) => (true, *name == "localhost" || name.ends_with(".localhost")),
            url::Host::Ipv4(address) => (false, address.is_loopback()),
            url::Host::Ipv6(address) => (false, address.is_loopback()),
        };
        let domain = host.to_string();
        let mut warnings = Vec::new();
        if domain.split('.').any(|label| label.starts_with("xn--")) {
            warnings.push(UrlWarning::Punycode);
        }
        if url.scheme() == "http" && !is_here {
            warnings.push(UrlWarning::NotEncrypted);
        }
        if !is_name && !is_here {
            warnings.push(UrlWarning::Address);
        }
        Ok(Self { url: url.into(), domain, warnings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// covers: ELIC-31
    #[test]
    fn a_url_is_shown_whole_with_its_domain_and_what_is_odd_about_it() {
        let warnings = |url: &str| UrlReview::of(url).unwrap().warnings;
        assert_eq!(warnings("https://example.com/a?b#c"), []);
        assert_eq!(warnings("http://localhost:8080/"), []);
        assert_eq!(warnings("http://127.0.0.1/"), []);
        assert_eq!(warnings("http://example.com/"), [UrlWarning::NotEncrypted]);
        assert_eq!(warnings("https://203.0.113.7/"), [UrlWarning::Address]);
        let odd = UrlReview::of("https://ex\u{430}mple.com/sign-in").unwrap();
        assert_eq!(odd.warnings, [UrlWarning::Punycode]);
        assert_eq!(
            (odd.domain.as_str(), odd.url.as_str()),
            ("xn--exmple-4nf.com", "https://xn--exmple-4nf.com/sign-in")
        );
        for (url, refusal) in [
            ("example.com", UrlReviewError::Malformed),
            ("https://", UrlReviewError::Malformed),
            ("https://example.com/\n", UrlReviewError::Malformed),
            ("javascript:alert(1)", UrlReviewError::Scheme),
            ("file:///etc/passwd", UrlReviewError::Scheme),
            ("https://example.com@evil.test/", UrlReviewError::Credentials),
        ] {
            assert_eq!(UrlReview::of(url), Err(refusal), "{url}");
        }
    }
}
