//! The mailbox of a call: what arrives for it on another stream.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context as TaskContext;

use futures::task::AtomicWaker;
use hospes_model::RawJson;

use crate::client::error::CallError;
use crate::client::link::inbox::CallInbox;
use crate::client::link::{EventInterest, LinkEvent, OutgoingRequest};
use crate::client::transport::http::session::HttpClientSession;

/// Mailbox for the answer to a request that arrives on another stream. That must not happen (HTTP-33). It does, because
/// some servers take any stream of the client for the one that broke.
#[derive(Debug)]
pub(super) struct CallMailbox {
    answer: Mutex<Option<Result<RawJson, CallError>>>,
    /// Questions that came on the session's own stream.
    questions: Mutex<CallInbox>,
    /// True if its caller can answer questions; followed by the principal and the session of the call.
    asks: bool,
    pub(super) principal: Option<Arc<str>>,
    session: Arc<HttpClientSession>,
    waker: AtomicWaker,
}

impl CallMailbox {
    pub(super) fn of(outgoing: &OutgoingRequest<'_>, session: &Arc<HttpClientSession>) -> Self {
        Self {
            answer: Mutex::default(),
            questions: Mutex::default(),
            asks: outgoing.interest == EventInterest::NotificationsAndRequests
                && outgoing.method.allows_input_requests(),
            principal: outgoing.principal.cloned(),
            session: Arc::clone(session),
            waker: AtomicWaker::new(),
        }
    }

    /// Returns true if a question asked in `session` can be put to this call.
    pub(super) fn can_be_asked(&self, session: &Arc<HttpClientSession>) -> bool {
        self.asks && Arc::ptr_eq(&self.session, session)
    }

    pub(super) fn put_question(&self, question: LinkEvent) {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).push(question);
        self.waker.wake();
    }

    pub(super) fn question(&self) -> Option<LinkEvent> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    pub(super) fn put_answer(&self, answer: Result<RawJson, CallError>) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        self.waker.wake();
    }

    pub(super) fn poll_take(&self, cx: &mut TaskContext<'_>) -> Option<Result<RawJson, CallError>> {
        // Before the look, so that an answer in between wakes this task.
        self.waker.register(cx.waker());
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
