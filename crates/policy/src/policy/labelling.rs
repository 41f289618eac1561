//! Labels of a request: by the policy file, by the built-in labels, or by what the server declares.

use std::fmt;

use super::Policy;
use crate::action::{PolicyAction, PolicyRequest};
use crate::flow::{CallEffect, FlowLabels, LabelPlace, ToolDescription, describe_tool, resolve_labels};
use crate::label_sets::{KnownLabels, ToolLabels};

/// Origin of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LabelSource {
    /// A label of the policy file.
    File(LabelPlace),
    /// The built-in labels of this package.
    Package(&'static str),
    /// The default: what the host knows about its own servers, and what a server declares.
    Default,
}

/// Origins of the labels of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever shows labels must not overlook one")]
pub struct LabelSources {
    /// Origin of `private`.
    pub private: LabelSource,
    /// Origin of `untrusted`.
    pub untrusted: LabelSource,
    /// Origin of `outbound`.
    pub outbound: LabelSource,
    /// Origin of `effect`.
    pub effect: LabelSource,
}

impl Policy {
    /// Returns true if the built-in labels of well-known servers apply. By default they do with a preset.
    #[must_use]
    pub fn uses_built_in_labels(&self) -> bool {
        self.built_in_labels.unwrap_or_else(|| self.preset.is_some())
    }

    /// Determines what is known about a tool beyond its labels.
    #[must_use]
    pub fn describe(&self, asked: &PolicyRequest<'_>, known: KnownLabels) -> ToolDescription {
        let mut description = describe_tool(&self.labels, asked);
        let is_believed = known.program.is_some() || self.trusts(asked.server);
        let set_effect = self.set_labels(asked, known).and_then(|set| set.effect);
        let default = self.default_labels(asked, known.program).effect;
        // What a person has accepted is described by the set. So is an effect that only the set raises: without it,
        // nobody would be asked in a conversation that has read no text of others.
        description.is_described |= set_effect.is_some_and(|effect| known.may_lower || effect > default);
        let claims_to_read = match asked.action {
            PolicyAction::Tool { name, effects, .. } => effects.claims_to_read(name),
            // Fetching one changes nothing.
            PolicyAction::Prompt { .. } | PolicyAction::Resource { .. } => true,
            _ => false,
        };
        if let PolicyAction::Tool { name, effects, .. } = asked.action {
            let is_raised = set_effect == Some(CallEffect::Irreversible);
            description.only_sends = effects.only_sends(name) && !is_raised;
        }
        // Once it is described, what it claims does not matter.
        description.claims_to_read = claims_to_read && !is_believed && !description.is_described;
        description.is_described |= is_believed;
        description
    }

    /// Determines the labels of an action, independent of its arguments. A label of the policy file decides, else the
    /// built-in labels, else the default. Declarations of a server count only if it is trusted.
    #[must_use]
    pub fn labels(&self, asked: &PolicyRequest<'_>, known: KnownLabels) -> FlowLabels {
        self.labels_with_sources(asked, known).0
    }

    /// Determines the labels of an action, and where each of them comes from.
    #[must_use]
    pub fn labels_with_sources(
        &self,
        asked: &PolicyRequest<'_>,
        known: KnownLabels,
    ) -> (FlowLabels, LabelSources) {
        let default = self.default_labels(asked, known.program);
        let set = self.set_labels(asked, known).map(|set| match asked.action {
            PolicyAction::Tool { effects, .. } => set.applied_to(default, effects, known.may_lower),
            _ => set,
        });
        let labels = set.map_or(default, |set| set.over(default));
        let file = resolve_labels(&self.labels, asked);
        let package = known.package.map_or("", |package| package.package());
        let source = |place: Option<LabelPlace>, is_in_set: Option<bool>| match (place, is_in_set) {
            (Some(place), _) => LabelSource::File(place),
            (None, Some(true)) => LabelSource::Package(package),
            _ => LabelSource::Default,
        };
        let sources = LabelSources {
            private: source(file.private.map(|label| label.1), set.map(|set| set.private.is_some())),
            untrusted: source(file.untrusted.map(|label| label.1), set.map(|set| set.untrusted.is_some())),
            outbound: source(file.outbound.map(|label| label.1), set.map(|set| set.outbound.is_some())),
            effect: source(file.effect.map(|label| label.1), set.map(|set| set.effect.is_some())),
        };
        let labels = FlowLabels {
            private: file.private.map_or(labels.private, |label| label.0),
            untrusted: file.untrusted.map_or(labels.untrusted, |label| label.0),
            outbound: file.outbound.map_or(labels.outbound, |label| label.0),
            effect: file.effect.map_or(labels.effect, |label| label.0),
        };
        (labels, sources)
    }

    /// Returns the labels without the policy file and the built-in labels.
    fn default_labels(&self, asked: &PolicyRequest<'_>, program: Option<FlowLabels>) -> FlowLabels {
        let open = self.trusted_effects(asked).open_world;
        let effect = match asked.action {
            PolicyAction::Tool { name, effects, .. } => {
                effects.effect_of(name, program.is_some() || self.trusts(asked.server))
            }
            _ => CallEffect::None,
        };
        let known = program.unwrap_or(FlowLabels { private: false, untrusted: open, outbound: open, effect });
        FlowLabels { effect, ..known }
    }

    /// Returns what the built-in labels say about a tool, if they apply and name it.
    fn set_labels(&self, asked: &PolicyRequest<'_>, known: KnownLabels) -> Option<ToolLabels> {
        let PolicyAction::Tool { name, .. } = asked.action else { return None };
        let package = known.package.filter(|_| self.uses_built_in_labels())?;
        package.of_tool(name)
    }
}

impl fmt::Display for LabelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(LabelPlace { number, line }) => write!(f, "label {number} (line {line})"),
            Self::Package(package) => write!(f, "built in for {package}"),
            Self::Default => f.write_str("default"),
        }
    }
}
