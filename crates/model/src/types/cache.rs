//! Cache settings of results (2026-07-28).

use serde::{Deserialize, Deserializer, Serialize};

use crate::types::lenient;

/// Scope in which a cached result may be shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "whatever else a peer may say must be read as private")]
pub enum CacheScope {
    /// Only the same authorization context.
    #[default]
    Private,
    /// Anybody.
    Public,
}

impl CacheScope {
    /// The string on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}

impl<'de> Deserialize<'de> for CacheScope {
    /// A scope that we do not know is private: the careful reading.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        lenient::text(deserializer, |text| if text == "public" { Self::Public } else { Self::Private })
    }
}
