//! Pending approvals persist across restarts, and are used once.

use hospes_store::{AuditEntry, AuditEntryKind, AuditQuery};

use super::*;

/// A folder with a state in it. Each queue that is opened is another process, as far as they can tell.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    async fn queue(&self) -> ApprovalQueue {
        ApprovalQueue::open(&StateStore::open(self.0.path().join("state.db")).unwrap()).await.unwrap()
    }

    fn spoil(&self, sql: &str) {
        rusqlite::Connection::open(self.0.path().join("state.db")).unwrap().execute_batch(sql).unwrap();
    }
}

fn returning(bond: u8, asker: u8) -> NewApproval {
    NewApproval { returns: true, ..asking(bond, asker) }
}

async fn put(queue: &ApprovalQueue, bond: u8) -> String {
    queue.submit(returning(bond, 1)).unwrap().persist().await.unwrap()
}

fn edited(path: &str) -> ApprovalDecision {
    ApprovalDecision::Allow { edited: Some(json!({ "path": path }).into()), scope: ApprovalScope::Once }
}

/// Pending approvals, as they are shown.
fn shown(queue: &ApprovalQueue) -> Vec<serde_json::Value> {
    queue.pending().iter().map(|approval| serde_json::to_value(approval).unwrap()).collect()
}

#[tokio::test]
async fn what_waits_is_there_after_a_restart_and_its_decision_counts_once() {
    let place = Place::new();
    let first = place.queue().await;
    let (one, two) = (put(&first, 1).await, put(&first, 2).await);
    let before = shown(&first);
    assert_eq!(before.len(), 2);
    drop(first);

    let second = place.queue().await;
    assert_eq!(shown(&second), before, "as it was, in its order");
    assert_eq!(second.redeem(&one, &[1; 32], None).await, Ok(None), "nobody has decided");
    second.decide(&one, ApprovalDecision::allow(), CONSOLE).await.unwrap();
    second.decide(&two, ApprovalDecision::deny_because("wrong folder"), CONSOLE).await.unwrap();
    assert_eq!(second.decide(&two, ApprovalDecision::allow(), CONSOLE).await, Err(DecideError::Over));
    drop(second);

    let third = place.queue().await;
    assert!(third.pending().is_empty());
    assert_eq!(third.get(&one).unwrap().decided.unwrap().by, CONSOLE);
    assert_eq!(third.decide(&one, ApprovalDecision::deny(), CONSOLE).await, Err(DecideError::Over));
    assert_eq!(
        third.redeem(&one, &[1; 32], Some((ApprovalDecision::deny(), "app"))).await,
        Ok(Some(allowed(CONSOLE)))
    );
    let denied = ApprovalOutcome::Denied {
        reason: Some("wrong folder".to_owned()),
        by: CONSOLE.to_owned(),
        basis: DecisionBasis::Person,
    };
    assert_eq!(third.redeem(&two, &[2; 32], None).await, Ok(Some(denied)));
    for queue in [third, place.queue().await] {
        assert_eq!(queue.redeem(&one, &[1; 32], None).await, Err(ApprovalQueueError::Expired), "used");
        assert!(queue.pending().is_empty());
    }
}

/// A used decision is gone even if the process that used it was killed before it could report it.
#[tokio::test]
async fn what_is_used_is_gone_for_all_before_anything_comes_of_it() {
    let place = Place::new();
    let (one, other) = (place.queue().await, place.queue().await);
    for round in 0..20 {
        let id = put(&one, 1).await;
        other.subscribe().wait_for(|_| other.get(&id).is_some()).await.unwrap();
        let (first, second) = tokio::join!(
            one.decide(&id, ApprovalDecision::allow(), "one"),
            other.decide(&id, ApprovalDecision::allow(), "other")
        );
        assert!(first.is_ok() != second.is_ok(), "{round}: {first:?} {second:?}");
        let by = if first.is_ok() { "one" } else { "other" };
        let both = [&one, &other, &one];
        let used = futures::future::join_all(both.map(|queue| queue.redeem(&id, &[1; 32], None))).await;
        let mut used: Vec<_> = used.into_iter().filter_map(Result::ok).collect();
        // Who does not know of the decision yet is told that there is none.
        used.retain(Option::is_some);
        assert!(used.len() <= 1 && used.iter().all(|used| *used == Some(allowed(by))), "{round}: {used:?}");
        if used.is_empty() {
            let winner = if by == "one" { &one } else { &other };
            assert_eq!(winner.redeem(&id, &[1; 32], None).await, Ok(Some(allowed(by))));
        }
        for queue in [&one, &other] {
            assert!(!matches!(queue.redeem(&id, &[1; 32], None).await, Ok(Some(_))), "{round}: used");
        }
    }
    assert!(place.queue().await.pending().is_empty());
}

/// An application whose person answers in it, while another host shows the same.
#[tokio::test]
async fn what_an_application_says_counts_unless_somebody_was_quicker() {
    let place = Place::new();
    let (one, other) = (place.queue().await, place.queue().await);
    let id = put(&one, 1).await;
    other.subscribe().wait_for(|_| other.get(&id).is_some()).await.unwrap();
    other.decide(&id, ApprovalDecision::deny(), CONSOLE).await.unwrap();
    let said = one.redeem(&id, &[1; 32], Some((ApprovalDecision::allow(), "app"))).await;
    assert_eq!(
        said,
        Ok(Some(ApprovalOutcome::Denied {
            reason: None,
            by: CONSOLE.to_owned(),
            basis: DecisionBasis::Person
        }))
    );

    let id = put(&one, 1).await;
    other.subscribe().wait_for(|_| other.get(&id).is_some()).await.unwrap();
    let said = one.redeem(&id, &[1; 32], Some((ApprovalDecision::allow(), "app"))).await;
    assert_eq!(said, Ok(Some(allowed("app"))));
    other.subscribe().wait_for(|_| other.pending().is_empty()).await.unwrap();
    assert_eq!(other.decide(&id, ApprovalDecision::allow(), CONSOLE).await, Err(DecideError::Over));
    // What is strong is not an application's to give, after a restart either.
    let strong = NewApproval { is_weak: false, ..returning(1, 1) };
    let id = one.submit(strong).unwrap().persist().await.unwrap();
    let third = place.queue().await;
    assert_eq!(third.redeem(&id, &[1; 32], Some((ApprovalDecision::allow(), "app"))).await, Ok(None));
}

#[tokio::test]
async fn who_waits_hears_of_a_decision_that_is_made_elsewhere() {
    let place = Place::new();
    let (one, other) = (place.queue().await, place.queue().await);
    let id = put(&one, 1).await;
    let waiting = one.resume(&id, [1; 32]);
    let deciding = async {
        other.subscribe().wait_for(|_| other.get(&id).is_some()).await.unwrap();
        other.decide(&id, ApprovalDecision::allow(), CONSOLE).await.unwrap();
    };
    let settled = async { waiting.wait_settled().await };
    assert_eq!(tokio::join!(settled, deciding).0, Ok(allowed(CONSOLE)));
    // Who has come back and gives up waiting may come again.
    let id = put(&one, 1).await;
    drop(one.resume(&id, [1; 32]));
    assert_eq!(one.redeem(&id, &[1; 32], None).await, Ok(None));
}

#[tokio::test]
async fn the_try_for_something_else_uses_it_up_after_a_restart_too() {
    let place = Place::new();
    let first = place.queue().await;
    let (open, decided) = (put(&first, 1).await, put(&first, 1).await);
    first.decide(&decided, ApprovalDecision::allow(), CONSOLE).await.unwrap();
    let second = place.queue().await;
    for id in [&open, &decided] {
        assert_eq!(second.redeem(id, &[2; 32], None).await, Err(ApprovalQueueError::Changed));
    }
    for queue in [second, place.queue().await] {
        for id in [&open, &decided] {
            assert_eq!(queue.redeem(id, &[1; 32], None).await, Err(ApprovalQueueError::Expired));
        }
    }
}

/// A call that waits ends with its connection; its approval ends with it.
#[tokio::test]
async fn what_nobody_comes_back_for_is_not_kept_and_its_end_is_recorded() {
    let place = Place::new();
    let audit = AuditLog::open(place.0.path().join("audit.db"), place.0.path().join("audit.key")).unwrap();
    let queue = place.queue().await;
    queue.set_audit(&audit);
    let (gone, held) = (queue.submit(asking(1, 1)).unwrap(), queue.submit(asking(2, 1)).unwrap());
    let detached = queue.submit(asking(3, 1)).unwrap().detach();
    let kept = put(&queue, 4).await;
    let (gone_id, held_id) = (gone.id().to_owned(), held.id().to_owned());
    drop(gone);
    queue.shut_down().await;
    drop(held);
    for id in [&gone_id, &held_id, &detached] {
        assert_eq!(queue.get(id).unwrap().state, ApprovalState::Withdrawn);
    }
    audit.record(AuditEntry::new(AuditEntryKind::Server)).await.unwrap();
    let mut all = audit.search(AuditQuery::new()).await.unwrap();
    all.retain(|one| one.entry.kind == AuditEntryKind::Decision);
    assert!(all.iter().all(|one| one.entry.decision.as_deref() == Some("withdrawn")), "{all:?}");
    let mut ended: Vec<_> = all.iter().filter_map(|one| one.entry.matter.clone()).collect();
    ended.sort();
    let mut expected = vec![gone_id, held_id, detached];
    expected.sort();
    assert_eq!(ended, expected);
    let next = place.queue().await;
    assert_eq!(next.pending().iter().map(|approval| &approval.id).collect::<Vec<_>>(), [&kept]);
}

#[tokio::test(start_paused = true)]
async fn what_is_over_is_kept_no_more_and_what_is_kept_counts() {
    let place = Place::new();
    let queue = place.queue().await;
    let ids = [put(&queue, 1).await, put(&queue, 1).await];
    let limits = ApprovalLimits { of_one: 2, ..ApprovalLimits::default() };
    let second = place.queue().await;
    second.set_limits(limits);
    assert_eq!(
        second.submit(returning(1, 1)).map(drop),
        Err(ApprovalQueueError::TooMany(ApprovalLimitExceeded::OfOne(2)))
    );
    second.set_limits(ApprovalLimits { bytes: 40, ..ApprovalLimits::default() });
    assert_eq!(
        second.submit(returning(1, 1)).map(drop),
        Err(ApprovalQueueError::TooMany(ApprovalLimitExceeded::Bytes(40)))
    );
    tokio::time::advance(TIMEOUT / 2).await;
    second.decide(&ids[0], ApprovalDecision::allow(), CONSOLE).await.unwrap();
    tokio::time::advance(TIMEOUT / 2).await;
    assert_eq!(
        second.redeem(&ids[1], &[1; 32], None).await,
        Err(ApprovalQueueError::Expired),
        "silence is a no"
    );
    // Who was approved has as long again, and no longer.
    assert_eq!(second.get(&ids[0]).unwrap().state, ApprovalState::Allowed);
    tokio::time::advance(TIMEOUT / 2).await;
    assert_eq!(second.redeem(&ids[0], &[1; 32], None).await, Err(ApprovalQueueError::Expired));
    second.remove_finished().await;
    let third = place.queue().await;
    assert!(third.recent().is_empty() && third.pending().is_empty());
}

/// Time passes while the host is not running.
#[tokio::test]
async fn what_has_run_out_while_the_host_was_away_is_over() {
    let place = Place::new();
    let queue = place.queue().await;
    let (short, long) = (Duration::from_millis(1), Duration::from_secs(1000));
    let gone = queue.submit(NewApproval { timeout: short, ..returning(1, 1) }).unwrap().persist().await;
    let stays =
        queue.submit(NewApproval { timeout: long, ..returning(1, 1) }).unwrap().persist().await.unwrap();
    let over = Timestamp::now() + short;
    while Timestamp::now() <= over {
        tokio::task::yield_now().await;
    }
    let next = place.queue().await;
    assert_eq!(next.pending().iter().map(|approval| &approval.id).collect::<Vec<_>>(), [&stays]);
    assert!(gone.is_err() || next.get(&gone.unwrap()).is_none());
}

/// An approval from before the restart is checked by the rules from after it.
#[tokio::test]
async fn an_edit_is_looked_at_after_a_restart() {
    let place = Place::new();
    let id = put(&place.queue().await, 1).await;
    let queue = place.queue().await;
    let unknown = queue.decide(&id, edited("/good"), CONSOLE).await;
    assert!(matches!(unknown, Err(DecideError::Edit(_))), "nobody can tell: {unknown:?}");
    queue.set_edit_check(Box::new(|approval, groups, edited| {
        assert_eq!((approval.server.as_str(), groups), ("files", &["staff".to_owned()][..]));
        if edited.as_str().contains("bad") { Err("bad is not good".to_owned()) } else { Ok(()) }
    }));
    let refused = queue.decide(&id, edited("/bad"), CONSOLE).await;
    assert_eq!(refused, Err(DecideError::Edit("bad is not good".to_owned())));
    queue.decide(&id, edited("/good"), CONSOLE).await.unwrap();
    let next = place.queue().await;
    let Ok(Some(ApprovalOutcome::Allowed { edited: Some(edited), .. })) =
        next.redeem(&id, &[1; 32], None).await
    else {
        panic!("allowed")
    };
    assert_eq!(edited.as_str(), r#"{"path":"/good"}"#);
}

/// A decision that lasts is for the server and the tool as they were when it was asked, after a restart too.
#[tokio::test]
async fn a_permission_given_after_a_restart_is_no_wider() {
    let place = Place::new();
    let (one, two) = {
        let queue = place.queue().await;
        (put(&queue, 1).await, put(&queue, 2).await)
    };
    let queue = place.queue().await;
    let always =
        ApprovalDecision::Allow { edited: None, scope: ApprovalScope::Always(LastingPermission::default()) };
    queue.decide(&one, always, CONSOLE).await.unwrap();
    let session = ApprovalDecision::Allow { edited: None, scope: ApprovalScope::Session };
    // Another was quicker: nothing is granted for what was not decided.
    let other = place.queue().await;
    other.decide(&two, ApprovalDecision::deny(), CONSOLE).await.unwrap();
    assert_eq!(queue.decide(&two, session, CONSOLE).await, Err(DecideError::Over));
    assert_eq!(queue.grants().len(), 1);
    for queue in [queue, place.queue().await] {
        assert!(is_granted(&queue, Some("alice"), "editor", "d1", "/a"));
        assert!(!is_granted(&queue, Some("alice"), "editor", "d2", "/a"));
        assert!(!is_granted_at("t2", &queue, Some("alice"), "editor", "d1", "/a"));
    }
}

/// Nothing is believed to be kept, decided or used that is not.
#[tokio::test]
async fn what_cannot_be_written_has_not_happened() {
    let place = Place::new();
    let queue = place.queue().await;
    let (open, decided) = (put(&queue, 1).await, put(&queue, 2).await);
    queue.decide(&decided, ApprovalDecision::allow(), CONSOLE).await.unwrap();
    place.spoil("ALTER TABLE matters RENAME TO away");
    assert_eq!(queue.submit(returning(1, 1)).unwrap().persist().await, Err(ApprovalQueueError::Store));
    assert!(ApprovalQueueError::Store.message().contains("see the log"));
    let refused = queue.decide(&open, ApprovalDecision::allow(), CONSOLE).await;
    assert!(matches!(refused, Err(DecideError::Store(_))), "{refused:?}");
    assert_eq!(queue.redeem(&decided, &[2; 32], None).await, Err(ApprovalQueueError::Store));
    place.spoil("ALTER TABLE away RENAME TO matters");
    assert_eq!(
        queue.pending().iter().map(|approval| &approval.id).collect::<Vec<_>>(),
        [&open],
        "it still waits"
    );
    assert_eq!(queue.redeem(&decided, &[2; 32], None).await, Ok(Some(allowed(CONSOLE))), "and is good still");
}

/// An asker that goes away before the approval is persisted leaves nothing, because it cannot come back.
#[tokio::test]
async fn who_goes_away_before_it_is_kept_leaves_nothing() {
    let place = Place::new();
    let queue = place.queue().await;
    for polls in 1..20 {
        let waiting = queue.submit(returning(1, 1)).unwrap();
        assert!(queue.pending().is_empty(), "nobody sees what is not kept yet");
        let mut keeping = Box::pin(waiting.persist());
        let mut is_kept = false;
        for _ in 0..polls {
            is_kept = is_kept || futures::poll!(&mut keeping).is_ready();
            if is_kept {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(keeping);
        queue.remove_finished().await;
        let left = queue.pending();
        assert_eq!(left.len(), usize::from(is_kept));
        for approval in left {
            assert_eq!(queue.redeem(&approval.id, &[2; 32], None).await, Err(ApprovalQueueError::Changed));
        }
        assert!(place.queue().await.pending().is_empty(), "{polls}");
    }
}

/// It was looked what is kept just before it was there; that it was not was then taken for its end.
#[tokio::test]
async fn what_is_written_while_somebody_looks_stays() {
    let place = Place::new();
    let queue = place.queue().await;
    let waiting = queue.submit(returning(1, 1)).unwrap();
    // It may be done at once, on a quick machine: then again.
    let mut looking = Box::pin(queue.reload_persisted());
    for _ in 0..1000 {
        if futures::poll!(&mut looking).is_pending() {
            break;
        }
        looking = Box::pin(queue.reload_persisted());
    }
    // One connection reads after the other, so the first has read when the second has.
    queue.reload_persisted().await.unwrap();
    let id = waiting.persist().await.unwrap();
    looking.await.unwrap();
    assert_eq!(queue.pending().iter().map(|approval| &approval.id).collect::<Vec<_>>(), [&id]);
    queue.decide(&id, ApprovalDecision::allow(), CONSOLE).await.unwrap();
}

/// Somebody has written to the file who has no key, or the key is another.
#[tokio::test]
async fn what_cannot_be_read_is_not_shown_and_allows_nothing() {
    let place = Place::new();
    let (one, two) = {
        let queue = place.queue().await;
        (put(&queue, 1).await, put(&queue, 2).await)
    };
    // One approval under the name of another.
    let swap = format!(
        "UPDATE matters SET matter = (SELECT matter FROM matters WHERE id = '{two}') WHERE id = '{one}'"
    );
    place.spoil(&swap);
    let queue = place.queue().await;
    assert_eq!(queue.pending().iter().map(|approval| &approval.id).collect::<Vec<_>>(), [&two]);
    assert_eq!(queue.redeem(&one, &[2; 32], None).await, Err(ApprovalQueueError::Expired));
    std::fs::remove_file(place.0.path().join("state.key")).unwrap();
    let queue = place.queue().await;
    assert!(queue.pending().is_empty());
    assert_eq!(queue.redeem(&two, &[2; 32], None).await, Err(ApprovalQueueError::Expired));
    let fresh = put(&queue, 3).await;
    assert_eq!(
        queue.redeem(&fresh, &[3; 32], Some((ApprovalDecision::allow(), "app"))).await,
        Ok(Some(allowed("app")))
    );
}

/// A person who answers in the application makes a target known there for as long as at the console.
#[tokio::test]
async fn a_target_remembered_by_a_form_is_known_after_a_restart() {
    let place = Place::new();
    let card = json!({
        "kind": "call", "what": "tool", "name": "send", "arguments": { "to": "Anna@corp.example" }, "because": "the guard",
        "guard": { "cause": "unknown_target", "because": "new", "effect": "reversible", "outbound": true,
            "targets": ["Anna@corp.example"] },
    });
    let card: ApprovalCard = serde_json::from_str(&card.to_string()).unwrap();
    let offers = DecisionOptions { targets: true, ..DecisionOptions::default() };
    let known = |queue: &ApprovalQueue, application| {
        queue.is_known("anna@corp.example", (Some("alice"), Some(application)), &PEER)
    };
    let answer = || {
        let decision = ApprovalDecision::Allow { edited: None, scope: ApprovalScope::Targets };
        Some((decision, "the person, through the application"))
    };
    let first = place.queue().await;
    let id = first
        .submit(NewApproval { card: card.clone(), offers, ..returning(1, 1) })
        .unwrap()
        .persist()
        .await
        .unwrap();
    let settled = first.redeem(&id, &[1; 32], answer()).await.unwrap();
    assert!(matches!(settled, Some(ApprovalOutcome::Allowed { lasts: true, .. })), "{settled:?}");
    assert!(known(&first, "editor") && !known(&first, "other"));
    drop(first);
    let second = place.queue().await;
    assert!(known(&second, "editor") && !known(&second, "other"));
    let grant = second.grants().remove(0);
    assert_eq!(
        (grant.effect, &grant.values[..]),
        (GrantEffect::Known, &["anna@corp.example".to_owned()][..])
    );

    // What was not offered was not meant.
    second.revoke(&grant.id, "me").await.unwrap();
    let id = second.submit(NewApproval { card, ..asking(2, 1) }).unwrap().detach();
    let settled = second.redeem(&id, &[2; 32], answer()).await.unwrap();
    assert!(matches!(settled, Some(ApprovalOutcome::Allowed { lasts: false, .. })), "{settled:?}");
    assert!(!known(&second, "editor"));
}
