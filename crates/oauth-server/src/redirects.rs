//! Validation of redirect URIs.

use hospes_auth::RedirectUri;
use hospes_auth::metadata::is_loopback;
use url::Url;

/// Redirects of well-known applications to schemes of their own (RFC 8252, section 7.1), each as the application registers
/// it. Other paths of these schemes are not accepted.
const KNOWN_APPLICATIONS: [&str; 2] =
    ["cursor://anysphere.cursor-mcp/oauth/callback", "cursor://anysphere.cursor-retrieval/oauth/callback"];

/// Schemes that open no installed application, but run a script, show a document or reach a service. They are never a
/// redirect.
const FORBIDDEN_SCHEMES: [&str; 20] = [
    "about",
    "blob",
    "chrome",
    "content",
    "data",
    "file",
    "filesystem",
    "ftp",
    "ftps",
    "intent",
    "jar",
    "javascript",
    "mailto",
    "resource",
    "sms",
    "tel",
    "vbscript",
    "view-source",
    "ws",
    "wss",
];

/// Returns true if a client may register this: https, http to the user's own machine (AUTG-09), or the private-use
/// redirect of a well-known application. With `private_schemes` also any scheme with a dot in it
/// (`com.example.app:/cb`).
#[must_use]
pub fn may_register(uri: &RedirectUri, private_schemes: bool) -> bool {
    let Some(url) = uri.url() else { return false };
    match url.scheme() {
        "https" => url.host_str().is_some_and(|host| !host.is_empty()),
        "http" => is_exact_loopback(&url),
        scheme => {
            KNOWN_APPLICATIONS.contains(&uri.as_str())
                || (private_schemes && scheme.contains('.') && !is_forbidden(&url))
        }
    }
}

/// Returns true if a configuration may name this redirect: one that a client may register, or any private-use scheme of
/// an installed application.
#[must_use]
pub fn may_configure(uri: &RedirectUri) -> bool {
    may_register(uri, false) || is_private_use(uri)
}

/// Returns true if the URI opens an installed application by its private-use scheme.
pub(super) fn is_private_use(uri: &RedirectUri) -> bool {
    uri.url().is_some_and(|url| !matches!(url.scheme(), "http" | "https") && !is_forbidden(&url))
}

/// Returns true if no legitimate client uses such a redirect.
pub(super) fn is_forbidden(url: &Url) -> bool {
    // The `ms-` schemes open parts of Windows and of Office.
    FORBIDDEN_SCHEMES.contains(&url.scheme()) || url.scheme().starts_with("ms-")
}

/// Returns true if a response may be sent to `asked` when the client has registered `registered`: the strings are
/// equal. For the user's own machine the port may differ, because a program does not know it beforehand (RFC 8252,
/// section 7.3).
#[must_use]
pub fn matches(registered: &RedirectUri, asked: &RedirectUri) -> bool {
    if registered == asked {
        return true;
    }
    let Some((registered, asked)) = loopback_parts(registered).zip(loopback_parts(asked)) else {
        return false;
    };
    registered == asked
}

/// Returns true if the recipient is certain: the owner of the host, over https. On the user's own machine any program
/// can listen at a port or claim a scheme.
pub(super) fn has_certain_recipient(uri: &RedirectUri) -> bool {
    uri.url().is_some_and(|url| url.scheme() == "https" && !is_loopback(&url))
}

fn is_exact_loopback(url: &Url) -> bool {
    matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"))
}

/// Returns the host and the part after the port of a loopback redirect, as written.
fn loopback_parts(uri: &RedirectUri) -> Option<(&'static str, &str)> {
    let rest = uri.as_str().strip_prefix("http://")?;
    for host in ["127.0.0.1", "[::1]", "localhost"] {
        let Some(rest) = rest.strip_prefix(host) else { continue };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (port, rest) = rest.split_at(end);
        let digits = port.strip_prefix(':').unwrap_or(port);
        // Only a port may follow the host: `localhost.example` is another host.
        let plain = port.is_empty() || (port.starts_with(':') && digits.parse::<u16>().is_ok());
        // `parse` alone would accept a sign.
        if plain && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some((host, rest));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn uri(text: &str) -> RedirectUri {
        RedirectUri::new(text).unwrap()
    }

    /// covers: AUTG-09 AUTS-15
    #[test]
    fn only_https_and_this_machine_are_registered() {
        for good in [
            "https://app.example/cb",
            "https://app.example",
            "http://127.0.0.1/cb",
            "http://127.0.0.1:1234/cb",
            "http://[::1]:1/cb",
            "http://localhost/",
        ] {
            assert!(may_register(&uri(good), false), "{good}");
        }
        for bad in [
            "http://app.example/cb",
            "http://localhost.evil.example/cb",
            "http://127.0.0.1.evil.example/cb",
            "http://10.0.0.1/cb",
            "http://127.0.0.2/cb",
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///srv/x",
            "com.example.app:/cb",
            "cb:/x",
        ] {
            assert!(!may_register(&uri(bad), false), "{bad}");
        }
        assert!(may_register(&uri("com.example.app:/cb"), true));
        assert!(!may_register(&uri("javascript:alert(1)"), true));
        for (text, configured) in [
            ("cb:/x", true),
            ("vscode://publisher.extension/callback/1", true),
            ("https://app.example/cb", true),
            ("http://app.example/cb", false),
            ("javascript:alert(1)", false),
            ("view-source:https://app.example", false),
            ("ms-msdt:/id", false),
            ("intent://x", false),
        ] {
            assert_eq!(may_configure(&uri(text)), configured, "{text}");
        }
        for never in ["http://127.0.0.1@evil.example/cb", "https://app.example/cb#x", "/cb", "*"] {
            assert!(RedirectUri::new(never).is_err(), "{never}");
        }
    }

    #[test]
    fn private_schemes_of_well_known_applications_are_registered_as_they_are() {
        assert!(may_register(&uri("cursor://anysphere.cursor-mcp/oauth/callback"), false));
        for other in [
            "cursor://anysphere.cursor-mcp/oauth/callback/",
            "cursor://anysphere.cursor-mcp/oauth/callback?x=1",
            "cursor://evil.extension/oauth/callback",
            "cursor:anysphere.cursor-mcp/oauth/callback",
            "CURSOR://anysphere.cursor-mcp/oauth/callback",
            "vscode://publisher.extension/callback",
        ] {
            assert!(!may_register(&uri(other), false), "{other}");
        }
    }

    #[test]
    fn a_redirect_is_the_registered_string_but_for_a_loopback_port() {
        let one = |registered: &str, asked: &str| matches(&uri(registered), &uri(asked));
        assert!(one("http://127.0.0.1/cb", "http://127.0.0.1:41233/cb"));
        assert!(one("http://127.0.0.1:1/cb?x=1", "http://127.0.0.1:2/cb?x=1"));
        assert!(one("http://[::1]:1/cb", "http://[::1]/cb"));
        assert!(one("http://localhost/cb", "http://localhost:5/cb"));
        for (registered, asked) in [
            ("https://a.example/cb", "https://a.example/cb/"),
            ("https://a.example/cb", "https://a.example/CB"),
            ("https://a.example/cb", "https://A.example/cb"),
            ("https://a.example/cb", "https://a.example/cb?x=1"),
            ("https://a.example/cb", "https://a.example:443/cb"),
            ("https://a.example/cb", "https://a.example:444/cb"),
            ("https://a.example/cb", "http://a.example/cb"),
            ("https://a.example/cb", "https://a.example/cb/../x"),
            ("https://a.example/cb", "https://a.example/%63b"),
            ("https://a.example/", "https://a.example"),
            ("http://127.0.0.1/cb", "http://localhost/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:1/other"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:1/cb?x=1"),
            ("http://127.0.0.1/cb", "https://127.0.0.1/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1.evil.example/cb"),
            ("http://localhost/cb", "http://localhost.evil.example/cb"),
            ("http://localhost/cb", "http://localhost:1.evil.example/cb"),
        ] {
            let Ok(asked_uri) = RedirectUri::new(asked) else { continue };
            assert!(!matches(&uri(registered), &asked_uri), "{registered} {asked}");
        }
    }

    /// The rule once more, said in the most simple-minded way.
    fn oracle(registered: &str, asked: &str) -> bool {
        if registered == asked {
            return true;
        }
        let without_port = |text: &str| {
            for host in ["http://127.0.0.1", "http://localhost", "http://[::1]"] {
                if text == host {
                    return Some((host, String::new()));
                }
                for port in 0..=u16::MAX {
                    let with = format!("{host}:{port}");
                    if text == with
                        || text.starts_with(&format!("{with}/"))
                        || text.starts_with(&format!("{with}?"))
                    {
                        return Some((host, text[with.len()..].to_owned()));
                    }
                    if port > 12 {
                        break;
                    }
                }
                if text.starts_with(&format!("{host}/")) || text.starts_with(&format!("{host}?")) {
                    return Some((host, text[host.len()..].to_owned()));
                }
            }
            None
        };
        match (without_port(registered), without_port(asked)) {
            (Some(one), Some(other)) => one == other,
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_oracle(
            one in "(http|https)://(127\\.0\\.0\\.1|localhost|\\[::1\\]|a\\.example|localhost\\.e)(:[0-9]|:1[0-2])?(/cb|/|/x)?(\\?q=1)?",
            other in "(http|https)://(127\\.0\\.0\\.1|localhost|\\[::1\\]|a\\.example|localhost\\.e)(:[0-9]|:1[0-2])?(/cb|/|/x)?(\\?q=1)?",
        ) {
            prop_assert_eq!(matches(&uri(&one), &uri(&other)), oracle(&one, &other));
        }
    }
}
