//! Encoded instructions: base 64 and hexadecimal.

use super::instructions;
use crate::encoding::{decode_base64, decode_hexadecimal};

/// Minimum length of an encoded text, in bytes.
const MIN_ENCODED: usize = 40;

/// Maximum length of an encoded text that is decoded, in bytes. Longer ones are files.
const MAX_ENCODED: usize = 16 * 1024;

/// Maximum number of runs of one text that are decoded.
const MAX_RUNS: usize = 64;

/// Returns true if a text may have an encoded instruction. The text may be JSON.
pub(super) fn may_be_encoded(text: &str) -> bool {
    runs(text).any(|run| decode(run).is_some_and(|decoded| instructions::may_instruct(&decoded)))
}

/// Returns the first encoded text that decodes to an instruction.
pub(super) fn find_encoded_instruction(text: &str) -> Option<String> {
    runs(text).filter_map(decode).find(|decoded| instructions::find_instruction(decoded).is_some())
}

/// Runs of characters of base 64.
fn runs(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let runs = std::iter::from_fn(move || {
        while at < bytes.len() {
            // A run of this length covers each place at this distance, so most bytes need not be looked at.
            let probe = at + MIN_ENCODED - 1;
            if !is_encoded(*bytes.get(probe)?) {
                at = probe + 1;
                continue;
            }
            let before = bytes[at..probe].iter().rev().take_while(|byte| is_encoded(**byte)).count();
            let after = bytes[probe..].iter().take_while(|byte| is_encoded(**byte)).count();
            let (start, end) = (probe - before, probe + after);
            at = end + 1;
            // Both ends are beside ASCII characters.
            if end - start >= MIN_ENCODED
                && let Some(run) = text.get(start..end)
            {
                return Some(run);
            }
        }
        None
    });
    runs.filter(|run| run.len() <= MAX_ENCODED).take(MAX_RUNS)
}

const fn is_encoded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=')
}

/// Decodes a run, if it decodes to text.
fn decode(run: &str) -> Option<String> {
    let bytes = run.as_bytes();
    let decoded = if bytes.iter().all(u8::is_ascii_hexdigit) && bytes.len().is_multiple_of(2) {
        decode_hexadecimal(run.chars())?
    } else {
        // What does not begin as text is a file.
        let begin = decode_base64(bytes.get(..16)?)?;
        if !begin.iter().all(|byte| *byte >= b' ' || byte.is_ascii_whitespace()) {
            return None;
        }
        decode_base64(bytes)?
    };
    let text = String::from_utf8(decoded).ok()?;
    let printable = text.chars().filter(|one| !one.is_control() || one.is_whitespace()).count();
    (printable * 100 >= text.chars().count() * 95 && text.contains(' ')).then_some(text)
}
