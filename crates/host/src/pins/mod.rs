//! Pins: what a server offers is used as it was accepted, and not otherwise.
//!
//! A server that was never seen is in quarantine. Its tools are listed by name only and cannot be called; its prompts,
//! resources and instructions are not forwarded; its requests are not answered. A person accepts its command line or
//! URL together with its definitions. From then on each definition is compared with the accepted one, whenever a list
//! is read and again on each call. A definition that differs is blocked until the difference is accepted; all others
//! stay usable. [`PinMode`] sets how definitions are accepted that are seen first.
//!
//! Calls look in memory only. What is kept is in the host's state, which other processes may change at any time.

mod definition;
mod fingerprint;
mod gate;
mod lint;
mod manager;
mod packages;
mod pin_store;
mod redacted_listing;
mod scripts;
mod status;
mod view;

use hospes_store::pins::TrustMode;
use hospes_store::{AuditLog, StateStore};

pub use crate::config::PinMode;
pub(crate) use fingerprint::target;
pub(crate) use gate::PinGate;
pub use gate::REVIEW_INSTRUCTION;
pub use hospes_store::pins::{ItemKind, ItemPinState, RecordedDefinition, Sha256Digest};
pub use lint::{Lint, LintKind};
pub(crate) use manager::PinMember;
pub use manager::{PinManager, PinManagerError};
pub(crate) use pin_store::{PinStore, reload_on_change};
pub use view::{DefinitionChange, DefinitionDifference, PinState, PinnedItem, PinnedServer};

/// Returns the mode of acceptance under which pins are stored; none if nothing is pinned.
fn trust_mode(mode: PinMode) -> Option<TrustMode> {
    match mode {
        PinMode::Ask => Some(TrustMode::Ask),
        PinMode::FirstUse => Some(TrustMode::FirstUse),
        PinMode::Off => None,
    }
}

/// Configuration of pinning: the store of the pins and the mode of acceptance.
#[derive(Clone, Debug)]
pub struct PinningConfig {
    state: StateStore,
    mode: PinMode,
    audit: Option<AuditLog>,
}

impl PinningConfig {
    /// In this state.
    #[must_use]
    pub fn new(state: StateStore, mode: PinMode) -> Self {
        Self { state, mode, audit: None }
    }

    /// Returns the mode in which definitions are accepted when they are first seen.
    #[must_use]
    pub fn mode(&self) -> PinMode {
        self.mode
    }

    pub(crate) fn or_audit(mut self, audit: Option<&AuditLog>) -> Self {
        self.audit = self.audit.or_else(|| audit.cloned());
        self
    }

    /// Records what is accepted, rejected and changed here, in place of the record of the host's guard.
    #[must_use]
    pub fn with_audit(mut self, audit: AuditLog) -> Self {
        self.audit = Some(audit);
        self
    }

    /// The pins without a host: what was last seen of each server, by any.
    #[must_use]
    pub fn offline(&self) -> PinManager {
        PinManager::new(std::sync::Arc::new(PinStore::new(self, std::sync::Arc::default())), None)
    }
}
