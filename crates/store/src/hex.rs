//! Hexadecimal text of keys and hashes.

use zeroize::Zeroizing;

/// Length of a key or a hash, in bytes.
pub(crate) const KEY_BYTES: usize = 32;

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses a key or a hash. Returns `None` for text of another length, or with other characters.
pub(crate) fn from_hex(text: &str) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    // The slices below must lie on character boundaries.
    if text.len() != 2 * KEY_BYTES || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}
