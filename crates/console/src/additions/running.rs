//! The additions that are running: at most one for each browser session.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use super::person::{AdditionAnswers, AdditionLine, AdditionPerson, PendingQuestion};
use super::{AdditionFailure, AdditionOutcome};
use crate::sessions::random_text;

/// Maximum number of additions at the same time, of all sessions.
const MAX_ADDITIONS: usize = 4;
/// Maximum time of an addition, with the time that the person takes. An installation alone may take 30 minutes.
const MAX_DURATION: Duration = Duration::from_secs(60 * 60);
/// Maximum time for which a new addition waits for the end of a cancelled one, which removes what it made.
const END_WAIT: Duration = Duration::from_secs(15);
/// Number of lines that a page may be behind.
const MAX_LINES: usize = 64;

/// Reasons that an addition does not begin, or an answer does not arrive.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BeginAdditionError {
    #[error("another server is being added in this browser session; end that first")]
    OtherRunning,
    #[error("too many servers are being added (at most {MAX_ADDITIONS}); wait for one of them, or end it")]
    TooMany,
}

/// The running additions. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct RunningAdditions(Arc<Mutex<HashMap<String, RunningAddition>>>);

#[derive(Clone)]
struct RunningAddition {
    id: String,
    person: Arc<AdditionPerson>,
    /// Closed once everything that the addition made is removed or kept.
    ended: watch::Receiver<()>,
}

/// The lines for the page. Dropping them cancels the addition.
pub(crate) struct AdditionLines {
    lines: mpsc::Receiver<Bytes>,
    // Weak, because the lines end when the last sender is gone, and the person has one.
    person: Weak<AdditionPerson>,
}

impl AdditionLines {
    /// Returns the next line. `None` after the last one.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        self.lines.recv().await
    }
}

impl Drop for AdditionLines {
    fn drop(&mut self) {
        if let Some(person) = self.person.upgrade() {
            person.cancel();
        }
    }
}

/// Ends the entry of an addition when its task ends, also by a panic.
struct AdditionEntry {
    running: RunningAdditions,
    session: String,
    _ended: watch::Sender<()>,
}

impl Drop for AdditionEntry {
    fn drop(&mut self) {
        self.running.0.lock().remove(&self.session);
    }
}

impl RunningAdditions {
    /// Begins an addition, or an update, of this session: `work` with the person who is asked. Waits for the end of one that
    /// was cancelled.
    pub(crate) async fn begin(
        &self,
        session: &str,
        work: impl FnOnce(Arc<AdditionPerson>) -> AdditionOutcome,
    ) -> Result<AdditionLines, BeginAdditionError> {
        let id = random_text();
        let (entry, person, lines) = loop {
            let other = match self.enter(session, &id) {
                Ok(entered) => break entered,
                Err(Some(other)) => other,
                Err(None) => return Err(BeginAdditionError::TooMany),
            };
            if !other.person.is_cancelled() {
                return Err(BeginAdditionError::OtherRunning);
            }
            let mut ended = other.ended;
            // Fails when the sender is dropped, which is what is waited for.
            let waited = tokio::time::timeout(END_WAIT, ended.changed()).await;
            waited.map_err(|_| BeginAdditionError::OtherRunning)?.ok();
        };
        person.try_send(&AdditionLine::Begun { id: &id });
        let work = work(Arc::clone(&person));
        let lines = AdditionLines { lines, person: Arc::downgrade(&person) };
        // A task of its own, so that it ends in order when the page is gone.
        tokio::spawn(async move {
            let mut work = work;
            let outcome = tokio::select! {
                outcome = &mut work => outcome,
                () = tokio::time::sleep(MAX_DURATION) => {
                    person.cancel();
                    let minutes = MAX_DURATION.as_secs() / 60;
                    let failed = || AdditionFailure { message: format!("it did not end within {minutes} minutes"), hint: None };
                    work.await.map_err(|_| failed())
                }
            };
            drop(entry);
            person.conclude(&outcome).await;
        });
        Ok(lines)
    }

    /// Enters an addition. The error is the one that is running, or `None` if there are too many.
    fn enter(
        &self,
        session: &str,
        id: &str,
    ) -> Result<(AdditionEntry, Arc<AdditionPerson>, mpsc::Receiver<Bytes>), Option<RunningAddition>> {
        let mut running = self.0.lock();
        if let Some(other) = running.get(session) {
            return Err(Some(other.clone()));
        }
        if running.len() >= MAX_ADDITIONS {
            return Err(None);
        }
        let (send, lines) = mpsc::channel(MAX_LINES);
        let (end, ended) = watch::channel(());
        let person = AdditionPerson::new(send);
        let addition = RunningAddition { id: id.to_owned(), person: Arc::clone(&person), ended };
        running.insert(session.to_owned(), addition);
        let entry = AdditionEntry { running: self.clone(), session: session.to_owned(), _ended: end };
        Ok((entry, person, lines))
    }

    /// Cancels the addition of a session. Returns false if there is none.
    pub(crate) fn cancel(&self, session: &str) -> bool {
        let found = self.0.lock().get(session).cloned();
        found.inspect(|addition| addition.person.cancel()).is_some()
    }

    /// Passes the answers of the person on. Returns false if they are not asked for.
    pub(crate) fn answer(&self, session: &str, id: &str, answers: AdditionAnswers) -> bool {
        let is_meant = |pending: &PendingQuestion| matches!(pending, PendingQuestion::Answers(_));
        match self.take_pending(session, id, is_meant) {
            Some(PendingQuestion::Answers(answer)) => answer.send(answers).is_ok(),
            _ => false,
        }
    }

    /// Passes the yes to the start on. Returns false if it is not asked for.
    pub(crate) fn start(&self, session: &str, id: &str, is_confined: bool) -> bool {
        let is_meant = |pending: &PendingQuestion| matches!(pending, PendingQuestion::Start(_));
        match self.take_pending(session, id, is_meant) {
            Some(PendingQuestion::Start(answer)) => answer.send(is_confined).is_ok(),
            _ => false,
        }
    }

    /// Passes the last yes on. Returns false if it is not asked for.
    pub(crate) fn accept(&self, session: &str, id: &str) -> bool {
        let is_meant = |pending: &PendingQuestion| matches!(pending, PendingQuestion::Acceptance(_));
        match self.take_pending(session, id, is_meant) {
            Some(PendingQuestion::Acceptance(answer)) => answer.send(()).is_ok(),
            _ => false,
        }
    }

    fn take_pending(
        &self,
        session: &str,
        id: &str,
        is_meant: impl FnOnce(&PendingQuestion) -> bool,
    ) -> Option<PendingQuestion> {
        let running = self.0.lock();
        let addition = running.get(session).filter(|addition| addition.id == id)?;
        addition.person.take_pending(is_meant)
    }
}
