//! [`ServiceAdapter`]: a service as peers of both eras see it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use hospes_model::{
    ClientCapabilities, DiscoverResult, Implementation, Method, Notification, PeerResult, RawJson, Reply,
    Revision, RpcError, ServerStamp, meta_key,
};
use hospes_proto::RevisionSet;
use hospes_proto::request_state::{StateKey, StateKeyRing};
use tokio::sync::Semaphore;

use super::buffers::BufferPool;
use super::call_timings::CallTimings;
use super::client_info_cache::ClientInfoCache;
use crate::context::Context;
use crate::peer::Peer;
use crate::replay_cache::ReplayCache;
use crate::service::{BoxService, Call, Outcome, Service as _};

/// Default maximum time that a handler waits for the client's answer to a question: the setting `question_timeout`. A
/// person may have to answer.
const DEFAULT_QUESTION_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Default lifetime of sealed request state: the setting `state_lifetime`.
const DEFAULT_STATE_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// Settings of the adapter.
#[derive(Clone, Debug)]
pub(crate) struct AdapterSettings {
    pub(crate) question_timeout: Duration,
    pub(crate) state_lifetime: Duration,
    pub(crate) keys: StateKeyRing,
    pub(crate) revisions: RevisionSet,
    /// The longest answer that is written; a longer one is replaced by an error that says so.
    pub(crate) max_answer_bytes: usize,
    /// Names this process in request state, if others can open it.
    pub(crate) origin: Option<StateOrigin>,
}

/// Name of this process at present, which precedes the request state that it seals. The next round goes there, because
/// what a call holds between rounds is in its memory.
#[derive(Clone)]
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only processes behind HTTP share state"))]
pub(crate) struct StateOrigin(pub(crate) Arc<dyn Fn() -> Option<String> + Send + Sync>);

impl StateOrigin {
    /// Character between the name and the state, which neither has.
    const MARK: char = '.';

    /// Puts the name before a state.
    pub(super) fn sign(&self, state: String) -> String {
        match (self.0)() {
            Some(name) => format!("{name}{}{state}", Self::MARK),
            None => state,
        }
    }

    /// Returns the name before a state, and the state.
    pub(crate) fn split(state: &str) -> (Option<&str>, &str) {
        match state.rsplit_once(Self::MARK) {
            Some((name, state)) => (Some(name), state),
            None => (None, state),
        }
    }
}

impl fmt::Debug for StateOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateOrigin")
    }
}

impl Default for AdapterSettings {
    fn default() -> Self {
        Self {
            question_timeout: DEFAULT_QUESTION_TIMEOUT,
            state_lifetime: DEFAULT_STATE_LIFETIME,
            keys: StateKeyRing::single(StateKey::from_bytes(random_bytes())),
            revisions: RevisionSet::ALL,
            max_answer_bytes: usize::MAX,
            origin: None,
        }
    }
}

/// A service as peers of both eras see it.
#[derive(Debug)]
pub(crate) struct ServiceAdapter {
    pub(super) service: BoxService,
    pub(super) settings: AdapterSettings,
    pub(super) stamp: OnceLock<ServerStamp>,
    pub(super) client_infos: ClientInfoCache,
    pub(super) buffers: Arc<BufferPool>,
    pub(super) replay_cache: Arc<ReplayCache>,
    pub(super) call_timings: CallTimings,
    /// Permits of notifications that the service has not taken yet.
    pub(super) notified: Arc<Semaphore>,
}

/// The most notifications of extensions that the service has not taken yet; further ones are dropped.
const MAX_NOTIFIED: usize = 256;

impl ServiceAdapter {
    pub(crate) fn new(service: BoxService, settings: AdapterSettings) -> Arc<Self> {
        let (programs, buffers) = (ClientInfoCache::default(), Arc::default());
        let spent = ReplayCache::new(settings.state_lifetime);
        Arc::new(Self {
            service,
            settings,
            stamp: OnceLock::new(),
            client_infos: programs,
            buffers,
            replay_cache: spent,
            call_timings: CallTimings::default(),
            notified: Arc::new(Semaphore::new(MAX_NOTIFIED)),
        })
    }

    /// Hands a notification of an extension to the service: in the order in which they came, as far as the service takes
    /// them at once.
    pub(crate) fn notified(&self, peer: Arc<Peer>, method: Method, params: Option<RawJson>) {
        if params.as_ref().is_some_and(|params| !params.is_object()) {
            tracing::debug!(%method, "notification dropped: its params are not an object");
            return;
        }
        let Ok(permit) = Arc::clone(&self.notified).try_acquire_owned() else {
            tracing::warn!(%method, "notification dropped: {MAX_NOTIFIED} others are queued (MAX_NOTIFIED)");
            return;
        };
        // It must not hold the connection's buffer.
        let params = params.map(|params| params.detached());
        let notification = Notification::Other { method, params };
        let service = self.service.clone();
        // Boxed, because it may be polled here once and then move into a task.
        let mut taken = Box::pin(async move {
            service.notified(notification, Context::new(peer)).await;
            drop(permit);
        });
        // What does not block begins here, before what comes next.
        if !self.service.is_cooperative() || taken.as_mut().now_or_never().is_none() {
            tokio::spawn(taken);
        }
    }

    /// Returns the observed durations of calls.
    pub(crate) fn call_timings(&self) -> &CallTimings {
        &self.call_timings
    }

    /// Memory for large messages.
    #[cfg(feature = "http")]
    pub(crate) fn buffers(&self) -> &Arc<BufferPool> {
        &self.buffers
    }

    /// Returns true if the stamp of all results is known; otherwise call [`ServiceAdapter::load_identity`] first.
    #[cfg(feature = "http")]
    pub(crate) fn has_identity(&self) -> bool {
        self.stamp.get().is_some()
    }

    /// Asks the service who it is, once.
    pub(crate) async fn load_identity(&self) {
        let peer = Peer::new(Revision::LATEST, None, ClientCapabilities::default());
        if let Ok(discovered) = self.discover(Arc::new(peer)).await {
            // Two first requests at once may both ask; they get the same answer.
            let _ = self.stamp.set(ServerStamp::new(&server_info(&discovered)));
        }
    }

    pub(super) fn stamp(&self) -> &ServerStamp {
        static UNKNOWN: OnceLock<ServerStamp> = OnceLock::new();
        self.stamp.get().unwrap_or_else(|| UNKNOWN.get_or_init(|| ServerStamp::new(&unnamed_server_info())))
    }

    /// Asks the service for its identity and capabilities, on behalf of this peer.
    pub(super) async fn discover(&self, peer: Arc<Peer>) -> Result<DiscoverResult, RpcError> {
        let call = Call::new(Method::Discover, RawJson::empty_object(), Context::new(peer));
        match self.service.start(call).await {
            Outcome::Complete(Reply::Prepared(prepared)) => read_discovery(prepared.reply()),
            Outcome::Complete(reply) => read_discovery(&reply),
            Outcome::InputRequired(_) => Err(RpcError::internal("server/discover asked a question")),
            Outcome::Failed(error) => Err(error),
        }
    }
}

fn read_discovery(reply: &Reply) -> Result<DiscoverResult, RpcError> {
    // A reply is not cloned whole: programs would carry code for results of every kind.
    let raw = match reply {
        Reply::Discover(result) => return Ok(DiscoverResult::clone(result)),
        Reply::Raw { revision, json, bridge } => {
            Reply::Raw { revision: *revision, json: json.clone(), bridge: *bridge }
        }
        _ => return Err(RpcError::internal("unexpected result type for server/discover")),
    };
    match raw.resolved(&Method::Discover) {
        Ok(PeerResult::Complete(Reply::Discover(result))) => Ok(*result),
        Ok(_) => Err(RpcError::internal("unexpected result type for server/discover")),
        Err(error) => Err(RpcError::internal(error.to_string())),
    }
}

/// The name that a service gave itself.
pub(super) fn server_info(discovered: &DiscoverResult) -> RawJson {
    discovered.meta.get(meta_key::SERVER_INFO).cloned().unwrap_or_else(unnamed_server_info)
}

/// Returns the identity used for a service that does not name itself; the handshake of the older revisions requires
/// one.
fn unnamed_server_info() -> RawJson {
    let info = Implementation::new("hospes", env!("CARGO_PKG_VERSION"));
    RawJson::from_serialize(&info).unwrap_or_else(|_| RawJson::empty_object())
}

/// Returns unguessable bytes.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system must provide random bytes");
    bytes
}
