//! Pins: what a server offers is used as it was accepted, and not otherwise.
//!
//! A server that was never seen is in quarantine. Its tools are listed by name only and cannot be called; its prompts,
//! resources and instructions are not forwarded; its requests are not answered. A person accepts its command line or
//! URL together with its definitions. From then on each definition is compared with the accepted one, whenever a list
//! is read and again on each call. A definition that differs is blocked until the difference is accepted; all others
//! stay usable. [`PinMode`] sets how definitions are accepted that are seen first.
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
    /// Nothing is pinned.
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

    fn trust(self) -> Option<Trust> {
        match self {
            Self::Ask => Some(Trust::Ask),
            Self::FirstUse => Some(Trust::FirstUse),
            Self::Off => None,
        }
    }
}

/// Configuration of pinning: the store of the pins and the mode of acceptance.
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

    /// Returns the mode in which definitions are accepted when they are first seen.
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
