//! Decoding of answers: events, or one whole message.

use std::sync::Arc;

use hospes_model::{RawJson, StopReason};
use serde::Deserialize;
use serde_json::Value;

use crate::answer_draft::{AnswerDraft, ReadError};
use crate::http::{AnswerReader, ProviderErrorBody};
use crate::provider::DeltaListener;
use crate::providers::IntoDraft;
use crate::tool_names::ToolNameMap;
use crate::{AnswerDelta, TokenUsage};

/// Decodes events by the type in their data, which a whole message has as well.
#[derive(Debug)]
pub(crate) struct EventReader {
    draft: AnswerDraft,
    names: Arc<ToolNameMap>,
    counted: AnthropicUsage,
    over: bool,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicEvent {
    MessageStart {
        message: AnthropicReplyMessage,
    },
    ContentBlockStart {
        index: u64,
        content_block: AnthropicBlock,
    },
    ContentBlockDelta {
        index: u64,
        delta: AnthropicDelta,
    },
    ContentBlockStop {},
    MessageDelta {
        delta: AnthropicStopDelta,
        usage: Option<AnthropicUsage>,
    },
    MessageStop,
    Message(AnthropicReplyMessage),
    Error {
        error: Value,
    },
    /// `ping`, and unknown events.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct AnthropicReplyMessage {
    model: Option<String>,
    #[serde(default)]
    content: Vec<AnthropicBlock>,
    usage: Option<AnthropicUsage>,
    #[serde(flatten)]
    stop: AnthropicStopDelta,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicBlock {
    Text {
        #[serde(default)]
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicDelta {
    TextDelta {
        text: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    ThinkingDelta {},
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct AnthropicStopDelta {
    stop_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct AnthropicUsage {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl EventReader {
    pub(super) fn new(names: Arc<ToolNameMap>) -> Self {
        Self { draft: AnswerDraft::default(), names, counted: AnthropicUsage::default(), over: false }
    }

    fn begin(&mut self, index: u64, block: AnthropicBlock, heard: &mut DeltaListener<'_>) {
        match block {
            AnthropicBlock::Text { text } => {
                self.draft.end_text();
                self.draft.text(&text, heard);
            }
            AnthropicBlock::ToolUse { id, name, input } => {
                let call = self.draft.new_call(Some(index));
                (call.id, call.name) = (id, name);
                // In a stream it is empty here, and arrives in pieces.
                if input.as_object().is_some_and(|input| !input.is_empty()) {
                    call.arguments = RawJson::from(input).as_str().to_owned();
                }
                self.draft.report_calls(&self.names, heard);
            }
            AnthropicBlock::Other => heard(AnswerDelta::Thinking),
        }
    }

    fn apply_delta(&mut self, index: u64, delta: AnthropicDelta, heard: &mut DeltaListener<'_>) {
        match delta {
            AnthropicDelta::TextDelta { text } => self.draft.text(&text, heard),
            AnthropicDelta::InputJsonDelta { partial_json } => {
                self.draft.call(index).arguments.push_str(&partial_json)
            }
            AnthropicDelta::ThinkingDelta {} => heard(AnswerDelta::Thinking),
            AnthropicDelta::Other => {}
        }
    }

    fn stop(&mut self, stop: &AnthropicStopDelta) {
        let Some(reason) = stop.stop_reason.as_deref() else { return };
        self.draft.stop(match reason {
            "end_turn" => StopReason::EndTurn,
            "stop_sequence" => StopReason::StopSequence,
            "max_tokens" => StopReason::MaxTokens,
            "tool_use" => StopReason::ToolUse,
            other => StopReason::from(other),
        });
    }

    /// Sets the token counts. They are totals, sent once or repeatedly.
    fn count(&mut self, new: Option<AnthropicUsage>) {
        let Some(new) = new else { return };
        let all = &mut self.counted;
        all.input_tokens = new.input_tokens.or(all.input_tokens);
        all.cache_creation_input_tokens = new.cache_creation_input_tokens.or(all.cache_creation_input_tokens);
        all.cache_read_input_tokens = new.cache_read_input_tokens.or(all.cache_read_input_tokens);
        all.output_tokens = new.output_tokens.or(all.output_tokens);
        let input = [all.input_tokens, all.cache_creation_input_tokens, all.cache_read_input_tokens];
        let input = input.into_iter().flatten().fold(0, u64::saturating_add);
        let output = all.output_tokens.unwrap_or(0);
        self.draft.count(|usage| (usage.input_tokens, usage.output_tokens) = (input, output));
    }
}

impl AnswerReader for EventReader {
    fn read(&mut self, json: &[u8], heard: &mut DeltaListener<'_>) -> Result<(), ReadError> {
        match serde_json::from_slice(json).map_err(|error| ReadError::json(&error))? {
            AnthropicEvent::MessageStart { message } | AnthropicEvent::Message(message) => {
                if let Some(model) = &message.model {
                    self.draft.model(model);
                }
                for (index, block) in message.content.into_iter().enumerate() {
                    self.begin(index as u64, block, heard);
                }
                self.stop(&message.stop);
                self.count(message.usage);
            }
            AnthropicEvent::ContentBlockStart { index, content_block } => {
                self.begin(index, content_block, heard)
            }
            AnthropicEvent::ContentBlockDelta { index, delta } => self.apply_delta(index, delta, heard),
            AnthropicEvent::MessageDelta { delta, usage } => {
                self.stop(&delta);
                self.count(usage);
            }
            AnthropicEvent::MessageStop => self.over = true,
            AnthropicEvent::Error { error } => {
                return Err(ReadError::Reported(ProviderErrorBody::of(&error).message));
            }
            AnthropicEvent::ContentBlockStop {} | AnthropicEvent::Other => {}
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn is_whole(&self) -> bool {
        self.over || self.draft.stopped().is_some()
    }

    fn usage(&self) -> Option<TokenUsage> {
        self.draft.usage()
    }

    fn partial(&self) -> String {
        self.draft.partial()
    }
}

impl IntoDraft for EventReader {
    fn into_draft(self) -> AnswerDraft {
        self.draft
    }
}
