//! Layers of a policy.

/// Layer of a policy file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyLayer {
    /// The policy of the user.
    #[default]
    User,
    /// The policy of an organisation, which the user's cannot loosen.
    Organization,
}

impl PolicyLayer {
    /// Returns the words before "rule 2" that say whose rule it is. Empty for a rule of the user.
    #[must_use]
    pub const fn possessive(self) -> &'static str {
        match self {
            Self::User => "",
            Self::Organization => "organisation's ",
        }
    }
}
