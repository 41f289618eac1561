//! Pins of the servers that a host starts.

use std::sync::Arc;

use hospes_store::AuditLog;
use tokio::task::JoinHandle;

use crate::config::{PinMode, ServerConfig};
use crate::pins::{PinGate, PinManager, PinMember, PinStore, PinningConfig, reload_on_change};
use crate::server::UpstreamEpoch;

/// The store of the pins, and what is pinned of each server.
pub(super) struct HostPins {
    store: Arc<PinStore>,
    /// By position of the server.
    members: Vec<Option<PinMember>>,
}

impl HostPins {
    /// Creates the pins; none if no server is pinned.
    pub(super) fn new(
        pinning: PinningConfig,
        servers: &[ServerConfig],
        audit: Option<&AuditLog>,
        epoch: &Arc<UpstreamEpoch>,
    ) -> Option<Self> {
        let mode = pinning.mode();
        // A server may be configured otherwise than all others.
        if servers.iter().all(|server| server.pins.unwrap_or(mode) == PinMode::Off) {
            return None;
        }
        let store = Arc::new(PinStore::new(&pinning.or_audit(audit), Arc::clone(epoch)));
        let members = servers.iter().map(|server| PinMember::of(server, mode, &store)).collect();
        Some(Self { store, members })
    }

    /// Returns the gate of a server; none if the server is not pinned.
    pub(super) fn gate(&self, server: usize) -> Option<Arc<PinGate>> {
        self.members.get(server)?.as_ref()?.gate().cloned()
    }

    /// Starts a task that reads the pins again when they change in the store.
    pub(super) fn watch(&self) -> JoinHandle<()> {
        // Weak, so that the task does not keep the gates alive.
        let gates = self.members.iter().flatten().filter_map(PinMember::gate).map(Arc::downgrade).collect();
        tokio::spawn(reload_on_change(self.store.changes(), gates))
    }

    /// Returns the manager of the pins.
    pub(super) fn into_manager(self) -> PinManager {
        PinManager::new(self.store, Some(self.members.into_iter().flatten().collect()))
    }
}
