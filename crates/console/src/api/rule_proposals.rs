//! Rules that recorded decisions suggest: they allow what a person allowed several times, and nothing wider.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use hospes_host::approvals::LikeCallConditions;
use hospes_policy::{
    CallArguments, CallEffect, KnownLabels, OrganizationExplanation, Policy, PolicyAction, PolicyDecision,
    PolicyRequest,
};
use hospes_store::AuditQuery;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};

use super::rule_effect::{RecordedCall, RuleEffect, ToolEffects};
use super::rules::{MAX_CALLS, alone};
use crate::api_error::ApiResult;
use crate::console::Console;
use crate::new_rule::{ArgumentRule, NewRule, RuleDecision, ScalarValue};

/// Time range of the decisions.
const RANGE: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Maximum number of calls of the range that are looked at.
const MAX_LOOKED_AT: usize = 2000;
/// Maximum number of proposals in a response.
const MAX_PROPOSALS: usize = 20;

/// Rules that recorded decisions suggest.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProposalsResponse {
    /// False if arguments are not recorded, without which no rule is narrow.
    records_arguments: bool,
    /// Proposals, the one with the most answers first.
    proposals: Vec<RuleProposal>,
}

/// A proposed rule.
#[derive(Serialize)]
pub(super) struct RuleProposal {
    /// The rule, as `POST /api/rules` takes it.
    rule: NewRule,
    /// Lines that are added to the policy file.
    toml: String,
    /// Calls of the tool for the application that a person was asked about.
    asked: usize,
    /// Calls of these that the person allowed.
    allowed: usize,
    /// Calls of these that the rule would have allowed; the person allowed all of them.
    matched: usize,
    /// Effect on the last calls.
    effect: RuleEffect,
}

pub(super) async fn proposals(State(console): State<Console>) -> ApiResult<ProposalsResponse> {
    let Some(audit) = console.audit() else { return Ok(Json(ProposalsResponse::default())) };
    let current = console.guard().and_then(|guard| guard.policy());
    let mut query = AuditQuery::new().with_limit(MAX_LOOKED_AT);
    query.since = Timestamp::now().checked_sub(RANGE).ok();
    let calls = RecordedCall::search(audit, query).await?;
    let last = RecordedCall::last(audit, MAX_CALLS).await?;
    let effects = ToolEffects::new(&console);
    let mut found = ProposalsResponse {
        records_arguments: console.guard().is_some_and(|guard| guard.keeps_arguments()),
        ..ProposalsResponse::default()
    };
    let environment = console.environment().policy.as_ref().map(|file| file.environment.clone());
    let environment = environment.unwrap_or_default();
    for (tool, answers) in answers(&calls) {
        let Some((rule, matched)) = narrow_rule(&tool, &answers) else { continue };
        if current.as_deref().is_some_and(|policy| !is_useful(policy, &tool, &answers, &effects)) {
            continue;
        }
        let toml = rule.to_toml();
        let Ok(alone) = Policy::read(&alone(&toml, current.as_deref()), &environment) else { continue };
        let (effect, _) = RuleEffect::of(&alone, None, &last, &effects);
        let (asked, allowed) = (answers.allowed.len() + answers.denied.len(), answers.allowed.len());
        found.proposals.push(RuleProposal { rule, toml, asked, allowed, matched, effect });
    }
    found.proposals.sort_by(|one, other| (other.matched, &one.toml).cmp(&(one.matched, &other.toml)));
    found.proposals.truncate(MAX_PROPOSALS);
    Ok(Json(found))
}

/// A tool that an application called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CalledTool {
    application: String,
    server: String,
    name: String,
}

/// Arguments of the calls of a tool that a person was asked about.
#[derive(Debug, Default)]
struct ToolAnswers {
    allowed: Vec<Map<String, Value>>,
    denied: Vec<Map<String, Value>>,
}

/// Sorts calls that a person was asked about by tool. A tool with a call whose arguments are not known is left out.
fn answers(calls: &[RecordedCall]) -> HashMap<CalledTool, ToolAnswers> {
    let mut found: HashMap<CalledTool, Option<ToolAnswers>> = HashMap::new();
    for call in calls {
        let is_allowed = match call.outcome() {
            "asked, allowed" => true,
            "asked, denied" => false,
            // A call that nobody answered, or that the application gave up, was not decided.
            _ => continue,
        };
        let (Some(application), Some(server), Some(name)) =
            (call.application(), call.entry.server.as_deref(), call.entry.subject.as_deref())
        else {
            continue;
        };
        let tool = CalledTool {
            application: application.to_owned(),
            server: server.to_owned(),
            name: name.to_owned(),
        };
        let answers = found.entry(tool).or_insert_with(|| Some(ToolAnswers::default()));
        let arguments = call.arguments.as_deref().and_then(|text| serde_json::from_str(text).ok());
        match (arguments, answers.as_mut()) {
            (Some(arguments), Some(answers)) if is_allowed => answers.allowed.push(arguments),
            (Some(arguments), Some(answers)) => answers.denied.push(arguments),
            _ => *answers = None,
        }
    }
    found.into_iter().filter_map(|(tool, answers)| Some((tool, answers?))).collect()
}

/// Returns true if a rule would spare questions: no rule allows or denies these calls, and they can be undone.
fn is_useful(policy: &Policy, tool: &CalledTool, answers: &ToolAnswers, effects: &ToolEffects) -> bool {
    let Some(sample) = answers.allowed.first() else { return false };
    let Ok(arguments) = CallArguments::read(&Value::Object(sample.clone()).to_string()) else { return false };
    let action = PolicyAction::tool(&tool.name, effects.of(&tool.server, &tool.name), &arguments);
    let asked = PolicyRequest::new(&tool.server, action).with_application(Some(&tool.application));
    let explained = policy.explain(&asked, Timestamp::now());
    // A rule of the user loosens nothing that the organisation's rules restrict.
    let binding = explained.organization.as_ref().and_then(OrganizationExplanation::binding_decision);
    if binding.is_some_and(|decision| decision != PolicyDecision::Allow) {
        return false;
    }
    let deciding = explained.steps.last().filter(|step| step.miss.is_none());
    match deciding {
        Some(step) => step.rule.decision() == PolicyDecision::Ask,
        // The preset asks about each call that cannot be undone, whatever was allowed before.
        None => policy.labels(&asked, KnownLabels::default()).effect != CallEffect::Irreversible,
    }
}

/// Returns the rule that allows most of the allowed calls and none of the others, and how many it allows.
fn narrow_rule(tool: &CalledTool, answers: &ToolAnswers) -> Option<(NewRule, usize)> {
    let found = LikeCallConditions::find(&answers.allowed, &answers.denied, None)?;
    let rule = |(name, condition)| Some((name, argument_rule(condition)?));
    let rule = NewRule {
        decide: RuleDecision::Allow,
        application: tool.application.clone(),
        server: tool.server.clone(),
        tool: tool.name.clone(),
        arguments: found.permission.arguments.into_iter().map(rule).collect::<Option<_>>()?,
        other_arguments: Some(found.permission.other_arguments),
        ..NewRule::default()
    };
    Some((rule, found.calls))
}

/// Returns a condition as the rule editor has it.
fn argument_rule(condition: Value) -> Option<ArgumentRule> {
    if let Value::Array(_) = condition {
        return serde_json::from_value(condition).ok().map(ArgumentRule::OneOf);
    }
    let value = match condition.get("is")? {
        Value::String(text) => ScalarValue::Text(text.clone()),
        Value::Bool(is) => ScalarValue::Bool(*is),
        value => ScalarValue::Integer(value.as_i64()?),
    };
    Some(ArgumentRule::Is(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn maps(values: &[Value]) -> Vec<Map<String, Value>> {
        values.iter().map(|value| value.as_object().unwrap().clone()).collect()
    }

    fn proposed(allowed: &[Value], denied: &[Value]) -> Option<(Value, usize)> {
        let tool = CalledTool {
            application: "Cursor".to_owned(),
            server: "mail".to_owned(),
            name: "send".to_owned(),
        };
        let answers = ToolAnswers { allowed: maps(allowed), denied: maps(denied) };
        let (rule, count) = narrow_rule(&tool, &answers)?;
        // What is proposed can be read as a rule.
        let read = Policy::read(&rule.to_toml(), &hospes_policy::PolicyEnvironment::default()).unwrap();
        let conditions = read.rules()[0].conditions();
        assert!(conditions.contains(&("other_arguments".to_owned(), "none".to_owned())), "{conditions:?}");
        Some((json!(rule.arguments), count))
    }

    fn mail(to: &str, body: &str) -> Value {
        json!({ "to": to, "body": body })
    }

    #[test]
    fn equal_answers_become_a_rule_for_exactly_these_values() {
        let same = vec![mail("a@x.example", "hi"); 3];
        let exact = json!({ "to": { "is": "a@x.example" }, "body": { "is": "hi" } });
        assert_eq!(proposed(&same, &[]), Some((exact.clone(), 3)));
        assert_eq!(proposed(&same[..2], &[]), None, "two are too few");
        // Another call that was denied changes nothing; one of these does.
        assert_eq!(proposed(&same, &[mail("e@x.example", "hi")]), Some((exact, 3)));
        assert_eq!(proposed(&same, &[mail("a@x.example", "hi")]), None);
    }

    #[test]
    fn one_argument_may_vary_among_allowed_values() {
        let allowed = [mail("a@x.example", "hi"), mail("b@x.example", "hi"), mail("c@x.example", "hi")];
        let (rule, count) = proposed(&allowed, &[mail("e@x.example", "hi")]).unwrap();
        assert_eq!(rule["to"], json!({ "one_of": ["a@x.example", "b@x.example", "c@x.example"] }));
        assert_eq!((count, &rule["body"]), (3, &json!({ "is": "hi" })));
    }

    /// Two arguments that vary would allow combinations that nobody has allowed.
    #[test]
    fn no_combination_is_allowed_that_was_not() {
        let allowed = [mail("a@x.example", "1"), mail("b@x.example", "2"), mail("c@x.example", "3")];
        assert_eq!(proposed(&allowed, &[]), None);
    }

    #[test]
    fn no_rule_is_proposed_that_the_organisation_would_overrule() {
        let tool = CalledTool {
            application: "Cursor".to_owned(),
            server: "mail".to_owned(),
            name: "send".to_owned(),
        };
        let answers = ToolAnswers { allowed: vec![Map::new()], denied: Vec::new() };
        let environment = hospes_policy::PolicyEnvironment::default();
        let user = Policy::read("[[rule]]\ndecide = 'ask'", &environment).unwrap();
        let environment = environment.of_layer(hospes_policy::PolicyLayer::Organization);
        for (rule, expected) in [
            ("decide = 'ask'", false),
            ("decide = 'deny'", false),
            ("decide = 'ask'\ndelegable = true", true),
            ("decide = 'allow'", true),
            ("decide = 'ask'\nserver = 'git'", true),
        ] {
            let organization = Policy::read(&format!("[[rule]]\n{rule}"), &environment).unwrap();
            let policy = user.clone().below(organization);
            assert_eq!(is_useful(&policy, &tool, &answers, &ToolEffects::default()), expected, "{rule}");
        }
    }

    #[test]
    fn values_without_a_narrow_condition_propose_nothing() {
        for value in [json!("x".repeat(201)), json!({ "a": 1 }), json!([1]), json!(1.5), json!(null)] {
            let call = json!({ "to": value, "body": "hi" });
            assert_eq!(proposed(&vec![call.clone(); 3], &[]), None, "{value}");
        }
        let patterns = [mail("a*", "hi"), mail("b", "hi"), mail("c", "hi")];
        assert_eq!(proposed(&patterns, &[]), None, "a pattern means more than itself");
        assert_eq!(proposed(&vec![json!({ "a.b": 1 }); 3], &[]), None);
    }
}
