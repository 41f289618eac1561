//! Configuration of pinning.

use hospes_store::{AuditLog, StateStore};

use crate::config::PinMode;

/// Configuration of pinning: the store of the pins and the mode of acceptance.
#[derive(Clone, Debug)]
pub struct PinningConfig {
    pub(super) state: StateStore,
    mode: PinMode,
    pub(super) audit: Option<AuditLog>,
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
}
