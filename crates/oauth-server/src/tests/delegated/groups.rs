//! Groups of users who sign in at the provider.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hospes_auth::GroupsClaim;
use hospes_oauth_resource::{TokenVerifier as _, VerifyTokenError};
use serde_json::json;

use super::{THIRD, Third, come_back, go_away, node_of, provider, tokens};
use crate::tests::grants::stores;
use crate::tests::{APP, Ask, Browser, Site};
use crate::{AuthStore, MemoryAuthStore};

fn site(third: &Third, store: Arc<dyn AuthStore>, time: &Arc<AtomicU64>) -> Site {
    node_of(provider(third).reading_groups(GroupsClaim::new("groups")), store, time)
}

async fn groups(site: &Site, token: &str) -> Result<Vec<String>, VerifyTokenError> {
    site.guard().verify(token, site.now()).await.map(|who| who.groups)
}

/// The groups are those of the last sign-in or renewal, at every node.
#[tokio::test]
async fn groups_are_read_at_sign_in_and_again_at_each_renewal() {
    for (one, other, _folder) in stores() {
        let third = Third::default();
        let time = Arc::new(AtomicU64::new(1_000_000));
        let nodes = [site(&third, one, &time), site(&third, other, &time)];
        third.set_userinfo(json!({ "sub": "u-17", "groups": ["staff", "it"] }));
        let mut browser = Browser::new(&nodes[0]);
        let (access, refresh) = tokens(&mut browser, &third).await;
        for node in &nodes {
            assert_eq!(groups(node, &access).await.unwrap(), ["staff", "it"]);
        }
        third.set_userinfo(json!({ "sub": "u-17", "groups": ["guests"] }));
        nodes[0].pass(299);
        assert_eq!(groups(&nodes[0], &access).await.unwrap(), ["staff", "it"], "as long as their token");
        nodes[0].pass(1);
        assert_eq!(groups(&nodes[1], &access).await.unwrap(), ["guests"]);
        assert_eq!(groups(&nodes[0], &access).await.unwrap(), ["guests"]);
        let (access, _) = nodes[0].refresh(&refresh, APP, &[]).await.tokens();
        assert_eq!(groups(&nodes[1], &access).await.unwrap(), ["guests"], "of a new token, too");
        // Without the claim a user is in no group.
        third.set_userinfo(json!({ "sub": "u-17" }));
        nodes[0].pass(300);
        assert!(groups(&nodes[0], &access).await.unwrap().is_empty());
    }
}

/// A provider that is out of order must not end every session at once, nor keep groups that were taken back for ever.
#[tokio::test]
async fn groups_that_cannot_be_read_again_count_for_four_hours() {
    let third = Third::default();
    let time = Arc::new(AtomicU64::new(1_000_000));
    let site = site(&third, Arc::new(MemoryAuthStore::new()), &time);
    third.set_userinfo(json!({ "sub": "u-17", "groups": ["staff"] }));
    let (mut access, mut refresh) = tokens(&mut Browser::new(&site), &third).await;
    third.break_off(Some("userinfo"));
    site.pass(300);
    assert_eq!(groups(&site, &access).await.unwrap(), ["staff"]);
    for _ in 0..26 {
        site.pass(540);
        (access, refresh) = site.refresh(&refresh, APP, &[]).await.tokens();
        assert_eq!(groups(&site, &access).await.unwrap(), ["staff"]);
    }
    third.set_userinfo(json!({ "sub": "u-17", "groups": ["guests"] }));
    third.break_off(None);
    site.pass(59);
    assert_eq!(groups(&site, &access).await.unwrap(), ["staff"]);
    site.pass(1);
    assert_eq!(groups(&site, &access).await.unwrap(), ["guests"], "it is asked again after a minute");
    third.break_off(Some("userinfo"));
    site.pass(300);
    assert_eq!(groups(&site, &access).await.unwrap(), ["guests"]);
    // As long as the grant has tokens, it is asked again.
    for _ in 0..26 {
        site.pass(540);
        (access, refresh) = site.refresh(&refresh, APP, &[]).await.tokens();
    }
    site.pass(400);
    assert_eq!(groups(&site, &access).await, Err(VerifyTokenError::Unavailable));
    third.break_off(None);
    site.pass(60);
    assert_eq!(groups(&site, &access).await.unwrap(), ["guests"]);
}

#[tokio::test]
async fn groups_of_somebody_else_and_a_reference_to_groups_end_the_grant() {
    for claims in [
        json!({ "sub": "u-18", "groups": ["it"] }),
        json!({ "sub": "u-17", "_claim_names": { "groups": "src1" } }),
        json!({ "sub": "u-17", "groups": vec!["a"; 1001] }),
    ] {
        let third = Third::default();
        let time = Arc::new(AtomicU64::new(1_000_000));
        let site = site(&third, Arc::new(MemoryAuthStore::new()), &time);
        third.set_userinfo(json!({ "sub": "u-17", "groups": ["staff"] }));
        let (access, refresh) = tokens(&mut Browser::new(&site), &third).await;
        third.set_userinfo(claims.clone());
        site.pass(300);
        assert_eq!(groups(&site, &access).await, Err(VerifyTokenError::Invalid), "{claims}");
        assert_eq!(third.given_back().await, ["third-refresh-1"], "what nobody has stored is given back");
        third.set_userinfo(json!({ "sub": "u-17", "groups": ["staff"] }));
        assert_eq!(site.refresh(&refresh, APP, &[]).await.error().1, "invalid_grant");
    }
}

/// A person in too many groups learns what to do about it.
#[tokio::test]
async fn a_sign_in_with_a_reference_to_groups_is_refused_with_a_hint() {
    let third = Third::default();
    let time = Arc::new(AtomicU64::new(1_000_000));
    let site = site(&third, Arc::new(MemoryAuthStore::new()), &time);
    third.set_userinfo(json!({ "sub": "u-17", "_claim_names": { "groups": "src1" } }));
    let mut browser = Browser::new(&site);
    let (away, cookie) = go_away(&mut browser, &Ask::new()).await;
    let code = third.sign_in(&away);
    let fields = [("code", &*code), ("state", &*away["state"]), ("iss", THIRD)];
    let back = come_back(&browser, Some(&cookie), &fields).await.answer();
    assert_eq!(back["error"], "access_denied");
    assert!(back["error_description"].contains("limit the groups"), "{back:?}");
    assert_eq!(third.given_back().await.len(), 1, "nobody uses the tokens");
}

/// Otherwise users would be in no group until their tokens are renewed, and a rule that denies would not hold.
#[tokio::test]
async fn everybody_signs_in_again_once_groups_are_read() {
    let third = Third::default();
    let time = Arc::new(AtomicU64::new(1_000_000));
    let store: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
    third.set_userinfo(json!({ "sub": "u-17", "groups": ["staff"] }));
    let before = node_of(provider(&third), Arc::clone(&store), &time);
    let (access, _) = tokens(&mut Browser::new(&before), &third).await;
    assert!(groups(&before, &access).await.unwrap().is_empty());
    let reading = site(&third, store, &time);
    assert_eq!(groups(&reading, &access).await, Err(VerifyTokenError::Invalid));
}
