//! Cursors: the start of a page, in an opaque form (PAGE-10).
//!
//! A cursor holds the number under which the last entry of the page before was registered. It stays good when
//! entries come and go, and in every process that registers the same things in the same order.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The cursor of the page that follows entry number `after` of the list `kind`.
pub(crate) fn write(kind: u8, after: u64) -> String {
    let mut bytes = [0; 13];
    bytes[0] = kind;
    bytes[1..9].copy_from_slice(&after.to_be_bytes());
    let check = check(&bytes[..9]);
    bytes[9..].copy_from_slice(&check);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The number in a cursor of the list `kind`; none if we did not write it.
pub(crate) fn read(kind: u8, cursor: &str) -> Option<u64> {
    let bytes: [u8; 13] = URL_SAFE_NO_PAD.decode(cursor).ok()?.try_into().ok()?;
    // Lists number their entries apart: a cursor of another one would point behind an unrelated entry.
    if bytes[0] != kind || bytes[9..] != check(&bytes[..9]) {
        return None;
    }
    Some(u64::from_be_bytes(bytes[1..9].try_into().ok()?))
}

/// FNV-1a. A forged cursor could only name a page that anybody may ask for, so this guards against mistakes alone.
fn check(bytes: &[u8]) -> [u8; 4] {
    let hash =
        bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    hash.to_be_bytes()
}
