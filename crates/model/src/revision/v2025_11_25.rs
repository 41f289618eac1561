//! Differences of 2025-11-25 from 2026-07-28.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::LoweringErrorKind;
use super::step::{self, placeholder_text, remove_keys};
use super::wrapped_output;
use crate::meta_key::{
    CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO, SUBSCRIPTION_ID,
};
use crate::types::lenient;
use crate::types::*;
use crate::{RawJson, TASKS_EXTENSION};

/// Keys of `_meta` that were added with stateless requests and results.
pub(crate) const NEWER_META: &[&str] =
    &[CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO, SUBSCRIPTION_ID];

/// Params that were added with input requests inside results.
pub(crate) const NEWER_PARAMS: &[&str] = &["inputResponses", "requestState"];

pub(crate) struct StepTo2025_11_25;

impl step::RevisionStep for StepTo2025_11_25 {
    fn result_meta(&self, meta: &mut Cow<'_, Meta>) {
        remove_keys(meta, NEWER_META);
    }

    fn tool(&self, tool: &mut Cow<'_, Tool>) {
        if let Some(schema) = object_schema(&tool.input_schema) {
            tool.to_mut().input_schema = schema;
        }
        // Up to this revision the schema of structured output has an object at its root. Other values are wrapped in
        // one. If the schema does not tell, it is left out (TOOL-35).
        if let Some(schema) = &tool.output_schema {
            if !is_object_schema(schema) {
                let wrapped = wrapped_output::schema(schema);
                tool.to_mut().output_schema = wrapped;
            } else if let Some(schema) = object_schema(schema) {
                tool.to_mut().output_schema = Some(schema);
            }
        }
    }

    fn block(&self, block: &mut Cow<'_, ContentBlock>, _index: usize) {
        if let ContentBlock::Unknown(raw) = block.as_ref() {
            *block = Cow::Owned(ContentBlock::text(placeholder_text(raw)));
        }
    }

    fn call_result(&self, result: &mut Cow<'_, CallToolResult>) {
        if let Some(value) = &result.structured_content
            && !value.is_object()
        {
            let text = result.content.is_empty().then(|| ContentBlock::text(value.as_str()));
            let object = wrapped_output::value(value);
            let result = result.to_mut();
            result.structured_content = Some(object);
            result.content.extend(text);
        }
    }

    fn client_capabilities(&self, capabilities: &mut Cow<'_, ClientCapabilities>) {
        if capabilities.extensions.contains_key(TASKS_EXTENSION) {
            capabilities.to_mut().extensions.remove(TASKS_EXTENSION);
        }
    }

    fn server_capabilities(&self, capabilities: &mut Cow<'_, ServerCapabilities>) {
        if capabilities.extensions.contains_key(TASKS_EXTENSION) {
            capabilities.to_mut().extensions.remove(TASKS_EXTENSION);
        }
    }

    fn sampling_block(&self, block: &mut SamplingMessageContentBlock) {
        match block {
            SamplingMessageContentBlock::Unknown(raw) => {
                *block = SamplingMessageContentBlock::text(placeholder_text(raw));
            }
            SamplingMessageContentBlock::ToolResult(result) => {
                if let Some(value) = result.structured_content.take_if(|value| !value.is_object()) {
                    if result.content.is_empty() {
                        result.content.push(ContentBlock::text(value.as_str()));
                    }
                    result.structured_content = Some(wrapped_output::value(&value));
                }
            }
            _ => {}
        }
    }

    fn elicit(&self, params: &mut ElicitParams) -> Result<(), LoweringErrorKind> {
        match params {
            ElicitParams::Url(url) if url.elicitation_id.is_none() => {
                Err(LoweringErrorKind::ElicitationWithoutId)
            }
            _ => Ok(()),
        }
    }
}

/// Returns true if the root of the schema has the type object.
fn is_object_schema(schema: &RawJson) -> bool {
    #[derive(Deserialize)]
    struct SchemaTypePeek<'a> {
        #[serde(borrow)]
        r#type: Option<&'a RawValue>,
    }
    schema
        .decode::<SchemaTypePeek<'_>>()
        .is_ok_and(|root| root.r#type.is_some_and(|kind| kind.get() == "\"object\""))
}

/// Converts a schema so that its properties are objects: `true` and `false` are allowed only from 2026-07-28. Returns
/// `None` if there is nothing to change; everything else stays as written.
fn object_schema(schema: &RawJson) -> Option<RawJson> {
    #[derive(Deserialize)]
    struct SchemaPropertiesPeek<'a> {
        #[serde(borrow, default)]
        properties: BTreeMap<Cow<'a, str>, &'a RawValue>,
    }
    let root: SchemaPropertiesPeek<'_> = schema.decode().ok()?;
    let text = schema.to_bytes();
    let mut places: Vec<(std::ops::Range<usize>, &'static str)> = root
        .properties
        .values()
        .filter_map(|property| {
            let object = match property.get() {
                "true" => "{}",
                "false" => "{\"not\":{}}",
                _ => return None,
            };
            // The raw values point into `text`, so pointer distances are offsets in it.
            let start = property.get().as_ptr().addr() - text.as_ptr().addr();
            Some((start..start + property.get().len(), object))
        })
        .collect();
    if places.is_empty() {
        return None;
    }
    // The map is sorted by name, but the text is assembled from front to back.
    places.sort_by_key(|(place, _)| place.start);
    let mut new = String::with_capacity(text.len() + places.len() * 8);
    let mut from = 0;
    for (place, object) in places {
        new.push_str(&schema.as_str()[from..place.start]);
        new.push_str(object);
        from = place.end;
    }
    new.push_str(&schema.as_str()[from..]);
    RawJson::parse(new).ok()
}

/// Converts client capabilities to the newest revision: an empty `elicitation` means forms (ELIC-02). Extensions are
/// read although the schema does not list them, because the set of capabilities is open; only tasks have another place
/// in this revision.
pub(crate) fn lift_client_capabilities(capabilities: &mut ClientCapabilities) {
    capabilities.extensions.remove(TASKS_EXTENSION);
    if let Some(elicitation) = &mut capabilities.elicitation
        && elicitation.form.is_none()
        && elicitation.url.is_none()
    {
        elicitation.form = Some(RawJson::empty_object());
    }
}

/// Converts server capabilities to the newest revision.
pub(crate) fn lift_server_capabilities(capabilities: &mut ServerCapabilities) {
    capabilities.extensions.remove(TASKS_EXTENSION);
}

/// Converts a tool result to the newest revision. Structured content is an object up to this revision, so `null` means
/// that it is absent.
pub(crate) fn lift_call_result(result: &mut CallToolResult) {
    result.structured_content.take_if(|value| value.is_null());
}

/// A task in the form of this revision.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireTask {
    task_id: String,
    status: TaskStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status_message: Option<String>,
    created_at: String,
    last_updated_at: String,
    #[serde(default, deserialize_with = "lenient::millis")]
    ttl: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::millis")]
    poll_interval: Option<u64>,
}

impl From<&Task> for WireTask {
    fn from(task: &Task) -> Self {
        Self {
            task_id: task.task_id.clone(),
            status: task.status.clone(),
            status_message: task.status_message.clone(),
            created_at: task.created_at.clone(),
            last_updated_at: task.last_updated_at.clone(),
            ttl: task.ttl_ms,
            poll_interval: task.poll_interval_ms,
        }
    }
}

impl From<&GetTaskResult> for WireTask {
    /// Converts the state of a task. A task whose tool failed has failed in this revision (TASK-23), but is completed
    /// in 2026-07-28.
    fn from(result: &GetTaskResult) -> Self {
        let mut wire = Self::from(&result.task);
        let failure = match (&result.task.status, &result.result, &result.error) {
            (TaskStatus::Completed, Some(result), _) => tool_failure_message(result),
            (TaskStatus::Failed, _, Some(error)) => Some(error.message.to_string()),
            _ => None,
        };
        if let Some(why) = failure {
            wire.status = TaskStatus::Failed;
            // A status message from the server is kept; this one is for tasks without any.
            wire.status_message.get_or_insert(why);
        }
        wire
    }
}

/// Returns the shortened text of a tool result with `isError`; `None` for other results.
fn tool_failure_message(result: &RawJson) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolFailurePeek<'a> {
        #[serde(default)]
        is_error: bool,
        #[serde(borrow, default)]
        content: Vec<ContentBlockPeek<'a>>,
    }
    // Only the needed part of a block, so that programs that decode no content do not contain its decoder.
    #[derive(Deserialize)]
    struct ContentBlockPeek<'a> {
        #[serde(borrow)]
        r#type: Cow<'a, str>,
        #[serde(borrow, default)]
        text: Option<Cow<'a, str>>,
    }
    /// Long enough for one line; the whole text is in the task's result.
    const MAX_MESSAGE_CHARS: usize = 200;
    let failure: ToolFailurePeek<'_> =
        result.decode().ok().filter(|failure: &ToolFailurePeek<'_>| failure.is_error)?;
    let mut texts = failure.content.iter().filter(|block| block.r#type == "text");
    let text = texts.find_map(|block| block.text.as_deref());
    Some(text.unwrap_or("the tool failed").chars().take(MAX_MESSAGE_CHARS).collect())
}

impl From<WireTask> for Task {
    fn from(task: WireTask) -> Self {
        Self {
            task_id: task.task_id,
            status: task.status,
            status_message: task.status_message,
            created_at: task.created_at,
            last_updated_at: task.last_updated_at,
            ttl_ms: task.ttl,
            poll_interval_ms: task.poll_interval,
        }
    }
}

/// Result of a request that became a task, with the task in a member of its own.
#[derive(Serialize, Deserialize)]
pub(crate) struct WireCreateTask {
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "lenient::or_default"
    )]
    pub(crate) meta: Meta,
    pub(crate) task: WireTask,
}

/// A task with metadata: results of tasks/get and tasks/cancel, params of `notifications/tasks/status`.
#[derive(Serialize, Deserialize)]
pub(crate) struct WireTaskWithMeta {
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "lenient::or_default"
    )]
    pub(crate) meta: Meta,
    #[serde(flatten)]
    pub(crate) task: WireTask,
}

/// One page of tasks.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireTasks {
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "lenient::or_default"
    )]
    pub(crate) meta: Meta,
    pub(crate) tasks: Vec<WireTask>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}
