//! Records of sessions and their entries.

use std::time::Duration;

use hospes_fleet::RelayError;
use hospes_fleet::session::{
    EntryKind, NewSession, RECORD_VERSION, SessionChange, SessionEntry, SessionKey, SessionOwner,
    SessionState,
};
use hospes_fleet::stream::{EventPosition, NewStream, StreamNumber};
use hospes_fleet_testkit::eventually;

use super::cases_of;
use crate::fixture::{LIFETIME, TestFleet};

cases_of!(
    a_session_is_reserved_once,
    a_session_belongs_to_its_principal,
    records_and_states_change,
    a_state_never_goes_back,
    entries_are_put_and_removed_alone,
    too_many_entries_change_nothing,
    large_records_are_refused,
    a_closed_session_keeps_only_its_mark,
    an_unused_session_is_forgotten,
    a_lost_session_is_reserved_with_the_next_epoch,
);

async fn a_session_is_reserved_once(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let (session, record) = (SessionKey::new(None, "s"), NewSession::pending(*b"record"));
    let reserve = async |who: &crate::fixture::TestNode, owner: &SessionOwner| {
        who.relay.reserve(&session, owner, &record, LIFETIME).await
    };
    assert_eq!(other.relay.find(&session).await, Ok(None));
    for _ in 0..2 {
        assert_eq!(reserve(&node, &node.first()).await, Ok(()));
    }
    let found = other.relay.find(&session).await.unwrap().unwrap();
    assert_eq!((found.owner, found.state), (node.first(), SessionState::Pending));
    assert_eq!((found.version, found.body), (RECORD_VERSION, b"record".to_vec()));
    let now = Some(node.first());
    assert_eq!(reserve(&other, &other.first()).await, Err(RelayError::Fenced { now }));
    other.die().await;
    let unborn = SessionKey::new(None, "unborn");
    let refused = other.relay.reserve(&unborn, &other.first(), &record, LIFETIME).await;
    assert_eq!(refused, Err(RelayError::Fenced { now: None }));
}

async fn a_session_belongs_to_its_principal(fleet: TestFleet) {
    let node = fleet.node().await;
    let (session, _) = node.open("shared id").await;
    assert_eq!(session, SessionKey::new(Some("ann"), "shared id"));
    for other in [Some("bob"), Some(""), None] {
        assert_eq!(node.relay.find(&SessionKey::new(other, "shared id")).await, Ok(None));
    }
}

async fn records_and_states_change(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let (session, owner) = node.open("s").await;
    let changes = [SessionChange::Body(b"later".to_vec()), SessionChange::State(SessionState::Closing)];
    node.relay.change(&session, &owner, &changes).await.unwrap();
    node.relay.change(&session, &owner, &changes).await.unwrap();
    node.relay.change(&session, &owner, &[]).await.unwrap();
    let found = other.relay.find(&session).await.unwrap().unwrap();
    assert_eq!((found.state, found.body), (SessionState::Closing, b"later".to_vec()));
    let now = Some(owner);
    for wrong in [other.first(), owner.next(owner.node)] {
        assert_eq!(other.relay.change(&session, &wrong, &[]).await, Err(RelayError::Fenced { now }));
    }
    let missing = SessionKey::new(None, "missing");
    assert_eq!(node.relay.change(&missing, &owner, &[]).await, Err(RelayError::Gone));
}

async fn a_state_never_goes_back(fleet: TestFleet) {
    let node = fleet.node().await;
    let (session, owner) = node.open("s").await;
    node.relay.change(&session, &owner, &[SessionChange::State(SessionState::Closing)]).await.unwrap();
    let back = [SessionChange::Body(b"not written".to_vec()), SessionChange::State(SessionState::Active)];
    assert_eq!(node.relay.change(&session, &owner, &back).await, Err(RelayError::Gone));
    let found = node.relay.find(&session).await.unwrap().unwrap();
    assert_eq!((found.state, found.body), (SessionState::Closing, b"body".to_vec()));
}

async fn entries_are_put_and_removed_alone(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let (session, owner) = node.open("s").await;
    let [uri, task, upstream] = [
        SessionEntry::new(EntryKind::Subscription, *b"file:///a", *b""),
        SessionEntry::new(EntryKind::Task, *b"file:///a", *b""),
        SessionEntry::new(EntryKind::Upstream, *b"files", *b"id"),
    ];
    assert!(other.relay.entries(&session).await.unwrap().is_empty());
    for entry in [&uri, &task, &upstream, &uri] {
        node.relay.change(&session, &owner, &[SessionChange::Put(entry.clone())]).await.unwrap();
    }
    assert_eq!(other.relay.entries(&session).await.unwrap(), [uri.clone(), task.clone(), upstream]);
    let replaced = SessionEntry::new(EntryKind::Upstream, *b"files", *b"another id");
    let remove = SessionChange::Remove { kind: EntryKind::Subscription, key: uri.key };
    let changes = [SessionChange::Put(replaced.clone()), remove.clone()];
    node.relay.change(&session, &owner, &changes).await.unwrap();
    node.relay.change(&session, &owner, &[remove]).await.unwrap();
    assert_eq!(other.relay.entries(&session).await.unwrap(), [task, replaced]);
}

async fn too_many_entries_change_nothing(fleet: TestFleet) {
    let node = fleet.node().await;
    let (session, owner) = node.open("s").await;
    let put = |key: &[u8]| SessionChange::Put(SessionEntry::new(EntryKind::Task, key, *b""));
    node.relay.change(&session, &owner, &[put(b"1"), put(b"2")]).await.unwrap();
    let refused = node.relay.change(&session, &owner, &[put(b"3"), put(b"4")]).await;
    assert_eq!(refused, Err(RelayError::LimitExceeded { limit: "max_session_entries", maximum: 3 }));
    assert_eq!(node.relay.entries(&session).await.unwrap().len(), 2);
    // What replaces an entry adds none.
    node.relay.change(&session, &owner, &[put(b"2"), put(b"3")]).await.unwrap();
    assert_eq!(node.relay.entries(&session).await.unwrap().len(), 3);
}

async fn large_records_are_refused(fleet: TestFleet) {
    let node = fleet.node().await;
    let (session, owner) = node.open("s").await;
    let large = vec![0; 10_001];
    let refused = Err(RelayError::LimitExceeded { limit: "max_payload_bytes", maximum: 10_000 });
    for change in [
        SessionChange::Body(large.clone()),
        SessionChange::Put(SessionEntry::new(EntryKind::Task, *b"", large.clone())),
    ] {
        assert_eq!(node.relay.change(&session, &owner, &[change]).await, refused);
    }
    let other = SessionKey::new(None, "other");
    let new = NewSession::pending(large);
    assert_eq!(node.relay.reserve(&other, &owner, &new, LIFETIME).await, refused);
}

async fn a_closed_session_keeps_only_its_mark(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let (session, owner) = node.open("s").await;
    let number = StreamNumber::new(1, 1);
    node.relay.open_stream(&session, &owner, &NewStream::listen(number)).await.unwrap();
    let entry = SessionEntry::new(EntryKind::Task, *b"t", *b"");
    let close = [SessionChange::Put(entry), SessionChange::State(SessionState::Closed)];
    node.relay.change(&session, &owner, &close).await.unwrap();
    let found = other.relay.find(&session).await.unwrap().unwrap();
    assert_eq!((found.owner, found.state, found.body.len()), (owner, SessionState::Closed, 0));
    assert!(other.relay.entries(&session).await.unwrap().is_empty());
    assert!(other.relay.streams(&session).await.unwrap().is_empty());
    assert_eq!(other.relay.read(&session, number, EventPosition::default(), 1).await, Ok(None));
    assert!(other.relay.sessions_of(&node.id, 1).await.unwrap().is_empty());
    assert_eq!(node.relay.change(&session, &owner, &[]).await, Err(RelayError::Gone));
    let listen = NewStream::listen(number);
    assert_eq!(node.relay.open_stream(&session, &owner, &listen).await, Err(RelayError::Gone));
    assert_eq!(node.relay.hand_over(&session, &owner, &other.id).await, Err(RelayError::Gone));
    let again = NewSession::pending(*b"");
    assert_eq!(node.relay.reserve(&session, &owner, &again, LIFETIME).await, Err(RelayError::Gone));
    node.die().await;
    assert_eq!(other.relay.adopt(&session, &owner, &other.id).await, Err(RelayError::Gone));
}

async fn an_unused_session_is_forgotten(fleet: TestFleet) {
    let node = fleet.node().await;
    let session = SessionKey::new(None, "short");
    let record = NewSession::pending(*b"");
    node.relay.reserve(&session, &node.first(), &record, Duration::from_millis(100)).await.unwrap();
    eventually("the session is forgotten", async || {
        node.relay.find(&session).await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(node.relay.change(&session, &node.first(), &[]).await, Err(RelayError::Gone));
}

async fn a_lost_session_is_reserved_with_the_next_epoch(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let (session, owner) = (SessionKey::new(None, "lost"), node.first().next(node.id));
    let record = NewSession::pending(*b"").with_state(SessionState::Active);
    node.relay.reserve(&session, &owner, &record, LIFETIME).await.unwrap();
    let found = other.relay.find(&session).await.unwrap().unwrap();
    assert_eq!((found.owner.epoch, found.state), (2, SessionState::Active));
    node.relay.change(&session, &owner, &[]).await.unwrap();
}
