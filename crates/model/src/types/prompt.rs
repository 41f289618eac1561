//! Prompts: templates that a user can select.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ExtraMembers;
use crate::types::lenient::{self, or_default};
use crate::{CacheScope, ContentBlock, Icon, InputResponses, Meta, Role};

/// A prompt as a server lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Prompt {
    /// Name with which the prompt is requested.
    pub name: String,
    /// Display name (from 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Arguments of the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub arguments: Vec<PromptArgument>,
    /// Icons (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub icons: Vec<Icon>,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl Prompt {
    /// Creates a `Prompt` with the required members; all others are absent.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            arguments: Vec::new(),
            icons: Vec::new(),
            meta: Meta::new(),
            extra: ExtraMembers::new(),
        }
    }
}

setters!(Prompt {
    some with_title(title: String);
    some with_description(description: String);
    set with_arguments(arguments: Vec<PromptArgument>);
    set with_icons(icons: Vec<Icon>);
    set with_meta(meta: Meta);
});

impl Prompt {
    /// Returns the display name: the title, or the name if there is no title (META-09).
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

/// Argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PromptArgument {
    /// Name of the argument.
    pub name: String,
    /// Display name (from 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description of the argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// True if the argument is required; absent means false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

impl PromptArgument {
    /// Creates a `PromptArgument` with the required members; all others are absent.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), title: None, description: None, required: None }
    }
}

setters!(PromptArgument {
    some with_title(title: String);
    some with_description(description: String);
    some with_required(required: bool);
});

impl PromptArgument {
    /// Returns the display name: the title, or the name if there is no title (META-09).
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

/// Result of `prompts/list`: one page of prompts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListPromptsResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Prompts of this page.
    pub prompts: Vec<Prompt>,
    /// Cursor of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Time for which the result may be cached, in milliseconds (2026-07-28); written by
    /// [`Reply::encode`](crate::Reply::encode).
    #[serde(default, skip_serializing, deserialize_with = "lenient::millis")]
    pub ttl_ms: Option<u64>,
    /// Scope in which a cached result may be shared (2026-07-28); written by [`Reply::encode`](crate::Reply::encode).
    #[serde(default, skip_serializing)]
    pub cache_scope: Option<CacheScope>,
}

impl ListPromptsResult {
    /// Creates a `ListPromptsResult` with the required members; all others are absent.
    #[must_use]
    pub fn new(prompts: Vec<Prompt>) -> Self {
        Self { prompts, meta: Meta::new(), next_cursor: None, ttl_ms: None, cache_scope: None }
    }
}

setters!(ListPromptsResult {
    set with_meta(meta: Meta);
    some with_next_cursor(next_cursor: String);
    some with_ttl_ms(ttl_ms: u64);
    some with_cache_scope(cache_scope: CacheScope);
});

/// Params of `prompts/get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct GetPromptParams {
    /// Name of the prompt.
    pub name: String,
    /// Arguments by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub arguments: BTreeMap<String, String>,
    /// Responses to the input requests of the previous round (2026-07-28).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub input_responses: InputResponses,
    /// Request state received with those input requests, unchanged (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl GetPromptParams {
    /// Creates a `GetPromptParams` with the required members; all others are absent.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            arguments: BTreeMap::new(),
            input_responses: BTreeMap::new(),
            request_state: None,
            meta: Meta::new(),
        }
    }
}

setters!(GetPromptParams {
    set with_arguments(arguments: BTreeMap<String, String>);
    set with_input_responses(input_responses: InputResponses);
    some with_request_state(request_state: String);
    set with_meta(meta: Meta);
});

/// Result of `prompts/get`: the messages of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct GetPromptResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Description of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Messages of the prompt.
    pub messages: Vec<PromptMessage>,
}

impl GetPromptResult {
    /// Creates a `GetPromptResult` with the required members; all others are absent.
    #[must_use]
    pub fn new(messages: Vec<PromptMessage>) -> Self {
        Self { messages, meta: Meta::new(), description: None }
    }
}

setters!(GetPromptResult {
    set with_meta(meta: Meta);
    some with_description(description: String);
});

/// A message of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PromptMessage {
    /// Role of the speaker.
    pub role: Role,
    /// Content of the message.
    pub content: ContentBlock,
}

impl PromptMessage {
    /// Creates a `PromptMessage` with the required members; all others are absent.
    #[must_use]
    pub fn new(role: Role, content: ContentBlock) -> Self {
        Self { role, content }
    }
}

impl PromptMessage {
    /// Creates a message of the user.
    pub fn user(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::User, content.into())
    }

    /// Creates a message of the assistant.
    pub fn assistant(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::Assistant, content.into())
    }
}
