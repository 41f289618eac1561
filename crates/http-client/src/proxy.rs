//! Choice of the proxy for a server.

use std::net::IpAddr;

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;

use crate::network_settings::ProxySetting;

/// A proxy on the way to a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProxyRoute {
    /// Address of the proxy.
    pub uri: Uri,
    /// Value of the proxy's authorization header.
    pub auth: Option<HeaderValue>,
}

impl ProxyRoute {
    /// Returns the proxy on the way to an origin. None if the origin is reached directly, like everything on this
    /// machine. The environment names proxies in `HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY`, and exceptions in `NO_PROXY`.
    ///
    /// # Errors
    /// The setting that cannot be used, if it matters for the origin. Its value is left out, because it may contain a
    /// password.
    pub fn to(origin: &Uri, proxy: &ProxySetting) -> Result<Option<Self>, String> {
        Self::choose(origin, proxy, |name| std::env::var(name).ok())
    }

    fn choose(
        origin: &Uri,
        proxy: &ProxySetting,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        if is_this_machine(origin.host().unwrap_or_default()) {
            return Ok(None);
        }
        let first = |names: &[&'static str]| {
            names.iter().find_map(|name| Some((*name, variable(name).filter(|value| !value.is_empty())?)))
        };
        let (setting, url, except) = match proxy {
            ProxySetting::None => return Ok(None),
            ProxySetting::Given { url, except } => ("proxy", url.clone(), except.clone()),
            ProxySetting::Environment => {
                let own: &[&str] = match origin.scheme_str() {
                    Some("https") => &["https_proxy", "HTTPS_PROXY"],
                    // To a CGI program this is a header of whoever called it.
                    _ if variable("REQUEST_METHOD").is_some() => &["http_proxy"],
                    _ => &["http_proxy", "HTTP_PROXY"],
                };
                let found = first(own).or_else(|| first(&["all_proxy", "ALL_PROXY"]));
                let Some((name, url)) = found else { return Ok(None) };
                let except = first(&["no_proxy", "NO_PROXY"]).map(|(_, except)| except);
                (name, url, except.unwrap_or_default())
            }
        };
        // Whatever it is, it does not matter to those who are excepted.
        if Matcher::builder().all("http://any").no(except).build().intercept(origin).is_none() {
            return Ok(None);
        }
        let found = Matcher::builder().all(url).build().intercept(origin);
        let found = found.filter(|found| found.uri().scheme_str() == Some("http"));
        let found = found
            .ok_or_else(|| format!("{setting} is not a supported proxy URL: it must be http://host:port"))?;
        Ok(Some(Self { uri: found.uri().clone(), auth: found.basic_auth().cloned() }))
    }

    /// The proxy as it may be shown.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.uri.authority().map_or("", http::uri::Authority::as_str)
    }
}

/// Returns true if the host of a URL is this machine, which no proxy can reach.
#[must_use]
pub fn is_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        // `::ffff:127.0.0.1` is this machine as well.
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => {
            // A fully qualified name may end in a dot.
            let name = host.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The proxy on the way to `origin` in an environment.
    fn way(origin: &str, environment: &[(&str, &str)]) -> Result<Option<String>, String> {
        let origin = origin.parse().unwrap();
        let variable = |name: &str| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let via = ProxyRoute::choose(&origin, &ProxySetting::Environment, variable)?;
        Ok(via.map(|via| via.shown().to_owned()))
    }

    fn through(proxy: &str) -> Result<Option<String>, String> {
        Ok(Some(proxy.to_owned()))
    }

    #[test]
    fn the_environment_names_a_proxy_for_each_scheme() {
        let both = [("HTTPS_PROXY", "http://secure:1"), ("http_proxy", "plain:2"), ("ALL_PROXY", "any:3")];
        assert_eq!(way("https://example.com", &both), through("secure:1"));
        assert_eq!(way("http://example.com", &both), through("plain:2"));
        assert_eq!(way("http://example.com", &both[2..]), through("any:3"));
        assert_eq!(way("https://example.com", &both[1..2]), Ok(None));
        assert_eq!(way("http://example.com", &[("HTTP_PROXY", "a:1"), ("REQUEST_METHOD", "GET")]), Ok(None));
        assert_eq!(way("https://example.com", &[("HTTPS_PROXY", "")]), Ok(None));
    }

    #[test]
    fn who_is_excepted_or_here_is_reached_straight() {
        let except = "example.com, 10.0.0.0/8,fd00::/8";
        let environment = [("ALL_PROXY", "http://any:3"), ("NO_PROXY", except)];
        for host in ["example.com", "mcp.example.com", "10.1.2.3", "[fd00::1]"] {
            assert_eq!(way(&format!("https://{host}:8443"), &environment), Ok(None), "{host}");
        }
        for host in ["notexample.com", "11.1.2.3", "[fe80::1]"] {
            assert_eq!(way(&format!("https://{host}"), &environment), through("any:3"), "{host}");
        }
        for host in [
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "127.0.0.1",
            "127.9.9.9",
            "[::1]",
            "[::ffff:127.0.0.1]",
        ] {
            assert_eq!(way(&format!("http://{host}:1"), &environment[..1]), Ok(None), "{host}");
        }
        let everybody = [("ALL_PROXY", "any:3"), ("NO_PROXY", "*")];
        assert_eq!(way("https://other.org", &everybody), Ok(None));
    }

    #[test]
    fn what_is_no_proxy_is_said_by_name_and_not_shown() {
        for url in ["socks5://me:s3cret@any:3", "https://me:s3cret@any:3", "ftp://s3cret:3", "s3cret or not"]
        {
            let error = way("https://example.com", &[("HTTPS_PROXY", url)]).unwrap_err();
            assert!(error.contains("HTTPS_PROXY") && !error.contains("s3cret"), "{error}");
            assert_eq!(way("http://localhost", &[("HTTP_PROXY", url)]), Ok(None));
        }
        let given = ProxySetting::Given { url: "http://me:s3cret@any:3".into(), except: String::new() };
        let via =
            ProxyRoute::choose(&"https://example.com".parse().unwrap(), &given, |_| None).unwrap().unwrap();
        assert_eq!(via.auth.as_ref().unwrap(), "Basic bWU6czNjcmV0");
        assert!(!format!("{via:?}").contains("s3cret") && !format!("{via:?}").contains("bWU6"), "{via:?}");
    }
}
