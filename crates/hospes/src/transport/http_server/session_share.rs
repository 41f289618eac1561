//! The part of a session that its directory keeps, for other processes.

use std::sync::Arc;

use hospes_model::RawJson;
use tokio::sync::Mutex;

use super::session_handover::SessionActivity;
use super::shared_sessions::{DirectoryError, SharedSession};
use crate::transport::adapter::{LegacySession, SessionState};

/// A session in its directory.
#[derive(Debug)]
pub(super) struct SessionShare {
    handle: Arc<dyn SharedSession>,
    /// Number of processes that have owned it, this one included.
    generation: u64,
    /// Params of `initialize`.
    initialize: RawJson,
    /// The state that the directory has. Locked while it is replaced, so that an older one never follows a newer one.
    saved: Mutex<Option<SessionState>>,
    activity: SessionActivity,
}

impl SessionShare {
    pub(super) fn new(
        handle: Arc<dyn SharedSession>,
        generation: u64,
        initialize: RawJson,
        saved: Option<SessionState>,
    ) -> Self {
        let activity = SessionActivity::default();
        Self { handle, generation, initialize, saved: Mutex::new(saved), activity }
    }

    pub(super) fn handle(&self) -> &Arc<dyn SharedSession> {
        &self.handle
    }

    /// Returns what runs in the session.
    pub(super) fn activity(&self) -> &SessionActivity {
        &self.activity
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Stores the state of the session, if it has changed.
    pub(super) async fn save(&self, session: &LegacySession) -> Result<(), DirectoryError> {
        let mut saved = self.saved.lock().await;
        let state = session.state();
        if saved.as_ref() != Some(&state) {
            self.handle.save(&session.write_snapshot(&self.initialize, &state)).await?;
            *saved = Some(state);
        }
        Ok(())
    }

    /// Ends the session for all processes, without anybody who waits for it.
    pub(super) fn end_in_background(&self) {
        Self::end_handle(Arc::clone(&self.handle));
    }

    /// Ends a session in its directory.
    pub(super) fn end_handle(handle: Arc<dyn SharedSession>) {
        // None while the runtime shuts down.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            // What this misses expires.
            if let Err(error) = handle.end().await {
                tracing::debug!(%error, "the end of a session was not recorded");
            }
        });
    }
}
