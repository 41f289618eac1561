//! Independent checks of the headers `Host` and `Origin`.
//!
//! A page in a browser can send requests to servers on the same machine. `Origin` identifies the page. `Host` has the
//! name under which the browser reached the server, which reveals DNS rebinding.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Values of `Host` that a server accepts: the setting `allowed_hosts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedHosts(Option<Vec<HostPattern>>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    Loopback,
    Named { name: Box<str>, port: PortPattern },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortPattern {
    Any,
    Exactly(Option<u16>),
}

impl Default for AllowedHosts {
    fn default() -> Self {
        Self::loopback()
    }
}

impl AllowedHosts {
    /// Accepts all hosts, for servers behind a proxy that checks them, or with nothing to protect.
    #[must_use]
    pub fn any() -> Self {
        Self(None)
    }

    /// Accepts `localhost` and the loopback addresses at any port (the default).
    #[must_use]
    pub fn loopback() -> Self {
        Self(Some(vec![HostPattern::Loopback]))
    }

    /// Returns true if [`AllowedHosts::allow`] supports this form. Other forms would never match.
    #[must_use]
    pub fn is_valid_form(host: &str) -> bool {
        host == "*" || split_port(host).is_some()
    }

    /// Also accepts this host: `name`, which matches any port, or `name:port`; `*` accepts all.
    #[must_use]
    pub fn allow(mut self, host: &str) -> Self {
        if host == "*" {
            self.0 = None;
        }
        if let (Some(patterns), Some((name, port))) = (&mut self.0, split_port(host)) {
            let port = if port.is_some() { PortPattern::Exactly(port) } else { PortPattern::Any };
            patterns.push(HostPattern::Named { name: name.to_ascii_lowercase().into(), port });
        }
        self
    }

    /// Returns true if this value of `Host` (or HTTP/2 `:authority`) is accepted.
    #[must_use]
    pub fn allows(&self, host: &str) -> bool {
        let Some(patterns) = &self.0 else { return true };
        let Some((name, port)) = split_port(host) else { return false };
        patterns.iter().any(|pattern| match pattern {
            HostPattern::Loopback => is_loopback(name),
            HostPattern::Named { name: allowed, port: at } => {
                allowed.eq_ignore_ascii_case(name) && at.matches(port)
            }
        })
    }
}

/// Values of `Origin` that a server accepts: the setting `allowed_origins`. Requests without an `Origin` do not come
/// from a web page and are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedOrigins(Option<Vec<OriginPattern>>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum OriginPattern {
    Loopback,
    Named {
        scheme: Box<str>,
        name: Box<str>,
        port: PortPattern,
    },
    /// `null`, or text without a scheme and a host.
    Literal(Box<str>),
}

impl Default for AllowedOrigins {
    fn default() -> Self {
        Self::loopback()
    }
}

impl AllowedOrigins {
    /// Accepts all origins.
    #[must_use]
    pub fn any() -> Self {
        Self(None)
    }

    /// Accepts pages served by this machine (`http` or `https`, any port): the default.
    #[must_use]
    pub fn loopback() -> Self {
        Self(Some(vec![OriginPattern::Loopback]))
    }

    /// Accepts no web page, not even of this machine.
    #[must_use]
    pub fn none() -> Self {
        Self(Some(Vec::new()))
    }

    /// Returns true if [`AllowedOrigins::allow`] supports this form. Other forms would match no web page.
    #[must_use]
    pub fn is_valid_form(origin: &str) -> bool {
        // RFC 3986, section 3.1.
        let of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        let is_scheme =
            |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(of_scheme);
        match split_origin(origin.strip_suffix(":*").unwrap_or(origin)) {
            Some((scheme, _, _)) => is_scheme(scheme),
            None => matches!(origin, "null" | "*"),
        }
    }

    /// Also accepts this origin: `scheme://host`, `scheme://host:port`, `scheme://host:*`, or `null`; `*` accepts all.
    #[must_use]
    pub fn allow(mut self, origin: &str) -> Self {
        if origin == "*" {
            self.0 = None;
        }
        let Some(patterns) = &mut self.0 else { return self };
        let (origin, any_port) = match origin.strip_suffix(":*") {
            Some(origin) => (origin, true),
            None => (origin, false),
        };
        patterns.push(match split_origin(origin) {
            Some((scheme, name, port)) => OriginPattern::Named {
                scheme: scheme.to_ascii_lowercase().into(),
                name: name.to_ascii_lowercase().into(),
                port: if any_port { PortPattern::Any } else { PortPattern::Exactly(port) },
            },
            None => OriginPattern::Literal(origin.into()),
        });
        self
    }

    /// Returns true if pages of this origin may send requests.
    #[must_use]
    pub fn allows(&self, origin: &str) -> bool {
        let Some(patterns) = &self.0 else { return true };
        let parts = split_origin(origin);
        patterns.iter().any(|pattern| match (pattern, parts) {
            (OriginPattern::Loopback, Some((scheme, name, _))) => {
                (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
                    && is_loopback(name)
            }
            (OriginPattern::Named { scheme, name, port }, Some((its_scheme, its_name, its_port))) => {
                scheme.eq_ignore_ascii_case(its_scheme)
                    && name.eq_ignore_ascii_case(its_name)
                    && port.matches(its_port)
            }
            (OriginPattern::Literal(literal), _) => **literal == *origin,
            (_, None) => false,
        })
    }
}

impl PortPattern {
    fn matches(self, port: Option<u16>) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(want) => want == port,
        }
    }
}

fn split_origin(origin: &str) -> Option<(&str, &str, Option<u16>)> {
    let (scheme, host) = origin.split_once("://")?;
    let (name, port) = split_port(host)?;
    // Browsers leave out the default port, but a setting may contain it.
    let port = match (scheme, port) {
        ("http", Some(80)) | ("https", Some(443)) => None,
        (_, port) => port,
    };
    Some((scheme, name, port))
}

/// Splits `name`, `name:port`, `[v6]` and `[v6]:port`. Returns `None` for other forms.
fn split_port(host: &str) -> Option<(&str, Option<u16>)> {
    let (name, rest) = if host.starts_with('[') {
        host.split_at(host.find(']')? + 1)
    } else {
        host.split_at(host.find(':').unwrap_or(host.len()))
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => Some(port.parse().ok()?),
        None if rest.is_empty() => None,
        None => return None,
    };
    let sound = |b: u8| b.is_ascii_alphanumeric() || b"-._~[]:%".contains(&b);
    (!name.is_empty() && name.bytes().all(sound)).then_some((name, port))
}

fn is_loopback(name: &str) -> bool {
    if let Some(address) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok_and(|ip| ip.is_loopback());
    }
    name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_never_match_is_told_apart() {
        for good in ["*", "mcp.example.org", "mcp.example.org:8443", "[::1]:80", "10.0.0.1"] {
            assert!(
                AllowedHosts::is_valid_form(good) && AllowedHosts::loopback().allow(good).allows(good),
                "{good}"
            );
        }
        for junk in
            ["", "https://mcp.example.org", "mcp.example.org/", "a b", "name:port", "a,b", "name:99999"]
        {
            assert!(!AllowedHosts::is_valid_form(junk), "{junk}");
        }
        for good in
            ["*", "null", "https://example.org", "http://dev:*", "https://example.org:8443", "app+x://y"]
        {
            assert!(AllowedOrigins::is_valid_form(good), "{good}");
        }
        for junk in [
            "",
            "example.org",
            "https://",
            "https://*",
            "https://a/b",
            "https://a b",
            "://a",
            "1x://a",
            "Null",
        ] {
            assert!(!AllowedOrigins::is_valid_form(junk), "{junk}");
        }
    }

    #[test]
    fn only_loopback_hosts_are_allowed_by_default() {
        let hosts = AllowedHosts::default();
        for good in ["localhost", "LOCALHOST:80", "127.0.0.1:7337", "127.9.9.9", "[::1]", "[::1]:7337"] {
            assert!(hosts.allows(good), "{good}");
        }
        for bad in [
            "evil.example.com",
            "localhost.evil.example.com",
            "127.0.0.1.evil.example.com:80",
            "evil.example.com@localhost",
            "localhost@evil.example.com",
            "localhost:80:80",
            "localhost:x",
            "[::1]x",
            "[::2]",
            "0.0.0.0",
            "10.0.0.1",
            "",
            ":80",
            "[::1",
        ] {
            assert!(!hosts.allows(bad), "{bad}");
        }
    }

    #[test]
    fn hosts_are_allowed_by_name_and_port() {
        let hosts = AllowedHosts::loopback().allow("Mcp.Example.com").allow("other:8080");
        assert!(
            hosts.allows("mcp.example.COM:1234") && hosts.allows("other:8080") && hosts.allows("localhost")
        );
        assert!(!hosts.allows("other") && !hosts.allows("other:80") && !hosts.allows("x.mcp.example.com"));
        assert!(AllowedHosts::loopback().allow("*").allows("whatever"));
        assert!(AllowedHosts::any().allow("one").allows("whatever"));
    }

    #[test]
    fn only_local_pages_are_allowed_by_default() {
        let origins = AllowedOrigins::default();
        for good in ["http://localhost:6274", "https://127.0.0.1", "http://[::1]:80", "HTTP://Localhost"] {
            assert!(origins.allows(good), "{good}");
        }
        for bad in [
            "http://evil.example.com",
            "http://localhost.evil.example.com",
            "null",
            "file://localhost",
            "localhost",
            "http://",
            "",
        ] {
            assert!(!origins.allows(bad), "{bad}");
        }
        assert!(!AllowedOrigins::none().allows("http://localhost"));
    }

    #[test]
    fn origins_are_allowed_by_scheme_host_and_port() {
        let origins =
            AllowedOrigins::none().allow("https://App.example.com:443").allow("http://dev:*").allow("null");
        assert!(origins.allows("https://app.example.com") && origins.allows("null"));
        assert!(origins.allows("http://dev:5173") && origins.allows("http://dev"));
        assert!(!origins.allows("http://app.example.com") && !origins.allows("https://app.example.com:8443"));
        assert!(!origins.allows("https://dev") && !origins.allows("http://localhost"));
        assert!(AllowedOrigins::none().allow("*").allows("http://evil.example.com"));
        assert!(AllowedOrigins::any().allow("null").allows("http://evil.example.com"));
        // The default port may be present or absent on either side.
        for (written, left_out) in [("http://a:80", "http://a"), ("https://a:443", "https://a")] {
            for allowed in [written, left_out] {
                let origins = AllowedOrigins::none().allow(allowed);
                assert!(origins.allows(written) && origins.allows(left_out), "{allowed}");
            }
        }
        assert!(!AllowedOrigins::none().allow("http://a:443").allows("http://a"));
    }
}
