//! Clients that introduce themselves, and clients whose name is a document.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hospes_auth::FetchResponse;
use http::StatusCode;
use serde_json::{Value, json};

use super::{ASKED, Ask, Browser, Site, Web, settings};
use crate::{AuthServer, LocalSignIn, MemoryAuthStore, TrustedDocuments};

/// covers: AUTS-07 AUTS-08
#[tokio::test]
async fn a_client_introduces_itself() {
    let site = Site::new();
    let asked = json!({
        "client_name": "An App", "redirect_uris": ["http://127.0.0.1/callback", "https://app.example/cb"],
        "grant_types": ["authorization_code", "refresh_token", "client_credentials"], "response_types": ["code"],
        "token_endpoint_auth_method": "none", "application_type": "native", "scope": "mcp unknown", "strange": {},
    });
    let answer = site.register(&asked).await;
    assert_eq!((answer.status(), answer.header("cache-control")), (StatusCode::CREATED, "no-store"));
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    let said = answer.json();
    assert_eq!(said["grant_types"], json!(["authorization_code", "refresh_token"]), "what it got");
    assert_eq!((&said["scope"], said.get("client_secret")), (&json!("mcp"), None));
    let ask = Ask::of(said["client_id"].as_str().unwrap(), ASKED);
    let code = site.code(&ask).await;
    let (access, refresh) = site.redeem(&ask, &code).await.tokens();
    assert!(site.is_good(&access).await);
    assert!(!refresh.is_empty());

    // With a secret, which is shown once and then needed.
    let secret = json!({ "redirect_uris": ["http://127.0.0.1/callback"] });
    let said = site.register(&secret).await.json();
    assert_eq!(said["token_endpoint_auth_method"], "client_secret_basic");
    assert_eq!(said["client_secret_expires_at"], 0);
    let ask = Ask::of(said["client_id"].as_str().unwrap(), ASKED);
    let code = site.code(&ask).await;
    assert_eq!(site.redeem(&ask, &code).await.error(), (401, "invalid_client".to_owned()));
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", &*code),
        ("code_verifier", ask.verifier.expose()),
        ("client_id", &*ask.client),
        ("client_secret", said["client_secret"].as_str().unwrap()),
    ];
    assert_eq!(site.form("/token", &fields).await.status(), StatusCode::OK);
}

/// Without self-registration, clients are configured, with a secret if they can keep one.
///
/// covers: AUTS-09
#[tokio::test]
async fn a_registration_that_is_not_in_order_is_refused() {
    let site = Site::new();
    let with = |name: &str, value: Value| {
        let mut metadata = json!({ "redirect_uris": ["https://app.example/cb"] });
        metadata[name] = value;
        metadata
    };
    for (metadata, error) in [
        (json!({}), "invalid_redirect_uri"),
        (json!([]), "invalid_redirect_uri"),
        (with("redirect_uris", json!([])), "invalid_redirect_uri"),
        (with("redirect_uris", json!("https://app.example/cb")), "invalid_redirect_uri"),
        (with("redirect_uris", json!(["http://app.example/cb"])), "invalid_redirect_uri"),
        (
            with("redirect_uris", json!(["https://app.example/cb", "javascript:alert(1)"])),
            "invalid_redirect_uri",
        ),
        (with("redirect_uris", json!(["com.example:/cb"])), "invalid_redirect_uri"),
        (with("redirect_uris", json!(["https://app.example/cb#x"])), "invalid_redirect_uri"),
        (with("redirect_uris", json!(vec!["https://app.example/cb"; 17])), "invalid_redirect_uri"),
        (with("token_endpoint_auth_method", json!("tls_client_auth")), "invalid_client_metadata"),
        (with("grant_types", json!(["client_credentials"])), "invalid_client_metadata"),
        (with("response_types", json!(["token"])), "invalid_client_metadata"),
        (with("client_name", json!(7)), "invalid_client_metadata"),
    ] {
        assert_eq!(site.register(&metadata).await.error(), (400, error.to_owned()), "{metadata}");
    }
    let closed = Site::with(|settings| settings.registration = false);
    assert!(!closed.server.serves("/register"));
    let ask = Ask::new();
    let code = closed.code(&ask).await;
    assert_eq!(closed.redeem(&ask, &code).await.status(), StatusCode::OK);
    let ask = Ask::of("machine", "https://machine.example/callback");
    assert!(!closed.code(&ask).await.is_empty());
}

/// Metadata as Cursor sends it: one redirect for each place where it may run.
fn cursor() -> Value {
    json!({
        "redirect_uris": [CURSOR, "https://www.cursor.com/agents/mcp/oauth/callback", "http://localhost:8787/callback"],
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "client_name": "Cursor",
        "client_uri": "https://cursor.com",
    })
}

/// Metadata as Visual Studio Code sends it.
fn visual_studio_code() -> Value {
    json!({
        "client_name": "Visual Studio Code",
        "client_uri": "https://code.visualstudio.com",
        "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
        "response_types": ["code"],
        "redirect_uris": ["https://insiders.vscode.dev/redirect", "https://vscode.dev/redirect", "http://localhost/",
            "http://127.0.0.1/", "http://localhost:33418/", "http://127.0.0.1:33418/"],
        "scope": "mcp",
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    })
}

const CURSOR: &str = "cursor://anysphere.cursor-mcp/oauth/callback";
const EXTENSION: &str = "vscode://publisher.extension/callback/1f3a";

#[tokio::test]
async fn well_known_applications_register_with_all_their_redirects() {
    let site = Site::new();
    for body in [cursor(), visual_studio_code()] {
        let answer = site.register(&body).await;
        assert_eq!(answer.status(), StatusCode::CREATED, "{}", answer.text());
        let said = answer.json();
        assert_eq!(said["redirect_uris"], body["redirect_uris"]);
        assert_eq!(said.get("redirect_uris_left_out"), None);
    }
    // The page says which application is opened, and takes nothing behind the scheme for a host.
    let id = site.register(&cursor()).await.json()["client_id"].as_str().unwrap().to_owned();
    let ask = Ask::of(&id, CURSOR);
    let mut browser = Browser::new(&site);
    let consent = browser.sign_in(&ask).await;
    for shown in ["the application that opens cursor: links", CURSOR, "Any program on this computer"] {
        assert!(consent.text().contains(shown), "{shown}: {}", consent.text());
    }
    let back = browser.decide(&consent, "allow").await;
    let (address, fields) = back.back().unwrap();
    assert_eq!(address, CURSOR);
    assert_eq!(site.redeem(&ask, &fields["code"]).await.status(), StatusCode::OK);
    // Exactly that address, and never without PKCE.
    for other in ["cursor://anysphere.cursor-mcp/oauth/callback2", "cursor://evil.extension/oauth/callback"] {
        assert_eq!(site.get(&Ask::of(&id, other).path()).await.status(), StatusCode::BAD_REQUEST, "{other}");
    }
    let bare = Ask::of(&id, CURSOR).but("code_challenge", "").but("code_challenge_method", "");
    assert_eq!(site.get(&bare.path()).await.answer()["error"], "invalid_request");
}

#[tokio::test]
async fn redirects_that_are_not_accepted_are_left_out_and_named() {
    let mut body = cursor();
    let https = "https://www.cursor.com/agents/mcp/oauth/callback";
    body["redirect_uris"] =
        json!([EXTENSION, https, "http://192.0.2.7/cb", "https://app.example/cb#x", "grokbot:x"]);
    let site = Site::new();
    let answer = site.register(&body).await;
    assert_eq!(answer.status(), StatusCode::CREATED, "{}", answer.text());
    let said = answer.json();
    assert_eq!(said["redirect_uris"], json!([https]));
    let left_out = said["redirect_uris_left_out"].as_array().unwrap();
    let named: Vec<_> = left_out.iter().map(|one| one["redirect_uri"].as_str().unwrap()).collect();
    assert_eq!(named, [EXTENSION, "http://192.0.2.7/cb", "https://app.example/cb#x", "grokbot:x"]);
    assert!(left_out[0]["reason"].as_str().unwrap().contains("`redirect_uris` under [auth]"), "{said}");
    let page = site.get(&Ask::of(said["client_id"].as_str().unwrap(), EXTENSION).path()).await;
    assert_eq!(page.status(), StatusCode::BAD_REQUEST);
    assert!(page.text().contains("redirect_uris") && page.back().is_none(), "{}", page.text());
    // None of them is accepted: the error says why.
    body["redirect_uris"] = json!([EXTENSION]);
    let refused = site.register(&body).await;
    assert_eq!(refused.error(), (400, "invalid_redirect_uri".to_owned()));
    let why = refused.json()["error_description"].as_str().unwrap().to_owned();
    assert!(why.contains(EXTENSION) && why.contains("[auth]"), "{why}");
    // The configuration adds it, as this very string.
    let site = Site::with(|settings| settings.redirect_uris = vec![super::redirect_uri(EXTENSION)]);
    let said = site.register(&body).await.json();
    assert_eq!(said["redirect_uris"], json!([EXTENSION]));
    let ask = Ask::of(said["client_id"].as_str().unwrap(), EXTENSION);
    let code = site.code(&ask).await;
    assert_eq!(site.redeem(&ask, &code).await.status(), StatusCode::OK);
    body["redirect_uris"] = json!(["vscode://publisher.extension/callback/other"]);
    assert_eq!(site.register(&body).await.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn nobody_registers_without_end_and_what_is_unused_goes() {
    let site = Site::with(|settings| settings.registrations_per_minute = 2);
    let metadata = json!({ "redirect_uris": [ASKED], "token_endpoint_auth_method": "none" });
    let said = site.register(&metadata).await.json();
    site.register(&metadata).await;
    let flooded = site.register(&metadata).await;
    assert_eq!(flooded.status(), StatusCode::TOO_MANY_REQUESTS);
    let ask = Ask::of(said["client_id"].as_str().unwrap(), ASKED);
    assert_eq!(site.get(&ask.path()).await.status(), StatusCode::OK);
    site.pass(30 * 24 * 3600);
    assert_eq!(site.get(&ask.path()).await.status(), StatusCode::BAD_REQUEST);
}

const DOCUMENT: &str = "https://app.example/client.json";

fn document() -> Value {
    json!({ "client_id": DOCUMENT, "client_name": "The Document", "redirect_uris": ["http://127.0.0.1/callback"],
        "grant_types": ["authorization_code", "refresh_token"], "token_endpoint_auth_method": "none",
        "logo_uri": "https://app.example/logo.png" })
}

fn response(status: u16, document: &str, headers: &[(&'static str, &'static str)]) -> FetchResponse {
    let mut response = FetchResponse::new(StatusCode::from_u16(status).unwrap(), document.to_owned());
    response.headers.insert("content-type", "application/json".parse().unwrap());
    for (name, value) in headers {
        response.headers.insert(*name, value.parse().unwrap());
    }
    response
}

fn site(web: &Web, change: impl FnOnce(&mut super::AuthServerSettings)) -> Site {
    let mut site = Site::new();
    let mut settings = settings();
    change(&mut settings);
    let time = Arc::clone(&site.time);
    let sign_in = LocalSignIn::users([("ann".to_owned(), super::password())]);
    site.server = AuthServer::new(settings, Arc::new(MemoryAuthStore::new()), sign_in)
        .unwrap()
        .fetching(web.clone())
        .clock(hospes_auth::UnixClock::new(move || time.load(Ordering::Relaxed)));
    site
}

#[tokio::test]
async fn redirects_of_a_document_that_are_not_accepted_are_left_out() {
    let mut said = document();
    said["redirect_uris"] = json!([EXTENSION, CURSOR, "http://127.0.0.1/callback"]);
    let web = Web::default().with(DOCUMENT, response(200, &said.to_string(), &[]));
    let site = site(&web, |_| {});
    for (redirect, status) in
        [(ASKED, StatusCode::OK), (CURSOR, StatusCode::OK), (EXTENSION, StatusCode::BAD_REQUEST)]
    {
        assert_eq!(site.get(&Ask::of(DOCUMENT, redirect).path()).await.status(), status, "{redirect}");
    }
}

/// The page says where the document is and where the answer goes.
///
/// covers: AUTS-23 AUTS-25 AUTS-26
#[tokio::test]
async fn a_document_names_a_client() {
    let web = Web::default().with(DOCUMENT, response(200, &document().to_string(), &[]));
    let site = site(&web, |_| {});
    let ask = Ask::of(DOCUMENT, ASKED);
    let mut browser = Browser::new(&site);
    let consent = browser.sign_in(&ask).await;
    for shown in ["The Document", DOCUMENT, "127.0.0.1:41233", "Any program on this computer"] {
        assert!(consent.text().contains(shown), "{shown}");
    }
    let code = browser.decide(&consent, "allow").await.answer()["code"].clone();
    let (_, refresh) = site.redeem(&ask, &code).await.tokens();
    site.refresh(&refresh, DOCUMENT, &[]).await.tokens();
    assert_eq!(web.fetched.load(Ordering::Relaxed), 1, "kept, and its picture never fetched");
    assert!(browser.open(&ask).await.text().contains("Allow"), "any program could be waiting there");
}

/// covers: AUTS-24
#[tokio::test]
async fn a_document_that_is_not_in_order_names_nobody() {
    let with = |name: &str, value: Value| {
        let mut document = document();
        document[name] = value;
        response(200, &document.to_string(), &[])
    };
    let plain = |status: u16| response(status, &document().to_string(), &[]);
    let long = " ".repeat(5 * 1024 + 1 - document().to_string().len());
    let mut html = plain(200);
    html.headers.insert("content-type", "text/html".parse().unwrap());
    for bad in [
        with("client_id", json!("https://app.example/client.json?")),
        with("client_id", json!("https://App.example/client.json")),
        with("client_id", Value::Null),
        with("client_secret", json!("x")),
        with("token_endpoint_auth_method", json!("client_secret_basic")),
        with("token_endpoint_auth_method", json!("client_secret_post")),
        with("token_endpoint_auth_method", json!("private_key_jwt")),
        with("client_name", Value::Null),
        with("redirect_uris", json!([])),
        with("redirect_uris", json!(["http://app.example/cb"])),
        plain(404),
        plain(201),
        plain(302),
        html,
        response(200, "<html>", &[]),
        response(200, &format!("{}{long}", document()), &[]),
    ] {
        let web = Web::default().with(DOCUMENT, bad.clone());
        let site = site(&web, |_| {});
        let path = Ask::of(DOCUMENT, ASKED).path();
        assert_eq!(site.get(&path).await.status(), StatusCode::BAD_REQUEST, "{bad:?}");
        site.get(&path).await;
        assert_eq!(web.fetched.load(Ordering::Relaxed), 2, "a failure is not remembered");
    }
    // A redirect that the document does not list.
    let web = Web::default().with(DOCUMENT, plain(200));
    let answer = site(&web, |_| {}).get(&Ask::of(DOCUMENT, "https://app.example/cb").path()).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
}

/// Neither is one whose host the operator does not trust.
///
/// covers: AUTS-27
#[tokio::test]
async fn what_cannot_be_a_documents_place_is_not_fetched() {
    for id in [
        "http://app.example/client.json",
        "https://app.example",
        "https://app.example/",
        "https://app.example/client.json#x",
        "https://app.example/client.json?x=1",
        "https://me@app.example/client.json",
        "https://app.example/a/../client.json",
        "https://app.example/./client.json",
        "https://app.example/a/%2E%2e/client.json",
        "https://app.example\\client.json",
    ] {
        let web = Web::default().with(DOCUMENT, response(200, &document().to_string(), &[]));
        let answer = site(&web, |_| {}).get(&Ask::of(id, ASKED).path()).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{id}");
        assert_eq!(web.fetched.load(Ordering::Relaxed), 0, "{id}");
    }
    for trusted in [TrustedDocuments::None, TrustedDocuments::Hosts(vec!["other.example".to_owned()])] {
        let web = Web::default().with(DOCUMENT, response(200, &document().to_string(), &[]));
        let site = site(&web, |settings| settings.documents = trusted);
        assert_eq!(site.get(&Ask::of(DOCUMENT, ASKED).path()).await.status(), StatusCode::BAD_REQUEST);
        assert_eq!(web.fetched.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test]
async fn a_document_is_kept_as_long_as_it_says_within_reason() {
    let path = Ask::of(DOCUMENT, ASKED).path();
    for (header, kept) in [
        ("max-age=600", 600),
        ("max-age=0", 300),
        ("no-store", 300),
        ("public, max-age=31536000", 24 * 3600),
        ("nonsense", 300),
    ] {
        let web = Web::default()
            .with(DOCUMENT, response(200, &document().to_string(), &[("cache-control", header)]));
        let site = site(&web, |_| {});
        site.get(&path).await;
        site.pass(kept - 1);
        site.get(&path).await;
        assert_eq!(web.fetched.load(Ordering::Relaxed), 1, "{header}");
        site.pass(1);
        site.get(&path).await;
        assert_eq!(web.fetched.load(Ordering::Relaxed), 2, "{header}");
    }
}

/// A client that cannot be verified now is not unknown, so the error is temporary.
#[tokio::test(start_paused = true)]
async fn a_document_that_is_not_to_be_had_now_may_be_later() {
    let web = Web::default();
    let site = site(&web, |_| {});
    let ask = Ask::of(DOCUMENT, ASKED);
    let later = async || {
        let page = site.get(&ask.path()).await;
        assert_eq!((page.status(), page.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, "5"));
        assert!(page.back().is_none());
        let token = site.refresh("x", DOCUMENT, &[]).await;
        assert_eq!(token.error(), (503, "temporarily_unavailable".to_owned()));
        assert_eq!(token.header("retry-after"), "5");
    };
    later().await;
    for status in [500, 503, 429] {
        web.put(DOCUMENT, response(status, "{}", &[]));
        later().await;
    }
    web.put(DOCUMENT, response(200, &document().to_string(), &[]));
    let code = site.code(&ask).await;
    assert_eq!(site.redeem(&ask, &code).await.status(), StatusCode::OK);
    // What was good a while ago will do, for a day.
    web.cut(DOCUMENT);
    site.pass(24 * 3600 - 1);
    assert_eq!(site.get(&ask.path()).await.status(), StatusCode::OK);
    site.pass(1);
    later().await;
    web.put(DOCUMENT, response(200, &document().to_string(), &[("cache-control", "must-revalidate")]));
    assert_eq!(site.get(&ask.path()).await.status(), StatusCode::OK);
    site.pass(300);
    web.cut(DOCUMENT);
    later().await;
    // What its owner has taken back is gone at once.
    web.put(DOCUMENT, response(200, &document().to_string(), &[]));
    assert_eq!(site.get(&ask.path()).await.status(), StatusCode::OK);
    web.put(DOCUMENT, response(404, "", &[]));
    site.pass(300);
    assert_eq!(site.get(&ask.path()).await.status(), StatusCode::BAD_REQUEST);
    web.cut(DOCUMENT);
    later().await;
}

/// A document that may not be fetched names no client. A document that was not reached may do so later.
#[tokio::test]
async fn a_document_where_nothing_is_fetched_names_nobody() {
    use hospes_auth::egress::FetchError;
    struct Failing(FetchError);
    impl hospes_auth::HttpFetch for Failing {
        fn fetch(&self, _: hospes_auth::FetchRequest) -> hospes_auth::FetchFuture<'_> {
            let error = self.0.clone();
            Box::pin(async move { Err(error.into()) })
        }
    }
    for (error, status) in [
        (FetchError::Forbidden("a private address"), 400),
        (FetchError::TooLarge { max: 5120 }, 400),
        (FetchError::Unreachable, 503),
        (FetchError::Timeout, 503),
        (FetchError::Broken, 503),
    ] {
        let sign_in = LocalSignIn::users([("ann".to_owned(), super::password())]);
        let server = AuthServer::new(settings(), Arc::new(MemoryAuthStore::new()), sign_in).unwrap();
        let site = Site::of(server.fetching(Failing(error.clone())), Arc::new(1_000_000.into()));
        let answer = site.get(&Ask::of(DOCUMENT, ASKED).path()).await;
        assert_eq!(answer.status().as_u16(), status, "{error}");
        assert!(!answer.text().contains("private address"), "what is inside concerns nobody");
    }
}

/// Fetches of documents are limited in concurrency and per minute.
#[tokio::test(start_paused = true)]
async fn documents_are_fetched_within_limits() {
    let web = Web::default().with(DOCUMENT, response(200, &document().to_string(), &[]));
    let at_once = site(&web, |_| {});
    let path = Ask::of(DOCUMENT, ASKED).path();
    let asked = (0..50).map(|_| {
        let (site, path) = (at_once.clone(), path.clone());
        tokio::spawn(async move { site.get(&path).await.status() })
    });
    for asked in asked.collect::<Vec<_>>() {
        assert_eq!(asked.await.unwrap(), StatusCode::OK);
    }
    assert_eq!(web.fetched.swap(0, Ordering::Relaxed), 1, "of one document, one at a time");

    let many = site(&web, |_| {});
    for number in 0..70 {
        let id = format!("https://app.example/{number}.json");
        assert_eq!(many.get(&Ask::of(&id, ASKED).path()).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(web.fetched.swap(0, Ordering::Relaxed), 60, "of one host, 60 a minute");
    assert_eq!(many.get(&path).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    many.get(&Ask::of("https://other.example/client.json", ASKED).path()).await;
    assert_eq!(web.fetched.load(Ordering::Relaxed), 1, "others are others");
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    assert_eq!(many.get(&path).await.status(), StatusCode::OK);
}

/// A client with changed redirects is treated as another client.
#[tokio::test]
async fn a_document_that_has_changed_is_asked_about_again() {
    const THERE: &str = "https://app.example/cb";
    let mut first = document();
    first["redirect_uris"] = json!([THERE]);
    let web = Web::default().with(DOCUMENT, response(200, &first.to_string(), &[]));
    let one = site(&web, |_| {});
    let ask = Ask::of(DOCUMENT, THERE);
    let mut browser = Browser::new(&one);
    let consent = browser.sign_in(&ask).await;
    browser.decide(&consent, "allow").await;
    let mut changed = document();
    changed["redirect_uris"] = json!([THERE, "https://evil.example/cb"]);
    let web = Web::default().with(DOCUMENT, response(200, &changed.to_string(), &[]));
    let time = Arc::clone(&one.time);
    let store = Arc::clone(&one.server.0.store);
    let sign_in = LocalSignIn::users([("ann".to_owned(), super::password())]);
    let server = AuthServer::new(settings(), store, sign_in)
        .unwrap()
        .fetching(web)
        .clock(hospes_auth::UnixClock::new(move || time.load(Ordering::Relaxed)));
    browser.site.server = server;
    let page = browser.open(&ask).await;
    assert!(page.back().is_none() && page.text().contains("Allow"), "{}", page.text());
}
