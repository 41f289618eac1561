//! The peer of a call: the client that sent it.

use std::any::Any;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use hospes_model::{ClientCapabilities, Implementation, LoggingLevel, Revision};

use crate::logging::LogGate;

/// The client that a server answers: one per session in the older revisions, one per distinct set of request
/// metadata in 2026-07-28.
#[derive(Debug)]
#[non_exhaustive]
pub struct Peer {
    /// The revision that is spoken with it. For the adapters; nothing above them needs to ask.
    pub revision: Revision,
    /// The name it gave; 2026-07-28 lets a client keep it back.
    pub info: Option<Arc<Implementation>>,
    /// Capabilities of the client.
    pub capabilities: Arc<ClientCapabilities>,
    /// Name of the signed-in user or client, if there is one.
    pub principal: Option<Arc<str>>,
    /// Description of the client program, if the transport could determine it: `node, process 4711 of user 1000`. It is
    /// for records and people; it grants no access.
    pub caller: Option<Arc<str>>,
    log_level: AtomicU8,
    pub(crate) logs: LogGate,
    /// Most servers keep nothing.
    session_value: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Peer {
    /// Creates a peer with this revision.
    #[must_use]
    pub fn new(revision: Revision, info: Option<Implementation>, capabilities: ClientCapabilities) -> Self {
        Self::from_shared(revision, info.map(Arc::new), Arc::new(capabilities))
    }

    /// Creates a peer from values shared with other peers. Thousands of sessions may be of one program.
    pub(crate) fn from_shared(
        revision: Revision,
        info: Option<Arc<Implementation>>,
        capabilities: Arc<ClientCapabilities>,
    ) -> Self {
        let log_level = AtomicU8::new(NO_LEVEL);
        Self {
            revision,
            info,
            capabilities,
            principal: None,
            caller: None,
            log_level,
            logs: LogGate::new(),
            session_value: OnceLock::new(),
        }
    }

    /// Sets the name of the signed-in principal.
    #[must_use]
    pub fn with_principal(mut self, principal: impl Into<Arc<str>>) -> Self {
        self.principal = Some(principal.into());
        self
    }

    /// Returns a value that the service keeps with the session of a peer of an older revision, and makes it in the first
    /// call. It is dropped with the session, after its last call. `None` for a peer of 2026-07-28, which has no session, and
    /// if the value that is kept has another type.
    pub fn session_value<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        if !self.revision.is_legacy() {
            return None;
        }
        self.session_value.get_or_init(|| Box::new(make())).downcast_ref()
    }

    /// Returns the minimum severity of log messages for this session (`logging/setLevel`). `None` until it is set.
    pub fn log_level(&self) -> Option<LoggingLevel> {
        LoggingLevel::ALL.get(usize::from(self.log_level.load(Ordering::Relaxed))).copied()
    }

    /// Sets the level requested by `logging/setLevel`.
    pub fn set_log_level(&self, level: LoggingLevel) {
        let position = LoggingLevel::ALL.iter().position(|l| *l == level);
        let position = position.and_then(|p| u8::try_from(p).ok()).unwrap_or(NO_LEVEL);
        // `Relaxed`: no other memory is read because of the level.
        self.log_level.store(position, Ordering::Relaxed);
    }
}

/// The sender, as far as the transport knows.
#[cfg(feature = "server")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestSender {
    pub(crate) principal: Option<Arc<str>>,
    pub(crate) caller: Option<Arc<str>>,
}

#[cfg(feature = "server")]
impl Peer {
    /// Sets the principal and the program of the sender.
    pub(crate) fn with_sender(mut self, sender: RequestSender) -> Self {
        (self.principal, self.caller) = (sender.principal, sender.caller);
        self
    }

    /// Returns whether this is the peer that sends.
    pub(crate) fn is_sent_by(&self, sender: &RequestSender) -> bool {
        self.principal == sender.principal && self.caller == sender.caller
    }
}

const NO_LEVEL: u8 = u8::MAX;
