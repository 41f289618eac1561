use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One thing that happened: who, what, which decision by whom, how long, how big.
///
/// Never what was said: no arguments, no results, no messages of errors. Arguments can be kept sealed
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
    /// By what or whom: a rule, a person at the console; the place in the configuration that names a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Scope of a person's decision: `once`, `session`, `always`, `block`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Id of the approval that was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matter: Option<String>,
    /// Outcome of the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<AuditOutcome>,
    /// The code of the error, if it ended with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    /// Duration, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micros: Option<u64>,
    /// Bytes of the params.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<u64>,
    /// Bytes of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
    /// Id that links the entries of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The hash of the server's command line or URL, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Access rights of the server process, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Reason a process ended or was not started, as reported by us or the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// The arguments, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
}

impl AuditEntry {
    /// Something that happens now.
    #[must_use]
    pub fn new(kind: AuditEntryKind) -> Self {
        Self {
            at: Timestamp::now().as_microsecond(),
            kind,
            principal: None,
            application: None,
            server: None,
            subject: None,
            decision: None,
            by: None,
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

    /// Context that a seal of the arguments is bound to, so that it cannot be moved to another entry.
    pub(super) fn seal_context(&self) -> Vec<u8> {
        let parts = [&self.principal, &self.server, &self.subject, &self.call];
        let mut bond = self.at.to_be_bytes().to_vec();
        for part in parts {
            let part = part.as_deref().unwrap_or_default();
            // Each part counts with its length, so that nothing can be moved from one to the next.
            bond.extend((part.len() as u64).to_be_bytes());
            bond.extend(part.as_bytes());
        }
        bond
    }
}

/// Kind of an audit entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditEntryKind {
    /// A tool was called.
    Call,
    /// A prompt was fetched.
    Prompt,
    /// A resource was read.
    Resource,
    /// Values for an argument of a prompt or a template were asked for.
    Completion,
    /// An application wants to be told when a resource changes, or how a task goes.
    Subscription,
    /// A task was asked for, answered or cancelled, or has ended.
    Task,
    /// A person, a rule or the clock decided.
    Decision,
    /// A server's definitions were seen, changed or approved.
    Definition,
    /// A server's process was started, was not, or has ended; a connection to one was made, was not, or has ended.
    Server,
    /// A server asked for a model's answer.
    Sampling,
    /// A server asked a person something.
    Elicitation,
    /// A server asked for the roots.
    Roots,
    /// Somebody signed in or out.
    SignIn,
    /// The rules were read anew.
    Policy,
}

impl AuditEntryKind {
    /// All of them.
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
    /// With a result.
    Done,
    /// With a result that says that the tool failed.
    ToolError,
    /// With an error.
    Failed,
    /// It never began: it was denied.
    Refused,
    /// The caller disconnected.
    Cancelled,
    /// With a question, whose answer begins another round.
    Asked,
}
