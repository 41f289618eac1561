//! Store of pins, shared by all servers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hospes_policy::visible_line;
use hospes_store::pins::{
    ItemKind, ItemPinState, PinRecords, ServerPinState, ServerSighting, SightingReport, StoredItem,
    StoredServer, TrustMode,
};
use hospes_store::{AuditEntry, AuditEntryKind, AuditLog, StateClock, StoreError};
use jiff::Timestamp;
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
    clock: StateClock,
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
            clock: pinning.state.clock(),
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
        let (clock, name) = (self.clock.clone(), server.clone());
        let entries = move |seen: &SightingReport| news_entries(&name, seen, trust, clock.now());
        let seen = self.store.record_audited_sighting(sighting, trust, entries.clone()).await?;
        if !tools.is_empty() {
            self.tools.lock().set(&server, tools);
        }
        if has_news(&seen) {
            self.log_news(&server, &seen, &texts);
            for entry in entries(&seen) {
                self.note(entry).await;
            }
        }
        Ok(seen)
    }

    /// Logs what a server offers for the first time or has changed.
    fn log_news(&self, server: &str, seen: &SightingReport, texts: &HashMap<(ItemKind, String), String>) {
        if seen.is_first {
            tracing::info!(%server, items = seen.news.len(), "server is seen for the first time");
        }
        if seen.is_replaced {
            tracing::warn!(%server, program = ?seen.server.fingerprint.program, "the program of the server was replaced");
        }
        let neighbours = self.neighbours(server);
        for item @ (kind, name, _) in seen.news.iter().take(MAX_ENTRIES) {
            let decision = item_decision(seen, item);
            if decision != "allow" && !seen.is_first {
                tracing::warn!(%server, kind = kind.as_str(), name = visible_line(name), "{decision}: blocked until accepted");
            }
            let text = texts.get(&(*kind, name.clone())).map(String::as_str);
            for lint in lints(name, text, &neighbours) {
                tracing::warn!(%server, kind = kind.as_str(), name = visible_line(name), at = lint.at, "suspicious: {}", lint.text);
            }
        }
    }

    /// Creates an entry for the audit log.
    pub(super) fn entry(
        &self,
        server: &str,
        item: Option<(ItemKind, &str)>,
        decision: &str,
        by: &str,
    ) -> AuditEntry {
        pin_entry(server, item, (decision, by), self.clock.now())
    }

    /// Records an entry in the audit log. Without effect if the state has recorded it, in the transaction of its decision.
    pub(super) async fn note(&self, entry: AuditEntry) {
        let Some(audit) = self.audit.as_ref().filter(|_| !self.store.records_decisions()) else { return };
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

/// Returns true if a sighting has something to be recorded.
fn has_news(seen: &SightingReport) -> bool {
    seen.is_first || seen.is_replaced || !seen.news.is_empty()
}

/// Returns the entries of what a server offers for the first time or has changed.
fn news_entries(server: &str, seen: &SightingReport, trust: TrustMode, at: Timestamp) -> Vec<AuditEntry> {
    let is_open = seen.server.state == ServerPinState::Accepted;
    let by = if trust == TrustMode::FirstUse { "first use" } else { "seen" };
    let entry = |item, decision: &str, by: &str| pin_entry(server, item, (decision, by), at);
    let mut entries = Vec::new();
    if seen.is_first {
        entries.push(entry(None, if is_open { "allow" } else { "new" }, by));
    }
    if seen.is_replaced {
        let is_allowed = is_open && !seen.server.is_replaced();
        entries.push(entry(None, if is_allowed { "allow" } else { "changed" }, "the program was replaced"));
    }
    for item @ (kind, name, _) in seen.news.iter().take(MAX_ENTRIES) {
        entries.push(entry(Some((*kind, name.as_str())), item_decision(seen, item), by));
    }
    if let Some(more) = seen.news.len().checked_sub(MAX_ENTRIES).filter(|more| *more > 0) {
        entries.push(entry(None, "new", &format!("and {more} more")));
    }
    entries
}

/// Returns the recorded decision about a new or changed item.
fn item_decision(seen: &SightingReport, (kind, name, is_known): &(ItemKind, String, bool)) -> &'static str {
    let is_accepted = |item: &StoredItem| {
        item.kind == *kind && item.name == *name && item.is_current && item.state == ItemPinState::Accepted
    };
    match (seen.server.items.iter().any(is_accepted), is_known) {
        (true, _) => "allow",
        (false, true) => "changed",
        (false, false) => "new",
    }
}

/// Creates the audit entry of a decision about a server, or about one item.
fn pin_entry(
    server: &str,
    item: Option<(ItemKind, &str)>,
    (decision, by): (&str, &str),
    at: Timestamp,
) -> AuditEntry {
    let mut entry = AuditEntry::new(AuditEntryKind::Definition);
    entry.at = at.as_microsecond();
    entry.server = Some(server.to_owned());
    entry.subject = item.map(|(kind, name)| {
        let name: String = visible_line(name).chars().take(MAX_NAME).collect();
        format!("{} {name}", kind.as_str()).trim_end().to_owned()
    });
    (entry.decision, entry.by) = (Some(decision.to_owned()), Some(by.to_owned()));
    entry
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
