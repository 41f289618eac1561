//! Differences of 2026-07-28 from the domain types: members that only older revisions have are removed.

use std::borrow::Cow;

use super::LoweringErrorKind;
use super::step::{self, remove_keys};
use crate::meta_key::{MODEL_IMMEDIATE_RESPONSE, RELATED_TASK};
use crate::types::*;

pub(crate) struct StepTo2026_07_28;

impl step::RevisionStep for StepTo2026_07_28 {
    fn result_meta(&self, meta: &mut Cow<'_, Meta>) {
        remove_keys(meta, &[RELATED_TASK, MODEL_IMMEDIATE_RESPONSE]);
    }

    fn tool(&self, tool: &mut Cow<'_, Tool>) {
        if tool.execution.is_some() {
            tool.to_mut().execution = None;
        }
    }

    fn client_capabilities(&self, capabilities: &mut Cow<'_, ClientCapabilities>) {
        if capabilities.tasks.is_some() {
            capabilities.to_mut().tasks = None;
        }
        if capabilities.roots.as_ref().is_some_and(|roots| roots.list_changed.is_some())
            && let Some(roots) = &mut capabilities.to_mut().roots
        {
            roots.list_changed = None;
        }
    }

    fn server_capabilities(&self, capabilities: &mut Cow<'_, ServerCapabilities>) {
        if capabilities.tasks.is_some() {
            capabilities.to_mut().tasks = None;
        }
    }

    fn create_message(&self, params: &mut CreateMessageParams) -> Result<(), LoweringErrorKind> {
        params.task = None;
        params.meta = Meta::new();
        Ok(())
    }

    fn elicit(&self, params: &mut ElicitParams) -> Result<(), LoweringErrorKind> {
        *params.task_mut() = None;
        *params.meta_mut() = Meta::new();
        if let ElicitParams::Url(url) = params {
            url.elicitation_id = None;
        }
        Ok(())
    }

    fn elicit_result(&self, result: &mut ElicitResult) {
        result.meta = Meta::new();
    }

    fn list_roots_result(&self, result: &mut ListRootsResult) {
        result.meta = Meta::new();
    }
}
