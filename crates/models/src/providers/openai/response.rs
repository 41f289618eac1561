//! Decoding of answers: chunks, or one whole completion.

use std::sync::Arc;

use hospes_model::StopReason;
use serde::Deserialize;
use serde_json::Value;

use crate::answer_draft::{AnswerDraft, ReadError, ToolCallDraft};
use crate::http::{AnswerReader, ProviderErrorBody};
use crate::provider::DeltaListener;
use crate::providers::IntoDraft;
use crate::tool_names::ToolNameMap;
use crate::{AnswerDelta, TokenUsage};

/// Decodes chunks. A whole completion has `message` in place of `delta`.
#[derive(Debug)]
pub(crate) struct ChunkReader {
    draft: AnswerDraft,
    names: Arc<ToolNameMap>,
    over: bool,
}

#[derive(Deserialize)]
struct OpenAiChunk {
    model: Option<String>,
    choices: Option<Vec<OpenAiChoice>>,
    usage: Option<OpenAiUsage>,
    error: Option<Value>,
    object: Option<String>,
}

#[derive(Deserialize)]
struct OpenAiChoice {
    index: Option<u64>,
    #[serde(alias = "message")]
    delta: Option<OpenAiDelta>,
    finish_reason: Option<String>,
    /// vLLM: the stop sequence that was generated, or a token's number.
    stop_reason: Option<Value>,
}

#[derive(Deserialize)]
struct OpenAiDelta {
    content: Option<OpenAiReplyContent>,
    refusal: Option<String>,
    #[serde(alias = "reasoning")]
    reasoning_content: Option<Value>,
    tool_calls: Option<Vec<OpenAiReplyToolCall>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OpenAiReplyContent {
    Text(String),
    Parts(Vec<OpenAiReplyPart>),
}

#[derive(Deserialize)]
struct OpenAiReplyPart {
    r#type: Option<String>,
    text: Option<String>,
}

#[derive(Deserialize)]
struct OpenAiReplyToolCall {
    index: Option<u64>,
    id: Option<String>,
    function: Option<OpenAiReplyFunction>,
}

#[derive(Deserialize)]
struct OpenAiReplyFunction {
    name: Option<String>,
    /// A piece of text. Some servers send an object instead.
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct OpenAiUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

impl ChunkReader {
    pub(super) fn new(names: Arc<ToolNameMap>) -> Self {
        Self { draft: AnswerDraft::default(), names, over: false }
    }

    fn apply_delta(&mut self, said: OpenAiDelta, heard: &mut DeltaListener<'_>) {
        if said.reasoning_content.is_some_and(|thought| !thought.is_null() && thought != "") {
            heard(AnswerDelta::Thinking);
        }
        match said.content {
            Some(OpenAiReplyContent::Text(text)) => self.draft.text(&text, heard),
            Some(OpenAiReplyContent::Parts(parts)) => {
                let texts =
                    parts.into_iter().filter(|part| part.r#type.as_deref().is_none_or(|kind| kind == "text"));
                texts.filter_map(|part| part.text).for_each(|text| self.draft.text(&text, heard));
            }
            None => {}
        }
        // There is no other content then, so the refusal is the text of the answer.
        if let Some(refusal) = said.refusal {
            self.draft.text(&refusal, heard);
        }
        let calls = said.tool_calls.unwrap_or_default();
        if !calls.is_empty() {
            for (position, call) in calls.into_iter().enumerate() {
                self.call(call, position);
            }
            self.draft.report_calls(&self.names, heard);
        }
    }

    fn call(&mut self, piece: OpenAiReplyToolCall, position: usize) {
        let id = piece.id.filter(|id| !id.is_empty());
        // Without an index, an id starts a new call, and a piece without an id continues the last call at this
        // position.
        let key = piece.index.unwrap_or(position as u64);
        let another =
            |call: &ToolCallDraft| id.as_ref().is_some_and(|id| !call.id.is_empty() && *id != call.id);
        let is_new = self.draft.has_call(key).is_none_or(another);
        let call = if is_new { self.draft.new_call(Some(key)) } else { self.draft.call(key) };
        if let Some(id) = id {
            call.id = id;
        }
        let Some(function) = piece.function else { return };
        match function.name {
            // Some servers repeat the name in every piece.
            Some(name) if name != call.name => call.name.push_str(&name),
            _ => {}
        }
        match function.arguments {
            Some(Value::String(piece)) => call.arguments.push_str(&piece),
            Some(Value::Null) | None => {}
            Some(whole) => call.arguments = whole.to_string(),
        }
    }

    fn stop(&mut self, reason: &str, met: Option<&Value>) {
        let reason = match reason {
            // Some compatible servers report this reason after calls too.
            "stop" if self.draft.has_calls() => StopReason::ToolUse,
            "stop" if met.is_some_and(Value::is_string) => StopReason::StopSequence,
            "stop" => StopReason::EndTurn,
            "length" => StopReason::MaxTokens,
            "tool_calls" | "function_call" => StopReason::ToolUse,
            other => StopReason::from(other),
        };
        self.draft.stop(reason);
    }
}

impl AnswerReader for ChunkReader {
    fn read(&mut self, json: &[u8], heard: &mut DeltaListener<'_>) -> Result<(), ReadError> {
        // The end marker, which is not JSON.
        if json.trim_ascii() == b"[DONE]" {
            self.over = true;
            return Ok(());
        }
        let chunk: OpenAiChunk = serde_json::from_slice(json).map_err(|error| ReadError::json(&error))?;
        // vLLM marks an error by `object`, with the message beside it.
        if chunk.error.as_ref().is_some_and(|error| !error.is_null())
            || chunk.object.as_deref() == Some("error")
        {
            let whole: Value = serde_json::from_slice(json).unwrap_or_default();
            return Err(ReadError::Reported(ProviderErrorBody::of(&whole).message));
        }
        if let Some(model) = chunk.model {
            self.draft.model(&model);
        }
        // Further choices are alternative answers, which were not requested.
        for choice in
            chunk.choices.unwrap_or_default().into_iter().filter(|choice| choice.index.unwrap_or(0) == 0)
        {
            if let Some(said) = choice.delta {
                self.apply_delta(said, heard);
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.stop(&reason, choice.stop_reason.as_ref());
            }
        }
        if let Some(counted) = chunk.usage {
            self.draft.count(|usage| {
                usage.input_tokens = counted.prompt_tokens.unwrap_or(usage.input_tokens);
                usage.output_tokens = counted.completion_tokens.unwrap_or(usage.output_tokens);
            });
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn is_whole(&self) -> bool {
        // Not every server ends its stream with `[DONE]`.
        self.over || self.draft.stopped().is_some()
    }

    fn usage(&self) -> Option<TokenUsage> {
        self.draft.usage()
    }

    fn partial(&self) -> String {
        self.draft.partial()
    }
}

impl IntoDraft for ChunkReader {
    fn into_draft(self) -> AnswerDraft {
        self.draft
    }
}
