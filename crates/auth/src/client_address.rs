//! Address of the client that sent a request, also behind reverse proxies.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::FORWARDED;
use ipnet::IpNet;

/// Number of hops of a forwarding header that are read, from the right: the limit `max_forwarded_hops`.
const MAX_HOPS: usize = 32;
/// Length up to which a forwarding header is read, in bytes, over all its lines: the limit `max_forwarded_bytes`.
const MAX_BYTES: usize = 4096;

const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// Trusted reverse proxies, whose statements about the client's address are used. Default: none.
///
/// `X-Forwarded-For` and `Forwarded` (RFC 7239) are read only if the request comes from one of these proxies. The
/// client is the rightmost hop that is not a trusted proxy; hops left of it were written by the client. If both headers
/// name different clients, neither is used, because a proxy that sets one may pass the other on unread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

/// The text is neither an address nor a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not an IP address or network: expected `192.0.2.1`, `10.0.0.0/8` or `2001:db8::/32`")]
#[non_exhaustive]
pub struct InvalidProxyNetwork;

impl TrustedProxies {
    /// Trusts no proxies: the client is the peer of the connection.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Parses addresses and networks in CIDR notation.
    ///
    /// # Errors
    /// [`InvalidProxyNetwork`] for the first text that is neither.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, InvalidProxyNetwork> {
        texts.into_iter().map(|text| network(text.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// Returns true if there are no trusted proxies.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn contains(&self, address: IpAddr) -> bool {
        // A socket for both protocols shows IPv4 peers as `::ffff:192.0.2.1`.
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Address of the client of a request that `peer` sent with these headers.
    #[must_use]
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.contains(peer) {
            return peer;
        }
        let read = |name: &str, read_hop: fn(&str) -> Option<IpAddr>| {
            let hops = hops(headers, name)?;
            Some(self.walk(peer, &hops, read_hop))
        };
        match (read(X_FORWARDED_FOR, address), read(FORWARDED.as_str(), forwarded_for)) {
            (Some(one), Some(other)) if one != other => {
                tracing::debug!(%peer, "X-Forwarded-For and Forwarded disagree; using the address of the proxy");
                peer
            }
            (Some(client), _) | (None, Some(client)) => client,
            (None, None) => peer,
        }
    }

    /// Goes from the right over all hops that are trusted. A hop that is no address ends it: the client is then the proxy
    /// that wrote it.
    fn walk(&self, peer: IpAddr, hops: &[&str], read_hop: fn(&str) -> Option<IpAddr>) -> IpAddr {
        let mut client = peer;
        for hop in hops.iter().rev().take(MAX_HOPS) {
            let Some(address) = read_hop(hop) else { break };
            client = address;
            if !self.contains(address) {
                break;
            }
        }
        client
    }
}

/// Returns true if a request was forwarded by a proxy, according to its headers.
#[must_use]
pub fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(FORWARDED) || headers.contains_key(X_FORWARDED_FOR)
}

fn network(text: &str) -> Result<IpNet, InvalidProxyNetwork> {
    let network = match text.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address.to_canonical()),
        Err(_) => text.parse::<IpNet>().map_err(|_| InvalidProxyNetwork)?,
    };
    Ok(network.trunc())
}

/// Returns the hops of a header over all its lines, as written. `None` without the header. A header that is too long or
/// not text has no hops.
fn hops<'a>(headers: &'a HeaderMap, name: &str) -> Option<Vec<&'a str>> {
    let lines: Vec<_> = headers.get_all(name).iter().collect();
    if lines.is_empty() {
        return None;
    }
    let length: usize = lines.iter().map(|line| line.len()).sum();
    let texts: Result<Vec<&str>, _> = lines.iter().map(|line| line.to_str()).collect();
    let texts = texts.ok().filter(|_| length <= MAX_BYTES).unwrap_or_default();
    Some(
        texts
            .into_iter()
            .flat_map(|text| text.split(','))
            .map(str::trim)
            // Empty elements of a list are ignored (RFC 9110, section 5.6.1).
            .filter(|hop| !hop.is_empty())
            .collect(),
    )
}

/// Parses an address as written by proxies: `192.0.2.1`, `192.0.2.1:443`, `2001:db8::1`, `[2001:db8::1]`,
/// `[2001:db8::1]:443`.
fn address(text: &str) -> Option<IpAddr> {
    let unbracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address = match unbracketed {
        Some(text) => text.parse::<std::net::Ipv6Addr>().ok().map(IpAddr::from),
        None => {
            // The plain form comes first: without brackets, all colons of an IPv6 address belong to the
            // address.
            let plain = text.parse::<IpAddr>().ok();
            plain.or_else(|| text.parse::<std::net::SocketAddr>().ok().map(|address| address.ip()))
        }
    };
    address.map(|address| address.to_canonical())
}

/// Returns the `for` parameter of one element of `Forwarded` (RFC 7239, section 4). Addresses contain neither `;` nor
/// `,`, so a quoted text with one of these is never an address.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut found = element.split(';').filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        name.eq_ignore_ascii_case("for").then_some(value)
    });
    // A parameter occurs once per element (RFC 7239, section 4).
    let (Some(value), None) = (found.next(), found.next()) else { return None };
    let unquoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    address(unquoted.unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const XFF: &str = "x-forwarded-for";

    fn client(peer: &str, headers: &[(&'static str, &str)]) -> String {
        let proxies = TrustedProxies::parse(["127.0.0.1", "10.0.0.0/8", "2001:db8:f::/48"]).unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        proxies.client(peer.parse().unwrap(), &map).to_string()
    }

    #[test]
    fn forwarding_headers_are_read_from_trusted_proxies_alone() {
        for header in [(XFF, "203.0.113.9"), ("forwarded", "for=203.0.113.9")] {
            assert_eq!(client("192.0.2.7", &[header]), "192.0.2.7", "anybody can write {header:?}");
            assert_eq!(client("127.0.0.1", &[header]), "203.0.113.9");
            assert_eq!(client("::ffff:127.0.0.1", &[header]), "203.0.113.9", "a socket of both families");
        }
        assert_eq!(client("127.0.0.1", &[]), "127.0.0.1");
    }

    #[test]
    fn the_client_is_the_rightmost_hop_that_is_no_trusted_proxy() {
        for (header, wanted) in [
            ("198.51.100.1, 203.0.113.9", "203.0.113.9"),
            ("198.51.100.1, 203.0.113.9, 10.0.0.7", "203.0.113.9"),
            ("198.51.100.1,203.0.113.9:5123,10.0.0.7:80", "203.0.113.9"),
            ("198.51.100.1, 2001:db8::5, 2001:db8:f::1", "2001:db8::5"),
            ("198.51.100.1, [2001:db8::5]:443", "2001:db8::5"),
            ("198.51.100.1, ::ffff:203.0.113.9", "203.0.113.9"),
            // Only proxies: the first of them.
            ("10.0.0.9, 10.0.0.7", "10.0.0.9"),
            // What is no address ends it.
            ("198.51.100.1, unknown", "127.0.0.1"),
            ("198.51.100.1, unknown, 10.0.0.7", "10.0.0.7"),
            ("203.0.113.9, localhost", "127.0.0.1"),
            ("203.0.113.999", "127.0.0.1"),
            (", ,", "127.0.0.1"),
        ] {
            assert_eq!(client("127.0.0.1", &[(XFF, header)]), wanted, "{header}");
        }
        let lines = [(XFF, "198.51.100.1"), (XFF, "203.0.113.9"), (XFF, "10.0.0.7")];
        assert_eq!(client("127.0.0.1", &lines), "203.0.113.9", "several lines are one list");
    }

    #[test]
    fn elements_of_forwarded_are_read() {
        for (header, wanted) in [
            ("for=203.0.113.9;proto=https;by=10.0.0.7", "203.0.113.9"),
            ("For=198.51.100.1, FOR=\"203.0.113.9:80\" ; proto=https", "203.0.113.9"),
            ("for=\"[2001:db8::5]:443\", for=10.0.0.7", "2001:db8::5"),
            ("proto=https", "127.0.0.1"),
            ("for=_hidden", "127.0.0.1"),
            ("for=198.51.100.1;for=203.0.113.9", "127.0.0.1"),
            ("for=\"198.51.100.1, for=10.0.0.1\"", "127.0.0.1"),
            ("198.51.100.1", "127.0.0.1"),
        ] {
            assert_eq!(client("127.0.0.1", &[("forwarded", header)]), wanted, "{header}");
        }
    }

    #[test]
    fn two_headers_that_disagree_are_not_believed() {
        let both = |one, other| client("127.0.0.1", &[(XFF, one), ("forwarded", other)]);
        assert_eq!(both("203.0.113.9", "for=203.0.113.9"), "203.0.113.9");
        assert_eq!(both("203.0.113.9", "for=198.51.100.1"), "127.0.0.1");
        assert_eq!(both("203.0.113.9", "rubbish"), "127.0.0.1");
    }

    #[test]
    fn forwarding_headers_are_bounded() {
        let hop = "10.0.0.7, ";
        let many = format!("203.0.113.9, {}10.0.0.8", hop.repeat(MAX_HOPS));
        assert_eq!(client("127.0.0.1", &[(XFF, &many)]), "10.0.0.7", "no more than so many hops");
        let long = format!("203.0.113.9, {}10.0.0.8", hop.repeat(MAX_BYTES / hop.len()));
        assert_eq!(client("127.0.0.1", &[(XFF, &long)]), "127.0.0.1");
    }

    #[test]
    fn networks_are_parsed() {
        for bad in ["", "localhost", "10.0.0.0/33", "10.0.0.0/8/8", "10.0.0", "*", "unix:/run/x"] {
            assert_eq!(TrustedProxies::parse([bad]), Err(InvalidProxyNetwork), "{bad}");
        }
        let proxies = TrustedProxies::parse(["10.1.2.3/8", "::ffff:192.0.2.1"]).unwrap();
        assert!(
            proxies.contains("10.9.9.9".parse().unwrap()) && proxies.contains("192.0.2.1".parse().unwrap())
        );
    }
}
