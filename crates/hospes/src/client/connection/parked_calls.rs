//! Calls that wait while another client answers their input requests.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hospes_model::{InputRequest, Method, RawJson, RequestId, Revision, RpcError};
use tokio::task::AbortHandle;

use crate::client::connection::settings::MAX_PARKED_CALLS;
use crate::client::error::CallError;
use crate::client::link::LinkCall;
use crate::client::link::ReplyTo;
use crate::round::read_answer;

/// The parked calls of one connection, by handle.
#[derive(Debug, Default)]
pub(crate) struct ParkedCalls(Arc<ParkedCallTable>);

/// The calls by handle, with their timers.
type ParkedCallTable = Mutex<HashMap<String, (ParkedCall, AbortHandle)>>;

/// A call that waits. Dropping it cancels it, and refuses its questions.
#[derive(Debug)]
pub(crate) struct ParkedCall {
    pub(crate) call: LinkCall,
    asked: Vec<ParkedInputRequest>,
    /// Destination of answers to questions asked on the call.
    reply: ReplyTo,
    /// Principal that the call is made for; no other principal may resume it.
    principal: Option<Arc<str>>,
}

#[derive(Debug)]
struct ParkedInputRequest {
    key: String,
    id: RequestId,
    request: InputRequest,
    /// Destination of the answer; a question held between calls has another one than the call.
    reply: ReplyTo,
}

impl ParkedCall {
    pub(crate) fn new(call: LinkCall, principal: Option<Arc<str>>) -> Self {
        let reply = call.reply_to();
        Self { call, asked: Vec::new(), reply, principal }
    }

    /// Adds an input request received on the call. Returns the key of its response.
    pub(crate) fn add_question(&mut self, id: RequestId, request: InputRequest) -> String {
        let reply = self.reply.clone();
        self.add_question_for(id, request, reply)
    }

    /// Adds a question whose answer has its own destination. Returns the key of the answer.
    pub(crate) fn add_question_for(
        &mut self,
        id: RequestId,
        request: InputRequest,
        reply: ReplyTo,
    ) -> String {
        let mut key = format!("u{id}");
        // Questions of two sessions may have one id.
        while self.asked.iter().any(|asked| asked.key == key) {
            key.push('+');
        }
        self.asked.push(ParkedInputRequest { key: key.clone(), id, request, reply });
        key
    }

    /// Returns the destination of answers to questions asked on the call.
    pub(crate) fn reply_to(&self) -> ReplyTo {
        self.reply.clone()
    }

    /// Returns an error if one of the answers does not match its question.
    pub(crate) fn find_malformed_answer(&self, answers: &BTreeMap<String, RawJson>) -> Option<RpcError> {
        let given = self.asked.iter().filter_map(|asked| Some((asked, answers.get(&asked.key)?)));
        let decoded =
            given.map(|(asked, answer)| read_answer(&Method::from_name(asked.request.method()), answer));
        decoded.filter_map(Result::err).next()
    }

    /// Passes responses and refusals on to the server. Returns the input requests that have neither.
    pub(crate) fn answer_questions(
        &mut self,
        answers: &BTreeMap<String, RawJson>,
        refused: &BTreeMap<String, RpcError>,
        revision: Revision,
    ) -> Vec<(String, InputRequest)> {
        let mut unanswered = Vec::new();
        for asked in std::mem::take(&mut self.asked) {
            if let Some(error) = refused.get(&asked.key) {
                asked.reply.answer(&asked.id, Err(error));
                continue;
            }
            let Some(answer) = answers.get(&asked.key) else {
                unanswered.push((asked.key.clone(), asked.request.clone()));
                self.asked.push(asked);
                continue;
            };
            let method = Method::from_name(asked.request.method());
            let encoded = read_answer(&method, answer).and_then(|answer| {
                answer.encode(revision).map_err(|error| RpcError::internal(error.to_string()))
            });
            asked.reply.answer(&asked.id, encoded.as_ref());
        }
        unanswered
    }
}

impl Drop for ParkedCall {
    fn drop(&mut self) {
        let gone = RpcError::internal("no answer was given");
        self.asked.drain(..).for_each(|asked| asked.reply.answer(&asked.id, Err(&gone)));
    }
}

impl ParkedCalls {
    /// Keeps `call` for at most `limit` (the setting `park_timeout`). The handle to get it back.
    pub(crate) fn park(&self, call: ParkedCall, limit: Duration) -> Result<String, CallError> {
        let handle = new_handle()?;
        let (weak, key) = (Arc::downgrade(&self.0), handle.clone());
        // Held until the call is in the table: its timer must not look for it before that.
        let mut calls = self.lock();
        if calls.len() >= MAX_PARKED_CALLS {
            let what = "parked calls";
            return Err(CallError::TooMany { what, max: MAX_PARKED_CALLS, setting: "MAX_PARKED_CALLS" });
        }
        let timer = tokio::spawn(async move {
            tokio::time::sleep(limit).await;
            if abandon(&weak, &key) {
                tracing::warn!(?limit, "parked call expired (setting park_timeout)");
            }
        });
        calls.insert(handle.clone(), (call, timer.abort_handle()));
        Ok(handle)
    }

    /// Removes and returns the call of this handle. It stays parked if an answer is malformed, so that the client can
    /// send better ones (MRTR-15).
    pub(crate) fn take(
        &self,
        handle: &str,
        principal: Option<&str>,
        answers: &BTreeMap<String, RawJson>,
    ) -> Result<ParkedCall, RpcError> {
        let gone = || {
            let why = "the call that these answers belong to is no longer waiting: it has ended, its server was \
                       restarted, or no answer came in time (setting park_timeout); the call was not repeated";
            RpcError::invalid_params(why)
        };
        let mut calls = self.lock();
        // Another principal gets the same error as for an unknown handle, so that it learns nothing.
        let found = calls.get(handle).filter(|(call, _)| call.principal.as_deref() == principal);
        let (parked, _) = found.ok_or_else(gone)?;
        if let Some(malformed) = parked.find_malformed_answer(answers) {
            return Err(malformed);
        }
        let (call, timer) = calls.remove(handle).ok_or_else(gone)?;
        timer.abort();
        Ok(call)
    }

    /// Returns the number of parked calls.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns a guard that gives up the parked call of this handle when it is dropped.
    pub(crate) fn guard(&self, handle: String) -> ParkedCallGuard {
        ParkedCallGuard { calls: Arc::downgrade(&self.0), handle }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (ParkedCall, AbortHandle)>> {
        lock(&self.0)
    }
}

/// Gives up the parked call of a handle when the call it is for is over.
#[derive(Debug)]
pub(crate) struct ParkedCallGuard {
    calls: Weak<ParkedCallTable>,
    handle: String,
}

impl Drop for ParkedCallGuard {
    fn drop(&mut self) {
        abandon(&self.calls, &self.handle);
    }
}

/// Drops a parked call. Returns true if it was still parked.
fn abandon(calls: &Weak<ParkedCallTable>, handle: &str) -> bool {
    let Some(calls) = calls.upgrade() else { return false };
    let Some((call, timer)) = lock(&calls).remove(handle) else { return false };
    timer.abort();
    // The call is dropped once the lock is let go, because that refuses its questions.
    drop(call);
    true
}

fn lock(calls: &ParkedCallTable) -> MutexGuard<'_, HashMap<String, (ParkedCall, AbortHandle)>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates an unguessable handle.
fn new_handle() -> Result<String, CallError> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random)
        .map_err(|_| CallError::Rpc(RpcError::internal("no random bytes available")))?;
    let mut text = String::with_capacity(32);
    for byte in random {
        // Writing into a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
