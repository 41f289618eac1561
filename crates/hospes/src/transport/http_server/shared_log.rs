//! The part of an event log that the directory of shared sessions keeps: a task appends the events in their order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::event_log::{EventLog, UnstoredEvent};
use super::session_handover::ActivityGuard;
use super::sessions::HttpSession;
use super::shared_sessions::{DirectoryError, NewStream, NewStreamEvent, SessionHolder as _, SharedStream};

/// Pauses between attempts to reach the directory.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Time for which a stream waits for the directory. Then it is closed, so that its client comes back.
const PATIENCE: Duration = Duration::from_secs(5);

/// The directory's part of a log.
#[derive(Debug)]
pub(super) struct SharedLog {
    session: Weak<HttpSession>,
    number: u32,
    opened: NewStream,
    stream: OnceLock<Arc<dyn SharedStream>>,
    /// True while a task appends.
    running: AtomicBool,
}

impl SharedLog {
    /// A stream that is opened with its first event.
    pub(super) fn new(session: &Arc<HttpSession>, number: u32, opened: NewStream) -> Self {
        Self {
            session: Arc::downgrade(session),
            number,
            opened,
            stream: OnceLock::new(),
            running: AtomicBool::new(false),
        }
    }

    /// A stream whose session has ended.
    #[cfg(test)]
    pub(super) fn orphan() -> Self {
        Self {
            session: Weak::new(),
            number: 1,
            opened: NewStream::Listen,
            stream: OnceLock::new(),
            running: AtomicBool::new(false),
        }
    }

    /// A stream that the directory has.
    pub(super) fn of_stream(session: &Arc<HttpSession>, stream: Arc<dyn SharedStream>) -> Self {
        let log = Self::new(session, 0, NewStream::Listen);
        let _ = log.stream.set(stream);
        log
    }

    /// Returns the stream, once it is open.
    pub(super) fn stream(&self) -> Option<&Arc<dyn SharedStream>> {
        self.stream.get()
    }

    /// Opens the stream and appends what is there, in a task of its own: a client that goes away must not stop it.
    pub(super) fn start(log: &Arc<EventLog>) {
        let Some(shared) = log.shared_log() else { return };
        // None while the runtime shuts down, and then nothing can go on.
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && !shared.running.swap(true, Ordering::AcqRel)
        {
            runtime.spawn(append_all(Arc::clone(log)));
        }
    }

    /// Opens the stream, if it is not, and appends an event, if there is one.
    async fn step(&self, event: Option<&UnstoredEvent>) -> Result<Option<Box<str>>, DirectoryError> {
        let session = self.session.upgrade().ok_or(DirectoryError::NotOwned)?;
        let shared = session.shared().ok_or(DirectoryError::NotOwned)?;
        let stream = match self.stream.get() {
            Some(stream) => stream,
            None => {
                let opened = shared.handle().open_stream(self.number, self.opened.clone()).await?;
                self.stream.get_or_init(|| opened)
            }
        };
        let Some(event) = event else { return Ok(None) };
        if event.answers.is_some() {
            // What the answer says of the session has to be true at the next process.
            session.save().await?;
        }
        let new =
            NewStreamEvent { number: event.number, answers: event.answers.as_deref(), message: &event.json };
        stream.append(new).await
    }
}

/// Appends events until the directory has all of them.
async fn append_all(log: Arc<EventLog>) {
    let Some(shared) = log.shared_log() else { return };
    // What is not appended when the session is given away is lost.
    let _activity = shared.session.upgrade().map(|session| ActivityGuard::add(&session));
    let mut pause = FIRST_PAUSE;
    let (mut failing, mut is_closed): (Option<Instant>, bool) = (None, false);
    loop {
        let event = log.first_unstored();
        if event.is_none() && shared.stream().is_some() {
            log.wake();
            shared.running.store(false, Ordering::Release);
            // One may have come between the look and the mark, whose task saw this one running.
            if log.first_unstored().is_none() || shared.running.swap(true, Ordering::AcqRel) {
                return;
            }
            continue;
        }
        match shared.step(event.as_ref()).await {
            Ok(id) => {
                if event.is_some() {
                    log.mark_stored(id);
                }
                if failing.take().is_some() {
                    log.reopen();
                    is_closed = false;
                }
                pause = FIRST_PAUSE;
            }
            Err(DirectoryError::Unavailable(why)) => {
                let since = *failing.get_or_insert_with(Instant::now);
                if since.elapsed() >= PATIENCE {
                    if !std::mem::replace(&mut is_closed, true) {
                        // Not louder: every stream says it when the shared state is away.
                        tracing::debug!(
                            why,
                            "an event stream was closed; its events are kept for its client"
                        );
                    }
                    log.close();
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(DirectoryError::Refused(why)) if event.is_some() => {
                tracing::warn!(why, "an event was not stored and not sent");
                log.refuse_first(&why);
            }
            Err(DirectoryError::NotOwned | DirectoryError::Refused(_)) => {
                // The present owner answers the requests of this stream.
                if let Some(session) = shared.session.upgrade() {
                    session.abandon();
                }
                log.close();
                return;
            }
        }
    }
}
