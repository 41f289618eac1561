//! Legacy sessions that several processes behind one address share.
//!
//! A client of an older revision keeps a session, and a load balancer may send each of its requests to another process.
//! One process at a time owns a session. A [`SessionDirectory`] knows which one. An [`Endpoint`](super::Endpoint) that
//! has a directory serves the sessions that its process owns, forwards requests of other sessions to their owners, and
//! continues sessions whose owner has ended, from their snapshots and event logs.
//!
//! Without a directory, sessions live in the memory of one process, and nothing of this runs.

use std::fmt;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Response;
use http::request::Parts;

use super::body::Body;

/// Result of an operation of a directory, later.
pub type DirectoryFuture<'a, T> = BoxFuture<'a, Result<T, DirectoryError>>;

/// Error of an operation of a directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The directory did not answer, or it is not certain yet. The client is told to come back (503).
    #[error("the session directory is not available: {0}")]
    Unavailable(String),
    /// Another process owns the session by now, or it has ended. This process must not serve it.
    #[error("another process owns the session, or it has ended")]
    NotOwned,
    /// The directory does not take this, and will not when it is repeated: it is above a limit, for example. The text
    /// names the limit.
    #[error("the session directory refuses: {0}")]
    Refused(String),
}

/// Session as its client and the authorization before the endpoint name it.
#[derive(Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "a pair that callers read")]
pub struct SessionName<'a> {
    /// Value of `Mcp-Session-Id`. It is a secret: neither log nor store it as it is.
    pub id: &'a str,
    /// Principal of the request. A session of another principal does not exist for it (HSES-14).
    pub principal: Option<&'a str>,
}

impl fmt::Debug for SessionName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionName").field("principal", &self.principal).finish_non_exhaustive()
    }
}

/// Directory of sessions: their owners, snapshots and event logs.
pub trait SessionDirectory: fmt::Debug + Send + Sync + 'static {
    /// Enters a new session, owned by this process, before its `initialize` reaches the service.
    ///
    /// # Errors
    /// [`DirectoryError::Unavailable`].
    fn reserve<'a>(&'a self, session: SessionName<'a>) -> DirectoryFuture<'a, Arc<dyn SharedSession>>;

    /// Finds out who serves a session. If its owner has ended, this process becomes its owner first, as far as the
    /// session can be continued.
    ///
    /// # Errors
    /// [`DirectoryError::Unavailable`] in doubt. A client gives up a session only for [`SessionPlace::Unknown`].
    fn locate<'a>(&'a self, session: SessionName<'a>) -> DirectoryFuture<'a, SessionPlace>;

    /// Gives a session of this process to another one, which serves it from then on. Nothing runs in it. By default there
    /// is nobody to take it. Returns true if it was given away.
    ///
    /// # Errors
    /// [`DirectoryError`]; it may have been given away.
    fn give_away<'a>(&'a self, session: SessionName<'a>) -> DirectoryFuture<'a, bool> {
        let _ = session;
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Returns the name of this process, without a dot. It precedes the request state of 2026-07-28 that is sealed here:
    /// the next round of a call is forwarded here, because the call may wait in this process. By default there is none,
    /// and each process serves each round.
    fn origin(&self) -> Option<String> {
        None
    }

    /// Finds the process with this name; `None` if it has ended, or is this one. Then the round is served here.
    ///
    /// # Errors
    /// [`DirectoryError::Unavailable`] if that is not known now.
    fn find_origin<'a>(&'a self, origin: &'a str) -> DirectoryFuture<'a, Option<Arc<dyn SessionForwarder>>> {
        let _ = origin;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the process that has to serve a request of 2026-07-28 without request state, by its method and name: the
    /// values of `Mcp-Method` and `Mcp-Name`. By default each process serves those that it receives.
    fn request_place(&self, method: &str, name: Option<&str>) -> RequestPlace {
        let _ = (method, name);
        RequestPlace::Anywhere
    }

    /// Finds the process that serves such requests of a caller: of an application, by the name that it gives itself, for
    /// a principal. `None` if it is this one.
    ///
    /// # Errors
    /// [`DirectoryError::Unavailable`] if that is not known now.
    fn find_caller_process<'a>(
        &'a self,
        principal: Option<&'a str>,
        application: &'a str,
    ) -> DirectoryFuture<'a, Option<Arc<dyn SessionForwarder>>> {
        let _ = (principal, application);
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// Process that has to serve a request of 2026-07-28.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an endpoint has to treat each case")]
pub enum RequestPlace {
    /// Each process serves those that it receives.
    Anywhere,
    /// The one that serves the caller: [`SessionDirectory::find_caller_process`].
    Caller,
    /// Another one, because what the request is about is in its memory.
    Process {
        /// Name of the process: [`SessionDirectory::origin`].
        origin: String,
        /// True if the process that serves the caller is next once this one has ended, and not any.
        else_caller: bool,
    },
}

/// Process that serves a session.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "an endpoint has to treat each case")]
pub enum SessionPlace {
    /// This one. It continues the session unless it has it in memory.
    Here(AdoptedSession),
    /// Another one.
    Elsewhere(Arc<dyn SessionForwarder>),
    /// None: there is no such session, or not for this principal. This is certain.
    Unknown,
}

/// Session that this process owns and may have to continue.
#[derive(Debug)]
#[non_exhaustive]
pub struct AdoptedSession {
    /// The session in the directory.
    pub session: Arc<dyn SharedSession>,
    /// Its last snapshot, as [`SharedSession::save`] received it.
    pub snapshot: Vec<u8>,
    /// Number of processes that have owned the session, this one included.
    pub generation: u64,
    /// Streams with requests that the former owner has not answered.
    pub unanswered: Vec<UnansweredStream>,
}

impl AdoptedSession {
    /// Creates an adopted session without unanswered requests.
    #[must_use]
    pub fn new(session: Arc<dyn SharedSession>, snapshot: Vec<u8>, generation: u64) -> Self {
        Self { session, snapshot, generation, unanswered: Vec::new() }
    }

    /// Adds streams with unanswered requests.
    #[must_use]
    pub fn with_unanswered(mut self, streams: Vec<UnansweredStream>) -> Self {
        self.unanswered = streams;
        self
    }
}

/// Stream on which a former owner of its session has not answered every request.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "what an implementation hands over")]
pub struct UnansweredStream {
    /// The stream.
    pub stream: Arc<dyn SharedStream>,
    /// Number of events that the stream has had.
    pub last: u64,
    /// The requests.
    pub requests: Vec<StreamRequest>,
}

/// Request that is answered on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a pair that implementations store")]
pub struct StreamRequest {
    /// JSON text of its id.
    pub id: String,
    /// Its method.
    pub method: String,
}

/// Session that this process owns, in the directory.
pub trait SharedSession: fmt::Debug + Send + Sync + 'static {
    /// Returns true while this process may serve the session. It is asked before each request and answers from memory.
    fn is_owned(&self) -> bool;

    /// Replaces the snapshot. What a client was told about its session is in it before it is told.
    ///
    /// # Errors
    /// [`DirectoryError`].
    fn save<'a>(&'a self, snapshot: &'a [u8]) -> DirectoryFuture<'a, ()>;

    /// Keeps the session from expiring. It is called several times within the idle timeout while the session is used.
    fn touch(&self);

    /// Ends the session for all processes.
    ///
    /// # Errors
    /// [`DirectoryError`].
    fn end(&self) -> DirectoryFuture<'_, ()>;

    /// Opens a stream. `number` is that of the stream in the memory of this process: a repeat with it opens the same
    /// stream.
    ///
    /// # Errors
    /// [`DirectoryError`].
    fn open_stream(&self, number: u32, stream: NewStream) -> DirectoryFuture<'_, Arc<dyn SharedStream>>;

    /// Sets what this process has of the session in memory, to be stopped when another process owns the session: a client
    /// that waits for an event of it here would wait for ever. By default that is noticed with the next event.
    fn set_holder(&self, holder: Weak<dyn SessionHolder>) {
        let _ = holder;
    }

    /// Reads the events after that of `event_id`, which a client has received last. `None` if it is not the id of an
    /// event of this session, or its stream was dropped.
    ///
    /// # Errors
    /// [`DirectoryError::Unavailable`].
    fn resume<'a>(&'a self, event_id: &'a str) -> DirectoryFuture<'a, Option<ResumedEvents>>;
}

/// Part of a session that a process has in memory: its streams and running requests.
pub trait SessionHolder: Send + Sync + 'static {
    /// Stops what runs for the session, and ends its streams, so that clients resume them at the present owner.
    fn abandon(&self);
}

/// Stream that is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an implementation has to treat each case")]
pub enum NewStream {
    /// Messages that belong to no request.
    Listen,
    /// Messages and answers of these requests.
    Requests(Vec<StreamRequest>),
}

/// Stream of a session in the directory.
pub trait SharedStream: fmt::Debug + Send + Sync + 'static {
    /// Returns the event id of the beginning of the stream.
    fn first_event_id(&self) -> String;

    /// Returns the number of the event with this id, from 1, and 0 for the beginning; `None` if the id belongs to
    /// another stream.
    fn number_of(&self, event_id: &str) -> Option<u64>;

    /// Appends an event and returns its id. A repeat with the same number changes nothing and returns the same id.
    /// `None` if it is an answer and the request is answered already.
    ///
    /// # Errors
    /// [`DirectoryError`].
    fn append<'a>(&'a self, event: NewStreamEvent<'a>) -> DirectoryFuture<'a, Option<Box<str>>>;
}

/// Event that is appended to a stream.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "what implementations store")]
pub struct NewStreamEvent<'a> {
    /// Its number in the stream: one more than that of the last event, from 1.
    pub number: u64,
    /// JSON text of the id of the request that it answers.
    pub answers: Option<&'a str>,
    /// The message.
    pub message: &'a [u8],
}

/// Events that a client has missed.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "what an implementation hands over")]
pub struct ResumedEvents {
    /// Their stream.
    pub stream: Arc<dyn SharedStream>,
    /// True if it carries messages that belong to no request, and continues.
    pub is_listen: bool,
    /// Number of the event that the client has received last.
    pub after: u64,
    /// Ids and messages, in order.
    pub events: Vec<(Box<str>, Bytes)>,
}

/// Sends requests to the process that owns their session.
pub trait SessionForwarder: fmt::Debug + Send + Sync + 'static {
    /// Sends a request once. What the layers before the endpoint found out about its sender is in its extensions.
    fn forward(&self, parts: Parts, body: Bytes) -> BoxFuture<'_, ForwardResult>;

    /// Drops what is remembered about this owner, because another process takes this one for it. The next search asks the
    /// directory. By default nothing is remembered.
    fn forget(&self) {}
}

/// Result of forwarding a request.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "an endpoint has to treat each case")]
pub enum ForwardResult {
    /// The response of the owner. An event stream may still be coming.
    Response(Response<Body>),
    /// The owner has not processed it, and never will: it may be sent to another process.
    NotProcessed,
    /// The owner may have processed it, and its response is lost. It is never sent again.
    OutcomeUnknown,
}

/// Marks a request that another process has forwarded, in its extensions. It is served here or refused with 421, and
/// never forwarded again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a mark")]
pub struct ForwardedRequest;
