//! The spellings of a string that readers decode before they look for hosts and paths.

use unicode_normalization::UnicodeNormalization as _;

use super::shell;
use crate::paths::{self, MAX_TEXT};

/// Maximum number of spellings of one string.
const MAX_SPELLINGS: usize = 48;
/// Maximum number of bytes of all spellings of one string.
const MAX_SPELLED: usize = 4 * MAX_TEXT;

/// Spellings of a string: the string itself, and the string after each step a reader may take before looking for hosts
/// and paths. The steps are percent-decoding, compatibility normalization, removal of invisible characters, unquoting,
/// escapes and brace expansion.
pub(crate) fn spellings(text: &str) -> (Vec<String>, bool) {
    let mut all: Vec<String> = Vec::new();
    let (mut complete, mut bytes) = (true, 0);
    // The list is an argument, because it is also read between the calls.
    let mut add = |all: &mut Vec<String>, one: String| {
        if all.contains(&one) {
            return;
        }
        bytes += one.len();
        if all.len() == MAX_SPELLINGS || bytes > MAX_SPELLED {
            complete = false;
        } else {
            all.push(one);
        }
    };
    for one in paths::decodings(text) {
        add(&mut all, one);
    }
    // Each step applies to all results of the previous steps, so that they combine in this order.
    let steps: [fn(&str) -> Vec<String>; 5] = [
        |text| vec![compatible(text)],
        |text| vec![shell::unescaped(text)],
        |text| vec![shell::unquoted(text)],
        |text| shell::expanded(text).into_iter().map(|one| paths::without_hidden(&one)).collect(),
        |text| vec![compatible(text)],
    ];
    for step in steps {
        // The range is fixed before the step adds to the list, so no step is applied to its own results.
        for at in 0..all.len() {
            // Cloned, because `add` changes the list that it comes from.
            for one in step(&all[at].clone()) {
                add(&mut all, one);
            }
        }
    }
    (all, complete && !paths::is_encoded_thrice(text))
}

/// Applies compatibility normalization, and replaces the characters that resolvers and browsers treat as `.` and `/`.
pub(crate) fn compatible(text: &str) -> String {
    // Normalization does not change ASCII, and almost all texts are ASCII.
    if text.is_ascii() {
        return text.to_owned();
    }
    let turned = text.chars().map(|one| match one {
        '\u{3002}' | '\u{ff0e}' | '\u{ff61}' | '\u{fe52}' | '\u{2024}' => '.',
        '\u{2044}' | '\u{2215}' | '\u{29f8}' | '\u{ff0f}' => '/',
        '\u{2216}' | '\u{29f5}' | '\u{29f9}' | '\u{fe68}' | '\u{ff3c}' => '\\',
        other => other,
    });
    turned.nfkc().collect()
}
