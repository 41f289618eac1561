use std::fmt;

use crate::document::KeywordTable;
use crate::flow::SessionFlow;

/// Decision of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever acts on it must not overlook one")]
pub enum PolicyDecision {
    /// It happens.
    Allow,
    /// A person decides.
    Ask,
    /// It does not happen.
    Deny,
}

impl PolicyDecision {
    /// The values as they are written.
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

/// A decision, why it was made, and how a person may be asked.
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
    /// True if the result is shown to the person before it is delivered.
    pub review: bool,
    /// Data that the call could send out, if that is the reason for asking, or for asking each time.
    pub flow: Option<SessionFlow>,
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
    /// A rule of the file.
    Rule {
        /// Number of the rule, from 1.
        number: usize,
        /// The line where it begins, from 1.
        line: usize,
        /// Its name.
        name: Option<String>,
        /// Its reason.
        reason: Option<String>,
    },
    /// No rule fits.
    Ordinary(DefaultReason),
    /// The arguments have more than one reading ([`CallArgumentsError`](crate::CallArgumentsError)).
    Unreadable(String),
    /// A rule that denies may fit: readers differ about what a string points to.
    Unclear {
        /// The rule ([`DecisionReason::Rule`]).
        rule: Box<Self>,
        /// The reason why it is not clear.
        why: String,
    },
    /// This allows it, and what the session has read has it asked about.
    Flow(Box<Self>),
}

/// Reasons for a default decision if no rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DefaultReason {
    /// Allowed: a trusted server says that the tool changes nothing and reaches nothing outside.
    Harmless,
    /// Asked: a tool that may change or reach something, or whose server is not trusted.
    Tool,
    /// Asked: a tool that may destroy something and is open to the world. "Always" is not offered.
    Dangerous,
    /// Allowed: what the person's own application fetches.
    Fetched,
    /// Asked: what a server wants of the person, their models or their files.
    Wanted,
    /// Allowed: a question to a person, which the person answers or not.
    Question,
}

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { number, line, name, reason } => {
                write!(f, "rule {number} (line {line})")?;
                if let Some(name) = name {
                    write!(f, " `{name}`")?;
                }
                reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))
            }
            Self::Ordinary(ordinary) => write!(f, "no rule matches: {ordinary}"),
            Self::Unreadable(why) => f.write_str(why),
            Self::Unclear { rule, why } => write!(f, "it may match {rule}, which denies it: {why}"),
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
        })
    }
}
