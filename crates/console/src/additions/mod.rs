//! Additions of servers from a registry: what the program carries out, and what a page shows and answers.
//!
//! The console does not depend on the program. The program implements [`ServerAdder`] with the steps of `hospes add`, and
//! asks the person through an [`AdditionPerson`].

mod person;
mod running;
mod screens;
mod secret_mask;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

pub use self::person::{AdditionAnswers, AdditionPerson};
pub(crate) use self::running::{AdditionLines, BeginAdditionError, RunningAdditions};
pub use self::screens::{
    AddedServer, AdditionOffer, AdditionPlan, AdditionQuestion, AdditionQuestions, AdditionRow,
    AdditionScreen, AdditionSignIn, OfferedItem,
};
use crate::setup::SetupOutcome;

/// A server of the registry that a person wants to add.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WantedServer {
    /// Full name in the registry, such as `io.github.owner/server`.
    pub name: String,
    /// Version of the entry. The newest one if there is none.
    pub version: Option<String>,
    /// Way to run it, such as `npm`, if the person chose one.
    pub package: Option<String>,
    /// Description of the person for the audit log.
    pub by: String,
}

/// A server of the configuration that a person wants to update.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WantedUpdate {
    /// Name in the configuration.
    pub name: String,
    /// Description of the person for the audit log.
    pub by: String,
}

/// Reason that a server was not added or updated, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(clippy::exhaustive_structs, reason = "the program fills in all of it")]
pub struct AdditionFailure {
    /// Reason, with its causes.
    pub message: String,
    /// Remedy.
    pub hint: Option<String>,
}

/// End of an addition.
pub type AdditionOutcome = Pin<Box<dyn Future<Output = Result<AddedServer, AdditionFailure>> + Send>>;

/// Additions and updates of servers, as the program carries them out.
pub trait ServerAdder: fmt::Debug + Send + Sync {
    /// Searches the registry for these words. The result is that of `hospes search --json`.
    fn search(&self, words: String) -> SetupOutcome;

    /// Adds a server: plans, installs and starts it, and writes its entry after the person's yes. Everything that was made
    /// on the way is removed if the outcome is an error. A person who is gone is a no.
    fn add(&self, wanted: WantedServer, person: Arc<AdditionPerson>) -> AdditionOutcome;

    /// Updates a server of the configuration to a newer version, with the same questions: installs and starts the new version
    /// beside the old one, and changes the entry after the person's yes. Before it, nothing is changed.
    fn update(&self, wanted: WantedUpdate, person: Arc<AdditionPerson>) -> AdditionOutcome {
        drop((wanted, person));
        let failure =
            AdditionFailure { message: "this host updates no servers for pages".to_owned(), hint: None };
        Box::pin(async { Err(failure) })
    }
}
