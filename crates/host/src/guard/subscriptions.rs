//! Subscriptions to resources, to which the same rules apply as to reading.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Weak};

use hospes::{Context, Peer};
use hospes_policy::{CallArguments, PolicyDecision, PolicyRequest};
use hospes_store::{AuditEntry, AuditOutcome, DecisionBasis};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::call_target::CallTarget;
use super::denials::{UNASKED, basis_of, denial};
use super::enforcer::PolicyEnforcer;
use super::policy_caller::policy_caller;
use super::recorded_text::clipped;
use crate::approvals::{GrantEffect, GrantQuery};

/// Maximum number of subscriptions remembered as already recorded.
const MAX_FOLLOWERS: usize = 4096;

/// Subscriptions that have already been recorded. A legacy session repeats all of them whenever one is added.
#[derive(Debug, Default)]
pub(super) struct RecordedSubscriptions(Mutex<HashMap<u64, Weak<Peer>>>);

impl RecordedSubscriptions {
    fn is_news(&self, peer: &Arc<Peer>, what: impl std::hash::Hash) -> bool {
        // A stream of 2026-07-28 asks once for all that it follows, so nothing comes twice.
        if !peer.revision.is_legacy() {
            return true;
        }
        let mut hasher = DefaultHasher::new();
        (Arc::as_ptr(peer) as usize).hash(&mut hasher);
        what.hash(&mut hasher);
        let mut known = self.0.lock();
        if known.len() >= MAX_FOLLOWERS {
            known.retain(|_, peer| peer.strong_count() > 0);
            if known.len() >= MAX_FOLLOWERS {
                // At worst a subscription is recorded twice.
                known.clear();
            }
        }
        let before = known.insert(hasher.finish(), Arc::downgrade(peer));
        !before.is_some_and(|before| std::ptr::eq(before.as_ptr(), Arc::as_ptr(peer)))
    }
}

impl PolicyEnforcer {
    /// Returns true if an application may be notified of changes of a resource. It must be allowed to read the resource
    /// without approval, and the server must not be withheld. The decision is recorded; if recording fails, the
    /// subscription is refused.
    pub(crate) async fn admit_subscription(
        &self,
        context: &Context,
        going: &CallTarget<'_>,
        withheld: Option<&'static str>,
    ) -> bool {
        let ruling = match withheld {
            Some(why) => Err((why.to_owned(), DecisionBasis::Host)),
            None => self.rule_on_subscription(context, going),
        };
        let Some(audit) = &self.audit else { return ruling.is_ok() };
        if let Err(error) = audit.check_writable().await {
            tracing::error!(%error, "subscription refused because it cannot be recorded");
            return false;
        }
        if !self.followers.is_news(context.peer(), (going.server, going.subject(), ruling.is_ok())) {
            return ruling.is_ok();
        }
        let mut entry = self.entry(going.kind(), (going.server, going.profile), context);
        entry.subject = Some(clipped(going.subject()));
        let (decision, ending) =
            if ruling.is_ok() { ("allow", AuditOutcome::Done) } else { ("deny", AuditOutcome::Refused) };
        entry.decision = Some(decision.to_owned());
        entry.ending = Some(ending);
        let (Ok((by, basis)) | Err((by, basis))) = ruling.clone();
        (entry.by, entry.basis) = (Some(by), basis);
        // This waits only where the buffer of the record is full.
        if let Err(full) = audit.try_enqueue(entry)
            && let Err(error) = audit.enqueue(*full).await
        {
            tracing::error!(%error, "subscription could not be recorded and was refused");
            return false;
        }
        ruling.is_ok()
    }

    /// Returns true if the current rules still allow a change notification.
    pub(crate) fn allows_update(&self, context: &Context, going: &CallTarget<'_>) -> bool {
        self.rule_on_subscription(context, going).is_ok()
    }

    /// Returns the decision about a subscription, in words and with its basis.
    fn rule_on_subscription(
        &self,
        context: &Context,
        going: &CallTarget<'_>,
    ) -> Result<(String, DecisionBasis), (String, DecisionBasis)> {
        let Some(policy) = self.policy() else {
            return Ok(("there are no rules".to_owned(), DecisionBasis::Default));
        };
        let arguments = CallArguments::none();
        let asked =
            PolicyRequest::new(going.server, going.action(&arguments)).with_caller(policy_caller(context));
        let verdict = policy.decide(&asked, Timestamp::now());
        let (what, name) = (going.call_kind(), going.subject());
        let subject = GrantQuery {
            asked: &asked,
            target: going.target,
            what,
            name,
            definition: None,
            strong: true,
            peer: None,
        };
        let basis = basis_of(&verdict.because);
        match verdict.decision {
            PolicyDecision::Deny => Err((denial(&verdict), basis)),
            _ if let Some(block) = self.queue.find_grant(&subject, GrantEffect::Deny) => {
                Err((block.to_string(), DecisionBasis::Grant))
            }
            PolicyDecision::Ask => Err((format!("{UNASKED}: {}", verdict.because), basis)),
            PolicyDecision::Allow => Ok((verdict.because.to_string(), basis)),
        }
    }

    /// Creates an entry for a request of an application to a server, at the endpoint of a profile.
    pub(super) fn entry(
        &self,
        kind: hospes_store::AuditEntryKind,
        (server, profile): (&str, Option<&str>),
        context: &Context,
    ) -> AuditEntry {
        let mut entry = AuditEntry::new(kind);
        entry.server = Some(server.to_owned());
        entry.profile = profile.map(str::to_owned);
        entry.principal = context.principal().map(str::to_owned);
        let info = context.peer().info.as_ref();
        entry.application = info.map(|info| clipped(&format!("{} {}", info.name, info.version)));
        entry
    }
}
