//! One node renews theirs, whatever comes between.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hospes_auth_testkit::AuthTestLog;
use hospes_oauth_resource::VerifyTokenError;
use tokio::sync::{Notify, Semaphore};

use super::{Third, check, node, site, tokens};
use crate::tests::Browser;
use crate::tests::watched::{Pause, Step, Steps, Watched};
use crate::{AuthStore, MemoryAuthStore, RecordKind};

/// Delays the first claim until another node has had the lease and released it.
#[derive(Default)]
struct Late {
    claims: AtomicUsize,
    done: Notify,
}

impl Steps for Late {
    fn before(&self, step: Step) -> Pause<'_> {
        Box::pin(async move {
            if step == Step::Claim && self.claims.fetch_add(1, Ordering::Relaxed) == 0 {
                self.done.notified().await;
            }
        })
    }

    fn after(&self, step: Step) {
        if step == Step::Forget(RecordKind::Claim) {
            self.done.notify_one();
        }
    }
}

/// One node finds that theirs has run out, and gets the lease only when another has renewed it already: the refresh token
/// that it knows is spent by then, and with a provider that rotates them showing it would end everything.
///
/// covers: AUT3-07
#[tokio::test]
async fn a_spent_token_of_theirs_is_not_shown_again() {
    let third = Third::default();
    let store: Arc<dyn AuthStore> = Arc::new(Watched::new(MemoryAuthStore::new(), Late::default()));
    let time = Arc::new(AtomicU64::new(1_000_000));
    let nodes = [node(&third, Arc::clone(&store), &time), node(&third, Arc::clone(&store), &time)];
    let mut browser = Browser::new(&nodes[0]);
    let (access, _) = tokens(&mut browser, &third).await;
    nodes[0].pass(300);
    let (first, second) = tokio::join!(check(&nodes[0], &access), check(&nodes[1], &access));
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    assert_eq!(third.0.refreshed.load(Ordering::Relaxed), 1);
}

/// The caller disconnects during a renewal: its result is stored all the same.
///
/// covers: AUT3-07
#[tokio::test]
async fn a_renewal_of_theirs_runs_to_its_end() {
    let third = Third::default();
    let site = site(&third);
    let mut browser = Browser::new(&site);
    let (access, _) = tokens(&mut browser, &third).await;
    site.pass(300);
    let gate = Arc::new(Semaphore::new(0));
    *third.0.gate.lock() = Some(Arc::clone(&gate));
    {
        let mut gone = std::pin::pin!(check(&site, &access));
        let asked = async {
            while third.0.refreshed.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = &mut gone => panic!("it waits"),
            () = asked => {}
        }
    }
    gate.add_permits(1);
    assert!(check(&site, &access).await.is_ok());
    assert_eq!(third.0.refreshed.load(Ordering::Relaxed), 1, "the caller is gone, the renewal is not");
}

/// A renewal that takes too long is given up, and the lease with it; one that took longer than the lease leaves alone what
/// is another's by then.
///
/// covers: AUT3-07
#[tokio::test(start_paused = true)]
async fn a_lease_is_given_back_by_who_has_it() {
    let third = Third::default();
    let store: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
    let site = node(&third, Arc::clone(&store), &Arc::new(AtomicU64::new(1_000_000)));
    let (access, _) = tokens(&mut Browser::new(&site), &third).await;
    let grant = store.list(RecordKind::Upstream, site.now(), 1).await.unwrap().remove(0).key;
    let lease = format!("upstream {grant}");
    site.pass(300);
    for (takes, is_free) in [(45, true), (60, false)] {
        let gate = Arc::new(Semaphore::new(0));
        *third.0.gate.lock() = Some(Arc::clone(&gate));
        let before = third.0.refreshed.load(Ordering::Relaxed);
        let begun = async {
            while third.0.refreshed.load(Ordering::Relaxed) == before {
                tokio::task::yield_now().await;
            }
            site.pass(takes);
            if !is_free {
                assert!(
                    store.claim(&lease, "process 7", site.now() + 60, site.now()).await.unwrap(),
                    "it has lapsed"
                );
            }
        };
        let (checked, ()) = tokio::join!(check(&site, &access), begun);
        assert_eq!(checked, Err(VerifyTokenError::Unavailable));
        assert_eq!(
            store.claim(&lease, "process 7", site.now() + 1, site.now()).await.unwrap(),
            is_free,
            "{takes}"
        );
        site.pass(1);
        // What theirs was replaced by is lost here, not there.
        *third.0.current.lock() = "third-refresh-0".to_owned();
    }
}

/// A timeout names the lease holder and its remaining time.
#[tokio::test(start_paused = true)]
async fn who_has_the_lease_is_named() {
    let third = Third::default();
    let store: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
    let site = node(&third, Arc::clone(&store), &Arc::new(AtomicU64::new(1_000_000)));
    let (access, _) = tokens(&mut Browser::new(&site), &third).await;
    let grant = store.list(RecordKind::Upstream, site.now(), 1).await.unwrap().remove(0).key;
    site.pass(300);
    let lease = format!("upstream {grant}");
    assert!(store.claim(&lease, "process 7", site.now() + 60, site.now()).await.unwrap());
    let heard = AuthTestLog::default();
    let _listening = heard.listen();
    assert_eq!(check(&site, &access).await, Err(VerifyTokenError::Unavailable));
    let said = heard.text();
    assert!(
        said.contains("process 7 is still refreshing the tokens; its lease expires in 60 seconds"),
        "{said}"
    );
    store.forget(RecordKind::Claim, &lease).await.unwrap();
    assert!(check(&site, &access).await.is_ok());
}

/// A renewal that completes after its grant ended is revoked too, because the revocation knew only the older token.
#[tokio::test]
async fn what_is_renewed_while_it_is_given_up_is_given_back() {
    let third = Third::default();
    let site = site(&third);
    let (access, refresh) = tokens(&mut Browser::new(&site), &third).await;
    site.pass(300);
    let gate = Arc::new(Semaphore::new(0));
    *third.0.gate.lock() = Some(Arc::clone(&gate));
    let ending = async {
        while third.0.refreshed.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        let fields = [("token", &*refresh), ("client_id", super::super::APP)];
        assert_eq!(site.form("/revoke", &fields).await.status(), 200);
        assert_eq!(third.given_back().await, ["third-refresh-0"], "as far as was known");
        gate.add_permits(1);
    };
    let (checked, ()) = tokio::join!(check(&site, &access), ending);
    assert_eq!(checked, Err(VerifyTokenError::Invalid));
    assert_eq!(third.given_back().await, ["third-refresh-0", "third-refresh-1"]);
}

/// Delays the end of a grant until it is released.
#[derive(Default)]
struct Slow {
    go: Notify,
}

impl Steps for Arc<Slow> {
    fn before(&self, step: Step) -> Pause<'_> {
        Box::pin(async move {
            if step == Step::Revoke {
                self.go.notified().await;
            }
        })
    }
}

/// The last renewed token is revoked, if a renewal happens while the grant is ending.
#[tokio::test]
async fn what_was_renewed_last_is_given_back() {
    let third = Third::default();
    let slow: Arc<Slow> = Arc::default();
    let store: Arc<dyn AuthStore> = Arc::new(Watched::new(MemoryAuthStore::new(), Arc::clone(&slow)));
    let site = node(&third, store, &Arc::new(AtomicU64::new(1_000_000)));
    let (access, refresh) = tokens(&mut Browser::new(&site), &third).await;
    site.pass(300);
    let fields = [("token", &*refresh), ("client_id", super::super::APP)];
    let renewing = async {
        check(&site, &access).await.unwrap();
        slow.go.notify_one();
    };
    let (answer, ()) = tokio::join!(site.form("/revoke", &fields), renewing);
    assert_eq!(answer.status(), 200);
    assert_eq!(third.given_back().await, ["third-refresh-1"]);
}
