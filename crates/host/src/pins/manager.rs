//! Management of pins for the console and the command line.

use std::fmt;
use std::sync::{Arc, Weak};

use hospes_store::StoreError;
use hospes_store::pins::{
    ItemKind, RecordedDefinition, Sha256Digest, StoredServer, TrustDecision, TrustDecisionError,
};
use parking_lot::RwLock;
use tokio::sync::watch;

use super::builtin_tools::BuiltinTools;
use super::default_pin_mode::DefaultPinMode;
use super::fingerprint::fingerprint;
use super::gate::PinGate;
use super::pin_store::PinStore;
use super::pinning_config::PinningConfig;
use super::view::{DefinitionDifference, PinnedServer};
use crate::config::{ServerConfig, ServerTransport};
use crate::server::ListingRecorder;

/// Error of reading, accepting or rejecting pins.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinManagerError {
    /// There is no such server, or it was never seen.
    #[error("unknown server `{0}`: it has never been connected")]
    NoServer(String),
    /// It is part of the program.
    #[error("`{0}` is built in and trusted like the program itself")]
    Builtin(String),
    /// It does not offer that.
    #[error("`{server}` does not offer {} `{name}`", .kind.as_str())]
    NoItem {
        /// The server.
        server: String,
        /// Kind of the item.
        kind: ItemKind,
        /// By this name.
        name: String,
    },
    /// The definition that the person saw is no longer the current one.
    #[error("`{0}` has changed since it was shown; nothing was accepted")]
    Changed(String),
    /// The server has to be accepted first.
    #[error(
        "`{0}` itself is not accepted; accept the server first, then reject the items that you do not want"
    )]
    ServerFirst(String),
    /// The state cannot be read or written.
    #[error("the pins cannot be read or written")]
    Store(#[from] StoreError),
}

/// Handle for reviewing and deciding pins. Cheap to clone.
#[derive(Clone)]
pub struct PinManager {
    book: Arc<PinStore>,
    /// The servers of a host, in their order; without one, all that were ever seen.
    servers: Option<PinMembers>,
}

/// A server of the host.
#[derive(Clone)]
pub(crate) enum PinMember {
    Gated(Arc<PinGate>),
    /// A built-in server: its name, its transport, and what others are compared with.
    Builtin(String, ServerTransport, Arc<BuiltinTools>),
}

impl PinMember {
    /// Creates the handle of a server. `None` if it is not pinned.
    pub(crate) fn of(config: &ServerConfig, mode: &DefaultPinMode, book: &Arc<PinStore>) -> Option<Self> {
        match &config.transport {
            transport @ ServerTransport::Builtin(_) => {
                let tools = BuiltinTools::new(&config.name, book);
                Some(Self::Builtin(config.name.clone(), transport.clone(), tools))
            }
            _ => PinGate::of(config, mode, book).map(Self::Gated),
        }
    }

    /// Returns the name of the server.
    pub(crate) fn server(&self) -> &str {
        match self {
            Self::Gated(gate) => &gate.server,
            Self::Builtin(name, ..) => name,
        }
    }

    pub(crate) fn gate(&self) -> Option<&Arc<PinGate>> {
        match self {
            Self::Gated(gate) => Some(gate),
            Self::Builtin(..) => None,
        }
    }

    /// Returns the recorder of what a built-in server lists.
    pub(crate) fn listings(&self) -> Option<Arc<dyn ListingRecorder>> {
        match self {
            Self::Builtin(.., tools) => Some(Arc::clone(tools) as _),
            Self::Gated(_) => None,
        }
    }
}

/// Servers of the host, which change while it runs. Cheap to clone; all clones are the same.
#[derive(Clone, Default)]
pub(crate) struct PinMembers(Arc<RwLock<Arc<[PinMember]>>>);

impl PinMembers {
    /// Returns the current servers.
    pub(crate) fn current(&self) -> Arc<[PinMember]> {
        // Cloned, so that nobody holds the lock while the state is read.
        Arc::clone(&self.0.read())
    }

    /// Returns a handle that does not keep the servers' gates alive.
    pub(crate) fn downgrade(&self) -> WeakPinMembers {
        WeakPinMembers(Arc::downgrade(&self.0))
    }

    /// Replaces the servers.
    pub(crate) fn set(&self, members: Vec<PinMember>) {
        *self.0.write() = members.into();
    }
}

/// Servers of the host, for as long as something else holds them.
pub(crate) struct WeakPinMembers(Weak<RwLock<Arc<[PinMember]>>>);

impl WeakPinMembers {
    /// Returns the gates of the current servers. `None` if the host has ended.
    pub(super) fn gates(&self) -> Option<Vec<Arc<PinGate>>> {
        let members = PinMembers(self.0.upgrade()?).current();
        Some(members.iter().filter_map(PinMember::gate).cloned().collect())
    }
}

impl PinningConfig {
    /// The pins without a host: what was last seen of each server, by any.
    #[must_use]
    pub fn offline(&self) -> PinManager {
        PinManager::new(Arc::new(PinStore::new(self, Arc::default())), None)
    }
}

impl PinManager {
    pub(crate) fn new(book: Arc<PinStore>, servers: Option<PinMembers>) -> Self {
        Self { book, servers }
    }

    /// Returns all servers with their items and states. Servers that were never seen are left out.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub async fn list(&self) -> Result<Vec<PinnedServer>, PinManagerError> {
        let all = self.all().await?;
        let mut list = Vec::new();
        let Some(members) = &self.servers else {
            let mut before = None;
            // Of each name the one that was seen last.
            for server in &all {
                if before != Some(&server.name) {
                    list.push(self.pinned(server, &all).await?);
                }
                before = Some(&server.name);
            }
            return Ok(list);
        };
        for member in members.current().iter() {
            match member {
                PinMember::Builtin(name, transport, _) => {
                    list.push(PinnedServer::builtin(name, fingerprint(transport, None)));
                }
                PinMember::Gated(gate) => {
                    let Some(target) = gate.fingerprint().map(|known| known.target) else { continue };
                    let found =
                        all.iter().find(|one| one.name == *gate.server && one.fingerprint.target == target);
                    if let Some(server) = found {
                        list.push(self.pinned(server, &all).await?);
                    }
                }
            }
        }
        Ok(list)
    }

    /// Returns one server.
    ///
    /// # Errors
    /// If there is no such server, or the state cannot be read.
    pub async fn server(&self, name: &str) -> Result<PinnedServer, PinManagerError> {
        let found = self.list().await?.into_iter().find(|one| one.server == name);
        found.ok_or_else(|| PinManagerError::NoServer(name.to_owned()))
    }

    /// Returns the difference between the current and the accepted definition.
    ///
    /// # Errors
    /// If the item is not offered, or the state cannot be read.
    pub async fn difference(
        &self,
        server: &str,
        kind: ItemKind,
        name: &str,
    ) -> Result<DefinitionDifference, PinManagerError> {
        let known = self.known(server).await?;
        // For the names of tools that it learns, which the neighbours below are made of.
        self.all().await?;
        let mut items = known.items.iter().filter(|item| item.kind == kind && item.name == name);
        let item = items.find(|item| item.is_current).ok_or_else(|| PinManagerError::NoItem {
            server: server.to_owned(),
            kind,
            name: name.to_owned(),
        })?;
        let of = Some((kind, name.to_owned()));
        let history = self.book.store.history(server, known.fingerprint.target, of).await?;
        Ok(DefinitionDifference::of(item, &history, &self.book.neighbours(server)))
    }

    /// Accepts a server with all its items, or one item, if its hash is unchanged: a person accepts exactly what they
    /// have seen. `by` is recorded in the audit log.
    ///
    /// # Errors
    /// If the hash has changed, there is no such item, or the state cannot be written.
    pub async fn accept(
        &self,
        server: &str,
        item: Option<(ItemKind, &str)>,
        expected: Sha256Digest,
        by: &str,
    ) -> Result<PinnedServer, PinManagerError> {
        let known = self.known(server).await?;
        self.decide(
            &known,
            TrustDecision::accept(server, known.fingerprint.target, expected, by),
            item,
            "accept",
            by,
        )
        .await
    }

    /// Rejects one item, or a server, which is then stopped and not started again.
    ///
    /// # Errors
    /// If there is no such server or item, or the state cannot be written.
    pub async fn reject(
        &self,
        server: &str,
        item: Option<(ItemKind, &str)>,
        by: &str,
    ) -> Result<PinnedServer, PinManagerError> {
        let known = self.known(server).await?;
        self.decide(&known, TrustDecision::reject(server, known.fingerprint.target, by), item, "reject", by)
            .await
    }

    async fn decide(
        &self,
        known: &StoredServer,
        decision: TrustDecision,
        item: Option<(ItemKind, &str)>,
        word: &str,
        by: &str,
    ) -> Result<PinnedServer, PinManagerError> {
        let server = &known.name;
        let decision = match item {
            Some((kind, name)) => decision.for_item(kind, name),
            None => decision,
        };
        let entry = self.book.entry(server, item, word, by);
        let decision = decision.with_entry(entry.clone());
        let decided = self.book.store.decide(decision).await?.map_err(|refused| match (refused, item) {
            (TrustDecisionError::Changed, _) => PinManagerError::Changed(server.clone()),
            (TrustDecisionError::ServerFirst, _) => PinManagerError::ServerFirst(server.clone()),
            (_, Some((kind, name))) => {
                PinManagerError::NoItem { server: server.clone(), kind, name: name.to_owned() }
            }
            (_, None) => PinManagerError::NoServer(server.clone()),
        })?;
        self.book.note(entry).await;
        if let Some(gate) = self.gate(server) {
            // The store tells of it as well, but only after the caller has its answer.
            gate.reload().await;
        }
        let all = self.all().await?;
        Ok(self.pinned(&decided.server, &all).await?)
    }

    /// Returns all known definitions of a server, of one item or all, newest first.
    ///
    /// # Errors
    /// If there is no such server or item, or the state cannot be read.
    pub async fn history(
        &self,
        server: &str,
        item: Option<(ItemKind, &str)>,
    ) -> Result<Vec<RecordedDefinition>, PinManagerError> {
        let known = self.known(server).await?;
        let item = item.map(|(kind, name)| (kind, name.to_owned()));
        Ok(self.book.store.history(server, known.fingerprint.target, item).await?)
    }

    /// Returns a counter of possible changes to pins, by this and other processes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.book.store.changes()
    }

    async fn all(&self) -> Result<Vec<StoredServer>, StoreError> {
        let all = self.book.store.servers().await?;
        self.book.add_known_tools(&all);
        Ok(all)
    }

    async fn pinned(&self, server: &StoredServer, all: &[StoredServer]) -> Result<PinnedServer, StoreError> {
        let history = self.book.store.history(&server.name, server.fingerprint.target, None).await?;
        let same: Vec<StoredServer> = all.iter().filter(|other| other.name == server.name).cloned().collect();
        Ok(PinnedServer::of(server, &history, &same, &self.book.neighbours(&server.name)))
    }

    /// Returns the server as the host knows it, else as it was last seen.
    async fn known(&self, name: &str) -> Result<StoredServer, PinManagerError> {
        let missing = || PinManagerError::NoServer(name.to_owned());
        let Some(members) = &self.servers else {
            return self.all().await?.into_iter().find(|one| one.name == name).ok_or_else(missing);
        };
        let is_builtin =
            |member: &PinMember| matches!(member, PinMember::Builtin(builtin, ..) if builtin == name);
        if members.current().iter().any(is_builtin) {
            return Err(PinManagerError::Builtin(name.to_owned()));
        }
        // The command line or URL that this host has: the state may know others under the name.
        let target = self.gate(name).and_then(|gate| gate.fingerprint()).ok_or_else(missing)?.target;
        self.book.store.server(name, target).await?.ok_or_else(missing)
    }

    /// Returns true if a person has accepted the definitions of a tool of the server with this command line or URL.
    /// False if that cannot be read.
    pub(crate) async fn is_accepted_by_person(&self, name: &str, target: Sha256Digest, tool: &str) -> bool {
        let found = self.book.store.server(name, target).await.ok().flatten();
        found.is_some_and(|server| {
            server.items_accepted_by_person().any(|item| item == (ItemKind::Tool, tool))
        })
    }

    fn gate(&self, name: &str) -> Option<Arc<PinGate>> {
        let members = self.servers.as_ref()?.current();
        members.iter().find_map(|member| match member {
            PinMember::Gated(gate) if *gate.server == *name => Some(Arc::clone(gate)),
            _ => None,
        })
    }
}

impl fmt::Debug for PinManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinManager").finish_non_exhaustive()
    }
}
