//! Labels of a request: by the policy file, by the built-in labels, or by what the server declares.

use std::fmt;

use super::Policy;
use crate::action::{PolicyAction, PolicyRequest};
use crate::effects::ToolEffectSet;
use crate::flow::{CallEffect, FlowLabels, LabelPlace, ToolDescription, describe_tool, resolve_labels};
use crate::label_sets::{KnownLabels, ToolLabels};

/// Origin of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LabelSource {
    /// A label of the policy file.
    File(LabelPlace),
    /// A label of the organisation's policy file.
    Organization(LabelPlace),
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
    /// Determines what is known about a tool beyond its labels.
    #[must_use]
    pub fn describe(&self, asked: &PolicyRequest<'_>, known: KnownLabels) -> ToolDescription {
        let mut description = describe_tool(&self.labels, asked);
        if let Some(organization) = self.organization() {
            let first = describe_tool(&organization.labels, asked);
            description.untrusted_fields = first.untrusted_fields.or(description.untrusted_fields);
            description.targets = first.targets.or(description.targets);
            description.is_described |= first.is_described;
        }
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

    /// Determines the labels of an action, independent of its arguments. A label of the organisation's policy file stays,
    /// unless one of the user's file raises it. Else a label of the user's file decides, else the built-in labels, else the
    /// default. Declarations of a server count only if it is trusted.
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
        let first =
            self.organization().map(|policy| resolve_labels(&policy.labels, asked)).unwrap_or_default();
        let package = known.package.map_or("", |package| package.package());
        let unset = |is_in_set: Option<bool>| match is_in_set {
            Some(true) => LabelSource::Package(package),
            _ => LabelSource::Default,
        };
        let of_default = |value, is_in_set| (value, unset(is_in_set));
        let private = raised(first.private, file.private)
            .unwrap_or_else(|| of_default(labels.private, set.map(|set| set.private.is_some())));
        let untrusted = raised(first.untrusted, file.untrusted)
            .unwrap_or_else(|| of_default(labels.untrusted, set.map(|set| set.untrusted.is_some())));
        let outbound = raised(first.outbound, file.outbound)
            .unwrap_or_else(|| of_default(labels.outbound, set.map(|set| set.outbound.is_some())));
        let effect = raised(first.effect, file.effect)
            .unwrap_or_else(|| (labels.effect, unset(set.map(|set| set.effect.is_some()))));
        let sources = LabelSources {
            private: private.1,
            untrusted: untrusted.1,
            outbound: outbound.1,
            effect: effect.1,
        };
        let labels =
            FlowLabels { private: private.0, untrusted: untrusted.0, outbound: outbound.0, effect: effect.0 };
        (labels, sources)
    }

    /// Returns the labels without the policy file and the built-in labels.
    fn default_labels(&self, asked: &PolicyRequest<'_>, program: Option<FlowLabels>) -> FlowLabels {
        let open = match asked.action {
            PolicyAction::Tool { effects, .. } if self.trusts(asked.server) => effects.open_world,
            _ => ToolEffectSet::unknown().open_world,
        };
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

/// Returns the label of the organisation's file, or that of the user's file if it is stricter or the only one.
fn raised<T: Ord>(
    organization: Option<(T, LabelPlace)>,
    user: Option<(T, LabelPlace)>,
) -> Option<(T, LabelSource)> {
    match (organization, user) {
        (Some(stays), Some(user)) if user.0 <= stays.0 => Some((stays.0, LabelSource::Organization(stays.1))),
        (Some(stays), None) => Some((stays.0, LabelSource::Organization(stays.1))),
        (_, user) => user.map(|(value, place)| (value, LabelSource::File(place))),
    }
}

impl fmt::Display for LabelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(LabelPlace { number, line }) => write!(f, "label {number} (line {line})"),
            Self::Organization(LabelPlace { number, line }) => {
                write!(f, "organisation's label {number} (line {line})")
            }
            Self::Package(package) => write!(f, "built in for {package}"),
            Self::Default => f.write_str("default"),
        }
    }
}
