//! Hosts that a text may name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use super::candidates::{DestinationCandidates, IsWord};
use super::shell::is_between;
use super::spans::{self, ANY_CHARACTER, ANY_SEGMENT, ANY_TEXT};
use super::{exact, shell};
use crate::destination::Destination;

/// Maximum length of a host with its port, in bytes, in any spelling.
const MAX_TOKEN: usize = 4096;

/// Maximum length of an address in brackets, with its zone, in bytes.
const MAX_ADDRESS: usize = 128;

/// Characters that end a host for some readers. The colon is handled separately.
const HOST_DELIMITERS: &str = "/\\?#@,;&=|(){}[]<>\"'`!*^~+$%";

/// Collects the hosts of one spelling.
pub(super) fn collect(text: &str, to: &mut DestinationCandidates) {
    let spanned = shell::spanned_url(text);
    let alone = !text.trim().contains(is_between);
    for word in text.split(is_between).filter(|word| !word.is_empty()) {
        if to.is_full() {
            return;
        }
        // The port of an ordinary URL is known; elsewhere it may be any.
        if let Ok(Destination::Host { name, port, scheme_port }) = exact::parse_exact(word) {
            add(&name, port.or(scheme_port), false, to);
            if exact::is_network_url(word) {
                let rest = word.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
                collect_tokens(rest.map_or("", |(_, rest)| rest), false, to);
                continue;
            }
        }
        if let Ok(url) = Url::parse(word)
            && let Some(host) = url.host()
        {
            add(&host.to_string(), url.port_or_known_default(), false, to);
        }
        collect_tokens(word, alone, to);
    }
    if spanned != text {
        let words =
            spanned.split(is_between).filter(|word| word.contains([ANY_TEXT, ANY_CHARACTER, ANY_SEGMENT]));
        words.for_each(|word| collect_tokens(word, false, to));
    }
    // Some readers drop blanks and line ends inside a URL.
    if text.contains("//") || text.contains('\\') {
        let joined: String = text.chars().filter(|one| !one.is_whitespace()).collect();
        if joined != text {
            collect_tokens(&joined, true, to);
        }
    }
}

fn collect_tokens(word: &str, alone: bool, to: &mut DestinationCandidates) {
    for (at, _) in word.match_indices('[') {
        if to.is_full() {
            return;
        }
        let near = word[at..].bytes().take(MAX_ADDRESS).position(|one| one == b']');
        // A number alone is an index or a set of characters.
        if let Some(end) = near.filter(|end| word[at..at + end].contains([':', '.'])) {
            let port = word[at + end + 1..].strip_prefix(':').and_then(leading_port);
            add(&word[at + 1..at + end], port, false, to);
        }
    }
    let is_around = |one: char| HOST_DELIMITERS.contains(one) || one.is_control();
    for token in word.split(is_around).filter(|token| !token.is_empty()) {
        // Resolvers take no longer names, and a number alone in brackets is an index.
        let before = &word.as_bytes()[..token.as_ptr() as usize - word.as_ptr() as usize];
        let is_index = before.ends_with(b"[") && is_count(token) && !word.contains("//");
        if to.is_full() || token.len() > MAX_TOKEN || is_index {
            continue;
        }
        let parts: Vec<&str> = token.split(':').collect();
        if parts.len() > 2 {
            add(token, None, false, to);
            // An address without brackets, before a port.
            if let Some((address, port)) = token.rsplit_once(':') {
                add(address, leading_port(port), false, to);
            }
        }
        // A range of single characters is a set in a pattern, except in place of a host.
        let may_be_unknown = token.contains(ANY_TEXT) || before.ends_with(b"//") || before.ends_with(b"@");
        for (at, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
            if is_unknown(part) && !may_be_unknown || to.is_full() {
                continue;
            }
            // A number after another one and a colon is a port, or minutes.
            if at > 0 && is_count(part) && parts[at - 1].ends_with(|one: char| one.is_ascii_digit()) {
                continue;
            }
            let port = parts.get(at + 1).and_then(|part| leading_port(part)).filter(|port| *port > 0);
            let is_name = part.contains('.') || port.is_some();
            // Of several numbers after a host, readers take the first or the last.
            let port = port.filter(|_| parts.len() - at <= 2);
            let is_host = is_name || word.contains("//") || alone && token.len() == word.len();
            add(part, port, !is_host, to);
        }
    }
}

/// Returns true if the name consists of wildcards only.
fn is_unknown(name: &str) -> bool {
    spans::is_wild(name) && name.chars().all(|one| one == '.' || spans::is_wildcard(one))
}

fn is_count(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit())
}

fn leading_port(text: &str) -> Option<u16> {
    let end = text.find(|one: char| !one.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn add(name: &str, port: Option<u16>, is_word: IsWord, to: &mut DestinationCandidates) {
    // Most words occur in a text more than once.
    let known = (name.to_owned(), port);
    if to.words.get(&known).is_some_and(|word| *word <= is_word) {
        return;
    }
    to.words.insert(known, is_word);
    to.work += 64 + 4 * name.len();
    if is_unknown(name) {
        to.mark_unclear("a variable or a range may stand for any host");
        return;
    }
    let literal = name.to_lowercase();
    for name in normalized(name) {
        if is_word && name != literal {
            to.odd.insert((name, port));
        } else {
            to.add_host(name, port, is_word);
        }
    }
}

/// Returns the names and addresses that resolvers derive from one name: in ASCII and lower case, without a trailing
/// dot, with unusual notations of addresses and embedded addresses resolved.
pub(crate) fn normalized(name: &str) -> Vec<String> {
    let name = name.trim().trim_matches(['[', ']']);
    // A zone, as in `fe80::1%eth0`, is not part of the address.
    let name = name.split_once('%').map_or(name, |(address, zone)| {
        if address.parse::<Ipv6Addr>().is_ok() || zone.is_empty() { address } else { name }
    });
    let name = name.trim_matches('.').to_lowercase();
    if name.is_empty() {
        return Vec::new();
    }
    let mut all = vec![name.clone()];
    let mut push = |one: String| {
        if !one.is_empty() && !all.contains(&one) {
            all.push(one);
        }
    };
    // IDNA 2003 maps some letters that IDNA 2008 keeps.
    let older = name.replace('ß', "ss").replace('ς', "σ").replace(['\u{200c}', '\u{200d}'], "");
    // Some readers parse leading zeros as octal, others as decimal.
    let decimal = name.split('.').map(|part| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0",
        rest if part.bytes().all(|one| one.is_ascii_digit()) => rest,
        _ => part,
    });
    let decimal = decimal.collect::<Vec<_>>().join(".");
    for spelling in [name.as_str(), &older, &decimal] {
        match Host::parse(spelling) {
            Ok(Host::Domain(domain)) => push(domain.trim_end_matches('.').to_owned()),
            Ok(Host::Ipv4(address)) => addresses(IpAddr::V4(address)).into_iter().for_each(&mut push),
            _ => (),
        }
        if let Some(address) = parse_inet_aton(spelling) {
            addresses(IpAddr::V4(address)).into_iter().for_each(&mut push);
        }
        if let Ok(address) = spelling.parse::<Ipv6Addr>() {
            addresses(IpAddr::V6(address)).into_iter().for_each(&mut push);
        }
    }
    if all.iter().any(|name| is_local(name)) {
        for one in ["localhost", "127.0.0.1", "::1"] {
            if !all.iter().any(|name| name == one) {
                all.push(one.to_owned());
            }
        }
    }
    all
}

/// Returns true if resolvers map the name to addresses of this machine.
fn is_local(name: &str) -> bool {
    name == "localhost"
        || name.ends_with(".localhost")
        || name == "localhost.localdomain"
        || name == "ip6-localhost"
}

/// Parses an IPv4 address as `inet_aton` does: one to four parts, decimal, octal or hexadecimal; the last one fills the
/// rest.
fn parse_inet_aton(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() > 4 {
        return None;
    }
    let values = parts.iter().map(|part| match part.strip_prefix("0x") {
        Some("") => Some(0),
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if part.starts_with('0') && part.len() > 1 => u64::from_str_radix(part, 8).ok(),
        None => part.parse::<u64>().ok(),
    });
    let values: Vec<u64> = values.collect::<Option<_>>()?;
    let (last, first) = values.split_last()?;
    let mut address = 0_u64;
    for (at, value) in first.iter().enumerate() {
        address |= (value & 0xff) << (24 - 8 * at);
    }
    // Some readers take a part that is too large modulo its range.
    let room = 32 - 8 * first.len();
    address |= last & ((1_u64 << room) - 1);
    u32::try_from(address).ok().map(Ipv4Addr::from)
}

/// Returns an address and those reached through it: an embedded one, and all loopback addresses for the unspecified
/// address.
fn addresses(address: IpAddr) -> Vec<String> {
    let mut all = vec![address.to_string()];
    match address {
        IpAddr::V4(address) if address.is_loopback() => all.push("localhost".to_owned()),
        IpAddr::V4(address) if address.is_unspecified() => {
            all.extend(["127.0.0.1", "::1", "localhost"].map(str::to_owned));
        }
        IpAddr::V6(address) => {
            let parts = address.segments();
            let joined = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
            // Forms with an embedded IPv4 address: compatible and mapped (RFC 4291), translated (RFC 2765), NAT64 (RFC
            // 6052) and 6to4 (RFC 3056).
            let inner = match parts {
                [0, 0, 0, 0, 0, 0, high, low] if high != 0 || low > 1 => Some(joined(high, low)),
                [0, 0, 0, 0, 0, 0xffff, high, low] => Some(joined(high, low)),
                [0, 0, 0, 0, 0xffff, 0, high, low] | [0x64, 0xff9b, .., high, low] => Some(joined(high, low)),
                [0x2002, high, low, ..] => Some(joined(high, low)),
                _ => None,
            };
            if let Some(inner) = inner {
                all.extend(addresses(IpAddr::V4(inner)));
            }
            if address.is_loopback() || address.is_unspecified() {
                all.extend(["127.0.0.1", "::1", "localhost"].map(str::to_owned));
            }
        }
        IpAddr::V4(_) => (),
    }
    all
}
