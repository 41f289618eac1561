//! Checks of edited arguments.

use std::sync::Arc;

use hospes_model::{RawJson, Tool, ToolAnnotations};
use hospes_policy::{
    CallArguments, Policy, PolicyCaller, PolicyDecision as Ruling, PolicyRequest, PolicyVerdict,
};
use jiff::Timestamp;
use parking_lot::RwLock;

use super::call_target::{CallTarget, TargetItem};
use super::denials::denial;
use crate::approvals::{ApprovalCard, StoredEditCheck};

/// Returns a check for edits of calls that were asked before a restart. It applies the current rules and the tool
/// definition that the person was shown.
pub(super) fn checker(policy: Arc<RwLock<Option<Arc<Policy>>>>) -> StoredEditCheck {
    Box::new(move |approval, groups, edited| {
        let ApprovalCard::Call(card) = &approval.card else {
            return Err("it can no longer be edited".to_owned());
        };
        let schema = card.input_schema.clone().unwrap_or_else(RawJson::empty_object);
        let mut tool = Tool::new(card.name.clone(), schema);
        tool.annotations = card.effects.map(|said| {
            let mut annotations = ToolAnnotations::new();
            annotations.read_only_hint = Some(said.read_only);
            annotations.destructive_hint = Some(said.destructive);
            annotations.idempotent_hint = Some(said.idempotent);
            annotations.open_world_hint = Some(said.open_world);
            Box::new(annotations)
        });
        let policy = policy.read().clone();
        let policy = policy.unwrap_or_else(|| Arc::new(Policy::without_rules()));
        let what = TargetItem::Tool(&card.name, Some(&tool));
        let going = CallTarget::unknown(&approval.server, "", what);
        let (application, principal) = (approval.application.as_deref(), approval.principal.as_deref());
        can_become(&policy, PolicyCaller::new(application, principal, groups), &going, edited).map(drop)
    })
}

/// Returns the verdict of the rules on a call with edited arguments. Fails if the arguments do not fit the tool's schema
/// or the rules deny the call.
pub(super) fn can_become(
    policy: &Policy,
    caller: PolicyCaller<'_>,
    going: &CallTarget<'_>,
    edited: &RawJson,
) -> Result<PolicyVerdict, String> {
    let arguments = CallArguments::read(edited.as_str()).map_err(|error| error.to_string())?;
    if let TargetItem::Tool(_, Some(tool)) = going.what {
        hospes::check_against_schema(edited, &tool.input_schema)?;
    }
    let asked = PolicyRequest::new(going.server, going.action(&arguments)).with_caller(caller);
    let verdict = policy.decide(&asked, Timestamp::now());
    match verdict.decision {
        Ruling::Deny => Err(denial(&verdict)),
        // Whoever has edited it decides for nobody else.
        Ruling::Ask if let Some(approvers) = &verdict.approvers => Err(format!(
            "with these arguments, a member of {approvers} has to approve it; deny it, and have it called with them"
        )),
        Ruling::Allow | Ruling::Ask => Ok(verdict),
    }
}
