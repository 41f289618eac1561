//! Policy for the destinations of requests.

use std::net::IpAddr;

use url::{Host, Url};

use super::addresses::{IpNetwork, embedded_ipv4, is_public};
use super::error::FetchError;

/// Returns true if the URL's host is this machine: `localhost`, 127.0.0.0/8, or `[::1]`.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            // The trailing dot of an absolute name does not change its meaning.
            let name = name.strip_suffix('.').unwrap_or(name);
            // Names below `localhost` are this machine too (RFC 6761, section 6.3).
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Rules for requests to URLs from untrusted sources. Only https to the public internet is allowed by default;
/// everything else must be allowed explicitly.
///
/// ```
/// use hospes_http_client::EgressPolicy;
///
/// let egress = EgressPolicy::public();
/// assert!(egress.check(&"https://example.com/".parse()?).is_ok());
/// assert!(egress.check(&"https://169.254.169.254/latest".parse()?).is_err());
/// # Ok::<(), url::ParseError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct EgressPolicy {
    loopback: bool,
    http: bool,
    networks: Vec<IpNetwork>,
    hosts: Vec<String>,
}

impl EgressPolicy {
    /// Permits the public internet over https.
    #[must_use]
    pub fn public() -> Self {
        Self::default()
    }

    /// Creates the rules for URLs that an MCP server at `endpoint` names, where a person has named the endpoint. They
    /// allow the public internet and the same host. They also allow this machine if the server itself runs there.
    #[must_use]
    pub fn of_endpoint(endpoint: &Url) -> Self {
        let this = Self { loopback: is_loopback(endpoint), ..Self::public() };
        match endpoint.host_str() {
            Some(host) if !is_loopback(endpoint) => this.allow_host(host),
            _ => this,
        }
    }

    /// Also permits this machine, over https and http.
    #[must_use]
    pub fn allow_loopback(mut self) -> Self {
        self.loopback = true;
        self
    }

    /// Also permits http, for requests that send no secrets and whose response is not relied on.
    #[must_use]
    pub fn allow_http(mut self) -> Self {
        self.http = true;
        self
    }

    /// Also permits the addresses of this network.
    #[must_use]
    pub fn allow_network(mut self, network: IpNetwork) -> Self {
        self.networks.push(network);
        self
    }

    /// Also permits this host, wherever it resolves to except this machine.
    #[must_use]
    pub fn allow_host(mut self, host: &str) -> Self {
        self.hosts.push(host.to_ascii_lowercase());
        self
    }

    /// Checks whether a request may go to a URL, as far as the URL itself shows. The parser has already normalized all
    /// numeric notations of addresses.
    ///
    /// # Errors
    /// If the URL is not permitted.
    pub fn check(&self, url: &Url) -> Result<(), FetchError> {
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(url) => {
                if !self.loopback {
                    return Err(FetchError::Forbidden("loopback addresses are not allowed"));
                }
            }
            "http" if self.http => {}
            _ => {
                return Err(FetchError::Forbidden(if self.http {
                    "the URL scheme must be http or https"
                } else {
                    "the URL scheme must be https"
                }));
            }
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(FetchError::Forbidden("the URL contains credentials"));
        }
        let address = match url.host() {
            None => return Err(FetchError::Forbidden("the URL has no host")),
            Some(Host::Domain(_)) if is_loopback(url) && !self.loopback => {
                return Err(FetchError::Forbidden("loopback addresses are not allowed"));
            }
            // The addresses of a name are checked by `permits` when it is dialled.
            Some(Host::Domain(_)) => return Ok(()),
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
        };
        let host = url.host_str().unwrap_or_default();
        if self.permits(host, address) {
            Ok(())
        } else {
            Err(FetchError::Forbidden("the address is not public"))
        }
    }

    /// Returns true if the address to which `host` resolves may be dialled.
    #[must_use]
    pub fn permits(&self, host: &str, address: IpAddr) -> bool {
        let plain = match address {
            IpAddr::V6(address) => embedded_ipv4(address).map_or(IpAddr::V6(address), IpAddr::V4),
            address @ IpAddr::V4(_) => address,
        };
        let named = Url::parse(&format!("http://{host}/")).is_ok_and(|url| is_loopback(&url));
        // The name was permitted over http because it means this machine; another address would be reached unencrypted.
        if named && !plain.is_loopback() {
            return false;
        }
        if self.networks.iter().any(|network| network.contains(address) || network.contains(plain)) {
            return true;
        }
        if plain.is_loopback() || plain.is_unspecified() {
            // Other names that resolve to this machine are not permitted.
            return self.loopback && named && plain.is_loopback();
        }
        is_public(address) || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(egress: &EgressPolicy, url: &str) -> bool {
        egress.check(&Url::parse(url).unwrap()).is_ok()
    }

    /// covers: SECP-05
    #[test]
    fn nothing_goes_out_in_the_open_or_to_the_inside() {
        let egress = EgressPolicy::public();
        assert!(check(&egress, "https://as.example/token"));
        assert!(check(&egress, "https://1.1.1.1/"));
        for url in [
            "http://as.example/",
            "ftp://as.example/",
            "file:///srv/secret",
            "data:,x",
            "https://me@as.example/",
            "https://localhost/",
            "https://localhost./",
            "https://sub.localhost/",
            "http://127.0.0.1/",
            "https://127.0.0.1/",
            "https://10.0.0.1/",
            "https://169.254.169.254/latest",
            "https://172.16.0.1/",
            "https://192.168.1.1/",
            "https://100.64.0.1/",
            "https://192.0.0.8/",
            "https://192.0.2.1/",
            "https://198.18.0.1/",
            "https://224.0.0.1/",
            "https://255.255.255.255/",
            "https://[fe80::1]/",
            "https://[ff02::1]/",
            "https://[2001:db8::1]/",
            "https://[::1]/",
            "https://[fd00::1]/",
            // Other notations of the same addresses.
            "https://2130706433/",
            "https://0x7f000001/",
            "https://0177.0.0.1/",
            "https://127.1/",
            "https://0xa.0.0.1/",
            "https://[::ffff:10.0.0.1]/",
            "https://[64:ff9b::a00:1]/",
            "https://[2002:a00:1::]/",
            "https://0/",
        ] {
            assert!(!check(&egress, url), "{url}");
        }
    }

    #[test]
    fn where_http_will_do_the_rest_holds_all_the_same() {
        let egress = EgressPolicy::public().allow_http();
        assert!(check(&egress, "http://www.example/") && check(&egress, "http://1.1.1.1/"));
        for url in [
            "http://127.0.0.1/",
            "http://localhost/",
            "http://10.0.0.1/",
            "http://[::1]/",
            "http://0x7f.1/",
            "ftp://www.example/",
            "file:///srv/secret",
            "http://me@www.example/",
        ] {
            assert!(!check(&egress, url), "{url}");
        }
    }

    #[test]
    fn a_server_on_this_machine_may_name_another_one_here() {
        let local = EgressPolicy::of_endpoint(&Url::parse("http://localhost:1/mcp").unwrap());
        for url in ["http://127.0.0.1:2/", "http://[::1]:2/", "http://localhost:2/", "https://as.example/"] {
            assert!(check(&local, url), "{url}");
        }
        assert!(!check(&local, "https://10.0.0.1/"));
        assert!(!check(&local, "http://as.example/"));
        assert!(local.permits("localhost", "127.0.0.1".parse().unwrap()));
        assert!(!local.permits("x.localhost", "1.1.1.1".parse().unwrap()), "it only says to be here");
        assert!(!local.permits("as.example", "127.0.0.1".parse().unwrap()));
        let remote = EgressPolicy::of_endpoint(&Url::parse("https://m.example/mcp").unwrap());
        assert!(!check(&remote, "http://127.0.0.1:2/"));
        assert!(!remote.permits("localhost", "127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn the_host_a_person_named_and_allowed_networks_may_be_inside() {
        let named = EgressPolicy::of_endpoint(&Url::parse("https://intranet.example/mcp").unwrap());
        let inside = "10.0.0.1".parse().unwrap();
        assert!(named.permits("intranet.example", inside));
        assert!(!named.permits("other.example", inside));
        assert!(!named.permits("intranet.example", "127.0.0.1".parse().unwrap()));
        let allowed = EgressPolicy::public().allow_network("10.0.0.0/8".parse().unwrap());
        assert!(allowed.permits("other.example", inside));
        assert!(check(&allowed, "https://10.0.0.1/"));
        assert!(!check(&allowed, "https://192.168.0.1/"));
    }
}
