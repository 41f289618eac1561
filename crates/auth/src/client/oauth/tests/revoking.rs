//! Giving tokens up.

use super::*;
use crate::ErrorCode;
use crate::client::{MemoryStore, Store};

async fn signed_in(site: &Arc<Site>) -> (OAuthClient, Arc<MemoryStore>) {
    let store = Arc::new(MemoryStore::new());
    let oauth = site.builder().store(Arc::clone(&store) as _).sign_in(site.person()).build();
    site.connect(&oauth).await.close().await;
    assert!(oauth.tokens().await.unwrap().is_some());
    (oauth, store)
}

/// Here they are gone, whatever the other says.
async fn is_gone(oauth: &OAuthClient, store: &MemoryStore) -> bool {
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
    assert_eq!(oauth.revoke().await.unwrap(), Revoked::Revoked);
    assert!(is_gone(&oauth, &store).await);
    let revoked = site.script().revoked.clone();
    let given: Vec<(&str, &str)> =
        revoked.iter().map(|form| (form["token_type_hint"].as_str(), form["token"].as_str())).collect();
    let (refresh, access) = (format!("s3cret-refresh {number}"), format!("s3cret-token{number}"));
    assert_eq!(given, [("refresh_token", &*refresh), ("access_token", &*access)]);
    // As the client that they were made out to.
    assert!(revoked.iter().all(|form| form["client_secret"] == "s3cret-client"), "{revoked:?}");
    assert_eq!(oauth.revoke().await.unwrap(), Revoked::Nothing);
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
        let Revoked::Failed(why) = oauth.revoke().await.unwrap() else { panic!("{status}") };
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
    gone.keep(moved, false).await.unwrap();
    assert!(matches!(gone.revoke().await.unwrap(), Revoked::Failed(FlowError::Fetch { .. })));
    assert!(gone.tokens().await.unwrap().is_none());
}

#[tokio::test]
async fn where_nothing_is_taken_back_it_is_said_too() {
    let site = Site::open().await;
    let (oauth, store) = signed_in(&site).await;
    assert_eq!(oauth.revoke().await.unwrap(), Revoked::NotOffered);
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
    oauth.keep(alone, false).await.unwrap();
    let Revoked::Failed(FlowError::Refused(body)) = oauth.revoke().await.unwrap() else { panic!("it was") };
    assert_eq!(body.error, ErrorCode::UnsupportedTokenType);
    assert!(is_gone(&oauth, &store).await);
}

/// What another program has renewed meanwhile is what is given back.
#[tokio::test]
async fn the_tokens_that_are_kept_are_those_given_back() {
    let site = Site::open().await;
    site.script().revokes = Some(200);
    let (oauth, store) = signed_in(&site).await;
    let other = site.builder().store(Arc::clone(&store) as _).build();
    let mut newer = (*other.tokens().await.unwrap().unwrap()).clone();
    newer.refresh = Some("renewed".to_owned().into());
    other.keep(newer, false).await.unwrap();
    assert_eq!(oauth.revoke().await.unwrap(), Revoked::Revoked);
    assert_eq!(site.script().revoked[0]["token"], "renewed");
    assert!(is_gone(&oauth, &store).await);
}
