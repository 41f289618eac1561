//! Differences of 2025-06-18 from 2025-11-25.

use std::borrow::Cow;

use super::LoweringErrorKind;
use super::step::{self, placeholder_text, remove_keys};
use crate::RawJson;
use crate::meta_key::{MODEL_IMMEDIATE_RESPONSE, RELATED_TASK};
use crate::types::*;

/// Keys of `_meta` that were added with tasks.
pub(crate) const NEWER_META: &[&str] = &[RELATED_TASK, MODEL_IMMEDIATE_RESPONSE];

/// Params that were added with tasks.
pub(crate) const NEWER_PARAMS: &[&str] = &["task"];

pub(crate) struct StepTo2025_06_18;

impl step::RevisionStep for StepTo2025_06_18 {
    fn result_meta(&self, meta: &mut Cow<'_, Meta>) {
        remove_keys(meta, NEWER_META);
    }

    fn tool(&self, tool: &mut Cow<'_, Tool>) {
        if !tool.icons.is_empty() || tool.execution.is_some() {
            let tool = tool.to_mut();
            tool.icons = Vec::new();
            tool.execution = None;
        }
    }

    fn prompt(&self, prompt: &mut Cow<'_, Prompt>) {
        if !prompt.icons.is_empty() {
            prompt.to_mut().icons = Vec::new();
        }
    }

    fn resource(&self, resource: &mut Cow<'_, Resource>) {
        if !resource.icons.is_empty() {
            resource.to_mut().icons = Vec::new();
        }
    }

    fn template(&self, template: &mut Cow<'_, ResourceTemplate>) {
        if !template.icons.is_empty() {
            template.to_mut().icons = Vec::new();
        }
    }

    fn implementation(&self, implementation: &mut Cow<'_, Implementation>) {
        if implementation.description.is_some()
            || !implementation.icons.is_empty()
            || implementation.website_url.is_some()
        {
            let implementation = implementation.to_mut();
            implementation.description = None;
            implementation.icons = Vec::new();
            implementation.website_url = None;
        }
    }

    fn client_capabilities(&self, capabilities: &mut Cow<'_, ClientCapabilities>) {
        if capabilities.tasks.is_some() {
            capabilities.to_mut().tasks = None;
        }
        if capabilities.sampling.as_ref().is_some_and(|s| s.tools.is_some() || s.context.is_some())
            && let Some(sampling) = &mut capabilities.to_mut().sampling
        {
            sampling.tools = None;
            sampling.context = None;
        }
        // In this revision the capability means forms, so a client that only opens URLs does not have it.
        if capabilities.elicitation.as_ref().is_some_and(|e| e.form.is_some() || e.url.is_some()) {
            let forms = capabilities.elicits_forms();
            let capabilities = capabilities.to_mut();
            capabilities.elicitation = capabilities.elicitation.take().filter(|_| forms);
            if let Some(elicitation) = &mut capabilities.elicitation {
                elicitation.form = None;
                elicitation.url = None;
            }
        }
    }

    fn server_capabilities(&self, capabilities: &mut Cow<'_, ServerCapabilities>) {
        if capabilities.tasks.is_some() {
            capabilities.to_mut().tasks = None;
        }
    }

    fn sampling_block(&self, block: &mut SamplingMessageContentBlock) {
        let text = match block {
            SamplingMessageContentBlock::ToolUse(tool_use) => RawJson::from_serialize(tool_use).map_or_else(
                |_| tool_use.name.clone(),
                |raw| format!("Tool call: {}", placeholder_text(&raw)),
            ),
            SamplingMessageContentBlock::ToolResult(result) => {
                let text =
                    result.content.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>().join("\n");
                format!("Tool result: {text}")
            }
            _ => return,
        };
        *block = SamplingMessageContentBlock::text(text);
    }

    /// Splits messages of several blocks, because a message has one block in this revision. Tools are not supported
    /// (SAMP-31).
    fn create_message(&self, params: &mut CreateMessageParams) -> Result<(), LoweringErrorKind> {
        if !params.tools.is_empty() || params.tool_choice.is_some() {
            return Err(LoweringErrorKind::SamplingWithTools);
        }
        params.task = None;
        if params.messages.iter().any(|message| message.content.len() != 1) {
            let messages = std::mem::take(&mut params.messages);
            params.messages = messages
                .into_iter()
                .flat_map(|message| {
                    let SamplingMessage { role, content, .. } = message;
                    content.into_iter().map(move |block| SamplingMessage::new(role.clone(), block))
                })
                .collect();
        }
        for message in &mut params.messages {
            message.meta = Meta::new();
        }
        Ok(())
    }

    /// Joins the text blocks of a result, because it has one block in this revision. Other blocks are replaced by a
    /// text that names them.
    fn create_message_result(&self, result: &mut CreateMessageResult) {
        if result.content.len() == 1 {
            return;
        }
        let only_media = |b: &SamplingMessageContentBlock| b.as_text().is_none();
        if !result.content.is_empty() && result.content.iter().all(only_media) {
            result.content.truncate(1);
            return;
        }
        let text: Vec<String> = result
            .content
            .iter()
            .map(|block| match block {
                SamplingMessageContentBlock::Text(content) => content.text.clone(),
                SamplingMessageContentBlock::Image(content) => format!("[image: {}]", content.mime_type),
                SamplingMessageContentBlock::Audio(content) => format!("[audio: {}]", content.mime_type),
                other => RawJson::from_serialize(other).map(|raw| placeholder_text(&raw)).unwrap_or_default(),
            })
            .collect();
        result.content = vec![SamplingMessageContentBlock::text(text.join("\n"))];
    }

    fn elicit(&self, params: &mut ElicitParams) -> Result<(), LoweringErrorKind> {
        let ElicitParams::Form(form) = params else {
            return Err(LoweringErrorKind::ElicitationByUrl);
        };
        form.task = None;
        let schema = &mut form.requested_schema;
        schema.dialect = None;
        let required = |name: &str| schema.required.iter().any(|r| r == name);
        let multi =
            |field: &PrimitiveSchemaDefinition| matches!(field, PrimitiveSchemaDefinition::MultiSelect(_));
        if schema.properties.0.iter().any(|(name, field)| multi(field) && required(name)) {
            return Err(LoweringErrorKind::MultiSelect);
        }
        schema.properties.0.retain(|(_, field)| !multi(field));
        for (_, field) in &mut schema.properties.0 {
            match field {
                PrimitiveSchemaDefinition::String(s) => s.default = None,
                PrimitiveSchemaDefinition::Number(n) => n.default = None,
                PrimitiveSchemaDefinition::SingleSelect(s) => {
                    s.default = None;
                    s.legacy_names = s.options.iter().any(|o| o.title.is_some());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Joins a list of strings to one string, because values are primitive in this revision.
    fn elicit_result(&self, result: &mut ElicitResult) {
        // Few results contain a list, and only those need to be parsed.
        let Some(serde_json::Value::Object(mut content)) =
            result.content.as_ref().filter(|c| c.as_str().contains('[')).and_then(|c| c.to_value().ok())
        else {
            return;
        };
        for value in content.values_mut() {
            if let Some(list) = value.as_array() {
                let list: Vec<&str> = list.iter().filter_map(|item| item.as_str()).collect();
                *value = list.join(", ").into();
            }
        }
        result.content = Some(serde_json::Value::Object(content).into());
    }
}
