//! Tools: functions that a model can call.

use serde::{Deserialize, Serialize};

use super::ExtraMembers;
use crate::types::content::joined_text;
use crate::types::lenient::{self, or_default};
use crate::{CacheScope, ContentBlock, Icon, InputResponses, Meta, RawJson, TaskMetadata};

/// A tool as a server lists it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Tool {
    /// Name with which the tool is called.
    pub name: String,
    /// Display name (from 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description of the tool, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments, exactly as written by the server.
    pub input_schema: RawJson,
    /// JSON Schema of the structured output (from 2025-06-18; before 2026-07-28 with an object at the root).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<RawJson>,
    /// Hints on the tool's behaviour (from 2025-03-26).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<ToolAnnotations>>,
    /// Icons (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub icons: Vec<Icon>,
    /// Execution settings (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ToolExecution>,
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

impl Tool {
    /// Creates a `Tool` with the required members; all others are absent.
    pub fn new(name: impl Into<String>, input_schema: RawJson) -> Self {
        Self {
            name: name.into(),
            input_schema,
            title: None,
            description: None,
            output_schema: None,
            annotations: None,
            icons: Vec::new(),
            execution: None,
            meta: Meta::new(),
            extra: ExtraMembers::new(),
        }
    }
}

setters!(Tool {
    some with_title(title: String);
    some with_description(description: String);
    some with_output_schema(output_schema: RawJson);
    some with_annotations(annotations: Box<ToolAnnotations>);
    set with_icons(icons: Vec<Icon>);
    some with_execution(execution: ToolExecution);
    set with_meta(meta: Meta);
});

impl Tool {
    /// Returns the display name: the title, else the title in the annotations, else the name (META-09).
    #[must_use]
    pub fn display_name(&self) -> &str {
        let annotated = || self.annotations.as_ref().and_then(|a| a.title.as_deref());
        self.title.as_deref().or_else(annotated).unwrap_or(&self.name)
    }
}

/// Hints on a tool's behaviour. Those of an untrusted server must not be relied on (TOOL-29).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool changes nothing (default false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// The tool may make destructive changes (default true; meaningful only if it is not read-only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Repeated calls with the same arguments have no further effect (default false; meaningful only if it is not
    /// read-only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// The tool interacts with external entities, such as the web (default true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ToolAnnotations {
    /// Creates an empty `ToolAnnotations`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ToolAnnotations {
    some with_title(title: String);
    some with_read_only_hint(read_only_hint: bool);
    some with_destructive_hint(destructive_hint: bool);
    some with_idempotent_hint(idempotent_hint: bool);
    some with_open_world_hint(open_world_hint: bool);
});

open_enum! {
    /// Support of a tool for running as a task (2025-11-25).
    TaskSupport {
        /// The tool never runs as a task (default).
        Forbidden = "forbidden",
        /// The tool may run as a task.
        Optional = "optional",
        /// The tool always runs as a task.
        Required = "required",
    }
}

/// Execution settings of a tool (2025-11-25 only).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolExecution {
    /// Support for running as a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_support: Option<TaskSupport>,
}

impl ToolExecution {
    /// Creates an empty `ToolExecution`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ToolExecution {
    some with_task_support(task_support: TaskSupport);
});

/// Result of `tools/list`: one page of tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListToolsResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Tools of this page.
    pub tools: Vec<Tool>,
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

impl ListToolsResult {
    /// Creates a `ListToolsResult` with the required members; all others are absent.
    #[must_use]
    pub fn new(tools: Vec<Tool>) -> Self {
        Self { tools, meta: Meta::new(), next_cursor: None, ttl_ms: None, cache_scope: None }
    }
}

setters!(ListToolsResult {
    set with_meta(meta: Meta);
    some with_next_cursor(next_cursor: String);
    some with_ttl_ms(ttl_ms: u64);
    some with_cache_scope(cache_scope: CacheScope);
});

/// Params of `tools/call`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallToolParams {
    /// Name of the tool.
    pub name: String,
    /// Arguments, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<RawJson>,
    /// Responses to the input requests of the previous round (2026-07-28).
    #[serde(default, skip_serializing_if = "InputResponses::is_empty", deserialize_with = "or_default")]
    pub input_responses: InputResponses,
    /// Request state received with those input requests, unchanged (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
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

impl CallToolParams {
    /// Creates a `CallToolParams` with the required members; all others are absent.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            arguments: None,
            input_responses: InputResponses::new(),
            request_state: None,
            task: None,
            meta: Meta::new(),
        }
    }
}

setters!(CallToolParams {
    some with_arguments(arguments: RawJson);
    set with_input_responses(input_responses: InputResponses);
    some with_request_state(request_state: String);
    some with_task(task: TaskMetadata);
    set with_meta(meta: Meta);
});

/// Result of a tool call, including failures of the tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallToolResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Content that the tool returned, for the model.
    pub content: Vec<ContentBlock>,
    /// Structured content that the tool returned, for programs (from 2025-06-18; an object before 2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::present")]
    pub structured_content: Option<RawJson>,
    /// True if the tool failed; absent means false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}

impl CallToolResult {
    /// Creates a `CallToolResult` with the required members; all others are absent.
    pub fn new(content: impl Into<Vec<ContentBlock>>) -> Self {
        Self { content: content.into(), meta: Meta::new(), structured_content: None, is_error: None }
    }
}

setters!(CallToolResult {
    set with_meta(meta: Meta);
    some with_structured_content(structured_content: RawJson);
    some with_is_error(is_error: bool);
});

impl Default for CallToolResult {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl CallToolResult {
    /// Creates a result with one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![ContentBlock::text(text)])
    }

    /// Creates the result of a failed tool. The text should help a model to correct its call (TOOL-17).
    pub fn error(text: impl Into<String>) -> Self {
        Self::text(text).with_is_error(true)
    }

    /// Creates a result with a value as structured content, repeated as a text block for peers that do not read
    /// structured content (TOOL-34).
    ///
    /// # Errors
    /// If the value cannot be serialized.
    pub fn structured<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        let json = RawJson::from_serialize(value)?;
        Ok(Self::text(json.as_str()).with_structured_content(json))
    }

    /// Returns true if the tool failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.is_error == Some(true)
    }

    /// Returns the text blocks, joined by line breaks.
    #[must_use]
    pub fn all_text(&self) -> String {
        joined_text(self.content.iter().filter_map(ContentBlock::as_text))
    }
}
