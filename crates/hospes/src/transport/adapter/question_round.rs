//! Questions for a legacy peer: real requests, sent on the call's own stream, and the wait for their answers.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use hospes_model::{
    CancelledParams, ElicitParams, InputRequest, Method, Notification, RawJson, RequestId, RpcError,
};
use tokio::time::Sleep;

use super::LegacySession;
use super::round_answers::{AnswerResult, RoundAnswers};
use super::write;
use crate::round::read_answer;

/// One round of questions on its way.
#[derive(Debug)]
pub(super) struct QuestionRound {
    keys: Vec<String>,
    methods: Vec<Method>,
    ids: Vec<i64>,
    unsent: VecDeque<(i64, Method, RawJson)>,
    /// Requests whose answers are no longer wanted.
    withdrawn: VecDeque<i64>,
    round: Arc<RoundAnswers>,
    deadline: Pin<Box<Sleep>>,
    timeout: Duration,
    /// True if the call continues when one of them is refused.
    each: bool,
    refused: Option<RpcError>,
}

/// Event of a round of questions.
pub(super) enum QuestionRoundEvent {
    /// A message for the peer was appended.
    Message,
    /// Every question has its answer, or is refused where each counts.
    Answered(Vec<(String, AnswerResult)>),
    /// The peer would not or could not answer.
    Refused(RpcError),
}

impl QuestionRound {
    /// Lowers the questions to requests and books their ids.
    pub(super) fn new(
        session: &LegacySession,
        requests: Vec<(String, InputRequest)>,
        each: bool,
        timeout: Duration,
    ) -> Result<Self, RpcError> {
        let peer = session.peer();
        let mut lowered = Vec::with_capacity(requests.len());
        for (key, mut request) in requests {
            if let InputRequest::Elicit(params) = &mut request
                && let ElicitParams::Url(url) = &mut **params
                && url.elicitation_id.is_none()
            {
                // 2025-11-25 wants one, and a server of 2026-07-28 behind us has none to give.
                url.elicitation_id = Some(format!("{:032x}", u128::from_ne_bytes(super::random_bytes())));
            }
            request.check_required_capability(&peer.capabilities)?;
            let (method, params) =
                request.lower(peer.revision).map_err(|why| RpcError::internal(why.to_string()))?;
            lowered.push((key, method, params));
        }
        let round = Arc::new(RoundAnswers::new(lowered.len()));
        let methods: Vec<Method> = lowered.iter().map(|(_, method, _)| method.clone()).collect();
        // All ids at once: a round is asked as a whole or not at all.
        let ids = session.ask(&methods, &round)?;
        let mut keys = Vec::with_capacity(lowered.len());
        let mut unsent = VecDeque::with_capacity(lowered.len());
        for (id, (key, method, params)) in ids.iter().zip(lowered) {
            keys.push(key);
            unsent.push_back((*id, method, params));
        }
        let deadline = Box::pin(tokio::time::sleep(timeout));
        let withdrawn = VecDeque::new();
        Ok(Self { keys, methods, ids, unsent, withdrawn, round, deadline, timeout, each, refused: None })
    }

    pub(super) fn poll(
        &mut self,
        session: &LegacySession,
        cx: &mut TaskContext<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<QuestionRoundEvent> {
        loop {
            // Before the refusal is reported, because the round is
            // dropped after that and could cancel nothing more.
            if let Some(id) = self.withdrawn.pop_front() {
                let params = CancelledParams::new()
                    .with_request_id(RequestId::Number(id))
                    .with_reason("the answer is no longer needed");
                let cancelled = Notification::Cancelled(params);
                if write::notification(out, &cancelled, session.peer().revision, None) {
                    return Poll::Ready(QuestionRoundEvent::Message);
                }
                continue;
            }
            if let Some(error) = self.refused.take() {
                return Poll::Ready(QuestionRoundEvent::Refused(error));
            }
            if let Some((id, method, params)) = self.unsent.pop_front() {
                match write::request(out, id, &method, &params) {
                    Ok(()) => return Poll::Ready(QuestionRoundEvent::Message),
                    Err(why) => self.give_up(session, RpcError::internal(why.to_string())),
                }
                continue;
            }
            match self.round.poll(cx, self.each) {
                Poll::Ready(Ok(answers)) => match self.check(answers) {
                    Ok(answers) => return Poll::Ready(QuestionRoundEvent::Answered(answers)),
                    Err(error) => self.give_up(session, error),
                },
                Poll::Ready(Err(error)) => self.give_up(session, error),
                Poll::Pending => {
                    std::task::ready!(self.deadline.as_mut().poll(cx));
                    let why = format!(
                        "the client did not answer within {:?} (setting question_timeout)",
                        self.timeout
                    );
                    self.give_up(session, RpcError::internal(why));
                }
            }
        }
    }

    /// Returns the answers by key. An answer that does not fit its question counts as a refusal and is not handed on.
    fn check(&mut self, answers: Vec<AnswerResult>) -> Result<Vec<(String, AnswerResult)>, RpcError> {
        let checked = self.methods.iter().zip(answers).map(|(method, answer)| {
            let answer = answer?;
            read_answer(method, &answer).map(|_| answer)
        });
        let checked: Vec<AnswerResult> = match self.each {
            true => checked.collect(),
            false => checked.map(|answer| answer.map(Ok)).collect::<Result<_, _>>()?,
        };
        Ok(std::mem::take(&mut self.keys).into_iter().zip(checked).collect())
    }

    /// Gives up on the answers that have not come.
    fn give_up(&mut self, session: &LegacySession, error: RpcError) {
        self.unsent.clear();
        self.withdrawn.extend(session.withdraw(&self.ids));
        if self.each {
            self.round.fail_unanswered(&error);
        } else {
            self.refused = Some(error);
        }
    }

    /// The call is gone, and its questions with it.
    pub(super) fn withdraw(&self, session: &LegacySession) {
        session.withdraw(&self.ids);
    }
}
