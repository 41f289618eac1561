//! The setting `check_arguments`.

/// Strictness with which arguments are checked against a tool's input schema: the setting `check_arguments`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArgumentCheck {
    /// The whole schema, and no properties that it does not list.
    #[default]
    Strict,
    /// The schema, but unlisted properties pass, and so do numbers, truth values and JSON that are written as text.
    Lax,
    /// Arguments are not checked.
    Off,
}

impl ArgumentCheck {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Lax, Self::Off];

    /// Returns its name in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Lax => "lax",
            Self::Off => "off",
        }
    }

    /// Parses the name in the configuration.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|check| check.as_str() == text)
    }
}
