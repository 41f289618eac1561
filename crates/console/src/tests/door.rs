//! Tests of authentication, and of the checks of host and origin.

use super::*;

#[tokio::test]
async fn a_link_lets_one_browser_in_once() {
    let house = House::new().await;
    let token = token(&house.listening);
    let first = house.open(&token).await;
    assert_eq!(first.status, 200);
    let cookie = first.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let again = house.open(&token).await;
    assert_eq!((again.status, again.code().as_str()), (403, "no-link"));
    assert!(again.header("set-cookie").is_none());
    assert_eq!(house.open("guessed").await.status, 403);
}

#[tokio::test]
async fn neither_the_cookie_nor_the_key_is_enough() {
    let house = House::new().await;
    let (one, other) = (house.browser().await, house.browser().await);
    assert_eq!(one.get("/api/servers").await.status, 200);
    let wrong = [
        Browser { key: String::new(), ..one.clone() },
        Browser { key: other.key.clone(), ..one.clone() },
        Browser { cookie: String::new(), ..one.clone() },
        // A cookie of another console on this machine.
        Browser { cookie: one.cookie.replace("hospes-console-", "hospes-console-1"), ..one.clone() },
    ];
    for browser in wrong {
        for path in ["/api/servers", "/api/activity", "/api/approvals", "/api/sessions", "/api/console"] {
            let answer = browser.get(path).await;
            assert_eq!((answer.status, answer.code().as_str()), (401, "no-session"), "{path}: {browser:?}");
        }
        assert_eq!(browser.post("/api/servers/notes/restart", json!({})).await.status, 401);
    }
    let bare = format!("Cookie: {}\r\n", one.cookie);
    assert_eq!(send(one.address, "POST", "/api/servers/notes/restart", &bare, "{}").await.status, 401);
}

/// Pages of elsewhere, and names that lead here.
///
/// covers: HOST-15
#[tokio::test]
async fn nothing_is_answered_to_other_hosts_and_origins() {
    let house = House::new().await;
    let browser = house.browser().await;
    let address = browser.address;
    let sent = format!("Cookie: {}\r\nX-Hospes-Key: {}\r\n", browser.cookie, browser.key);
    let port = address.port();
    for evil in [
        "Host: evil.example\r\n".to_owned(),
        format!("Host: evil.example:{port}\r\n"),
        format!("Host: 127.0.0.1.evil.example:{port}\r\n"),
        format!("Host: {address}\r\nHost: evil.example\r\n"),
        format!("Host: 10.0.0.1:{port}\r\n"),
        format!("Host: {address}\r\nOrigin: https://evil.example\r\n"),
        format!("Host: {address}\r\nOrigin: null\r\n"),
        // Another port of this machine is another origin, though for cookies it is the same site.
        format!("Host: {address}\r\nOrigin: http://127.0.0.1:3000\r\n"),
        format!("Host: {address}\r\nOrigin: http://localhost:{port}\r\n"),
        format!("Host: {address}\r\nOrigin: https://{address}\r\n"),
        format!("Host: {address}\r\nOrigin: http://{address}\r\nOrigin: http://evil.example\r\n"),
        format!("Host: {address}\r\nSec-Fetch-Site: same-site\r\n"),
        format!("Host: {address}\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: document\r\n"),
    ] {
        for (method, path) in [("GET", "/api/servers"), ("POST", "/api/servers/notes/restart")] {
            let answer = send(address, method, path, &format!("{evil}{sent}"), "{}").await;
            assert_eq!((answer.status, answer.code().as_str()), (403, "elsewhere"), "{evil}");
        }
    }
    // A page may be come to from anywhere, but not by another name, and not into a frame.
    let page = |headers: String| async move { send(address, "GET", "/servers", &headers, "").await.status };
    let navigates = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Dest:";
    assert_eq!(page(format!("Host: {address}\r\n{navigates} document\r\n")).await, 200);
    assert_eq!(page(format!("Host: {address}\r\n{navigates} iframe\r\n")).await, 403);
    assert_eq!(page("Host: evil.example\r\n".to_owned()).await, 403);
    assert_eq!(page(format!("Host: localhost:{port}\r\n")).await, 200);
    assert_eq!(page(format!("Host: [::1]:{port}\r\n")).await, 200);
}

#[tokio::test]
async fn every_answer_says_that_nothing_of_elsewhere_may_run_or_frame_it() {
    let house = House::new().await;
    let browser = house.browser().await;
    for path in ["/", "/open", "/assets/app.js", "/assets/style.css", "/api/servers", "/api/none", "/none"] {
        let answer = browser.get(path).await;
        let policy = answer.header("content-security-policy").unwrap();
        for part in ["default-src 'none'", "frame-ancestors 'none'", "form-action 'none'"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("cache-control", "no-store"),
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
        assert!(answer.header("access-control-allow-origin").is_none());
    }
}

#[tokio::test]
async fn a_session_that_is_over_opens_nothing() {
    let lifetimes = SessionLifetimes { session: Duration::from_secs(60), ..SessionLifetimes::default() };
    let house = House::with(lifetimes, "").await;
    let browser = house.browser().await;
    assert_eq!(browser.get("/api/servers").await.status, 200);
    // The clock alone goes on: what is sent and received takes the time that it takes.
    tokio::time::pause();
    tokio::time::advance(lifetimes.session).await;
    tokio::time::resume();
    let answer = browser.get("/api/servers").await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "no-session"));
}

#[tokio::test]
async fn a_session_can_be_ended_by_another_and_by_itself() {
    let house = House::new().await;
    let (one, other) = (house.browser().await, house.browser().await);
    let all = one.get("/api/sessions").await.json();
    assert_eq!(all["sessions"].as_array().unwrap().len(), 2);
    let ids: Vec<&str> =
        all["sessions"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    let others = ids.iter().find(|id| Some(**id) != all["current"].as_str()).unwrap();
    assert_eq!(one.post(&format!("/api/sessions/{others}/end"), json!({})).await.status, 200);
    assert_eq!(other.get("/api/sessions").await.status, 401);
    assert_eq!(one.post("/api/sessions/end", json!({})).await.status, 200);
    assert_eq!(one.get("/api/sessions").await.status, 401);
}

#[tokio::test]
async fn the_console_is_of_this_machine_alone() {
    let house = House::new().await;
    let console = Console::new(&house.host);
    let error = console.listen("0.0.0.0:0".parse().unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}
