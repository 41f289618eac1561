//! Steps from a revision to the next older one, and the traversal that applies a step to every part of a message.
//!
//! A step edits parts through [`Cow`], so that unchanged parts are not copied.

use std::borrow::{Borrow, Cow};

use super::{LoweringErrorKind, v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28};
use crate::types::*;
use crate::{RawJson, Revision};

/// Changes from the next newer revision to one revision, part by part. By default, nothing changes.
pub(crate) trait RevisionStep: Sync {
    /// Edits `_meta` of a result.
    fn result_meta(&self, _meta: &mut Cow<'_, Meta>) {}
    /// Edits `_meta` of a tool, a prompt, a resource or a content block.
    fn inner_meta(&self, _meta: &mut Cow<'_, Meta>) {}
    fn annotations(&self, _annotations: &mut Cow<'_, Annotations>) {}
    fn tool(&self, _tool: &mut Cow<'_, Tool>) {}
    fn prompt(&self, _prompt: &mut Cow<'_, Prompt>) {}
    fn resource(&self, _resource: &mut Cow<'_, Resource>) {}
    fn template(&self, _template: &mut Cow<'_, ResourceTemplate>) {}
    /// Edits a content block. `index` is its position in the result.
    fn block(&self, _block: &mut Cow<'_, ContentBlock>, _index: usize) {}
    fn call_result(&self, _result: &mut Cow<'_, CallToolResult>) {}
    fn implementation(&self, _implementation: &mut Cow<'_, Implementation>) {}
    fn client_capabilities(&self, _capabilities: &mut Cow<'_, ClientCapabilities>) {}
    fn server_capabilities(&self, _capabilities: &mut Cow<'_, ServerCapabilities>) {}

    // Input requests, from here on. They are rare, so they are edited in place.

    fn sampling_block(&self, _block: &mut SamplingMessageContentBlock) {}
    fn create_message(&self, _params: &mut CreateMessageParams) -> Result<(), LoweringErrorKind> {
        Ok(())
    }
    fn create_message_result(&self, _result: &mut CreateMessageResult) {}
    fn elicit(&self, _params: &mut ElicitParams) -> Result<(), LoweringErrorKind> {
        Ok(())
    }
    fn elicit_result(&self, _result: &mut ElicitResult) {}
    fn list_roots(&self, _params: &mut ListRootsParams) {}
    fn list_roots_result(&self, _result: &mut ListRootsResult) {}
}

/// Returns the steps from the newest revision to `to`, newest first.
pub(crate) fn steps(to: Revision) -> &'static [&'static dyn RevisionStep] {
    const OLDER: &[&dyn RevisionStep] = &[
        &v2025_11_25::StepTo2025_11_25,
        &v2025_06_18::StepTo2025_06_18,
        &v2025_03_26::StepTo2025_03_26,
        &v2024_11_05::StepTo2024_11_05,
    ];
    match to {
        Revision::V2026_07_28 => &[&v2026_07_28::StepTo2026_07_28],
        Revision::V2025_11_25 => &OLDER[..1],
        Revision::V2025_06_18 => &OLDER[..2],
        Revision::V2025_03_26 => &OLDER[..3],
        Revision::V2024_11_05 => OLDER,
    }
}

/// A value that has a different form in some revision.
pub(crate) trait Lower: Clone {
    /// Applies one step.
    fn step(this: &mut Cow<'_, Self>, step: &dyn RevisionStep);

    /// Converts the value to revision `to`. Borrows it if nothing changes.
    fn lowered(&self, to: Revision) -> Cow<'_, Self> {
        let mut value = Cow::Borrowed(self);
        for step in steps(to) {
            Self::step(&mut value, *step);
        }
        value
    }
}

fn changed<T: Clone>(value: &T, edit: impl FnOnce(&mut Cow<'_, T>)) -> Option<T> {
    let mut value = Cow::Borrowed(value);
    edit(&mut value);
    match value {
        Cow::Owned(new) => Some(new),
        Cow::Borrowed(_) => None,
    }
}

macro_rules! edit {
    ($parent:ident.$field:ident, $edit:expr) => {
        if let Some(new) = changed(&$parent.$field, $edit) {
            $parent.to_mut().$field = new;
        }
    };
    ($parent:ident.$field:ident?, $type:ty, $edit:expr) => {
        if let Some(old) = &$parent.$field
            && let Some(new) = changed::<$type>(old.borrow(), $edit)
        {
            $parent.to_mut().$field = Some(new.into());
        }
    };
    ($parent:ident.$field:ident[], $edit:expr) => {
        for index in 0..$parent.$field.len() {
            if let Some(new) = changed(&$parent.$field[index], $edit) {
                $parent.to_mut().$field[index] = new;
            }
        }
    };
}

fn annotated_text(content: &mut Cow<'_, TextContent>, s: &dyn RevisionStep) {
    edit!(content.annotations?, Annotations, |a| s.annotations(a));
    edit!(content.meta, |m| s.inner_meta(m));
}

fn annotated_image(content: &mut Cow<'_, ImageContent>, s: &dyn RevisionStep) {
    edit!(content.annotations?, Annotations, |a| s.annotations(a));
    edit!(content.meta, |m| s.inner_meta(m));
}

fn annotated_audio(content: &mut Cow<'_, AudioContent>, s: &dyn RevisionStep) {
    edit!(content.annotations?, Annotations, |a| s.annotations(a));
    edit!(content.meta, |m| s.inner_meta(m));
}

impl Lower for ResourceContents {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.meta, |m| s.inner_meta(m));
    }
}

impl Lower for Resource {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        s.resource(this);
        edit!(this.annotations?, Annotations, |a| s.annotations(a));
        edit!(this.meta, |m| s.inner_meta(m));
    }
}

impl Lower for ResourceTemplate {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        s.template(this);
        edit!(this.annotations?, Annotations, |a| s.annotations(a));
        edit!(this.meta, |m| s.inner_meta(m));
    }
}

impl Lower for Tool {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        s.tool(this);
        edit!(this.meta, |m| s.inner_meta(m));
    }
}

impl Lower for Prompt {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        s.prompt(this);
        edit!(this.meta, |m| s.inner_meta(m));
    }
}

fn block(block: &mut Cow<'_, ContentBlock>, index: usize, s: &dyn RevisionStep) {
    // The block itself first: it may be replaced by another kind, whose parts are then traversed.
    s.block(block, index);
    let new = match block.as_ref() {
        ContentBlock::Text(c) => changed(c, |c| annotated_text(c, s)).map(ContentBlock::Text),
        ContentBlock::Image(c) => changed(c, |c| annotated_image(c, s)).map(ContentBlock::Image),
        ContentBlock::Audio(c) => changed(c, |c| annotated_audio(c, s)).map(ContentBlock::Audio),
        ContentBlock::ResourceLink(r) => {
            changed(r.as_ref(), |r| Resource::step(r, s)).map(|r| ContentBlock::ResourceLink(r.into()))
        }
        ContentBlock::Resource(e) => changed(e.as_ref(), |e| {
            edit!(e.resource, |c| ResourceContents::step(c, s));
            edit!(e.annotations?, Annotations, |a| s.annotations(a));
            edit!(e.meta, |m| s.inner_meta(m));
        })
        .map(|e| ContentBlock::Resource(e.into())),
        ContentBlock::Unknown(_) => None,
    };
    if let Some(new) = new {
        *block = Cow::Owned(new);
    }
}

impl Lower for CallToolResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        // The whole result first: the step may add blocks, which the loop below traverses as well.
        s.call_result(this);
        edit!(this.meta, |m| s.result_meta(m));
        for index in 0..this.content.len() {
            if let Some(new) = changed(&this.content[index], |b| block(b, index, s)) {
                this.to_mut().content[index] = new;
            }
        }
    }
}

impl Lower for GetPromptResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.meta, |m| s.result_meta(m));
        for index in 0..this.messages.len() {
            if let Some(new) = changed(&this.messages[index].content, |b| block(b, index, s)) {
                this.to_mut().messages[index].content = new;
            }
        }
    }
}

impl Lower for ListToolsResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.meta, |m| s.result_meta(m));
        edit!(this.tools[], |t| Tool::step(t, s));
    }
}

impl Lower for ListPromptsResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.meta, |m| s.result_meta(m));
        edit!(this.prompts[], |p| Prompt::step(p, s));
    }
}

impl Lower for ListResourcesResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.meta, |m| s.result_meta(m));
        edit!(this.resources[], |r| Resource::step(r, s));
    }
}

impl Lower for ListResourceTemplatesResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.meta, |m| s.result_meta(m));
        edit!(this.resource_templates[], |t| ResourceTemplate::step(t, s));
    }
}

impl Lower for ReadResourceResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.meta, |m| s.result_meta(m));
        edit!(this.contents[], |c| ResourceContents::step(c, s));
    }
}

impl Lower for CompleteResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.meta, |m| s.result_meta(m));
    }
}

impl Lower for EmptyResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.meta, |m| s.result_meta(m));
    }
}

impl Lower for SubscriptionsListenResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.meta, |m| s.result_meta(m));
    }
}

impl Lower for InitializeResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.meta, |m| s.result_meta(m));
        edit!(this.capabilities, |c| s.server_capabilities(c));
        edit!(this.server_info, |i| s.implementation(i));
    }
}

impl Lower for DiscoverResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.meta, |m| s.result_meta(m));
        edit!(this.capabilities, |c| s.server_capabilities(c));
    }
}

impl Lower for InitializeParams {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.capabilities, |c| s.client_capabilities(c));
        edit!(this.client_info, |i| s.implementation(i));
    }
}

impl Lower for ClientCapabilities {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        s.client_capabilities(this);
    }
}

impl Lower for ServerCapabilities {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        s.server_capabilities(this);
    }
}

impl Lower for Implementation {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        s.implementation(this);
    }
}

impl Lower for CreateTaskResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.meta, |m| s.result_meta(m));
    }
}

impl Lower for GetTaskResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.meta, |m| s.result_meta(m));
    }
}

impl Lower for ListTasksResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        edit!(this.meta, |m| s.result_meta(m));
    }
}

impl Lower for CreateMessageResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        let result = this.to_mut();
        // The blocks first: a step may join them, and tool blocks have to be text by then.
        result.content.iter_mut().for_each(|b| sampling_block(b, s));
        s.create_message_result(result);
        if let Some(new) = changed(&result.meta, |m| s.result_meta(m)) {
            result.meta = new;
        }
    }
}

impl Lower for ElicitResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        let result = this.to_mut();
        s.elicit_result(result);
        if let Some(new) = changed(&result.meta, |m| s.result_meta(m)) {
            result.meta = new;
        }
    }
}

impl Lower for ListRootsResult {
    fn step(this: &mut Cow<'_, Self>, s: &dyn RevisionStep) {
        let result = this.to_mut();
        s.list_roots_result(result);
        for root in &mut result.roots {
            edit_in_place(&mut root.meta, |m| s.inner_meta(m));
        }
        edit_in_place(&mut result.meta, |m| s.result_meta(m));
    }
}

/// Lowers the params of `sampling/createMessage`.
pub(crate) fn create_message(
    params: &mut CreateMessageParams,
    to: Revision,
) -> Result<(), LoweringErrorKind> {
    for s in steps(to).iter().copied() {
        s.create_message(params)?;
        for message in &mut params.messages {
            message.content.iter_mut().for_each(|b| sampling_block(b, s));
        }
        for tool in &mut params.tools {
            edit_in_place(tool, |t| Tool::step(t, s));
        }
    }
    Ok(())
}

/// Lowers the params of `elicitation/create`.
pub(crate) fn elicit(params: &mut ElicitParams, to: Revision) -> Result<(), LoweringErrorKind> {
    steps(to).iter().try_for_each(|s| s.elicit(params))
}

/// Lowers the params of `roots/list`.
pub(crate) fn list_roots(params: &mut ListRootsParams, to: Revision) {
    steps(to).iter().for_each(|s| s.list_roots(params));
}

fn edit_in_place<T: Clone>(value: &mut T, edit: impl FnOnce(&mut Cow<'_, T>)) {
    if let Some(new) = changed(value, edit) {
        *value = new;
    }
}

fn sampling_block(block: &mut SamplingMessageContentBlock, s: &dyn RevisionStep) {
    s.sampling_block(block);
    match block {
        SamplingMessageContentBlock::Text(c) => edit_in_place(c, |c| annotated_text(c, s)),
        SamplingMessageContentBlock::Image(c) => edit_in_place(c, |c| annotated_image(c, s)),
        SamplingMessageContentBlock::Audio(c) => edit_in_place(c, |c| annotated_audio(c, s)),
        SamplingMessageContentBlock::ToolUse(c) => edit_in_place(&mut c.meta, |m| s.inner_meta(m)),
        SamplingMessageContentBlock::ToolResult(c) => {
            edit_in_place(&mut c.meta, |m| s.inner_meta(m));
            for (index, inner) in c.content.iter_mut().enumerate() {
                edit_in_place(inner, |b| self::block(b, index, s));
            }
        }
        SamplingMessageContentBlock::Unknown(_) => {}
    }
}

/// Removes the members with these keys.
pub(crate) fn remove_keys(meta: &mut Cow<'_, Meta>, keys: &[&str]) {
    if keys.iter().any(|key| meta.contains_key(key)) {
        meta.to_mut().retain(|key| !keys.contains(&key));
    }
}

/// Returns the text that replaces a block which the revision does not support.
pub(crate) fn placeholder_text(raw: &RawJson) -> String {
    raw.as_str().to_owned()
}
