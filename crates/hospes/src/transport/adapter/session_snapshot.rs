//! Snapshot of a legacy session, from which another process continues it.

use std::sync::Arc;

use hospes_model::{InitializeParams, LoggingLevel, Method, RawJson, message};
use hospes_proto::RevisionSet;
use serde::{Deserialize, Serialize};

use super::legacy::read_offers;
use super::service_adapter::ServiceAdapter;
use super::session::LegacySession;
use crate::params::Params;
use crate::peer::RequestSender;

/// Format that this version writes. Members may be added to it; readers ignore those that they do not know.
const SNAPSHOT_VERSION: u32 = 1;

/// State of a session that its client has set and relies on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionState {
    /// Revision in use.
    revision: String,
    /// True once the client has said `initialized` or sent a request.
    is_ready: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log_level: Option<LoggingLevel>,
    /// URIs of the resources subscribed to, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    subscriptions: Vec<String>,
    /// Ids of the tasks whose changes are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionSnapshot<S> {
    version: u32,
    /// Params of `initialize`, as the client sent them.
    initialize: RawJson,
    /// Program that the client runs in, if the transport could tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    caller: Option<String>,
    state: S,
}

/// A snapshot from which no session can be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RestoreError {
    /// A later version of the program wrote it.
    #[error("the session snapshot has version {0}; this program reads versions up to {SNAPSHOT_VERSION}")]
    Version(u32),
    /// It is not a snapshot.
    #[error("the session snapshot cannot be read: {0}")]
    Malformed(String),
    /// The service does not answer, or not for this peer.
    #[error("the session cannot be continued: {0}")]
    Service(String),
}

impl LegacySession {
    /// Returns the present state.
    pub(crate) fn state(&self) -> SessionState {
        let (is_ready, mut subscriptions) = self.subscription_state();
        // Two equal states must not differ by the order of a hash table.
        subscriptions.sort_unstable();
        SessionState {
            revision: self.peer().revision.as_str().to_owned(),
            is_ready,
            log_level: self.peer().log_level(),
            subscriptions,
            tasks: self.followed_tasks(),
        }
    }

    /// Writes a snapshot; `initialize` has the params of that request.
    pub(crate) fn write_snapshot(&self, initialize: &RawJson, state: &SessionState) -> Vec<u8> {
        let snapshot = SessionSnapshot {
            version: SNAPSHOT_VERSION,
            initialize: initialize.clone(),
            caller: self.peer().caller.as_deref().map(str::to_owned),
            state,
        };
        serde_json::to_vec(&snapshot).unwrap_or_default()
    }
}

/// A session that was made from its snapshot.
#[derive(Debug)]
pub(crate) struct RestoredSession {
    pub(crate) session: Arc<LegacySession>,
    pub(crate) initialize: RawJson,
}

impl ServiceAdapter {
    /// Makes a session from a snapshot. `generation` is the number of processes that have served it, this one
    /// included: it keeps the ids of questions apart.
    pub(crate) async fn restore(
        &self,
        snapshot: &[u8],
        principal: Option<Arc<str>>,
        generation: u64,
    ) -> Result<RestoredSession, RestoreError> {
        let malformed = |why: &dyn std::fmt::Display| RestoreError::Malformed(why.to_string());
        let SessionSnapshot { version, initialize, caller, state }: SessionSnapshot<SessionState> =
            serde_json::from_slice(snapshot).map_err(|error| malformed(&error))?;
        if version > SNAPSHOT_VERSION {
            return Err(RestoreError::Version(version));
        }
        let revision = self
            .settings
            .revisions
            .find_by_name(&state.revision)
            .ok_or_else(|| malformed(&format!("revision {} is not served here", state.revision)))?;
        let params: InitializeParams =
            Params::new(initialize.clone()).decode().map_err(|error| malformed(&error.message))?;
        let params = self.client_infos.share_initialize(params);
        let sender = RequestSender { principal, caller: caller.map(Arc::from) };
        let peer = |revision| self.client_infos.legacy_peer(revision, &params, sender);
        let session =
            LegacySession::continued(RevisionSet::only(revision), Arc::clone(&params), peer, generation)
                .map_err(|error| malformed(&error.message))?;
        let service = |error: hospes_model::RpcError| RestoreError::Service(error.message.into_owned());
        let mut capabilities = self.discover(Arc::clone(session.peer())).await.map_err(service)?.capabilities;
        let session = session.with_offers(read_offers(&mut capabilities));
        if state.is_ready {
            let initialized =
                message::JsonRpcNotification { method: Method::Initialized.name().into(), params: None };
            session.handle_notification(&initialized);
        }
        if let Some(level) = state.log_level {
            session.peer().set_log_level(level);
        }
        for uri in &state.subscriptions {
            // One that is over a limit of this process is missing, and its changes with it.
            if let Err(error) = session.subscribe(uri) {
                tracing::warn!(%error, "a subscription of an adopted session was dropped");
            }
        }
        for task in &state.tasks {
            session.follow_task(task);
        }
        Ok(RestoredSession { session: Arc::new(session), initialize })
    }
}
