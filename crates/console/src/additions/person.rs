//! The person at a page who is asked about an addition.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot, watch};

use super::AdditionFailure;
use super::screens::{AddedServer, AdditionOffer, AdditionPlan, AdditionQuestions, AdditionSignIn};
use super::secret_mask::SecretMask;

/// Maximum time that a person takes for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Maximum size of a line that is sent to a page, in bytes.
pub(super) const MAX_LINE: usize = 4 << 20;

/// Answers by the ids of the questions. Not printed, because secrets are among them.
pub type AdditionAnswers = BTreeMap<String, Vec<String>>;

/// A line of the stream that the page reads.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum AdditionLine<'a> {
    Begun {
        id: &'a str,
    },
    /// Progress: what is done now.
    Step {
        text: &'a str,
    },
    /// Progress of a download.
    Bytes {
        done: u64,
        total: Option<u64>,
    },
    Questions(&'a AdditionQuestions),
    Plan(&'a AdditionPlan),
    SignIn(&'a AdditionSignIn),
    Offer(&'a AdditionOffer),
    Added(&'a AddedServer),
    Failed(&'a AdditionFailure),
}

/// A question that waits for the person.
pub(super) enum PendingQuestion {
    Answers(oneshot::Sender<AdditionAnswers>),
    /// The value is true if the server is confined.
    Start(oneshot::Sender<bool>),
    Acceptance(oneshot::Sender<()>),
}

/// The person at a page who is asked about an addition. The page is a stream of lines, and requests that answer it.
pub struct AdditionPerson {
    lines: mpsc::Sender<Bytes>,
    pending: Mutex<Option<PendingQuestion>>,
    mask: Mutex<SecretMask>,
    is_cancelled: watch::Sender<bool>,
}

impl AdditionPerson {
    pub(super) fn new(lines: mpsc::Sender<Bytes>) -> Arc<Self> {
        Arc::new(Self {
            lines,
            pending: Mutex::default(),
            mask: Mutex::default(),
            is_cancelled: watch::Sender::new(false),
        })
    }

    /// Asks for the values that a server needs. `None` if the person is gone, cancels, or takes more than 15 minutes.
    pub async fn ask(&self, questions: &AdditionQuestions) -> Option<AdditionAnswers> {
        let answers = self.wait_for(&AdditionLine::Questions(questions), PendingQuestion::Answers).await?;
        let secret = questions.questions.iter().filter(|question| question.kind == "secret");
        let secret: HashSet<&str> = secret.map(|question| question.id.as_str()).collect();
        let mut mask = self.mask.lock();
        for (_, values) in answers.iter().filter(|(id, _)| secret.contains(id.as_str())) {
            values.iter().for_each(|value| mask.add(value));
        }
        drop(mask);
        Some(answers)
    }

    /// Asks whether a server is started. Returns whether it is confined. `None` as in [`AdditionPerson::ask`].
    pub async fn ask_start(&self, plan: &AdditionPlan) -> Option<bool> {
        self.wait_for(&AdditionLine::Plan(plan), PendingQuestion::Start).await
    }

    /// Asks whether the definitions are accepted and the server is kept. `None` is a no.
    pub async fn ask_acceptance(&self, offer: &AdditionOffer) -> Option<()> {
        self.wait_for(&AdditionLine::Offer(offer), PendingQuestion::Acceptance).await
    }

    /// Shows the page at which the person signs in to the server. The sign-in itself is waited for elsewhere.
    pub async fn show_sign_in(&self, sign_in: &AdditionSignIn) {
        // Without a page nobody signs in, and the wait ends with the addition.
        let _gone = self.lines.send(self.line(&AdditionLine::SignIn(sign_in))).await;
    }

    /// Replaces a secret by dots in all lines from now on, as those that the person types. For those that were typed earlier.
    pub fn hide(&self, secret: &str) {
        self.mask.lock().add(secret);
    }

    /// Shows what is done now. Left out if the page reads slowly.
    pub fn show_step(&self, text: &str) {
        self.try_send(&AdditionLine::Step { text });
    }

    /// Shows the progress of a download, in bytes.
    pub fn show_bytes(&self, done: u64, total: Option<u64>) {
        self.try_send(&AdditionLine::Bytes { done, total });
    }

    /// Runs `work`. Returns `None` if the person cancels or leaves the page before it is done.
    pub async fn unless_cancelled<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut cancelled = self.is_cancelled.subscribe();
        // First the cancellation: work that is always ready could otherwise never be cancelled.
        tokio::select! {
            biased;
            _ = cancelled.wait_for(|is_cancelled| *is_cancelled) => None,
            done = work => Some(done),
        }
    }

    /// Ends the addition.
    pub(super) fn cancel(&self) {
        self.is_cancelled.send_replace(true);
        *self.pending.lock() = None;
    }

    pub(super) fn is_cancelled(&self) -> bool {
        *self.is_cancelled.borrow()
    }

    /// Takes the question that waits, if `is_meant` fits it.
    pub(super) fn take_pending(
        &self,
        is_meant: impl FnOnce(&PendingQuestion) -> bool,
    ) -> Option<PendingQuestion> {
        let mut pending = self.pending.lock();
        pending.as_ref().is_some_and(is_meant).then(|| pending.take())?
    }

    /// Sends the last line.
    pub(super) async fn conclude(&self, outcome: &Result<AddedServer, AdditionFailure>) {
        let line = match outcome {
            Ok(added) => self.line(&AdditionLine::Added(added)),
            Err(failure) => self.line(&AdditionLine::Failed(failure)),
        };
        // Without a page nobody reads it.
        let _gone = self.lines.send(line).await;
    }

    pub(super) fn try_send(&self, line: &AdditionLine<'_>) {
        let _full_or_gone = self.lines.try_send(self.line(line));
    }

    async fn wait_for<T>(
        &self,
        line: &AdditionLine<'_>,
        pending: impl FnOnce(oneshot::Sender<T>) -> PendingQuestion,
    ) -> Option<T> {
        let (send, receive) = oneshot::channel();
        let text = self.line(line);
        // Before the page sees the question, because it may answer at once.
        *self.pending.lock() = Some(pending(send));
        let answered = async {
            self.lines.send(text).await.ok()?;
            receive.await.ok()
        };
        let limited = tokio::time::timeout(ANSWER_TIMEOUT, answered);
        let answer = self.unless_cancelled(limited).await;
        *self.pending.lock() = None;
        answer?.ok()?
    }

    /// Formats a line, without the secrets that the person has typed.
    fn line(&self, line: &AdditionLine<'_>) -> Bytes {
        let mut value = serde_json::to_value(line).unwrap_or_default();
        self.mask.lock().apply(&mut value);
        let mut text = serde_json::to_vec(&value).unwrap_or_default();
        if text.len() > MAX_LINE
            && let Some(items) = value.get_mut("items").and_then(serde_json::Value::as_array_mut)
        {
            // Names, findings and numbers stay; what is not shown can be looked at on the page of the server.
            for item in items {
                item["definition"] = serde_json::Value::Null;
            }
            text = serde_json::to_vec(&value).unwrap_or_default();
        }
        text.push(b'\n');
        text.into()
    }
}

impl fmt::Debug for AdditionPerson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdditionPerson").field("is_cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}
