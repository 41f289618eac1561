//! Approved plans whose calls have not all been made.

use std::sync::Arc;
use std::time::Duration;

use hospes::Peer;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::approvals::{BindingDigest, GrantSession};

/// Time for which an approved plan holds.
pub(super) const PLAN_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Maximum number of open plans of one application and user.
const MAX_OF_APPLICATION: usize = 4;

/// Maximum number of open plans.
const MAX_PLANS: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct OpenPlans(Mutex<Vec<OpenPlan>>);

#[derive(Debug)]
struct OpenPlan {
    id: String,
    conversation: PlanConversation,
    /// Bindings of the calls in order.
    calls: Vec<BindingDigest>,
    /// Number of calls that were made.
    made: usize,
    until: Instant,
    /// True if the console approved it, as a rule may require.
    is_strong: bool,
}

/// Application, user and session that proposed a plan.
#[derive(Debug)]
struct PlanConversation {
    principal: Option<Arc<str>>,
    application: Option<String>,
    session: GrantSession,
}

/// A plan that a person has approved.
#[derive(Debug)]
pub(super) struct ApprovedPlan {
    /// Id of the approval.
    pub(super) id: String,
    pub(super) calls: Vec<BindingDigest>,
    pub(super) is_strong: bool,
}

/// Call of an open plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlanStep {
    /// Id of the plan's approval.
    pub(super) id: String,
    /// Number of the call, from 1.
    pub(super) number: usize,
    /// Number of calls of the plan.
    pub(super) of: usize,
}

impl PlanStep {
    pub(super) fn is_last(&self) -> bool {
        self.number == self.of
    }

    /// Describes the step for the audit log.
    pub(super) fn describe(&self) -> String {
        let Self { id, number, of } = self;
        format!("call {number} of {of} of the approved plan {id}")
    }
}

impl PlanConversation {
    fn of(peer: &Arc<Peer>) -> Self {
        Self {
            principal: peer.principal.clone(),
            application: peer.info.as_ref().map(|info| info.name.clone()),
            session: GrantSession::of(peer),
        }
    }

    /// Returns true if the peer is the same application and user.
    fn is_of(&self, peer: &Peer) -> bool {
        self.principal == peer.principal
            && self.application.as_deref() == peer.info.as_ref().map(|info| &*info.name)
    }

    /// Returns true if a call of this peer can be a call of the plan.
    fn includes(&self, peer: &Arc<Peer>) -> bool {
        self.is_of(peer) && self.session.includes(peer)
    }

    /// Returns true if the plan's application may have what this peer reads: in the same session, or with 2026-07-28 in
    /// any process of the application, as the data flow has it.
    fn shares_reads(&self, peer: &Arc<Peer>) -> bool {
        match self.session {
            GrantSession::Connection(_) => self.session.includes(peer),
            GrantSession::Process(_) => !peer.revision.is_legacy() && self.is_of(peer),
        }
    }
}

impl OpenPlans {
    /// Returns true if there are no plans, as nearly always.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Returns the reason that a plan of this peer does not fit, if there is one.
    pub(super) fn check_room(&self, peer: &Peer) -> Result<(), String> {
        let mut plans = self.0.lock();
        expire(&mut plans);
        check_room(&plans, peer)
    }

    /// Opens a plan that a person has approved.
    ///
    /// # Errors
    /// If the limit of open plans is reached.
    pub(super) fn open(&self, peer: &Arc<Peer>, approved: ApprovedPlan) -> Result<(), String> {
        let mut plans = self.0.lock();
        expire(&mut plans);
        check_room(&plans, peer)?;
        let ApprovedPlan { id, calls, is_strong } = approved;
        let (conversation, until) = (PlanConversation::of(peer), Instant::now() + PLAN_LIFETIME);
        plans.push(OpenPlan { id, conversation, calls, made: 0, until, is_strong });
        Ok(())
    }

    /// Takes the next call of a plan, if a call with this binding is one. With `strong`, only of a plan that the console
    /// approved. `is_granted` returns false for a plan that was revoked.
    pub(super) fn take_step(
        &self,
        peer: &Arc<Peer>,
        (call, strong): (&BindingDigest, bool),
        is_granted: impl Fn(&str) -> bool,
    ) -> Option<PlanStep> {
        let mut plans = self.0.lock();
        expire(&mut plans);
        loop {
            let at = plans.iter().position(|plan| {
                plan.calls.get(plan.made) == Some(call)
                    && plan.conversation.includes(peer)
                    && (plan.is_strong || !strong)
            })?;
            if !is_granted(&plans[at].id) {
                plans.remove(at);
                continue;
            }
            let plan = &mut plans[at];
            plan.made += 1;
            let step = PlanStep { id: plan.id.clone(), number: plan.made, of: plan.calls.len() };
            if step.is_last() {
                plans.remove(at);
            }
            return Some(step);
        }
    }

    /// Ends the plans of the conversation that this peer belongs to. Returns their ids.
    pub(super) fn end(&self, peer: &Arc<Peer>) -> Vec<String> {
        let mut plans = self.0.lock();
        let mut ended = Vec::new();
        plans.retain(|plan| {
            let ends = plan.conversation.shares_reads(peer);
            if ends {
                ended.push(plan.id.clone());
            }
            !ends
        });
        ended
    }
}

fn check_room(plans: &[OpenPlan], peer: &Peer) -> Result<(), String> {
    if plans.iter().filter(|plan| plan.conversation.is_of(peer)).count() >= MAX_OF_APPLICATION {
        return Err(format!(
            "{MAX_OF_APPLICATION} plans of the same application are already open, which is the limit; a plan ends \
             with its last call, after {} minutes, or when it is revoked",
            PLAN_LIFETIME.as_secs() / 60
        ));
    }
    if plans.len() >= MAX_PLANS {
        return Err(format!("{MAX_PLANS} plans are already open, which is the limit"));
    }
    Ok(())
}

fn expire(plans: &mut Vec<OpenPlan>) {
    let now = Instant::now();
    plans.retain(|plan| plan.until > now && !plan.conversation.session.is_over());
}

#[cfg(test)]
mod tests {
    use hospes_model::{ClientCapabilities, Implementation, Revision};

    use super::*;

    fn peer(revision: Revision, application: &str, caller: Option<&str>) -> Arc<Peer> {
        let info = Some(Implementation::new(application, "1"));
        let mut peer = Peer::new(revision, info, ClientCapabilities::default());
        peer.caller = caller.map(Arc::from);
        Arc::new(peer)
    }

    fn plan(id: &str, calls: &[u8]) -> ApprovedPlan {
        let calls = calls.iter().map(|call| [*call; 32]).collect();
        ApprovedPlan { id: id.to_owned(), calls, is_strong: false }
    }

    /// Number of the step that a call is.
    fn step(plans: &OpenPlans, peer: &Arc<Peer>, call: u8) -> Option<usize> {
        plans.take_step(peer, (&[call; 32], false), |_| true).map(|step| step.number)
    }

    #[tokio::test(start_paused = true)]
    async fn each_call_passes_once_and_in_order() {
        for revision in [Revision::LATEST_LEGACY, Revision::LATEST] {
            let (plans, peer) = (OpenPlans::default(), peer(revision, "editor", None));
            plans.open(&peer, plan("a", &[1, 2, 2, 3])).unwrap();
            assert_eq!(step(&plans, &peer, 2), None, "not the next");
            assert_eq!(step(&plans, &peer, 1), Some(1));
            assert_eq!(step(&plans, &peer, 1), None, "once");
            assert_eq!((step(&plans, &peer, 2), step(&plans, &peer, 2)), (Some(2), Some(3)));
            assert_eq!(step(&plans, &peer, 2), None);
            assert_eq!(step(&plans, &peer, 3), Some(4));
            assert!(plans.is_empty(), "nothing is left of it");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_plan_ends_after_its_time_and_with_its_session() {
        let (plans, legacy) = (OpenPlans::default(), peer(Revision::LATEST_LEGACY, "editor", None));
        plans.open(&legacy, plan("a", &[1, 2])).unwrap();
        tokio::time::advance(PLAN_LIFETIME - Duration::from_secs(1)).await;
        assert_eq!(step(&plans, &legacy, 1), Some(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(step(&plans, &legacy, 2), None);
        plans.open(&legacy, plan("b", &[1])).unwrap();
        drop(legacy);
        plans.check_room(&peer(Revision::LATEST_LEGACY, "editor", None)).unwrap();
        assert!(plans.is_empty(), "the session has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn no_other_application_process_or_session_has_a_part_in_it() {
        for revision in [Revision::LATEST_LEGACY, Revision::LATEST] {
            let (plans, mine) = (OpenPlans::default(), peer(revision, "editor", Some("process 1")));
            plans.open(&mine, plan("a", &[1, 2])).unwrap();
            for other in [
                peer(revision, "another", Some("process 1")),
                peer(revision, "editor", Some("process 2")),
                peer(revision, "editor", None),
            ] {
                assert_eq!(step(&plans, &other, 1), None, "{revision}");
            }
            let info = mine.info.as_deref().cloned();
            let mut ann = Peer::new(revision, info, ClientCapabilities::default());
            (ann.caller, ann.principal) = (mine.caller.clone(), Some("ann".into()));
            assert_eq!(step(&plans, &Arc::new(ann), 1), None, "{revision}");
            let same_process = peer(revision, "editor", Some("process 1"));
            let taken = step(&plans, &same_process, 1);
            assert_eq!(taken.is_some(), !revision.is_legacy(), "{revision}: each session has its own plans");
            assert!(plans.end(&peer(revision, "another", Some("process 1"))).is_empty());
            assert_eq!(plans.end(&mine), ["a"]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_plans_is_limited_for_each_application() {
        let (plans, mine) = (OpenPlans::default(), peer(Revision::LATEST, "editor", None));
        for id in ["a", "b", "c", "d"] {
            plans.open(&mine, plan(id, &[1])).unwrap();
        }
        let error = plans.open(&mine, plan("e", &[1])).unwrap_err();
        assert!(error.contains("4 plans of the same application"), "{error}");
        assert!(plans.check_room(&mine).is_err());
        plans.open(&peer(Revision::LATEST, "another", None), plan("f", &[1])).unwrap();
        // Each of them has the call once.
        assert_eq!((0..5).filter(|_| step(&plans, &mine, 1).is_some()).count(), 4);
        plans.check_room(&mine).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_revoked_plan_and_a_weak_one_have_no_part_in_it() {
        let (plans, mine) = (OpenPlans::default(), peer(Revision::LATEST, "editor", None));
        plans.open(&mine, plan("a", &[1, 1])).unwrap();
        assert_eq!(plans.take_step(&mine, (&[1; 32], true), |_| true), None, "only the console may approve");
        assert_eq!(step(&plans, &mine, 1), Some(1));
        assert_eq!(plans.take_step(&mine, (&[1; 32], false), |_| false), None);
        assert!(plans.is_empty());
        plans.open(&mine, ApprovedPlan { is_strong: true, ..plan("b", &[1]) }).unwrap();
        assert!(plans.take_step(&mine, (&[1; 32], true), |_| true).is_some());
    }
}
