//! Approved plans among the lasting decisions, so that a person sees and can revoke them.

use std::time::Duration;

use jiff::SignedDuration;

use super::approval::ApprovalCallKind;
use super::decision::DecideError;
use super::grant::{ApprovalGrant, GrantEffect};
use super::queue::ApprovalQueue;
use super::session::GrantSession;

/// An approved plan.
pub(crate) struct NewPlanGrant {
    /// Id of its approval.
    pub(crate) id: String,
    pub(crate) by: String,
    pub(crate) principal: Option<String>,
    pub(crate) application: Option<String>,
    pub(crate) session: GrantSession,
    /// Name under which the audit log records the host's own tools.
    pub(crate) server: String,
    /// Description of the calls.
    pub(crate) name: String,
    pub(crate) lifetime: Duration,
}

impl ApprovalQueue {
    /// Adds an approved plan to the grants.
    ///
    /// # Errors
    /// If the limit of grants is reached.
    pub(crate) fn add_plan(&self, plan: NewPlanGrant) -> Result<(), DecideError> {
        let NewPlanGrant { id, by, principal, application, session, server, name, lifetime } = plan;
        let given_at = self.now();
        let span = SignedDuration::try_from(lifetime).ok();
        let until = span.and_then(|span| given_at.checked_add(span).ok());
        let grant = ApprovalGrant {
            id,
            given_at,
            by,
            until: Some(until.unwrap_or(given_at)),
            session: Some(session.describe()),
            effect: GrantEffect::Plan,
            principal,
            application,
            any_application: false,
            weak: false,
            server,
            target: None,
            what: ApprovalCallKind::Tool,
            name,
            definition: None,
            arguments: Default::default(),
            other_arguments: None,
            destinations: Vec::new(),
            values: Vec::new(),
            used_at: None,
            uses: 0,
        };
        self.0.grants.insert(grant, Some(session))?;
        self.notify_changed();
        Ok(())
    }

    /// Returns true if a plan has not been revoked and is not over.
    pub(crate) fn is_plan_open(&self, id: &str) -> bool {
        self.0.grants.is_plan_open(id)
    }

    /// Counts a call of a plan. Returns false if the plan has been revoked or is over.
    pub(crate) fn use_plan(&self, id: &str) -> bool {
        self.0.grants.use_plan(id)
    }

    /// Removes a plan that has ended from the grants.
    pub(crate) fn end_plan(&self, id: &str) {
        self.0.grants.revoke(id);
        self.notify_changed();
    }
}
