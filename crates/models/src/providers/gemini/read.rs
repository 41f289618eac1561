//! Answers: each piece is a whole response with some of the parts.

use std::sync::Arc;

use hospes_model::{Meta, RawJson, StopReason};
use serde::Deserialize;
use serde_json::Value;

use super::SIGNATURE;
use crate::draft::{Draft, ReadError};
use crate::http::{Reader, Refusal};
use crate::names::Names;
use crate::provider::Listener;
use crate::providers::Drafting;
use crate::{Delta, Usage};

/// Reads responses, whose parts follow one another.
#[derive(Debug)]
pub(crate) struct PartReader {
    draft: Draft,
    names: Arc<Names>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default)]
    candidates: Vec<Candidate>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Option<Counted>,
    model_version: Option<String>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    index: Option<u64>,
    content: Option<Content>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    thought: Option<bool>,
    function_call: Option<Call>,
    thought_signature: Option<String>,
}

#[derive(Deserialize)]
struct Call {
    id: Option<String>,
    name: String,
    args: Option<RawJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counted {
    prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
}

impl PartReader {
    pub(super) fn new(names: Arc<Names>) -> Self {
        Self { draft: Draft::default(), names }
    }

    fn part(&mut self, part: Part, heard: &mut Listener<'_>) {
        match part.text {
            Some(_) if part.thought == Some(true) => heard(Delta::Thinking),
            Some(text) => self.draft.text(&text, heard),
            None => {}
        }
        if let Some(function) = part.function_call {
            let call = self.draft.new_call(None);
            call.id = function.id.unwrap_or_default();
            call.name = function.name;
            call.arguments = function.args.map(|args| args.as_str().to_owned()).unwrap_or_default();
            if let Some(signature) = part.thought_signature {
                call.meta = Meta::new().with(SIGNATURE, &signature);
            }
            self.draft.tell_calls(&self.names, heard);
        }
    }

    fn stop(&mut self, reason: &str) {
        self.draft.stop(match reason {
            "STOP" if self.draft.has_calls() => StopReason::ToolUse,
            "STOP" => StopReason::EndTurn,
            "MAX_TOKENS" => StopReason::MaxTokens,
            other => StopReason::from(other),
        });
    }
}

impl Reader for PartReader {
    fn read(&mut self, json: &[u8], heard: &mut Listener<'_>) -> Result<(), ReadError> {
        let response: Response = serde_json::from_slice(json).map_err(|error| ReadError::json(&error))?;
        if let Some(error) = response.error {
            return Err(ReadError::Reported(Refusal::of(&error).message));
        }
        if let Some(reason) = response.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            return Err(ReadError::Blocked(reason));
        }
        if let Some(model) = response.model_version {
            self.draft.model(&model);
        }
        for candidate in response.candidates.into_iter().filter(|candidate| candidate.index.unwrap_or(0) == 0)
        {
            for part in candidate.content.into_iter().flat_map(|content| content.parts) {
                self.part(part, heard);
            }
            if let Some(reason) = candidate.finish_reason.filter(|reason| !reason.is_empty()) {
                self.stop(&reason);
            }
        }
        if let Some(counted) = response.usage_metadata {
            let output = counted.candidates_token_count.unwrap_or(0);
            let output = output.saturating_add(counted.thoughts_token_count.unwrap_or(0));
            // Each response counts from the beginning.
            self.draft.count(|usage| {
                usage.input_tokens = counted.prompt_token_count.unwrap_or(usage.input_tokens);
                usage.output_tokens = output.max(usage.output_tokens);
            });
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        // There is no mark; counts may come after the reason why it stopped.
        false
    }

    fn is_whole(&self) -> bool {
        self.draft.stopped().is_some()
    }

    fn usage(&self) -> Option<Usage> {
        self.draft.usage()
    }

    fn partial(&self) -> String {
        self.draft.partial()
    }
}

impl Drafting for PartReader {
    fn into_draft(self) -> Draft {
        self.draft
    }
}
