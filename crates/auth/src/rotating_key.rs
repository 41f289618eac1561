//! Keys that are generated here and rotated.

use std::fmt;

use zeroize::Zeroizing;

/// A key, and when it is used, in seconds since 1970.
#[derive(Clone)]
#[non_exhaustive]
pub struct RotatingKey {
    /// Identifier, unique among the keys of its kind.
    pub id: String,
    /// The key.
    pub secret: Zeroizing<Vec<u8>>,
    /// First second in which it is used.
    pub from: u64,
    /// First second in which it is no longer used.
    pub to: u64,
}

impl RotatingKey {
    /// Creates a key that is used from `from` until before `to`.
    #[must_use]
    pub fn new(id: String, secret: Zeroizing<Vec<u8>>, from: u64, to: u64) -> Self {
        Self { id, secret, from, to }
    }

    /// Returns the key in use that all nodes choose.
    #[must_use]
    pub fn find_current(keys: &[Self], now: u64) -> Option<&Self> {
        // The oldest, because a key that another node has just made is not known everywhere; ids break
        // ties.
        keys.iter().filter(|key| key.is_used(now)).min_by(|one, other| one.order().cmp(&other.order()))
    }

    /// Returns true if it is used at `now`.
    #[must_use]
    pub fn is_used(&self, now: u64) -> bool {
        self.from <= now && now < self.to
    }

    /// Returns the value by which all nodes sort keys: of the keys in use, the first is chosen.
    #[must_use]
    pub fn order(&self) -> (u64, &str) {
        (self.from, &self.id)
    }
}

impl fmt::Debug for RotatingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RotatingKey")
            .field("id", &self.id)
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}
