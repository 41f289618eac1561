use std::fmt;

use crate::approvers::RequiredApprovers;
use crate::document::KeywordTable;
use crate::flow::SessionFlow;
use crate::layer::PolicyLayer;
use crate::preset::GuardCause;

/// Decision of a policy. A stricter one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "whoever acts on it must not overlook one")]
pub enum PolicyDecision {
    /// The action is performed.
    Allow,
    /// A person is asked.
    Ask,
    /// The action is refused.
    Deny,
}

impl PolicyDecision {
    /// Words for the values in the policy file.
    pub(crate) const WORDS: &KeywordTable<Self> =
        &[("allow", Self::Allow), ("ask", Self::Ask), ("deny", Self::Deny)];
}

impl fmt::Display for PolicyDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}

/// A decision, its reason, and the conditions for asking a person.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyVerdict {
    /// The decision.
    pub decision: PolicyDecision,
    /// Reason for the decision.
    pub because: DecisionReason,
    /// True if "always" may be offered to the person who is asked.
    pub may_remember: bool,
    /// True if only the console may approve. An application that answers for its user may be the one that asks.
    pub strong: bool,
    /// People who decide in place of the person whose call it is. `None` if that person does. Then `strong` is true and
    /// `may_remember` false.
    pub approvers: Option<RequiredApprovers>,
    /// True if the result is shown to the person before it is delivered.
    pub review: bool,
    /// Data that the call could send out, if this is a reason to ask.
    pub flow: Option<SessionFlow>,
    /// Cause for which the preset asks, if it does.
    pub guard: Option<GuardCause>,
}

impl PolicyVerdict {
    /// Describes the reason for the decision, and the data that the call could send out.
    #[must_use]
    pub fn why(&self) -> String {
        match &self.flow {
            Some(flow) => format!("{}; {flow}, and this can send things out", self.because),
            None => self.because.to_string(),
        }
    }
}

/// Reasons for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecisionReason {
    /// A rule of the policy file.
    Rule {
        /// Layer of the policy file.
        layer: PolicyLayer,
        /// Number of the rule, from 1.
        number: usize,
        /// Line where the rule begins, from 1.
        line: usize,
        /// Name of the rule.
        name: Option<String>,
        /// Reason given in the rule.
        reason: Option<String>,
    },
    /// No rule matches.
    Ordinary(DefaultReason),
    /// The arguments have more than one reading ([`CallArgumentsError`](crate::CallArgumentsError)).
    Unreadable(String),
    /// A deny rule may match: readers disagree about what a string points to.
    Unclear {
        /// The rule ([`DecisionReason::Rule`]).
        rule: Box<Self>,
        /// Description of the ambiguity.
        why: String,
    },
    /// The inner reason allows the call, but the data that the session has read requires asking.
    Flow(Box<Self>),
    /// The preset of the guard asks.
    Guard(GuardCause),
    /// A check of the arguments refuses the call, with the reason.
    Check(String),
}

/// Reasons for a default decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DefaultReason {
    /// Allowed: a trusted server declares that the tool is read-only and not open-world.
    Harmless,
    /// Asked: the tool may change or reach something, or its server is not trusted.
    Tool,
    /// Asked: the tool may be destructive and is open-world. "Always" is not offered.
    Dangerous,
    /// Allowed: a prompt or resource that the user's own application fetches.
    Fetched,
    /// Asked: a server requests sampling or roots.
    Wanted,
    /// Allowed: an elicitation, which the user answers or declines anyway.
    Question,
    /// Allowed: the preset of the guard does not ask about the call.
    Preset,
}

impl DecisionReason {
    /// Returns the layer whose rule is the reason. `None` if no rule is.
    #[must_use]
    pub fn layer(&self) -> Option<PolicyLayer> {
        match self {
            Self::Rule { layer, .. } => Some(*layer),
            Self::Unclear { rule, .. } => rule.layer(),
            Self::Flow(before) => before.layer(),
            _ => None,
        }
    }
}

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { layer, number, line, name, reason } => {
                write!(f, "{}rule {number} (line {line})", layer.possessive())?;
                if let Some(name) = name {
                    write!(f, " `{name}`")?;
                }
                reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))
            }
            Self::Ordinary(ordinary) => write!(f, "no rule matches: {ordinary}"),
            Self::Unreadable(why) => f.write_str(why),
            Self::Unclear { rule, why } => write!(f, "it may match {rule}, which denies it: {why}"),
            Self::Guard(cause) => cause.fmt(f),
            Self::Check(why) => f.write_str(why),
            Self::Flow(before) => {
                write!(f, "it would be allowed ({before}) without the data read in this session")
            }
        }
    }
}

impl fmt::Display for DefaultReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Harmless => "read-only tools of trusted servers that reach nothing outside are allowed",
            Self::Tool => "tool calls require approval",
            Self::Dangerous => "destructive open-world tools require approval each time",
            Self::Fetched => "prompts and resources that an application fetches are allowed",
            Self::Wanted => "requests from servers to you require approval",
            Self::Question => "questions from servers to you are allowed",
            Self::Preset => "the preset asks only about calls that an untrusted text may have caused",
        })
    }
}
