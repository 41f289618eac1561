//! The answers of a round of questions, as they come in.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

use hospes_model::{RawJson, RpcError};

/// Answer of a peer to a question.
pub(super) type AnswerResult = Result<RawJson, RpcError>;

/// The answers of a round as they come in.
#[derive(Debug)]
pub(super) struct RoundAnswers(Mutex<CollectedAnswers>);

#[derive(Debug)]
struct CollectedAnswers {
    answers: Vec<Option<AnswerResult>>,
    missing: usize,
    waker: Option<Waker>,
}

impl RoundAnswers {
    pub(super) fn new(questions: usize) -> Self {
        let answers = (0..questions).map(|_| None).collect();
        Self(Mutex::new(CollectedAnswers { answers, missing: questions, waker: None }))
    }

    /// Records the answer to the question at `position`.
    pub(super) fn answer(&self, position: usize, answer: AnswerResult) {
        let mut state = self.lock();
        let Some(slot) = state.answers.get_mut(position).filter(|slot| slot.is_none()) else { return };
        let failed = answer.is_err();
        *slot = Some(answer);
        state.missing -= 1;
        if (state.missing == 0 || failed)
            && let Some(waker) = state.waker.take()
        {
            waker.wake();
        }
    }

    /// Every question that has no answer yet gets this one.
    pub(super) fn fail_unanswered(&self, error: &RpcError) {
        let mut state = self.lock();
        state.missing = 0;
        for slot in state.answers.iter_mut().filter(|slot| slot.is_none()) {
            *slot = Some(Err(error.clone()));
        }
    }

    /// The answers once they are all there; unless each counts, an error as soon as one is refused.
    pub(super) fn poll(&self, cx: &TaskContext<'_>, each: bool) -> Poll<Result<Vec<AnswerResult>, RpcError>> {
        let mut state = self.lock();
        let failed = state.answers.iter().flatten().find_map(|answer| answer.as_ref().err());
        if let Some(error) = failed.filter(|_| !each) {
            let why = format!("the client refused: {}", error.message);
            return Poll::Ready(Err(RpcError::internal(why).with_data(error)));
        }
        if state.missing > 0 {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(state.answers.drain(..).flatten().collect()))
    }

    fn lock(&self) -> MutexGuard<'_, CollectedAnswers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
