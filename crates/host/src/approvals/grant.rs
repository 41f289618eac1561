use std::collections::BTreeMap;
use std::time::Duration;

use hospes_policy::{Policy, PolicyDecision, PolicyEnvironment, PolicyRequest};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::approval::ApprovalCallKind;

/// Default lifetime of a permission.
pub const DEFAULT_PERMISSION_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);

/// Maximum lifetime of a permission.
pub const MAX_PERMISSION_LIFETIME: Duration = Duration::from_secs(366 * 24 * 3600);

/// Scope of an approval within which the person is not asked again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "whoever acts on it must not overlook one")]
pub enum ApprovalScope {
    /// Not at all: the next call is asked about again.
    #[default]
    Once,
    /// Until the session of the application that asked ends, for any arguments. In 2026-07-28: for the process that
    /// asked, and [one hour](super::SESSION_LIFETIME).
    Session,
    /// The targets of the call ([`GuardCard::targets`](super::GuardCard::targets)) are known to the application for
    /// 30 days. Other calls to them are asked about only for another reason.
    Targets,
    /// The values that the guard found in untrusted texts are right for this session. Calls that can be undone are not
    /// asked about because of them.
    Values,
    /// Within a rule, until a day.
    Always(LastingPermission),
}

impl ApprovalScope {
    pub(super) fn is_once(&self) -> bool {
        *self == Self::Once
    }
}

/// Limits of a lasting permission, in addition to the server and the tool's definition that it was given for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LastingPermission {
    /// Conditions on the arguments, as in a rule of the policy's file: `{"path": {"under": "/srv"}}`. Empty for any
    /// arguments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Value>,
    /// Names of the arguments that a call may have besides those in `arguments`, as in a rule. Empty for no others, `None`
    /// for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_arguments: Option<Vec<String>>,
    /// Destinations to which the arguments may refer, as in a rule. Empty for any destination.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<String>,
    /// Time of expiry. Default: [`DEFAULT_PERMISSION_LIFETIME`] from now; maximum: [`MAX_PERMISSION_LIFETIME`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// True if it holds for all applications, not only for the one that asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_application: bool,
}

/// A decision that lasts: given by a person, and theirs to revoke.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApprovalGrant {
    /// Id with which it is revoked.
    pub id: String,
    /// Time at which it was given.
    pub given_at: Timestamp,
    /// Decider, such as "the person at the console".
    pub by: String,
    /// Time of expiry. None if it ends with its session, and for a denial, which ends when it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Description of the session to which it is bound. `None` if it is not bound to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Effect of the grant.
    pub effect: GrantEffect,
    /// Required signed-in principal. `None` for calls without sign-in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Required application name. `None` for an application without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// True if it holds for all applications.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_application: bool,
    /// True if an application reported it for its person. It does not satisfy a rule that requires a strong approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub weak: bool,
    /// Name of the server.
    pub server: String,
    /// Hash of the server's command line or URL when the grant was given. Another target under the same name is not
    /// allowed by it. A denial has none and applies to any server of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Kind of call that `name` refers to.
    pub what: ApprovalCallKind,
    /// The tool or prompt, by its server's own name, or the URI.
    pub name: String,
    /// Hash of the tool's definition when the grant was given. `None` applies to any definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// Conditions on the arguments, as in a rule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Value>,
    /// Names of the arguments that a call may have besides those in `arguments`. `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_arguments: Option<Vec<String>>,
    /// Destinations to which the arguments may refer, as in a rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<String>,
    /// Targets or values that are known, in their normal form, for the effect `known`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Time of the last use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_at: Option<Timestamp>,
    /// Number of uses.
    #[serde(default)]
    pub uses: u64,
}

/// Effect of a [`ApprovalGrant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "whoever acts on it must not overlook one")]
pub enum GrantEffect {
    /// Matching calls are allowed without asking.
    Allow,
    /// Matching calls are denied.
    Deny,
    /// The values are known: the guard does not ask because of them.
    Known,
    /// The calls of a plan are allowed, once and in their order.
    Plan,
}

impl LastingPermission {
    /// Computes the time of expiry, at `now`.
    ///
    /// # Errors
    /// A description, if the time is in the past or too far in the future.
    pub(super) fn end(&self, now: Timestamp) -> Result<Timestamp, String> {
        let after = |span: Duration| {
            SignedDuration::try_from(span)
                .ok()
                .and_then(|span| now.checked_add(span).ok())
                .unwrap_or(Timestamp::MAX)
        };
        match self.until {
            None => Ok(after(DEFAULT_PERMISSION_LIFETIME)),
            Some(until) if until <= now => Err("it would already have expired".to_owned()),
            Some(until) if until > after(MAX_PERMISSION_LIFETIME) => {
                Err("it would last longer than a year".to_owned())
            }
            Some(until) => Ok(until),
        }
    }
}

/// The conditions of a grant, ready to be looked at.
#[derive(Clone, Debug)]
pub(super) struct GrantConditions(Option<Policy>);

impl GrantConditions {
    /// Compiles the conditions of a permission.
    ///
    /// # Errors
    /// A description of the invalid condition.
    pub(super) fn new(
        arguments: &BTreeMap<String, Value>,
        other_arguments: Option<&[String]>,
        destinations: &[String],
    ) -> Result<Self, String> {
        #[derive(Serialize)]
        struct ConditionsPolicy<'a> {
            rule: [ConditionsRule<'a>; 1],
        }
        #[derive(Serialize)]
        struct ConditionsRule<'a> {
            decide: &'static str,
            #[serde(skip_serializing_if = "<[String]>::is_empty")]
            destinations: &'a [String],
            #[serde(skip_serializing_if = "Option::is_none")]
            other_arguments: Option<&'a [String]>,
            arguments: &'a BTreeMap<String, Value>,
        }
        if arguments.is_empty() && other_arguments.is_none() && destinations.is_empty() {
            return Ok(Self(None));
        }
        // Written and read as rules: one grammar and one set of checks serve both.
        let rule = ConditionsRule { decide: "allow", destinations, other_arguments, arguments };
        let file = ConditionsPolicy { rule: [rule] };
        let text = toml::to_string(&file).map_err(|error| error.to_string())?;
        // The same surroundings as for the rules, so that `~` and links mean the same.
        let mut reading = PolicyEnvironment::default();
        reading.home = std::env::home_dir().and_then(|home| home.into_os_string().into_string().ok());
        reading.links = Some(std::sync::Arc::new(super::local_links::LocalLinks));
        Policy::read(&text, &reading).map(|policy| Self(Some(policy))).map_err(|error| {
            // Places in a text that nobody has written say nothing.
            let said: Vec<&str> = error.mistakes().iter().map(|mistake| mistake.message.as_str()).collect();
            said.join("; ")
        })
    }

    /// Compiles the conditions of a grant.
    ///
    /// # Errors
    /// A description of the invalid condition.
    pub(super) fn of(grant: &ApprovalGrant) -> Result<Self, String> {
        Self::new(&grant.arguments, grant.other_arguments.as_deref(), &grant.destinations)
    }

    pub(super) fn fit(&self, asked: &PolicyRequest<'_>, now: Timestamp) -> bool {
        self.0.as_ref().is_none_or(|policy| {
            let verdict = policy.decide(asked, now);
            // What is allowed without a rule is not what was granted.
            verdict.decision == PolicyDecision::Allow
                && matches!(verdict.because, hospes_policy::DecisionReason::Rule { .. })
        })
    }
}

impl ApprovalGrant {
    /// Returns true if it persists across restarts of the host.
    pub(super) fn is_kept(&self) -> bool {
        self.session.is_none() && (self.until.is_some() || self.effect == GrantEffect::Deny)
    }

    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}
