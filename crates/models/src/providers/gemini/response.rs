//! Decoding of answers, which consist of complete responses with some of the parts.

use std::sync::Arc;

use hospes_model::{Meta, RawJson, StopReason};
use serde::Deserialize;
use serde_json::Value;

use super::THOUGHT_SIGNATURE;
use crate::answer_draft::{AnswerDraft, ReadError};
use crate::http::{AnswerReader, ProviderErrorBody};
use crate::provider::DeltaListener;
use crate::providers::IntoDraft;
use crate::tool_names::ToolNameMap;
use crate::{AnswerDelta, TokenUsage};

/// Decodes responses, whose parts are consecutive.
#[derive(Debug)]
pub(crate) struct PartReader {
    draft: AnswerDraft,
    names: Arc<ToolNameMap>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiReply {
    #[serde(default)]
    candidates: Vec<GeminiCandidate>,
    prompt_feedback: Option<GeminiPromptFeedback>,
    usage_metadata: Option<GeminiUsage>,
    model_version: Option<String>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiCandidate {
    index: Option<u64>,
    content: Option<GeminiReplyContent>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct GeminiReplyContent {
    #[serde(default)]
    parts: Vec<GeminiReplyPart>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiReplyPart {
    text: Option<String>,
    thought: Option<bool>,
    function_call: Option<GeminiReplyCall>,
    thought_signature: Option<String>,
}

#[derive(Deserialize)]
struct GeminiReplyCall {
    id: Option<String>,
    name: String,
    args: Option<RawJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiPromptFeedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiUsage {
    prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
}

impl PartReader {
    pub(super) fn new(names: Arc<ToolNameMap>) -> Self {
        Self { draft: AnswerDraft::default(), names }
    }

    fn part(&mut self, part: GeminiReplyPart, heard: &mut DeltaListener<'_>) {
        match part.text {
            Some(_) if part.thought == Some(true) => heard(AnswerDelta::Thinking),
            Some(text) => self.draft.text(&text, heard),
            None => {}
        }
        if let Some(function) = part.function_call {
            // Gemini sends each call whole, so every part starts a new one.
            let call = self.draft.new_call(None);
            call.id = function.id.unwrap_or_default();
            call.name = function.name;
            call.arguments = function.args.map(|args| args.as_str().to_owned()).unwrap_or_default();
            if let Some(signature) = part.thought_signature {
                call.meta = Meta::new().with(THOUGHT_SIGNATURE, &signature);
            }
            self.draft.report_calls(&self.names, heard);
        }
    }

    fn stop(&mut self, reason: &str) {
        self.draft.stop(match reason {
            // Gemini reports the same reason for a call as for an ordinary end.
            "STOP" if self.draft.has_calls() => StopReason::ToolUse,
            "STOP" => StopReason::EndTurn,
            "MAX_TOKENS" => StopReason::MaxTokens,
            other => StopReason::from(other),
        });
    }
}

impl AnswerReader for PartReader {
    fn read(&mut self, json: &[u8], heard: &mut DeltaListener<'_>) -> Result<(), ReadError> {
        let response: GeminiReply = serde_json::from_slice(json).map_err(|error| ReadError::json(&error))?;
        if let Some(error) = response.error {
            return Err(ReadError::Reported(ProviderErrorBody::of(&error).message));
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
            // Thoughts are not among the candidates' tokens, but are charged like them.
            let output = output.saturating_add(counted.thoughts_token_count.unwrap_or(0));
            // Each response counts from the start of the answer.
            self.draft.count(|usage| {
                usage.input_tokens = counted.prompt_token_count.unwrap_or(usage.input_tokens);
                usage.output_tokens = output.max(usage.output_tokens);
            });
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        // There is no end marker; counts may follow the finish reason.
        false
    }

    fn is_whole(&self) -> bool {
        self.draft.stopped().is_some()
    }

    fn usage(&self) -> Option<TokenUsage> {
        self.draft.usage()
    }

    fn partial(&self) -> String {
        self.draft.partial()
    }
}

impl IntoDraft for PartReader {
    fn into_draft(self) -> AnswerDraft {
        self.draft
    }
}
