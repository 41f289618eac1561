//! Pins of the servers that a host starts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use hospes_store::AuditLog;
use tokio::task::JoinHandle;

use crate::config::{PinMode, ServerConfig};
use crate::pins::{
    DefaultPinMode, PinManager, PinMember, PinMembers, PinStore, PinningConfig, reload_on_change,
};
use crate::server::UpstreamEpoch;

/// The store of the pins, and what is pinned of each server.
pub(super) struct HostPins {
    store: Arc<PinStore>,
    mode: DefaultPinMode,
    members: PinMembers,
}

impl HostPins {
    /// Creates the pins, of no server yet. `None` if pinning is off, for all servers and for each of these.
    pub(super) fn new(
        pinning: PinningConfig,
        servers: &[ServerConfig],
        audit: Option<&AuditLog>,
        epoch: &Arc<UpstreamEpoch>,
    ) -> Option<Self> {
        let mode = pinning.mode();
        let now = mode.current();
        let is_off = |server: &ServerConfig| server.pins.unwrap_or(now) == PinMode::Off;
        if now == PinMode::Off && servers.iter().all(is_off) {
            return None;
        }
        let store = Arc::new(PinStore::new(&pinning.or_audit(audit), Arc::clone(epoch)));
        let pins = Self { store, mode, members: PinMembers::default() };
        pins.set_names(servers);
        Some(pins)
    }

    /// Sets the servers whose tools are compared with each other. Before a new one of them starts, so that the first
    /// listing is compared with the tools of all.
    pub(super) fn set_names(&self, servers: &[ServerConfig]) {
        self.store.set_members(servers.iter().map(|server| server.name.clone()).collect());
    }

    /// Creates what is pinned of a server. `None` if the server is not pinned.
    pub(super) fn member(&self, server: &ServerConfig) -> Option<PinMember> {
        PinMember::of(server, &self.mode, &self.store)
    }

    /// Returns what is pinned of a server of the host.
    pub(super) fn current(&self, server: &str) -> Option<PinMember> {
        self.members.current().iter().find(|member| member.server() == server).cloned()
    }

    /// Sets the servers of the host. New ones come with what [`HostPins::member`] created; of the others, what was there
    /// stays.
    pub(super) fn set(&self, servers: &[ServerConfig], mut new: HashMap<String, Option<PinMember>>) {
        let before = self.members.current();
        // Servers of profiles are pinned with those of the same name.
        let mut set = HashSet::new();
        let servers_once = servers.iter().filter(|server| set.insert(server.name.as_str()));
        let members = servers_once.filter_map(|server| match new.remove(&server.name) {
            Some(member) => member,
            None => before.iter().find(|member| member.server() == server.name).cloned(),
        });
        self.members.set(members.collect());
    }

    /// Starts a task that reads the pins again when they change in the store.
    pub(super) fn watch(&self) -> JoinHandle<()> {
        tokio::spawn(reload_on_change(self.store.changes(), self.members.downgrade()))
    }

    /// Returns the manager of the pins.
    pub(super) fn manager(&self) -> PinManager {
        PinManager::new(Arc::clone(&self.store), Some(self.members.clone()))
    }
}
