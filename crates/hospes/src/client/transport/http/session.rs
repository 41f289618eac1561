//! The session of an older server over HTTP, and the handshake that opens one.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hospes_model::RequestId;
use http::header::HeaderValue;
use tokio::task::AbortHandle;

use crate::client::link::NegotiatedProtocol;

/// Session as the server knows it.
#[derive(Debug)]
pub(crate) struct HttpClientSession {
    pub(super) id: Option<HeaderValue>,
    /// Number of the session within this client.
    pub(super) number: u64,
    /// The server's requests that are being answered. Gone with the session: the next one counts its ids anew, so what
    /// was asked in this one must not be answered in that one.
    open: Mutex<Option<HashSet<RequestId>>>,
}

impl HttpClientSession {
    pub(super) fn new(id: Option<HeaderValue>, number: u64) -> Self {
        Self { id, number, open: Mutex::new(Some(HashSet::new())) }
    }

    /// Adds a request of the server. Returns the number of open ones; none if it is open already or the session has
    /// ended.
    pub(super) fn add_server_request(&self, id: &RequestId) -> Option<usize> {
        let mut open = self.open();
        let open = open.as_mut()?;
        open.insert(id.clone()).then_some(open.len())
    }

    /// It is answered, or not wanted any more; false if that was so before.
    pub(super) fn remove_server_request(&self, id: &RequestId) -> bool {
        self.open().as_mut().is_some_and(|open| open.remove(id))
    }

    /// Returns true if the server waits for an answer of this client.
    pub(super) fn has_server_requests(&self) -> bool {
        self.open().as_ref().is_some_and(|open| !open.is_empty())
    }

    /// Returns true if another session has replaced this one.
    pub(super) fn is_over(&self) -> bool {
        self.open().is_none()
    }

    /// Ends the session: what was asked in it is answered no more.
    pub(super) fn end(&self) {
        *self.open() = None;
    }

    fn open(&self) -> MutexGuard<'_, Option<HashSet<RequestId>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for HttpClientSession {
    fn default() -> Self {
        Self::new(None, 0)
    }
}

/// Record of the handshake, repeated when a session has to be opened again.
#[derive(Debug, Default)]
pub(super) struct HandshakeRecord {
    /// The params of `initialize`.
    pub(super) params: Vec<u8>,
    pub(super) asked: Option<NegotiatedProtocol>,
    /// Negotiated revision and metadata.
    pub(super) agreed: Option<NegotiatedProtocol>,
    pub(super) listener: Option<AbortHandle>,
}
