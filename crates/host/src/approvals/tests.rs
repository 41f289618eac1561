mod approvers;
#[cfg(target_os = "linux")]
mod held;
mod kept;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hospes::Peer;
use hospes_model::{ClientCapabilities, RawJson, Revision};
use hospes_policy::{CallArguments, PolicyAction, PolicyRequest, ToolEffectSet};
use hospes_store::{AuditLog, DecisionBasis, StateStore};
use jiff::Timestamp;
use serde_json::json;

use super::queue::MAX_FINISHED_BYTES;
use super::*;

const TIMEOUT: Duration = Duration::from_secs(120);
/// The session of an older revision that asks.
static PEER: LazyLock<Arc<Peer>> =
    LazyLock::new(|| Arc::new(Peer::new(Revision::V2025_11_25, None, ClientCapabilities::default())));
const CONSOLE: &str = "the person at the console";

fn card(arguments: &str) -> ApprovalCard {
    ApprovalCard::Call(Box::new(CallCard {
        what: ApprovalCallKind::Tool,
        name: "write".to_owned(),
        summary: CallSummary::default(),
        title: None,
        description: None,
        input_schema: None,
        arguments: RawJson::parse(arguments.to_owned()).unwrap(),
        last_arguments: None,
        effects: None,
        destinations: Vec::new(),
        because: "no rule fits".to_owned(),
        data_flow: None,
        guard: None,
        suggestion: None,
        repeated: None,
    }))
}

fn asking(bond: u8, asker: u8) -> NewApproval {
    NewApproval {
        principal: Some("alice".to_owned()),
        groups: vec!["staff".to_owned()],
        approvers: None,
        application: Some("editor".to_owned()),
        server: "files".to_owned(),
        profile: None,
        endpoint_profile: None,
        offers: DecisionOptions {
            edit: true,
            session: true,
            always: true,
            block: true,
            targets: false,
            values: false,
        },
        card: card(r#"{"path":"/srv/a"}"#),
        timeout: TIMEOUT,
        bond: [bond; 32],
        asker: [asker; 32],
        caller: None,
        is_weak: true,
        definition: Some("d1".to_owned()),
        target: "t1".to_owned(),
        session: Some(GrantSession::of(&PEER)),
        check: Some(Box::new(|edited| {
            if edited.as_str().contains("bad") { Err("bad is not good".to_owned()) } else { Ok(()) }
        })),
        returns: false,
    }
}

fn allowed(by: &str) -> ApprovalOutcome {
    ApprovalOutcome::Allowed { edited: None, by: by.to_owned(), basis: DecisionBasis::Person, lasts: false }
}

/// Returns true if a call of the tool is granted.
fn is_granted(
    queue: &ApprovalQueue,
    who: Option<&str>,
    application: &str,
    definition: &str,
    path: &str,
) -> bool {
    is_granted_at("t1", queue, who, application, definition, path)
}

fn is_granted_at(
    target: &str,
    queue: &ApprovalQueue,
    who: Option<&str>,
    application: &str,
    definition: &str,
    path: &str,
) -> bool {
    let arguments = CallArguments::read(&json!({ "path": path }).to_string()).unwrap();
    let asked =
        PolicyRequest::new("files", PolicyAction::tool("write", ToolEffectSet::unknown(), &arguments))
            .with_principal(who)
            .with_application(Some(application));
    let subject = GrantQuery {
        asked: &asked,
        target,
        what: ApprovalCallKind::Tool,
        name: "write",
        definition: Some(definition),
        strong: false,
        peer: Some(&PEER),
    };
    queue.find_grant(&subject, GrantEffect::Allow).is_some()
}

#[tokio::test]
async fn a_decision_is_used_once_and_only_for_what_it_was_made_about() {
    let queue = ApprovalQueue::new();
    let open = || queue.submit(asking(1, 1)).unwrap().detach();
    let id = open();
    assert_eq!(queue.redeem(&id, &[1; 32], None).await, Ok(None), "nobody has decided");
    queue.decide(&id, ApprovalDecision::allow(), CONSOLE).await.unwrap();
    assert_eq!(queue.redeem(&id, &[1; 32], None).await, Ok(Some(allowed(CONSOLE))));
    assert_eq!(queue.redeem(&id, &[1; 32], None).await, Err(ApprovalQueueError::Expired), "used");

    let id = open();
    queue.decide(&id, ApprovalDecision::allow(), CONSOLE).await.unwrap();
    assert_eq!(queue.redeem(&id, &[2; 32], None).await, Err(ApprovalQueueError::Changed));
    assert_eq!(
        queue.redeem(&id, &[1; 32], None).await,
        Err(ApprovalQueueError::Expired),
        "the try used it up"
    );
    assert_eq!(queue.redeem("forged", &[1; 32], None).await, Err(ApprovalQueueError::Expired));

    // Decided twice, and of an id that never was.
    let id = open();
    queue.decide(&id, ApprovalDecision::deny_because("wrong folder"), CONSOLE).await.unwrap();
    assert_eq!(queue.decide(&id, ApprovalDecision::allow(), CONSOLE).await, Err(DecideError::Over));
    let denied = ApprovalOutcome::Denied {
        reason: Some("wrong folder".to_owned()),
        by: CONSOLE.to_owned(),
        basis: DecisionBasis::Person,
    };
    assert_eq!(queue.redeem(&id, &[1; 32], Some((ApprovalDecision::allow(), "app"))).await, Ok(Some(denied)));
    assert_eq!(queue.decide(&id, ApprovalDecision::allow(), CONSOLE).await, Err(DecideError::Over));
    assert_eq!(queue.decide("none", ApprovalDecision::allow(), CONSOLE).await, Err(DecideError::Unknown));
}

/// An application may say no for its person, and yes only where the rules take its word.
#[tokio::test]
async fn a_strong_approval_is_not_an_applications_to_give() {
    let queue = ApprovalQueue::new();
    let strong = || NewApproval { is_weak: false, ..asking(1, 1) };
    let id = queue.submit(strong()).unwrap().detach();
    assert_eq!(queue.redeem(&id, &[1; 32], Some((ApprovalDecision::allow(), "app"))).await, Ok(None));
    let denied = Ok(Some(ApprovalOutcome::Denied {
        reason: None,
        by: "app".to_owned(),
        basis: DecisionBasis::Person,
    }));
    assert_eq!(queue.redeem(&id, &[1; 32], Some((ApprovalDecision::deny(), "app"))).await, denied);
    let id = queue.submit(asking(1, 1)).unwrap().detach();
    assert_eq!(
        queue.redeem(&id, &[1; 32], Some((ApprovalDecision::allow(), "app"))).await,
        Ok(Some(allowed("app")))
    );
}

#[tokio::test(start_paused = true)]
async fn silence_is_a_no_and_makes_room() {
    let queue = ApprovalQueue::new();
    let number = Cell::new(0);
    // Each of another program: these have shares of their own.
    let open = |who: u8| {
        number.set(number.get() + 1);
        let caller = Some(format!("process {}", number.get()).into());
        queue.submit(NewApproval { caller, ..asking(1, who) }).map(ApprovalWaiter::detach)
    };
    let limits = ApprovalLimits { waiting: 16, of_one: 4, ..ApprovalLimits::default() };
    queue.set_limits(limits);
    let first: Vec<String> = (0..4).map(|_| open(0).unwrap()).collect();
    assert_eq!(
        open(0),
        Err(ApprovalQueueError::TooMany(ApprovalLimitExceeded::OfOne(4))),
        "one user leaves room for others"
    );
    for who in 1..4 {
        (0..4).for_each(|_| drop(open(who).unwrap()));
    }
    let full = open(99).unwrap_err();
    assert_eq!(full, ApprovalQueueError::TooMany(ApprovalLimitExceeded::Waiting(16)));
    assert!(
        full.message().contains("16 approvals") && full.message().contains("setting max_waiting"),
        "{full:?}"
    );
    assert_eq!(queue.pending().len(), 16);
    tokio::time::advance(TIMEOUT).await;
    // Of so many not all are still known to have been.
    let late = queue.decide(&first[0], ApprovalDecision::allow(), CONSOLE).await;
    assert!(matches!(late, Err(DecideError::Over | DecideError::Unknown)), "{late:?}");
    assert_eq!(queue.redeem(&first[0], &[1; 32], None).await, Err(ApprovalQueueError::Expired));
    assert!(queue.pending().is_empty() && queue.recent().iter().all(|m| m.state == ApprovalState::Expired));
    assert!(open(0).is_ok());
}

/// An application that asks without end leaves room for the others of the same user, and they for each other.
#[tokio::test]
async fn an_application_that_asks_without_end_leaves_room_for_the_others() {
    let queue = ApprovalQueue::new();
    let limit = ApprovalLimits::default().of_one;
    let ask = |application: &str, caller: Option<&str>| {
        let application = Some(application.to_owned());
        let asking = NewApproval { application, caller: caller.map(Into::into), ..asking(1, 1) };
        queue.submit(asking).map(ApprovalWaiter::detach)
    };
    let fill = |application: &str, caller: Option<&str>| {
        (0..=limit).map_while(|_| ask(application, caller).ok()).count()
    };
    assert_eq!(fill("greedy", None), limit / 2);
    let full = ask("greedy", None).unwrap_err();
    assert_eq!(
        full,
        ApprovalQueueError::TooMany(ApprovalLimitExceeded::OfProgram { waiting: limit / 2, limit })
    );
    assert!(full.message().contains("max_waiting_of_one"), "{full:?}");
    let first = ask("editor", None).unwrap();
    assert_eq!(fill("greedy", None), 0, "it has its share");
    // What it calls itself makes no difference where it is known which program it is.
    let one = "node, process 4711 of user 1000";
    let taken = fill("a", Some(one));
    assert!(taken >= limit / 8, "{taken}");
    assert_eq!(fill("b", Some(one)), 0);
    ask("b", Some("node, process 4712 of user 1000")).unwrap();
    queue.decide(&first, ApprovalDecision::allow(), CONSOLE).await.unwrap();
}

/// Few large approvals are as many as many small ones; what is decided makes room, and what is over is not kept without end.
#[tokio::test]
async fn what_waits_is_bounded_by_its_size() {
    let queue = ApprovalQueue::new();
    let large = |length: usize| NewApproval {
        card: card(&json!({ "path": "x".repeat(length) }).to_string()),
        ..asking(1, 1)
    };
    queue.set_limits(ApprovalLimits { bytes: 10_000, ..ApprovalLimits::default() });
    let first = queue.submit(large(6000)).unwrap();
    let full = queue.submit(large(6000)).map(drop).unwrap_err();
    assert_eq!(full, ApprovalQueueError::TooMany(ApprovalLimitExceeded::Bytes(10_000)));
    assert!(full.message().contains("10000 bytes with it (setting max_waiting_bytes)"), "{full:?}");
    drop(first);
    drop(queue.submit(large(6000)).unwrap());
    queue.set_limits(ApprovalLimits::default());
    for _ in 0..40 {
        drop(queue.submit(large(1024 * 1024)).unwrap());
    }
    let kept: usize =
        queue.recent().iter().map(|approval| serde_json::to_vec(&approval.card).unwrap().len()).sum();
    assert!(kept <= MAX_FINISHED_BYTES && queue.recent().len() >= 15, "{kept}");
}

#[tokio::test(start_paused = true)]
async fn who_waits_hears_of_it_and_who_goes_away_takes_it_along() {
    let queue = ApprovalQueue::new();
    let waiting = queue.submit(asking(1, 1)).unwrap();
    let id = waiting.id().to_owned();
    let deciding = async {
        tokio::task::yield_now().await;
        queue.decide(&id, ApprovalDecision::allow(), CONSOLE).await.unwrap();
    };
    assert_eq!(tokio::join!(waiting.wait_settled(), deciding).0, Ok(allowed(CONSOLE)));

    let waiting = queue.submit(asking(1, 1)).unwrap();
    assert_eq!(waiting.wait_settled().await, Err(ApprovalQueueError::Expired), "nobody decides");

    let waiting = queue.submit(asking(1, 1)).unwrap();
    let id = waiting.id().to_owned();
    let mut changes = queue.subscribe();
    drop(waiting);
    changes.changed().await.unwrap();
    assert_eq!(queue.decide(&id, ApprovalDecision::allow(), CONSOLE).await, Err(DecideError::Over));
    assert_eq!(queue.get(&id).unwrap().state, ApprovalState::Withdrawn);
}

/// Every answer that an approval does not offer, or that cannot be done; it still waits afterwards.
#[tokio::test]
async fn what_is_not_offered_is_refused_and_the_matter_waits() {
    let queue = ApprovalQueue::new();
    let none = NewApproval { offers: DecisionOptions::default(), ..asking(1, 1) };
    let id = queue.submit(none).unwrap().detach();
    let edited = |text: &str| ApprovalDecision::Allow {
        edited: Some(RawJson::parse(text.to_owned()).unwrap()),
        scope: ApprovalScope::Once,
    };
    let scoped = |scope| ApprovalDecision::Allow { edited: None, scope };
    let block = ApprovalDecision::Deny { reason: None, block: true };
    for decision in [
        edited("{}"),
        scoped(ApprovalScope::Session),
        scoped(ApprovalScope::Always(LastingPermission::default())),
        block.clone(),
        ApprovalDecision::deny_because("x".repeat(MAX_REASON_BYTES + 1)),
    ] {
        assert!(queue.decide(&id, decision.clone(), CONSOLE).await.is_err(), "{decision:?}");
        assert_eq!(queue.pending().len(), 1);
        assert!(queue.grants().is_empty());
    }
    let id = queue.submit(asking(2, 1)).unwrap().detach();
    let refused = queue.decide(&id, edited(r#"{"path":"bad"}"#), CONSOLE).await;
    assert_eq!(refused, Err(DecideError::Edit("bad is not good".to_owned())));
    let past = LastingPermission { until: Some(Timestamp::now()), ..LastingPermission::default() };
    let far = LastingPermission { until: Some(Timestamp::MAX), ..LastingPermission::default() };
    let wrong = BTreeMap::from([("path".to_owned(), json!({ "undr": "/srv" }))]);
    let wrong = LastingPermission { arguments: wrong, ..LastingPermission::default() };
    for permission in [past, far, wrong] {
        let refused = queue.decide(&id, scoped(ApprovalScope::Always(permission)), CONSOLE).await;
        assert!(matches!(refused, Err(DecideError::Rule(_))), "{refused:?}");
    }
    queue.decide(&id, edited(r#"{"path":"good"}"#), CONSOLE).await.unwrap();
    let Ok(Some(ApprovalOutcome::Allowed { edited: Some(edited), .. })) =
        queue.redeem(&id, &[2; 32], None).await
    else {
        panic!("allowed")
    };
    assert_eq!(edited.as_str(), r#"{"path":"good"}"#);
}

/// A lasting permission covers who was asked, the tool as it was, and what its rule says; nothing beside.
#[tokio::test]
async fn a_lasting_permission_is_no_wider_than_it_says() {
    let queue = ApprovalQueue::new();
    let give = async |scope: ApprovalScope| {
        let id = queue.submit(asking(1, 1)).unwrap().detach();
        queue.decide(&id, ApprovalDecision::Allow { edited: None, scope }, CONSOLE).await.unwrap();
    };
    let arguments = BTreeMap::from([("path".to_owned(), json!({ "under": "/srv" }))]);
    give(ApprovalScope::Always(LastingPermission { arguments, ..LastingPermission::default() })).await;
    assert!(is_granted(&queue, Some("alice"), "editor", "d1", "/srv/b"));
    for (who, application, definition, path) in [
        (Some("bob"), "editor", "d1", "/srv/b"),
        (None, "editor", "d1", "/srv/b"),
        (Some("alice"), "other", "d1", "/srv/b"),
        (Some("alice"), "editor", "d2", "/srv/b"),
        (Some("alice"), "editor", "d1", "/etc/b"),
        (Some("alice"), "editor", "d1", "/srv/../etc/b"),
    ] {
        assert!(!is_granted(&queue, who, application, definition, path), "{who:?} {application} {path}");
    }
    let [grant] = &queue.grants()[..] else { panic!("one") };
    assert_eq!((grant.uses, grant.used_at.is_some(), grant.until.is_some()), (1, true, true));
    let month = grant.until.unwrap().duration_since(grant.given_at);
    assert_eq!(month.as_secs().div_euclid(24 * 3600 - 60), 30);
    queue.revoke(&grant.id, "me").await.unwrap();
    assert!(!is_granted(&queue, Some("alice"), "editor", "d1", "/srv/b"));
    assert_eq!(queue.revoke(&grant.id, "me").await, Err(DecideError::Unknown));

    give(ApprovalScope::Always(LastingPermission { any_application: true, ..LastingPermission::default() }))
        .await;
    assert!(is_granted(&queue, Some("alice"), "other", "d1", "/etc/b"));
    assert!(!is_granted(&queue, Some("bob"), "other", "d1", "/etc/b"));
    queue.end_sessions();
    assert_eq!(queue.grants().len(), 1, "until a day is until then");
    queue.revoke(&queue.grants()[0].id, "me").await.unwrap();

    give(ApprovalScope::Session).await;
    assert!(is_granted(&queue, Some("alice"), "editor", "d1", "/etc/b"));
    queue.end_sessions();
    assert!(!is_granted(&queue, Some("alice"), "editor", "d1", "/etc/b"));
}

/// A server that takes another's name inherits nothing but what was denied; what was allowed before permissions said where
/// their server is holds no more.
#[tokio::test]
async fn a_lasting_permission_is_for_the_server_that_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateStore::open(folder.path().join("state.db")).unwrap();
    let queue = ApprovalQueue::open(&state).await.unwrap();
    for scope in [ApprovalScope::Session, ApprovalScope::Always(LastingPermission::default())] {
        let id = queue.submit(asking(1, 1)).unwrap().detach();
        queue.decide(&id, ApprovalDecision::Allow { edited: None, scope }, CONSOLE).await.unwrap();
        let granted = |target| is_granted_at(target, &queue, Some("alice"), "editor", "d1", "/a");
        assert!(granted("t1") && !granted("t2") && !granted(""));
        let kept = queue.grants().remove(0);
        assert_eq!(kept.target.as_deref(), Some("t1"));
        if kept.is_kept() {
            // As it was written before.
            let old = ApprovalGrant { target: None, ..kept.clone() };
            let body = serde_json::to_string(&old).unwrap();
            state
                .grants()
                .insert(hospes_store::grants::NewGrant::new(old.id.clone(), body, old.until), None)
                .await
                .unwrap();
            let queue = ApprovalQueue::open(&state).await.unwrap();
            assert!(queue.grants().is_empty());
            assert!(!is_granted_at("t1", &queue, Some("alice"), "editor", "d1", "/a"));
        } else {
            queue.revoke(&kept.id, "me").await.unwrap();
        }
    }
}

/// A permission for an application without a name does not hold for other applications.
#[tokio::test]
async fn what_a_nameless_application_may_no_other_may() {
    let queue = ApprovalQueue::new();
    let nameless = NewApproval { application: None, ..asking(1, 1) };
    let id = queue.submit(nameless).unwrap().detach();
    let always =
        ApprovalDecision::Allow { edited: None, scope: ApprovalScope::Always(LastingPermission::default()) };
    queue.decide(&id, always, CONSOLE).await.unwrap();
    assert!(!is_granted(&queue, Some("alice"), "editor", "d1", "/srv/b"));
}

#[tokio::test]
async fn what_is_blocked_stays_so_whoever_asks_and_whatever_the_tool_becomes() {
    let queue = ApprovalQueue::new();
    let id = queue.submit(asking(1, 1)).unwrap().detach();
    queue.decide(&id, ApprovalDecision::Deny { reason: None, block: true }, CONSOLE).await.unwrap();
    queue.end_sessions();
    let arguments = CallArguments::none();
    let asked = |server| {
        PolicyRequest::new(server, PolicyAction::tool("write", ToolEffectSet::unknown(), &arguments))
            .with_principal(Some("alice"))
            .with_application(Some("other"))
    };
    for (server, name, blocked) in
        [("files", "write", true), ("files", "read", false), ("mail", "write", false)]
    {
        let asked = asked(server);
        let subject = GrantQuery {
            asked: &asked,
            target: "t9",
            what: ApprovalCallKind::Tool,
            name,
            definition: Some("d9"),
            strong: true,
            peer: Some(&PEER),
        };
        assert_eq!(queue.find_grant(&subject, GrantEffect::Deny).is_some(), blocked, "{server} {name}");
        assert!(queue.find_grant(&subject, GrantEffect::Allow).is_none());
    }
}

/// JSON that the console sends and receives.
#[test]
fn decisions_are_written_as_a_reader_would_guess() {
    for (text, decision) in [
        (r#"{"decision":"allow"}"#, ApprovalDecision::allow()),
        (r#"{"decision":"deny"}"#, ApprovalDecision::deny()),
        (r#"{"decision":"deny","reason":"no"}"#, ApprovalDecision::deny_because("no")),
        (
            r#"{"decision":"allow","scope":"session"}"#,
            ApprovalDecision::Allow { edited: None, scope: ApprovalScope::Session },
        ),
        (
            r#"{"decision":"allow","scope":{"always":{"arguments":{"path":{"under":"/srv"}}}}}"#,
            ApprovalDecision::Allow {
                edited: None,
                scope: ApprovalScope::Always(LastingPermission {
                    arguments: BTreeMap::from([("path".to_owned(), json!({ "under": "/srv" }))]),
                    ..LastingPermission::default()
                }),
            },
        ),
    ] {
        assert_eq!(serde_json::from_str::<ApprovalDecision>(text).unwrap(), decision);
        assert_eq!(serde_json::to_string(&decision).unwrap(), text);
    }
    for text in ["{}", r#"{"decision":"yes"}"#, r#"{"decision":"allow","scoop":"session"}"#, "null", "true"] {
        assert!(
            serde_json::from_str::<ApprovalDecision>(text).is_err(),
            "{text}: nothing is allowed by default"
        );
    }
}

#[tokio::test]
async fn somebody_is_there_for_as_long_as_they_say() {
    let queue = ApprovalQueue::new();
    assert!(!queue.is_attended());
    let terminal = queue.register_viewer(None);
    assert!(queue.is_attended() && queue.console().is_none());
    let console = queue.register_viewer(Some("http://127.0.0.1:7338/"));
    assert_eq!(queue.console().unwrap().of("a"), "http://127.0.0.1:7338/approvals/a");
    drop((console, terminal));
    assert!(!queue.is_attended());
}

/// A lasting decision persists across a restart, and changes by other processes take effect here.
#[tokio::test]
async fn what_lasts_outlives_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let state = || StateStore::open(folder.path().join("state.db")).unwrap();
    let give = async |queue: &ApprovalQueue, decision: ApprovalDecision| {
        let id = queue.submit(asking(1, 1)).unwrap().detach();
        queue.decide(&id, decision, CONSOLE).await.unwrap();
    };
    let allow = |scope| ApprovalDecision::Allow { edited: None, scope };
    let queue = ApprovalQueue::open(&state()).await.unwrap();
    let arguments = BTreeMap::from([("path".to_owned(), json!({ "under": "/srv" }))]);
    give(
        &queue,
        allow(ApprovalScope::Always(LastingPermission { arguments, ..LastingPermission::default() })),
    )
    .await;
    give(&queue, allow(ApprovalScope::Session)).await;
    give(&queue, ApprovalDecision::Deny { reason: None, block: true }).await;
    assert_eq!(queue.grants().len(), 3);

    let other = ApprovalQueue::open(&state()).await.unwrap();
    let mut kept = queue.grants();
    kept.retain(ApprovalGrant::is_kept);
    assert_eq!(other.grants(), kept, "what is for a session does not");
    assert!(is_granted(&other, Some("alice"), "editor", "d1", "/srv/b"));
    assert!(!is_granted(&other, Some("alice"), "editor", "d1", "/etc/b"));

    let mut changes = queue.subscribe();
    for grant in &kept {
        other.revoke(&grant.id, "me").await.unwrap();
    }
    changes.wait_for(|_| queue.grants().len() == 1).await.unwrap();
    assert!(ApprovalQueue::open(&state()).await.unwrap().grants().is_empty());
}

/// A decision that cannot be stored is not made.
#[tokio::test]
async fn what_cannot_be_kept_does_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.db");
    let queue = ApprovalQueue::open(&StateStore::open(&file).unwrap()).await.unwrap();
    let spoiled = rusqlite::Connection::open(&file).unwrap();
    spoiled.execute_batch("DROP TABLE grants").unwrap();
    let id = queue.submit(asking(1, 1)).unwrap().detach();
    let always =
        ApprovalDecision::Allow { edited: None, scope: ApprovalScope::Always(LastingPermission::default()) };
    assert!(matches!(queue.decide(&id, always, CONSOLE).await, Err(DecideError::Store(_))));
    assert!(queue.grants().is_empty() && queue.pending().len() == 1, "it still waits");
    queue.decide(&id, ApprovalDecision::allow(), CONSOLE).await.unwrap();
}

/// Matters and decisions survive serialization to JSON.
#[test]
fn matters_and_decisions_come_through_json_as_they_were() {
    let queue = ApprovalQueue::new();
    let waiting = queue.submit(asking(1, 1)).unwrap();
    let mut approval = queue.pending().remove(0);
    let edited = RawJson::parse(r#"{"path":1.50}"#.to_owned()).unwrap();
    let decision = ApprovalDecision::Allow {
        edited: Some(edited),
        scope: ApprovalScope::Always(LastingPermission::default()),
    };
    approval.decided = Some(DecisionRecord {
        at: approval.asked_at,
        by: CONSOLE.to_owned(),
        basis: DecisionBasis::Person,
        approver: None,
        decision: decision.clone(),
    });
    let text = serde_json::to_string(&approval).unwrap();
    let read: Approval = serde_json::from_str(&text).unwrap();
    // Raw JSON is compared as it means.
    assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::to_value(&approval).unwrap());
    let read: ApprovalDecision = serde_json::from_slice(&serde_json::to_vec(&decision).unwrap()).unwrap();
    assert_eq!(read, decision);
    for wrong in [
        r#"{}"#,
        r#"{"decision":"perhaps"}"#,
        r#"{"decision":"allow","block":true}"#,
        r#"{"decision":"deny","edited":{}}"#,
        r#"{"decision":"allow","scop":"session"}"#,
    ] {
        assert!(serde_json::from_str::<ApprovalDecision>(wrong).is_err(), "{wrong}");
    }
    drop(waiting);
}

/// The call may never come back for its decision; that it was made is recorded all the same, with nothing of what was said.
#[tokio::test]
async fn every_decision_is_recorded_when_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let audit = AuditLog::open(folder.path().join("audit.db"), folder.path().join("audit.key")).unwrap();
    let queue = ApprovalQueue::new();
    queue.set_audit(&audit);
    let put = || queue.submit(asking(1, 1)).unwrap().detach();
    let edited = RawJson::parse(r#"{"path":"/srv/secret"}"#).unwrap();
    let always = ApprovalScope::Always(LastingPermission::default());
    let ids = [put(), put(), put(), put()];
    queue
        .decide(&ids[0], ApprovalDecision::Deny { reason: Some("a secret".to_owned()), block: true }, CONSOLE)
        .await
        .unwrap();
    queue
        .decide(&ids[1], ApprovalDecision::Allow { edited: Some(edited), scope: always }, CONSOLE)
        .await
        .unwrap();
    assert!(queue.decide("none", ApprovalDecision::allow(), CONSOLE).await.is_err());
    assert!(queue.decide(&ids[1], ApprovalDecision::deny(), CONSOLE).await.is_err(), "it is decided");
    queue
        .redeem(&ids[2], &[1; 32], Some((ApprovalDecision::deny(), "the person, in the application")))
        .await
        .unwrap();
    assert_eq!(queue.redeem(&ids[3], &[2; 32], None).await, Err(ApprovalQueueError::Changed));
    // What was noted is written before what is recorded after it.
    audit.record(hospes_store::AuditEntry::new(hospes_store::AuditEntryKind::Server)).await.unwrap();
    let mut all = audit.search(hospes_store::AuditQuery::new()).await.unwrap();
    all.reverse();
    all.pop();
    let told: Vec<_> = all
        .iter()
        .map(|one| {
            let entry = &one.entry;
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            (text(&entry.decision), text(&entry.scope), text(&entry.by), text(&entry.matter))
        })
        .collect();
    let row = |decision: &str, scope: &str, by: &str, id: &str| {
        (decision.to_owned(), scope.to_owned(), by.to_owned(), id.to_owned())
    };
    assert_eq!(
        told,
        [
            row("deny", "block", CONSOLE, &ids[0]),
            row("allow", "always", "the person at the console, with edits", &ids[1]),
            row("deny", "once", "the person, in the application", &ids[2]),
            row("withdrawn", "", "the requester, with an answer for another call", &ids[3]),
        ]
    );
    let entry = &all[0].entry;
    assert_eq!(
        (entry.kind, entry.subject.as_deref()),
        (hospes_store::AuditEntryKind::Decision, Some("write"))
    );
    assert_eq!((entry.principal.as_deref(), entry.application.as_deref()), (Some("alice"), Some("editor")));
    assert!(!format!("{all:?}").contains("secret"));
}

/// A viewer such as the terminal reads an approval from JSON first.
#[test]
fn a_matter_that_is_read_keeps_the_digits_of_its_numbers() {
    let arguments = r#"{"a":9007199254740993,"b":1.50,"c":1E2,"d":12345678901234567890123}"#;
    let queue = ApprovalQueue::new();
    let id = queue.submit(NewApproval { card: card(arguments), ..asking(1, 1) }).unwrap().detach();
    let text = serde_json::to_string(&queue.get(&id).unwrap()).unwrap();
    assert!(text.contains(arguments), "{text}");
    let read: Approval = serde_json::from_str(&text).unwrap();
    let ApprovalCard::Call(card) = &read.card else { panic!("a call") };
    assert_eq!(card.arguments.as_str(), arguments);
    let decided =
        format!(r#"{{"at":"2026-01-01T00:00:00Z","by":"me","decision":"allow","edited":{arguments}}}"#);
    let decided: decision::DecisionRecord = serde_json::from_str(&decided).unwrap();
    let ApprovalDecision::Allow { edited: Some(edited), .. } = decided.decision else {
        panic!("{decided:?}")
    };
    assert_eq!(edited.as_str(), arguments);
}
