//! The effect of a rule on recorded calls.

use std::collections::HashMap;

use hospes_policy::{
    CallArguments, OrganizationExplanation, Policy, PolicyAction, PolicyDecision, PolicyExplanation,
    PolicyRequest, ToolEffectSet,
};
use hospes_store::{
    AuditEntry, AuditEntryKind, AuditLog, AuditOutcome, AuditQuery, DecisionBasis, StoreError,
};
use jiff::Timestamp;
use serde::Serialize;

use super::home::application_name;
use crate::console::Console;

/// An earlier rule that decides calls which the new rule is about.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct RuleConflict {
    pub(super) number: usize,
    line: usize,
    name: Option<String>,
    pub(super) decide: String,
    /// Number of the last calls that it decides instead of the new rule.
    calls: u64,
}

/// Effect of a rule on the last calls.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RuleEffect {
    /// Number of calls looked at.
    of: usize,
    /// Calls that a person would be asked about, and how they ended at the time.
    asked: u64,
    asked_allowed: u64,
    asked_denied: u64,
    /// Calls that would be allowed or denied without a question.
    allowed: u64,
    denied: u64,
    /// Calls of these that a rule of the organisation decides more strictly.
    organization: u64,
    /// Calls that the rule is not about.
    unchanged: u64,
    /// Calls of these that the rule decides until it is changed.
    pub(super) released: usize,
    /// True if the arguments of all calls are known, where the rule has conditions for them.
    pub(super) is_exact: bool,
    /// The calls that the rule would decide, the newest first.
    calls: Vec<AffectedCall>,
}

/// A call that a rule would decide.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct AffectedCall {
    seq: u64,
    at: Timestamp,
    application: Option<String>,
    server: String,
    subject: String,
    /// Outcome: `allowed`, `asked, allowed`, `asked, denied`, `missed`, `denied`.
    was: &'static str,
    /// Decision of the rule: `allow`, `ask` or `deny`.
    becomes: String,
}

/// Effects of the tools of all servers, as they say them.
#[derive(Default)]
pub(super) struct ToolEffects(HashMap<String, HashMap<String, ToolEffectSet>>);

impl ToolEffects {
    pub(super) fn new(console: &Console) -> Self {
        let servers = console.servers();
        let named = servers.status().servers.into_iter().map(|server| {
            let listing = servers.listing(&server.name).ok().flatten();
            let tools = listing.iter().flat_map(|listing| listing.tools.iter());
            let effects = tools.map(|tool| {
                (tool.name.clone(), ToolEffectSet::from_annotations(tool.annotations.as_deref()))
            });
            (server.name, effects.collect())
        });
        Self(named.collect())
    }

    pub(super) fn of(&self, server: &str, tool: &str) -> ToolEffectSet {
        let found = self.0.get(server).and_then(|tools| tools.get(tool));
        found.copied().unwrap_or_else(ToolEffectSet::unknown)
    }
}

/// A call of the audit log.
pub(super) struct RecordedCall {
    pub(super) seq: u64,
    pub(super) entry: AuditEntry,
    /// Arguments as JSON, where they are recorded.
    pub(super) arguments: Option<String>,
}

impl RecordedCall {
    /// Reads the last calls, the newest first.
    pub(super) async fn last(audit: &AuditLog, limit: usize) -> Result<Vec<Self>, StoreError> {
        Self::search(audit, AuditQuery::new().with_limit(limit)).await
    }

    /// Reads the calls of a query, the newest first. Calls that still wait are left out.
    pub(super) async fn search(audit: &AuditLog, query: AuditQuery) -> Result<Vec<Self>, StoreError> {
        let entries = audit.search(query.with_kind(AuditEntryKind::Call)).await?;
        let calls = entries.into_iter().map(|found| {
            let arguments = audit.unseal(&found.entry).ok().flatten();
            Self { seq: found.seq, arguments, entry: found.entry }
        });
        Ok(calls.filter(|call| call.entry.ending != Some(AuditOutcome::Asked)).collect())
    }

    /// Returns the name of the application that called.
    pub(super) fn application(&self) -> Option<&str> {
        self.entry.application.as_deref().map(application_name)
    }

    /// Returns how the call ended: `allowed`, `asked, allowed`, `asked, denied`, `missed`, `denied`.
    pub(super) fn outcome(&self) -> &'static str {
        let by_person = self.entry.basis == DecisionBasis::Person;
        match (self.entry.ending == Some(AuditOutcome::Refused), by_person) {
            _ if self.entry.is_asked() && !by_person => "missed",
            (true, true) => "asked, denied",
            (true, false) => "denied",
            (false, true) => "asked, allowed",
            (false, false) => "allowed",
        }
    }
}

impl RuleEffect {
    /// Counts what the rule would have decided, and the earlier rules that decide calls in its place. `earlier` are all
    /// rules and the number of the rule: those with a lower number come before it.
    pub(super) fn of(
        rule: &Policy,
        earlier: Option<(&Policy, usize)>,
        calls: &[RecordedCall],
        effects: &ToolEffects,
    ) -> (Self, Vec<RuleConflict>) {
        let mut found = Self { of: calls.len(), ..Self::default() };
        let mut conflicts = Vec::new();
        calls.iter().for_each(|call| found.add(call, rule, earlier, effects, &mut conflicts));
        (found, conflicts)
    }

    /// Returns the number of calls that are decided in `before` and not in this.
    pub(super) fn lost(&self, before: &Self) -> usize {
        let is_kept = |seq: u64| self.calls.iter().any(|call| call.seq == seq);
        before.calls.iter().filter(|call| !is_kept(call.seq)).count()
    }

    fn add(
        &mut self,
        call: &RecordedCall,
        rule: &Policy,
        earlier: Option<(&Policy, usize)>,
        effects: &ToolEffects,
        conflicts: &mut Vec<RuleConflict>,
    ) {
        let now = Timestamp::now();
        let entry = &call.entry;
        let arguments = CallArguments::read(call.arguments.as_deref().unwrap_or("{}"));
        let (Some(server), Some(subject), Ok(arguments)) =
            (entry.server.as_deref(), entry.subject.as_deref(), arguments)
        else {
            self.unchanged += 1;
            return;
        };
        let action = PolicyAction::tool(subject, effects.of(server, subject), &arguments);
        let asked = PolicyRequest::new(server, action)
            .with_application(call.application())
            .with_principal(entry.principal.as_deref());
        let explained = rule.explain(&asked, now);
        if explained.steps.last().is_none_or(|step| step.miss.is_some()) {
            self.unchanged += 1;
            return;
        }
        let (first, binding) = earlier.map_or((None, None), |(all, number)| {
            let all = all.explain(&asked, now);
            let binding = all.organization.as_ref().and_then(OrganizationExplanation::binding_decision);
            (conflict_of(&all).filter(|first| first.number < number), binding)
        });
        if let Some(first) = first {
            match conflicts.iter_mut().find(|one| one.number == first.number) {
                Some(one) => one.calls += 1,
                None => conflicts.push(first),
            }
            self.unchanged += 1;
            return;
        }
        let was = call.outcome();
        let written = explained.verdict.decision;
        let decision = binding.map_or(written, |binding| binding.max(written));
        self.organization += u64::from(decision != written);
        match decision {
            PolicyDecision::Allow => self.allowed += 1,
            PolicyDecision::Deny => self.denied += 1,
            PolicyDecision::Ask => {
                self.asked += 1;
                self.asked_allowed += u64::from(was.ends_with("allowed"));
                self.asked_denied += u64::from(!was.ends_with("allowed"));
            }
        }
        self.calls.push(AffectedCall {
            seq: call.seq,
            at: Timestamp::from_microsecond(entry.at).unwrap_or(Timestamp::MIN),
            application: call.application().map(str::to_owned),
            server: server.to_owned(),
            subject: subject.to_owned(),
            was,
            becomes: decision.to_string(),
        });
    }
}

/// Returns the rule of the user's file that matches, if one does.
fn conflict_of(explained: &PolicyExplanation<'_>) -> Option<RuleConflict> {
    let rule = explained.steps.last().filter(|step| step.miss.is_none())?.rule;
    Some(RuleConflict {
        number: rule.number(),
        line: rule.line(),
        name: rule.name().map(str::to_owned),
        decide: rule.decision().to_string(),
        calls: 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(
        server: &str,
        tool: &str,
        basis: DecisionBasis,
        ending: AuditOutcome,
        arguments: &str,
    ) -> RecordedCall {
        let mut entry = AuditEntry::new(AuditEntryKind::Call);
        (entry.server, entry.subject) = (Some(server.to_owned()), Some(tool.to_owned()));
        // Also the words of a permission and the names of rules may have this word.
        entry.by = Some("granted until the session ends by the person at the console".to_owned());
        (entry.basis, entry.ending) = (basis, Some(ending));
        entry.application = Some("Cursor 1.0".to_owned());
        RecordedCall { seq: 1, entry, arguments: Some(arguments.to_owned()) }
    }

    #[test]
    fn only_a_call_that_a_person_answered_counts_as_asked() {
        let outcome = |basis, ending| call("files", "write", basis, ending, "{}").outcome();
        let (done, refused) = (AuditOutcome::Done, AuditOutcome::Refused);
        for (basis, ending, expected) in [
            (DecisionBasis::Person, done, "asked, allowed"),
            (DecisionBasis::Person, refused, "asked, denied"),
            (DecisionBasis::Unanswered, refused, "missed"),
            (DecisionBasis::Unanswered, AuditOutcome::Cancelled, "missed"),
            (DecisionBasis::Grant, done, "allowed"),
            (DecisionBasis::Grant, refused, "denied"),
            (DecisionBasis::Program, done, "allowed"),
            (DecisionBasis::Rule, done, "allowed"),
            (DecisionBasis::Unknown, done, "allowed"),
        ] {
            assert_eq!(outcome(basis, ending), expected, "{basis:?} {ending:?}");
        }
    }

    #[test]
    fn the_effect_of_a_rule_is_counted_on_recorded_calls() {
        let (person, rule) = (DecisionBasis::Person, DecisionBasis::Rule);
        let calls = [
            call("files", "write", person, AuditOutcome::Done, r#"{"path":"/data/a"}"#),
            call("files", "write", person, AuditOutcome::Refused, r#"{"path":"/data/b"}"#),
            call("files", "write", rule, AuditOutcome::Done, r#"{"path":"/etc/c"}"#),
            call("mail", "send", rule, AuditOutcome::Done, "{}"),
        ];
        let read = |text: &str| Policy::read(text, &hospes_policy::PolicyEnvironment::default()).unwrap();
        let rule = read(
            "[[rule]]\ndecide = 'ask'\nserver = 'files'\napplication = 'Cursor'\narguments = { path = { under = '/data' } }",
        );
        let (found, conflicts) = RuleEffect::of(&rule, None, &calls, &ToolEffects::default());
        assert_eq!((found.of, found.asked, found.asked_allowed, found.asked_denied), (4, 2, 1, 1));
        assert_eq!((found.unchanged, found.calls.len()), (2, 2));
        assert_eq!((found.calls[0].was, &*found.calls[0].becomes), ("asked, allowed", "ask"));
        assert!(conflicts.is_empty());
        // An earlier rule decides all of them.
        let earlier = read("[[rule]]\nname = 'mine'\ndecide = 'deny'\nserver = 'files'");
        let behind =
            |number| RuleEffect::of(&rule, Some((&earlier, number)), &calls, &ToolEffects::default());
        let (hidden, conflicts) = behind(2);
        assert_eq!((hidden.asked, hidden.unchanged), (0, 4));
        assert_eq!((conflicts[0].number, conflicts[0].calls), (1, 2));
        assert_eq!(hidden.lost(&found), 2);
        // A rule of the organisation decides more strictly.
        let environment =
            hospes_policy::PolicyEnvironment::default().of_layer(hospes_policy::PolicyLayer::Organization);
        let organization = Policy::read("[[rule]]\ndecide = 'deny'", &environment).unwrap();
        let both = Policy::without_rules().below(organization);
        let (bound, _) = RuleEffect::of(&rule, Some((&both, 2)), &calls, &ToolEffects::default());
        assert_eq!((bound.asked, bound.denied, bound.organization), (0, 2, 2));
        // It does not come before the rule whose place this one has.
        let (found, conflicts) = behind(1);
        assert_eq!((found.asked, conflicts.len()), (2, 0));
    }
}
