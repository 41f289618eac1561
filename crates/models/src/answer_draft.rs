//! An answer that is being received.

use hospes_model::{
    CreateMessageResult, Meta, RawJson, SamplingMessageContentBlock as Block, StopReason, TextContent,
    ToolUseContent,
};

use crate::provider::DeltaListener;
use crate::tool_names::ToolNameMap;
use crate::{AnswerDelta, ModelAnswer, TokenUsage};

/// Answer assembled from the pieces that a reader decodes.
#[derive(Debug, Default)]
pub(crate) struct AnswerDraft {
    blocks: Vec<DraftBlock>,
    model: Option<String>,
    stop: Option<StopReason>,
    usage: Option<TokenUsage>,
}

#[derive(Debug)]
enum DraftBlock {
    Text(String),
    Tool(ToolCallDraft),
}

/// A tool use whose arguments arrive as pieces of JSON text.
#[derive(Debug, Default)]
pub(crate) struct ToolCallDraft {
    /// Key by which the provider identifies calls within one answer.
    pub(crate) key: Option<u64>,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) meta: Meta,
    /// True if the call has been reported to the listener.
    told: bool,
}

/// Errors of a reader that cannot continue with an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReadError {
    /// The data is not in the provider's format.
    Malformed(String),
    /// The provider reported an error.
    Reported(String),
    /// The provider blocked the prompt.
    Blocked(String),
}

impl ReadError {
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        Self::Malformed(format!("unexpected JSON ({error})"))
    }
}

impl AnswerDraft {
    /// Appends text and reports it to the listener.
    pub(crate) fn text(&mut self, more: &str, heard: &mut DeltaListener<'_>) {
        if more.is_empty() {
            return;
        }
        heard(AnswerDelta::Text(more));
        match self.blocks.last_mut() {
            Some(DraftBlock::Text(text)) => text.push_str(more),
            _ => self.blocks.push(DraftBlock::Text(more.to_owned())),
        }
    }

    /// Ends the current text block. Later text starts a new block.
    pub(crate) fn end_text(&mut self) {
        if matches!(self.blocks.last(), Some(DraftBlock::Text(text)) if !text.is_empty()) {
            self.blocks.push(DraftBlock::Text(String::new()));
        }
    }

    /// Returns the call with this key, or starts a new one.
    pub(crate) fn call(&mut self, key: u64) -> &mut ToolCallDraft {
        let is_it = |part: &DraftBlock| matches!(part, DraftBlock::Tool(call) if call.key == Some(key));
        // The last one, because a key may be reused for a new call.
        let found = self.blocks.iter().rposition(is_it);
        self.call_at(found, Some(key))
    }

    /// Returns the last call with this key.
    pub(crate) fn has_call(&self, key: u64) -> Option<&ToolCallDraft> {
        self.blocks.iter().rev().find_map(|part| match part {
            DraftBlock::Tool(call) if call.key == Some(key) => Some(call),
            _ => None,
        })
    }

    /// Starts a new call, even if there is one with this key.
    pub(crate) fn new_call(&mut self, key: Option<u64>) -> &mut ToolCallDraft {
        self.call_at(None, key)
    }

    fn call_at(&mut self, found: Option<usize>, key: Option<u64>) -> &mut ToolCallDraft {
        let index = found.unwrap_or_else(|| {
            self.blocks.push(DraftBlock::Tool(ToolCallDraft { key, ..ToolCallDraft::default() }));
            self.blocks.len() - 1
        });
        match &mut self.blocks[index] {
            DraftBlock::Tool(call) => call,
            DraftBlock::Text(_) => unreachable!("the index is that of a call"),
        }
    }

    /// Reports the calls whose names are complete to the listener.
    pub(crate) fn report_calls(&mut self, names: &ToolNameMap, heard: &mut DeltaListener<'_>) {
        for part in &mut self.blocks {
            if let DraftBlock::Tool(call) = part
                && !call.told
                && !call.name.is_empty()
            {
                call.told = true;
                heard(AnswerDelta::ToolUse(&names.original_name(&call.name)));
            }
        }
    }

    /// Sets the model's name as reported by the provider.
    pub(crate) fn model(&mut self, name: &str) {
        if !name.is_empty() {
            self.model = Some(name.to_owned());
        }
    }

    pub(crate) fn stop(&mut self, reason: StopReason) {
        self.stop = Some(reason);
    }

    pub(crate) fn stopped(&self) -> Option<&StopReason> {
        self.stop.as_ref()
    }

    pub(crate) fn has_calls(&self) -> bool {
        self.blocks.iter().any(|part| matches!(part, DraftBlock::Tool(_)))
    }

    /// Changes the token counts.
    pub(crate) fn count(&mut self, change: impl FnOnce(&mut TokenUsage)) {
        change(self.usage.get_or_insert_default());
    }

    pub(crate) fn usage(&self) -> Option<TokenUsage> {
        self.usage
    }

    /// Returns all text so far.
    pub(crate) fn partial(&self) -> String {
        self.blocks
            .iter()
            .filter_map(|part| match part {
                DraftBlock::Text(text) => Some(text.as_str()),
                DraftBlock::Tool(_) => None,
            })
            .collect()
    }

    /// Finishes the answer. `asked` is the model's name if the provider reported none; `taken` are the ids of tool uses
    /// that the conversation already has.
    pub(crate) fn finish(
        self,
        asked: &str,
        names: &ToolNameMap,
        taken: &[&str],
    ) -> Result<ModelAnswer, ReadError> {
        let mut content = Vec::with_capacity(self.blocks.len());
        let mut ids: Vec<String> = Vec::new();
        let cut = self.stop == Some(StopReason::MaxTokens);
        for part in self.blocks {
            match part {
                DraftBlock::Text(text) if text.is_empty() => {}
                DraftBlock::Text(text) => content.push(Block::Text(TextContent::new(text))),
                DraftBlock::Tool(call) => {
                    let Some(input) = arguments(&call.arguments) else {
                        // The token limit cut the arguments off, and an incomplete tool use is dropped.
                        if cut {
                            continue;
                        }
                        let name = names.original_name(&call.name);
                        return Err(ReadError::Malformed(format!(
                            "the arguments for the tool {name:?} are not a JSON object"
                        )));
                    };
                    if call.name.is_empty() {
                        return Err(ReadError::Malformed("a tool use has no name".to_owned()));
                    }
                    let id = free_id(call.id, taken, &ids);
                    ids.push(id.clone());
                    content.push(Block::ToolUse(
                        ToolUseContent::new(id, names.original_name(&call.name), input).with_meta(call.meta),
                    ));
                }
            }
        }
        if content.is_empty() {
            // The older revisions require exactly one block.
            content.push(Block::text(""));
        }
        let mut result = CreateMessageResult::of(self.model.unwrap_or_else(|| asked.to_owned()), content);
        result.stop_reason = self.stop;
        Ok(ModelAnswer::new(result, self.usage))
    }
}

/// Parses the arguments of a tool use. Returns `None` unless they are an object.
fn arguments(text: &str) -> Option<RawJson> {
    if text.trim().is_empty() {
        return Some(RawJson::empty_object());
    }
    RawJson::parse(text.to_owned()).ok().filter(RawJson::is_object)
}

/// Returns the id that the provider gave. If it gave none, or one that is in use, a new id is generated, because
/// results refer to it.
fn free_id(id: String, taken: &[&str], ids: &[String]) -> String {
    let in_use = |id: &str| taken.contains(&id) || ids.iter().any(|other| other == id);
    if !id.is_empty() && !in_use(&id) {
        return id;
    }
    (taken.len() + ids.len() + 1..)
        .map(|number| format!("call_{number}"))
        .find(|id| !in_use(id))
        .unwrap_or(id)
}
