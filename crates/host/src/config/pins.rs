//! The setting `pins`.

use serde::{Deserialize, Serialize};

/// Mode in which a server's definitions are accepted when they are first seen: the setting `pins`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PinMode {
    /// A person: until then the server is in quarantine.
    Ask,
    /// No decision is required: a server of the configuration is accepted when it is first seen. Later changes wait for
    /// a person.
    FirstUse,
    /// Pinning is off.
    Off,
}

impl PinMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ask, Self::FirstUse, Self::Off];

    /// Returns its name in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::FirstUse => "first-use",
            Self::Off => "off",
        }
    }

    /// From how it is written.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}
