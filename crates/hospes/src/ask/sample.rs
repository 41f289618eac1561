//! Sampling: requests to the client's model.

use std::future::{IntoFuture, Ready, ready};

use hospes_model::{
    CreateMessageParams, CreateMessageResult, IncludeContext, InputRequest, ModelHint, ModelPreferences,
    RawJson, Role, SamplingMessage, SamplingMessageContentBlock, Tool, ToolChoice, ToolChoiceMode,
};

use super::error::AskError;
use super::question::{self, PendingQuestions, Question};
use crate::context::Context;
use crate::message_content::check_message_content;

/// Default maximum number of tokens, because the specification requires one.
pub const DEFAULT_MAX_TOKENS: u64 = 1024;

/// Prompt for a model: a text, a message or a conversation.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a prompt for a model",
    label = "neither text nor messages",
    note = "a prompt is a `&str`, a `String`, a `SamplingMessage`, or a `Vec` or array of `SamplingMessage`s"
)]
pub trait IntoMessages {
    /// Returns the conversation.
    fn into_messages(self) -> Vec<SamplingMessage>;
}

impl IntoMessages for &str {
    fn into_messages(self) -> Vec<SamplingMessage> {
        vec![SamplingMessage::user(self)]
    }
}

impl IntoMessages for String {
    fn into_messages(self) -> Vec<SamplingMessage> {
        vec![SamplingMessage::user(self)]
    }
}

impl IntoMessages for &String {
    fn into_messages(self) -> Vec<SamplingMessage> {
        vec![SamplingMessage::user(self.as_str())]
    }
}

impl IntoMessages for SamplingMessage {
    fn into_messages(self) -> Vec<SamplingMessage> {
        vec![self]
    }
}

impl IntoMessages for Vec<SamplingMessage> {
    fn into_messages(self) -> Vec<SamplingMessage> {
        self
    }
}

impl<const N: usize> IntoMessages for [SamplingMessage; N] {
    fn into_messages(self) -> Vec<SamplingMessage> {
        self.into()
    }
}

/// A request to the client's model, created by [`Context::sample`] and sent by `.await`.
///
/// The client decides if it answers, with which model, and which preferences it respects.
#[derive(Debug)]
#[must_use = "a question is not asked unless awaited"]
pub struct SampleQuery<'c> {
    context: &'c Context,
    key: Option<String>,
    params: CreateMessageParams,
}

impl<'c> SampleQuery<'c> {
    pub(super) fn new(context: &'c Context, messages: Vec<SamplingMessage>) -> Self {
        Self { context, key: None, params: CreateMessageParams::new(messages, DEFAULT_MAX_TOKENS) }
    }

    /// Names the question; see [`Elicit::key`](super::Elicit::key).
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the maximum number of tokens to generate. The default is [`DEFAULT_MAX_TOKENS`].
    pub fn max_tokens(mut self, most: u64) -> Self {
        self.params.max_tokens = most;
        self
    }

    /// Sets the system prompt.
    pub fn system(mut self, prompt: impl Into<String>) -> Self {
        self.params.system_prompt = Some(prompt.into());
        self
    }

    /// Sets the temperature.
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.params.temperature = Some(temperature);
        self
    }

    /// Adds a stop sequence.
    pub fn stop_at(mut self, text: impl Into<String>) -> Self {
        self.params.stop_sequences.push(text.into());
        self
    }

    /// Adds a part of a model's name as a hint, best first.
    pub fn model_hint(mut self, name: impl Into<String>) -> Self {
        self.preferences_mut().hints.push(ModelHint::new().with_name(name));
        self
    }

    /// Sets the importance of a low price, from 0 to 1.
    pub fn cost_priority(mut self, weight: f64) -> Self {
        self.preferences_mut().cost_priority = Some(weight.clamp(0.0, 1.0));
        self
    }

    /// Sets the importance of a quick answer, from 0 to 1.
    pub fn speed_priority(mut self, weight: f64) -> Self {
        self.preferences_mut().speed_priority = Some(weight.clamp(0.0, 1.0));
        self
    }

    /// Sets the importance of a capable model, from 0 to 1.
    pub fn intelligence_priority(mut self, weight: f64) -> Self {
        self.preferences_mut().intelligence_priority = Some(weight.clamp(0.0, 1.0));
        self
    }

    /// Sets all preferences for the model.
    pub fn priorities(mut self, preferences: ModelPreferences) -> Self {
        self.params.model_preferences = Some(preferences);
        self
    }

    /// Tools that the model may ask for; only to clients that declared `sampling.tools`.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.params.tools.extend(tools);
        self
    }

    /// Sets whether the model may, must or must not ask for a tool.
    pub fn tool_choice(mut self, mode: ToolChoiceMode) -> Self {
        self.params.tool_choice = Some(ToolChoice::new().with_mode(mode));
        self
    }

    /// Sets the servers whose context to include. Deprecated by the specification except for none, and not sent to
    /// clients that did not declare `sampling.context` (SAMP-29).
    pub fn include_context(mut self, context: IncludeContext) -> Self {
        self.params.include_context = Some(context);
        self
    }

    /// Sets metadata that the model's provider defines; an object.
    pub fn metadata(mut self, metadata: impl Into<RawJson>) -> Self {
        self.params.metadata = Some(metadata.into());
        self
    }

    fn preferences_mut(&mut self) -> &mut ModelPreferences {
        self.params.model_preferences.get_or_insert_default()
    }
}

impl Question for SampleQuery<'_> {
    type Answer = CreateMessageResult;

    fn resolve(
        self,
        context: &Context,
        missing: &mut PendingQuestions,
    ) -> Result<Option<CreateMessageResult>, AskError> {
        let key = self.key.unwrap_or_else(|| context.next_key());
        if let Some(result) = question::decode_answer(context, &key) {
            return Ok(Some(result));
        }
        check_conversation(&self.params.messages)?;
        let mut params = self.params;
        let takes_context =
            context.peer().capabilities.sampling.as_ref().is_some_and(|s| s.context.is_some());
        params.include_context =
            params.include_context.filter(|wish| takes_context || *wish == IncludeContext::None);
        missing.add(context, key, InputRequest::CreateMessage(Box::new(params)))?;
        Ok(None)
    }
}

impl IntoFuture for SampleQuery<'_> {
    type Output = Result<CreateMessageResult, AskError>;
    type IntoFuture = Ready<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        ready(question::resolve_all(self.context, self))
    }
}

/// Checks the two rules on tools in a conversation (SAMP-32, SAMP-33): a message with tool results contains nothing
/// else, and the message after tool uses has the result of each.
pub(crate) fn check_conversation(messages: &[SamplingMessage]) -> Result<(), AskError> {
    let mut wanted: Vec<&str> = Vec::new();
    for message in messages {
        check_message_content(&message.content).map_err(AskError::Conversation)?;
        let results = message.content.iter().filter_map(|block| match block {
            SamplingMessageContentBlock::ToolResult(result) => Some(result.tool_use_id.as_str()),
            _ => None,
        });
        let results: Vec<_> = results.collect();
        if message.role == Role::User && !results.is_empty() && results.len() < message.content.len() {
            return Err(AskError::Conversation("a message with tool results cannot have other content"));
        }
        if !wanted.iter().all(|id| results.contains(id)) {
            return Err(AskError::Conversation("a tool use is not followed by its result"));
        }
        wanted.clear();
        wanted.extend(message.content.iter().filter_map(|block| match block {
            SamplingMessageContentBlock::ToolUse(tool_use) => Some(tool_use.id.as_str()),
            _ => None,
        }));
    }
    if wanted.is_empty() {
        Ok(())
    } else {
        Err(AskError::Conversation("it ends with a tool use that has no result"))
    }
}
