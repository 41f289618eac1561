//! The dated revisions of the specification.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One dated revision of the Model Context Protocol, oldest first.
///
/// A string that names no revision we speak never becomes a `Revision`: parsing fails instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a new revision must be met at every place that tells them apart"
)]
pub enum Revision {
    /// 2024-11-05: the first revision; HTTP+SSE.
    V2024_11_05,
    /// 2025-03-26: Streamable HTTP, batches, audio, tool annotations.
    V2025_03_26,
    /// 2025-06-18: elicitation, structured output, titles, resource links.
    V2025_06_18,
    /// 2025-11-25: tasks, icons, URL elicitation, tools in sampling.
    V2025_11_25,
    /// 2026-07-28: no sessions; every request is complete in itself.
    V2026_07_28,
}

/// How a conversation is opened: by a handshake, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has had exactly two ways to open a conversation")]
pub enum Era {
    /// Up to 2025-11-25: `initialize`, a session, requests in both directions.
    Legacy,
    /// From 2026-07-28: each request carries all it needs.
    Modern,
}

impl Revision {
    /// Every revision, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];
    /// The newest revision, whose shape the domain types have.
    pub const LATEST: Self = Self::V2026_07_28;
    /// The newest revision that is opened by `initialize`.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;

    /// The date that stands on the wire, `YYYY-MM-DD`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The era this revision belongs to.
    #[must_use]
    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Modern,
            _ => Era::Legacy,
        }
    }

    /// Whether the conversation is opened by `initialize`.
    #[must_use]
    pub const fn is_legacy(self) -> bool {
        matches!(self.era(), Era::Legacy)
    }

    /// The position in [`Revision::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The string is not a revision of the specification that we speak.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol version {0:?}")]
pub struct UnknownRevision(pub(crate) String);

impl FromStr for Revision {
    type Err = UnknownRevision;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|r| r.as_str() == text).ok_or_else(|| UnknownRevision(text.to_owned()))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Revision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Revision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
