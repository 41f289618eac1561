//! Spellings that shells, option parsers and string literals decode.

use super::spans::{ANY_CHARACTER, ANY_SEGMENT, ANY_TEXT};

/// Maximum number of words that brace expansion yields for one string.
const MAX_EXPANSIONS: usize = 32;

/// Maximum length of a pair of brackets or braces and its content.
const MAX_GROUP: usize = 256;

/// Returns true if a character separates words of a text.
pub(super) fn is_between(one: char) -> bool {
    one.is_whitespace() || "\"'`<>".contains(one)
}

/// Returns the reason why a shell would compute a whole word of the text, if it would.
pub(super) fn computed_reason(text: &str) -> Option<&'static str> {
    if text.contains("$(") {
        return Some("`$(` may be the output of a command");
    }
    if text.matches('`').count() > 1 {
        return Some("text between backticks may be the output of a command");
    }
    let spanned = spanned(text);
    let mut words = spanned.split(is_between);
    if words.any(|word| !word.is_empty() && word.chars().all(|one| one == ANY_TEXT)) {
        return Some("a variable may hold any text");
    }
    let lower = text.replace('\\', "/").to_lowercase();
    let opened = ["/dev/fd", "/dev/stdin", "/dev/std", "/fd/"].iter().any(|place| lower.contains(place));
    let is_magic = lower.contains("/proc/")
        && ["/fd", "/cwd", "/exe", "/map_files"].iter().any(|end| lower.contains(end));
    if opened && (lower.contains("/dev/") || lower.contains("/proc/")) || is_magic {
        return Some("an open file or the working directory of a process may be any file");
    }
    None
}

/// Replaces each part that a shell computes by [`ANY_TEXT`], and the wildcards of file names.
pub(crate) fn spanned(text: &str) -> String {
    spanned_for(text, true)
}

/// Replaces computed parts in hosts, where `*` and `?` are not expanded.
pub(super) fn spanned_url(text: &str) -> String {
    spanned_for(text, false)
}

fn spanned_for(text: &str, is_path: bool) -> String {
    if !text.contains(['$', '`', '%', '*', '?', '[', '{']) {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    // After the last closing character there is no pair to find.
    let last = |close: char| chars.iter().rposition(|one| *one == close).unwrap_or_default();
    let (last_brace, last_bracket) = (last('}'), last(']'));
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let next = chars.get(at + 1).copied();
        match (chars[at], next) {
            ('$', Some('(')) => {
                at = closed(&chars, at + 1, '(', ')');
                out.push(ANY_TEXT);
            }
            ('$', Some('{')) => {
                let end = closed(&chars, at + 1, '{', '}');
                let name: String = chars[at + 2..end.saturating_sub(1).max(at + 2)].iter().collect();
                if name == "HOME" {
                    out.push('~')
                } else {
                    out.push(ANY_TEXT)
                }
                at = end;
            }
            ('$', Some(one)) if one.is_ascii_alphabetic() || one == '_' => {
                let end = (at + 1..chars.len())
                    .find(|&i| !(chars[i].is_ascii_alphanumeric() || chars[i] == '_'))
                    .unwrap_or(chars.len());
                let name: String = chars[at + 1..end].iter().collect();
                if name == "HOME" {
                    out.push('~')
                } else {
                    out.push(ANY_TEXT)
                }
                at = end;
            }
            // Positional parameters are usually empty, and `$5` is a price.
            ('$', Some(one)) if one.is_ascii_digit() || "@*#?!$-".contains(one) => {
                let has_more = !out.is_empty() && !out.ends_with(is_between);
                if has_more || chars.get(at + 2).is_some_and(|one| *one == '/') {
                    out.push(ANY_TEXT);
                } else {
                    out.extend(['$', one]);
                }
                at += 2;
            }
            ('`', _) => match (at + 1..chars.len()).find(|&i| chars[i] == '`') {
                Some(end) => {
                    out.push(ANY_TEXT);
                    at = end + 1;
                }
                None => {
                    out.push('`');
                    at += 1;
                }
            },
            ('%', Some(_)) => {
                let end = (at + 1..chars.len())
                    .find(|&i| !(chars[i].is_ascii_alphanumeric() || "_()".contains(chars[i])));
                // Text that begins with a digit is an encoded byte, not a variable.
                let is_name = |end: usize| {
                    end > at + 1 && !chars[at + 1].is_ascii_digit() && !is_byte(&chars[at + 1..end])
                };
                match end.filter(|&end| chars[end] == '%' && is_name(end)) {
                    Some(end) => {
                        let name: String = chars[at + 1..end].iter().collect();
                        let is_home = ["userprofile", "home"].contains(&name.to_lowercase().as_str());
                        out.push(if is_home { '~' } else { ANY_TEXT });
                        at = end + 1;
                    }
                    None => {
                        out.push('%');
                        at += 1;
                    }
                }
            }
            ('*', _) if is_path => {
                out.push(ANY_SEGMENT);
                at += 1;
            }
            ('?', _) if is_path => {
                out.push(ANY_CHARACTER);
                at += 1;
            }
            ('[', Some(_)) if at < last_bracket => match set_end(&chars, at) {
                Some((end, wild)) => {
                    out.push(wild);
                    at = end;
                }
                None => {
                    out.push('[');
                    at += 1;
                }
            },
            // A sequence `{a..z}`; lists have already been expanded.
            ('{', _) if at < last_brace => {
                match (at + 1..chars.len().min(at + MAX_GROUP)).find(|&i| chars[i] == '}') {
                    Some(end) if chars[at..end].windows(2).any(|pair| pair == ['.', '.']) => {
                        out.push(ANY_SEGMENT);
                        at = end + 1;
                    }
                    _ => {
                        out.push('{');
                        at += 1;
                    }
                }
            }
            (one, _) => {
                out.push(one);
                at += 1;
            }
        }
    }
    out
}

fn is_byte(name: &[char]) -> bool {
    name.len() == 2 && name.iter().all(char::is_ascii_hexdigit)
}

/// Returns the position after a set of characters in brackets, and its meaning: [`ANY_CHARACTER`], or [`ANY_SEGMENT`]
/// if it may be a range of numbers. Returns `None` for an address in brackets, and for brackets that contain a slash.
fn set_end(chars: &[char], from: usize) -> Option<(usize, char)> {
    let limit = chars.len().min(from + MAX_GROUP);
    let mut at = from + 1;
    if matches!(chars.get(at), Some('!' | '^')) {
        at += 1;
    }
    let first = at;
    while at < limit {
        match (chars[at], chars.get(at + 1)) {
            ('/', _) => return None,
            // A class, as in `[[:alpha:]]`.
            ('[', Some(&mark @ (':' | '.' | '='))) => {
                let inside = chars.get(at + 2..limit).unwrap_or_default();
                match inside.windows(2).position(|pair| pair == [mark, ']']) {
                    Some(length) => at += length + 4,
                    None => at += 1,
                }
            }
            (']', _) if at > first => {
                let inside: String = chars[from + 1..at].iter().collect();
                let address = inside.split('%').next().unwrap_or_default();
                if address.parse::<std::net::Ipv6Addr>().is_ok() {
                    return None;
                }
                return Some((at + 1, if inside.contains('-') { ANY_SEGMENT } else { ANY_CHARACTER }));
            }
            _ => at += 1,
        }
    }
    None
}

/// Returns the position after the bracket that closes the one at `from`.
fn closed(chars: &[char], from: usize, open: char, close: char) -> usize {
    let mut depth = 0_usize;
    for (at, one) in chars.iter().enumerate().skip(from) {
        if *one == open {
            depth += 1;
        } else if *one == close {
            depth -= 1;
            if depth == 0 {
                return at + 1;
            }
        }
    }
    chars.len()
}

/// Removes the quotes and backslashes that a shell removes: `/e""tc`, `/et\c`, `$'/etc'`.
pub(super) fn unquoted(text: &str) -> String {
    if !text.contains(['"', '\'', '\\']) {
        return text.to_owned();
    }
    text.replace("$'", "")
        .replace("$\"", "")
        .chars()
        .filter(|one| !matches!(one, '"' | '\'' | '\\'))
        .collect()
}

/// Decodes the escapes of string literals: `\x2f`, `\057`, `\u002f`, `\/`.
pub(super) fn unescaped(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let number = |from: usize, most: usize, radix: u32| {
        let digits: String =
            chars.iter().skip(from).take(most).take_while(|one| one.is_digit(radix)).collect();
        let value = u32::from_str_radix(&digits, radix).ok().and_then(char::from_u32);
        value.map(|value| (value, digits.len()))
    };
    while at < chars.len() {
        let escape = (chars[at] == '\\').then(|| chars.get(at + 1)).flatten();
        let decoded = match escape {
            Some('x') => number(at + 2, 2, 16).map(|(one, long)| (one, long + 2)),
            Some('u') if chars.get(at + 2) == Some(&'{') => {
                number(at + 3, 6, 16).map(|(one, long)| (one, long + 4))
            }
            Some('u') => number(at + 2, 4, 16).map(|(one, long)| (one, long + 2)),
            Some('U') => number(at + 2, 8, 16).map(|(one, long)| (one, long + 2)),
            // `echo` reads a zero and three octal digits, string literals read up to three digits in total.
            Some('0'..='7') => number(at + 1, 4, 8)
                .filter(|(one, _)| u32::from(*one) < 256)
                .or_else(|| number(at + 1, 3, 8))
                .map(|(one, long)| (one, long + 1)),
            Some(&one @ ('/' | '.')) => Some((one, 2)),
            _ => None,
        };
        let (one, long) = decoded.unwrap_or((chars[at], 1));
        out.push(one);
        at += long;
    }
    out
}

/// Returns the words of brace expansion: `/{etc,x}/passwd`, also in URLs, as curl does.
pub(super) fn expanded(text: &str) -> Vec<String> {
    let mut all = vec![text.to_owned()];
    let mut at = 0;
    while at < all.len() && all.len() < MAX_EXPANSIONS {
        let parts = innermost(&all[at]).map(|(open, close)| {
            (all[at][..open].to_owned(), all[at][open + 1..close].to_owned(), all[at][close + 1..].to_owned())
        });
        if let Some((before, inside, after)) = parts {
            for one in inside.split(',') {
                let one = format!("{before}{one}{after}");
                if !all.contains(&one) && all.len() < MAX_EXPANSIONS {
                    all.push(one);
                }
            }
        }
        at += 1;
    }
    all
}

/// Finds the first pair of braces that contains no other pair but a comma or a single word.
fn innermost(text: &str) -> Option<(usize, usize)> {
    text.match_indices('}').map(|(at, _)| at).find_map(|close| {
        let open = text[..close]
            .bytes()
            .rev()
            .take(MAX_GROUP)
            .take_while(|one| *one != b'}')
            .position(|one| one == b'{')
            .map(|back| close - 1 - back)?;
        let is_variable = text[..open].ends_with('$');
        let is_list = text[open..close].contains(',') || !text[open..close].contains("..");
        (!is_variable && is_list && !text[open + 1..close].contains('}')).then_some((open, close))
    })
}
