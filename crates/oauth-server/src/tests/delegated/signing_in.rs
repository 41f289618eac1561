//! The way there and back.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hospes_auth::Scopes;
use hospes_oauth_resource::VerifyTokenError;
use http::StatusCode;
use serde_json::{Value, json};

use super::{CALLBACK, THIRD, Third, check, come_back, go_away, node_of, provider, site, tokens};
use crate::tests::{APP, ASKED, Ask, Browser, ISSUER};
use crate::{AuthStore, MemoryAuthStore, UserAdmissionRules};

/// The browser goes from our page to the provider's, and back to the client with a local token.
///
/// covers: AUT3-01 AUT3-02 AUT3-03 AUT3-13
#[tokio::test]
async fn a_user_signs_in_at_the_others() {
    let third = Third::default();
    let site = site(&third);
    let mut browser = Browser::new(&site);
    let asked = Ask::new();
    let (away, cookie) = go_away(&mut browser, &asked).await;
    assert_eq!((&*away["client_id"], &*away["redirect_uri"]), ("hospes-there", CALLBACK));
    assert_eq!((&*away["scope"], &*away["tenant"]), ("openid", "1"));
    assert_ne!(away["state"], "st&te=1", "the client's state is the client's");
    assert_ne!(away["code_challenge"], asked.verifier.challenge());
    let code = third.sign_in(&away);
    let fields = [("code", &*code), ("state", &*away["state"]), ("iss", THIRD)];
    let back = come_back(&browser, Some(&cookie), &fields).await;
    let (address, answer) = back.back().unwrap();
    assert_eq!((&*address, &*answer["state"], &*answer["iss"]), (ASKED, "st&te=1", ISSUER));
    let token = site.redeem(&asked, &answer["code"]).await;
    let (access, refresh) = token.tokens();
    assert_eq!(check(&site, &access).await.unwrap(), "https://third.example u-17");
    // Nothing of the other's is in anything that a client or a browser gets.
    for said in [back.text(), back.header("location"), token.text()] {
        assert!(!said.contains("third-access") && !said.contains("third-refresh"), "{said}");
    }
    // Nor can it be read where it is kept.
    for record in site.server.0.store.list(crate::RecordKind::Upstream, 0, 10).await.unwrap() {
        assert!(!record.value.contains("third-"), "{}", record.value);
    }
    // Giving ours back gives the other's back.
    site.form("/revoke", &[("token", &refresh), ("client_id", APP)]).await;
    assert_eq!(check(&site, &access).await, Err(VerifyTokenError::Invalid));
    assert_eq!(third.given_back().await, ["third-refresh-0"]);
}

/// A user who is already signed in at the provider still has to consent for each client.
///
/// covers: AUT3-16 AUT3-17
#[tokio::test]
async fn nobody_is_sent_away_or_taken_back_who_has_not_agreed_here() {
    let third = Third::default();
    let site = site(&third);
    let mut browser = Browser::new(&site);
    tokens(&mut browser, &third).await;
    let page = browser.open(&Ask::of("other", ASKED)).await;
    assert!(page.back().is_none(), "a consent page, whatever cookies there are");
    let set = page.0.headers().get_all("set-cookie").iter().map(|value| value.to_str().unwrap().to_owned());
    assert!(set.into_iter().all(|cookie| !cookie.starts_with("__Host-hospes_up")), "none before approval");

    let (away, cookie) = go_away(&mut browser, &Ask::new()).await;
    let code = third.sign_in(&away);
    let good = [("code", &*code), ("state", &*away["state"]), ("iss", THIRD)];
    let refused = StatusCode::BAD_REQUEST;
    assert_eq!(come_back(&browser, None, &good).await.status(), refused, "without the cookie");
    let (other, others) = go_away(&mut Browser::new(&site), &Ask::new()).await;
    assert_eq!(come_back(&browser, Some(&others), &good).await.status(), refused, "with another's");
    let wrong = [("code", &*code), ("state", &*other["state"]), ("iss", THIRD)];
    assert_eq!(come_back(&browser, Some(&cookie), &wrong).await.status(), refused, "with another's state");
    let none = [("code", &*code), ("iss", THIRD)];
    assert_eq!(come_back(&browser, Some(&cookie), &none).await.status(), refused);
    let twice = [good[0], good[1], good[1], good[2]];
    assert_eq!(come_back(&browser, Some(&cookie), &twice).await.status(), refused);
    assert!(come_back(&browser, Some(&cookie), &good).await.answer().contains_key("code"));
    assert_eq!(come_back(&browser, Some(&cookie), &good).await.status(), refused, "once");
    let (away, cookie) = go_away(&mut browser, &Ask::new()).await;
    site.pass(600);
    let late = [("code", "x"), ("state", &*away["state"]), ("iss", THIRD)];
    assert_eq!(come_back(&browser, Some(&cookie), &late).await.status(), refused, "too late");
}

/// covers: AUT3-12
#[tokio::test]
async fn what_goes_wrong_at_the_others_is_told_in_our_words() {
    let third = Third::default();
    let site = site(&third);
    for (fields, error) in [
        (vec![("error", "access_denied"), ("iss", THIRD)], "access_denied"),
        (vec![("error", "made_up"), ("error_description", "secret detail"), ("iss", THIRD)], "server_error"),
        (vec![("code", "wrong"), ("iss", THIRD)], "server_error"),
        (vec![("code", "x"), ("iss", "https://third.example/")], "server_error"),
        (vec![("error", "access_denied"), ("iss", "https://evil.example")], "server_error"),
        (vec![("code", "x")], "server_error"),
    ] {
        let mut browser = Browser::new(&site);
        let (away, cookie) = go_away(&mut browser, &Ask::new()).await;
        let fields = [vec![("state", &*away["state"])], fields].concat();
        let back = come_back(&browser, Some(&cookie), &fields).await;
        assert_eq!(back.answer()["error"], error, "{fields:?}");
        assert!(!back.header("location").contains("secret"));
        assert_eq!(back.answer()["iss"], ISSUER);
    }
}

/// Only those come in whom the configuration means, by what the provider says of them in either place.
///
/// covers: AUT3-12
#[tokio::test]
async fn not_everybody_is_let_in_who_signs_in_there() {
    let third = Third::default();
    let of = |groups: &[&str]| {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        provider(&third).admitting(UserAdmissionRules::only([("groups".to_owned(), groups)]))
    };
    let store: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
    let time = Arc::new(AtomicU64::new(1_000_000));
    let site = node_of(of(&["mcp"]), Arc::clone(&store), &time);
    let back = async |said: Value| {
        *third.0.userinfo.lock() = said;
        let mut browser = Browser::new(&site);
        let (away, cookie) = go_away(&mut browser, &Ask::new()).await;
        let code = third.sign_in(&away);
        let fields = [("code", &*code), ("state", &*away["state"]), ("iss", THIRD)];
        come_back(&browser, Some(&cookie), &fields).await
    };
    let refused = back(json!({ "sub": "u-17", "groups": ["staff"] })).await;
    assert_eq!(refused.answer()["error"], "access_denied");
    assert!(refused.answer()["error_description"].contains("third.example"));
    assert_eq!(*third.0.revoked.lock(), ["third-refresh-0"], "and theirs is given back");
    let other = back(json!({ "sub": "u-18", "groups": ["mcp"] })).await;
    assert_eq!(other.answer()["error"], "server_error", "what is said of somebody else is not used");
    let given_back = third.0.revoked.lock().clone();
    assert_eq!(given_back, ["third-refresh-0", "third-refresh-1"], "nor are their tokens kept");
    assert!(back(json!({ "sub": "u-17", "groups": ["mcp"] })).await.answer().contains_key("code"));

    let mut browser = Browser::new(&site);
    let (access, _) = tokens(&mut browser, &third).await;
    assert!(check(&site, &access).await.is_ok());
    // The next start has other rules.
    let other = node_of(of(&["admins"]), store, &time);
    assert_eq!(check(&other, &access).await, Err(VerifyTokenError::Invalid));
    assert_eq!(check(&site, &access).await, Err(VerifyTokenError::Invalid), "for good");
}

/// Some providers need a parameter of their own and, for a lasting token, their own consent. Parameters of the flow
/// itself cannot be replaced.
#[tokio::test]
async fn users_are_sent_with_what_the_provider_wants() {
    let third = Third::default();
    let (store, time) = (Arc::new(MemoryAuthStore::new()), Arc::new(AtomicU64::new(1_000_000)));
    let scopes = Scopes::parse("openid offline_access");
    let more =
        provider(&third).scopes(scopes.clone()).parameter("access_type", "offline").parameter("state", "x");
    let (away, _) = go_away(&mut Browser::new(&node_of(more, store.clone(), &time)), &Ask::new()).await;
    assert_eq!((&*away["access_type"], &*away["prompt"]), ("offline", "consent"));
    assert_ne!(away["state"], "x");
    let own = provider(&third).scopes(scopes).parameter("prompt", "select_account consent");
    let (away, _) = go_away(&mut Browser::new(&node_of(own, store, &time)), &Ask::new()).await;
    assert_eq!(away["prompt"], "select_account consent");
}

/// With two cookies of the same name, as with none, the browser is not recognized.
#[tokio::test]
async fn an_answer_with_two_cookies_is_nobodys() {
    let third = Third::default();
    let site = site(&third);
    let mut browser = Browser::new(&site);
    let (away, cookie) = go_away(&mut browser, &Ask::new()).await;
    let (_, planted) = go_away(&mut Browser::new(&site), &Ask::new()).await;
    let code = third.sign_in(&away);
    let fields = [("code", &*code), ("state", &*away["state"]), ("iss", THIRD)];
    for both in [format!("{cookie}; {planted}"), format!("{planted}; {cookie}")] {
        assert_eq!(come_back(&browser, Some(&both), &fields).await.status(), StatusCode::BAD_REQUEST);
    }
    assert!(come_back(&browser, Some(&cookie), &fields).await.answer().contains_key("code"));
}
