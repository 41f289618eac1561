use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// An audited event: caller, subject, decision and decider, duration and sizes.
///
/// It contains no content: no arguments, no results, no error messages. Arguments can be added in encrypted form
/// ([`AuditLog::seal`](super::AuditLog::seal)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// Time, in microseconds since 1970.
    pub at: i64,
    /// Kind of the entry.
    pub kind: AuditEntryKind,
    /// Signed-in user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Application, as it names itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Profile whose endpoint the application uses, or for whose secrets the server was started. `None` for the endpoint of
    /// all servers, and for what belongs to no profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Name of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Tool, prompt or URI of the server, or name of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Decision: `allow`, `deny`, `expired`. For a server, the event: `started`, `not started`, `exited`; `connected`,
    /// `not connected`, `disconnected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Decider: a rule, or a person at the console. For a server, its place in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Basis of the decision. [`DecisionBasis::Unknown`] in entries of older versions.
    #[serde(default, skip_serializing_if = "DecisionBasis::is_unknown")]
    pub basis: DecisionBasis,
    /// Scope of a person's decision: `once`, `session`, `always`, `block`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Id of the approval that was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matter: Option<String>,
    /// Outcome of the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<AuditOutcome>,
    /// Code of the error, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    /// Duration, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micros: Option<u64>,
    /// Size of the params, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<u64>,
    /// Size of the result, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
    /// Id that links the entries of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Hash of the server's command line or URL, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Access rights of the server process, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Reason a process ended or was not started, as reported by us or the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// Arguments, encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
}

impl AuditEntry {
    /// Creates an entry with the current time.
    #[must_use]
    pub fn new(kind: AuditEntryKind) -> Self {
        Self {
            at: Timestamp::now().as_microsecond(),
            kind,
            principal: None,
            application: None,
            profile: None,
            server: None,
            subject: None,
            decision: None,
            by: None,
            basis: DecisionBasis::Unknown,
            scope: None,
            matter: None,
            ending: None,
            code: None,
            micros: None,
            sent: None,
            received: None,
            call: None,
            target: None,
            sandbox: None,
            how: None,
            sealed: None,
        }
    }

    /// Returns true if a person was asked, or would have had to be and could not.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        matches!(self.basis, DecisionBasis::Person | DecisionBasis::Unanswered)
            || matches!(self.decision.as_deref(), Some("expired" | "withdrawn"))
    }

    /// Context that a seal of the arguments is bound to, so that it cannot be moved to another entry.
    pub(super) fn seal_context(&self) -> Vec<u8> {
        let parts = [&self.principal, &self.server, &self.subject, &self.call];
        let mut bond = self.at.to_be_bytes().to_vec();
        for part in parts {
            let part = part.as_deref().unwrap_or_default();
            // Each part is preceded by its length, so that no bytes can be moved from one part to the next.
            bond.extend((part.len() as u64).to_be_bytes());
            bond.extend(part.as_bytes());
        }
        bond
    }
}

/// Basis of a decision: who or what made it. [`AuditEntry::by`] is the same in words, which contain names that users and
/// applications have chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DecisionBasis {
    /// A person was asked about exactly this and answered: at the console, in a terminal, in a chat, or in a form of the
    /// application.
    Person,
    /// A program answered the request for approval, such as one with a decision token.
    Program,
    /// An approval was required, and there is no answer: nobody answered in time, or nobody can be asked.
    Unanswered,
    /// An earlier decision that lasts: a permission, a block, or an approved plan.
    Grant,
    /// A rule of the policy.
    Rule,
    /// Decision without a matching rule: by the preset of the guard, a default, or because there is no policy.
    Default,
    /// A check or a limit of the host, or the state of the server.
    Host,
    /// Not recorded, or recorded by a newer version.
    #[default]
    #[serde(other)]
    Unknown,
}

impl DecisionBasis {
    /// Returns true if the basis is not known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }

    /// Returns true if the decision was waited for. Its duration does not measure a server.
    #[must_use]
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Person | Self::Program)
    }
}

/// Kind of an audit entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditEntryKind {
    /// A tool call.
    Call,
    /// Fetching of a prompt.
    Prompt,
    /// Reading of a resource.
    Resource,
    /// Completion of an argument of a prompt or template.
    Completion,
    /// A subscription to changes of a resource or to the status of a task.
    Subscription,
    /// Start, input, cancellation or end of a task.
    Task,
    /// A decision by a person, a rule or a timeout.
    Decision,
    /// Definitions of a server were seen, changed or approved.
    Definition,
    /// Start, failed start or end of a server process or of a connection to a server.
    Server,
    /// A sampling request of a server.
    Sampling,
    /// An elicitation request of a server.
    Elicitation,
    /// A request of a server for the roots.
    Roots,
    /// A sign-in or sign-out.
    SignIn,
    /// A reload of the policy.
    Policy,
}

impl AuditEntryKind {
    /// All kinds.
    pub const ALL: [Self; 14] = [
        Self::Call,
        Self::Prompt,
        Self::Resource,
        Self::Completion,
        Self::Subscription,
        Self::Task,
        Self::Decision,
        Self::Definition,
        Self::Server,
        Self::Sampling,
        Self::Elicitation,
        Self::Roots,
        Self::SignIn,
        Self::Policy,
    ];

    /// Returns the bit that stands for the kind in the row of a block. Files have it: kinds are added to the end of
    /// [`AuditEntryKind::ALL`] only.
    pub(super) fn bit(self) -> i64 {
        let at = Self::ALL.iter().position(|kind| *kind == self);
        1 << at.unwrap_or_default()
    }

    /// Returns the stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::Completion => "completion",
            Self::Subscription => "subscription",
            Self::Task => "task",
            Self::Decision => "decision",
            Self::Definition => "definition",
            Self::Server => "server",
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
            Self::Roots => "roots",
            Self::SignIn => "sign_in",
            Self::Policy => "policy",
        }
    }
}

/// Outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditOutcome {
    /// A result was returned.
    Done,
    /// A result was returned that reports a failure of the tool.
    ToolError,
    /// An error was returned.
    Failed,
    /// The operation was denied and never started.
    Refused,
    /// The caller disconnected.
    Cancelled,
    /// Input was requested; the response starts another round.
    Asked,
}
