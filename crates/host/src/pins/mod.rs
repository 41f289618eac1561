//! Pins: what a server offers is used as it was accepted, and not otherwise.
//!
//! A server that was never seen is in quarantine: its tools are listed by their names, without a word of its own, and cannot
//! be called; its prompts, resources and instructions are not passed on; nothing can be asked through it. A person accepts
//! its command line or URL together with what it offers; from then on each definition is compared with the one that was
//! accepted, whenever a list is read and again when a call goes out. What differs is withheld until the difference is
//! accepted; the rest goes on. [`PinMode`] says who accepts what is seen first.
//!
//! Calls look in memory only. What is kept is in the host's state, which other processes may change at any time.

mod book;
mod definition;
mod fingerprint;
mod gate;
mod handle;
mod lint;
mod packages;
mod scripts;
mod shown;
mod standing;
mod view;

use hospes_store::pins::Trust;
use hospes_store::{Audit, State};
use serde::{Deserialize, Serialize};

pub(crate) use book::{Book, follow};
pub(crate) use definition::Hashes;
pub(crate) use fingerprint::target;
pub(crate) use gate::Gate;
pub use gate::PERSON_LOOKS;
pub(crate) use handle::Member;
pub use handle::{Pins, PinsError};
pub use hospes_store::pins::{Digest, ItemKind, ItemState, Recorded};
pub use lint::{Lint, LintKind};
pub(crate) use standing::Withheld;
pub use view::{Change, Difference, PinState, PinnedItem, PinnedServer};

/// Who accepts what a server offers when it is first seen: the setting `pins`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PinMode {
    /// A person: until then the server is in quarantine.
    Ask,
    /// Nobody has to: a server that the configuration names is taken as it is when it is first seen. What changes later
    /// waits for a person.
    FirstUse,
    /// Nothing is pinned.
    Off,
}

impl PinMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ask, Self::FirstUse, Self::Off];

    /// As it is written.
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

    fn trust(self) -> Option<Trust> {
        match self {
            Self::Ask => Some(Trust::Ask),
            Self::FirstUse => Some(Trust::FirstUse),
            Self::Off => None,
        }
    }
}

/// Where a host keeps its pins, and who accepts what is new.
#[derive(Clone, Debug)]
pub struct Pinning {
    state: State,
    mode: PinMode,
    audit: Option<Audit>,
}

impl Pinning {
    /// In this state.
    #[must_use]
    pub fn new(state: State, mode: PinMode) -> Self {
        Self { state, mode, audit: None }
    }

    /// Who accepts what is seen first.
    #[must_use]
    pub fn mode(&self) -> PinMode {
        self.mode
    }

    pub(crate) fn or_audit(mut self, audit: Option<&Audit>) -> Self {
        self.audit = self.audit.or_else(|| audit.cloned());
        self
    }

    /// Records what is accepted, rejected and changed here, in place of the record of the host's guard.
    #[must_use]
    pub fn with_audit(mut self, audit: Audit) -> Self {
        self.audit = Some(audit);
        self
    }

    /// The pins without a host: what was last seen of each server, by any.
    #[must_use]
    pub fn offline(&self) -> Pins {
        Pins::new(std::sync::Arc::new(Book::new(self, std::sync::Arc::default())), None)
    }
}
