use std::fmt;

use jiff::Timestamp;

use crate::action::{PolicyAction, PolicyActionKind, PolicyRequest};
use crate::approvers::RequiredApprovers;
use crate::arguments::ArgumentPointer;
use crate::condition::ArgumentCondition;
use crate::destination_pattern::DestinationPattern;
use crate::effects::{RequiredEffects, ToolEffectSet};
use crate::layer::PolicyLayer;
use crate::paths::TextReadings;
use crate::pattern::{AmbiguityBias, TextPatterns};
use crate::selector::RuleSelector;
use crate::strings::{self, DestinationMatch};
use crate::verdict::{DecisionReason, PolicyDecision, PolicyVerdict};

mod parse;

/// A rule of a policy.
#[derive(Clone, Debug)]
pub struct PolicyRule {
    layer: PolicyLayer,
    number: usize,
    line: usize,
    decision: PolicyDecision,
    name: Option<String>,
    reason: Option<String>,
    about: Option<Vec<PolicyActionKind>>,
    server: Option<TextPatterns>,
    tool: Option<TextPatterns>,
    prompt: Option<TextPatterns>,
    resource: Option<TextPatterns>,
    application: Option<TextPatterns>,
    principal: Option<TextPatterns>,
    group: Option<TextPatterns>,
    effects: Option<RequiredEffects>,
    arguments: Vec<(String, ArgumentPointer, ArgumentCondition)>,
    /// Names of the arguments that a call may have besides those with a condition. `None` for any.
    other_arguments: Option<Vec<String>>,
    destinations: Option<Vec<DestinationPattern>>,
    until: Option<(String, Timestamp)>,
    strong: bool,
    remember: bool,
    /// People who decide in place of the caller.
    approvers: Option<RequiredApprovers>,
    review: bool,
    /// True if a rule of a lower layer may loosen this one.
    delegable: bool,
}

/// The first condition of a rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnmetCondition {
    /// Key of the condition.
    pub key: String,
    /// Required value.
    pub wanted: String,
}

/// Match of a rule whose conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleFit {
    /// An unambiguous match.
    Whole,
    /// A possible match: readers disagree about what a string points to. Contains the reason.
    Unclear(String),
}

impl fmt::Display for UnmetCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.key, self.wanted)
    }
}

impl PolicyRule {
    /// Returns the layer of the file.
    #[must_use]
    pub fn layer(&self) -> PolicyLayer {
        self.layer
    }

    /// Returns true if a rule of the user's file may loosen this rule of the organisation's.
    #[must_use]
    pub fn is_delegable(&self) -> bool {
        self.delegable
    }

    /// Returns how texts refer to the rule: ``organisation's rule 2 (line 9) `name` ``.
    #[must_use]
    pub fn reference(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
        format!("{}rule {} (line {}){name}", self.layer.possessive(), self.number, self.line)
    }

    /// Returns the position in the file, from 1.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the line where the rule begins, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the decision of the rule.
    #[must_use]
    pub fn decision(&self) -> PolicyDecision {
        self.decision
    }

    /// Returns the name of the rule.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the reason of the rule. The model receives it if the rule denies.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Returns the conditions and options of the rule in words, as pairs of key and value.
    #[must_use]
    pub fn conditions(&self) -> Vec<(String, String)> {
        let patterns = [
            ("server", &self.server),
            ("tool", &self.tool),
            ("prompt", &self.prompt),
            ("resource", &self.resource),
            ("application", &self.application),
            ("principal", &self.principal),
            ("group", &self.group),
        ];
        let mut said: Vec<(String, String)> = Vec::new();
        let about = self.about.iter().flatten().map(ToString::to_string).collect::<Vec<_>>();
        if !about.is_empty() {
            said.push(("about".to_owned(), about.join(" or ")));
        }
        let patterns = patterns.into_iter().filter_map(|(key, patterns)| Some((key, patterns.as_ref()?)));
        said.extend(patterns.map(|(key, patterns)| (key.to_owned(), patterns.to_string())));
        if let Some(effects) = self.effects {
            let effects = [
                ("read_only", effects.read_only),
                ("destructive", effects.destructive),
                ("idempotent", effects.idempotent),
                ("open_world", effects.open_world),
            ];
            let effects = effects.into_iter().filter_map(|(key, is)| Some((format!("effects.{key}"), is?)));
            said.extend(effects.map(|(key, is)| (key, is.to_string())));
        }
        let arguments = self.arguments.iter();
        said.extend(arguments.map(|(key, _, condition)| (format!("arguments.{key}"), condition.to_string())));
        said.extend(self.described_others().map(|others| ("other_arguments".to_owned(), others)));
        let places = self.destinations.iter().flatten().map(ToString::to_string).collect::<Vec<_>>();
        if !places.is_empty() {
            said.push(("destinations".to_owned(), format!("at {}", places.join(" or "))));
        }
        said.extend(self.until.iter().map(|(until, _)| ("until".to_owned(), until.clone())));
        said.extend(self.approvers.iter().map(|approvers| ("approver".to_owned(), approvers.to_string())));
        let is_other = self.approvers.as_ref().is_some_and(RequiredApprovers::excludes_requester);
        let flags = [
            ("strong", self.strong, true),
            ("remember", !self.remember, false),
            ("not_self", is_other, true),
            ("review", self.review, true),
            ("delegable", self.delegable, true),
        ];
        said.extend(
            flags.iter().filter(|flag| flag.1).map(|(key, _, is)| ((*key).to_owned(), is.to_string())),
        );
        said
    }

    /// Returns true if the rule has a condition on the groups of the caller.
    #[must_use]
    pub fn has_groups(&self) -> bool {
        self.group.is_some()
    }

    /// Returns true if the rule names people who decide in place of the caller.
    #[must_use]
    pub fn has_approvers(&self) -> bool {
        self.approvers.is_some()
    }

    /// Returns the conditions on names of servers and their items.
    pub(crate) fn selector(&self) -> RuleSelector<'_> {
        RuleSelector {
            section: format!("rule {}", self.number),
            line: self.line,
            doubt: self.doubt(),
            server: self.server.as_ref(),
            tool: self.tool.as_ref(),
            prompt: self.prompt.as_ref(),
            effects: self.effects,
            arguments: &self.arguments,
        }
    }

    /// Returns true if the rule allows, and one of its destinations is this host without wildcards.
    pub(crate) fn allows_host(&self, host: &str) -> bool {
        self.decision == PolicyDecision::Allow
            && self.destinations.iter().flatten().any(|place| place.is_host(host))
    }

    /// Bias for ambiguous values: allow rules match less, deny rules match more.
    fn doubt(&self) -> AmbiguityBias {
        match self.decision {
            PolicyDecision::Allow => AmbiguityBias::Refuses,
            PolicyDecision::Ask | PolicyDecision::Deny => AmbiguityBias::Counts,
        }
    }

    /// Matches the rule, or returns the first condition that does not hold. `effects` are the trusted effects of the
    /// tool.
    pub(crate) fn fits(
        &self,
        asked: &PolicyRequest<'_>,
        effects: ToolEffectSet,
        now: Timestamp,
    ) -> Result<RuleFit, UnmetCondition> {
        let doubt = self.doubt();
        let one_of = |key: &str, patterns: &Option<TextPatterns>, text: Option<&str>| match patterns {
            Some(patterns) if !text.is_some_and(|text| patterns.fits(&TextReadings::new(text), doubt)) => {
                Err(UnmetCondition { key: key.to_owned(), wanted: patterns.to_string() })
            }
            _ => Ok(()),
        };
        if let Some((written, end)) = &self.until
            && now >= *end
        {
            return Err(UnmetCondition { key: "until".to_owned(), wanted: format!("to come: {written}") });
        }
        if let Some(about) = &self.about
            && !about.contains(&asked.action.kind())
        {
            let names: Vec<String> = about.iter().map(ToString::to_string).collect();
            return Err(UnmetCondition { key: "about".to_owned(), wanted: names.join(" or ") });
        }
        one_of("server", &self.server, Some(asked.server))?;
        let (tool, prompt, resource) = match asked.action {
            PolicyAction::Tool { name, .. } => (Some(name), None, None),
            PolicyAction::Prompt { name } => (None, Some(name), None),
            PolicyAction::Resource { uri } => (None, None, Some(uri)),
            _ => (None, None, None),
        };
        one_of("tool", &self.tool, tool)?;
        one_of("prompt", &self.prompt, prompt)?;
        one_of("resource", &self.resource, resource)?;
        one_of("application", &self.application, asked.application)?;
        one_of("principal", &self.principal, asked.principal)?;
        if let Some(patterns) = &self.group
            && !asked.groups.iter().any(|group| patterns.fits(&TextReadings::new(group), doubt))
        {
            return Err(UnmetCondition { key: "group".to_owned(), wanted: patterns.to_string() });
        }
        self.fits_call(&asked.action, effects, doubt)
    }

    /// Matches the conditions on a tool call.
    fn fits_call(
        &self,
        action: &PolicyAction<'_>,
        effects: ToolEffectSet,
        doubt: AmbiguityBias,
    ) -> Result<RuleFit, UnmetCondition> {
        let said = self.effects.map(|said| said.first_mismatch(effects));
        let call = match action {
            PolicyAction::Tool { arguments, .. } => Some(arguments),
            _ => None,
        };
        if let Some(said) = said {
            let first = if call.is_some() { said } else { Some(("effects", true)) };
            if let Some((effect, wanted)) = first {
                return Err(UnmetCondition { key: format!("effects.{effect}"), wanted: wanted.to_string() });
            }
        }
        for (key, way, condition) in &self.arguments {
            if !call.is_some_and(|arguments| condition.fits(&way.follow(arguments, doubt), doubt)) {
                return Err(UnmetCondition {
                    key: format!("arguments.{key}"),
                    wanted: condition.to_string(),
                });
            }
        }
        if let Some(others) = self.described_others()
            && !call.is_some_and(|arguments| arguments.has_only(&self.argument_names(), doubt))
        {
            return Err(UnmetCondition { key: "other_arguments".to_owned(), wanted: others });
        }
        // Last, because it needs all readings of all strings.
        let Some(places) = &self.destinations else { return Ok(RuleFit::Whole) };
        let standing = match action {
            PolicyAction::Tool { strings, arguments, .. } => {
                strings::match_destinations(places, strings.of(arguments), doubt)
            }
            PolicyAction::Resource { uri } => {
                strings::match_destinations(places, &strings::collect_uri_strings(uri), doubt)
            }
            _ => DestinationMatch::Elsewhere(None),
        };
        match standing {
            DestinationMatch::There => Ok(RuleFit::Whole),
            DestinationMatch::Unclear(why) => Ok(RuleFit::Unclear(why)),
            DestinationMatch::Elsewhere(why) => {
                let places: Vec<String> = places.iter().map(ToString::to_string).collect();
                let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
                Err(UnmetCondition {
                    key: "destinations".to_owned(),
                    wanted: format!("at {}{why}", places.join(" or ")),
                })
            }
        }
    }

    /// Returns the names of the arguments that the rule mentions.
    fn argument_names(&self) -> impl Iterator<Item = &str> + Clone {
        let with_condition = self.arguments.iter().filter_map(|(_, pointer, _)| pointer.first());
        with_condition.chain(self.other_arguments.iter().flatten().map(String::as_str))
    }

    /// Returns the value of `other_arguments` in words, if the rule has it.
    fn described_others(&self) -> Option<String> {
        let names: Vec<String> =
            self.other_arguments.as_ref()?.iter().map(|name| format!("`{name}`")).collect();
        Some(if names.is_empty() { "none".to_owned() } else { format!("only {}", names.join(" or ")) })
    }

    /// Returns the verdict if the rule matches. A call that a deny rule may match is never made without asking.
    pub(crate) fn verdict_of(&self, fit: RuleFit) -> PolicyVerdict {
        let verdict = self.verdict();
        match fit {
            RuleFit::Unclear(why) if self.decision == PolicyDecision::Deny => PolicyVerdict {
                decision: PolicyDecision::Ask,
                because: DecisionReason::Unclear { rule: Box::new(verdict.because), why },
                may_remember: false,
                ..verdict
            },
            _ => verdict,
        }
    }

    fn verdict(&self) -> PolicyVerdict {
        PolicyVerdict {
            decision: self.decision,
            because: DecisionReason::Rule {
                layer: self.layer,
                number: self.number,
                line: self.line,
                name: self.name.clone(),
                reason: self.reason.clone(),
            },
            // What others have approved is one call, which the caller cannot make again.
            may_remember: self.decision == PolicyDecision::Ask && self.remember && self.approvers.is_none(),
            strong: self.strong || self.approvers.is_some(),
            approvers: self.approvers.clone(),
            review: self.review,
            flow: None,
            guard: None,
        }
    }
}
