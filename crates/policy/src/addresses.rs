//! Hosts that only this machine or its network reaches: metadata services of clouds, loopback and private addresses.
//!
//! A host has many spellings: `2130706433`, `0x7f.1` and `[::ffff:127.0.0.1]` are all this machine. The readings of
//! hosts (`readings`) supply all of them.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::destination::Destination;
use crate::paths::visible_line;
use crate::readings::{DestinationCandidates, host_spellings, parse_exact};

/// Kind of a host that is not on the public network, from the most to the least sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AddressKind {
    /// Metadata service of a cloud, which returns credentials.
    Metadata,
    /// This machine.
    Loopback,
    /// Address of the local network segment.
    LinkLocal,
    /// Address of a private network.
    Private,
    /// Name that only a local resolver knows: `.local`, `.internal`.
    LocalName,
}

impl AddressKind {
    /// Returns the description, as in "it is a private address".
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Metadata => "the metadata service of a cloud",
            Self::Loopback => "this machine",
            Self::LinkLocal => "a link-local address",
            Self::Private => "a private address",
            Self::LocalName => "a name of the local network",
        }
    }

    /// Returns the kind of a host in any spelling. `None` for hosts of the public network.
    #[must_use]
    pub fn of_host(host: &str) -> Option<Self> {
        host_spellings(host).iter().filter_map(|name| of_spelling(name)).min()
    }
}

/// An argument that leads to a host of another kind than the public network.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddressFinding {
    /// Kind of the host.
    pub kind: AddressKind,
    /// Address or name, in its usual spelling.
    pub host: String,
    /// JSON pointer of the argument.
    pub pointer: String,
    /// Start of the argument, with hidden characters made visible.
    pub excerpt: String,
}

/// Names of metadata services.
const METADATA_NAMES: [&str; 5] =
    ["metadata.google.internal", "metadata.goog", "metadata", "instance-data", "instance-data.ec2.internal"];

/// Last words of names of arguments that hold a host or a URL.
const HOST_ARGUMENTS: [&str; 24] = [
    "host",
    "hostname",
    "server",
    "domain",
    "address",
    "addr",
    "ip",
    "url",
    "uri",
    "urls",
    "hosts",
    "endpoint",
    "target",
    "link",
    "href",
    "website",
    "site",
    "webhook",
    "callback",
    "origin",
    "proxy",
    "remote",
    "src",
    "destination",
];

/// Last words of names of arguments whose text is read by people. Only URLs in it count.
const PROSE_ARGUMENTS: [&str; 18] = [
    "text",
    "body",
    "message",
    "content",
    "contents",
    "description",
    "comment",
    "title",
    "subject",
    "summary",
    "note",
    "notes",
    "query",
    "question",
    "prompt",
    "name",
    "caption",
    "markdown",
];

/// Maximum number of findings in one call.
const MAX_FINDINGS: usize = 16;

/// Maximum number of strings of one call that are examined.
const MAX_STRINGS: usize = 512;

/// Maximum total length of the examined strings, in bytes.
const MAX_TOTAL: usize = 128 * 1024;

/// Maximum number of words of one string that are read as hosts.
const MAX_WORDS: usize = 2048;

/// Maximum depth of URLs inside URLs.
const MAX_NESTING: usize = 4;

/// Characters of an excerpt.
const EXCERPT_CHARACTERS: usize = 100;

/// Finds the hosts in the arguments of a call that are not on the public network, each once.
///
/// Text for people is searched for URLs only. An argument counts as a whole if its name says that it holds a host.
#[must_use]
pub fn find_addresses(arguments: &Map<String, Value>) -> Vec<AddressFinding> {
    let mut search = AddressSearch::default();
    for (name, value) in arguments {
        search.add_value(&child("", name), name, value);
    }
    search.found
}

#[derive(Default)]
struct AddressSearch {
    found: Vec<AddressFinding>,
    strings: usize,
    total: usize,
}

/// Meaning of an argument, by its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ArgumentUse {
    Host,
    Prose,
    Other,
}

impl AddressSearch {
    fn add_value(&mut self, pointer: &str, name: &str, value: &Value) {
        match value {
            Value::String(text) => self.add_text(pointer, name, text),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.add_value(&format!("{pointer}/{index}"), name, item);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    self.add_value(&child(pointer, name), name, member);
                }
            }
            _ => (),
        }
    }

    fn add_text(&mut self, pointer: &str, name: &str, text: &str) {
        self.strings += 1;
        self.total += text.len();
        if self.found.len() >= MAX_FINDINGS || self.strings > MAX_STRINGS || self.total > MAX_TOTAL {
            return;
        }
        let place = Place { pointer, text, used: use_of(name) };
        let trimmed = text.trim();
        if !trimmed.contains(is_between) {
            self.add_word(place, trimmed, true, 0);
            return;
        }
        // Some readers drop blanks and line ends inside a URL.
        if trimmed.split(is_between).next().is_some_and(|first| first.contains("://")) && trimmed.len() < 4096
        {
            let joined: String = trimmed.chars().filter(|one| !is_between(*one)).collect();
            self.add_word(place, &joined, false, 0);
        }
        for word in trimmed.split(is_between).filter(|word| may_be_host(word)).take(MAX_WORDS) {
            self.add_word(place, word, false, 0);
        }
    }

    fn add_word(&mut self, place: Place<'_>, word: &str, alone: bool, depth: usize) {
        if !may_be_host(word) || depth > MAX_NESTING || self.found.len() >= MAX_FINDINGS {
            return;
        }
        let is_host = place.used == ArgumentUse::Host && alone;
        let decoded = percent_decode_str(word).decode_utf8_lossy();
        let is_url = decoded.contains("//") || decoded.contains("\\\\") || decoded.contains(":\\");
        if !is_url && !is_host {
            // A person is written to at the address of a mail; nothing connects to its host.
            if is_mail(word) || place.used == ArgumentUse::Prose {
                return;
            }
            let host =
                word.trim_matches(|one: char| !one.is_alphanumeric() && !matches!(one, '[' | ']' | ':'));
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            let (name, has_port) = split_port(host);
            if is_usual_spelling(name) || has_port && of_spelling(&name.to_ascii_lowercase()).is_some() {
                self.add_host(place, name);
            }
            return;
        }
        if is_url && let Some(Destination::Host { name, .. }) = exact_url(word) {
            self.add_host(place, &name);
            self.add_nested(place, word, depth);
            return;
        }
        // Readers disagree: each host counts that one of them finds.
        let candidates = DestinationCandidates::of(word);
        let hosts = candidates.hosts.iter().filter(|(_, is_word)| !**is_word).map(|((host, _), _)| host);
        let mut hosts: Vec<_> = hosts.filter(|host| is_url || is_usual_spelling(host) || is_host).collect();
        hosts.sort_unstable();
        hosts.into_iter().for_each(|host| self.add_host(place, host));
    }

    /// Adds the URLs and metadata services in the path and query of a URL. Servers follow them.
    fn add_nested(&mut self, place: Place<'_>, url: &str, depth: usize) {
        let Some((_, rest)) = url.split_once("://") else { return };
        let Some(at) = rest.find(['/', '?', '#']) else { return };
        let tail = percent_decode_str(&rest[at..]).decode_utf8_lossy();
        for part in tail.split(['?', '&', '=', '#', ';', ',']) {
            if let Some((before, _)) = part.split_once("//") {
                let scheme =
                    before.rfind(|one: char| !one.is_alphanumeric() && one != ':').map_or(0, |at| at + 1);
                self.add_word(place, &part[scheme..], false, depth + 1);
            }
        }
        let is_end = |one: char| !one.is_ascii_alphanumeric() && !matches!(one, '.' | '-' | ':' | '[' | ']');
        for token in tail.split(is_end).filter(|token| may_be_host(token)) {
            let (name, _) = split_port(token);
            if is_usual_spelling(name) && AddressKind::of_host(name) == Some(AddressKind::Metadata) {
                self.add_host(place, name);
            }
        }
    }

    fn add_host(&mut self, place: Place<'_>, host: &str) {
        let Some(kind) = AddressKind::of_host(host) else { return };
        // The spelling that decided, so that a rule or a person sees one name for one host.
        let spellings = host_spellings(host);
        let usual = spellings.iter().find(|name| of_spelling(name) == Some(kind));
        let host = usual.map_or(host, String::as_str).to_lowercase();
        let host = host.parse::<IpAddr>().map_or(host, |address| address.to_string());
        if self.found.len() < MAX_FINDINGS && !self.found.iter().any(|found| found.host == host) {
            let excerpt = place.text.chars().take(EXCERPT_CHARACTERS).collect::<String>();
            let excerpt = visible_line(&excerpt);
            self.found.push(AddressFinding { kind, host, pointer: place.pointer.to_owned(), excerpt });
        }
    }
}

/// The argument in which a host was found.
#[derive(Clone, Copy)]
struct Place<'a> {
    pointer: &'a str,
    text: &'a str,
    used: ArgumentUse,
}

/// Appends a name to a JSON pointer.
fn child(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn use_of(name: &str) -> ArgumentUse {
    let mut start = 0;
    let mut was_small = false;
    for (at, one) in name.char_indices() {
        if !one.is_alphanumeric() {
            start = at + one.len_utf8();
        } else if was_small && one.is_uppercase() {
            start = at;
        }
        was_small = one.is_lowercase();
    }
    let last = name[start..].to_lowercase();
    if HOST_ARGUMENTS.contains(&last.as_str()) {
        ArgumentUse::Host
    } else if PROSE_ARGUMENTS.contains(&last.as_str()) {
        ArgumentUse::Prose
    } else {
        ArgumentUse::Other
    }
}

fn is_between(one: char) -> bool {
    one.is_whitespace() || matches!(one, '"' | '\'' | '`' | '<' | '>' | '(' | ')' | '{' | '}')
}

/// Returns true if a word may be a host that is not public. Most words are neither numbers nor names of hosts.
fn may_be_host(word: &str) -> bool {
    const NAMES: [&str; 5] = ["localhost", "local", "internal", "metadata", "instance"];
    let has_name = || {
        let lower = word.to_ascii_lowercase();
        NAMES.iter().any(|name| lower.contains(name))
    };
    word.bytes().any(|byte| byte.is_ascii_digit() || matches!(byte, b'%' | b'\\' | b'['))
        || !word.is_ascii()
        || has_name()
}

/// Returns the URL's host if all readers agree on it, though they may not agree on the rest.
fn exact_url(word: &str) -> Option<Destination> {
    let trimmed = word.trim_end_matches(['.', ',', ';', ':', '!', '?']);
    let (scheme, rest) = trimmed.split_once("://")?;
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    parse_exact(&format!("{scheme}://{authority}")).ok()
}

/// Returns true for four decimal numbers, an IPv6 address or a full name. Other spellings of an address (`10.1`, `0`)
/// are numbers and versions more often than hosts.
fn is_usual_spelling(name: &str) -> bool {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<Ipv4Addr>().is_ok()
        || bare.parse::<Ipv6Addr>().is_ok()
        || METADATA_NAMES.iter().any(|known| known.contains('.') && bare.eq_ignore_ascii_case(known))
}

fn split_port(host: &str) -> (&str, bool) {
    match host.rsplit_once(':') {
        Some((name, port))
            if !port.is_empty()
                && port.bytes().all(|one| one.is_ascii_digit())
                && (name.ends_with(']') || !name.contains(':')) =>
        {
            (name, true)
        }
        _ => (host, false),
    }
}

fn is_mail(word: &str) -> bool {
    word.split_once('@').is_some_and(|(user, host)| {
        !user.is_empty()
            && !user.contains([':', '/'])
            && !host.contains(['/', ':', '@', '?'])
            && host.contains('.')
            && host.parse::<IpAddr>().is_err()
    })
}

/// Returns the kind of a name in lower case, or of an address as it is usually written.
fn of_spelling(name: &str) -> Option<AddressKind> {
    let name: Cow<'_, str> = name.trim_matches(['[', ']']).into();
    if METADATA_NAMES.contains(&&*name) {
        return Some(AddressKind::Metadata);
    }
    match name.parse() {
        Ok(IpAddr::V4(address)) => of_ipv4(address),
        Ok(IpAddr::V6(address)) => of_ipv6(address),
        Err(_) if name == "localhost" || name.ends_with(".localhost") => Some(AddressKind::Loopback),
        Err(_) if name.ends_with(".local") || name.ends_with(".internal") => Some(AddressKind::LocalName),
        Err(_) => None,
    }
}

fn of_ipv4(address: Ipv4Addr) -> Option<AddressKind> {
    // Amazon, Azure, Google and others; Alibaba; the host of virtual machines at Azure.
    const METADATA: [[u8; 4]; 3] = [[169, 254, 169, 254], [100, 100, 100, 200], [168, 63, 129, 16]];
    let parts = address.octets();
    if METADATA.contains(&parts) {
        Some(AddressKind::Metadata)
    } else if address.is_loopback() || address.is_unspecified() {
        Some(AddressKind::Loopback)
    } else if address.is_link_local() {
        Some(AddressKind::LinkLocal)
    } else if address.is_private() || parts[0] == 100 && parts[1] & 0xc0 == 64 {
        Some(AddressKind::Private)
    } else {
        None
    }
}

fn of_ipv6(address: Ipv6Addr) -> Option<AddressKind> {
    let parts = address.segments();
    if parts == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] {
        Some(AddressKind::Metadata)
    } else if address.is_loopback() || address.is_unspecified() {
        Some(AddressKind::Loopback)
    } else if parts[0] & 0xffc0 == 0xfe80 {
        Some(AddressKind::LinkLocal)
    } else if parts[0] & 0xfe00 == 0xfc00 {
        Some(AddressKind::Private)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(arguments: &Value) -> Vec<(AddressKind, String)> {
        let found = find_addresses(arguments.as_object().unwrap());
        found.into_iter().map(|found| (found.kind, found.host)).collect()
    }

    #[test]
    fn every_spelling_of_a_metadata_service_is_found() {
        for url in [
            "http://169.254.169.254/latest/meta-data/",
            "http://2852039166/",
            "http://0xa9fea9fe/",
            "http://0251.0376.0251.0376/",
            "http://0xa9.254.0251.254/",
            "http://169.254.43518/",
            "http://169.16689662/x",
            "http://[::ffff:169.254.169.254]/",
            "http://[::ffff:a9fe:a9fe]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://169.254.169.254./",
            "http://user:pass@169.254.169.254/",
            "http://example.com@169.254.169.254/",
            "http://example.com\\@169.254.169.254/",
            "http://169.254.169.254\\@example.com/",
            "http://169。254。169。254/",
            "http://①⑥⑨.②⑤④.①⑥⑨.②⑤④/",
            "http://169.254.169.254%2f@example.com/",
            "http:\\\\169.254.169.254\\x",
            "//169.254.169.254/x",
            "http%3A%2F%2F169.254.169.254%2F",
            "http://169.254.\n169.254/",
            "https://example.com/fetch?url=http://169.254.169.254/",
            "https://example.com/fetch?url=http%3A%2F%2F169.254.169.254%2F",
            "https://example.com/fetch?host=169.254.169.254",
        ] {
            let found = found(&json!({ "url": url }));
            assert!(
                found.contains(&(AddressKind::Metadata, "169.254.169.254".to_owned())),
                "{url}: {found:?}"
            );
        }
        for (url, host) in [
            ("http://metadata.google.internal/computeMetadata/v1/", "metadata.google.internal"),
            ("http://METADATA.google.internal./", "metadata.google.internal"),
            ("http://metadata/computeMetadata/v1/", "metadata"),
            ("http://[fd00:ec2::254]/latest", "fd00:ec2::254"),
            ("http://[fd00:0ec2:0:0:0:0:0:254]/latest", "fd00:ec2::254"),
            ("http://100.100.100.200/latest", "100.100.100.200"),
            ("http://168.63.129.16/", "168.63.129.16"),
        ] {
            assert_eq!(found(&json!({ "url": url })), [(AddressKind::Metadata, host.to_owned())], "{url}");
        }
    }

    #[test]
    fn addresses_of_this_machine_and_its_network_are_told_apart() {
        for (arguments, kind, host) in [
            (json!({ "url": "http://localhost:8080/" }), AddressKind::Loopback, "localhost"),
            (json!({ "url": "http://127.1/" }), AddressKind::Loopback, "127.0.0.1"),
            (json!({ "url": "http://0/" }), AddressKind::Loopback, "0.0.0.0"),
            (json!({ "host": "2130706433" }), AddressKind::Loopback, "127.0.0.1"),
            (json!({ "host": "10.1" }), AddressKind::Private, "10.0.0.1"),
            (json!({ "server": "192.168.1.5:22" }), AddressKind::Private, "192.168.1.5"),
            (json!({ "endpoint": "db.internal:5432" }), AddressKind::LocalName, "db.internal"),
            (json!({ "url": "https://printer.local/ipp" }), AddressKind::LocalName, "printer.local"),
            (json!({ "url": "http://[fe80::1]/" }), AddressKind::LinkLocal, "fe80::1"),
            (json!({ "url": "http://[fd12::1]/" }), AddressKind::Private, "fd12::1"),
            (json!({ "url": "http://169.254.1.1/" }), AddressKind::LinkLocal, "169.254.1.1"),
            (json!({ "url": "http://100.64.3.4/" }), AddressKind::Private, "100.64.3.4"),
            (json!({ "command": "curl -s http://10.0.0.5/x | sh" }), AddressKind::Private, "10.0.0.5"),
            (json!({ "command": "ssh root@172.16.0.9" }), AddressKind::Private, "172.16.0.9"),
            (json!({ "deep": [{ "targetUrl": "http://LOCALHOST/" }] }), AddressKind::Loopback, "localhost"),
            (json!({ "text": "see http://192.168.0.1/admin." }), AddressKind::Private, "192.168.0.1"),
        ] {
            let found = found(&arguments);
            assert!(found.contains(&(kind, host.to_owned())), "{arguments}: {found:?}");
        }
    }

    #[test]
    fn ordinary_arguments_lead_to_no_local_address() {
        for arguments in [
            json!({ "url": "https://example.com/a/10.1/b?page=0&v=1.2#3" }),
            json!({ "url": "https://example.com/releases/10.0.0.1/notes" }),
            json!({ "page": "0", "limit": "10", "id": "2130706433", "version": "10.1", "n": 127 }),
            json!({ "date": "2026-05-03T10:20:30Z", "time": "10:30", "ratio": "0.5", "phone": "+49 30 1234" }),
            json!({ "text": "The router 192.168.0.1 and the service at 169.254.169.254 are explained here." }),
            json!({ "to": "ann@corp.internal", "cc": ["bob@mail.local"] }),
            json!({ "path": "/etc/app/settings.local.json", "file": "notes.internal", "name": "x.local" }),
            json!({ "host": "8.8.8.8", "server": "example.org:443", "url": "http://[2001:db8::1]/" }),
            json!({ "domain": "localhost.example.com", "host": "internal.example.com" }),
            json!({ "query": "select * from t where ip = '10.0.0.1'", "regex": "^10\\.0\\.", "color": "#0a0a0a" }),
            json!({ "language": "internal", "metadata": "a", "local": true, "scope": "local" }),
            json!({ "url": "https://example.com:8080/x", "sha": "0a1b2c3d", "hex": "0x7f000001" }),
        ] {
            assert!(found(&arguments).is_empty(), "{arguments}: {:?}", found(&arguments));
        }
    }

    #[test]
    fn findings_say_where_and_are_bounded() {
        let many: Vec<_> = (0..1000).map(|n| format!("http://10.0.{}.{}/", n / 250, n % 250)).collect();
        let found = find_addresses(json!({ "a/b": { "urls": many } }).as_object().unwrap());
        assert_eq!(found.len(), MAX_FINDINGS);
        assert_eq!((&*found[0].pointer, &*found[0].excerpt), ("/a~1b/urls/0", "http://10.0.0.0/"));
        let hostile = "http://1.".repeat(10_000);
        let _ = find_addresses(json!({ "url": hostile, "x": ["0 ".repeat(60_000)] }).as_object().unwrap());
    }
}
