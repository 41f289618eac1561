use std::collections::BTreeMap;

use hospes_model::RawJson;
use hospes_policy::{CallEffect, GuardCause, RequiredApprovers, SessionFlow, ToolEffectSet};
use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::decision::DecisionRecord;
use super::plan_card::PlanCard;
use super::repeated::RepeatedAnswers;
use super::suggested_permission::SuggestedPermission;
use crate::config::server_label;

/// An action that waits for a person's decision, in the form shown to the person.
///
/// Content from servers and models is stored unchanged. A viewer must make hidden characters visible
/// ([`hospes_policy::visible`]) and must keep this content apart from Hospes' own text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Approval {
    /// Id with which it is decided. It cannot be guessed.
    pub id: String,
    /// Time at which it was submitted.
    pub asked_at: Timestamp,
    /// Time after which it can no longer be decided. Without a decision it counts as denied.
    pub expires_at: Timestamp,
    /// State of the approval.
    pub state: ApprovalState,
    /// Decision, once it has been made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<DecisionRecord>,
    /// Principal who is signed in at the application, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// People who decide in place of the principal, who may only deny it. `None` if the principal decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<RequiredApprovers>,
    /// Groups of the principal when the call was made, for approvers. Empty without approvers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Name that the application reports for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// The server that it is about, by the name that the person gave it.
    pub server: String,
    /// Profile for which the server runs, with the secrets of that profile; none for the server of everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Profile whose endpoint the application uses. `None` for the endpoint of all servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_profile: Option<String>,
    /// Description of the session for which a permission is offered, with its lifetime: "node, process 4711 of user
    /// 1000, for one hour".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// True if it was withdrawn because the node of a fleet at which its call waited has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub node_ended: bool,
    /// Additional options of the decision.
    pub offers: DecisionOptions,
    /// Content of the approval.
    pub card: ApprovalCard,
}

impl Approval {
    /// Returns the name under which viewers show the server, which tells its account: `git`, or `git (profile work)`.
    #[must_use]
    pub fn server_label(&self) -> String {
        server_label(&self.server, self.profile.as_deref())
    }
}

/// State of a [`Approval`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalState {
    /// Waiting for a decision.
    Open,
    /// Allowed by a person.
    Allowed,
    /// Denied by a person.
    Denied,
    /// The time limit passed without a decision.
    Expired,
    /// The requester disconnected, or the node at which its call waited has ended.
    Withdrawn,
}

/// Additional options of a decision, besides allow and deny.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DecisionOptions {
    /// True if the content can be edited first.
    pub edit: bool,
    /// True if an approval can last for the session that asks ([`Approval::session`]).
    pub session: bool,
    /// True if an approval can last longer, within a rule.
    pub always: bool,
    /// True if a denial can last.
    pub block: bool,
    /// True if the targets of the call can be remembered.
    #[serde(default)]
    pub targets: bool,
    /// True if the values from untrusted texts can be trusted for the session.
    #[serde(default)]
    pub values: bool,
}

/// Content of a [`Approval`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalCard {
    /// A call to a server. An edit replaces its arguments.
    Call(Box<CallCard>),
    /// A result for the application, and so for its model. An edit replaces the result.
    Result(Box<ResultCard>),
    /// A sampling request of a server, before it is sent to a model. An edit replaces its params.
    SamplingRequest(Box<SamplingRequestCard>),
    /// The model's answer, before the server gets it. An edit is the result that it gets instead.
    SamplingResult(Box<SamplingResultCard>),
    /// A server asks the person to fill in a form. The yes carries the content as its edit.
    Form(Box<FormCard>),
    /// A server asks the person to go somewhere.
    Url(Box<UrlCard>),
    /// Several calls that are approved as one.
    Plan(Box<PlanCard>),
}

impl<'de> Deserialize<'de> for ApprovalCard {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // JSON that is kept as it came does not get through an enum with a tag that serde makes, and what is read into
        // values loses digits of its numbers.
        let mut members = BTreeMap::<String, RawJson>::deserialize(deserializer)?;
        let kind = members.remove("kind");
        let read = || {
            let kind: String = kind.map(|kind| kind.decode()).transpose()?.unwrap_or_default();
            let card = serde_json::to_string(&members)?;
            Ok(match kind.as_str() {
                "call" => Self::Call(serde_json::from_str(&card)?),
                "result" => Self::Result(serde_json::from_str(&card)?),
                "sampling_request" => Self::SamplingRequest(serde_json::from_str(&card)?),
                "sampling_result" => Self::SamplingResult(serde_json::from_str(&card)?),
                "form" => Self::Form(serde_json::from_str(&card)?),
                "url" => Self::Url(serde_json::from_str(&card)?),
                "plan" => Self::Plan(serde_json::from_str(&card)?),
                other => return Err(serde_json::Error::custom(format!("unknown kind `{other}`"))),
            })
        };
        read().map_err(D::Error::custom)
    }
}

/// Kind of a call to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalCallKind {
    /// The call of a tool.
    Tool,
    /// Fetching of a prompt.
    Prompt,
    /// Reading of a resource.
    Resource,
}

/// A call to a server that needs approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallCard {
    /// Kind of the call.
    pub what: ApprovalCallKind,
    /// The tool or prompt, by its server's own name, or the URI.
    pub name: String,
    /// Head of the card, in Hospes' own words.
    #[serde(default)]
    pub summary: CallSummary,
    /// The title that the server gives a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description of the tool, from its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of a tool's arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<RawJson>,
    /// Arguments that would be sent, an object.
    pub arguments: RawJson,
    /// Arguments of the last approved call of this tool for the same application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_arguments: Option<RawJson>,
    /// Effects of a tool that its server declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<DeclaredEffects>,
    /// Hosts and paths to which the arguments refer, as far as they can be recognized.
    #[serde(default)]
    pub destinations: Vec<String>,
    /// Rule that requires the decision, as text.
    pub because: String,
    /// Data that the session has read and that this call could send out, if this is a reason to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_flow: Option<SessionFlow>,
    /// Reason of the guard to ask, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardCard>,
    /// Suggested narrow permission, with which the editor starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<SuggestedPermission>,
    /// Suggested permission after like answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<RepeatedAnswers>,
}

/// Head of a card: what a call does, to whom, and what is unusual about it. It contains no words of a server except the
/// targets, which are values of the arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallSummary {
    /// Effect of the call in words: "Send a message". Empty for an approval that an older version has stored.
    #[serde(default)]
    pub verb: String,
    /// Word between the verb and the targets, such as "to". Empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub preposition: String,
    /// Targets of the call, as they stand in the arguments; at most eight for a call.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Number of further targets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_targets: usize,
    /// True if the change cannot be undone.
    #[serde(default)]
    pub irreversible: bool,
    /// Description of what is unusual about the call, as a sentence. Empty if only a rule asks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unusual: String,
}

impl CallSummary {
    /// Returns the targets as they are shown, with the number of those that are not among them: "a, b and 3 more". `show`
    /// makes one of them safe to show.
    #[must_use]
    pub fn listed_targets(&self, show: impl Fn(&str) -> String) -> String {
        let targets: Vec<String> = self.targets.iter().map(|target| show(target)).collect();
        let more = match self.more_targets {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{}{more}", targets.join(", "))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Reason of the guard to ask about a call, with what it found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GuardCard {
    /// Reason to ask.
    pub cause: GuardCause,
    /// Reason to ask, as a sentence.
    pub because: String,
    /// Change that the call makes.
    pub effect: CallEffect,
    /// True if the arguments can reach somebody else.
    pub outbound: bool,
    /// True if the conversation has read no untrusted text.
    #[serde(default)]
    pub is_clean: bool,
    /// Targets of the call that are not known yet. They are remembered if the decision says so.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Results of untrusted text that the conversation has read, the latest first; at most three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<GuardSource>,
    /// Values of the call that are unusual, the most serious first.
    #[serde(default)]
    pub values: Vec<GuardValue>,
}

/// A value of a call that the guard points out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GuardValue {
    /// JSON pointer of the string in the arguments (RFC 6901).
    pub pointer: String,
    /// The value as it stands in the arguments.
    pub value: String,
    /// Finding about the value.
    pub finding: GuardFinding,
    /// Result in which the value stands, if it was found in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<GuardSource>,
}

/// Finding about a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GuardFinding {
    /// It stands in a text that others wrote.
    Untrusted,
    /// It names a target that is not known.
    Unknown,
    /// It stands in a private result.
    Private,
    /// It is a secret that another server returned. The value is masked.
    Secret,
    /// It names a private or local address.
    Address,
    /// It has characters that a shell interprets.
    Shell,
}

impl GuardFinding {
    /// Returns true if the finding is one of the argument itself, whatever the conversation has read.
    #[must_use]
    pub(crate) const fn is_independent_of_reads(self) -> bool {
        matches!(self, Self::Secret | Self::Address | Self::Shell)
    }
}

/// Result in which a value stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GuardSource {
    /// Server that returned it.
    pub server: String,
    /// Tool, prompt or URI that was asked.
    pub name: String,
    /// Time at which the result was delivered.
    pub at: Timestamp,
    /// Text around the value, before it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub before: String,
    /// The value as it stands there. Empty if it stands there in an encoded form.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub found: String,
    /// Text around the value, after it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after: String,
}

/// Effects of a tool that its server declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeclaredEffects {
    /// True if the tool is declared read-only.
    pub read_only: bool,
    /// True if the tool may make destructive changes.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// It reaches things outside a closed set.
    pub open_world: bool,
    /// True if the operator trusts the server's declaration.
    pub trusted: bool,
}

impl DeclaredEffects {
    pub(crate) fn new(effects: ToolEffectSet, trusted: bool) -> Self {
        let ToolEffectSet { read_only, destructive, idempotent, open_world, .. } = effects;
        Self { read_only, destructive, idempotent, open_world, trusted }
    }
}

/// A result that is reviewed before it is delivered to the application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResultCard {
    /// Kind of the call.
    pub what: ApprovalCallKind,
    /// The tool or prompt, by its server's own name, or the URI.
    pub name: String,
    /// Arguments that were sent.
    pub arguments: RawJson,
    /// Result of the call, an object.
    pub result: RawJson,
    /// Rule that requires the review, as text.
    pub because: String,
}

/// Request of a server for a model's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SamplingRequestCard {
    /// Tool, prompt or URI whose call caused the request, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The params of `sampling/createMessage`, as they would be sent.
    pub request: RawJson,
    /// Text that `includeContext` would add, or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The model that would be asked; another of `models` may be named in an edit's `model`.
    pub model: String,
    /// Reason that this model was chosen.
    pub reason: String,
    /// The models that could be asked.
    #[serde(default)]
    pub models: Vec<String>,
    /// About how many tokens would be sent.
    pub tokens: u64,
    /// Maximum number of tokens of the answer.
    pub max_tokens: u64,
    /// Maximum cost, in the currency of the prices; none without prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// Rest of the server's budget, as text.
    pub remaining: String,
}

/// Answer of a model, which is reviewed before the server gets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SamplingResultCard {
    /// Tool, prompt or URI whose call caused the request, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The params that were sent.
    pub request: RawJson,
    /// The result of `sampling/createMessage` as the server would get it.
    pub result: RawJson,
    /// Descriptions of content that looks like a secret.
    #[serde(default)]
    pub findings: Vec<String>,
    /// Input and output tokens, if the provider reported them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<(u64, u64)>,
    /// Cost of the answer, in the currency of the prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
}

/// A form that a server asks the person to fill in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FormCard {
    /// Tool, prompt or URI whose call caused the request, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Message of the server.
    pub message: String,
    /// The form: `requestedSchema`.
    pub schema: RawJson,
    /// Fields that look as if they asked for a secret, which no server may do in a form.
    #[serde(default)]
    pub secrets: Vec<String>,
}

/// A URL that a server asks the person to open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UrlCard {
    /// Tool, prompt or URI whose call caused the request, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Message of the server.
    pub message: String,
    /// The whole URL. It is not fetched before the person opens it.
    pub url: String,
    /// Host of the URL, in ASCII.
    pub host: String,
    /// Warnings that the person should see.
    #[serde(default)]
    pub warnings: Vec<String>,
}
