//! Generation of secrets, and fingerprints for display.

use std::fmt;

use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Source of random bytes for one flow, which does no I/O: 32 bytes, from which any number of secrets is derived.
pub struct Seed {
    key: hmac::Key,
    drawn: u64,
}

impl Seed {
    /// Creates a seed from these bytes. They must come from the operating system's randomness (in tests: from the
    /// test).
    #[must_use]
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, bytes), drawn: 0 }
    }

    /// Creates a seed from the operating system's random source.
    ///
    /// # Errors
    /// If the operating system provides no random bytes.
    pub fn from_system() -> Result<Self, getrandom::Error> {
        let mut bytes = zeroize::Zeroizing::new([0; 32]);
        getrandom::fill(&mut *bytes)?;
        Ok(Self::new(&bytes))
    }

    /// Returns the next 32 bytes, which reveal nothing about the others.
    pub fn draw(&mut self) -> [u8; 32] {
        self.drawn += 1;
        let tag = hmac::sign(&self.key, &self.drawn.to_be_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(tag.as_ref());
        bytes
    }

    /// Returns the next 32 bytes as 43 URL-safe characters.
    pub fn draw_text(&mut self) -> String {
        URL_SAFE_NO_PAD.encode(self.draw())
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(…)")
    }
}

/// Returns a displayable fingerprint of a token: 8 hexadecimal digits of its hash, never the token.
#[must_use]
pub fn fingerprint(secret: &str) -> String {
    let hash = digest::digest(&digest::SHA256, secret.as_bytes());
    hash.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_secrets_that_differ_and_can_be_made_again() {
        let (mut one, mut same, mut other) = (Seed::new(&[1; 32]), Seed::new(&[1; 32]), Seed::new(&[2; 32]));
        let (first, second) = (one.draw_text(), one.draw_text());
        assert_ne!(first, second);
        assert_eq!((first.clone(), second), (same.draw_text(), same.draw_text()));
        assert_ne!(first, other.draw_text());
        assert_eq!(first.len(), 43);
    }
}
