//! Approvals that members of groups decide in place of the person whose call it is.

use hospes_policy::RequiredApprovers;
use hospes_store::approvals::NewDecision;

use super::*;
use crate::deciders::{DecisionAuthor, TeamDecider};

fn approvers(not_self: bool) -> Option<RequiredApprovers> {
    serde_json::from_value(json!({ "groups": [["finance", "board"]], "not_self": not_self })).unwrap()
}

fn of_group(bond: u8, not_self: bool) -> NewApproval {
    let offers = DecisionOptions::default();
    NewApproval { approvers: approvers(not_self), offers, is_weak: false, ..asking(bond, 1) }
}

fn person(name: &str, groups: &[&str]) -> TeamDecider {
    TeamDecider::new(name, groups.iter().map(|group| (*group).to_owned()).collect(), true)
}

fn author(name: &str, groups: &[&str]) -> DecisionAuthor {
    DecisionAuthor::team_person(format!("{name}, at the console"), person(name, groups))
}

fn not_approver() -> DecideError {
    DecideError::NotApprover("`finance` or `board`".to_owned())
}

#[tokio::test]
async fn members_of_a_group_decide_in_place_of_the_caller() {
    let queue = ApprovalQueue::new();
    let id = queue.submit(of_group(1, false)).unwrap().detach();
    let of = |one: &TeamDecider| queue.pending_of(Some(one)).pop().map(|one| one.groups);
    let (alice, bob) = (person("alice", &["staff"]), person("bob", &["staff", "finance"]));
    let (carol, dan) = (person("carol", &["staff"]), person("dan", &["Finance", "finance "]));
    for reader in [&alice, &bob] {
        assert_eq!(of(reader), Some(vec!["staff".to_owned()]), "the groups of the caller");
        assert!(queue.get_of(&id, Some(reader)).is_some());
    }
    for reader in [&carol, &dan] {
        assert_eq!((of(reader), queue.get_of(&id, Some(reader))), (None, None));
    }
    let allow = async |by: DecisionAuthor| queue.decide(&id, ApprovalDecision::allow(), by).await;
    let deny = async |by: DecisionAuthor| queue.decide(&id, ApprovalDecision::deny(), by).await;
    assert_eq!(allow(author("alice", &["staff"])).await, Err(not_approver()));
    assert_eq!(allow(DecisionAuthor::person(CONSOLE)).await, Err(not_approver()), "at the machine");
    assert_eq!(allow(DecisionAuthor::program("a program with a token")).await, Err(not_approver()));
    for (name, groups) in [("carol", &["staff"][..]), ("bob", &["staff"]), ("dan", &["Finance"])] {
        assert_eq!(allow(author(name, groups)).await, Err(DecideError::Unknown), "{name}");
        assert_eq!(deny(author(name, groups)).await, Err(DecideError::Unknown), "{name}");
    }
    // The application cannot report that its person has allowed it.
    let said = Some((ApprovalDecision::allow(), "the person, through the application"));
    assert_eq!(queue.redeem(&id, &[1; 32], said).await, Ok(None));
    let wide = ApprovalDecision::Allow { edited: None, scope: ApprovalScope::Session };
    let wide = queue.decide(&id, wide, author("bob", &["finance"])).await;
    assert!(matches!(wide, Err(DecideError::NotOffered(_))), "{wide:?}");

    let decided = allow(author("bob", &["staff", "finance"])).await.unwrap().decided.unwrap();
    let by = "bob, at the console, as a member of finance";
    let approver = decided.approver.clone().unwrap();
    assert_eq!(
        (&*decided.by, &*approver.principal, &approver.groups[..]),
        (by, "bob", &["finance".to_owned()][..])
    );
    assert_eq!(
        serde_json::from_str::<DecisionRecord>(&serde_json::to_string(&decided).unwrap()).unwrap(),
        decided
    );
    assert_eq!(queue.redeem(&id, &[1; 32], None).await, Ok(Some(allowed(by))));
    assert_eq!(queue.redeem(&id, &[1; 32], None).await, Err(ApprovalQueueError::Expired), "once");
    // It is over for those for whom it existed, and unknown to others.
    assert_eq!(allow(author("bob", &["finance"])).await, Err(DecideError::Over));
    assert_eq!(allow(author("carol", &["staff"])).await, Err(DecideError::Unknown));
    assert_eq!((queue.recent_of(Some(&bob)).len(), queue.recent_of(Some(&carol)).len()), (1, 0));
}

#[tokio::test]
async fn the_caller_decides_only_as_a_member_and_never_with_not_self() {
    let queue = ApprovalQueue::new();
    let id = queue.submit(of_group(1, false)).unwrap().detach();
    queue.decide(&id, ApprovalDecision::allow(), author("alice", &["board"])).await.unwrap();
    let id = queue.submit(of_group(2, true)).unwrap().detach();
    let by_self = queue.decide(&id, ApprovalDecision::allow(), author("alice", &["board", "finance"])).await;
    assert_eq!(by_self, Err(not_approver()));
    // An approver who decides nothing of their own does not see it either.
    let only = TeamDecider::new("alice", vec!["finance".to_owned()], false);
    assert_eq!(queue.get_of(&id, Some(&only)), None);
    queue.decide(&id, ApprovalDecision::allow(), author("bob", &["finance"])).await.unwrap();
    // Without a principal the caller may be anybody.
    let nobody = NewApproval { principal: None, ..of_group(3, true) };
    let id = queue.submit(nobody).unwrap().detach();
    let by_any = queue.decide(&id, ApprovalDecision::allow(), author("bob", &["finance"])).await;
    assert_eq!(by_any, Err(DecideError::Unknown));
    let nobody = NewApproval { principal: None, ..of_group(4, false) };
    let id = queue.submit(nobody).unwrap().detach();
    queue.decide(&id, ApprovalDecision::allow(), author("bob", &["finance"])).await.unwrap();
}

#[tokio::test]
async fn whoever_sees_it_may_deny_it() {
    let queue = ApprovalQueue::new();
    for by in [author("alice", &["staff"]), author("bob", &["board"]), DecisionAuthor::person(CONSOLE)] {
        let id = queue.submit(of_group(1, true)).unwrap().detach();
        let denied = queue.decide(&id, ApprovalDecision::deny(), by).await.unwrap();
        assert_eq!((denied.state, denied.decided.unwrap().approver), (ApprovalState::Denied, None));
        let outcome = queue.redeem(&id, &[1; 32], None).await;
        assert!(matches!(outcome, Ok(Some(ApprovalOutcome::Denied { .. }))), "{outcome:?}");
        // Nothing lasts.
        let id = queue.submit(of_group(1, true)).unwrap().detach();
        let block = ApprovalDecision::Deny { reason: None, block: true };
        let blocked = queue.decide(&id, block, author("bob", &["board"])).await;
        assert!(matches!(blocked, Err(DecideError::NotOffered(_))), "{blocked:?}");
    }
}

/// A node of an older version stores decisions without looking at who makes them.
#[tokio::test]
async fn a_stored_permission_of_somebody_else_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateStore::open(folder.path().join("state.db")).unwrap();
    let queue = ApprovalQueue::open(&state).await.unwrap();
    let stored = async |bond: u8, decided: serde_json::Value| {
        let waiting = queue.submit(NewApproval { returns: true, ..of_group(bond, true) }).unwrap();
        let id = waiting.persist().await.unwrap();
        let until = Timestamp::now() + jiff::SignedDuration::from_mins(5);
        let decision = NewDecision::new(decided.to_string(), until);
        assert!(state.approvals().unwrap().decide(id.clone(), decision, Timestamp::now()).await.unwrap());
        queue.reload_persisted().await.unwrap();
        // The one who waits, and another process that has read the approval.
        queue.redeem(&id, &[bond; 32], None).await.unwrap().unwrap()
    };
    let by = |more: serde_json::Value| {
        let mut decided =
            json!({ "at": Timestamp::now(), "by": "somebody", "decision": "allow", "basis": "person" });
        decided.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        decided
    };
    let record =
        |principal: &str, group: &str| json!({ "approver": { "principal": principal, "groups": [group] } });
    for (at, more) in [json!({}), record("alice", "finance"), record("bob", "staff")].into_iter().enumerate()
    {
        let outcome = stored(u8::try_from(at).unwrap(), by(more.clone())).await;
        let ApprovalOutcome::Denied { reason: Some(why), .. } = outcome else {
            panic!("{more}: {outcome:?}")
        };
        assert!(why.contains("not a member of `finance` or `board`"), "{why}");
    }
    let outcome = stored(9, by(record("bob", "finance"))).await;
    assert!(matches!(outcome, ApprovalOutcome::Allowed { .. }), "{outcome:?}");
}

#[tokio::test]
async fn approvers_are_kept_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateStore::open(folder.path().join("state.db")).unwrap();
    let before = ApprovalQueue::open(&state).await.unwrap();
    let waiting = before.submit(NewApproval { returns: true, ..of_group(1, true) }).unwrap();
    let id = waiting.persist().await.unwrap();
    drop(before);
    let queue = ApprovalQueue::open(&state).await.unwrap();
    let kept = queue.get(&id).unwrap();
    assert_eq!((kept.approvers, &kept.groups[..]), (approvers(true), &["staff".to_owned()][..]));
    assert_eq!(
        queue.decide(&id, ApprovalDecision::allow(), author("alice", &["finance"])).await,
        Err(not_approver())
    );
    queue.decide(&id, ApprovalDecision::allow(), author("bob", &["finance"])).await.unwrap();
    assert!(matches!(queue.redeem(&id, &[1; 32], None).await, Ok(Some(ApprovalOutcome::Allowed { .. }))));
}
