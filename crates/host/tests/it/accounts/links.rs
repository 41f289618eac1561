//! Tests of links that are misused.

use std::time::Duration;

use hospes::client::Client;
use hospes_host::AccountLimits;
use hospes_model::Revision;

use crate::accounts::site::{Gate, Kept, Site};
use crate::accounts::{call, says};

/// A link for Alice, and an application of hers that cannot be asked.
async fn link(gate: &Gate) -> (Client, String) {
    let alice = gate.application("alice", Client::builder()).await;
    let link = gate.link(&says(&alice, "site__whoami").await);
    (alice, link)
}

/// covers: ELIC-26 ELIC-32
#[tokio::test]
async fn a_link_is_of_no_use_to_anybody_else() {
    let site = Site::new().await;
    let gate = Gate::new(&site).await;
    let (alice, link) = link(&gate).await;
    assert!(!link.contains("alice") && !link.contains(&site.origin), "{link}");
    // Bob signs in at the link; and comes once more, signed in.
    let mut bob = gate.browser("bob");
    for _ in 0..2 {
        let refused = bob.agree(&link).await;
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(refused.text.contains("This link is for another user"), "{refused:?}");
    }
    assert!(bob.visited.iter().all(|url| !url.as_str().starts_with(&site.origin)), "{:?}", bob.visited);
    assert_eq!(call(&alice, "site__whoami").await.is_error, Some(true));
    // It is still good for whom it was made.
    assert_eq!(gate.browser("alice").agree(&link).await.status, 200);
    assert_eq!(
        says(&gate.application("alice", Client::builder()).await, "site__whoami").await,
        "alice-there"
    );
}

#[tokio::test]
async fn what_was_used_is_used_up() {
    let site = Site::new().await;
    let gate = Gate::new(&site).await;
    let (_alice, link) = link(&gate).await;
    let mut browser = gate.browser("alice");
    // To look at it uses nothing up.
    let page = browser.agree_to_sign_in(&link).await;
    assert!(page.text.contains("Connect your account at"), "{page:?}");
    let left = browser.press(&page, "allow").await;
    assert_eq!(left.url.origin(), url::Url::parse(&site.origin).unwrap().origin());
    for again in [browser.press(&page, "allow").await, browser.open(&link).await] {
        assert!(again.status == 404 && again.text.contains("no longer valid"), "{again:?}");
    }
    assert_eq!(browser.agree_from(left).await.status, 200);
    let callback = browser.visited.iter().rfind(|url| url.path() == "/connect/callback").unwrap().clone();
    let again = browser.open(callback.as_str()).await;
    assert!(
        again.status == 400 && again.text.contains("No connection is pending for this response"),
        "{again:?}"
    );
}

/// An attacker who makes a browser send a forged form does not know the token of the genuine form, although the cookies
/// are sent.
#[tokio::test]
async fn a_form_that_is_not_ours_connects_nothing() {
    let site = Site::new().await;
    let gate = Gate::new(&site).await;
    let (alice, link) = link(&gate).await;
    let mut browser = gate.browser("alice");
    let page = browser.agree_to_sign_in(&link).await;
    let (_, rest) = page.text.split_once("name=\"csrf\" value=\"").unwrap();
    let mark = rest.split_once('"').unwrap().0.to_owned();
    for forged in [String::new(), "x".to_owned(), "A".repeat(mark.len())] {
        for decision in ["allow", "deny"] {
            let mut theirs = page.clone();
            theirs.text = page.text.replace(&mark, &forged);
            let refused = browser.press(&theirs, decision).await;
            assert!(refused.url.as_str().starts_with(&gate.origin), "{refused:?}");
            assert!((400..500).contains(&refused.status), "{decision}: {refused:?}");
        }
    }
    // None of that has used it up.
    assert_eq!(browser.agree_from(page).await.status, 200);
    assert_eq!(says(&alice, "site__whoami").await, "alice-there");
}

/// An authorization response for Alice is rejected in Bob's browser, and a response for Bob in Alice's.
#[tokio::test]
async fn an_answer_belongs_to_the_browser_that_left() {
    let site = Site::new().await;
    let gate = Gate::new(&site).await;
    let (alice, link) = link(&gate).await;
    let mut browser = gate.browser("alice");
    let page = browser.agree_to_sign_in(&link).await;
    let left = browser.press(&page, "allow").await;
    let state = left.url.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    // Somebody else has the state and a code of their own.
    let mut bob = gate.browser("bob");
    let bobs = gate.application("bob", Client::builder()).await;
    let own = gate.link(&says(&bobs, "site__whoami").await);
    assert_eq!(bob.agree(&own).await.status, 200);
    let callback = format!("{}/connect/callback?code=stolen&state={state}", gate.origin);
    for stranger in [&mut bob, &mut gate.browser("alice"), &mut gate.browser("bob")] {
        let refused = stranger.open(&callback).await;
        assert!(refused.status == 400 && refused.text.contains("No connection is pending"), "{refused:?}");
    }
    for bad in ["state=x&code=y", "code=y", "", "state=x&state=y&code=z"] {
        let refused = browser.open(&format!("{}/connect/callback?{bad}", gate.origin)).await;
        assert_eq!(refused.status, 400, "{bad}: {refused:?}");
    }
    // None of that has spoilt it.
    assert_eq!(browser.agree_from(left).await.status, 200);
    assert_eq!(says(&alice, "site__whoami").await, "alice-there");
    assert_eq!(says(&bobs, "site__whoami").await, "bob-there");
}

/// covers: AUTC-47 AUTC-50
#[tokio::test]
async fn an_answer_that_says_it_comes_from_elsewhere_is_not_used() {
    let site = Site::new().await;
    let gate = Gate::new(&site).await;
    let (alice, link) = link(&gate).await;
    let mut browser = gate.browser("alice");
    let page = browser.agree_to_sign_in(&link).await;
    let left = browser.press(&page, "allow").await;
    let state = left.url.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    let callback =
        format!("{}/connect/callback?code=c&state={state}&iss=https%3A%2F%2Fevil.example", gate.origin);
    let refused = browser.open(&callback).await;
    assert!(refused.status == 502 && !refused.text.contains("evil"), "{refused:?}");
    assert_eq!(call(&alice, "site__whoami").await.is_error, Some(true));
}

#[tokio::test]
async fn a_link_that_is_too_old_opens_nothing() {
    let site = Site::new().await;
    let mut limits = AccountLimits::default();
    limits.link_lifetime = Duration::ZERO;
    let old = |accounts: hospes_host::UpstreamAccounts| accounts.limits(limits);
    let gate = Gate::with(&site, &Kept::new(), "127.0.0.1:0", old).await;
    let alice = gate.application("alice", Client::builder()).await;
    let said = call(&alice, "site__whoami").await;
    assert!(said.is_error == Some(true) && !said.all_text().contains("/connect/"), "{said:?}");
    let nothing = format!("{}/connect/{}", gate.origin, "A".repeat(43));
    let refused = gate.browser("alice").open(&nothing).await;
    assert!(refused.status == 404 && refused.text.contains("no longer valid"), "{refused:?}");
}

#[tokio::test]
async fn a_user_may_say_no_here_and_there() {
    let site = Site::new().await;
    for at_the_site in [false, true] {
        let gate = Gate::new(&site).await;
        let (alice, link) = link(&gate).await;
        let mut browser = gate.browser("alice");
        let mut page = browser.agree_to_sign_in(&link).await;
        if at_the_site {
            page = browser.press(&page, "allow").await;
            page = browser.press(&page, "allow").await;
        }
        let done = browser.press(&page, "deny").await;
        assert!(done.status == 200 && done.text.contains("No account connected"), "{done:?}");
        assert!(done.url.as_str().starts_with(&gate.origin), "{done:?}");
        // The next call may ask again, by another link.
        let again = gate.link(&says(&alice, "site__whoami").await);
        assert_ne!(again, link);
        assert_eq!(gate.browser("alice").agree(&again).await.status, 200);
        assert_eq!(says(&alice, "site__whoami").await, "alice-there");
        gate.stop().await;
    }
}

#[tokio::test]
async fn a_sign_in_that_the_host_has_forgotten_says_so() {
    let site = Site::new().await;
    let kept = Kept::new();
    let gate = Gate::with(&site, &kept, "127.0.0.1:0", |accounts| accounts).await;
    let address = gate.origin.trim_start_matches("http://").to_owned();
    let (alice, link) = link(&gate).await;
    alice.close().await;
    let mut browser = gate.browser("alice");
    let page = browser.agree_to_sign_in(&link).await;
    let left = browser.press(&page, "allow").await;
    gate.stop().await;
    let gate = Gate::with(&site, &kept, &address, |accounts| accounts).await;
    let gone = browser.agree_from(left).await;
    assert!(gone.status == 400 && gone.text.contains("restarted"), "{gone:?}");
    let gone = browser.open(&link).await;
    assert!(gone.status == 404 && gone.text.contains("restarted"), "{gone:?}");
    // Beginning again helps, and the browser is still signed in.
    let (client, pages) = gate.willing("alice", Revision::LATEST).await;
    assert_eq!(says(&client, "site__whoami").await, "alice-there");
    assert_eq!(pages.lock().len(), 1);
}
