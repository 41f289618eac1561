//! Letters that look like others, in hosts and in instructions.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;
use unicode_security::{MixedScript as _, skeleton};

/// Maximum number of URLs of one text that are examined.
const MAX_URLS: usize = 256;

/// Returns true if a text may have a host with letters that look like others. The text may be JSON.
pub(super) fn may_look_alike(text: &str) -> bool {
    !text.is_ascii() && text.contains("://") && find_host(text).is_some()
        // Escapes stand for any letter.
        || memchr::memmem::find(text.as_bytes(), b"\\u04").is_some() && text.contains("://")
}

/// Finds a host that mixes scripts, or whose letters of another script all look like Latin ones.
pub(super) fn find_host(text: &str) -> Option<String> {
    if text.is_ascii() {
        return None;
    }
    let urls = text.match_indices("://").take(MAX_URLS);
    urls.filter_map(|(at, _)| {
        let rest = &text[at + 3..];
        let end = rest.find(|one: char| one.is_whitespace() || "/?#\"'<>()[]{}|\\,;`".contains(one));
        let host = &rest[..end.unwrap_or(rest.len()).min(super::floor(rest, rest.len().min(512)))];
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let host = host.split(':').next().unwrap_or(host);
        host.split('.').any(is_look_alike).then(|| host.to_owned())
    })
    .next()
}

/// Returns true if a label mixes Latin with letters that look Latin, or consists of such letters alone.
fn is_look_alike(label: &str) -> bool {
    if label.is_ascii() || label.is_empty() {
        return false;
    }
    let shown: String = skeleton(&label.to_lowercase()).collect();
    // Umlauts and accents are part of ordinary Latin names; their skeletons are not ASCII.
    let is_foreign = |letter: char| matches!(letter, '\u{370}'..='\u{52f}' | '\u{1d00}'..='\u{1dbf}' | '\u{2100}'..='\u{214f}' | '\u{ff00}'..='\u{ff5e}' | '\u{1d400}'..='\u{1d7ff}');
    label.chars().any(is_foreign) && (shown.is_ascii() || !label.is_single_script())
}

/// Returns the text with look-alike letters replaced in words that mix them with ASCII letters, and compatible forms
/// such as full-width letters.
pub(super) fn fold(text: &str) -> Cow<'_, str> {
    let is_odd = |one: char| matches!(one, '\u{370}'..='\u{52f}' | '\u{1d00}'..='\u{1dbf}' | '\u{2100}'..='\u{214f}' | '\u{2460}'..='\u{24ff}' | '\u{ff00}'..='\u{ff5e}' | '\u{1d400}'..='\u{1d7ff}' | '\u{1f130}'..='\u{1f189}');
    if text.is_ascii() || !text.chars().any(is_odd) {
        return Cow::Borrowed(text);
    }
    let plain: String = text.nfkc().collect();
    let mut folded = String::with_capacity(plain.len());
    for word in plain.split_inclusive(|one: char| !one.is_alphanumeric()) {
        let is_mixed = word.bytes().any(|byte| byte.is_ascii_alphabetic()) && word.chars().any(is_odd);
        if is_mixed {
            // Letter by letter: the skeleton of `I` is `l`, which no reader takes it for.
            for letter in word.chars() {
                match is_odd(letter) {
                    true => folded.extend(skeleton(letter.encode_utf8(&mut [0; 4]))),
                    false => folded.push(letter),
                }
            }
        } else {
            folded.push_str(word);
        }
    }
    Cow::Owned(folded)
}
