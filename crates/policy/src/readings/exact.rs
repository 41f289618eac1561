//! Strings that every reader interprets as the same destination.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use percent_encoding::percent_decode_str;

use super::spellings::compatible;
use crate::destination::Destination;
use crate::paths;

/// URL schemes whose path is never on the local disk, with their default ports.
const NETWORK_SCHEMES: [(&str, u16); 5] =
    [("https", 443), ("http", 80), ("wss", 443), ("ws", 80), ("ftp", 21)];

/// Returns the destination that all readers agree on.
///
/// # Errors
/// If readers disagree. The error is the reason and completes a sentence.
pub(crate) fn parse_exact(text: &str) -> Result<Destination, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if let Some(odd) = text
        .chars()
        .find(|one| !one.is_ascii_graphic() && (!one.is_alphanumeric() || is_changed_by_normalization(*one)))
    {
        return Err(format!("parsers disagree about the character `{}`", odd.escape_default()));
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        return url(scheme, rest);
    }
    if paths::is_absolute(text) {
        return path(text);
    }
    let (user, host) = text.split_once('@').unwrap_or(("", text));
    if !user.bytes().all(|one| one.is_ascii_alphanumeric() || b"._+-".contains(&one)) {
        return Err("it is neither a host nor an absolute path".to_owned());
    }
    host_and_port(host, None)
}

/// Returns true if a text is a URL of a network scheme that all readers agree on.
pub(super) fn is_network_url(text: &str) -> bool {
    let is_known = |(scheme, _): (&str, &str)| {
        NETWORK_SCHEMES.iter().any(|(known, _)| scheme.eq_ignore_ascii_case(known))
    };
    text.split_once("://").is_some_and(is_known) && matches!(parse_exact(text), Ok(Destination::Host { .. }))
}

/// Returns true if readers that normalize text change the character.
fn is_changed_by_normalization(one: char) -> bool {
    let text = one.to_string();
    compatible(&text) != text
}

fn url(scheme: &str, rest: &str) -> Result<Destination, String> {
    if !scheme.starts_with(|one: char| one.is_ascii_alphabetic())
        || !scheme.bytes().all(|one| one.is_ascii_alphanumeric())
    {
        return Err(format!("parsers disagree about the scheme `{scheme}`"));
    }
    let scheme = scheme.to_ascii_lowercase();
    // Leading brackets contain an address, which is checked as a host below.
    if rest.contains(['\\', '{', '}', '[', ']', '^', '|', '`', '"', '<', '>', '$', '*', '\'', ';', ','])
        && !rest.starts_with('[')
    {
        return Err("parsers disagree about a character in the URL".to_owned());
    }
    if scheme == "file" {
        return match rest.strip_prefix("localhost").unwrap_or(rest) {
            rest if rest.starts_with('/') && !rest.contains(['?', '#']) => path(rest),
            _ => Err("parsers disagree about a `file` URL with a host, query or fragment".to_owned()),
        };
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    // Some parsers end the user name at the last `@`, wherever it is.
    if !tail.is_ascii() || tail.contains('@') {
        return Err("the URL may contain another URL".to_owned());
    }
    is_without_urls(tail)?;
    let Some((_, port)) = NETWORK_SCHEMES.iter().find(|(known, _)| *known == scheme) else {
        // The host of such a URL is unambiguous; the meaning of its path is not.
        return host_and_port(without_user(authority)?, None);
    };
    host_and_port(without_user(authority)?, Some(*port))
}

/// Maximum number of times that a part of a URL is decoded.
const MAX_DECODINGS: usize = 3;

/// Schemes that a server may follow when they occur in the path or query of a URL.
const NESTED_URL_SCHEMES: [&str; 11] =
    ["http", "https", "ws", "wss", "ftp", "ftps", "file", "data", "javascript", "gopher", "jar"];

/// Checks the path or query of a URL for other URLs. Many servers follow a URL in there once it is decoded.
///
/// # Errors
/// If the tail of a URL contains a URL, or text that some parser takes for one.
fn is_without_urls(tail: &str) -> Result<(), String> {
    let mut tail = Cow::Borrowed(tail);
    for _ in 0..=MAX_DECODINGS {
        if tail.contains("//")
            || tail.contains('\\')
            || tail.chars().any(char::is_control)
            || has_scheme(&tail)
        {
            return Err("the URL may contain another URL".to_owned());
        }
        if !tail.contains('%') {
            return Ok(());
        }
        let decoded = percent_decode_str(&tail).decode_utf8_lossy().into_owned();
        if decoded == *tail {
            return Ok(());
        }
        tail = Cow::Owned(decoded);
    }
    Err("the URL is encoded several times".to_owned())
}

fn has_scheme(text: &str) -> bool {
    text.match_indices(':').any(|(at, _)| {
        let before = &text.as_bytes()[..at];
        let length =
            before.iter().rev().take(MAX_SCHEME).take_while(|one| one.is_ascii_alphanumeric()).count();
        let name = &before[at - length..];
        NESTED_URL_SCHEMES.iter().any(|scheme| scheme.as_bytes().eq_ignore_ascii_case(name))
    })
}

/// Maximum length of the schemes in [`NESTED_URL_SCHEMES`], plus one.
const MAX_SCHEME: usize = 12;

fn without_user(authority: &str) -> Result<&str, String> {
    match authority.split_once('@') {
        None => Ok(authority),
        Some((user, host))
            if !host.contains('@')
                && user.bytes().all(|one| one.is_ascii_alphanumeric() || b"_-".contains(&one)) =>
        {
            Ok(host)
        }
        Some(_) => Err("parsers disagree about where the user name in the URL ends".to_owned()),
    }
}

fn host_and_port(text: &str, scheme_port: Option<u16>) -> Result<Destination, String> {
    let no = || Err(format!("`{}` is neither a plain host name nor an absolute path", clipped(text)));
    if let Ok(address) = text.parse::<Ipv6Addr>()
        && scheme_port.is_none()
        && address.to_string() == text.to_ascii_lowercase()
    {
        return Ok(Destination::Host { name: address.to_string(), port: None, scheme_port: None });
    }
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, "")) => (address, None),
            Some((address, port)) if port.starts_with(':') => (address, Some(&port[1..])),
            _ => return no(),
        },
        None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
    };
    let port = match port {
        None => None,
        Some(port) if !port.starts_with('0') && port.bytes().all(|one| one.is_ascii_digit()) => {
            match port.parse() {
                Ok(port) => Some(port),
                Err(_) => return no(),
            }
        }
        Some(_) => return no(),
    };
    let lower = name.to_lowercase();
    let name = if text.starts_with('[') {
        match lower.parse::<Ipv6Addr>() {
            Ok(address) if address.to_string() == lower => lower,
            _ => return no(),
        }
    } else if lower.starts_with(|one: char| one.is_ascii_digit())
        && lower.rsplit('.').next().is_some_and(is_number)
    {
        match lower.parse::<Ipv4Addr>() {
            Ok(address) if address.to_string() == lower => lower,
            _ => return Err(format!("parsers disagree about the address `{}`", clipped(text))),
        }
    } else {
        match ascii(&lower) {
            Some(name) => name,
            None => return no(),
        }
    };
    Ok(Destination::Host { name, scheme_port: scheme_port.filter(|_| port.is_none()), port })
}

/// Returns a name in ASCII if all versions of internationalized names convert it in the same way.
fn ascii(name: &str) -> Option<String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_plain = name.split('.').all(|label| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|one| one.is_alphanumeric() || one == '-' || one == '_')
            // IDNA 2003 maps these letters to others, but IDNA 2008 keeps them.
            && !label.contains(['ß', 'ς'])
    });
    let last = name.rsplit('.').next().unwrap_or_default();
    // URL parsers treat every name whose last label is a number as an IPv4 address.
    if !is_plain || is_number(last) {
        return None;
    }
    if name.is_ascii() {
        return Some(name.to_owned());
    }
    let parsed = url::Host::parse(name).ok()?;
    // Digits of other scripts can become an address in ASCII.
    parsed.to_string().parse::<IpAddr>().is_err().then(|| parsed.to_string())
}

fn is_number(label: &str) -> bool {
    label.bytes().all(|one| one.is_ascii_digit())
        || label.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|one| one.is_ascii_hexdigit()))
}

fn path(text: &str) -> Result<Destination, String> {
    let turned = text.replace('\\', "/");
    if turned.starts_with("//") {
        return Err("a path that begins with two slashes may name a host".to_owned());
    }
    if let Some(odd) = text.find([
        '$', '`', '*', '?', '[', ']', '{', '}', ';', '|', '&', '<', '>', '(', ')', '"', '\'', '!', '#', ',',
        '=',
    ]) {
        return Err(format!("a shell or a list parser may interpret `{}` in the path", &text[odd..=odd]));
    }
    if text.starts_with('/') && text.contains('\\') {
        return Err("parsers disagree about the backslash in the path".to_owned());
    }
    // A colon in second place belongs to a drive letter.
    if !paths::is_plain(text) || text.char_indices().any(|(at, one)| at > 1 && one == ':') {
        return Err("the path has `..`, `:`, percent-encoding or hidden characters".to_owned());
    }
    if paths::is_process_view(&turned) {
        return Err("the path leads through `/proc` or `/dev`, which can refer to other folders".to_owned());
    }
    Ok(Destination::Path(text.to_owned()))
}

fn clipped(text: &str) -> String {
    paths::visible_line(&text.chars().take(60).collect::<String>())
}
