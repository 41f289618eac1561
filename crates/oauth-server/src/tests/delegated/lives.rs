//! Our tokens are valid as long as the provider's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hospes_auth::UnixClock;
use hospes_auth_testkit::PATIENCE;
use hospes_oauth_resource::VerifyTokenError;
use http::StatusCode;
use serde_json::json;

use super::{Third, check, node, provider, site, tokens};
use crate::tests::grants::stores;
use crate::tests::{APP, Browser, Site, basic, settings};
use crate::{AccessTokenFormat, AuthServer, AuthStore, LocalSignIn, MemoryAuthStore};

/// Two nodes, and what a token rests on runs out: it is renewed once, and checked from time to time.
///
/// covers: AUT3-04 AUT3-05 AUT3-06 AUT3-07 AUT3-09
#[tokio::test]
async fn ours_is_good_as_long_as_theirs() {
    for (one, other, _folder) in stores() {
        good_as_long_as_theirs(one, other).await;
    }
}

async fn good_as_long_as_theirs(one: Arc<dyn AuthStore>, other: Arc<dyn AuthStore>) {
    let third = Third::default();
    let time = Arc::new(AtomicU64::new(1_000_000));
    let nodes = [node(&third, one, &time), node(&third, other, &time)];
    let mut browser = Browser::new(&nodes[0]);
    let (access, refresh) = tokens(&mut browser, &third).await;
    nodes[0].pass(300);
    let checks = (0..50).map(|at| {
        let (site, access) = (nodes[at % 2].clone(), access.clone());
        tokio::spawn(async move { check(&site, &access).await.is_ok() })
    });
    for done in checks.collect::<Vec<_>>() {
        assert!(done.await.unwrap());
    }
    assert_eq!(third.0.refreshed.load(Ordering::Relaxed), 1, "once for all");
    // Not there: nobody is let in who would have to be checked, and nothing is thrown away.
    nodes[0].pass(60);
    third.break_off(Some("away"));
    assert_eq!(check(&nodes[1], &access).await, Err(VerifyTokenError::Unavailable));
    third.break_off(None);
    assert!(check(&nodes[1], &access).await.is_ok());
    // Taken back there: noticed within a minute, and for good.
    third.break_off(Some("revoked"));
    assert!(check(&nodes[0], &access).await.is_ok());
    nodes[0].pass(60);
    assert_eq!(check(&nodes[0], &access).await, Err(VerifyTokenError::Invalid));
    third.break_off(None);
    assert_eq!(check(&nodes[1], &access).await, Err(VerifyTokenError::Invalid));
    assert_eq!(nodes[1].refresh(&refresh, APP, &[]).await.error().1, "invalid_grant");
}

/// A remote resource reads tokens itself or introspects them. The provider's token is checked when ours is renewed or
/// introspected.
///
/// covers: AUT3-05 AUT3-06
#[tokio::test]
async fn what_rests_on_theirs_is_renewed_as_long_as_theirs_holds() {
    let third = Third::default();
    let now = Arc::new(AtomicU64::new(1_000_000));
    let time = Arc::clone(&now);
    let mut settings = settings();
    settings.access_tokens = AccessTokenFormat::Jwt;
    let server = AuthServer::new(settings, Arc::new(MemoryAuthStore::new()), LocalSignIn::default()).unwrap();
    let server =
        server.delegating(provider(&third)).clock(UnixClock::new(move || time.load(Ordering::Relaxed)));
    let site = Site::of(server, now);
    let machine = basic("machine", "s3cret:%+ä");
    let introspect = async |token: &str| {
        site.form_with("/introspect", &[("token", token)], &[("authorization", &*machine)]).await
    };
    let (access, first) = tokens(&mut Browser::new(&site), &third).await;
    site.pass(60);
    third.break_off(Some("away"));
    assert_eq!(site.refresh(&first, APP, &[]).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(introspect(&access).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    third.break_off(None);
    assert_eq!(introspect(&access).await.json()["active"], true);
    let (_, second) = site.refresh(&first, APP, &[]).await.tokens();
    site.pass(60);
    third.break_off(Some("revoked"));
    // The answer to the first might have been lost: it is not told again either.
    assert_eq!(site.refresh(&first, APP, &[]).await.error().1, "invalid_grant");
    assert_eq!(site.refresh(&second, APP, &[]).await.error().1, "invalid_grant");
    assert_eq!(introspect(&access).await.json(), json!({ "active": false }));

    third.break_off(None);
    let (access, refresh) = tokens(&mut Browser::new(&site), &third).await;
    site.pass(60);
    third.break_off(Some("revoked"));
    assert_eq!(introspect(&access).await.json(), json!({ "active": false }), "whoever is asked first");
    assert_eq!(site.refresh(&refresh, APP, &[]).await.error().1, "invalid_grant");
    third.break_off(None);
    let (access, refresh) = tokens(&mut Browser::new(&site), &third).await;
    site.pass(60);
    third.break_off(Some("revoked"));
    assert_eq!(site.refresh(&refresh, APP, &[]).await.error().1, "invalid_grant");
    third.break_off(None);
    assert_eq!(introspect(&access).await.json(), json!({ "active": false }));
}

/// A provider that refuses introspection locks out no users; one that fails is retried.
#[tokio::test]
async fn a_provider_may_keep_to_itself_whether_its_tokens_hold() {
    let third = Third::default();
    let site = site(&third);
    let (access, _) = tokens(&mut Browser::new(&site), &third).await;
    site.pass(60);
    third.break_off(Some("failing"));
    assert_eq!(check(&site, &access).await, Err(VerifyTokenError::Unavailable), "whatever it says");
    third.break_off(Some("forbids"));
    assert!(check(&site, &access).await.is_ok());
    site.pass(60);
    assert!(check(&site, &access).await.is_ok());
}

#[tokio::test]
async fn theirs_may_last_for_ever() {
    let third = Third::default();
    third.break_off(Some("for ever"));
    let site = site(&third);
    let (access, _) = tokens(&mut Browser::new(&site), &third).await;
    site.pass(300);
    assert!(check(&site, &access).await.is_ok());
}

/// Without a way to renew theirs, ours ends with it.
///
/// covers: AUT3-10
#[tokio::test]
async fn what_cannot_be_renewed_ends() {
    let third = Third::default();
    third.break_off(Some("no refresh"));
    let site = site(&third);
    let mut browser = Browser::new(&site);
    let (access, refresh) = tokens(&mut browser, &third).await;
    site.pass(59);
    assert!(check(&site, &access).await.is_ok());
    site.pass(241);
    assert_eq!(check(&site, &access).await, Err(VerifyTokenError::Invalid), "five minutes, not ten");
    assert_eq!(site.refresh(&refresh, APP, &[]).await.error().1, "invalid_grant");
}

/// A revocation does not wait for the provider, and no token lasts longer because of it.
#[tokio::test(start_paused = true)]
async fn what_is_given_up_ends_at_once_though_the_provider_never_answers() {
    let third = Third::default();
    let site = site(&third);
    let (access, refresh) = tokens(&mut Browser::new(&site), &third).await;
    third.break_off(Some("silent"));
    let fields = [("token", &*refresh), ("client_id", APP)];
    let revoking = site.form("/revoke", &fields);
    let answer = tokio::time::timeout(PATIENCE, revoking).await.expect("nobody is waited for");
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(check(&site, &access).await, Err(VerifyTokenError::Invalid));
    assert_eq!(site.refresh(&refresh, APP, &[]).await.error().1, "invalid_grant");
}

/// The client may have disconnected by then.
#[tokio::test]
async fn what_is_given_up_is_given_back_though_the_client_hangs_up() {
    let third = Third::default();
    let site = site(&third);
    let (access, refresh) = tokens(&mut Browser::new(&site), &third).await;
    let fields = [("token", &*refresh), ("client_id", APP)];
    tokio::select! {
        biased;
        _ = site.form("/revoke", &fields) => panic!("it is not that fast"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(third.given_back().await, ["third-refresh-0"]);
    assert_eq!(check(&site, &access).await, Err(VerifyTokenError::Invalid));
}
