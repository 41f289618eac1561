//! Single answers, searches without a list, and registries that fail.

use std::time::{Duration, Instant};

use hospes_registry::{AnswerSource, RegistryClient, RegistryError};
use hospes_registry_testkit::{RegistryFault, RegistryServer};
use jiff::{SignedDuration, Timestamp};

fn client(server: &RegistryServer) -> RegistryClient {
    RegistryClient::new(&server.url(), None).unwrap()
}

/// The same client at a later time.
fn later(client: &RegistryClient, minutes: i64) -> RegistryClient {
    client.clone().clock(move || Timestamp::now() + SignedDuration::from_mins(minutes))
}

#[tokio::test]
async fn names_and_versions_are_encoded() {
    let server = RegistryServer::start();
    let mut entry = hospes_registry_testkit::entry("io.github.rivermill/tables-mcp");
    entry["version"] = "2.0.0+build/5".into();
    server.publish(entry);
    let client = client(&server);
    let latest = client.entry("io.github.rivermill/tables-mcp", None).await.unwrap();
    assert_eq!(latest.value.version, "2.0.0+build/5");
    let exact = client.entry("io.github.rivermill/tables-mcp", Some("2.0.0+build/5")).await.unwrap();
    assert_eq!(exact.value.version, "2.0.0+build/5");
    assert_eq!(
        server.requests()[1],
        "/v0.1/servers/io.github.rivermill%2Ftables-mcp/versions/2.0.0%2Bbuild%2F5"
    );
    let versions = client.versions("io.github.rivermill/tables-mcp").await.unwrap().value;
    let versions: Vec<&str> = versions.iter().map(|entry| entry.version.as_str()).collect();
    assert_eq!(versions, ["2.0.0+build/5", "1.7.2"]);
}

#[tokio::test]
async fn a_revalidating_client_asks_each_time_with_the_tag() {
    let server = RegistryServer::start();
    let client = client(&server).revalidating();
    for _ in 0..2 {
        let answer = client.entry("com.acme/analytics", None).await.unwrap();
        assert_eq!(answer.source, AnswerSource::Server);
    }
    assert_eq!((server.requests().len(), server.not_modified()), (2, 1));
}

#[tokio::test]
async fn an_answer_is_kept_for_ten_minutes_and_then_asked_for_with_its_tag() {
    let server = RegistryServer::start();
    let client = client(&server);
    let name = "com.acme/analytics";
    assert_eq!(client.entry(name, None).await.unwrap().source, AnswerSource::Server);
    let kept = later(&client, 9).entry(name, None).await.unwrap();
    assert_eq!(kept.source, AnswerSource::Cache);
    assert!(kept.age >= Duration::from_secs(9 * 60 - 5) && kept.offline.is_none(), "{:?}", kept.age);
    assert_eq!(server.requests().len(), 1);
    let renewed = later(&client, 11).entry(name, None).await.unwrap();
    assert_eq!((renewed.source, renewed.age), (AnswerSource::Server, Duration::ZERO));
    assert_eq!((server.requests().len(), server.not_modified()), (2, 1));
    server.set_status(name, "2.0.0", "deprecated", Some("use another"));
    let changed = later(&client, 30).entry(name, None).await.unwrap();
    assert_eq!(changed.value.status().as_str(), "deprecated");
}

#[tokio::test]
async fn without_a_connection_the_cache_answers_with_its_age() {
    let server = RegistryServer::start();
    let client = client(&server);
    client.entry("com.acme/analytics", None).await.unwrap();
    client.search("analytics", 5).await.unwrap();
    drop(server);
    let client = later(&client, 120);
    let entry = client.entry("com.acme/analytics", None).await.unwrap();
    assert!(matches!(entry.offline, Some(RegistryError::Offline { .. })));
    assert!(entry.age >= Duration::from_secs(7190));
    let found = client.search("analytics", 5).await.unwrap();
    assert_eq!(found.value.entries[0].name, "com.acme/analytics");
    assert!(found.offline.is_some() && found.age >= Duration::from_secs(7190));
    let unknown = client.entry("com.acme/other", None).await.unwrap_err().to_string();
    assert!(unknown.contains("could not be reached") && unknown.contains("check the network"), "{unknown}");
}

#[tokio::test]
async fn deleted_versions_are_not_answered() {
    let server = RegistryServer::start();
    let client = client(&server);
    client.entry("com.acme/analytics", None).await.unwrap();
    server.set_status("com.acme/analytics", "2.0.0", "deleted", None);
    let gone = later(&client, 11).entry("com.acme/analytics", None).await.unwrap_err();
    let expected =
        format!("{} has no server `com.acme/analytics`; `hospes search WORD` finds names", client.host());
    assert_eq!(gone.to_string(), expected);
    drop(server);
    let offline = later(&client, 12).entry("com.acme/analytics", None).await;
    assert!(matches!(offline, Err(RegistryError::Offline { .. })), "the stored answer is gone, too");
}

#[tokio::test]
async fn a_first_search_asks_the_registry_and_not_for_the_list() {
    let server = RegistryServer::start();
    let client = client(&server);
    let found = client.search("clock", 10).await.unwrap();
    assert_eq!(found.source, AnswerSource::Server);
    let names: Vec<&str> = found.value.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["io.github.rivermill/clock-nuget", "io.github.rivermill/clock-py"]);
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].contains("search=clock") && requests[0].contains("version=latest"), "{requests:?}");
    let none = client.search("nonsense-word", 10).await.unwrap();
    assert_eq!((none.value.total, none.value.entries.len()), (0, 0));
    assert_eq!(client.search("rivermill", 1).await.unwrap().value.total, 3, "more than were asked for");
}

#[tokio::test]
async fn broken_answers_are_not_stored() {
    let name = "com.acme/analytics";
    let other = hospes_registry_testkit::entry("io.github.rivermill/tables-mcp");
    let other = serde_json::json!({ "server": other }).to_string();
    for broken in ["{", "[]", "{\"server\": {\"name\": 5}}", &other] {
        let server = RegistryServer::start();
        let client = client(&server);
        server.set_fault(Some(RegistryFault::Body(broken.to_owned())));
        for answer in [client.entry(name, None).await.err(), client.versions(name).await.err()] {
            assert!(answer.is_some(), "{broken}");
        }
        assert!(client.search("analytics", 5).await.is_err(), "{broken}");
        server.set_fault(None);
        assert_eq!(client.entry(name, None).await.unwrap().source, AnswerSource::Server, "{broken}");
        assert_eq!(client.versions(name).await.unwrap().source, AnswerSource::Server, "{broken}");
        assert_eq!(client.search("analytics", 5).await.unwrap().value.total, 1, "{broken}");
    }
}

#[tokio::test]
async fn a_broken_answer_does_not_replace_a_good_one() {
    let server = RegistryServer::start();
    let client = client(&server);
    let name = "com.acme/analytics";
    client.entry(name, None).await.unwrap();
    server.set_fault(Some(RegistryFault::Body("{".to_owned())));
    assert!(later(&client, 11).entry(name, None).await.is_err());
    drop(server);
    let stored = later(&client, 12).entry(name, None).await.unwrap();
    assert!(
        stored.source == AnswerSource::Cache && stored.age >= Duration::from_secs(700),
        "{:?}",
        stored.age
    );
}

#[tokio::test]
async fn a_broken_answer_in_the_file_of_an_earlier_version_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("registry.sqlite");
    let server = RegistryServer::start();
    let client = || RegistryClient::new(&server.url(), Some(file.clone())).unwrap();
    let name = "com.acme/analytics";
    client().entry(name, None).await.unwrap();
    let damage = || {
        let database = rusqlite::Connection::open(&file).unwrap();
        assert_eq!(database.execute("UPDATE answers SET body = CAST('{' AS BLOB)", []).unwrap(), 1);
    };
    damage();
    let renewed = client().entry(name, None).await.unwrap();
    assert_eq!((renewed.source, renewed.value.name.as_str()), (AnswerSource::Server, name));
    assert_eq!(server.not_modified(), 0, "its tag is not sent, because the answer would be empty");
    damage();
    let (url, file) = (server.url(), file.clone());
    drop(server);
    let offline = RegistryClient::new(&url, Some(file)).unwrap().entry(name, None).await;
    assert!(matches!(offline, Err(RegistryError::Offline { .. })), "{offline:?}");
}

#[tokio::test]
async fn other_servers_are_recognized() {
    let server = RegistryServer::start();
    for (fault, expected) in [
        (RegistryFault::Html, "a page of HTML"),
        (RegistryFault::Body("{".to_owned()), "not valid JSON"),
        (RegistryFault::Body("[]".to_owned()), "the answer is not an object"),
        (RegistryFault::Body("{\"items\": []}".to_owned()), "no field `servers`"),
        (RegistryFault::Body("{\"servers\": 5}".to_owned()), "servers: expected a list"),
        (
            RegistryFault::Body("{\"servers\": [{\"server\": {\"name\": 5}}]}".to_owned()),
            "name: invalid type",
        ),
        (
            RegistryFault::Body("{\"servers\": [], \"metadata\": {\"nextCursor\": 5}}".to_owned()),
            "nextCursor",
        ),
        (
            RegistryFault::Status(500),
            "answered 500: the registry is busy\\u{1b}[31m; it has a problem of its own: try again later",
        ),
        (RegistryFault::Status(404), "status 404"),
        (
            RegistryFault::Redirect("https://elsewhere.example/x?secret=1".to_owned()),
            "redirects to https://elsewhere.example/x;",
        ),
        (RegistryFault::Huge(9 * 1024 * 1024), "longer than 8388608 bytes"),
    ] {
        server.set_fault(Some(fault.clone()));
        let error = client(&server).search("x", 1).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{fault:?}: {error}");
        assert!(!error.contains('\u{1b}') && !error.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn a_bad_entry_does_not_hide_the_others() {
    let server = RegistryServer::start();
    let good = r#"{"server": {"name": "a.b/good", "description": "x", "version": "1"}}"#;
    let bad = r#"{"server": {"name": "a.b/bad"}}"#;
    server.set_fault(Some(RegistryFault::Body(format!("{{\"servers\": [{bad}, {good}, 7]}}"))));
    let found = client(&server).search("", 10).await.unwrap().value;
    assert_eq!(found.entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["a.b/good"]);
}

#[tokio::test]
async fn a_slow_registry_is_given_up() {
    let server = RegistryServer::start();
    server.set_fault(Some(RegistryFault::Slow(Duration::from_secs(60))));
    let client = client(&server);
    let start = Instant::now();
    let error = client.entry("com.acme/analytics", None).await.unwrap_err().to_string();
    assert!(error.contains("did not answer in time"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn only_urls_of_registries_are_accepted() {
    for (url, base) in [
        ("https://registry.example/", "https://registry.example"),
        ("https://registry.example/v0.1/servers", "https://registry.example"),
        ("https://example.com/mcp/v0", "https://example.com/mcp"),
        ("http://127.0.0.1:9/", "http://127.0.0.1:9"),
    ] {
        assert_eq!(RegistryClient::new(url, None).unwrap().base_url(), base);
    }
    for url in [
        "registry.example",
        "http://registry.example",
        "ftp://registry.example",
        "https://me:hunter2@registry.example",
        "https://registry.example/?key=1",
        "",
    ] {
        let error = RegistryClient::new(url, None).unwrap_err().to_string();
        assert!(error.contains("expected https://HOST") && !error.contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn names_that_none_can_have_are_not_sent() {
    let server = RegistryServer::start();
    let client = client(&server);
    for name in ["x", "/x", "x/", "a b/c", "a.b/c\n", &"a/".repeat(200)] {
        assert!(matches!(client.entry(name, None).await, Err(RegistryError::Name(_))), "{name}");
    }
    assert!(matches!(client.entry("a.b/c", Some("..")).await, Err(RegistryError::Name(_))));
    assert_eq!(server.requests(), [] as [&str; 0]);
}
