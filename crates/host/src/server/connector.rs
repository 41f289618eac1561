//! Connectors and connections: the interface between supervision and transports.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use hospes::BoxService;
use hospes::client::Authorizer;
use hospes_model::{Era, Implementation, LogMessageParams, Notification, Revision, ServerCapabilities};
use tokio::sync::watch;

use super::capability_set::CapabilitySet;
use super::process::ServerProcess;
use crate::metrics::ConnectionMetrics;

/// A boxed future.
pub type ConnectorFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Creates connections to one server.
pub trait UpstreamConnector: Send + Sync + 'static {
    /// Connects to the server. Dropping the future cancels the attempt and cleans up.
    fn connect(
        &self,
        wish: ConnectOptions,
    ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>>;

    /// Returns true if one connection can serve applications with different abilities, because each call declares its
    /// application's abilities anew.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns how the process of the last connection was started, if there was one.
    fn process(&self) -> Option<Arc<ServerProcess>> {
        None
    }

    /// Returns a receiver of sign-in changes at the server. A connection that waits for a sign-in is then tried again.
    /// An open one reads its lists again. If the account changed, it is closed and opened anew.
    fn changes(&self) -> Option<watch::Receiver<SignInChanges>> {
        None
    }

    /// Returns the address of the node of a fleet that runs the server, if this one does not.
    fn node(&self) -> Option<Arc<str>> {
        None
    }

    /// Returns true if there are tokens of a sign-in at the server. `None` if the server has no account that everybody
    /// shares.
    fn has_sign_in(&self) -> ConnectorFuture<'_, Option<bool>> {
        Box::pin(async { None })
    }
}

/// Account that signs requests to a server, and whose sign-ins and sign-outs its connections follow.
pub(crate) trait AccountAuthorizer: Authorizer {
    /// Returns a receiver that counts sign-ins and sign-outs.
    fn changes(&self) -> watch::Receiver<SignInChanges>;

    /// Returns true if there are stored tokens, also those that another program has just stored.
    fn has_tokens(&self) -> ConnectorFuture<'_, bool>;
}

/// Counters of sign-in changes at a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignInChanges {
    /// Number of changes.
    pub times: u64,
    /// Number of changes of identity: the account was signed out or may have been replaced by another.
    pub others: u64,
}

/// Protocol that a server was found to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "there are two eras and, in the older one, two transports over HTTP"
)]
pub struct KnownProtocol {
    /// Its era.
    pub era: Era,
    /// True if the server speaks HTTP+SSE, the transport of 2024-11-05.
    pub sse: bool,
}

/// Options for a new connection.
#[derive(Clone)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// Capabilities that may be declared to the server, and no others.
    pub abilities: CapabilitySet,
    /// True if the server has not been accepted yet. It then receives no data, not even roots.
    pub quarantined: bool,
    /// Protocol that the server spoke last time.
    pub known: Option<KnownProtocol>,
    /// Receiver of log messages that belong to no call.
    pub on_log: ServerLogCallback,
    /// Receiver of notifications that belong to no call and that the specification does not define.
    pub on_notification: ServerNotificationCallback,
}

/// Callback that receives a log message.
pub type ServerLogCallback = Arc<dyn Fn(LogMessageParams) + Send + Sync>;

/// Callback that receives a notification.
pub type ServerNotificationCallback = Arc<dyn Fn(Notification) + Send + Sync>;

impl ConnectOptions {
    /// Creates the options of a connection that declares these capabilities.
    #[must_use]
    pub fn new(abilities: CapabilitySet) -> Self {
        Self {
            abilities,
            quarantined: false,
            known: None,
            on_log: Arc::new(|_| {}),
            on_notification: Arc::new(|_| {}),
        }
    }

    /// Sets quarantine. A quarantined connection declares no abilities.
    #[must_use]
    pub fn in_quarantine(mut self, quarantined: bool) -> Self {
        self.quarantined = quarantined;
        if quarantined {
            self.abilities = CapabilitySet::NONE;
        }
        self
    }

    /// Sets the remembered protocol.
    #[must_use]
    pub fn with_known(mut self, known: Option<KnownProtocol>) -> Self {
        self.known = known;
        self
    }

    /// Sets the receiver of extension notifications.
    #[must_use]
    pub fn with_on_notification(mut self, on_notification: ServerNotificationCallback) -> Self {
        self.on_notification = on_notification;
        self
    }

    /// Sets the receiver of log messages.
    #[must_use]
    pub fn with_on_log(mut self, on_log: ServerLogCallback) -> Self {
        self.on_log = on_log;
        self
    }
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("abilities", &self.abilities)
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

/// An established connection to a server.
#[non_exhaustive]
pub struct UpstreamConnection {
    /// Service that answers calls.
    pub service: BoxService,
    /// Negotiated protocol revision.
    pub revision: Revision,
    /// True if the transport is HTTP+SSE, the transport of 2024-11-05.
    pub sse: bool,
    /// The server's description of itself.
    pub server: Option<Implementation>,
    /// Capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// Instructions of the server for the model.
    pub instructions: Option<String>,
    /// Returns the number of calls on the connection that wait while their questions are answered elsewhere.
    pub parked: Box<dyn Fn() -> usize + Send + Sync>,
    /// Metrics of the connection. None outside of a host. Its session ends when the connection is dropped.
    pub(crate) metrics: Option<ConnectionMetrics>,
    /// Resolves once no calls except subscriptions are in progress.
    pub settled: Box<dyn Fn() -> ConnectorFuture<'static, ()> + Send + Sync>,
    /// Returns the remedy if a request was refused because nobody has signed in to the server.
    pub missing_sign_in: Box<dyn Fn() -> Option<MissingSignIn> + Send + Sync>,
    /// Returns the first line on standard output that was no message, if there was one.
    pub noise: Box<dyn Fn() -> Option<String> + Send + Sync>,
    /// Returns true if the connection is closed.
    pub is_closed: Box<dyn Fn() -> bool + Send + Sync>,
    /// Resolves with the reason once the connection is gone.
    pub closed: Box<dyn Fn() -> ConnectorFuture<'static, String> + Send + Sync>,
    /// Closes the connection and waits until all its resources are released.
    pub close: Box<dyn Fn() -> ConnectorFuture<'static, ()> + Send + Sync>,
}

impl UpstreamConnection {
    /// Creates a connection that closes when it is dropped and never breaks by itself.
    #[must_use]
    pub fn new(service: BoxService, revision: Revision) -> Self {
        Self {
            service,
            revision,
            sse: false,
            server: None,
            capabilities: ServerCapabilities::new(),
            instructions: None,
            metrics: None,
            parked: Box::new(|| 0),
            settled: Box::new(|| Box::pin(async {})),
            missing_sign_in: Box::new(|| None),
            noise: Box::new(|| None),
            is_closed: Box::new(|| false),
            closed: Box::new(|| Box::pin(std::future::pending())),
            close: Box::new(|| Box::pin(async {})),
        }
    }

    /// Returns the protocol to remember for the server.
    #[must_use]
    pub fn known(&self) -> KnownProtocol {
        KnownProtocol { era: self.revision.era(), sse: self.sse }
    }

    /// Returns true if a call that has asked a question can only continue on the connection where it began. Since
    /// 2026-07-28 the state of a call travels with it.
    #[must_use]
    pub fn keeps_calls(&self) -> bool {
        self.revision.is_legacy()
    }
}

impl fmt::Debug for UpstreamConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamConnection")
            .field("revision", &self.revision)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// A server has refused a request because nobody has signed in to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingSignIn {
    /// Suggested remedy.
    pub hint: Option<Arc<str>>,
}

/// Failure to connect to a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct UpstreamConnectError {
    /// Description of the failure, for people.
    pub message: Arc<str>,
    /// Suggested remedy.
    pub hint: Option<Arc<str>>,
    /// URL at which a person has to sign in first. Until then the server is not tried again unless a call needs it.
    pub sign_in: Option<Arc<str>>,
    /// True if the server requires a sign-in, and there is nobody here who could be sent to its page.
    pub needs_sign_in: bool,
    /// True if a person has to accept the server first. Until then it is not tried again.
    pub withheld: bool,
    /// True if the host refuses to start the server because its sandbox cannot be enforced.
    pub unenforceable: bool,
}

impl UpstreamConnectError {
    /// Creates an error without a hint.
    #[must_use]
    pub fn new(message: impl Into<Arc<str>>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            sign_in: None,
            needs_sign_in: false,
            withheld: false,
            unenforceable: false,
        }
    }

    /// Sets the suggested remedy.
    #[must_use]
    pub fn with_hint(mut self, hint: Option<impl Into<Arc<str>>>) -> Self {
        self.hint = hint.map(Into::into);
        self
    }

    /// Marks the server as waiting for acceptance by a person.
    #[must_use]
    pub fn withheld(mut self) -> Self {
        self.withheld = true;
        self
    }

    /// Marks the sandbox as unenforceable.
    #[must_use]
    pub fn unenforceable(mut self) -> Self {
        self.unenforceable = true;
        self
    }

    /// Marks the server as one that requires a sign-in, if it has refused a request for want of one.
    #[must_use]
    pub fn with_missing_sign_in(mut self, missing: Option<MissingSignIn>) -> Self {
        if let Some(missing) = missing {
            self.needs_sign_in = true;
            self.hint = missing.hint;
        }
        self
    }

    /// Sets the URL at which a person has to sign in first.
    #[must_use]
    pub fn with_sign_in(mut self, url: Option<impl Into<Arc<str>>>) -> Self {
        self.sign_in = url.map(Into::into);
        self
    }
}
