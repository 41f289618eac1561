//! Layers of a policy: an organisation's above the user's, which can only tighten it.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::{Policy, PolicyExplanation, RuleEvaluation};
use crate::action::{PolicyAction, PolicyRequest};
use crate::effects::ToolEffectSet;
use crate::flow::DataFlowPolicy;
use crate::preset::Preset;
use crate::rule::{PolicyRule, UnmetCondition};
use crate::verdict::{DecisionReason, PolicyDecision, PolicyVerdict};

/// Explanation of an organisation's policy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OrganizationExplanation<'p> {
    /// Evaluated rules in order. Only the last one can have matched.
    pub steps: Vec<RuleEvaluation<'p>>,
    /// Verdict of the rule that matches. `None` if none does, so that the user's policy decides.
    pub verdict: Option<PolicyVerdict>,
    /// Verdict of the user's policy. `None` if there is none.
    pub user: Option<PolicyVerdict>,
    /// True if a rule of the user decides, because that of the organisation is `delegable`.
    pub is_delegated: bool,
}

impl OrganizationExplanation<'_> {
    /// Returns the decision that no rule of the user can loosen. `None` if no rule of the organisation matches, or if it is
    /// `delegable`.
    #[must_use]
    pub fn binding_decision(&self) -> Option<PolicyDecision> {
        let is_delegable = self.steps.last().is_some_and(|step| step.rule.is_delegable());
        self.verdict.as_ref().filter(|_| !is_delegable).map(|verdict| verdict.decision)
    }
}

/// Decision of one layer.
struct LayerDecision<'p> {
    /// The rule that matches. `None` if the default decides.
    rule: Option<&'p PolicyRule>,
    verdict: PolicyVerdict,
}

impl Policy {
    /// Puts this policy of a user below that of an organisation, read with
    /// [`PolicyLayer::Organization`](crate::PolicyLayer::Organization). This one can only tighten it.
    #[must_use]
    pub fn below(mut self, organization: Self) -> Self {
        let mut hash = Sha256::new_with_prefix(self.version);
        hash.update(organization.version);
        self.version = hash.finalize().into();
        self.organization = Some(Arc::new(organization));
        self
    }

    /// Makes the policy of an organisation decide alone, with its defaults.
    #[must_use]
    pub fn alone(organization: Self) -> Self {
        Self { is_empty_layer: true, ..Self::without_rules() }.below(organization)
    }

    /// Returns the policy of the organisation, if there is one.
    #[must_use]
    pub fn organization(&self) -> Option<&Self> {
        self.organization.as_deref()
    }

    /// Layers that say something, the organisation's first.
    fn layers(&self) -> impl Iterator<Item = &Self> {
        self.organization().into_iter().chain((!self.is_empty_layer).then_some(self))
    }

    /// Decides on a request.
    #[must_use]
    pub fn decide(&self, asked: &PolicyRequest<'_>, now: Timestamp) -> PolicyVerdict {
        let Some(organization) = self.organization() else {
            return self.decide_alone(asked, now, |_, _| ()).verdict;
        };
        let higher = organization.decide_alone(asked, now, |_, _| ());
        if self.is_empty_layer {
            return higher.verdict;
        }
        self.decide_alone(asked, now, |_, _| ()).below(higher)
    }

    /// Decides on a request and explains the decision rule by rule.
    #[must_use]
    pub fn explain(&self, asked: &PolicyRequest<'_>, now: Timestamp) -> PolicyExplanation<'_> {
        let (steps, own) = self.explain_alone(asked, now);
        let Some(organization) = self.organization() else {
            return PolicyExplanation { steps, verdict: own.verdict, organization: None };
        };
        let (organization_steps, higher) = organization.explain_alone(asked, now);
        let explanation = OrganizationExplanation {
            steps: organization_steps,
            verdict: higher.rule.map(|_| higher.verdict.clone()),
            user: (!self.is_empty_layer).then(|| own.verdict.clone()),
            is_delegated: own.is_delegated_by(&higher),
        };
        let verdict = if self.is_empty_layer { higher.verdict } else { own.below(higher) };
        PolicyExplanation { steps, verdict, organization: Some(explanation) }
    }

    /// Returns true if the rule that decides on a request allows it and names the host, without wildcards, among its
    /// destinations. A matching rule of the organisation does so, too.
    #[must_use]
    pub fn allows_host(&self, asked: &PolicyRequest<'_>, host: &str, now: Timestamp) -> bool {
        let decided: Vec<LayerDecision<'_>> =
            self.layers().map(|layer| layer.decide_alone(asked, now, |_, _| ())).collect();
        let names = |decision: &LayerDecision<'_>| decision.rule.is_some_and(|rule| rule.allows_host(host));
        match decided.as_slice() {
            [higher, own] if higher.rule.is_some() && !own.is_delegated_by(higher) => {
                names(higher) && names(own)
            }
            [.., last] => names(last),
            [] => false,
        }
    }

    /// Returns true if the annotations of the server are trusted: every layer with the key `trusted` lists it.
    #[must_use]
    pub fn trusts(&self, server: &str) -> bool {
        let lists: Vec<&Self> = self.layers().filter(|layer| layer.trusted.is_some()).collect();
        !lists.is_empty() && lists.iter().all(|layer| layer.lists_as_trusted(server))
    }

    /// Returns true if the file of this layer lists the server as trusted.
    pub(crate) fn lists_as_trusted(&self, server: &str) -> bool {
        self.trusted().iter().any(|trusted| trusted == server)
    }

    /// Returns true if a value is one of the person's own addresses (`me@x.example`), domains (`@x.example`) and
    /// accounts: in every layer with the key `own`, an entry satisfies the condition.
    #[must_use]
    pub fn is_own(&self, is_entry: impl Fn(&str) -> bool) -> bool {
        let lists: Vec<&Vec<String>> = self.layers().filter_map(|layer| layer.own.as_ref()).collect();
        !lists.is_empty() && lists.iter().all(|own| own.iter().any(|entry| is_entry(entry)))
    }

    /// Setting for sessions that have read private data and untrusted text: the strictest of the layers. The
    /// organisation's file counts if it has the key, or alone.
    #[must_use]
    pub fn data_flow(&self) -> DataFlowPolicy {
        match self.organization() {
            None => self.data_flow,
            Some(organization) if self.is_empty_layer => organization.data_flow,
            Some(organization) if organization.sets_data_flow => {
                self.data_flow.stricter(organization.data_flow)
            }
            Some(_) => self.data_flow,
        }
    }

    /// Preset of the guard, if a layer has one: the strictest.
    #[must_use]
    pub fn preset(&self) -> Option<Preset> {
        self.layers().filter_map(|layer| layer.preset).min()
    }

    /// Returns true if several calls can be approved as one plan: with the key `plans` and a preset, unless the
    /// organisation's file forbids it.
    #[must_use]
    pub fn allows_plans(&self) -> bool {
        let allows = |layer: &Self| layer.plans == Some(true) && layer.preset.is_some();
        match self.organization() {
            Some(organization) if self.is_empty_layer => allows(organization),
            Some(organization) => allows(self) && organization.plans != Some(false),
            None => allows(self),
        }
    }

    /// Returns true if the built-in labels of well-known servers apply: as the organisation's file says, else as the
    /// user's does. By default they do with a preset.
    #[must_use]
    pub fn uses_built_in_labels(&self) -> bool {
        let said = self.layers().find_map(|layer| layer.built_in_labels);
        said.unwrap_or_else(|| self.preset().is_some())
    }

    fn explain_alone<'p>(
        &'p self,
        asked: &PolicyRequest<'_>,
        now: Timestamp,
    ) -> (Vec<RuleEvaluation<'p>>, LayerDecision<'p>) {
        let mut steps = Vec::new();
        let decision = self.decide_alone(asked, now, |rule, miss| steps.push(RuleEvaluation { rule, miss }));
        (steps, decision)
    }

    /// Decides by the rules of this layer, which get the effects that its own list trusts.
    fn decide_alone<'p>(
        &'p self,
        asked: &PolicyRequest<'_>,
        now: Timestamp,
        mut evaluated: impl FnMut(&'p PolicyRule, Option<UnmetCondition>),
    ) -> LayerDecision<'p> {
        let effects = match asked.action {
            PolicyAction::Tool { effects, .. } if self.lists_as_trusted(asked.server) => effects,
            _ => ToolEffectSet::unknown(),
        };
        for rule in &self.rules {
            match rule.fits(asked, effects, now) {
                Err(miss) => evaluated(rule, Some(miss)),
                Ok(fit) => {
                    evaluated(rule, None);
                    return LayerDecision { rule: Some(rule), verdict: rule.verdict_of(fit) };
                }
            }
        }
        LayerDecision { rule: None, verdict: self.default_verdict(&asked.action, effects) }
    }
}

impl LayerDecision<'_> {
    /// Returns true if this decision of a user counts instead of the organisation's. A default loosens nothing.
    fn is_delegated_by(&self, organization: &LayerDecision<'_>) -> bool {
        self.rule.is_some() && organization.rule.is_some_and(PolicyRule::is_delegable)
    }

    /// Returns the strictest verdict of a user's decision and the organisation's. An organisation without a matching rule
    /// constrains nothing.
    fn below(self, organization: LayerDecision<'_>) -> PolicyVerdict {
        if organization.rule.is_none() || self.is_delegated_by(&organization) {
            return self.verdict;
        }
        let (own, higher) = (self.verdict, organization.verdict);
        let decision = own.decision.max(higher.decision);
        let all_remember = [&own, &higher]
            .into_iter()
            .all(|verdict| verdict.decision != PolicyDecision::Ask || verdict.may_remember);
        let is_denied = decision == PolicyDecision::Deny;
        // Whoever decides is one whom each layer names: the user's file can neither replace nor add approvers.
        let approvers = match (own.approvers.clone(), higher.approvers.clone()) {
            (Some(own), Some(higher)) => Some(higher.and(own)),
            (own, higher) => higher.or(own),
        };
        let (strong, review) = (own.strong || higher.strong, own.review || higher.review);
        // Of two that restrict alike, the rule that the user cannot change says more. What allows is the user's rule, if
        // there is one.
        let names_own = own.decision > higher.decision
            || decision == PolicyDecision::Allow && matches!(own.because, DecisionReason::Rule { .. });
        let deciding = if names_own { own } else { higher };
        PolicyVerdict {
            may_remember: decision == PolicyDecision::Ask && all_remember,
            strong: strong && !is_denied,
            approvers: approvers.filter(|_| !is_denied),
            review: review && !is_denied,
            ..deciding
        }
    }
}

impl fmt::Display for PolicyExplanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let organization = self.organization.iter().flat_map(|organization| &organization.steps);
        for RuleEvaluation { rule, miss } in organization.chain(&self.steps) {
            f.write_str(&rule.reference())?;
            match miss {
                Some(miss) => writeln!(f, ": {miss}")?,
                None => writeln!(f, ": fits")?,
            }
        }
        write!(f, "{}: {}", self.verdict.decision, self.verdict.because)
    }
}

#[cfg(test)]
mod tests;
