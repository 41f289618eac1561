//! Sampling: a server requests a completion from the client's model.

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
    /// Messages of the conversation.
    pub messages: Vec<SamplingMessage>,
    /// Preferences for the choice of a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// System prompt. The client may change or drop it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Servers whose context to include. The client may ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_context: Option<IncludeContext>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Maximum number of tokens to generate.
    pub max_tokens: u64,
    /// Sequences at which the model stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub stop_sequences: Vec<String>,
    /// Metadata defined by the provider of the model, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// Tools that the model may use (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub tools: Vec<Tool>,
    /// Mode in which the model chooses among the tools (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Asks the receiver to run the request as a task (2025-11-25 only).
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
    /// Creates a `CreateMessageParams` with the required members; all others are absent.
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
    /// Servers whose context is included in a prompt.
    IncludeContext {
        /// Context of no server.
        None = "none",
        /// Context of the requesting server (deprecated in 2026-07-28).
        ThisServer = "thisServer",
        /// Context of all servers (deprecated in 2026-07-28).
        AllServers = "allServers",
    }
}

/// Preferences for the choice of a model; the client makes the choice (SAMP-21).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Parts of model names, best first.
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
    /// Creates an empty `ModelPreferences`.
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

/// A hint for the choice of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelHint {
    /// Part of the model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ModelHint {
    /// Creates an empty `ModelHint`.
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
    /// Mode of the choice; absent means [`ToolChoiceMode::Auto`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ToolChoiceMode>,
}

impl ToolChoice {
    /// Creates an empty `ToolChoice`.
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
        /// The model may use tools or not.
        Auto = "auto",
        /// The model uses at least one tool.
        Required = "required",
        /// The model uses no tool.
        None = "none",
    }
}

/// A message of a sampling conversation.
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
    /// Creates a message of one block.
    pub fn new(role: Role, content: impl Into<SamplingMessageContentBlock>) -> Self {
        Self { role, content: vec![content.into()], meta: Meta::new() }
    }

    /// Creates a message of several blocks.
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
    /// Name of the model.
    pub model: String,
    /// Reason the model stopped, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
}

impl CreateMessageResult {
    /// Creates a result of one block from the model with this name.
    pub fn new(model: impl Into<String>, content: impl Into<SamplingMessageContentBlock>) -> Self {
        Self::of(model, vec![content.into()])
    }

    /// Creates a result of several blocks from the model with this name.
    pub fn of(model: impl Into<String>, content: Vec<SamplingMessageContentBlock>) -> Self {
        Self { meta: Meta::new(), role: Role::Assistant, content, model: model.into(), stop_reason: None }
    }

    /// Returns the text blocks, joined by line breaks.
    #[must_use]
    pub fn text(&self) -> String {
        joined_text(self.content.iter().filter_map(SamplingMessageContentBlock::as_text))
    }

    /// Iterates over the tool uses that the model requests.
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
        /// The model finished its turn.
        EndTurn = "endTurn",
        /// The model generated a stop sequence.
        StopSequence = "stopSequence",
        /// The maximum number of tokens was reached.
        MaxTokens = "maxTokens",
        /// The model waits for the result of a tool (from 2025-11-25).
        ToolUse = "toolUse",
    }
}

/// A tool use requested by the model (from 2025-11-25).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolUseContent {
    /// Id that the result of the tool refers to.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments, an object.
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
    /// Creates a `ToolUseContent` with the required members; all others are absent.
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
    /// Id of the tool use block that this responds to.
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
    /// Creates a `ToolResultContent` with the required members; all others are absent.
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
    /// Image.
    Image(ImageContent),
    /// Audio (from 2025-03-26).
    Audio(AudioContent),
    /// A tool use requested by the model (from 2025-11-25).
    ToolUse(ToolUseContent),
    /// Result of a tool, passed to the model (from 2025-11-25).
    ToolResult(ToolResultContent),
    /// A block of a type that the specification does not define: the whole object, unchanged.
    Unknown(RawJson),
}

impl SamplingMessageContentBlock {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// Returns the text if this is a text block.
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

/// Writes one block alone, as every revision accepts it, and several as an array.
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
