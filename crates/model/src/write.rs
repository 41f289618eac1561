//! Writing JSON objects into a buffer that begins before they do.

use serde::Serialize;

/// Appends an object without its first `skip` bytes: the brace, or the opening of `_meta`, stands in the buffer already.
///
/// Everything is written by one kind of writer and then moved, so that a program has each type's encoder once. What is
/// long and frequent (texts, lists) does not come this way.
pub(crate) fn write_rest<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    skip: usize,
    value: &T,
) -> Result<(), serde_json::Error> {
    let begin = out.len();
    serde_json::to_writer(&mut *out, value)?;
    let end = out.len().min(begin + skip);
    out.drain(begin..end);
    Ok(())
}

/// Appends a JSON string, as serde_json writes it, but looks for what must be escaped many bytes at a time.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = find_escape(rest) {
        out.extend_from_slice(&rest[..at]);
        write_escape(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn write_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            // Only control characters get here, and all of them fit two digits.
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Position of the first byte that a JSON string must escape.
fn find_escape(bytes: &[u8]) -> Option<usize> {
    /// Looked at without a branch in between, which compilers turn into vector instructions.
    const BLOCK: usize = 16;

    let clean = bytes
        .chunks_exact(BLOCK)
        .take_while(|block| !block.iter().fold(false, |found, byte| found | is_escaped(*byte)))
        .count();
    let begin = clean * BLOCK;
    bytes[begin..].iter().position(|byte| is_escaped(*byte)).map(|at| begin + at)
}

/// Returns true if a JSON string must escape the byte: a quote, a backslash or a control character.
fn is_escaped(byte: u8) -> bool {
    // No short circuits, so that the loop over a block stays free of branches.
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_are_written_as_serde_json_writes_them(text in "(?s)[a\"\\\\\\x00-\\x20\u{7f}-\u{ff}.]{0,40}|(?s).{0,40}") {
            let mut out = Vec::new();
            write_text(&mut out, &text);
            prop_assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&text).unwrap());
        }
    }

    #[test]
    fn every_byte_is_escaped_or_not_wherever_it_stands() {
        for byte in 0..=0x7f_u8 {
            for at in 0..70 {
                let mut text = vec![b'x'; 70];
                text[at] = byte;
                let text = String::from_utf8(text).unwrap();
                let mut out = Vec::new();
                write_text(&mut out, &text);
                assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&text).unwrap());
            }
        }
    }
}
