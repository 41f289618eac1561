//! Authenticated encryption of bytes that pass through others' hands: request state, and records in a shared store.
//!
//! The cipher is XChaCha20-Poly1305. A sealed text is: version (1 byte), key id (4), nonce (24), ciphertext with its tag
//! (16 more than the plain text). It opens only in the context that it was sealed in.

use std::fmt;

use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use sha2::{Digest as _, Sha256};

/// Length of the random nonce for each sealing, in bytes.
pub const NONCE_LEN: usize = 24;

/// Number of bytes by which a sealed text is longer than its plain text.
pub const SEALING_OVERHEAD: usize = 1 + KEY_ID_LEN + NONCE_LEN + TAG_LEN;

/// Version of the layout, for future changes.
const VERSION: u8 = 1;
const KEY_ID_LEN: usize = 4;
const TAG_LEN: usize = 16;

/// Secret key of 32 bytes that seals texts.
#[derive(Clone)]
pub struct SealingKey {
    cipher: XChaCha20Poly1305,
    /// Id of the key that sealed a text; it reveals nothing about the key.
    id: [u8; KEY_ID_LEN],
}

impl SealingKey {
    /// Creates a key from 32 secret bytes that cannot be guessed.
    #[must_use]
    pub fn from_bytes(secret: [u8; 32]) -> Self {
        // The label is part of sealed texts that clients hold, so it keeps the name of the first use.
        let digest =
            Sha256::new().chain_update(b"hospes request state key id").chain_update(secret).finalize();
        let mut id = [0; KEY_ID_LEN];
        id.copy_from_slice(&digest[..KEY_ID_LEN]);
        Self { cipher: XChaCha20Poly1305::new(&secret.into()), id }
    }

    /// Id of the key, which sealed texts carry.
    #[must_use]
    pub fn id(&self) -> [u8; 4] {
        self.id
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey(…)")
    }
}

/// Seals `plain` for this context. `nonce` must come from the operating system's random source and never be repeated.
#[must_use]
pub fn seal(key: &SealingKey, context: &[u8], nonce: [u8; NONCE_LEN], plain: &[u8]) -> Vec<u8> {
    let secret = key
        .cipher
        .encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: context })
        .expect("the cipher refuses only messages of 256 GiB");
    let mut sealed = Vec::with_capacity(plain.len() + SEALING_OVERHEAD);
    sealed.push(VERSION);
    sealed.extend_from_slice(&key.id);
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(&secret);
    sealed
}

/// Opens a text that one of these keys sealed for this context; `None` if none did, or if it was modified.
pub fn open<'a>(
    keys: impl IntoIterator<Item = &'a SealingKey>,
    context: &[u8],
    sealed: &[u8],
) -> Option<Vec<u8>> {
    let rest = sealed.strip_prefix(&[VERSION])?;
    let (id, rest) = rest.split_first_chunk::<KEY_ID_LEN>()?;
    let (nonce, secret) = rest.split_first_chunk::<NONCE_LEN>()?;
    // Ids are short, so two keys may have the same one: all matching keys are tried.
    let mut keys = keys.into_iter().filter(|key| key.id == *id);
    keys.find_map(|key| {
        key.cipher.decrypt(XNonce::from_slice(nonce), Payload { msg: secret, aad: context }).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_opens_only_with_its_key_and_in_its_context() {
        let (key, other) = (SealingKey::from_bytes([1; 32]), SealingKey::from_bytes([2; 32]));
        let sealed = seal(&key, b"here", [7; NONCE_LEN], b"plain");
        assert_eq!(sealed.len(), b"plain".len() + SEALING_OVERHEAD);
        assert_eq!(open([&other, &key], b"here", &sealed).unwrap(), b"plain");
        assert_eq!(open([&other], b"here", &sealed), None);
        assert_eq!(open([&key], b"there", &sealed), None);
        for position in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[position] ^= 1;
            assert_eq!(open([&key], b"here", &changed), None, "at {position}");
            assert_eq!(open([&key], b"here", &sealed[..position]), None, "cut at {position}");
        }
        assert_eq!(format!("{key:?}"), "SealingKey(…)");
    }
}
