//! Identities and capabilities of clients, stored once for all sessions that share them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use hospes_model::{
    ClientCapabilities, Implementation, InitializeParams, RawJson, Revision, TASKS_EXTENSION,
};

use crate::peer::{Peer, RequestSender};

/// Maximum number of distinct values that are remembered.
const MAX_REMEMBERED: usize = 32;
/// Maximum size of a client's identity and capabilities that are kept for its session or shared with others: the limit
/// `max_client_bytes`.
pub(super) const MAX_CLIENT_BYTES: usize = 64 * 1024;

/// The client programs last seen.
#[derive(Debug, Default)]
pub(super) struct ClientInfoCache {
    infos: SharedValues<Implementation>,
    capabilities: SharedValues<ClientCapabilities>,
    openings: SharedValues<InitializeParams>,
}

impl ClientInfoCache {
    /// The params of `initialize`, shared with those who said the same.
    pub(super) fn share_initialize(&self, params: InitializeParams) -> Arc<InitializeParams> {
        self.openings.share(params)
    }

    /// The peer that said so.
    pub(super) fn legacy_peer(
        &self,
        revision: Revision,
        params: &InitializeParams,
        sender: RequestSender,
    ) -> Peer {
        let (info, mut capabilities) = (params.client_info.clone(), params.capabilities.clone());
        // The adapter follows tasks for clients of older revisions.
        capabilities.extensions.insert(TASKS_EXTENSION.to_owned(), RawJson::empty_object());
        self.peer(revision, Some(info), capabilities, sender)
    }

    /// A peer that shares what it says of itself with its like.
    pub(super) fn peer(
        &self,
        revision: Revision,
        info: Option<Implementation>,
        capabilities: ClientCapabilities,
        sender: RequestSender,
    ) -> Peer {
        let info = info.map(|info| self.infos.share(info));
        Peer::from_shared(revision, info, self.capabilities.share(capabilities)).with_sender(sender)
    }
}

#[derive(Debug)]
struct SharedValues<T>(Mutex<VecDeque<Arc<T>>>);

impl<T> Default for SharedValues<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: PartialEq> SharedValues<T> {
    fn share(&self, value: T) -> Arc<T> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = seen.iter().find(|same| ***same == value) {
            return Arc::clone(same);
        }
        if seen.len() >= MAX_REMEMBERED {
            seen.pop_front();
        }
        let value = Arc::new(value);
        seen.push_back(Arc::clone(&value));
        value
    }
}
