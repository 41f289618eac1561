//! Answers: events, or one whole message.

use std::sync::Arc;

use hospes_model::{RawJson, StopReason};
use serde::Deserialize;
use serde_json::Value;

use crate::draft::{Draft, ReadError};
use crate::http::{Reader, Refusal};
use crate::names::Names;
use crate::provider::Listener;
use crate::providers::Drafting;
use crate::{Delta, Usage};

/// Reads events by the type within their data, which is also that of a whole message.
#[derive(Debug)]
pub(crate) struct EventReader {
    draft: Draft,
    names: Arc<Names>,
    counted: Counted,
    over: bool,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Message,
    },
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: Change,
    },
    ContentBlockStop {},
    MessageDelta {
        delta: Stop,
        usage: Option<Counted>,
    },
    MessageStop,
    Message(Message),
    Error {
        error: Value,
    },
    /// `ping`, and whatever is still to come.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Message {
    model: Option<String>,
    #[serde(default)]
    content: Vec<Block>,
    usage: Option<Counted>,
    #[serde(flatten)]
    stop: Stop,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
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
enum Change {
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
struct Stop {
    stop_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Counted {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl EventReader {
    pub(super) fn new(names: Arc<Names>) -> Self {
        Self { draft: Draft::default(), names, counted: Counted::default(), over: false }
    }

    fn begin(&mut self, index: u64, block: Block, heard: &mut Listener<'_>) {
        match block {
            Block::Text { text } => {
                self.draft.end_text();
                self.draft.text(&text, heard);
            }
            Block::ToolUse { id, name, input } => {
                let call = self.draft.new_call(Some(index));
                (call.id, call.name) = (id, name);
                // Streamed, it is empty here, and comes in pieces.
                if input.as_object().is_some_and(|input| !input.is_empty()) {
                    call.arguments = RawJson::from(input).as_str().to_owned();
                }
                self.draft.tell_calls(&self.names, heard);
            }
            Block::Other => heard(Delta::Thinking),
        }
    }

    fn more(&mut self, index: u64, delta: Change, heard: &mut Listener<'_>) {
        match delta {
            Change::TextDelta { text } => self.draft.text(&text, heard),
            Change::InputJsonDelta { partial_json } => {
                self.draft.call(index).arguments.push_str(&partial_json)
            }
            Change::ThinkingDelta {} => heard(Delta::Thinking),
            Change::Other => {}
        }
    }

    fn stop(&mut self, stop: &Stop) {
        let Some(reason) = stop.stop_reason.as_deref() else { return };
        self.draft.stop(match reason {
            "end_turn" => StopReason::EndTurn,
            "stop_sequence" => StopReason::StopSequence,
            "max_tokens" => StopReason::MaxTokens,
            "tool_use" => StopReason::ToolUse,
            other => StopReason::from(other),
        });
    }

    /// Counts are totals, each given once or again and again.
    fn count(&mut self, new: Option<Counted>) {
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

impl Reader for EventReader {
    fn read(&mut self, json: &[u8], heard: &mut Listener<'_>) -> Result<(), ReadError> {
        match serde_json::from_slice(json).map_err(|error| ReadError::json(&error))? {
            Event::MessageStart { message } | Event::Message(message) => {
                if let Some(model) = &message.model {
                    self.draft.model(model);
                }
                for (index, block) in message.content.into_iter().enumerate() {
                    self.begin(index as u64, block, heard);
                }
                self.stop(&message.stop);
                self.count(message.usage);
            }
            Event::ContentBlockStart { index, content_block } => self.begin(index, content_block, heard),
            Event::ContentBlockDelta { index, delta } => self.more(index, delta, heard),
            Event::MessageDelta { delta, usage } => {
                self.stop(&delta);
                self.count(usage);
            }
            Event::MessageStop => self.over = true,
            Event::Error { error } => return Err(ReadError::Reported(Refusal::of(&error).message)),
            Event::ContentBlockStop {} | Event::Other => {}
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn is_whole(&self) -> bool {
        self.over || self.draft.stopped().is_some()
    }

    fn usage(&self) -> Option<Usage> {
        self.draft.usage()
    }

    fn partial(&self) -> String {
        self.draft.partial()
    }
}

impl Drafting for EventReader {
    fn into_draft(self) -> Draft {
        self.draft
    }
}
