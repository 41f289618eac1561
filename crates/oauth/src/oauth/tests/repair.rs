//! Putting right what is held.

use super::*;
use crate::{MemoryCredentialStore, RepairStep};

fn stored(site: &Site) -> (Arc<dyn CredentialStore>, OAuthClient) {
    let store: Arc<dyn CredentialStore> = Arc::new(MemoryCredentialStore::new());
    let oauth = site.builder().sign_in(site.person()).store(Arc::clone(&store)).build();
    (store, oauth)
}

#[tokio::test]
async fn what_is_good_is_renewed_and_where_nothing_is_somebody_signs_in() {
    let site = Site::open().await;
    let (_, oauth) = stored(&site);
    assert_eq!(oauth.repair().await.unwrap().did, [RepairStep::SignedIn]);
    let repaired = oauth.repair().await.unwrap();
    assert_eq!(repaired.did, [RepairStep::Renewed]);
    call(&site.connect(&oauth).await, "x").await.unwrap();
    let script = site.script();
    assert_eq!((script.authorizations, script.refreshes, script.registrations), (1, 1, 1));
}

#[tokio::test]
async fn what_is_lost_is_made_anew_with_the_registration() {
    let site = Site::open().await;
    for (status, error) in [(400, "invalid_grant"), (401, "invalid_client")] {
        let (store, oauth) = stored(&site);
        oauth.sign_in(None).await.unwrap();
        let before = site.script().registrations;
        site.script().refresh_fails = Some(status);
        site.script().refresh_error = Some(error);
        let did = oauth.repair().await.unwrap().did;
        assert!(matches!(&did[..], [RepairStep::NotRenewed(_), .., RepairStep::SignedIn]), "{did:?}");
        assert_eq!(site.script().registrations, before + 1, "{error}");
        assert_eq!(store.names("registration ").unwrap().len(), 1);
        site.script().refresh_fails = None;
        call(&site.connect(&oauth).await, "x").await.unwrap();
    }
}

#[tokio::test]
async fn what_may_pass_loses_nothing() {
    let site = Site::open().await;
    let (_, oauth) = stored(&site);
    oauth.sign_in(None).await.unwrap();
    site.script().refresh_fails = Some(503);
    assert!(matches!(oauth.repair().await, Err(FlowError::Status { .. })));
    site.script().refresh_fails = None;
    assert_eq!(oauth.repair().await.unwrap().did, [RepairStep::Renewed]);
}

/// A registration that the server has lost is not used once more.
#[tokio::test]
async fn a_client_that_is_no_longer_known_registers_anew() {
    let site = Site::open().await;
    let (store, oauth) = stored(&site);
    let client = site.connect(&oauth).await;
    site.script().refresh_fails = Some(401);
    site.script().refresh_error = Some("invalid_client");
    site.script().good.clear();
    call(&client, "x").await.unwrap();
    assert_eq!(site.script().registrations, 2);
    assert_eq!(store.names("registration ").unwrap().len(), 1);
}

/// covers: AUTC-51
#[tokio::test]
async fn another_authorization_server_is_told_nothing_of_the_one_before() {
    let (site, other) = (Site::open().await, Site::open().await);
    let (_, oauth) = stored(&site);
    oauth.sign_in(None).await.unwrap();
    other.script().registrations = 6;
    site.script().issuer = Some(other.url.clone());
    let repaired = oauth.repair().await.unwrap();
    let [RepairStep::ServerChanged { from, to }, RepairStep::SignedIn] = &repaired.did[..] else {
        panic!("{:?}", repaired.did)
    };
    assert_eq!((from.as_str(), to.as_str()), (site.url.as_str(), other.url.as_str()));
    assert_eq!(repaired.tokens.client.id.as_str(), "new7");
    assert_eq!(repaired.tokens.issuer.as_str(), other.url);
    let script = other.script();
    assert!(script.seen.iter().all(|(_, query, shown)| !query.contains("client_id=new1") && shown.is_none()));
    assert_eq!(site.script().refreshes, 0, "the old one is not asked either");
}
