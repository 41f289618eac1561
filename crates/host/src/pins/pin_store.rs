//! Store of pins, shared by all servers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hospes_policy::visible_line;
use hospes_store::pins::{
    ItemKind, PinRecords, ServerPinState, ServerSighting, SightingReport, StoredServer, TrustMode,
};
use hospes_store::{AuditEntry, AuditEntryKind, AuditLog, StoreError};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::known_tools::KnownTools;
use super::lint::{NeighbourTools, lints};
use super::manager::WeakPinMembers;
use super::pinning_config::PinningConfig;
use crate::server::UpstreamEpoch;

/// Interval between attempts to read the store after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of audit entries for one listing. One more entry gives the number of the rest.
const MAX_ENTRIES: usize = 32;

/// Maximum length of a recorded name, in characters.
const MAX_NAME: usize = 200;

/// The pins of a host.
pub(crate) struct PinStore {
    pub(super) store: PinRecords,
    audit: Option<AuditLog>,
    pub(super) epoch: Arc<UpstreamEpoch>,
    /// Names of tools, for detecting descriptions that mention other servers' tools.
    pub(super) tools: Mutex<KnownTools>,
    /// Servers whose tools are known. `None` for all that were ever seen.
    pub(super) members: Mutex<Option<HashSet<String>>>,
    /// Servers that count as members, whatever the host starts: it is a trial of another server then.
    pub(super) neighbours: Vec<String>,
    /// True once the stored tools of the members have been read.
    has_read_tools: AtomicBool,
}

impl PinStore {
    pub(crate) fn new(pinning: &PinningConfig, epoch: Arc<UpstreamEpoch>) -> Self {
        let mut tools = KnownTools::default();
        pinning.neighbour_tools.iter().for_each(|(server, names)| tools.set(server, names.clone()));
        Self {
            store: pinning.state.pins(),
            audit: pinning.audit.clone(),
            epoch,
            tools: Mutex::new(tools),
            members: Mutex::default(),
            neighbours: pinning.neighbours.clone(),
            has_read_tools: AtomicBool::default(),
        }
    }

    /// Counts the changes of the state.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.store.changes()
    }

    /// Stores the definitions that a server offers, and records new and changed ones.
    pub(super) async fn record_sighting(
        &self,
        sighting: ServerSighting,
        trust: TrustMode,
    ) -> Result<SightingReport, StoreError> {
        let server = sighting.server.clone();
        let tools = sighting.definitions.iter().filter(|one| one.kind == ItemKind::Tool);
        let tools: Vec<String> = tools.map(|one| one.name.clone()).collect();
        let all = sighting.definitions.iter();
        // Copied, because the store takes the sighting.
        let texts: HashMap<(ItemKind, String), String> =
            all.map(|one| ((one.kind, one.name.clone()), one.text.clone())).collect();
        let seen = self.store.record_sighting(sighting, trust).await?;
        if !tools.is_empty() {
            self.tools.lock().set(&server, tools);
        }
        if seen.is_first || seen.is_replaced || !seen.news.is_empty() {
            self.record_news(&server, &seen, trust, &texts).await;
        }
        Ok(seen)
    }

    async fn record_news(
        &self,
        server: &str,
        seen: &SightingReport,
        trust: TrustMode,
        texts: &HashMap<(ItemKind, String), String>,
    ) {
        let is_open = seen.server.state == ServerPinState::Accepted;
        let by = if trust == TrustMode::FirstUse { "first use" } else { "seen" };
        if seen.is_first {
            tracing::info!(%server, items = seen.news.len(), "server is seen for the first time");
            self.note(server, None, if is_open { "allow" } else { "new" }, by).await;
        }
        if seen.is_replaced {
            tracing::warn!(%server, program = ?seen.server.fingerprint.program, "the program of the server was replaced");
            self.note(
                server,
                None,
                if is_open && !seen.server.is_replaced() { "allow" } else { "changed" },
                "the program was replaced",
            )
            .await;
        }
        let neighbours = self.neighbours(server);
        for (kind, name, is_known) in seen.news.iter().take(MAX_ENTRIES) {
            let accepted = seen.server.items.iter().any(|item| {
                item.kind == *kind
                    && item.name == *name
                    && item.is_current
                    && item.state == hospes_store::pins::ItemPinState::Accepted
            });
            let decision = match (accepted, is_known) {
                (true, _) => "allow",
                (false, true) => "changed",
                (false, false) => "new",
            };
            if !accepted && !seen.is_first {
                tracing::warn!(%server, kind = kind.as_str(), name = visible_line(name), "{decision}: blocked until accepted");
            }
            let text = texts.get(&(*kind, name.clone())).map(String::as_str);
            for lint in lints(name, text, &neighbours) {
                tracing::warn!(%server, kind = kind.as_str(), name = visible_line(name), at = lint.at, "suspicious: {}", lint.text);
            }
            self.note(server, Some((*kind, name)), decision, by).await;
        }
        if let Some(more) = seen.news.len().checked_sub(MAX_ENTRIES).filter(|more| *more > 0) {
            self.note(server, None, "new", &format!("and {more} more")).await;
        }
    }

    /// Records an entry in the audit log.
    pub(super) async fn note(&self, server: &str, item: Option<(ItemKind, &str)>, decision: &str, by: &str) {
        let Some(audit) = &self.audit else { return };
        let mut entry = AuditEntry::new(AuditEntryKind::Definition);
        entry.server = Some(server.to_owned());
        entry.subject = item.map(|(kind, name)| {
            let name: String = visible_line(name).chars().take(MAX_NAME).collect();
            format!("{} {name}", kind.as_str()).trim_end().to_owned()
        });
        entry.decision = Some(decision.to_owned());
        entry.by = Some(by.to_owned());
        if let Err(error) = audit.enqueue(entry).await {
            tracing::error!(%error, "failed to record an event of a definition");
        }
    }

    /// Returns the tools of the other servers.
    pub(super) fn neighbours(&self, server: &str) -> NeighbourTools {
        self.tools.lock().others(server)
    }

    /// Reads the tools of the members that this host has not seen yet, as they were last seen by any. They start in no
    /// order, so the first listing of one may come before that of a server whose tools it names.
    pub(super) async fn read_known_tools(&self) -> Result<(), StoreError> {
        if !self.has_read_tools.load(Ordering::Acquire) {
            self.add_known_tools(&self.store.servers().await?);
            self.has_read_tools.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Adds the tools of members that this host has not seen. Of each name the server that was seen last comes first.
    pub(super) fn add_known_tools(&self, all: &[StoredServer]) {
        let members = self.members.lock().clone();
        let is_member = |name: &String| {
            members.as_ref().is_none_or(|members| members.contains(name)) || self.neighbours.contains(name)
        };
        let mut known = self.tools.lock();
        for server in all.iter().filter(|server| is_member(&server.name)) {
            let tools = server.items.iter().filter(|item| item.is_current && item.kind == ItemKind::Tool);
            let tools: Vec<String> = tools.map(|item| item.name.clone()).collect();
            if !tools.is_empty() {
                known.add_earlier(&server.name, tools);
            }
        }
    }

    /// Sets the servers of the host, and forgets the tools of others.
    pub(crate) fn set_members(&self, members: HashSet<String>) {
        let is_neighbour = |server: &str| self.neighbours.iter().any(|neighbour| neighbour == server);
        self.tools.lock().retain(|server| members.contains(server) || is_neighbour(server));
        *self.members.lock() = Some(members);
        self.has_read_tools.store(false, Ordering::Release);
    }
}

/// Applies decisions of other processes to the servers of a host, until the host ends.
pub(crate) async fn reload_on_change(mut changes: watch::Receiver<u64>, members: WeakPinMembers) {
    loop {
        let Some(here) = members.gates() else { return };
        for gate in &here {
            gate.reload().await;
        }
        let is_unreadable = here.iter().any(|gate| gate.is_unreadable());
        // Not held while nothing happens, so that the gates end with their host.
        drop(here);
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(RETRY_INTERVAL), if is_unreadable => {}
        }
    }
}

/// Formats an error and its causes in one line.
pub(crate) fn format_error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

impl std::fmt::Debug for PinStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinStore").field("store", &self.store).finish_non_exhaustive()
    }
}
