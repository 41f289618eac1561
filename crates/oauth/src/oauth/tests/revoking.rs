//! Giving tokens up.

use super::*;
use std::path::Path;

use hospes_auth::ErrorCode;
use hospes_auth_testkit::PATIENCE;
use secrecy::{ExposeSecret as _, SecretString};

use crate::{CredentialStore, FileCredentialStore, MemoryCredentialStore, StepError, StoreKey, StoredTokens};

async fn signed_in(site: &Arc<Site>) -> (OAuthClient, Arc<MemoryCredentialStore>) {
    let store = Arc::new(MemoryCredentialStore::new());
    let oauth = site.builder().store(Arc::clone(&store) as _).sign_in(site.person()).build();
    site.connect(&oauth).await.close().await;
    assert!(oauth.tokens().await.unwrap().is_some());
    (oauth, store)
}

/// Here they are gone, whatever the other says.
async fn is_gone(oauth: &OAuthClient, store: &MemoryCredentialStore) -> bool {
    oauth.tokens().await.unwrap().is_none() && store.names("tokens ").unwrap().is_empty()
}

#[tokio::test]
async fn who_signs_out_gives_both_tokens_back() {
    let site = Site::open().await;
    {
        let mut script = site.script();
        (script.revokes, script.gives_secrets, script.mark) = (Some(200), true, "s3cret-");
    }
    let (oauth, store) = signed_in(&site).await;
    let number = site.script().issued;
    assert_eq!(oauth.revoke().await.unwrap(), RevocationResult::Revoked);
    assert!(is_gone(&oauth, &store).await);
    let revoked = site.script().revoked.clone();
    let given: Vec<(&str, &str)> =
        revoked.iter().map(|form| (form["token_type_hint"].as_str(), form["token"].as_str())).collect();
    let (refresh, access) = (format!("s3cret-refresh {number}"), format!("s3cret-token{number}"));
    assert_eq!(given, [("refresh_token", &*refresh), ("access_token", &*access)]);
    // As the client that they were made out to.
    assert!(revoked.iter().all(|form| form["client_secret"] == "s3cret-client"), "{revoked:?}");
    assert_eq!(oauth.revoke().await.unwrap(), RevocationResult::Nothing);
    assert_eq!(site.script().revoked.len(), 2);
}

#[tokio::test]
async fn what_is_not_taken_back_is_said_and_forgotten_all_the_same() {
    for (status, error) in
        [(503, "temporarily_unavailable"), (400, "invalid_request"), (401, "invalid_client")]
    {
        let site = Site::open().await;
        site.script().revokes = Some(status);
        site.script().refresh_error = Some(error);
        let (oauth, store) = signed_in(&site).await;
        let RevocationResult::Failed(why) = oauth.revoke().await.unwrap() else { panic!("{status}") };
        match why {
            FlowError::Refused(body) => assert_eq!(body.error.as_str(), error),
            FlowError::Status { status, .. } => {
                assert_eq!((status.as_u16(), error), (503, "temporarily_unavailable"))
            }
            other => panic!("{other}"),
        }
        assert!(is_gone(&oauth, &store).await, "{status}");
    }
    // Nobody is there any more.
    let site = Site::open().await;
    site.script().revokes = Some(200);
    let (oauth, store) = signed_in(&site).await;
    site.script().stuck = None;
    site.script().issuer = None;
    let gone = OAuthClient::builder("http://127.0.0.1:1/mcp").unwrap().store(Arc::clone(&store) as _).build();
    let mut moved = (*oauth.tokens().await.unwrap().unwrap()).clone();
    moved.issuer = Issuer::new("http://127.0.0.1:1").unwrap();
    gone.store_refreshed_tokens(moved.clone(), &moved, None).await.unwrap();
    assert!(matches!(gone.revoke().await.unwrap(), RevocationResult::Failed(FlowError::Fetch { .. })));
    assert!(gone.tokens().await.unwrap().is_none());
}

#[tokio::test]
async fn where_nothing_is_taken_back_it_is_said_too() {
    let site = Site::open().await;
    let (oauth, store) = signed_in(&site).await;
    assert_eq!(oauth.revoke().await.unwrap(), RevocationResult::NotOffered);
    assert!(is_gone(&oauth, &store).await && site.script().revoked.is_empty());
}

/// RFC 7009, section 2.2.1: access tokens may be none of what is taken back; they end with what they came of.
#[tokio::test]
async fn an_access_token_that_is_not_taken_back_by_itself_is_no_failure() {
    let site = Site::open().await;
    site.script().revokes = Some(200);
    let (oauth, store) = signed_in(&site).await;
    let held = (*oauth.tokens().await.unwrap().unwrap()).clone();
    // All that comes is refused so: of one without a refresh token nothing was taken back then.
    site.script().revokes = Some(400);
    let mut alone = held.clone();
    alone.refresh = None;
    oauth.store_refreshed_tokens(alone.clone(), &alone, None).await.unwrap();
    let RevocationResult::Failed(FlowError::Refused(body)) = oauth.revoke().await.unwrap() else {
        panic!("it was")
    };
    assert_eq!(body.error, ErrorCode::UnsupportedTokenType);
    assert!(is_gone(&oauth, &store).await);
}

/// Sign-out revokes the tokens that another program has renewed meanwhile.
#[tokio::test]
async fn the_tokens_that_are_kept_are_those_given_back() {
    let site = Site::open().await;
    site.script().revokes = Some(200);
    let (oauth, store) = signed_in(&site).await;
    let other = site.builder().store(Arc::clone(&store) as _).build();
    let mut newer = (*other.tokens().await.unwrap().unwrap()).clone();
    newer.refresh = Some("renewed".to_owned().into());
    other.store_refreshed_tokens(newer.clone(), &newer, None).await.unwrap();
    assert_eq!(oauth.revoke().await.unwrap(), RevocationResult::Revoked);
    assert_eq!(site.script().revoked[0]["token"], "renewed");
    assert!(is_gone(&oauth, &store).await);
}

/// The store of another process, which tells when it waits for its turn.
#[derive(Debug)]
struct Other {
    file: FileCredentialStore,
    waits: Notify,
}

impl CredentialStore for Other {
    fn read(&self, name: &str) -> Result<Option<SecretString>, StepError> {
        self.file.read(name)
    }

    fn write(&self, name: &str, document: &SecretString) -> Result<(), StepError> {
        self.file.write(name, document)
    }

    fn remove(&self, name: &str) -> Result<(), StepError> {
        self.file.remove(name)
    }

    fn names(&self, beginning: &str) -> Result<Vec<String>, StepError> {
        self.file.names(beginning)
    }

    fn lock(&self, name: &str) -> Result<Option<Box<dyn Send>>, StepError> {
        self.waits.notify_one();
        self.file.lock(name)
    }
}

fn file(folder: &Path) -> FileCredentialStore {
    FileCredentialStore::new(folder.join("credentials"), StoreKey::Random(zeroize::Zeroizing::new([1; 32])))
}

/// Sign-out waits for a renewal in another process. Otherwise its result would be stored again.
#[tokio::test]
async fn a_renewal_in_another_process_does_not_undo_signing_out() {
    for way in ["revoke", "sign out", "forget"] {
        let site = Site::open().await;
        site.script().revokes = Some(200);
        let folder = tempfile::tempdir().unwrap();
        let renewing = site.builder().sign_in(site.person()).store(Arc::new(file(folder.path()))).build();
        renewing.sign_in(None).await.unwrap();
        let other = Arc::new(Other { file: file(folder.path()), waits: Notify::new() });
        let leaving = site.builder().store(Arc::clone(&other) as _).build();
        leaving.tokens().await.unwrap().expect("the other's");

        let hold = Arc::new(Hold::default());
        site.script().hold = Some(Arc::clone(&hold));
        let renewal = tokio::spawn(async move { renewing.repair().await.map(drop) });
        tokio::time::timeout(PATIENCE, hold.arrived.notified()).await.unwrap();
        let store = Arc::clone(&other);
        let mut left = tokio::spawn(async move {
            match way {
                "revoke" => assert_eq!(leaving.revoke().await.unwrap(), RevocationResult::Revoked),
                "sign out" => leaving.sign_out().await.unwrap(),
                _ => {
                    let forget = move || StoredTokens::all(&*store).unwrap()[0].forget(&*store).unwrap();
                    tokio::task::spawn_blocking(forget).await.unwrap();
                }
            }
        });
        let is_over = tokio::select! {
            done = &mut left => { done.unwrap(); true }
            () = other.waits.notified() => false,
        };
        site.script().hold = None;
        hold.go.notify_one();
        renewal.await.unwrap().unwrap();
        if !is_over {
            left.await.unwrap();
        }
        assert!(other.names("tokens ").unwrap().is_empty(), "{way}: it is kept again");
        if way == "revoke" {
            let script = site.script();
            let given: Vec<&str> = script.revoked.iter().map(|form| form["token"].as_str()).collect();
            assert_eq!(given, ["refresh 2", "token2"], "what came of the renewal");
        }
    }
}

/// Sign-in waits for a renewal in another process. Otherwise its result would overwrite the new tokens.
#[tokio::test]
async fn a_renewal_in_another_process_does_not_undo_signing_in() {
    let site = Site::open().await;
    let folder = tempfile::tempdir().unwrap();
    let renewing = site.builder().sign_in(site.person()).store(Arc::new(file(folder.path()))).build();
    renewing.sign_in(None).await.unwrap();
    let other = Arc::new(Other { file: file(folder.path()), waits: Notify::new() });
    let entering = site.builder().sign_in(site.person()).store(Arc::clone(&other) as _).build();

    let hold = Arc::new(Hold::default());
    site.script().hold = Some(Arc::clone(&hold));
    let renewal = tokio::spawn(async move { renewing.repair().await.map(drop) });
    tokio::time::timeout(PATIENCE, hold.arrived.notified()).await.unwrap();
    site.script().hold = None;
    let mut entered = tokio::spawn(async move { entering.sign_in(None).await.map(drop) });
    let is_over = tokio::select! {
        done = &mut entered => { done.unwrap().unwrap(); true }
        () = other.waits.notified() => false,
    };
    hold.go.notify_one();
    renewal.await.unwrap().unwrap();
    if !is_over {
        entered.await.unwrap().unwrap();
    }
    assert_eq!(site.script().issued, 3);
    let after = site.builder().store(Arc::clone(&other) as _).build();
    assert_eq!(after.tokens().await.unwrap().unwrap().access.expose_secret(), "token3");
}

/// A repair that finds another authorization server forgets nothing that another process has got there meanwhile.
#[tokio::test]
async fn a_repair_forgets_nothing_that_another_process_has_put_right() {
    let (site, second) = (Site::open().await, Site::open().await);
    let folder = tempfile::tempdir().unwrap();
    let other = Arc::new(Other { file: file(folder.path()), waits: Notify::new() });
    let slow = site.builder().sign_in(site.person()).store(Arc::clone(&other) as _).build();
    slow.sign_in(None).await.unwrap();
    tokio::time::timeout(PATIENCE, other.waits.notified()).await.unwrap();
    site.script().issuer = Some(second.url.clone());
    second.script().registrations = 6;
    let fast = site.builder().sign_in(site.person()).store(Arc::new(file(folder.path()))).build();
    let tokens = fast.repair().await.unwrap().tokens;
    assert_eq!(tokens.issuer.as_str(), second.url);
    // Somebody is at the store.
    let lock = file(folder.path()).lock("tokens").unwrap();
    let mut repairing = tokio::spawn(async move { slow.repair().await });
    tokio::select! {
        repaired = &mut repairing => panic!("nobody was waited for: {repaired:?}"),
        () = other.waits.notified() => {}
    }
    drop(lock);
    let repaired = repairing.await.unwrap().unwrap();
    assert!(matches!(&repaired.did[..], [crate::RepairStep::ServerChanged { .. }]), "{:?}", repaired.did);
    assert_eq!(repaired.tokens.access.expose_secret(), tokens.access.expose_secret());
    assert_eq!(second.script().authorizations, 1);
    assert_eq!(
        fast.read_stored_document().await.unwrap().map(|kept| fast.read_tokens(&kept).unwrap().mark),
        Some(tokens.mark.clone())
    );
}
