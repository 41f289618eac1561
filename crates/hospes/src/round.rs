//! State of a call that is kept from one round of questions to the next.

use std::collections::BTreeMap;

use hospes_model::{ElicitAction, InputRequest, InputResponse, Method, RawJson, RpcError};
use serde::{Deserialize, Serialize};

#[cfg(any(feature = "server", feature = "client"))]
use crate::message_content::check_message_content;

/// The answers gathered so far and the results of the steps that must not run twice.
///
/// Between rounds this travels sealed in `requestState` (2026-07-28) or stays in memory (older revisions).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Round {
    /// Answers by key, as the peer sent them.
    #[serde(default, rename = "a")]
    pub answers: BTreeMap<String, RawJson>,
    /// The keys of the answers that came last.
    #[serde(default, skip)]
    pub fresh: Vec<String>,
    /// Questions that a peer of an older revision answered with an error, by key. They are kept only if
    /// [`Round::takes_refusals`] is set.
    #[serde(default, skip)]
    pub refused: BTreeMap<String, RpcError>,
    /// True if the call continues when a peer of an older revision refuses one of its questions, with the error in
    /// [`Round::refused`]. This is so for questions of an older server, which decides for itself. Otherwise a refusal
    /// ends the call.
    #[serde(default, skip)]
    pub takes_refusals: bool,
    /// Results of `ctx.once` steps by key.
    #[serde(default, rename = "s")]
    pub steps: BTreeMap<String, RawJson>,
    /// State of a party further on: an upstream's own `requestState`, or the handle of a parked call.
    #[serde(default, rename = "c", skip_serializing_if = "Option::is_none")]
    pub carried: Option<String>,
    /// Number of rounds so far.
    #[serde(default, rename = "n")]
    pub number: u32,
}

impl Round {
    /// Records the answers of the round that has just ended.
    pub fn record_answers(&mut self, answers: impl IntoIterator<Item = (String, RawJson)>) {
        self.record_answer_results(answers.into_iter().map(|(key, answer)| (key, Ok(answer))));
    }

    /// Records the answers of the round that has just ended, some of which may be errors.
    pub fn record_answer_results(
        &mut self,
        answers: impl IntoIterator<Item = (String, Result<RawJson, RpcError>)>,
    ) {
        self.fresh.clear();
        self.refused.clear();
        for (key, answer) in answers {
            match answer {
                Ok(answer) => {
                    self.fresh.push(key.clone());
                    self.answers.insert(key, answer);
                }
                Err(error) => {
                    self.refused.insert(key, error);
                }
            }
        }
        self.number = self.number.saturating_add(1);
    }

    /// Returns the state that the next questions of the same call start from, without the answers already handed on.
    #[cfg(any(feature = "server", feature = "client"))]
    pub(crate) fn without_answers(self) -> Self {
        Self { answers: BTreeMap::new(), refused: BTreeMap::new(), takes_refusals: false, ..self }
    }
}

/// The questions of one round, and what must be known when their answers come.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PendingInput {
    /// The questions by key, in the order asked.
    pub requests: Vec<(String, InputRequest)>,
    /// State that the next round starts from.
    pub round: Round,
}

impl PendingInput {
    /// Questions and the state they leave behind.
    #[must_use]
    pub fn new(requests: Vec<(String, InputRequest)>, round: Round) -> Self {
        Self { requests, round }
    }
}

/// Decodes the answer to a question of this method, strictly, because it may be forwarded. An unknown action, or
/// content that fits no form, could be taken for consent further on (MRTR-15).
#[cfg(any(feature = "server", feature = "client"))]
pub(crate) fn read_answer(method: &Method, answer: &RawJson) -> Result<InputResponse, RpcError> {
    let read = InputResponse::decode(method, answer)?;
    if let InputResponse::CreateMessage(result) = &read {
        check_message_content(&result.content).map_err(RpcError::invalid_params)?;
    }
    if let InputResponse::Elicit(result) = &read {
        if let ElicitAction::Other(action) = &result.action {
            let why = format!(
                "the answer to {method} has the action {action:?}: expected accept, decline or cancel"
            );
            return Err(RpcError::invalid_params(why));
        }
        if result.content.as_ref().is_some_and(|content| !content.is_object() && !content.is_null()) {
            return Err(RpcError::invalid_params(format!(
                "the answer to {method} has content that is not an object"
            )));
        }
    }
    Ok(read)
}
