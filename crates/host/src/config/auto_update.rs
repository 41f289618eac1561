//! The setting `auto_update`.

/// Updates that are made without a person: the setting `auto_update`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AutoUpdate {
    /// None.
    #[default]
    Off,
    /// Versions that correct the one in use, if what the server offers and how it is run stay the same.
    Patch,
}

impl AutoUpdate {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Off, Self::Patch];

    /// Returns its name in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Patch => "patch",
        }
    }

    /// Parses the name in the configuration.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}
