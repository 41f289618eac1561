use std::fmt;

use url::Url;

/// Destination that an argument points to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Destination {
    /// A host: of a URL, of a mail address, or alone.
    Host {
        /// Name in lower case and ASCII, or address.
        name: String,
        /// Port in the text, unless it is the default of the scheme.
        port: Option<u16>,
        /// Port of the URL scheme, if the text has no port.
        scheme_port: Option<u16>,
    },
    /// A file system path, as written.
    Path(String),
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { name, port: Some(port), .. } => write!(f, "{name}:{port}"),
            Self::Host { name, port: None, .. } => f.write_str(name),
            // Cut, so that a person can read it.
            Self::Path(path) => match path.char_indices().nth(256) {
                Some((at, _)) => write!(f, "{}…", &path[..at]),
                None => f.write_str(path),
            },
        }
    }
}

impl Destination {
    pub(crate) fn described(&self) -> String {
        match self {
            Self::Host { .. } => format!("host `{self}`"),
            Self::Path(_) => format!("path `{self}`"),
        }
    }
}

/// Parses a host that stands alone, optionally with a port.
pub(crate) fn parse_lone_host(text: &str) -> Option<Destination> {
    let text = text.trim();
    if text.is_empty() || text.contains(['/', '@', '?', '#', '\\']) || text.contains(char::is_whitespace) {
        return None;
    }
    // Parsed as a URL, because the connection uses that form of the name: punycode, lower case, normalized addresses.
    let bracketed =
        if text.parse::<std::net::Ipv6Addr>().is_ok() { format!("[{text}]") } else { text.to_owned() };
    let url = Url::parse(&format!("http://{bracketed}/")).ok()?;
    // The URL parser drops the default port of the scheme.
    let port = url.port().or_else(|| bracketed.ends_with(":80").then_some(80));
    Some(Destination::Host { name: strip_host_decoration(&url.host()?.to_string()), port, scheme_port: None })
}

/// Removes the brackets of an address and the trailing dot of a name.
pub(crate) fn strip_host_decoration(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_is_shown_by_its_beginning() {
        assert_eq!(Destination::Path("ü".repeat(256)).to_string(), "ü".repeat(256));
        assert_eq!(Destination::Path("ü".repeat(257)).to_string(), format!("{}…", "ü".repeat(256)));
    }
}
