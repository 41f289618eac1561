//! Writing of JSON objects whose first bytes are already in the buffer.

use serde::Serialize;

/// Appends an object without its first `skip` bytes: the brace, or the opening of `_meta`, which are already in the
/// buffer.
///
/// All values are written by the same writer type and then moved, so that a program contains each type's encoder once.
/// Long and frequent values (texts, lists) do not use this function.
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

/// Appends a JSON string with the same result as serde_json, but searches for bytes to escape in blocks.
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
            // Only control characters get here, which fit in two digits.
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Returns the position of the first byte that a JSON string must escape.
fn find_escape(bytes: &[u8]) -> Option<usize> {
    /// Number of bytes checked without a branch, so that compilers use vector instructions.
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
