//! Decoding of answers: one response a line, each with a further piece of the message.

use std::sync::Arc;

use hospes_model::{RawJson, StopReason};
use serde::Deserialize;

use crate::answer_draft::{AnswerDraft, ReadError};
use crate::http::AnswerReader;
use crate::provider::DeltaListener;
use crate::providers::IntoDraft;
use crate::tool_names::ToolNameMap;
use crate::{AnswerDelta, TokenUsage};

/// Decodes responses. An answer that is not streamed has a single one.
#[derive(Debug)]
pub(crate) struct LineReader {
    draft: AnswerDraft,
    names: Arc<ToolNameMap>,
    over: bool,
}

#[derive(Deserialize)]
struct OllamaReply {
    model: Option<String>,
    message: Option<OllamaReplyMessage>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct OllamaReplyMessage {
    content: Option<String>,
    thinking: Option<String>,
    tool_calls: Option<Vec<OllamaReplyToolCall>>,
}

#[derive(Deserialize)]
struct OllamaReplyToolCall {
    id: Option<String>,
    function: OllamaReplyFunction,
}

#[derive(Deserialize)]
struct OllamaReplyFunction {
    name: String,
    arguments: Option<RawJson>,
}

impl LineReader {
    pub(super) fn new(names: Arc<ToolNameMap>) -> Self {
        Self { draft: AnswerDraft::default(), names, over: false }
    }

    fn apply_message(&mut self, message: OllamaReplyMessage, heard: &mut DeltaListener<'_>) {
        if message.thinking.is_some_and(|thought| !thought.is_empty()) {
            heard(AnswerDelta::Thinking);
        }
        self.draft.text(&message.content.unwrap_or_default(), heard);
        for piece in message.tool_calls.unwrap_or_default() {
            // Ollama sends each call whole, so every piece starts a new one.
            let call = self.draft.new_call(None);
            call.id = piece.id.unwrap_or_default();
            call.name = piece.function.name;
            call.arguments =
                piece.function.arguments.map(|object| object.as_str().to_owned()).unwrap_or_default();
            self.draft.report_calls(&self.names, heard);
        }
    }
}

impl AnswerReader for LineReader {
    fn read(&mut self, json: &[u8], heard: &mut DeltaListener<'_>) -> Result<(), ReadError> {
        let response: OllamaReply = serde_json::from_slice(json).map_err(|error| ReadError::json(&error))?;
        if let Some(error) = response.error {
            return Err(ReadError::Reported(error));
        }
        if let Some(model) = response.model {
            self.draft.model(&model);
        }
        if let Some(message) = response.message {
            self.apply_message(message, heard);
        }
        if response.done {
            self.over = true;
            match response.done_reason.as_deref() {
                // Older versions report no reason.
                Some("stop") | None if self.draft.has_calls() => self.draft.stop(StopReason::ToolUse),
                Some("stop") => self.draft.stop(StopReason::EndTurn),
                Some("length") => self.draft.stop(StopReason::MaxTokens),
                Some(other) => self.draft.stop(StopReason::from(other)),
                None => {}
            }
        }
        if response.prompt_eval_count.or(response.eval_count).is_some() {
            self.draft.count(|usage| {
                usage.input_tokens = response.prompt_eval_count.unwrap_or(usage.input_tokens);
                usage.output_tokens = response.eval_count.unwrap_or(usage.output_tokens);
            });
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn is_whole(&self) -> bool {
        self.over
    }

    fn usage(&self) -> Option<TokenUsage> {
        self.draft.usage()
    }

    fn partial(&self) -> String {
        self.draft.partial()
    }
}

impl IntoDraft for LineReader {
    fn into_draft(self) -> AnswerDraft {
        self.draft
    }
}
