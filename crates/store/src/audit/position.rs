//! Positions of entries, which can be noted elsewhere as text.

use std::fmt;

use crate::hex::{KEY_BYTES, from_hex, to_hex};

/// Position of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditPosition {
    /// Number of the entry, from 1, without gaps.
    pub seq: u64,
    /// Keyed hash that binds the entry to all entries before it.
    pub bound: [u8; KEY_BYTES],
}

impl fmt::Display for AuditPosition {
    /// Formats the position as `12:9f86…`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, to_hex(&self.bound))
    }
}

impl std::str::FromStr for AuditPosition {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> Result<Self, ParsePositionError> {
        let (seq, bound) = text.split_once(':').ok_or(ParsePositionError)?;
        Ok(Self {
            seq: seq.parse().map_err(|_| ParsePositionError)?,
            bound: *from_hex(bound).ok_or(ParsePositionError)?,
        })
    }
}

/// Error for text that is not an [`AuditPosition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid audit log position: expected a sequence number, a colon and {} hexadecimal digits", 2 * KEY_BYTES)]
#[non_exhaustive]
pub struct ParsePositionError;
