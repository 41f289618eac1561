//! The authorization endpoint and its pages.

use hospes::transport::http_server::RemoteAddress;
use hospes_auth::TrustedProxies;
use http::StatusCode;
use serde_json::json;

use super::{ASKED, Answer, Ask, Browser, ISSUER, REDIRECT, Site, redirect_uri};

fn is_page(answer: &Answer) -> bool {
    let headers = answer.0.headers();
    assert!(headers["content-security-policy"].to_str().unwrap().contains("frame-ancestors 'none'"));
    assert_eq!((answer.header("x-frame-options"), answer.header("cache-control")), ("DENY", "no-store"));
    assert_eq!(answer.header("referrer-policy"), "same-origin");
    answer.header("content-type").starts_with("text/html") && answer.back().is_none()
}

/// From the first page to the token.
///
/// covers: AUTS-11 AUTS-28
#[tokio::test]
async fn a_user_signs_in_agrees_and_the_client_has_a_token() {
    let site = Site::new();
    let mut browser = Browser::new(&site);
    let asked = Ask::new();
    let page = browser.open(&asked).await;
    assert!(is_page(&page) && page.text().contains("Sign in"));
    let cookie = page.header("set-cookie");
    assert!(cookie.starts_with("__Host-hospes=") && cookie.contains("Secure"), "{cookie}");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
    let before = browser.cookie.clone();
    let wrong = browser.take_sign_in(&page, "ann", "wrong").await;
    assert_eq!(wrong.status(), StatusCode::FORBIDDEN);
    assert_eq!(browser.take_sign_in(&page, "nobody", "correct horse").await.status(), StatusCode::FORBIDDEN);
    let consent = browser.take_sign_in(&page, "ann", "correct horse").await;
    assert_ne!(browser.cookie, before, "a cookie that was planted is worth nothing");
    assert!(is_page(&consent));
    for shown in
        ["The App", "127.0.0.1:41233", "Use the tools behind this address", "https://as.example/mcp", "ann"]
    {
        assert!(consent.text().contains(shown), "{shown}: {}", consent.text());
    }
    assert!(consent.text().contains("Any program on this computer could receive the response"));
    let back = browser.decide(&consent, "allow").await;
    assert_eq!((back.status(), back.header("cache-control")), (StatusCode::SEE_OTHER, "no-store"));
    let (address, answer) = back.back().unwrap();
    assert_eq!(address, ASKED);
    assert_eq!((&*answer["state"], &*answer["iss"]), ("st&te=1", ISSUER));
    let token = site.redeem(&asked, &answer["code"]).await;
    assert_eq!(token.header("cache-control"), "no-store");
    assert_eq!((&token.json()["token_type"], &token.json()["scope"]), (&json!("Bearer"), &json!("mcp")));
    assert_eq!(token.json()["expires_in"], 600);
    let (access, refresh) = token.tokens();
    assert!(site.is_good(&access).await && !site.is_good(&refresh).await);
}

/// The recipient of the response is uncertain, so the browser is not redirected.
///
/// covers: AUTS-14 AUTS-21 AUTS-22 AUT3-08
#[tokio::test]
async fn an_unknown_client_or_redirect_gets_a_page() {
    let site = Site::new();
    for asked in [
        Ask::of("nobody", ASKED),
        Ask::new().but("client_id", ""),
        Ask::new().and("client_id", "other"),
        Ask::new().but("redirect_uri", ""),
        Ask::new().and("redirect_uri", "https://evil.example/"),
        Ask::of("app", "http://127.0.0.1:1/callback/"),
        Ask::of("app", "http://127.0.0.1:1/Callback"),
        Ask::of("app", "http://127.0.0.1:1/callback?x=1"),
        Ask::of("app", "http://localhost:1/callback"),
        Ask::of("app", "http://localhost.evil.example/callback"),
        Ask::of("app", "http://127.0.0.1:1@evil.example/callback"),
        Ask::of("app", "http://127.0.0.1/callback#x"),
        Ask::of("app", "http://127.0.0.1/*"),
        Ask::of("app", "https://127.0.0.1/callback"),
        Ask::of("machine", "https://machine.example:8443/callback"),
        Ask::of("machine", "https://machine.example/callback/../x"),
        Ask::of("machine", "https://machine.example.evil.example/callback"),
    ] {
        let answer = site.get(&asked.path()).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{:?}", asked.fields);
        assert!(is_page(&answer));
    }
    for redirect in [REDIRECT, ASKED, "http://127.0.0.1:1/callback"] {
        assert_eq!(site.get(&Ask::of("app", redirect).path()).await.status(), StatusCode::OK);
    }
}

/// covers: AUTG-10
#[tokio::test]
async fn every_other_error_goes_back_to_the_client() {
    let site = Site::with(|settings| {
        settings.resources.push(hospes_auth::Resource::new("https://as.example/two").unwrap());
        settings.clients[1].scopes = Some(hospes_auth::Scopes::parse("mcp"));
    });
    for (asked, error) in [
        (Ask::new().but("response_type", "token"), "unsupported_response_type"),
        (Ask::new().but("response_type", ""), "invalid_request"),
        (Ask::new().but("response_mode", "fragment"), "invalid_request"),
        (Ask::new().but("code_challenge", ""), "invalid_request"),
        (Ask::new().but("code_challenge", "short"), "invalid_request"),
        (Ask::new().but("code_challenge_method", "plain"), "invalid_request"),
        (Ask::new().but("code_challenge_method", ""), "invalid_request"),
        (Ask::new().and("scope", "files"), "invalid_request"),
        (Ask::new().and("code_challenge_method", "S256"), "invalid_request"),
        (Ask::new().but("request", "x.y.z"), "invalid_request"),
        (Ask::new().but("scope", "mcp unknown"), "invalid_scope"),
        (Ask::of("other", ASKED).but("scope", "mcp files"), "invalid_scope"),
        (Ask::new().but("resource", "https://evil.example/mcp"), "invalid_target"),
        (Ask::new().but("resource", "https://as.example/mcp#x"), "invalid_target"),
        (Ask::new().but("resource", ""), "invalid_target"),
        (Ask::new().and("resource", "https://as.example/two"), "invalid_target"),
    ] {
        let (address, answer) = site.get(&asked.path()).await.back().expect("a redirect");
        assert_eq!(address, ASKED);
        assert_eq!(answer["error"], error, "{:?}", asked.fields);
        assert_eq!(answer["iss"], ISSUER, "errors say from whom they come, too");
        assert_eq!(answer["state"], "st&te=1");
    }
    // Where there is one resource, clients of 2025-03-26 mean that one.
    let one = Site::new();
    assert_eq!(one.get(&Ask::new().but("resource", "").path()).await.status(), StatusCode::OK);
    // What a client has in its redirect stays there.
    let asked = Ask::of("machine", "https://machine.example/callback").but("scope", "");
    assert_eq!(one.get(&asked.path()).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_user_who_says_no_is_heard() {
    let site = Site::new();
    let mut browser = Browser::new(&site);
    let consent = browser.sign_in(&Ask::new()).await;
    let answer = browser.decide(&consent, "deny").await.answer();
    assert_eq!((&*answer["error"], &*answer["iss"], &*answer["state"]), ("access_denied", ISSUER, "st&te=1"));
    assert!(!answer.contains_key("code"));
}

/// covers: AUT3-15
#[tokio::test]
async fn only_our_page_in_this_browser_decides_and_once() {
    let site = Site::new();
    let asked = Ask::new();
    let mut browser = Browser::new(&site);
    let consent = browser.sign_in(&asked).await;
    let (request, csrf) = (consent.hidden("request"), consent.hidden("csrf"));
    let (no_csrf, wrong) = ([("request", &*request), ("decision", "allow")], "x".repeat(43));
    assert_eq!(browser.post("/consent", &no_csrf).await.status(), StatusCode::BAD_REQUEST);
    let fields = [("request", &*request), ("csrf", &*wrong), ("decision", "allow")];
    assert_eq!(browser.post("/consent", &fields).await.status(), StatusCode::BAD_REQUEST);
    let fields = [("request", &*request), ("csrf", &*csrf), ("decision", "allow")];
    // Another browser, which may be signed in itself, and one without any cookie.
    let mut other = Browser::new(&site);
    other.sign_in(&Ask::new()).await;
    assert_eq!(other.post("/consent", &fields).await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(site.form("/consent", &fields).await.status(), StatusCode::BAD_REQUEST);
    // The token of one request does nothing for another.
    let second = browser.open(&Ask::of("other", ASKED)).await;
    let mixed = [("request", &*second.hidden("request")), ("csrf", &*csrf), ("decision", "allow")];
    assert_eq!(browser.post("/consent", &mixed).await.status(), StatusCode::BAD_REQUEST);
    assert!(browser.post("/consent", &fields).await.answer().contains_key("code"));
    assert_eq!(browser.post("/consent", &fields).await.status(), StatusCode::BAD_REQUEST, "once");
    // A GET decides nothing, and one that took too long neither.
    let get = site.get(&format!("/consent?request={request}&csrf={csrf}&decision=allow")).await;
    assert_eq!(get.status(), StatusCode::METHOD_NOT_ALLOWED);
    let late = browser.open(&Ask::of("other", ASKED)).await;
    site.pass(601);
    assert_eq!(browser.decide(&late, "allow").await.status(), StatusCode::BAD_REQUEST);
}

/// The program at a port or behind a scheme of the user's machine may be another one every time.
#[tokio::test]
async fn what_goes_to_the_users_machine_is_asked_about_every_time() {
    const APPLICATION: &str = "com.example.app:/callback";
    let site = Site::with(|settings| {
        let redirects = [REDIRECT, APPLICATION, "https://app.example/cb"].map(redirect_uri).to_vec();
        settings.clients.push(super::RegisteredClient::public(super::client_id("mixed"), redirects));
    });
    let mut browser = Browser::new(&site);
    for (redirect, certain) in [(ASKED, false), (APPLICATION, false), ("https://app.example/cb", true)] {
        let ask = || Ask::of("mixed", redirect);
        let mut page = browser.open(&ask()).await;
        if page.text().contains("Sign in") {
            page = browser.take_sign_in(&page, "ann", "correct horse").await;
        }
        assert_eq!(page.text().contains("Any program on this computer"), !certain, "{redirect}");
        assert!(browser.decide(&page, "allow").await.answer().contains_key("code"), "{redirect}");
        assert_eq!(browser.open(&ask()).await.back().is_some(), certain, "{redirect}");
    }
    assert!(
        is_page(&browser.open(&Ask::of("mixed", ASKED)).await),
        "what was agreed to for another redirect"
    );
}

/// covers: AUT3-14
#[tokio::test]
async fn a_consent_is_remembered_for_what_it_was() {
    const THERE: &str = "https://machine.example/callback";
    let site = Site::with(|settings| {
        settings
            .clients
            .push(super::RegisteredClient::public(super::client_id("more"), vec![redirect_uri(THERE)]));
    });
    let mut browser = Browser::new(&site);
    let ask = || Ask::of("machine", THERE);
    let consent = browser.sign_in(&ask()).await;
    browser.decide(&consent, "allow").await;
    assert!(browser.open(&ask()).await.answer().contains_key("code"), "nothing is new");
    for new in [ask().but("scope", "mcp files"), Ask::of("more", THERE)] {
        let page = browser.open(&new).await;
        assert!(is_page(&page) && page.text().contains("Allow"), "asked again");
    }
    // Somebody else in another browser has agreed to nothing.
    let mut other = Browser::new(&site);
    assert!(other.open(&Ask::new()).await.text().contains("Sign in"));
    // After the session nobody is signed in any more.
    site.pass(12 * 3600);
    assert!(browser.open(&Ask::new()).await.text().contains("Sign in"));
}

#[tokio::test(start_paused = true)]
async fn nobody_tries_passwords_for_long() {
    let site = Site::with(|settings| settings.sign_ins_per_minute = 3);
    let mut browser = Browser::new(&site);
    let page = browser.open(&Ask::new()).await;
    let mut last = StatusCode::OK;
    for _ in 0..4 {
        last = browser.take_sign_in(&page, "ann", "wrong").await.status();
    }
    assert_eq!(last, StatusCode::TOO_MANY_REQUESTS);
}

/// A form for signing in, sent from `peer` with `X-Forwarded-For: forwarded`; its status.
async fn sign_in_from(
    site: &Site,
    (peer, forwarded): (&str, &str),
    user: &str,
    password: &str,
) -> StatusCode {
    let mut browser = Browser::new(site);
    let page = browser.open(&Ask::new()).await;
    let (request, csrf) = (page.hidden("request"), page.hidden("csrf"));
    let fields = [("request", &*request), ("csrf", &*csrf), ("user", user), ("password", password)];
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let sent = http::Request::post("/sign-in")
        .header("content-type", "application/x-www-form-urlencoded")
        .header("cookie", browser.cookie.unwrap())
        .header("x-forwarded-for", forwarded);
    let mut parts = sent.body(()).unwrap().into_parts().0;
    parts.extensions.insert(RemoteAddress(std::net::SocketAddr::new(peer.parse().unwrap(), 4711)));
    site.send(parts, &body).await.status()
}

#[tokio::test(start_paused = true)]
async fn failed_sign_ins_lock_out_neither_others_nor_the_user_elsewhere() {
    let site = Site::with(|settings| settings.sign_ins_per_minute = 3);
    for status in [StatusCode::FORBIDDEN; 3].into_iter().chain([StatusCode::TOO_MANY_REQUESTS]) {
        assert_eq!(sign_in_from(&site, ("203.0.113.1", "x"), "ann", "wrong").await, status);
    }
    assert_eq!(
        sign_in_from(&site, ("203.0.113.1", "x"), "bob", "wrong").await,
        StatusCode::FORBIDDEN,
        "another user there"
    );
    assert_eq!(
        sign_in_from(&site, ("203.0.113.2", "x"), "ann", "correct horse").await,
        StatusCode::OK,
        "the user elsewhere"
    );
    // Guesses from many addresses at one name are limited, too, but for where the user has signed in before.
    let mut last = StatusCode::OK;
    for number in 10..22 {
        for _ in 0..3 {
            last = sign_in_from(&site, (&format!("203.0.113.{number}"), "x"), "ann", "wrong").await;
        }
    }
    assert_eq!(last, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        sign_in_from(&site, ("203.0.113.99", "x"), "ann", "correct horse").await,
        StatusCode::TOO_MANY_REQUESTS
    );
    assert_eq!(sign_in_from(&site, ("203.0.113.2", "x"), "ann", "correct horse").await, StatusCode::OK);
}

/// Each verification takes memory, so only a few run at once.
#[tokio::test(start_paused = true)]
async fn sign_ins_beyond_the_limit_of_verifications_are_told_to_wait_and_do_not_count() {
    let site = Site::with(|settings| settings.sign_ins_per_minute = 1);
    let turns = site.server.0.sign_in.take_all_turns().await;
    let mut browser = Browser::new(&site);
    let page = browser.open(&Ask::new()).await;
    for _ in 0..3 {
        let answer = browser.take_sign_in(&page, "ann", "correct horse").await;
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.header("retry-after"), "5");
        assert!(answer.text().contains("at most 4 passwords at once (max_password_verifications)"));
    }
    drop(turns);
    assert_eq!(browser.take_sign_in(&page, "ann", "correct horse").await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn guesses_of_one_address_at_many_names_are_limited() {
    let site = Site::with(|settings| settings.sign_ins_per_minute = 1);
    for number in 0..10 {
        let status = sign_in_from(&site, ("198.51.100.1", "x"), &format!("user {number}"), "wrong").await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{number}");
    }
    let further = sign_in_from(&site, ("198.51.100.1", "x"), "somebody", "wrong").await;
    assert_eq!(further, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test(start_paused = true)]
async fn behind_a_trusted_proxy_each_visitor_has_limits_of_their_own() {
    let mut site = Site::with(|settings| settings.sign_ins_per_minute = 2);
    let proxies = TrustedProxies::parse(["127.0.0.1", "10.0.0.0/8"]).unwrap();
    site.server = site.server.trusting_proxies(proxies);
    for status in [StatusCode::FORBIDDEN; 2].into_iter().chain([StatusCode::TOO_MANY_REQUESTS; 2]) {
        assert_eq!(sign_in_from(&site, ("127.0.0.1", "203.0.113.1"), "ann", "wrong").await, status);
    }
    // What the attacker writes itself stands further left, and counts for nothing.
    for forged in ["198.51.100.1, 203.0.113.1", "203.0.113.2, 203.0.113.1, 10.0.0.7"] {
        assert_eq!(
            sign_in_from(&site, ("127.0.0.1", forged), "ann", "wrong").await,
            StatusCode::TOO_MANY_REQUESTS,
            "{forged}"
        );
    }
    assert_eq!(
        sign_in_from(&site, ("127.0.0.1", "203.0.113.2"), "ann", "correct horse").await,
        StatusCode::OK
    );
    // Who is no trusted proxy is counted by its own address, whatever it writes.
    for (number, status) in
        [StatusCode::FORBIDDEN; 2].into_iter().chain([StatusCode::TOO_MANY_REQUESTS]).enumerate()
    {
        let forged = format!("198.51.100.{number}");
        assert_eq!(sign_in_from(&site, ("192.0.2.7", &forged), "ann", "wrong").await, status);
    }
}

#[tokio::test(start_paused = true)]
async fn signing_in_counts_when_it_fails_and_asking_always() {
    let site = Site::with(|settings| {
        (settings.sign_ins_per_minute, settings.authorizations_per_minute) = (2, 12);
    });
    for _ in 0..6 {
        let page = Browser::new(&site).sign_in(&Ask::new()).await;
        assert!(page.text().contains("Allow"), "{}", page.text());
    }
    for status in [StatusCode::OK; 6].into_iter().chain([StatusCode::TOO_MANY_REQUESTS]) {
        assert_eq!(site.get(&Ask::new().path()).await.status(), status);
    }
}

#[tokio::test]
async fn what_a_client_says_of_itself_is_text_on_the_page() {
    let site = Site::new();
    let name = "<script>alert(1)</script>\u{202e}\"onload=x";
    let registered = site
        .register(&json!({ "client_name": name, "redirect_uris": ["https://app.example/cb"],
            "token_endpoint_auth_method": "none" }))
        .await
        .json();
    let id = registered["client_id"].as_str().unwrap();
    let mut browser = Browser::new(&site);
    let consent = browser.sign_in(&Ask::of(id, "https://app.example/cb")).await;
    assert!(!consent.text().contains("<script"), "{}", consent.text());
    assert!(consent.text().contains("it is not verified") && consent.text().contains("app.example"));
    assert!(!consent.text().contains("Any program on this computer"));
    // A client that introduced itself is asked about every time.
    browser.decide(&consent, "allow").await;
    assert!(is_page(&browser.open(&Ask::of(id, "https://app.example/cb")).await));
}

#[tokio::test]
async fn another_host_is_not_answered_and_pages_of_other_origins_send_no_forms() {
    let site = Site::new();
    for (host, good) in [
        ("as.example", true),
        ("AS.example:443", true),
        ("as.example:8443", false),
        ("evil.example", false),
        ("as.example@evil.example", false),
        ("", false),
    ] {
        for path in [&*Ask::new().path(), "/.well-known/oauth-authorization-server"] {
            let request = http::Request::get(path).header("host", host).body(()).unwrap();
            let status = site.send(request.into_parts().0, "").await.status();
            assert_eq!(status == StatusCode::OK, good, "{host} {path}");
        }
    }
    let mut browser = Browser::new(&site);
    let page = browser.sign_in(&Ask::new()).await;
    let (request, csrf, cookie) = (page.hidden("request"), page.hidden("csrf"), browser.cookie.unwrap());
    let fields = [("request", &*request), ("csrf", &*csrf), ("decision", "allow")];
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "https://other.as.example"),
        ("origin", "http://as.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        for path in ["/consent", "/sign-in"] {
            let refused = site.form_with(path, &fields, &[("cookie", &cookie), (name, value)]).await;
            assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{path} {name}: {value}");
        }
    }
    let own = [("cookie", &*cookie), ("origin", "null"), ("sec-fetch-site", "same-origin")];
    assert!(site.form_with("/consent", &fields, &own).await.answer().contains_key("code"));
}

/// Somebody who can plant a cookie beside ours is not taken for its owner, and neither is the owner for them.
#[tokio::test]
async fn of_two_cookies_of_one_name_neither_counts() {
    let site = Site::new();
    let mut browser = Browser::new(&site);
    let consent = browser.sign_in(&Ask::new()).await;
    let own = browser.cookie.clone().unwrap();
    let mut other = Browser::new(&site);
    other.sign_in(&Ask::new()).await;
    let planted = other.cookie.unwrap();
    let (request, csrf) = (consent.hidden("request"), consent.hidden("csrf"));
    let fields = [("request", &*request), ("csrf", &*csrf), ("decision", "allow")];
    let both = [format!("{own}; {planted}"), format!("{planted}; {own}"), format!("{own}; x=y; {own}")];
    for cookies in &both {
        let answer = site.form_with("/consent", &fields, &[("cookie", cookies)]).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{cookies}");
        let request = http::Request::get(Ask::new().path()).header("cookie", cookies).body(()).unwrap();
        let page = site.send(request.into_parts().0, "").await;
        assert!(page.text().contains("Sign in") && page.header("set-cookie").starts_with("__Host-hospes="));
    }
    let lines = [("cookie", &*own), ("cookie", &*planted)];
    assert_eq!(site.form_with("/consent", &fields, &lines).await.status(), StatusCode::BAD_REQUEST);
    assert!(site.form_with("/consent", &fields, &[("cookie", &own)]).await.answer().contains_key("code"));
}
