//! Configuration of pinning.

use hospes_store::{AuditLog, StateStore};

use super::default_pin_mode::DefaultPinMode;

/// Configuration of pinning: the store of the pins and the mode of acceptance.
#[derive(Clone, Debug)]
pub struct PinningConfig {
    pub(super) state: StateStore,
    mode: DefaultPinMode,
    pub(super) audit: Option<AuditLog>,
    /// Servers, besides those of the host, whose stored tools are known.
    pub(super) neighbours: Vec<String>,
    /// Tools of such servers of which nothing is stored.
    pub(super) neighbour_tools: Vec<(String, Vec<String>)>,
}

impl PinningConfig {
    /// In this state. The mode is a fixed one, or one that changes while the host runs.
    #[must_use]
    pub fn new(state: StateStore, mode: impl Into<DefaultPinMode>) -> Self {
        Self { state, mode: mode.into(), audit: None, neighbours: Vec::new(), neighbour_tools: Vec::new() }
    }

    /// Adds servers that the host does not start, and whose tools, as they were last seen, are compared with those of its
    /// own: for a host that starts one server of a configuration for a trial.
    #[must_use]
    pub fn with_neighbours(mut self, servers: impl IntoIterator<Item = String>) -> Self {
        self.neighbours.extend(servers);
        self
    }

    /// Adds a server that the host does not start, and the names of its tools: a built-in one, of which nothing is stored.
    #[must_use]
    pub fn with_neighbour_tools(mut self, server: &str, tools: Vec<String>) -> Self {
        self.neighbours.push(server.to_owned());
        self.neighbour_tools.push((server.to_owned(), tools));
        self
    }

    /// Returns the mode in which definitions are accepted when they are first seen.
    #[must_use]
    pub fn mode(&self) -> DefaultPinMode {
        self.mode.clone()
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
