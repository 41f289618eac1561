mod labelling;
mod layers;

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::action::PolicyAction;
use crate::arguments::CallArgumentsError;
use crate::document::{MistakeReport, TableSection, line_of};
use crate::effects::ToolEffectSet;
use crate::file::{PolicyEnvironment, PolicyError};
use crate::flow::{DataFlowPolicy, FlowLabels, LabelRule, SessionFlow};
use crate::preset::{GuardCause, Preset};
use crate::rule::{PolicyRule, UnmetCondition};
use crate::selector::RuleSelector;
use crate::verdict::{DecisionReason, DefaultReason, PolicyDecision, PolicyVerdict};

pub use labelling::{LabelSource, LabelSources};
pub use layers::OrganizationExplanation;

/// Keys of rules and labels that may have been written at the top level of the file.
const MISPLACED_RULE_KEYS: [(&str, &str); 10] = [
    ("decide", IN_A_RULE),
    ("server", IN_A_RULE),
    ("tool", IN_A_RULE),
    ("arguments", IN_A_RULE),
    ("other_arguments", IN_A_RULE),
    ("destinations", IN_A_RULE),
    ("effects", IN_A_RULE),
    ("group", IN_A_RULE),
    ("approver", IN_A_RULE),
    ("not_self", IN_A_RULE),
];

/// Place where the keys of a rule belong.
const IN_A_RULE: &str = "in a rule, below a line `[[rule]]`";

/// A policy: ordered rules, and defaults if no rule matches.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Vec<PolicyRule>,
    /// Servers whose annotations are trusted. `None` if the file does not say.
    trusted: Option<Vec<String>>,
    /// Line of `trusted`, from 1, or 0 if it is absent.
    trusted_line: usize,
    data_flow: DataFlowPolicy,
    /// True if the file has the key `data_flow`.
    sets_data_flow: bool,
    /// Preset of the guard. `None` if the file names none: its rules and `data_flow` decide alone.
    preset: Option<Preset>,
    /// Setting by which several calls can be approved as one plan. `None` if the file does not say: they cannot.
    plans: Option<bool>,
    /// The person's own addresses, domains and accounts. `None` if the file does not say.
    own: Option<Vec<String>>,
    /// Whether the built-in labels apply. `None` if the file does not say: they do with a preset.
    built_in_labels: Option<bool>,
    labels: Vec<LabelRule>,
    version: [u8; 32],
    /// Policy of the organisation, which this one cannot loosen.
    organization: Option<Arc<Self>>,
    /// True if this layer is empty, and the organisation's policy decides alone.
    is_empty_layer: bool,
}

/// A decision and its explanation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PolicyExplanation<'p> {
    /// Evaluated rules in order. Only the last one can have matched. With an organisation's policy, they are the rules of
    /// the user's file.
    pub steps: Vec<RuleEvaluation<'p>>,
    /// Resulting verdict.
    pub verdict: PolicyVerdict,
    /// Explanation of the organisation's policy, if there is one.
    pub organization: Option<OrganizationExplanation<'p>>,
}

/// Evaluation of one rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuleEvaluation<'p> {
    /// The rule.
    pub rule: &'p PolicyRule,
    /// First condition that does not hold. `None` if the rule matches.
    pub miss: Option<UnmetCondition>,
}

impl Policy {
    /// Creates a policy without rules, in which the defaults apply.
    #[must_use]
    pub fn without_rules() -> Self {
        Self {
            rules: Vec::new(),
            trusted: None,
            trusted_line: 0,
            data_flow: DataFlowPolicy::default(),
            sets_data_flow: false,
            preset: None,
            plans: None,
            own: None,
            built_in_labels: None,
            labels: Vec::new(),
            version: Sha256::digest([]).into(),
            organization: None,
            is_empty_layer: false,
        }
    }

    /// Creates the policy that applies without a policy file: this preset and plans, no rules and no labels.
    #[must_use]
    pub fn of_preset(preset: Preset) -> Self {
        Self {
            data_flow: DataFlowPolicy::Off,
            preset: Some(preset),
            plans: Some(true),
            version: Sha256::digest(preset.to_string()).into(),
            ..Self::without_rules()
        }
    }

    /// Replaces the preset of the policy, for the option `--preset`.
    #[must_use]
    pub fn with_preset(mut self, preset: Preset) -> Self {
        self.preset = Some(preset);
        let mut hash = Sha256::new_with_prefix(self.version);
        hash.update(preset.to_string());
        self.version = hash.finalize().into();
        self
    }

    /// Removes the preset of the policy, for the option `--preset off`.
    #[must_use]
    pub fn without_preset(mut self) -> Self {
        self.preset = None;
        self
    }

    /// Parses the text of a policy file.
    ///
    /// # Errors
    /// [`PolicyError`] with all mistakes and their positions: invalid TOML, unknown keys and values, values of the
    /// wrong type, and rules and labels that can never match or have no effect.
    pub fn read(text: &str, reading: &PolicyEnvironment) -> Result<Self, PolicyError> {
        let mut report = MistakeReport::new(text);
        let Some(file) = report.parse() else {
            // There is a mistake to report, so this never returns a policy without rules.
            return report.finish().map(|()| Self::without_rules());
        };
        let mut top = TableSection::new(None, 0, file.get_ref());
        let trusted = top.names("trusted", &mut report);
        let trusted_line = top.value("trusted").map_or(0, |value| line_of(text, value.span().start));
        let preset = top.word("preset", Preset::WORDS, &mut report);
        let plans = top.boolean("plans", &mut report);
        let own = top.names("own", &mut report);
        let built_in_labels = top.boolean("built_in_labels", &mut report);
        // A preset weighs what a session has read by itself.
        let written_flow = top.word("data_flow", DataFlowPolicy::WORDS, &mut report);
        let data_flow = match preset {
            Some(_) => written_flow.unwrap_or(DataFlowPolicy::Off),
            None => written_flow.unwrap_or_default(),
        };
        let (mut rules, mut labels) = (Vec::new(), Vec::new());
        for mut one in top.tables("rule", &mut report) {
            let place = (one.number, line_of(text, one.at));
            rules.extend(PolicyRule::parse(place, &mut one.section, reading, &mut report));
        }
        for mut one in top.tables("label", &mut report) {
            let place = (one.number, line_of(text, one.at));
            labels.extend(LabelRule::parse(place, &mut one.section, &mut report));
        }
        top.reject_unknown_keys(&MISPLACED_RULE_KEYS, &mut report);
        report.finish()?;
        let version = Sha256::digest(text).into();
        Ok(Self {
            rules,
            trusted,
            trusted_line,
            data_flow,
            sets_data_flow: written_flow.is_some(),
            preset,
            plans,
            own,
            built_in_labels,
            labels,
            version,
            organization: None,
            is_empty_layer: false,
        })
    }

    /// Returns the rules of the file in order. Those of an organisation's policy are not among them.
    #[must_use]
    pub fn rules(&self) -> &[PolicyRule] {
        &self.rules
    }

    pub(crate) fn trusted_line(&self) -> usize {
        self.trusted_line
    }

    /// Selectors of all rules and labels, each in the order of the file.
    pub(crate) fn selectors(&self) -> impl Iterator<Item = RuleSelector<'_>> {
        self.rules.iter().map(PolicyRule::selector).chain(self.labels.iter().map(LabelRule::selector))
    }

    /// Returns the names of servers whose annotations the file trusts.
    #[must_use]
    pub fn trusted(&self) -> &[String] {
        self.trusted.as_deref().unwrap_or_default()
    }

    /// Returns the SHA-256 hash of the policy text and of the organisation's. An approval is valid only for the version it
    /// was given under.
    #[must_use]
    pub fn version(&self) -> &[u8; 32] {
        &self.version
    }

    /// Applies the data flow of a session to a verdict. A call with these labels that could send private data out needs
    /// an approval each time. Denied calls stay denied.
    #[must_use]
    pub fn apply_data_flow(
        &self,
        mut verdict: PolicyVerdict,
        labels: FlowLabels,
        flow: SessionFlow,
    ) -> PolicyVerdict {
        let is_of_no_concern =
            self.data_flow() == DataFlowPolicy::Off || !labels.outbound || !flow.is_tainted();
        if is_of_no_concern || verdict.decision == PolicyDecision::Deny {
            return verdict;
        }
        if verdict.decision == PolicyDecision::Allow {
            verdict.decision = PolicyDecision::Ask;
            verdict.because = DecisionReason::Flow(Box::new(verdict.because));
        }
        // A lasting permission was given before this data was read.
        verdict.may_remember = false;
        verdict.strong |= self.data_flow() == DataFlowPolicy::Strong;
        verdict.flow = Some(flow);
        verdict
    }

    /// Asks about a call for this cause, whatever allows it. Denied calls stay denied.
    #[must_use]
    pub fn apply_guard(&self, mut verdict: PolicyVerdict, cause: GuardCause) -> PolicyVerdict {
        if verdict.decision == PolicyDecision::Deny {
            return verdict;
        }
        if verdict.decision == PolicyDecision::Allow {
            verdict.decision = PolicyDecision::Ask;
            verdict.because = DecisionReason::Guard(cause);
        }
        // A lasting permission was given before this was read.
        verdict.may_remember = false;
        verdict.guard = Some(cause);
        verdict
    }

    /// Refuses a call for a reason that a check of its arguments found, whatever allows it.
    #[must_use]
    pub fn refuse_by_check(&self, mut verdict: PolicyVerdict, why: String) -> PolicyVerdict {
        verdict.decision = PolicyDecision::Deny;
        verdict.approvers = None;
        verdict.because = DecisionReason::Check(why);
        verdict
    }

    /// Verdict on arguments that have more than one reading; no rule is evaluated.
    #[must_use]
    pub fn deny_unreadable(error: &CallArgumentsError) -> PolicyVerdict {
        PolicyVerdict {
            decision: PolicyDecision::Deny,
            because: DecisionReason::Unreadable(error.to_string()),
            may_remember: false,
            strong: false,
            approvers: None,
            review: false,
            flow: None,
            guard: None,
        }
    }

    /// Returns the verdict if no rule matches. With a preset, a tool call is allowed as far as the preset does not ask.
    fn default_verdict(&self, action: &PolicyAction<'_>, effects: ToolEffectSet) -> PolicyVerdict {
        let mut verdict = default_verdict(action, effects);
        if self.preset.is_some() && matches!(action, PolicyAction::Tool { .. }) {
            verdict.decision = PolicyDecision::Allow;
            verdict.because = DecisionReason::Ordinary(DefaultReason::Preset);
            verdict.may_remember = false;
        }
        verdict
    }
}

/// Default verdict if no rule matches.
fn default_verdict(action: &PolicyAction<'_>, effects: ToolEffectSet) -> PolicyVerdict {
    let (decision, ordinary) = match action {
        PolicyAction::Tool { .. } if effects.read_only && !effects.open_world => {
            (PolicyDecision::Allow, DefaultReason::Harmless)
        }
        PolicyAction::Tool { .. } if effects.destructive && effects.open_world => {
            (PolicyDecision::Ask, DefaultReason::Dangerous)
        }
        PolicyAction::Tool { .. } => (PolicyDecision::Ask, DefaultReason::Tool),
        PolicyAction::Prompt { .. } | PolicyAction::Resource { .. } => {
            (PolicyDecision::Allow, DefaultReason::Fetched)
        }
        PolicyAction::Sampling | PolicyAction::Roots => (PolicyDecision::Ask, DefaultReason::Wanted),
        PolicyAction::Elicitation => (PolicyDecision::Allow, DefaultReason::Question),
    };
    PolicyVerdict {
        decision,
        because: DecisionReason::Ordinary(ordinary),
        may_remember: decision == PolicyDecision::Ask && ordinary != DefaultReason::Dangerous,
        strong: false,
        approvers: None,
        review: false,
        flow: None,
        guard: None,
    }
}

#[cfg(test)]
mod tests;
