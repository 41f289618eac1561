//! Approved plans whose calls have not all been made.

use std::sync::Arc;
use std::time::Duration;

use hospes::Peer;
use parking_lot::Mutex;
use tokio::sync::{Mutex as TurnMutex, OwnedMutexGuard};
use tokio::time::{Instant, timeout_at};

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
    /// The calls in order.
    calls: Vec<ApprovedStep>,
    /// Number of calls that were made.
    made: usize,
    /// Held by the call that is being made. Applications may send several calls at once; they are made in that order, one
    /// after the other.
    turn: Arc<TurnMutex<()>>,
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
    pub(super) calls: Vec<ApprovedStep>,
    pub(super) is_strong: bool,
}

/// A call that a person has approved with its plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct ApprovedStep {
    pub(super) binding: BindingDigest,
    /// True if the card of the plan showed a concern of the guard or of the data flow about this call.
    pub(super) has_concern: bool,
}

/// Turn of a call in an open plan. The next call waits until it is dropped.
#[derive(Debug)]
pub(super) struct PlanTurn {
    /// Id of the plan's approval.
    pub(super) id: String,
    #[expect(dead_code, reason = "held until the call has ended")]
    permit: OwnedMutexGuard<()>,
}

/// Call of an open plan.
#[derive(Debug)]
pub(super) struct PlanStep {
    pub(super) turn: PlanTurn,
    /// Number of the call, from 1.
    pub(super) number: usize,
    /// Number of calls of the plan.
    pub(super) of: usize,
    /// True if the card of the plan showed a concern of the guard or of the data flow about this call.
    pub(super) has_concern: bool,
}

impl PlanStep {
    pub(super) fn is_last(&self) -> bool {
        self.number == self.of
    }

    /// Describes the step for the audit log.
    pub(super) fn describe(&self) -> String {
        let Self { turn, number, of, .. } = self;
        format!("call {number} of {of} of the approved plan {}", turn.id)
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

    /// Returns true if a call of this peer can be a call of a plan.
    pub(super) fn has_plan_of(&self, peer: &Arc<Peer>) -> bool {
        self.0.lock().iter().any(|plan| plan.conversation.includes(peer))
    }

    /// Returns the reason that a plan of this peer does not fit, if there is one. `is_granted` returns false for a plan
    /// that was revoked.
    pub(super) fn check_room(&self, peer: &Peer, is_granted: impl Fn(&str) -> bool) -> Result<(), String> {
        let mut plans = self.0.lock();
        expire(&mut plans);
        plans.retain(|plan| is_granted(&plan.id));
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
        plans.push(OpenPlan { id, conversation, calls, made: 0, turn: Arc::default(), until, is_strong });
        Ok(())
    }

    /// Waits until the calls of a plan that came before this one have ended, if a call with this binding is still to be
    /// made. At most until the plan's time is over.
    pub(super) async fn wait_for_turn(&self, peer: &Arc<Peer>, call: &BindingDigest) -> Option<PlanTurn> {
        let (id, turn, until) = {
            let plans = self.0.lock();
            let remaining = || plans.iter().filter(|plan| plan.remains(peer, call));
            // The next call of one plan ends no other.
            let plan = remaining().find(|plan| plan.is_next(call)).or_else(|| remaining().next())?;
            (plan.id.clone(), Arc::clone(&plan.turn), plan.until)
        };
        let permit = timeout_at(until, turn.lock_owned()).await.ok()?;
        Some(PlanTurn { id, permit })
    }

    /// Takes the next call of a plan, if a call with this binding is it. With `strong`, only of a plan that the console
    /// approved. `is_granted` returns false for a plan that was revoked.
    pub(super) fn take_step(
        &self,
        turn: PlanTurn,
        (call, strong): (&BindingDigest, bool),
        is_granted: impl Fn(&str) -> bool,
    ) -> Option<PlanStep> {
        let mut plans = self.0.lock();
        expire(&mut plans);
        let is_it = |plan: &OpenPlan| plan.id == turn.id && plan.is_next(call) && (plan.is_strong || !strong);
        let at = plans.iter().position(is_it)?;
        if !is_granted(&turn.id) {
            plans.remove(at);
            return None;
        }
        let plan = &mut plans[at];
        let has_concern = plan.calls[plan.made].has_concern;
        plan.made += 1;
        let (number, of) = (plan.made, plan.calls.len());
        let step = PlanStep { turn, number, of, has_concern };
        if step.is_last() {
            plans.remove(at);
        }
        Some(step)
    }

    /// Ends a plan. Returns true if it was open.
    pub(super) fn end_plan(&self, id: &str) -> bool {
        let mut plans = self.0.lock();
        let at = plans.iter().position(|plan| plan.id == id);
        at.map(|at| plans.remove(at)).is_some()
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

impl OpenPlan {
    /// Returns true if a call with this binding is the next of the plan.
    fn is_next(&self, call: &BindingDigest) -> bool {
        self.calls.get(self.made).is_some_and(|step| step.binding == *call)
    }

    /// Returns true if a call of this peer with this binding is still to be made.
    fn remains(&self, peer: &Arc<Peer>, call: &BindingDigest) -> bool {
        self.calls[self.made..].iter().any(|step| step.binding == *call) && self.conversation.includes(peer)
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
    use tokio::time::timeout;

    use super::*;

    fn peer(revision: Revision, application: &str, caller: Option<&str>) -> Arc<Peer> {
        let info = Some(Implementation::new(application, "1"));
        let mut peer = Peer::new(revision, info, ClientCapabilities::default());
        peer.caller = caller.map(Arc::from);
        Arc::new(peer)
    }

    fn plan(id: &str, calls: &[u8]) -> ApprovedPlan {
        let calls =
            calls.iter().map(|call| ApprovedStep { binding: [*call; 32], has_concern: false }).collect();
        ApprovedPlan { id: id.to_owned(), calls, is_strong: false }
    }

    /// Takes a step without waiting.
    async fn take(
        plans: &OpenPlans,
        peer: &Arc<Peer>,
        (call, strong): (u8, bool),
        is_granted: impl Fn(&str) -> bool,
    ) -> Option<PlanStep> {
        let call = [call; 32];
        let turn = timeout(Duration::ZERO, plans.wait_for_turn(peer, &call)).await.ok()??;
        plans.take_step(turn, (&call, strong), is_granted)
    }

    /// Number of the step that a call is. The call ends at once.
    async fn step(plans: &OpenPlans, peer: &Arc<Peer>, call: u8) -> Option<usize> {
        take(plans, peer, (call, false), |_| true).await.map(|step| step.number)
    }

    #[tokio::test(start_paused = true)]
    async fn each_call_passes_once_and_in_order() {
        for revision in [Revision::LATEST_LEGACY, Revision::LATEST] {
            let (plans, peer) = (OpenPlans::default(), peer(revision, "editor", None));
            plans.open(&peer, plan("a", &[1, 2, 2, 3])).unwrap();
            assert_eq!(step(&plans, &peer, 2).await, None, "not the next");
            assert_eq!(step(&plans, &peer, 1).await, Some(1));
            assert_eq!(step(&plans, &peer, 1).await, None, "once");
            assert_eq!((step(&plans, &peer, 2).await, step(&plans, &peer, 2).await), (Some(2), Some(3)));
            assert_eq!(step(&plans, &peer, 2).await, None);
            assert_eq!(step(&plans, &peer, 3).await, Some(4));
            assert!(plans.is_empty(), "nothing is left of it");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_plan_ends_after_its_time_and_with_its_session() {
        let (plans, legacy) = (OpenPlans::default(), peer(Revision::LATEST_LEGACY, "editor", None));
        plans.open(&legacy, plan("a", &[1, 2])).unwrap();
        tokio::time::advance(PLAN_LIFETIME - Duration::from_secs(1)).await;
        assert_eq!(step(&plans, &legacy, 1).await, Some(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(step(&plans, &legacy, 2).await, None);
        plans.open(&legacy, plan("b", &[1])).unwrap();
        drop(legacy);
        plans.check_room(&peer(Revision::LATEST_LEGACY, "editor", None), |_| true).unwrap();
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
                assert_eq!(step(&plans, &other, 1).await, None, "{revision}");
            }
            let info = mine.info.as_deref().cloned();
            let mut ann = Peer::new(revision, info, ClientCapabilities::default());
            (ann.caller, ann.principal) = (mine.caller.clone(), Some("ann".into()));
            assert_eq!(step(&plans, &Arc::new(ann), 1).await, None, "{revision}");
            let same_process = peer(revision, "editor", Some("process 1"));
            let taken = step(&plans, &same_process, 1).await;
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
        assert!(plans.check_room(&mine, |_| true).is_err());
        assert!(plans.check_room(&mine, |id| id != "b").is_ok(), "a revoked plan does not count");
        plans.open(&mine, plan("b", &[1])).unwrap();
        plans.open(&peer(Revision::LATEST, "another", None), plan("f", &[1])).unwrap();
        // Each of them has the call once.
        for count in 0..5 {
            assert_eq!(step(&plans, &mine, 1).await.is_some(), count < 4, "{count}");
        }
        plans.check_room(&mine, |_| true).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_revoked_plan_and_a_weak_one_have_no_part_in_it() {
        let (plans, mine) = (OpenPlans::default(), peer(Revision::LATEST, "editor", None));
        plans.open(&mine, plan("a", &[1, 1])).unwrap();
        assert!(take(&plans, &mine, (1, true), |_| true).await.is_none(), "only the console may approve");
        assert_eq!(step(&plans, &mine, 1).await, Some(1));
        assert!(take(&plans, &mine, (1, false), |_| false).await.is_none());
        assert!(plans.is_empty());
        plans.open(&mine, ApprovedPlan { is_strong: true, ..plan("b", &[1]) }).unwrap();
        assert!(take(&plans, &mine, (1, true), |_| true).await.is_some());
    }

    /// Calls that an application sends at once are made one after the other.
    #[tokio::test(start_paused = true)]
    async fn the_next_call_waits_for_the_one_before_it() {
        let (plans, mine) = (OpenPlans::default(), peer(Revision::LATEST, "editor", None));
        plans.open(&mine, plan("a", &[1, 2, 3, 4])).unwrap();
        let turn = |call: u8| {
            let (plans, mine) = (&plans, &mine);
            async move { plans.wait_for_turn(mine, &[call; 32]).await }
        };
        let is_step = |turn: Option<PlanTurn>, call: u8| {
            turn.and_then(|turn| plans.take_step(turn, (&[call; 32], false), |_| true))
        };
        let first = is_step(turn(1).await, 1).unwrap();
        let (mut second, mut third) = (std::pin::pin!(turn(2)), std::pin::pin!(turn(3)));
        assert!(timeout(Duration::ZERO, &mut second).await.is_err(), "the first call has not ended");
        assert!(timeout(Duration::ZERO, &mut third).await.is_err());
        assert!(turn(5).await.is_none(), "no call of the plan");
        drop(first);
        assert!(timeout(Duration::ZERO, &mut third).await.is_err());
        let second = is_step(second.await, 2).unwrap();
        drop(second);
        let third = is_step(third.await, 3).unwrap();
        assert_eq!(third.number, 3);
        // Ends with the plan's time.
        assert!(turn(4).await.is_none());
        assert!(is_step(turn(4).await, 4).is_none());
    }
}
