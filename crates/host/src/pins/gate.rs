//! Pins of one server, checked when it starts, lists and is called.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hospes_inspect::lints::ToolNames;
use hospes_store::StoreError;
use hospes_store::pins::{
    ItemDefinition, ItemKind, ItemPinState, RecordedDefinition, SMALL_CHANGE, ServerFingerprint,
    ServerPinState, ServerSighting, TrustMode,
};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use url::Url;

use super::default_pin_mode::DefaultPinMode;
use super::definition::definitions;
use super::fingerprint::fingerprint;
use super::lint::needs_review;
use super::pin_store::PinStore;
use super::redacted_listing::redact_listing;
use super::small_change::is_small_change;
use super::status::PinStatus;
use crate::config::{PinMode, ServerConfig, ServerTransport, ToolFilter, is_loopback};
use crate::server::{
    BlockReason, ConnectorFuture, DefinitionGate, DefinitionHashes, UpstreamConnectError, UpstreamListing,
};

/// Instruction for a person about a blocked server, as the end of a sentence. Models can read it, so it names no
/// command.
pub const REVIEW_INSTRUCTION: &str = "a person has to review it in the console and accept or reject it there";

/// Longest wait for the store if what it would say is in memory.
const SETTLED_WAIT: Duration = Duration::from_secs(1);

/// Enforcement of one server's pins.
pub(crate) struct PinGate {
    pub(crate) server: Arc<str>,
    transport: ServerTransport,
    /// Names of variables that the process gets from the host, if not the usual few.
    inherited: Option<Vec<String>>,
    filter: ToolFilter,
    /// Mode of the server's own configuration.
    own_mode: Option<PinMode>,
    /// Mode of all servers without one of their own.
    default_mode: DefaultPinMode,
    /// True if the server has waited for a person since the host started. It is not accepted by itself any more then, even
    /// if the mode changes.
    has_waited: AtomicBool,
    /// True if the server has been accepted at another address and not yet at this one.
    has_moved: AtomicBool,
    book: Arc<PinStore>,
    /// Fingerprint of the last start.
    fingerprint: Mutex<Option<ServerFingerprint>>,
    standing: RwLock<Arc<PinStatus>>,
    changes: watch::Sender<u64>,
    /// Held while the pins are read and the status is set, so that an older status cannot overwrite a newer one.
    turn: tokio::sync::Mutex<()>,
}

impl PinGate {
    /// Creates the gate of a server. `None` if it is not pinned, and for built-in servers, which are trusted like the
    /// program.
    pub(crate) fn of(
        config: &ServerConfig,
        mode: &DefaultPinMode,
        book: &Arc<PinStore>,
    ) -> Option<Arc<Self>> {
        trust_mode(config.pins.unwrap_or_else(|| mode.current()))?;
        if matches!(config.transport, ServerTransport::Builtin(_)) {
            return None;
        }
        Some(Arc::new(Self {
            server: config.name.as_str().into(),
            transport: config.transport.clone(),
            inherited: config.sandbox.environment.clone(),
            filter: config.tools.clone(),
            own_mode: config.pins,
            default_mode: mode.clone(),
            has_waited: AtomicBool::new(false),
            has_moved: AtomicBool::new(false),
            book: Arc::clone(book),
            fingerprint: Mutex::default(),
            standing: RwLock::new(Arc::new(PinStatus::unseen())),
            changes: watch::Sender::default(),
            turn: tokio::sync::Mutex::default(),
        }))
    }

    /// Before the server is started: whether it is to be started in quarantine.
    ///
    /// # Errors
    /// The server must not be started: it was rejected, its program differs from the accepted one, or the pins cannot
    /// be read.
    async fn check_fingerprint(&self) -> Result<bool, UpstreamConnectError> {
        let turn = self.turn.lock().await;
        let (transport, inherited) = (self.transport.clone(), self.inherited.clone());
        // Reads the whole program.
        let found = tokio::task::spawn_blocking(move || fingerprint(&transport, inherited.as_deref())).await;
        let found = found.map_err(|_| UpstreamConnectError::new("its program cannot be read"))?;
        let before = self.fingerprint.lock().replace(found.clone());
        let is_settled = self.book.store.is_shared()
            && before.as_ref() == Some(&found)
            && self.standing().server_block_reason().is_none();
        let known = within(is_settled, self.book.store.server(&self.server, found.target)).await;
        let mut known = match known {
            Ok(known) => known,
            Err(error) if is_settled && error.is_away() => {
                self.warn_of_memory();
                return Ok(false);
            }
            Err(error) => return Err(self.unreadable_store(error)),
        };
        let is_accepted = known.as_ref().is_some_and(|known| known.state == ServerPinState::Accepted);
        let has_moved =
            self.mode_now() == TrustMode::FirstUse && !is_accepted && self.has_moved(&found).await?;
        self.has_moved.store(has_moved, Ordering::Relaxed);
        let trust = self.trust_now();
        if known.as_ref().is_some_and(|known| known.fingerprint != found || !known.is_current) {
            // What it is started with now is what a person has to decide about.
            let mut sighting = ServerSighting::new(&*self.server, found.clone(), "");
            // Nothing is listed yet, which must not look as if all that was offered before were gone.
            sighting.is_whole = false;
            let seen =
                self.book.record_sighting(sighting, trust).await.map_err(|error| self.unreadable(&error))?;
            known = Some(seen.server);
        }
        let standing = PinStatus::of(known.as_ref(), &found);
        let whole = standing.server_block_reason().cloned();
        self.set(standing);
        drop(turn);
        // Taken as it is when it is first seen.
        let is_new = known.is_none_or(|known| known.state == ServerPinState::New);
        match whole {
            Some(BlockReason::NewServer) if is_new => {
                let waits = trust == TrustMode::Ask;
                let is_asked = self.mode_now() == TrustMode::Ask;
                self.has_waited.fetch_or(is_asked, Ordering::Relaxed);
                Ok(waits)
            }
            None => Ok(false),
            Some(why) => Err(UpstreamConnectError::new(format!("not started: {}", why.as_str()))
                .with_hint(Some(REVIEW_INSTRUCTION))
                .withheld()),
        }
    }

    /// Records the listing of a connection. The listing must not be used before this returns.
    ///
    /// # Errors
    /// When it cannot be told what was accepted.
    async fn record_definitions(
        &self,
        instructions: Option<&str>,
        listing: &UpstreamListing,
        sight: String,
    ) -> Result<Arc<DefinitionHashes>, UpstreamConnectError> {
        let _turn = self.turn.lock().await;
        let fingerprint =
            self.fingerprint().ok_or_else(|| UpstreamConnectError::new("its fingerprint is not known"))?;
        let (instructions, listing, filter) =
            (instructions.map(str::to_owned), listing.clone(), self.filter.clone());
        let is_whole = listing.lost() == 0;
        let standing = self.standing();
        let listed = {
            let (listing, instructions) = (listing.clone(), instructions.clone());
            move || {
                let all: Vec<ItemDefinition> = definitions(instructions.as_deref(), &listing, &filter);
                let hashes = Arc::new(DefinitionHashes::of(&all));
                (all, hashes)
            }
        };
        // The canonical forms of long lists take long to make and to hash.
        let hashed = |_| UpstreamConnectError::new("its lists cannot be hashed");
        let (mut all, hashes) = tokio::task::spawn_blocking(listed).await.map_err(hashed)?;
        let is_accepted = standing.accepts_all(hashes.all());
        let is_settled = is_accepted && self.book.store.is_shared();
        let known = self.book.tools.lock().last();
        if !is_settled {
            self.book.read_known_tools().await.map_err(|error| self.unreadable(&error))?;
            // A person accepts each definition in the other mode, and sees its lints.
            if self.trust_now() == TrustMode::FirstUse && !is_accepted {
                let names = self.tool_names(&listing);
                let accepted = self.accepted_definitions(&fingerprint, &standing).await?;
                let server = Arc::clone(&self.server);
                let reviewed = move || {
                    for one in &mut all {
                        one.needs_review = needs_review(&one.text, &server, &names);
                        let mut same = accepted.iter().filter(|known| known.item.name == one.name);
                        one.is_small_change = one.kind == ItemKind::Tool
                            && same.any(|known| {
                                known
                                    .definition
                                    .as_deref()
                                    .is_some_and(|text| is_small_change(text, &one.text))
                            });
                    }
                    all
                };
                all = tokio::task::spawn_blocking(reviewed).await.map_err(hashed)?;
            }
        }
        let mut sighting = ServerSighting::new(&*self.server, fingerprint.clone(), sight);
        (sighting.definitions, sighting.is_whole) = (all, is_whole);
        let recorded =
            within(is_settled, self.record_sighting(sighting, &fingerprint, known, is_settled)).await;
        match recorded {
            Ok(()) => Ok(hashes),
            // All of it was accepted when the pins were last read.
            Err(error) if is_settled && error.is_away() => {
                self.warn_of_memory();
                Ok(hashes)
            }
            Err(error) => Err(self.unreadable_store(error)),
        }
    }

    /// Records a listing, and sets the status that follows from it.
    async fn record_sighting(
        &self,
        sighting: ServerSighting,
        fingerprint: &ServerFingerprint,
        known: u64,
        is_settled: bool,
    ) -> Result<(), StoreError> {
        if is_settled {
            self.book.read_known_tools().await?;
        }
        let seen = self.book.record_sighting(sighting, self.trust_now()).await?;
        self.set(PinStatus::of(Some(&seen.server), fingerprint));
        self.book.compare_with_later_tools(known).await?;
        // It may be this server of which something waits now.
        let now = self.book.store.server(&self.server, fingerprint.target).await?;
        self.set(PinStatus::of(now.as_ref(), fingerprint));
        Ok(())
    }

    /// Returns the definitions of tools that a person accepted, or the first use. Without the small changes since then, so
    /// that many of them do not add up to a large one.
    async fn accepted_definitions(
        &self,
        fingerprint: &ServerFingerprint,
        standing: &PinStatus,
    ) -> Result<Vec<RecordedDefinition>, UpstreamConnectError> {
        if standing.server_block_reason().is_some() {
            return Ok(Vec::new());
        }
        let all = self.book.store.history(&self.server, fingerprint.target, None).await;
        let mut all = all.map_err(|error| self.unreadable(&error))?;
        all.retain(|known| {
            known.item.kind == ItemKind::Tool
                && known.item.state == ItemPinState::Accepted
                && known.item.decided_by.as_deref() != Some(SMALL_CHANGE)
        });
        Ok(all)
    }

    /// Returns how definitions that were not seen before are treated. A server that moved to another address is not
    /// accepted because its name was seen before.
    fn trust_now(&self) -> TrustMode {
        if self.has_moved.load(Ordering::Relaxed) || self.has_waited.load(Ordering::Relaxed) {
            return TrustMode::Ask;
        }
        self.mode_now()
    }

    /// Returns the mode of the configuration and the rules.
    fn mode_now(&self) -> TrustMode {
        // A gate exists only where something is pinned, and what is pinned stays so.
        trust_mode(self.own_mode.unwrap_or_else(|| self.default_mode.current())).unwrap_or(TrustMode::Ask)
    }

    /// Returns true if a server of this name was accepted at another address, and none at this one.
    async fn has_moved(&self, found: &ServerFingerprint) -> Result<bool, UpstreamConnectError> {
        let ServerTransport::Http(http) = &self.transport else { return Ok(false) };
        let here = http.url.reveal();
        let all = self.book.store.servers().await.map_err(|error| self.unreadable(&error))?;
        let accepted = all.iter().filter(|one| {
            *one.name == *self.server
                && one.state == ServerPinState::Accepted
                && one.fingerprint.target != found.target
        });
        let mut addresses = accepted.filter_map(|one| Url::parse(&one.fingerprint.shown).ok()).peekable();
        let has_moved = addresses.peek().is_some() && addresses.all(|address| !is_same_place(&address, here));
        if has_moved {
            tracing::warn!(server = %self.server, "suspicious: this server was accepted at another address");
        }
        Ok(has_moved)
    }

    /// Returns the tools of the other servers that were seen, and of this listing.
    fn tool_names(&self, listing: &UpstreamListing) -> ToolNames {
        let neighbours = self.book.neighbours(&self.server);
        let others = neighbours.0.iter();
        let others = others.flat_map(|(server, tools)| tools.iter().map(|tool| (&**server, &**tool)));
        ToolNames::new(others.chain(listing.tools.iter().map(|tool| (&*self.server, tool.name.as_str()))))
    }

    /// Reads the status again, because a decision may have been made.
    pub(crate) async fn reload(&self) {
        let _turn = self.turn.lock().await;
        let Some(fingerprint) = self.fingerprint() else { return };
        match self.book.store.server(&self.server, fingerprint.target).await {
            Ok(server) => self.set(PinStatus::of(server.as_ref(), &fingerprint)),
            Err(error) if error.is_unavailable() => self.warn_of_memory(),
            // The status is set by it; there is nobody to whom the error could go.
            Err(error) => drop(self.unreadable(&error)),
        }
    }

    /// Warns that the definitions accepted at the last reading hold while the database is away.
    fn warn_of_memory(&self) {
        tracing::warn!(
            server = %self.server,
            "the pins cannot be read at the moment; what was accepted before holds, and nothing new is accepted"
        );
    }

    fn unreadable_store(&self, error: PinReadError) -> UpstreamConnectError {
        match error {
            PinReadError::Store(error) => self.unreadable(&error),
            PinReadError::Late => UpstreamConnectError::new("the pins of this server cannot be read in time"),
        }
    }

    fn unreadable(&self, error: &StoreError) -> UpstreamConnectError {
        let why = super::pin_store::format_error_chain(error);
        tracing::error!(server = %self.server, error = %why, "failed to read the pins; server blocked");
        let problem = UpstreamConnectError::new(format!("the pins of this server cannot be read: {why}"));
        self.set(PinStatus::unreadable(why));
        problem
    }

    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(self.standing().server_block_reason(), Some(BlockReason::Unreadable(_)))
    }

    /// Returns the fingerprint of the last start.
    pub(crate) fn fingerprint(&self) -> Option<ServerFingerprint> {
        self.fingerprint.lock().clone()
    }

    pub(crate) fn standing(&self) -> Arc<PinStatus> {
        Arc::clone(&self.standing.read())
    }

    fn set(&self, standing: PinStatus) {
        {
            let mut now = self.standing.write();
            if **now == standing {
                return;
            }
            *now = Arc::new(standing);
        }
        // After the status, so that whoever is woken reads the new one.
        self.changes.send_modify(|count| *count += 1);
        // Lists are made anew, and whoever listens is told if they differ.
        self.book.epoch.bump();
    }
}

/// Error of reading or writing pins.
enum PinReadError {
    Store(StoreError),
    /// They were not read in time.
    Late,
}

impl PinReadError {
    /// Returns true if nothing is known to be wrong with what is stored.
    const fn is_away(&self) -> bool {
        match self {
            Self::Store(error) => error.is_unavailable(),
            Self::Late => true,
        }
    }
}

/// Waits for a store. Not for long if what it would say is in memory.
async fn within<T>(
    is_settled: bool,
    reading: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, PinReadError> {
    if !is_settled {
        return reading.await.map_err(PinReadError::Store);
    }
    match tokio::time::timeout(SETTLED_WAIT, reading).await {
        Ok(read) => read.map_err(PinReadError::Store),
        Err(_) => Err(PinReadError::Late),
    }
}

impl DefinitionGate for PinGate {
    fn check_start(&self) -> ConnectorFuture<'_, Result<bool, UpstreamConnectError>> {
        Box::pin(self.check_fingerprint())
    }

    fn record_listing<'a>(
        &'a self,
        instructions: Option<&'a str>,
        listing: &'a UpstreamListing,
        sight: String,
    ) -> ConnectorFuture<'a, Result<Arc<DefinitionHashes>, UpstreamConnectError>> {
        Box::pin(self.record_definitions(instructions, listing, sight))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn needs_reconnect(&self, is_quarantined: bool) -> bool {
        match self.standing().server_block_reason() {
            None => is_quarantined,
            Some(BlockReason::NewServer) => !is_quarantined && self.trust_now() == TrustMode::Ask,
            Some(BlockReason::RejectedServer | BlockReason::Replaced) => true,
            Some(_) => false,
        }
    }

    fn may_start(&self) -> bool {
        !matches!(
            self.standing().server_block_reason(),
            Some(BlockReason::RejectedServer | BlockReason::Replaced)
        )
    }

    fn server_block_reason(&self) -> Option<BlockReason> {
        self.standing().server_block_reason().cloned()
    }

    fn item_block_reason(
        &self,
        hashes: &DefinitionHashes,
        kind: ItemKind,
        name: &str,
    ) -> Option<BlockReason> {
        self.standing().item_block_reason(kind, name, hashes.get(kind, name))
    }

    fn is_accepted_by_person(&self, kind: ItemKind, name: &str) -> bool {
        self.standing().is_accepted_by_person(kind, name)
    }

    fn filter_listing<'l>(
        &self,
        listing: &'l UpstreamListing,
        hashes: &DefinitionHashes,
    ) -> Cow<'l, UpstreamListing> {
        let standing = self.standing();
        if standing.accepts_all(hashes.all()) && hashes.covers_resources(listing) {
            return Cow::Borrowed(listing);
        }
        Cow::Owned(redact_listing(&self.server, listing, hashes, &standing))
    }

    fn warning(&self) -> Option<String> {
        let standing = self.standing();
        let what = match (standing.server_block_reason(), standing.waiting) {
            (Some(BlockReason::NewServer), _) => {
                "this server has not been accepted yet, so nothing it offers can be called".to_owned()
            }
            (Some(why), _) => format!("{}, so nothing it offers can be called", why.as_str()),
            (None, 0) => return None,
            (None, 1) => "one item that it offers is new or has changed and has to be accepted".to_owned(),
            (None, count) => {
                format!("{count} items that it offers are new or have changed and have to be accepted")
            }
        };
        Some(format!("{what}; {REVIEW_INSTRUCTION}"))
    }
}

/// Returns true if two URLs lead to the same origin. All of this machine is one place: local servers change their ports,
/// and who can listen here needs no URL to do harm.
fn is_same_place(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin() || (is_loopback(one) && is_loopback(other))
}

/// Returns the mode of acceptance under which pins are stored; none if nothing is pinned.
fn trust_mode(mode: PinMode) -> Option<TrustMode> {
    match mode {
        PinMode::Ask => Some(TrustMode::Ask),
        PinMode::FirstUse => Some(TrustMode::FirstUse),
        PinMode::Off => None,
    }
}

impl std::fmt::Debug for PinGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinGate").field("server", &self.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_server_does_not_move_by_its_port() {
        for (one, other, is_same) in [
            ("https://a.example/mcp", "https://a.example/v2", true),
            ("https://a.example/mcp", "https://a.example:8443/mcp", false),
            ("https://a.example/mcp", "http://a.example/mcp", false),
            ("https://a.example/mcp", "https://b.example/mcp", false),
            ("http://127.0.0.1:3000/mcp", "http://127.0.0.1:3001/mcp", true),
            ("http://127.0.0.1:3000/mcp", "http://localhost:4000/sse", true),
            ("http://[::1]:3000/mcp", "http://localhost:4000/sse", true),
            ("http://127.0.0.1:3000/mcp", "http://192.168.0.2:3000/mcp", false),
            ("http://localhost:3000/mcp", "https://localhost.example/mcp", false),
        ] {
            let [one_url, other_url] = [one, other].map(|url| Url::parse(url).unwrap());
            assert_eq!(is_same_place(&one_url, &other_url), is_same, "{one} {other}");
        }
    }
}
