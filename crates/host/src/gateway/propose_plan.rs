//! The host's own tool with which an application proposes several calls as one plan.

use std::sync::{Arc, LazyLock};

use hospes::{Call, Outcome};
use hospes_model::{RawJson, RpcError, Tool};
use serde::Deserialize;
use serde_json::json;

use super::gateway_state::ViewLease;
use super::handle::Gateway;
use crate::catalogue::{ItemLocation, MergedCatalogue};
use crate::guard::{
    CallTarget, MAX_PLANNED_CALLS, MIN_PLANNED_CALLS, PolicyEnforcer, ProposedCall, TargetItem,
};

/// Name under which the tool is listed.
pub(super) const PROPOSE_PLAN: &str = "hospes__propose_plan";

/// Name under which the audit log and the approvals have the host's own tool.
const HOST_SERVER: &str = "hospes";
const HOST_TOOL: &str = "propose_plan";

/// Maximum length of the arguments of a proposal, in bytes: that of an approval request.
const MAX_PLAN_BYTES: usize = 256 * 1024;

/// The tool as it is listed.
static PLAN_TOOL: LazyLock<Tool> = LazyLock::new(|| {
    let schema = json!({
        "type": "object",
        "properties": {
            "calls": {
                "type": "array",
                "description": "The calls, in the order in which they will be made.",
                "minItems": MIN_PLANNED_CALLS,
                "maxItems": MAX_PLANNED_CALLS,
                "items": {
                    "type": "object",
                    "properties": {
                        "name": { "type": "string", "description": "Name of the tool, as it is listed." },
                        "arguments": { "type": "object", "description": "Arguments of the call, complete." }
                    },
                    "required": ["name"],
                    "additionalProperties": false
                }
            }
        },
        "required": ["calls"],
        "additionalProperties": false
    });
    let mut tool = Tool::new(PROPOSE_PLAN, RawJson::from(schema));
    tool.title = Some("Propose a plan".to_owned());
    tool.description = Some(
        "Asks the person once to approve several tool calls that change or send something, before any of them is \
         made. After the approval, make each call exactly as proposed, in this order and within 10 minutes."
            .to_owned(),
    );
    tool
});

/// Returns the tools of the host itself.
pub(super) fn own_tools(guard: Option<&Arc<PolicyEnforcer>>) -> &'static [Tool] {
    match guard.is_some_and(|guard| guard.allows_plans()) {
        true => std::slice::from_ref(&*PLAN_TOOL),
        false => &[],
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanArguments {
    calls: Vec<PlannedArguments>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedArguments {
    name: String,
    #[serde(default)]
    arguments: Option<RawJson>,
}

/// A tool that a plan names.
struct FoundTool {
    shown: String,
    location: ItemLocation,
    catalogue: Arc<MergedCatalogue>,
    arguments: RawJson,
}

impl FoundTool {
    fn item(&self) -> TargetItem<'_> {
        TargetItem::Tool(&self.location.name, self.catalogue.tools.get(&self.shown))
    }
}

impl Gateway {
    /// Answers a proposal. Its calls are routed and checked, and not sent.
    pub(super) async fn propose_plan(
        &self,
        guard: &Arc<PolicyEnforcer>,
        call: &Call,
        using: &ViewLease,
    ) -> Result<Outcome, RpcError> {
        let found = self.find_planned(call, using).await;
        let proposed = match &found {
            Ok(found) => self.check_planned(found, using),
            Err(why) => Err(why.clone()),
        };
        let what = TargetItem::Tool(HOST_TOOL, Some(&PLAN_TOOL));
        let profile = self.shared.profile_name(self.scope);
        let host = CallTarget::unknown(HOST_SERVER, "", what).in_profile(profile);
        guard.propose_plan(call, host, proposed).await
    }

    /// Finds the tools that a proposal names.
    async fn find_planned(&self, call: &Call, using: &ViewLease) -> Result<Vec<FoundTool>, String> {
        let planned = parse(call.params.view().arguments.as_ref())?;
        let mut found = Vec::with_capacity(planned.len());
        for (index, one) in planned.into_iter().enumerate() {
            let failed = |why: String| format!("call {} (`{}`): {why}", index + 1, one.name);
            if one.name == PROPOSE_PLAN || self.find_sign_in_tool(&one.name, using).is_some() {
                return Err(failed("it cannot be part of a plan".to_owned()));
            }
            let (location, catalogue) = self.find_tool(&one.name, using).await.map_err(failed)?;
            let arguments = one.arguments.filter(|arguments| !arguments.is_null());
            let arguments = arguments.unwrap_or_else(RawJson::empty_object);
            found.push(FoundTool { shown: one.name, location, catalogue, arguments });
        }
        Ok(found)
    }

    /// Makes the checks that come before the rules: definitions that are withheld, and arguments that do not match.
    fn check_planned<'a>(
        &'a self,
        found: &'a [FoundTool],
        using: &ViewLease,
    ) -> Result<Vec<ProposedCall<'a>>, String> {
        let check = |(index, one): (usize, &'a FoundTool)| {
            let failed = |why: String| format!("call {} (`{}`): {why}", index + 1, one.shown);
            let (server, item) = (one.location.server, one.item());
            let upstream = &self.shared.upstreams[server].server;
            if let Some(why) = self.block_reason(server, &item, using) {
                return Err(failed(why.message(&upstream.name)));
            }
            if let Some(why) = self.invalid_arguments(Some(&one.arguments), server, &item) {
                return Err(failed(format!("invalid arguments: {why}")));
            }
            let (target, arguments) = (self.target(server, item), one.arguments.clone());
            Ok(ProposedCall { shown: &one.shown, target, arguments })
        };
        found.iter().enumerate().map(check).collect()
    }
}

/// Parses the arguments of a proposal.
fn parse(arguments: Option<&RawJson>) -> Result<Vec<PlannedArguments>, String> {
    let arguments = arguments.ok_or("it has no calls")?;
    let length = arguments.as_str().len();
    if length > MAX_PLAN_BYTES {
        return Err(format!(
            "its arguments are too long for an approval request ({length} bytes; the limit is {MAX_PLAN_BYTES})"
        ));
    }
    let PlanArguments { calls } =
        arguments.decode().map_err(|error| format!("its arguments are invalid: {error}"))?;
    match calls.len() {
        MIN_PLANNED_CALLS..=MAX_PLANNED_CALLS => Ok(calls),
        count => Err(format!(
            "it has {count} calls; a plan has at least {MIN_PLANNED_CALLS} and at most {MAX_PLANNED_CALLS}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposal_has_two_to_twenty_calls_and_nothing_else() {
        let of = |value: serde_json::Value| parse(Some(&RawJson::from(value))).map(|calls| calls.len());
        let calls =
            |count: usize| json!({ "calls": vec![json!({ "name": "a__b", "arguments": {} }); count] });
        assert_eq!(of(calls(2)), Ok(2));
        assert_eq!(of(calls(20)), Ok(20));
        for (value, error) in [
            (calls(1), "it has 1 calls"),
            (calls(21), "at most 20"),
            (json!({}), "missing field `calls`"),
            (json!({ "calls": [{ "name": "a" }, { "name": 1 }] }), "invalid type"),
            (json!({ "calls": [{ "name": "a" }, { "tool": "b" }] }), "unknown field `tool`"),
            (json!({ "calls": [], "approved": true }), "unknown field `approved`"),
            (
                json!({ "calls": [{ "name": "a" }, { "name": "x".repeat(MAX_PLAN_BYTES) }] }),
                "the limit is 262144",
            ),
        ] {
            let found = of(value).unwrap_err();
            assert!(found.contains(error), "{found}");
        }
        assert!(parse(None).is_err());
        assert!(own_tools(None).is_empty());
    }
}
