//! Conformance tests for all stores of pending documents.

use std::time::Duration;

use secrecy::ExposeSecret as _;

use super::{AddPendingResult, NewPendingDocument, PendingKind, PendingLimits, PendingStore};

const FAILED: &str = "a store that works";
/// Limits that are not reached.
const WIDE: PendingLimits = PendingLimits { family: 100, all: 100, removes_oldest: false };

/// Tries everything that a store promises, except expiry, on one that is empty and is so again afterwards. For tests of
/// stores.
///
/// # Panics
/// When a promise is broken.
pub async fn check_pending_conformance(store: &dyn PendingStore) {
    check_documents(store).await;
    check_limits(store).await;
    assert!(!format!("{store:?}").contains("s3cret"), "nothing is shown");
}

fn document(kind: PendingKind, id: &str, family: &str) -> NewPendingDocument {
    NewPendingDocument {
        kind,
        id: id.to_owned(),
        family: family.to_owned(),
        body: format!("s3cret of {id} ü").into(),
        lifetime: Duration::from_secs(60),
    }
}

async fn ids(store: &dyn PendingStore, kind: PendingKind, family: &str) -> Vec<String> {
    store.list(kind, family).await.expect(FAILED).into_iter().map(|document| document.id).collect()
}

async fn check_documents(store: &dyn PendingStore) {
    use PendingKind::{Link, SignIn};
    let mut changes = store.changes();
    changes.mark_unchanged();
    for (kind, id, family) in
        [(SignIn, "a", "ann"), (Link, "a", "bob"), (Link, "b", "ann"), (Link, "c", "ann")]
    {
        assert_eq!(store.add(document(kind, id, family), WIDE).await.expect(FAILED), AddPendingResult::Added);
    }
    assert!(changes.has_changed().expect(FAILED));
    let found = store.find(Link, "a").await.expect(FAILED).expect("a document");
    assert_eq!((&*found.id, &*found.family, found.stage), ("a", "bob", 0));
    assert_eq!(found.body.expose_secret(), "s3cret of a ü");
    assert!(
        found.left > Duration::from_secs(50) && found.left <= Duration::from_secs(60),
        "{:?}",
        found.left
    );
    assert!(store.find(SignIn, "b").await.expect(FAILED).is_none(), "kinds are apart");
    assert!(store.find(Link, "").await.expect(FAILED).is_none());
    assert_eq!(ids(store, Link, "ann").await, ["b", "c"]);
    assert_eq!(ids(store, Link, "an").await, [""; 0], "a beginning is no family");

    let advance = async |id: &str, from: &[u8], to| store.advance(Link, id, from, to).await.expect(FAILED);
    assert!(advance("b", &[0], 1).await && !advance("b", &[0], 1).await, "once");
    assert!(!advance("x", &[0], 1).await && !advance("c", &[1, 2], 3).await && !advance("c", &[], 3).await);
    store.advance_family(Link, "ann", &[0, 7], 4).await.expect(FAILED);
    let stages = store.list(Link, "ann").await.expect(FAILED);
    assert_eq!(stages.iter().map(|document| document.stage).collect::<Vec<_>>(), [1, 4]);
    assert_eq!(store.find(Link, "a").await.expect(FAILED).map(|document| document.stage), Some(0));

    assert!(store.take(SignIn, "a", "bob").await.expect(FAILED).is_none(), "of another family");
    let taken = store.take(SignIn, "a", "ann").await.expect(FAILED).expect("a document");
    assert_eq!((&*taken.id, taken.body.expose_secret()), ("a", "s3cret of a ü"));
    assert!(store.take(SignIn, "a", "ann").await.expect(FAILED).is_none(), "once");
    store.remove_family(Link, "ann").await.expect(FAILED);
    assert_eq!(ids(store, Link, "ann").await, [""; 0]);
    assert_eq!(ids(store, Link, "bob").await, ["a"]);
    store.remove_family(Link, "bob").await.expect(FAILED);
}

async fn check_limits(store: &dyn PendingStore) {
    let add = async |family: &str, id: &str, limits| {
        store.add(document(PendingKind::SignIn, id, family), limits).await.expect(FAILED)
    };
    let refuses = PendingLimits { family: 2, all: 3, removes_oldest: false };
    assert_eq!(add("ann", "1", refuses).await, AddPendingResult::Added);
    assert_eq!(add("ann", "2", refuses).await, AddPendingResult::Added);
    assert_eq!(add("ann", "3", refuses).await, AddPendingResult::TooManyOfFamily);
    assert_eq!(add("bob", "4", refuses).await, AddPendingResult::Added);
    assert_eq!(add("bob", "5", refuses).await, AddPendingResult::TooMany);
    let removes = PendingLimits { removes_oldest: true, ..refuses };
    assert_eq!(add("ann", "6", removes).await, AddPendingResult::AddedForOldestOfFamily);
    assert_eq!(ids(store, PendingKind::SignIn, "ann").await, ["2", "6"]);
    assert_eq!(add("cid", "7", removes).await, AddPendingResult::AddedForOldest);
    assert_eq!(ids(store, PendingKind::SignIn, "ann").await, ["6"], "the oldest of all goes");
    let other = document(PendingKind::Link, "8", "ann");
    assert_eq!(store.add(other, refuses).await.expect(FAILED), AddPendingResult::Added, "kinds are apart");
    for family in ["ann", "bob", "cid"] {
        store.remove_family(PendingKind::SignIn, family).await.expect(FAILED);
        store.remove_family(PendingKind::Link, family).await.expect(FAILED);
    }
}
