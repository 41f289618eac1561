//! Differences of 2024-11-05 from 2025-03-26.

use std::borrow::Cow;

use super::step;
use crate::RawJson;
use crate::types::*;

pub(crate) struct StepTo2024_11_05;

impl step::RevisionStep for StepTo2024_11_05 {
    fn tool(&self, tool: &mut Cow<'_, Tool>) {
        if tool.annotations.is_some() {
            tool.to_mut().annotations = None;
        }
    }

    /// Converts audio to an embedded resource with its bytes, which old clients can show or offer for download.
    fn block(&self, block: &mut Cow<'_, ContentBlock>, index: usize) {
        if !matches!(block.as_ref(), ContentBlock::Audio(_)) {
            return;
        }
        // The empty text is only a placeholder for the block, so that owned bytes are moved instead of copied.
        let ContentBlock::Audio(audio) =
            std::mem::replace(block, Cow::Owned(ContentBlock::text(""))).into_owned()
        else {
            return;
        };
        let contents = ResourceContents::blob(format!("hospes:audio/{index}"), audio.data)
            .with_mime_type(audio.mime_type);
        let mut embedded = EmbeddedResource::new(contents);
        embedded.annotations = audio.annotations;
        *block = Cow::Owned(embedded.into());
    }

    fn server_capabilities(&self, capabilities: &mut Cow<'_, ServerCapabilities>) {
        if capabilities.completions.is_some() {
            capabilities.to_mut().completions = None;
        }
    }

    /// Replaces audio by a text that names it, because sampling has no embedded resources.
    fn sampling_block(&self, block: &mut SamplingMessageContentBlock) {
        if let SamplingMessageContentBlock::Audio(audio) = block {
            *block = SamplingMessageContentBlock::text(format!("[audio: {}]", audio.mime_type));
        }
    }
}

/// Adds the completions capability, which did not exist: completion may be tried (COMP-01).
pub(crate) fn lift_server_capabilities(capabilities: &mut ServerCapabilities) {
    if capabilities.completions.is_none() {
        capabilities.completions = Some(RawJson::empty_object());
    }
}
