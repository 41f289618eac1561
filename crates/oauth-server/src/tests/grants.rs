//! The token endpoint, and what is asked about tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use serde_json::json;

use super::{APP, ASKED, Ask, Browser, REDIRECT, RESOURCE, Site, basic};
use crate::{AuthStore, MemoryAuthStore};

/// covers: AUTG-06 AUTS-13
#[tokio::test]
async fn a_code_is_for_who_asked_for_it() {
    for site in Site::everywhere() {
        let fields = |asked: &Ask, code: &str| {
            [
                ("grant_type", "authorization_code".to_owned()),
                ("code", code.to_owned()),
                ("code_verifier", asked.verifier.expose().to_owned()),
                ("redirect_uri", ASKED.to_owned()),
                ("client_id", APP.to_owned()),
            ]
        };
        for (name, value, error) in [
            ("code_verifier", "", "invalid_request"),
            ("code_verifier", "short", "invalid_grant"),
            ("code_verifier", &*"x".repeat(43), "invalid_grant"),
            ("redirect_uri", "http://127.0.0.1:1/callback", "invalid_grant"),
            ("redirect_uri", "http://127.0.0.1/callback", "invalid_grant"),
            ("client_id", "other", "invalid_grant"),
            ("client_id", "nobody", "invalid_client"),
            ("client_id", "machine", "invalid_client"),
            ("client_id", "", "invalid_client"),
            ("code", "", "invalid_request"),
            ("code", "x", "invalid_grant"),
            ("grant_type", "", "invalid_request"),
            ("grant_type", "password", "unsupported_grant_type"),
        ] {
            let asked = Ask::new();
            let code = site.code(&asked).await;
            let mut fields = fields(&asked, &code);
            for field in &mut fields {
                if field.0 == name {
                    field.1 = value.to_owned();
                }
            }
            let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let status = if error == "invalid_client" { 401 } else { 400 };
            assert_eq!(
                site.form("/token", &fields).await.error(),
                (status, error.to_owned()),
                "{name}={value}"
            );
        }
        let asked = Ask::new();
        let code = site.code(&asked).await;
        let fields = fields(&asked, &code);
        let mut twice: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        twice.push(("code", "x"));
        assert_eq!(site.form("/token", &twice).await.error(), (400, "invalid_request".to_owned()));
        let target = [&twice[..5], &[("resource", "https://evil.example")]].concat();
        assert_eq!(site.form("/token", &target).await.error(), (400, "invalid_target".to_owned()));
        let json = site.form_with("/token", &twice[..5], &[]).await;
        assert_eq!(json.error().1, "invalid_grant", "it was taken already");
    }
}

/// Two have it, and one of them should not.
///
/// covers: AUTG-07
#[tokio::test]
async fn a_code_that_is_used_again_ends_everything_that_came_of_it() {
    for site in Site::everywhere() {
        let asked = Ask::new();
        let code = site.code(&asked).await;
        let (access, refresh) = site.redeem(&asked, &code).await.tokens();
        let (second, second_refresh) = site.refresh(&refresh, APP, &[]).await.tokens();
        assert!(site.is_good(&access).await && site.is_good(&second).await);
        site.pass(3);
        assert_eq!(site.redeem(&asked, &code).await.error(), (400, "invalid_grant".to_owned()));
        assert!(!site.is_good(&access).await && !site.is_good(&second).await);
        assert_eq!(site.refresh(&second_refresh, APP, &[]).await.error().1, "invalid_grant");

        let late = Ask::new();
        let code = site.code(&late).await;
        site.pass(60);
        assert_eq!(site.redeem(&late, &code).await.error().1, "invalid_grant");

        // A code in the hands of another client is lost for both.
        let asked = Ask::new();
        let code = site.code(&asked).await;
        let mut stolen = Ask::of("other", ASKED);
        stolen.verifier = asked.verifier.clone();
        assert_eq!(site.redeem(&stolen, &code).await.error().1, "invalid_grant");
        assert_eq!(site.redeem(&asked, &code).await.error().1, "invalid_grant");
    }
}

/// Two ways into one store, and where it is.
pub(super) type Pair = (Arc<dyn AuthStore>, Arc<dyn AuthStore>, Option<tempfile::TempDir>);

pub(super) fn stores() -> Vec<Pair> {
    let memory: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
    let mut all = vec![(Arc::clone(&memory), memory, None)];
    #[cfg(feature = "sqlite")]
    {
        let folder = tempfile::tempdir().unwrap();
        let open = || -> Arc<dyn AuthStore> {
            Arc::new(crate::SqlAuthStore::open(folder.path().join("auth.db")).unwrap())
        };
        all.push((open(), open(), Some(folder)));
    }
    all
}

/// Two nodes with one store: whatever comes to either of them, one code is one grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_redeem_a_code_one_has_it() {
    for (one, other, _folder) in stores() {
        let time = Arc::new(AtomicU64::new(1_000_000));
        let nodes = [Site::on(one, |_| {}, Arc::clone(&time)), Site::on(other, |_| {}, time)];
        let asked = Arc::new(Ask::new());
        let code = nodes[0].code(&asked).await;
        let tries = (0..100).map(|at| {
            let (site, asked, code) = (nodes[at % 2].clone(), Arc::clone(&asked), code.clone());
            tokio::spawn(async move { site.redeem(&asked, &code).await })
        });
        let mut won = Vec::new();
        for redeemed in tries.collect::<Vec<_>>() {
            let answer = redeemed.await.unwrap();
            match answer.status() {
                StatusCode::OK => won.push(answer.tokens()),
                _ => assert_eq!(answer.error().1, "invalid_grant"),
            }
        }
        let [(access, _)] = &won[..] else { panic!("exactly one has tokens, not {}", won.len()) };
        assert!(nodes[0].is_good(access).await && nodes[1].is_good(access).await, "and keeps them");
        // Whoever comes later ends it.
        nodes[0].pass(3);
        assert_eq!(nodes[1].redeem(&asked, &code).await.error().1, "invalid_grant");
        assert!(!nodes[0].is_good(access).await && !nodes[1].is_good(access).await);

        // A refresh token swapped at one node is known at the other.
        let (_, refresh) = nodes[0].tokens().await;
        let (_, next) = nodes[0].refresh(&refresh, APP, &[]).await.tokens();
        let (_, again) = nodes[1].refresh(&refresh, APP, &[]).await.tokens();
        assert_eq!(next, again);
        nodes[0].pass(10);
        assert_eq!(nodes[1].refresh(&refresh, APP, &[]).await.error().1, "invalid_grant");
        assert_eq!(nodes[0].refresh(&next, APP, &[]).await.error().1, "invalid_grant");
    }
}

/// covers: AUTS-16 AUTS-18 AUTS-20
#[tokio::test]
async fn refresh_tokens_rotate() {
    for site in Site::everywhere() {
        let (access, first) = site.tokens().await;
        let (new_access, second) = site.refresh(&first, APP, &[("resource", RESOURCE)]).await.tokens();
        assert!(new_access != access && second != first);
        // The answer was lost: the same successor once more.
        site.pass(9);
        let (_, again) = site.refresh(&first, APP, &[]).await.tokens();
        assert_eq!(again, second);
        let (_, third) = site.refresh(&second, APP, &[]).await.tokens();
        // Somebody comes with what was swapped long ago: nobody of the family stays.
        site.pass(10);
        assert_eq!(site.refresh(&first, APP, &[]).await.error(), (400, "invalid_grant".to_owned()));
        assert_eq!(site.refresh(&third, APP, &[]).await.error(), (400, "invalid_grant".to_owned()));
        assert!(!site.is_good(&new_access).await);

        let (access, token) = site.tokens().await;
        assert_eq!(site.refresh(&token, "other", &[]).await.error().1, "invalid_grant", "another client's");
        assert!(!site.is_good(&access).await, "it was in the wrong hands");
        assert_eq!(site.refresh("x", APP, &[]).await.error().1, "invalid_grant");
    }
}

/// covers: AUTS-17 AUTS-19
#[tokio::test]
async fn everything_ends() {
    let site = Site::with(|settings| settings.lifetimes.access = std::time::Duration::from_secs(7200));
    let (access, _) = site.tokens().await;
    site.pass(3599);
    assert!(site.is_good(&access).await);
    site.pass(1);
    assert!(!site.is_good(&access).await, "an hour at most, whatever the configuration says");
    let site = Site::new();
    let (access, mut refresh) = site.tokens().await;
    site.pass(600);
    assert!(!site.is_good(&access).await);
    let day = 24 * 3600;
    let (_, unused) = site.tokens().await;
    for _ in 0..8 {
        site.pass(11 * day);
        refresh = site.refresh(&refresh, APP, &[]).await.tokens().1;
    }
    assert_eq!(site.refresh(&unused, APP, &[]).await.error().1, "invalid_grant", "14 days without use");
    site.pass(2 * day);
    assert_eq!(site.refresh(&refresh, APP, &[]).await.error().1, "invalid_grant", "90 days in all");
}

#[tokio::test]
async fn a_refresh_asks_for_no_more_than_there_was() {
    for site in Site::everywhere() {
        let asked = Ask::new().but("scope", "mcp files");
        let code = site.code(&asked).await;
        let (_, refresh) = site.redeem(&asked, &code).await.tokens();
        for (field, error) in [
            (("scope", "mcp unknown"), "invalid_scope"),
            (("scope", "offline_access"), "invalid_scope"),
            (("resource", "https://evil.example/mcp"), "invalid_target"),
        ] {
            assert_eq!(site.refresh(&refresh, APP, &[field]).await.error(), (400, error.to_owned()));
        }
        let narrow = site.refresh(&refresh, APP, &[("scope", "files")]).await;
        assert_eq!(narrow.json()["scope"], "files");
        let (_, next) = narrow.tokens();
        assert_eq!(
            site.refresh(&next, APP, &[]).await.json()["scope"],
            "mcp files",
            "the refresh token keeps all"
        );
    }
}

/// covers: AUTG-06 AUTS-10 AUTS-12
#[tokio::test]
async fn a_client_with_a_secret_acts_for_itself() {
    let site = Site::new();
    let grant = ("grant_type", "client_credentials");
    let good = basic("machine", "s3cret:%+ä");
    let answer = site.form_with("/token", &[grant, ("scope", "files")], &[("authorization", &good)]).await;
    assert_eq!(answer.json()["scope"], "files");
    assert_eq!(answer.json().get("refresh_token"), None);
    let (token, _) = answer.tokens();
    let who = hospes_oauth_resource::TokenVerifier::verify(&site.guard(), &token, site.now()).await.unwrap();
    assert_eq!((&*who.subject, &*who.name()), ("machine", "https://as.example client machine"));
    let post = [grant, ("client_id", "machine"), ("client_secret", "s3cret:%+ä")];
    assert_eq!(site.form("/token", &post).await.status(), StatusCode::OK, "or in the form");

    let wrong = site.form_with("/token", &[grant], &[("authorization", &basic("machine", "x"))]).await;
    assert_eq!(wrong.error(), (401, "invalid_client".to_owned()));
    assert!(wrong.header("www-authenticate").starts_with("Basic"));
    let both = site.form_with("/token", &post, &[("authorization", &good)]).await;
    assert_eq!(both.error(), (400, "invalid_request".to_owned()), "one way at a time");
    let other = [grant, ("client_id", "other")];
    let two = site.form_with("/token", &other, &[("authorization", &good)]).await;
    assert_eq!(two.error(), (400, "invalid_request".to_owned()));
    let none = [grant, ("client_id", "machine")];
    assert_eq!(site.form("/token", &none).await.error(), (401, "invalid_client".to_owned()));
    let public = [grant, ("client_id", APP)];
    assert_eq!(site.form("/token", &public).await.error(), (400, "unauthorized_client".to_owned()));
}

#[tokio::test]
async fn the_token_endpoint_takes_forms() {
    let site = Site::new();
    let request = http::Request::post("/token").header("content-type", "application/json").body(()).unwrap();
    let answer = site.send(request.into_parts().0, "{}").await;
    assert_eq!(answer.error(), (400, "invalid_request".to_owned()));
    assert_eq!(site.get("/token?grant_type=x").await.status(), StatusCode::METHOD_NOT_ALLOWED);
}

/// The response reveals nothing.
#[tokio::test]
async fn a_token_is_taken_back() {
    let site = Site::new();
    for give_back in [0, 1] {
        let (access, refresh) = site.tokens().await;
        let token = [&access, &refresh][give_back];
        let revoke = |client: &'static str, token: String| {
            let site = site.clone();
            async move { site.form("/revoke", &[("token", &*token), ("client_id", client)]).await }
        };
        let other = revoke("other", token.clone()).await;
        assert!(site.is_good(&access).await, "another client's");
        let own = revoke(APP, token.clone()).await;
        let again = revoke(APP, token.clone()).await;
        let none = revoke(APP, "x".to_owned()).await;
        for answer in [&other, &own, &again, &none] {
            assert_eq!((answer.status(), answer.text()), (StatusCode::OK, other.text()));
        }
        assert!(!site.is_good(&access).await);
        assert_eq!(site.refresh(&refresh, APP, &[]).await.error().1, "invalid_grant");
    }
}

#[tokio::test]
async fn of_what_comes_twice_none_is_chosen() {
    let site = Site::new();
    let (access, _) = site.tokens().await;
    let good = basic("machine", "s3cret:%+ä");
    for path in ["/revoke", "/introspect"] {
        let fields = [("token", &*access), ("token", "x")];
        let answer = site.form_with(path, &fields, &[("authorization", &*good)]).await;
        assert_eq!(answer.error(), (400, "invalid_request".to_owned()), "{path}");
    }
    let fields = [("token", &*access), ("client_id", APP), ("client_id", "other")];
    assert_eq!(site.form("/revoke", &fields).await.error(), (400, "invalid_request".to_owned()));
    assert!(site.is_good(&access).await);
}

#[tokio::test]
async fn only_a_client_with_a_secret_is_told_of_tokens() {
    let site = Site::new();
    let (access, refresh) = site.tokens().await;
    let ask = async |token: &str, headers: &[(&str, &str)], more: &[(&str, &str)]| {
        site.form_with("/introspect", &[&[("token", token)], more].concat(), headers).await
    };
    assert_eq!(ask(&access, &[], &[]).await.error(), (401, "invalid_client".to_owned()));
    assert_eq!(ask(&access, &[], &[("client_id", APP)]).await.error(), (401, "invalid_client".to_owned()));
    let good = basic("machine", "s3cret:%+ä");
    let headers = [("authorization", &*good)];
    let said = ask(&access, &headers, &[]).await.json();
    assert_eq!(
        said,
        json!({ "active": true, "iss": super::ISSUER, "sub": "ann", "aud": RESOURCE, "client_id": APP,
            "scope": "mcp", "exp": site.now() + 600, "token_type": "Bearer" })
    );
    // What is neither for a resource of who asks nor their own does not concern them.
    let other = basic("elsewhere", "secret");
    let headers_of_other = [("authorization", &*other)];
    assert_eq!(ask(&access, &headers_of_other, &[]).await.json(), json!({ "active": false }));
    let grant = [("grant_type", "client_credentials")];
    let (own, _) = site.form_with("/token", &grant, &headers_of_other).await.tokens();
    assert_eq!(ask(&own, &headers_of_other, &[]).await.json()["sub"], "elsewhere");
    for unknown in ["x", &*refresh] {
        assert_eq!(ask(unknown, &headers, &[]).await.json(), json!({ "active": false }));
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_too_often_waits() {
    let site = Site::with(|settings| settings.token_requests_per_minute = 5);
    for _ in 0..5 {
        assert_eq!(site.refresh("x", APP, &[]).await.status(), StatusCode::BAD_REQUEST);
    }
    let answer = site.refresh("x", APP, &[]).await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.header("retry-after"), "12");
}

/// A server makes out tokens for several resources: one for the first opens no other.
#[tokio::test]
async fn a_token_opens_the_resource_that_it_was_made_out_for() {
    use hospes_oauth_resource::{TokenVerifier as _, VerifyTokenError};
    let other = hospes_auth::Resource::new("https://as.example/two").unwrap();
    let site = Site::with(|settings| settings.resources.push(other.clone()));
    let (token, _) = site.tokens().await;
    let now = site.now();
    let first = site.server.tokens_for([hospes_auth::Resource::new(RESOURCE).unwrap()]);
    assert!(first.verify(&token, now).await.is_ok());
    assert_eq!(site.server.tokens_for([other]).verify(&token, now).await, Err(VerifyTokenError::Invalid));
    assert_eq!(site.server.tokens_for([]).verify(&token, now).await, Err(VerifyTokenError::Invalid));
}

#[tokio::test]
async fn who_has_left_the_configuration_takes_nothing_along() {
    let store: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
    let before = Site::on(Arc::clone(&store), |_| {}, Arc::new(AtomicU64::new(1_000_000)));
    let mut browser = Browser::new(&before);
    browser.sign_in(&Ask::new()).await;
    let (access, refresh) = before.tokens().await;
    let time = Arc::clone(&before.time);
    let sign_in = super::LocalSignIn::users([("bob".to_owned(), super::password())]);
    let server = super::AuthServer::new(super::settings(), store, sign_in)
        .unwrap()
        .clock(super::UnixClock::new(move || time.load(Ordering::Relaxed)));
    let after = Site::of(server, Arc::clone(&before.time));
    assert!(before.is_good(&access).await && !after.is_good(&access).await);
    browser.site = after.clone();
    assert!(browser.open(&Ask::new()).await.text().contains("Sign in"));
    assert_eq!(after.refresh(&refresh, APP, &[]).await.error(), (400, "invalid_grant".to_owned()));
    assert!(!before.is_good(&access).await, "the grant has ended");
}

/// An attacker with the old password loses all access.
#[tokio::test]
async fn a_new_password_ends_what_was_given_under_the_old_one() {
    let store: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
    let before = Site::on(Arc::clone(&store), |_| {}, Arc::new(AtomicU64::new(1_000_000)));
    let with = |password: &str| {
        let sign_in = super::LocalSignIn::users([("ann".to_owned(), super::PasswordHash::cheap(password))]);
        let time = Arc::clone(&before.time);
        let server = super::AuthServer::new(super::settings(), Arc::clone(&store), sign_in).unwrap();
        let server = server.clock(super::UnixClock::new(move || time.load(Ordering::Relaxed)));
        Site::of(server, Arc::clone(&before.time))
    };
    let (same, after) = (with("correct horse"), with("another"));
    let ask = Ask::of("machine", "https://machine.example/callback");
    let mut browser = Browser::new(&before);
    let consent = browser.sign_in(&ask).await;
    browser.decide(&consent, "allow").await;
    let (access, refresh) = before.tokens().await;
    let asked = Ask::new();
    let code = before.code(&asked).await;
    browser.site = same.clone();
    assert!(browser.open(&ask).await.back().is_some(), "signed in, and agreed to");
    assert!(same.is_good(&access).await, "another start changes nothing");
    let (_, refresh) = same.refresh(&refresh, APP, &[]).await.tokens();

    browser.site = after.clone();
    assert!(browser.open(&ask).await.text().contains("Sign in"), "nobody is signed in");
    assert!(!after.is_good(&access).await);
    assert_eq!(after.redeem(&asked, &code).await.error(), (400, "invalid_grant".to_owned()));
    assert_eq!(after.refresh(&refresh, APP, &[]).await.error(), (400, "invalid_grant".to_owned()));
    assert!(!before.is_good(&access).await, "the grant has ended for all");
}

/// A client cannot become a user by choosing that user's name.
#[tokio::test]
async fn a_user_is_no_client_of_the_same_name() {
    let site = Site::with(|settings| {
        settings.clients.push(super::RegisteredClient::public(
            super::client_id("ann"),
            vec![super::redirect_uri(REDIRECT)],
        ));
    });
    let ask = Ask::of("ann", ASKED);
    let code = site.code(&ask).await;
    let (token, _) = site.redeem(&ask, &code).await.tokens();
    let who = hospes_oauth_resource::TokenVerifier::verify(&site.guard(), &token, site.now()).await.unwrap();
    assert_eq!(who.name(), "https://as.example user ann");
}
