//! Sampling: a server asks the client's model.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::types::content::joined_text;
use crate::types::lenient::{self, or_default};
use crate::types::tagged::{self, Tagged};
use crate::{AudioContent, ContentBlock, ImageContent, Meta, RawJson, Role, TaskMetadata, TextContent, Tool};

/// Params of `sampling/createMessage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageParams {
    /// The conversation.
    pub messages: Vec<SamplingMessage>,
    /// Preferences for the choice of a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// The system prompt; the client may change or drop it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Whose context to add; the client may ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_context: Option<IncludeContext>,
    /// The temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The most tokens to generate.
    pub max_tokens: u64,
    /// Sequences at which the model stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub stop_sequences: Vec<String>,
    /// Metadata that the provider of the model defines, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// The tools that the model may ask for (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub tools: Vec<Tool>,
    /// Mode in which the model chooses among the tools (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Wants a task for an answer (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskMetadata>,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl CreateMessageParams {
    /// With what is required.
    #[must_use]
    pub fn new(messages: Vec<SamplingMessage>, max_tokens: u64) -> Self {
        Self {
            messages,
            max_tokens,
            model_preferences: None,
            system_prompt: None,
            include_context: None,
            temperature: None,
            stop_sequences: Vec::new(),
            metadata: None,
            tools: Vec::new(),
            tool_choice: None,
            task: None,
            meta: Meta::new(),
        }
    }
}

setters!(CreateMessageParams {
    some with_model_preferences(model_preferences: ModelPreferences);
    some with_system_prompt(system_prompt: String);
    some with_include_context(include_context: IncludeContext);
    some with_temperature(temperature: f64);
    set with_stop_sequences(stop_sequences: Vec<String>);
    some with_metadata(metadata: RawJson);
    set with_tools(tools: Vec<Tool>);
    some with_tool_choice(tool_choice: ToolChoice);
    some with_task(task: TaskMetadata);
    set with_meta(meta: Meta);
});

open_enum! {
    /// Whose context to add to a prompt.
    IncludeContext {
        /// Context of no server.
        None = "none",
        /// The asking server's (deprecated in 2026-07-28).
        ThisServer = "thisServer",
        /// All servers' (deprecated in 2026-07-28).
        AllServers = "allServers",
    }
}

/// Preferences for the choice of a model; the client makes the choice (SAMP-21).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Parts of models' names, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub hints: Vec<ModelHint>,
    /// Importance of cost, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// Importance of speed, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// Importance of intelligence, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

impl ModelPreferences {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ModelPreferences {
    set with_hints(hints: Vec<ModelHint>);
    some with_cost_priority(cost_priority: f64);
    some with_speed_priority(speed_priority: f64);
    some with_intelligence_priority(intelligence_priority: f64);
});

/// A hint at a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelHint {
    /// A part of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ModelHint {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ModelHint {
    some with_name(name: String);
});

/// Setting for the choice of tools by the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolChoice {
    /// Absent means [`ToolChoiceMode::Auto`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ToolChoiceMode>,
}

impl ToolChoice {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ToolChoice {
    some with_mode(mode: ToolChoiceMode);
});

open_enum! {
    /// Modes in which the model chooses among the tools.
    ToolChoiceMode {
        /// It may call some, or none.
        Auto = "auto",
        /// It calls at least one.
        Required = "required",
        /// It calls none.
        None = "none",
    }
}

/// A message of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingMessage {
    /// Role of the speaker.
    pub role: Role,
    /// Content of the message: one block, or several (from 2025-11-25).
    #[serde(serialize_with = "one_or_many", deserialize_with = "many_of_one")]
    pub content: Vec<SamplingMessageContentBlock>,
    /// Metadata (from 2025-11-25).
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl SamplingMessage {
    /// A message of one block.
    pub fn new(role: Role, content: impl Into<SamplingMessageContentBlock>) -> Self {
        Self { role, content: vec![content.into()], meta: Meta::new() }
    }

    /// A message of several blocks.
    #[must_use]
    pub fn of(role: Role, content: Vec<SamplingMessageContentBlock>) -> Self {
        Self { role, content, meta: Meta::new() }
    }

    /// Creates a message of the user.
    pub fn user(content: impl Into<SamplingMessageContentBlock>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a message of the assistant.
    pub fn assistant(content: impl Into<SamplingMessageContentBlock>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

setters!(SamplingMessage {
    set with_meta(meta: Meta);
});

/// Result of `sampling/createMessage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Role of the speaker, normally the assistant.
    pub role: Role,
    /// Content of the message: one block, or several (from 2025-11-25).
    #[serde(serialize_with = "one_or_many", deserialize_with = "many_of_one")]
    pub content: Vec<SamplingMessageContentBlock>,
    /// The model's name.
    pub model: String,
    /// Reason the model stopped, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
}

impl CreateMessageResult {
    /// An answer of one block from the model with this name.
    pub fn new(model: impl Into<String>, content: impl Into<SamplingMessageContentBlock>) -> Self {
        Self::of(model, vec![content.into()])
    }

    /// An answer of several blocks.
    pub fn of(model: impl Into<String>, content: Vec<SamplingMessageContentBlock>) -> Self {
        Self { meta: Meta::new(), role: Role::Assistant, content, model: model.into(), stop_reason: None }
    }

    /// The texts among the blocks, one under the other.
    #[must_use]
    pub fn text(&self) -> String {
        joined_text(self.content.iter().filter_map(SamplingMessageContentBlock::as_text))
    }

    /// The tools that the model asks for.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUseContent> {
        self.content.iter().filter_map(|block| match block {
            SamplingMessageContentBlock::ToolUse(tool_use) => Some(tool_use),
            _ => None,
        })
    }
}

setters!(CreateMessageResult {
    set with_role(role: Role);
    some with_stop_reason(stop_reason: StopReason);
    set with_meta(meta: Meta);
});

open_enum! {
    /// Reasons a model stopped.
    StopReason {
        /// It had said all.
        EndTurn = "endTurn",
        /// It met a stop sequence.
        StopSequence = "stopSequence",
        /// It reached the most tokens allowed.
        MaxTokens = "maxTokens",
        /// It waits for a tool (from 2025-11-25).
        ToolUse = "toolUse",
    }
}

/// The model asks for a tool (from 2025-11-25).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolUseContent {
    /// Id that the result of the tool refers to.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, an object.
    pub input: RawJson,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl ToolUseContent {
    /// With what is required.
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: RawJson) -> Self {
        Self { id: id.into(), name: name.into(), input, meta: Meta::new() }
    }
}

setters!(ToolUseContent {
    set with_meta(meta: Meta);
});

/// Result of a tool, passed to the model (from 2025-11-25).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolResultContent {
    /// The id of the block that asked for it.
    pub tool_use_id: String,
    /// Content that the tool returned.
    pub content: Vec<ContentBlock>,
    /// Structured content that the tool returned, for programs (an object before 2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::present")]
    pub structured_content: Option<RawJson>,
    /// True if the tool failed; absent means false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl ToolResultContent {
    /// With what is required.
    pub fn new(tool_use_id: impl Into<String>, content: impl Into<Vec<ContentBlock>>) -> Self {
        Self {
            tool_use_id: tool_use_id.into(),
            content: content.into(),
            structured_content: None,
            is_error: None,
            meta: Meta::new(),
        }
    }
}

setters!(ToolResultContent {
    some with_structured_content(structured_content: RawJson);
    some with_is_error(is_error: bool);
    set with_meta(meta: Meta);
});

/// Content block of a sampling message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SamplingMessageContentBlock {
    /// Text.
    Text(TextContent),
    /// A picture.
    Image(ImageContent),
    /// A sound (from 2025-03-26).
    Audio(AudioContent),
    /// The model asks for a tool (from 2025-11-25).
    ToolUse(ToolUseContent),
    /// Result of a tool, passed to the model (from 2025-11-25).
    ToolResult(ToolResultContent),
    /// A type that the specification does not define: the whole object as it came.
    Unknown(RawJson),
}

impl SamplingMessageContentBlock {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// The text of a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(content) => Some(&content.text),
            _ => None,
        }
    }
}

impl From<&str> for SamplingMessageContentBlock {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for SamplingMessageContentBlock {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<TextContent> for SamplingMessageContentBlock {
    fn from(content: TextContent) -> Self {
        Self::Text(content)
    }
}

impl From<ImageContent> for SamplingMessageContentBlock {
    fn from(content: ImageContent) -> Self {
        Self::Image(content)
    }
}

impl From<AudioContent> for SamplingMessageContentBlock {
    fn from(content: AudioContent) -> Self {
        Self::Audio(content)
    }
}

impl From<ToolUseContent> for SamplingMessageContentBlock {
    fn from(content: ToolUseContent) -> Self {
        Self::ToolUse(content)
    }
}

impl From<ToolResultContent> for SamplingMessageContentBlock {
    fn from(content: ToolResultContent) -> Self {
        Self::ToolResult(content)
    }
}

tagged_enum!(SamplingMessageContentBlock {
    "text" => Text(TextContent),
    "image" => Image(ImageContent),
    "audio" => Audio(AudioContent),
    "tool_use" => ToolUse(ToolUseContent),
    "tool_result" => ToolResult(ToolResultContent),
});

/// One block stands alone, as every revision has it; only several make an array.
fn one_or_many<S: Serializer>(
    content: &[SamplingMessageContentBlock],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match content {
        [one] => one.serialize(serializer),
        many => many.serialize(serializer),
    }
}

fn many_of_one<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<SamplingMessageContentBlock>, D::Error> {
    tagged::one_or_many(deserializer)
}
