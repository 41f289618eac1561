//! Author of a decision.

use hospes_store::DecisionBasis;

/// Author of a decision, for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionAuthor {
    pub(crate) by: String,
    pub(crate) basis: DecisionBasis,
}

impl DecisionAuthor {
    /// Creates the author of a person's decision, such as "the person at the console".
    #[must_use]
    pub fn person(by: impl Into<String>) -> Self {
        Self { by: by.into(), basis: DecisionBasis::Person }
    }

    /// Creates the author of a program's decision.
    #[must_use]
    pub fn program(by: impl Into<String>) -> Self {
        Self { by: by.into(), basis: DecisionBasis::Program }
    }

    /// Returns the description.
    #[must_use]
    pub fn into_description(self) -> String {
        self.by
    }
}

/// A person with this description.
impl From<&str> for DecisionAuthor {
    fn from(by: &str) -> Self {
        Self::person(by)
    }
}
