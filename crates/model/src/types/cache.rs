//! Cache settings of results (2026-07-28).

use serde::{Deserialize, Deserializer, Serialize};

use crate::types::lenient;

/// Scope in which a cached result may be shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "whatever else a peer may say must be read as private")]
pub enum CacheScope {
    /// Shared only within the same authorization context.
    #[default]
    Private,
    /// Shared with any client.
    Public,
}

impl CacheScope {
    /// Returns the string used in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}

impl<'de> Deserialize<'de> for CacheScope {
    /// Decodes a scope. An unknown scope is private, which is the safe interpretation.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        lenient::text(deserializer, |text| if text == "public" { Self::Public } else { Self::Private })
    }
}
