//! Keys of single uses, rate limits and data flows. All are digests, so that the store holds no names.

use std::fmt::Write as _;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::settings::MAX_DURATION;

/// Key that can be used once, for example of a request state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OnceKey(pub(crate) [u8; 32]);

/// Key of a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RateKey(pub(crate) [u8; 32]);

/// Key of a data flow: a session, or all requests of an application for a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey(pub(crate) [u8; 32]);

macro_rules! key_of_parts {
    ($($key:ident: $domain:literal),*) => {$(
        impl $key {
            /// Computes the key of `parts`. Each is hashed with its length, so that none runs into the next.
            #[must_use]
            pub fn new(parts: &[&[u8]]) -> Self {
                Self(digest($domain, parts))
            }
        }
    )*};
}

key_of_parts!(OnceKey: "once", RateKey: "rate", FlowKey: "flow");

/// Id of one logical change. It is made once, and every repeat of the change uses it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttemptId(pub(crate) [u8; 16]);

impl AttemptId {
    /// Draws an id.
    ///
    /// # Panics
    /// If the operating system provides no random numbers.
    #[must_use]
    pub fn random() -> Self {
        Self(random())
    }
}

/// Rate limit: one use per `interval` on average, and `burst` uses at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a pair that callers make")]
pub struct RateLimit {
    /// Time after which one more use is possible.
    pub interval: Duration,
    /// Number of uses that are possible after a long pause; at least 1.
    pub burst: u32,
}

impl RateLimit {
    /// Interval, and the time that a whole burst is worth.
    pub(crate) fn times(self) -> (Duration, Duration) {
        let interval = self.interval.min(MAX_DURATION);
        (interval, interval.saturating_mul(self.burst.max(1)).min(MAX_DURATION).max(interval))
    }
}

/// Verdict of a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller has to treat both")]
pub enum RateVerdict {
    /// The use was counted.
    Allowed,
    /// The limit is reached; nothing was counted.
    Exceeded {
        /// Time after which a use is possible.
        retry_in: Duration,
    },
}

/// Computes SHA-256 of parts within a domain.
pub(crate) fn digest(domain: &str, parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new().chain_update("hospes fleet ").chain_update(domain);
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// Draws random bytes.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system provides random numbers");
    bytes
}

/// Writes bytes as hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads lower-case hexadecimal digits.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut bytes = [0; N];
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}
