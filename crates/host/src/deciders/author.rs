//! Author of a decision.

use hospes_store::DecisionBasis;

use super::team_decider::TeamDecider;

/// Author of a decision, for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionAuthor {
    pub(crate) by: String,
    pub(crate) basis: DecisionBasis,
    /// Person of a team. `None` for those who are at the machine of the host.
    pub(crate) person: Option<TeamDecider>,
}

impl DecisionAuthor {
    /// Creates the author of a person's decision, such as "the person at the console".
    #[must_use]
    pub fn person(by: impl Into<String>) -> Self {
        Self { by: by.into(), basis: DecisionBasis::Person, person: None }
    }

    /// Creates the author of a decision of a person of a team, who decides what exists for this person.
    #[must_use]
    pub fn team_person(by: impl Into<String>, person: TeamDecider) -> Self {
        Self { by: by.into(), basis: DecisionBasis::Person, person: Some(person) }
    }

    /// Creates the author of a program's decision.
    #[must_use]
    pub fn program(by: impl Into<String>) -> Self {
        Self { by: by.into(), basis: DecisionBasis::Program, person: None }
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
