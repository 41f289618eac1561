//! A person on another machine.

use std::sync::atomic::AtomicBool;

use hospes::client::{Authorizer as _, OutboundRequest};

use super::signing_in::refused;
use super::*;
use crate::{DeviceCodeSignIn, GrantType, StepError};

fn oauth(site: &Arc<Site>, enters: bool) -> (OAuthClient, Arc<AtomicBool>) {
    let (shared, was_shown) = (Arc::clone(site), Arc::new(AtomicBool::new(false)));
    let noted = Arc::clone(&was_shown);
    let codes = DeviceCodeSignIn::new(move |prompt| {
        assert_eq!(prompt.user_code, "ABCD");
        noted.store(true, Ordering::SeqCst);
        shared.script().is_entered = enters;
        if enters { Ok(()) } else { Err(StepError::new("the screen is broken")) }
    });
    (site.builder().grant(GrantType::Device).sign_in(codes).build(), was_shown)
}

#[tokio::test]
async fn a_machine_without_a_browser_is_let_in() {
    let site = Site::open().await;
    let (oauth, was_shown) = oauth(&site, true);
    let client = site.connect(&oauth).await;
    call(&client, "x").await.unwrap();
    assert!(was_shown.load(Ordering::SeqCst));
    site.pass(545);
    call(&client, "x").await.unwrap();
    let script = site.script();
    assert_eq!((script.authorizations, script.registrations, script.refreshes), (0, 1, 1));
}

#[tokio::test]
async fn a_code_that_cannot_be_shown_is_no_sign_in() {
    let site = Site::open().await;
    let (oauth, _) = oauth(&site, false);
    let error = oauth.sign_in(None).await.unwrap_err();
    assert_eq!(error, FlowError::SignIn("the screen is broken".into()));
    let browserless = site.builder().grant(GrantType::Device).sign_in(site.person()).build();
    assert!(matches!(browserless.sign_in(None).await, Err(FlowError::SignIn(_))));
    let (method, url) = (http::Method::POST, Url::parse(&site.mcp()).unwrap());
    assert!(oauth.headers(OutboundRequest::new(&method, &url)).await.unwrap().is_empty());
}

/// Denying a code applies for a while: the next request fails with it and shows no other code.
#[tokio::test]
async fn who_says_no_to_a_code_is_not_shown_another_at_once() {
    for error in ["access_denied", "expired_token"] {
        let site = Site::open().await;
        site.script().code_fails = Some(error);
        let (oauth, was_shown) = oauth(&site, true);
        let first = refused(&site, &oauth).await.what.clone();
        assert!(was_shown.swap(false, Ordering::SeqCst), "{first}");
        site.pass(4);
        let second = refused(&site, &oauth).await.what.clone();
        assert_eq!((was_shown.load(Ordering::SeqCst), second), (false, first));
        site.pass(1);
        site.script().code_fails = None;
        call(&site.connect(&oauth).await, "x").await.unwrap();
        assert!(was_shown.load(Ordering::SeqCst), "then it is asked anew");
    }
}
