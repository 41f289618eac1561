//! How a connection to a server comes about: the seam between supervision and transports.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use hospes::BoxService;
use hospes_model::{Implementation, LogMessageParams, Notification, Revision, ServerCapabilities};
use tokio::sync::watch;

use super::abilities::Abilities;
use super::memory::Known;
use super::process::Process;

/// A future that owns its type no more.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes connections to one server.
pub trait Connector: Send + Sync + 'static {
    /// Connects. Dropping the future gives up and leaves nothing behind.
    fn connect(&self, wish: Wish) -> BoxFuture<'_, Result<Connection, ConnectProblem>>;

    /// Whether one connection can serve applications with different abilities, because each call says anew what its
    /// application can do.
    fn is_shared(&self) -> bool {
        false
    }

    /// How the process of the last connection was started, if there was one.
    fn process(&self) -> Option<Arc<Process>> {
        None
    }

    /// Counts what changes about how the server lets us in: when somebody has signed in or out there. A connection that
    /// waits for that is tried again then. One that stands is asked anew what it offers, or closed and made anew if it
    /// was somebody else's.
    fn changes(&self) -> Option<watch::Receiver<Entrances>> {
        None
    }
}

/// What has changed about how a server lets us in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entrances {
    /// How often anything has.
    pub times: u64,
    /// How often it is no longer who it was: somebody has left, or somebody else may have come.
    pub others: u64,
}

/// What a connection is to be like.
#[derive(Clone)]
#[non_exhaustive]
pub struct Wish {
    /// What may be declared to the server, and no more.
    pub abilities: Abilities,
    /// Whether nobody has accepted the server yet: then nothing at all is told to it, no roots either.
    pub quarantined: bool,
    /// How this server was spoken to the last time.
    pub known: Option<Known>,
    /// Where log messages go that belong to no call.
    pub on_log: OnLog,
    /// Where notifications go that the specification does not define and that belong to no call.
    pub on_notification: OnNotification,
}

/// Takes a log message.
pub type OnLog = Arc<dyn Fn(LogMessageParams) + Send + Sync>;

/// Takes a notification.
pub type OnNotification = Arc<dyn Fn(Notification) + Send + Sync>;

impl Wish {
    /// A connection on which these abilities are declared.
    #[must_use]
    pub fn new(abilities: Abilities) -> Self {
        Self {
            abilities,
            quarantined: false,
            known: None,
            on_log: Arc::new(|_| {}),
            on_notification: Arc::new(|_| {}),
        }
    }

    /// The same in quarantine: whatever the abilities, nothing can be asked.
    #[must_use]
    pub fn in_quarantine(mut self, quarantined: bool) -> Self {
        self.quarantined = quarantined;
        if quarantined {
            self.abilities = Abilities::NONE;
        }
        self
    }

    /// The same with what was remembered.
    #[must_use]
    pub fn with_known(mut self, known: Option<Known>) -> Self {
        self.known = known;
        self
    }

    /// The same with somewhere for notifications of extensions to go.
    #[must_use]
    pub fn with_on_notification(mut self, on_notification: OnNotification) -> Self {
        self.on_notification = on_notification;
        self
    }

    /// The same with somewhere for log messages to go.
    #[must_use]
    pub fn with_on_log(mut self, on_log: OnLog) -> Self {
        self.on_log = on_log;
        self
    }
}

impl fmt::Debug for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wish")
            .field("abilities", &self.abilities)
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

/// A connection that stands.
#[non_exhaustive]
pub struct Connection {
    /// Answers calls.
    pub service: BoxService,
    /// What is spoken.
    pub revision: Revision,
    /// Whether it is over HTTP+SSE, the transport of 2024-11-05.
    pub sse: bool,
    /// Who the server says it is.
    pub server: Option<Implementation>,
    /// What it can do.
    pub capabilities: ServerCapabilities,
    /// What it tells the model about itself.
    pub instructions: Option<String>,
    /// How many calls on it wait while their questions are answered elsewhere.
    pub parked: Box<dyn Fn() -> usize + Send + Sync>,
    /// Resolves once no call is under way, but for those that listen.
    pub settled: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
    /// Whether the connection is gone.
    pub is_closed: Box<dyn Fn() -> bool + Send + Sync>,
    /// Resolves with the reason once the connection is gone.
    pub closed: Box<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>,
    /// Closes it and waits until nothing of it is left.
    pub close: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
}

impl Connection {
    /// A connection that is closed by dropping it, and that never breaks by itself.
    #[must_use]
    pub fn new(service: BoxService, revision: Revision) -> Self {
        Self {
            service,
            revision,
            sse: false,
            server: None,
            capabilities: ServerCapabilities::new(),
            instructions: None,
            parked: Box::new(|| 0),
            settled: Box::new(|| Box::pin(async {})),
            is_closed: Box::new(|| false),
            closed: Box::new(|| Box::pin(std::future::pending())),
            close: Box::new(|| Box::pin(async {})),
        }
    }

    /// What to remember of it.
    #[must_use]
    pub fn known(&self) -> Known {
        Known { era: self.revision.era(), sse: self.sse }
    }

    /// Whether a call that has asked something can only go on where it began. Since 2026-07-28 all that is known of
    /// it travels with it.
    #[must_use]
    pub fn keeps_calls(&self) -> bool {
        self.revision.is_legacy()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("revision", &self.revision)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ConnectProblem {
    /// What happened, for people.
    pub message: Arc<str>,
    /// What to do about it.
    pub hint: Option<Arc<str>>,
    /// Where a person has to sign in first: until somebody has, it is not tried again unless a call wants it.
    pub sign_in: Option<Arc<str>>,
    /// Whether a person has to accept the server first: until somebody has, it is not tried again.
    pub withheld: bool,
    /// Whether it is us who do not start it: what it may touch cannot be enforced.
    pub unenforceable: bool,
}

impl ConnectProblem {
    /// A problem without a hint.
    #[must_use]
    pub fn new(message: impl Into<Arc<str>>) -> Self {
        Self { message: message.into(), hint: None, sign_in: None, withheld: false, unenforceable: false }
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: Option<impl Into<Arc<str>>>) -> Self {
        self.hint = hint.map(Into::into);
        self
    }

    /// The same where a person has to accept the server first.
    #[must_use]
    pub fn withheld(mut self) -> Self {
        self.withheld = true;
        self
    }

    /// The same where what it may touch cannot be enforced.
    #[must_use]
    pub fn unenforceable(mut self) -> Self {
        self.unenforceable = true;
        self
    }

    /// The same with where a person has to sign in first.
    #[must_use]
    pub fn with_sign_in(mut self, url: Option<impl Into<Arc<str>>>) -> Self {
        self.sign_in = url.map(Into::into);
        self
    }
}
