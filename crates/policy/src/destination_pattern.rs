//! Destinations in rules: hosts and folders.

use std::fmt;

use crate::destination::{Destination, parse_lone_host, strip_host_decoration};
use crate::file::PolicyEnvironment;
use crate::folders::FolderSet;
use crate::paths::{self, TextReadings};
use crate::pattern::{AmbiguityBias, PatternMatch, TextPattern};
use crate::readings::{self, DestinationCandidates, HostCandidate};

/// Destination in a rule: `example.com`, `*.example.com`, `localhost:8080`, or a folder.
#[derive(Clone, Debug)]
pub(crate) struct DestinationPattern {
    text: String,
    kind: DestinationPatternKind,
}

#[derive(Clone, Debug)]
enum DestinationPatternKind {
    Host { name: TextPattern, port: Option<u16> },
    Folder(FolderSet),
}

impl DestinationPattern {
    /// Parses a destination.
    ///
    /// # Errors
    /// If the text is neither a host nor a folder. The error completes a sentence.
    pub(crate) fn new(text: &str, reading: &PolicyEnvironment) -> Result<Self, String> {
        let of_folder = text.starts_with('~') || paths::is_absolute(text);
        if !of_folder && text.contains('/') {
            return Err(format!("`{text}`: write only the host, without scheme and path"));
        }
        let kind = if of_folder {
            DestinationPatternKind::Folder(FolderSet::of(text, reading)?)
        } else if let Some(Destination::Host { name, port, .. }) = named(text) {
            let name = TextPattern::new(&name).map_err(|error| error.to_string())?;
            DestinationPatternKind::Host { name, port }
        } else {
            let (name, port) = match text.rsplit_once(':') {
                // With more colons it is an IPv6 address, whose last part is not a port.
                Some((name, port)) if !name.contains(':') => {
                    (name, Some(port.parse().map_err(|_| format!("`{text}`: `{port}` is not a valid port"))?))
                }
                _ => (text, None),
            };
            let name = TextPattern::new(&ascii_labels(&strip_host_decoration(name)))
                .map_err(|error| error.to_string())?;
            DestinationPatternKind::Host { name, port }
        };
        Ok(Self { text: text.to_owned(), kind })
    }

    pub(crate) fn is_folder(&self) -> bool {
        matches!(self.kind, DestinationPatternKind::Folder(_))
    }

    /// Returns true if this is exactly one host, written without wildcards.
    pub(crate) fn is_host(&self, host: &str) -> bool {
        matches!(&self.kind, DestinationPatternKind::Host { name, .. } if !name.is_wild() && name.text() == host)
    }

    /// Returns true if a destination that all readers agree on matches.
    pub(crate) fn permits(&self, destination: &Destination) -> bool {
        match (&self.kind, destination) {
            (
                DestinationPatternKind::Host { name: wanted, port: at },
                Destination::Host { name, port, scheme_port },
            ) => {
                wanted.fits(&TextReadings::new(name), AmbiguityBias::Refuses)
                    && (at.is_none() || *at == port.or(*scheme_port))
            }
            (DestinationPatternKind::Folder(folders), Destination::Path(path)) => folders.permit(path),
            _ => false,
        }
    }

    /// Returns true if a host that some reader finds matches, or may match.
    pub(crate) fn may_match_host(&self, (host, at): &HostCandidate) -> bool {
        let DestinationPatternKind::Host { name, port } = &self.kind else { return false };
        (port.is_none() || at.is_none() || port == at)
            && (name.is_like(host) || readings::may_be(host, name.text()))
    }

    /// Matches the readings of a string against the pattern.
    pub(crate) fn holds(&self, read: &DestinationCandidates) -> PatternMatch {
        let found = match &self.kind {
            DestinationPatternKind::Host { name, .. } => {
                let at = read.hosts.iter().filter(|(host, _)| self.may_match_host(host));
                // A lone word counts as a host only if the rule names it literally.
                let at =
                    at.map(
                        |(_, word)| {
                            if *word && name.is_wild() { PatternMatch::Maybe } else { PatternMatch::Yes }
                        },
                    );
                let odd =
                    read.odd.iter().any(|host| self.may_match_host(host)).then_some(PatternMatch::Maybe);
                at.chain(odd).max()
            }
            DestinationPatternKind::Folder(folders) => Some(folders.holds(read)),
        };
        found.unwrap_or(PatternMatch::No)
    }
}

/// Converts the labels of a name without wildcards to their ASCII form.
fn ascii_labels(name: &str) -> String {
    let labels = name.split('.').map(|label| match url::Host::parse(label) {
        Ok(url::Host::Domain(ascii)) if !label.is_ascii() => ascii,
        _ => label.to_owned(),
    });
    labels.collect::<Vec<_>>().join(".")
}

/// Parses a destination without wildcards as a host.
fn named(text: &str) -> Option<Destination> {
    // `[::1]` is an address, but `[ab].example` contains a set of characters.
    let bracketed =
        text.starts_with('[') && text.contains("::") || text.parse::<std::net::Ipv6Addr>().is_ok();
    let wild = text.contains(['*', '?', '{', '}', '!']) || text.contains('[') && !bracketed;
    (!wild).then(|| parse_lone_host(text)).flatten()
}

impl fmt::Display for DestinationPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.text)
    }
}

/// Set of hosts that an argument may lead to.
#[derive(Clone, Debug)]
pub(crate) struct HostSet(Vec<DestinationPattern>);

impl HostSet {
    pub(crate) fn new(texts: &[String], reading: &PolicyEnvironment) -> Result<Self, String> {
        let places = texts.iter().map(|text| match DestinationPattern::new(text, reading)? {
            place if place.is_folder() => {
                Err(format!("`{text}` is a folder, not a host; use `under` for folders"))
            }
            place => Ok(place),
        });
        places.collect::<Result<_, _>>().map(Self)
    }

    /// Returns true if the text, which is known to be a URL, a mail address or a host, leads to one of the hosts.
    pub(crate) fn matches(&self, text: &str, doubt: AmbiguityBias) -> bool {
        match doubt {
            AmbiguityBias::Refuses => match readings::parse_exact(text) {
                Ok(found @ Destination::Host { .. }) => self.0.iter().any(|place| place.permits(&found)),
                _ => false,
            },
            AmbiguityBias::Counts => {
                let read = DestinationCandidates::of(text);
                read.unclear.is_some()
                    || read
                        .hosts
                        .keys()
                        .chain(&read.odd)
                        .any(|host| self.0.iter().any(|place| place.may_match_host(host)))
            }
        }
    }
}

impl fmt::Display for HostSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&places.join(" or "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_without_a_scheme() {
        let reading = PolicyEnvironment::default();
        assert!(DestinationPattern::new("https://a", &reading).unwrap_err().contains("without scheme"));
        assert!(DestinationPattern::new("a.example/x", &reading).unwrap_err().contains("and path"));
        assert!(DestinationPattern::new("a:b", &reading).unwrap_err().contains("is not a valid port"));
        assert!(DestinationPattern::new("~/x", &reading).unwrap_err().contains("cannot be determined"));
    }
}
