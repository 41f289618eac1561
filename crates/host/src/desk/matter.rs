use std::collections::BTreeMap;

use hospes_model::RawJson;
use hospes_policy::{Effects, Flow};
use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::decision::Decided;

/// Something that waits for a person's decision, as the person is shown it.
///
/// What comes from servers and models stands in it as it came: whoever shows it makes visible what hides in it
/// ([`hospes_policy::visible`]), and takes none of it for text of ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Matter {
    /// What it is decided by. Cannot be guessed.
    pub id: String,
    /// When it was put on the desk.
    pub asked_at: Timestamp,
    /// When nobody can decide any more; silence is a no.
    pub expires_at: Timestamp,
    /// How it stands.
    pub state: MatterState,
    /// What was decided, once it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
    /// Who signed in at the application, if somebody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The application, as it calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// The server that it is about, by the name that the person gave it.
    pub server: String,
    /// For whom and until when a permission for the session would hold, where one is offered: "node, process 4711 of user
    /// 1000, for one hour".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What may be answered beside yes and no.
    pub offers: Offers,
    /// What it is.
    pub card: Card,
}

/// How a [`Matter`] stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MatterState {
    /// It waits.
    Open,
    /// A person allowed it.
    Allowed,
    /// A person denied it.
    Denied,
    /// Nobody decided in time.
    Expired,
    /// Whoever asked has gone away.
    Withdrawn,
}

/// What may be answered beside yes and no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Offers {
    /// Whether what would happen can be changed first.
    pub edit: bool,
    /// Whether a yes may last for the session that asks ([`Matter::session`]).
    pub session: bool,
    /// Whether a yes may last longer, within a rule.
    pub always: bool,
    /// Whether a no may last.
    pub block: bool,
}

/// What a [`Matter`] is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Card {
    /// Something would go to a server. An edit is the arguments that go instead.
    Call(Box<CallCard>),
    /// A result would go to the application, and so to its model. An edit is the result that goes instead.
    Result(Box<ResultCard>),
    /// A server asks for a model's answer: what would be sent. An edit is the params that are sent instead.
    SamplingRequest(Box<SamplingRequestCard>),
    /// What the model answered, before the server gets it. An edit is the result that it gets instead.
    SamplingResult(Box<SamplingResultCard>),
    /// A server asks the person to fill in a form. The yes carries the content as its edit.
    Form(Box<FormCard>),
    /// A server asks the person to go somewhere.
    Url(Box<UrlCard>),
}

impl<'de> Deserialize<'de> for Card {
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
                other => return Err(serde_json::Error::custom(format!("unknown kind `{other}`"))),
            })
        };
        read().map_err(D::Error::custom)
    }
}

/// What kind of thing would go to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallKind {
    /// The call of a tool.
    Tool,
    /// A prompt is fetched.
    Prompt,
    /// A resource is read.
    Resource,
}

/// Something that would go to a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallCard {
    /// What kind of thing.
    pub what: CallKind,
    /// The tool or prompt, by its server's own name, or the URI.
    pub name: String,
    /// The title that the server gives a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the server says that a tool does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What a tool's arguments have to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<RawJson>,
    /// What would be sent, an object.
    pub arguments: RawJson,
    /// What was sent the last time that a call of this tool was approved for the same application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_arguments: Option<RawJson>,
    /// What a tool may do, as its server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<SaidEffects>,
    /// What the arguments point to, as far as it can be seen: hosts and paths.
    #[serde(default)]
    pub destinations: Vec<String>,
    /// Why the person is asked: the rule, in words.
    pub because: String,
    /// What the session has read that this could carry out, where that has it asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_flow: Option<Flow>,
    /// Conditions on the arguments that a narrow lasting permission could have: what the editor begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<RawJson>,
}

/// What a server says that its tool may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SaidEffects {
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy something.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// It reaches things outside a closed set.
    pub open_world: bool,
    /// Whether the operator believes the server.
    pub trusted: bool,
}

impl SaidEffects {
    pub(crate) fn new(effects: Effects, trusted: bool) -> Self {
        let Effects { read_only, destructive, idempotent, open_world, .. } = effects;
        Self { read_only, destructive, idempotent, open_world, trusted }
    }
}

/// A result on its way to the application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResultCard {
    /// What kind of thing was called.
    pub what: CallKind,
    /// The tool or prompt, by its server's own name, or the URI.
    pub name: String,
    /// What was sent.
    pub arguments: RawJson,
    /// What came back, an object.
    pub result: RawJson,
    /// Why it is shown: the rule, in words.
    pub because: String,
}

/// What a server wants a model to be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SamplingRequestCard {
    /// The tool, prompt or URI whose call it comes from, if it comes from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The params of `sampling/createMessage`, as they would be sent.
    pub request: RawJson,
    /// What `includeContext` stands for here: the text that would be added, or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The model that would be asked; another of `models` may be named in an edit's `model`.
    pub model: String,
    /// Why this model, in words.
    pub reason: String,
    /// The models that could be asked.
    #[serde(default)]
    pub models: Vec<String>,
    /// About how many tokens would be sent.
    pub tokens: u64,
    /// How many tokens the answer may have at most.
    pub max_tokens: u64,
    /// What it may cost at most, in the currency of the prices; nothing where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// What is left of the server's budget, in words.
    pub remaining: String,
}

/// What a model answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SamplingResultCard {
    /// The tool, prompt or URI whose call it is for, if it is for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The params that were sent.
    pub request: RawJson,
    /// The result of `sampling/createMessage` as the server would get it.
    pub result: RawJson,
    /// What looks like a secret in it, in words.
    #[serde(default)]
    pub findings: Vec<String>,
    /// Tokens that were sent and received, where the provider says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<(u64, u64)>,
    /// What it cost, in the currency of the prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
}

/// A form that a server wants filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FormCard {
    /// The tool, prompt or URI whose call it comes from, if it comes from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What the server says.
    pub message: String,
    /// The form: `requestedSchema`.
    pub schema: RawJson,
    /// Fields that look as if they asked for a secret, which no server may do in a form.
    #[serde(default)]
    pub secrets: Vec<String>,
}

/// A place that a server wants the person to go to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UrlCard {
    /// The tool, prompt or URI whose call it comes from, if it comes from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What the server says.
    pub message: String,
    /// The whole URL. It is not fetched before the person goes there.
    pub url: String,
    /// Its host, in ASCII.
    pub host: String,
    /// What should make a person look twice.
    #[serde(default)]
    pub warnings: Vec<String>,
}
