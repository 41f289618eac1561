//! Writing JSON objects into a buffer that begins before they do.

use std::io;

use serde::Serialize;

/// A writer that drops its first bytes: the brace, or the opening of `_meta`, that stands in the buffer already.
pub(crate) struct SkipFirst<'a> {
    out: &'a mut Vec<u8>,
    left: usize,
}

impl<'a> SkipFirst<'a> {
    pub(crate) fn write<T: Serialize + ?Sized>(
        out: &'a mut Vec<u8>,
        skip: usize,
        value: &T,
    ) -> Result<(), serde_json::Error> {
        serde_json::to_writer(Self { out, left: skip }, value)
    }
}

impl io::Write for SkipFirst<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.left > 0 {
            let skip = self.left.min(bytes.len());
            self.left -= skip;
            bytes = &bytes[skip..];
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Appends a JSON string, as serde_json writes it, but looks for what must be escaped eight bytes at a time.
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
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Where the first byte is that a JSON string cannot hold as it is: a quote, a backslash, a control character.
fn find_escape(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);
    // The top bit of each byte that is less than `n`, where `n` is at most 0x80; those above the first may be wrong.
    let below = |word: u64, n: u64| word.wrapping_sub(ONES * n) & !word & TOPS;

    let mut words = bytes.chunks_exact(8);
    for (index, chunk) in words.by_ref().enumerate() {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        let word = u64::from_le_bytes(word);
        let quotes = word ^ (ONES * u64::from(b'"'));
        let slashes = word ^ (ONES * u64::from(b'\\'));
        let found = below(word, 0x20) | below(quotes, 1) | below(slashes, 1);
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let rest = words.remainder();
    let begin = bytes.len() - rest.len();
    rest.iter().position(|byte| matches!(byte, 0..=0x1f | b'"' | b'\\')).map(|at| begin + at)
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
            for at in 0..20 {
                let mut text = vec![b'x'; 20];
                text[at] = byte;
                let text = String::from_utf8(text).unwrap();
                let mut out = Vec::new();
                write_text(&mut out, &text);
                assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&text).unwrap());
            }
        }
    }
}
