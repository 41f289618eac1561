//! Tools: what a model may call.

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
    /// The name it is called by.
    pub name: String,
    /// The name to show (from 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description of the tool, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments, an object, exactly as written.
    pub input_schema: RawJson,
    /// The JSON Schema of its structured output (from 2025-06-18; before 2026-07-28 with an object at the root).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<RawJson>,
    /// Hints on its behaviour (from 2025-03-26).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<ToolAnnotations>>,
    /// Pictures of it (from 2025-11-25).
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
    /// With what is required.
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
    /// The name to show: the title, else the annotations' title, else the name (META-09).
    #[must_use]
    pub fn display_name(&self) -> &str {
        let annotated = || self.annotations.as_ref().and_then(|a| a.title.as_deref());
        self.title.as_deref().or_else(annotated).unwrap_or(&self.name)
    }
}

/// Hints on a tool's behaviour; from a server that is not trusted, worth nothing (TOOL-29).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// The name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It changes nothing (default false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may destroy something (default true; means something only if it is not read-only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// A second call with the same arguments changes nothing more (default false; likewise).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It reaches things outside a closed set (default true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ToolAnnotations {
    /// With nothing in it.
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
        /// Never; the default.
        Forbidden = "forbidden",
        /// The caller may choose.
        Optional = "optional",
        /// Only so.
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
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ToolExecution {
    some with_task_support(task_support: TaskSupport);
});

/// A page of tools.
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
    /// The tools.
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
    /// With what is required.
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
    /// The tool's name.
    pub name: String,
    /// The arguments, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<RawJson>,
    /// Answers to the questions of the round before (2026-07-28).
    #[serde(default, skip_serializing_if = "InputResponses::is_empty", deserialize_with = "or_default")]
    pub input_responses: InputResponses,
    /// The state that came with those questions, as it came (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
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

impl CallToolParams {
    /// With what is required.
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
    /// With what is required.
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
    /// One block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![ContentBlock::text(text)])
    }

    /// Creates the result of a failed tool. The text should help a model to correct its call (TOOL-17).
    pub fn error(text: impl Into<String>) -> Self {
        Self::text(text).with_is_error(true)
    }

    /// A value as structured content, and the same as a block of text for peers that do not read the former
    /// (TOOL-34).
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn structured<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        let json = RawJson::from_serialize(value)?;
        Ok(Self::text(json.as_str()).with_structured_content(json))
    }

    /// Returns true if the tool failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.is_error == Some(true)
    }

    /// The texts among the blocks, one under the other.
    #[must_use]
    pub fn all_text(&self) -> String {
        joined_text(self.content.iter().filter_map(ContentBlock::as_text))
    }
}
