//! Differences of 2025-03-26 from 2025-06-18.

use std::borrow::Cow;

use super::LoweringErrorKind;
use super::step;
use crate::types::*;

pub(crate) struct StepTo2025_03_26;

impl step::RevisionStep for StepTo2025_03_26 {
    fn inner_meta(&self, meta: &mut Cow<'_, Meta>) {
        if !meta.is_empty() {
            *meta = Cow::Owned(Meta::new());
        }
    }

    fn annotations(&self, annotations: &mut Cow<'_, Annotations>) {
        if annotations.last_modified.is_some() {
            annotations.to_mut().last_modified = None;
        }
    }

    /// Moves the title into the annotations, where this revision has it.
    fn tool(&self, tool: &mut Cow<'_, Tool>) {
        if tool.title.is_some() || tool.output_schema.is_some() {
            let tool = tool.to_mut();
            tool.output_schema = None;
            if let Some(title) = tool.title.take() {
                tool.annotations.get_or_insert_default().title.get_or_insert(title);
            }
        }
    }

    fn prompt(&self, prompt: &mut Cow<'_, Prompt>) {
        if prompt.title.is_some() || prompt.arguments.iter().any(|argument| argument.title.is_some()) {
            let prompt = prompt.to_mut();
            prompt.title = None;
            prompt.arguments.iter_mut().for_each(|argument| argument.title = None);
        }
    }

    fn resource(&self, resource: &mut Cow<'_, Resource>) {
        if resource.title.is_some() {
            resource.to_mut().title = None;
        }
    }

    fn template(&self, template: &mut Cow<'_, ResourceTemplate>) {
        if template.title.is_some() {
            template.to_mut().title = None;
        }
    }

    fn block(&self, block: &mut Cow<'_, ContentBlock>, _index: usize) {
        let ContentBlock::ResourceLink(link) = block.as_ref() else { return };
        let name = link.title.as_deref().unwrap_or(&link.name);
        let mut text = format!("{name}: {}", link.uri);
        if let Some(description) = &link.description {
            text.push('\n');
            text.push_str(description);
        }
        let mut content = TextContent::new(text);
        content.annotations.clone_from(&link.annotations);
        *block = Cow::Owned(content.into());
    }

    fn call_result(&self, result: &mut Cow<'_, CallToolResult>) {
        if let Some(value) = &result.structured_content {
            let text = result.content.is_empty().then(|| ContentBlock::text(value.as_str()));
            let result = result.to_mut();
            result.structured_content = None;
            result.content.extend(text);
        }
    }

    fn implementation(&self, implementation: &mut Cow<'_, Implementation>) {
        if implementation.title.is_some() {
            implementation.to_mut().title = None;
        }
    }

    fn client_capabilities(&self, capabilities: &mut Cow<'_, ClientCapabilities>) {
        if capabilities.elicitation.is_some() {
            capabilities.to_mut().elicitation = None;
        }
    }

    fn elicit(&self, _params: &mut ElicitParams) -> Result<(), LoweringErrorKind> {
        Err(LoweringErrorKind::Elicitation)
    }
}
