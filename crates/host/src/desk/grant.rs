use std::collections::BTreeMap;
use std::time::Duration;

use hospes_policy::{Asked, Decision, Policy, Reading};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::matter::CallKind;

/// How long a permission lasts that does not say it.
pub const DEFAULT_PERMISSION: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long a permission may last.
pub const MAX_PERMISSION: Duration = Duration::from_secs(366 * 24 * 3600);

/// For how long a person who says yes is not asked again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "whoever acts on it must not overlook one")]
pub enum Scope {
    /// Not at all: the next call is asked about again.
    #[default]
    Once,
    /// As long as the session of the application that asked, whatever the arguments; in 2026-07-28 for the process that
    /// asked, and [one hour](super::SESSION_LIFETIME).
    Session,
    /// Within a rule, until a day.
    Always(Permission),
}

impl Scope {
    pub(super) fn is_once(&self) -> bool {
        *self == Self::Once
    }
}

/// What a lasting permission covers beside the tool, as it is defined, of the server that was asked about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Permission {
    /// What must hold of the arguments, as in a rule of the policy's file: `{"path": {"under": "/srv"}}`. Without any,
    /// they may be whatever they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Value>,
    /// Where everything that the arguments point to must be, as in a rule; without any, anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<String>,
    /// When it ends; by default after [`DEFAULT_PERMISSION`], at the latest after [`MAX_PERMISSION`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether it is for whatever application asks, and not only for the one that did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_application: bool,
}

/// A decision that lasts: given by a person, and theirs to revoke.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Grant {
    /// What it is revoked by.
    pub id: String,
    /// When it was given.
    pub given_at: Timestamp,
    /// By whom: "the person at the console".
    pub by: String,
    /// When it ends; nothing for as long as its session, or for a denial, which ends when it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// For which session it is, in words; nothing if it is not bound to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What it does.
    pub effect: GrantEffect,
    /// Who must be signed in; nothing where nobody was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Which application must ask, as it calls itself; nothing for one without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Whether it is for whatever application asks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_application: bool,
    /// Whether an application said it for its person: where a rule wants a strong approval it is none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub weak: bool,
    /// The server.
    pub server: String,
    /// The hash of the server's command line or URL as it was when this was given: another one under the same name is not
    /// allowed anything by it. A denial has none, and holds for whatever has the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Of what kind `name` is.
    pub what: CallKind,
    /// The tool or prompt, by its server's own name, or the URI.
    pub name: String,
    /// The hash of the tool's definition as it was when this was given; nothing for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// What must hold of the arguments, as in a rule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Value>,
    /// Where everything must be that the arguments point to, as in a rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<String>,
    /// When it was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_at: Option<Timestamp>,
    /// How often it was used.
    #[serde(default)]
    pub uses: u64,
}

/// What a [`Grant`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "whoever acts on it must not overlook one")]
pub enum GrantEffect {
    /// What fits is not asked about.
    Allow,
    /// What fits is denied.
    Deny,
}

impl Permission {
    /// When it ends, at `now`.
    ///
    /// # Errors
    /// In words, when that is in the past or too far away.
    pub(super) fn end(&self, now: Timestamp) -> Result<Timestamp, String> {
        let after = |span: Duration| {
            SignedDuration::try_from(span)
                .ok()
                .and_then(|span| now.checked_add(span).ok())
                .unwrap_or(Timestamp::MAX)
        };
        match self.until {
            None => Ok(after(DEFAULT_PERMISSION)),
            Some(until) if until <= now => Err("it would be over already".to_owned()),
            Some(until) if until > after(MAX_PERMISSION) => {
                Err("it would last longer than a year".to_owned())
            }
            Some(until) => Ok(until),
        }
    }
}

/// The conditions of a grant, ready to be looked at.
#[derive(Clone, Debug)]
pub(super) struct Conditions(Option<Policy>);

impl Conditions {
    /// # Errors
    /// In words, when a condition is none.
    pub(super) fn new(arguments: &BTreeMap<String, Value>, destinations: &[String]) -> Result<Self, String> {
        #[derive(Serialize)]
        struct File<'a> {
            rule: [Rule<'a>; 1],
        }
        #[derive(Serialize)]
        struct Rule<'a> {
            decide: &'static str,
            #[serde(skip_serializing_if = "<[String]>::is_empty")]
            destinations: &'a [String],
            arguments: &'a BTreeMap<String, Value>,
        }
        if arguments.is_empty() && destinations.is_empty() {
            return Ok(Self(None));
        }
        let file = File { rule: [Rule { decide: "allow", destinations, arguments }] };
        let text = toml::to_string(&file).map_err(|error| error.to_string())?;
        let mut reading = Reading::default();
        reading.home = std::env::home_dir().and_then(|home| home.into_os_string().into_string().ok());
        reading.links = Some(std::sync::Arc::new(crate::guard::LocalLinks));
        Policy::read(&text, &reading).map(|policy| Self(Some(policy))).map_err(|error| {
            // Places in a text that nobody has written say nothing.
            let said: Vec<&str> = error.mistakes().iter().map(|mistake| mistake.message.as_str()).collect();
            said.join("; ")
        })
    }

    pub(super) fn fit(&self, asked: &Asked<'_>, now: Timestamp) -> bool {
        self.0.as_ref().is_none_or(|policy| {
            let verdict = policy.decide(asked, now);
            // What is allowed without a rule is not what was granted.
            verdict.decision == Decision::Allow
                && matches!(verdict.because, hospes_policy::Because::Rule { .. })
        })
    }
}

impl Grant {
    /// Whether it outlives the host.
    pub(super) fn is_kept(&self) -> bool {
        self.session.is_none() && (self.until.is_some() || self.effect == GrantEffect::Deny)
    }

    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}
