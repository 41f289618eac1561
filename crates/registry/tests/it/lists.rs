//! The list in the cache: complete readings, changes, deletions, and searches in it.

use std::time::Duration;

use hospes_registry::{AnswerSource, RefreshMode, RegistryClient, RegistryError};
use hospes_registry_testkit::{RegistryFault, RegistryServer};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

fn named(name: &str, title: &str, description: &str, version: &str) -> Value {
    json!({ "name": name, "title": title, "description": description, "version": version })
}

fn client(server: &RegistryServer) -> RegistryClient {
    RegistryClient::new(&server.url(), None).unwrap()
}

async fn names(client: &RegistryClient, query: &str) -> Vec<String> {
    let found = client.search(query, 50).await.unwrap();
    found.value.entries.into_iter().map(|entry| format!("{} {}", entry.name, entry.version)).collect()
}

#[tokio::test]
async fn a_complete_list_answers_without_the_registry() {
    let server = RegistryServer::start();
    server.set_page_size(7);
    let client = client(&server);
    let report = client.refresh(RefreshMode::Changes).await.unwrap();
    assert!(report.everything);
    assert_eq!((report.servers, report.pages, report.skipped), (34, 5, 0));
    server.clear_requests();
    let found = client.search("clock", 10).await.unwrap();
    assert_eq!((found.source, found.value.total), (AnswerSource::Cache, 2));
    assert!(found.age < Duration::from_secs(60));
    assert_eq!(server.requests(), [] as [&str; 0]);
}

#[tokio::test]
async fn results_are_ordered_by_their_names_and_state() {
    let server = RegistryServer::start_with(vec![
        named("com.a/about", "", "Says something about mail", "1"),
        named("com.a/hotmails", "", "x", "1"),
        named("com.a/the-mail", "", "x", "1"),
        named("com.a/mail-server", "", "x", "1"),
        named("com.b/mail", "", "x", "1"),
        named("com.a/mail", "", "x", "1"),
        named("com.a/titled", "The Mail", "x", "1"),
    ]);
    server.set_status("com.a/mail", "1", "deprecated", None);
    let client = client(&server);
    let expected = [
        "com.b/mail 1",
        "com.a/mail 1",
        "com.a/mail-server 1",
        "com.a/the-mail 1",
        "com.a/titled 1",
        "com.a/hotmails 1",
    ];
    // The search of the registry looks at names only.
    let at_server = names(&client, "mail").await;
    assert_eq!(
        at_server,
        expected.iter().filter(|name| !name.contains("titled")).copied().collect::<Vec<_>>()
    );
    client.refresh(RefreshMode::Changes).await.unwrap();
    let mut all = expected.to_vec();
    all.push("com.a/about 1");
    assert_eq!(names(&client, "mail").await, all);
    assert_eq!(names(&client, "com.a/mail").await[0], "com.a/mail 1");
}

#[tokio::test]
async fn changes_are_read_after_a_day_and_deleted_servers_vanish() {
    let server = RegistryServer::start_with(vec![
        named("com.a/stays", "", "server", "1.0.0"),
        named("com.a/changes", "", "server", "1.0.0"),
        named("com.a/goes", "", "server", "1.0.0"),
        named("com.a/falls-back", "", "server", "1.0.0"),
        named("com.a/falls-back", "", "server", "2.0.0"),
    ]);
    let client = client(&server);
    client.refresh(RefreshMode::Changes).await.unwrap();
    assert_eq!(names(&client, "falls").await, ["com.a/falls-back 2.0.0"]);
    server.publish(named("com.a/changes", "", "server", "1.1.0"));
    server.publish(named("com.a/new", "", "server", "0.1.0"));
    server.set_status("com.a/goes", "1.0.0", "deleted", None);
    server.set_status("com.a/falls-back", "2.0.0", "deleted", None);
    server.clear_requests();
    assert_eq!(names(&client, "server").await.len(), 4, "the list is young, so nothing is asked");
    assert_eq!(server.requests(), [] as [&str; 0]);
    let tomorrow = client.clone().clock(|| Timestamp::now() + SignedDuration::from_hours(25));
    assert_eq!(
        names(&tomorrow, "server").await,
        ["com.a/changes 1.1.0", "com.a/falls-back 1.0.0", "com.a/new 0.1.0", "com.a/stays 1.0.0"]
    );
    assert!(server.requests()[0].contains("updated_since="), "{:?}", server.requests());
}

#[tokio::test]
async fn clocks_may_differ_by_ten_minutes() {
    let server = RegistryServer::start_with(vec![named("com.a/one", "", "server", "1")]);
    let client = client(&server);
    client.refresh(RefreshMode::Changes).await.unwrap();
    // Published before the first reading by the registry's clock, and not in it.
    server.publish_at(named("com.a/two", "", "server", "1"), Timestamp::now() - SignedDuration::from_mins(9));
    client.refresh(RefreshMode::Changes).await.unwrap();
    assert_eq!(names(&client, "server").await.len(), 2);
}

#[tokio::test]
async fn a_registry_without_meta_is_read_anew_after_a_week() {
    let server = RegistryServer::start_with(vec![
        named("com.a/one", "", "server", "1.9.0"),
        named("com.a/one", "", "server", "1.10.0"),
        named("com.a/two", "", "server", "1.0.0"),
    ]);
    server.leave_meta_out();
    let client = client(&server);
    client.refresh(RefreshMode::Changes).await.unwrap();
    assert_eq!(names(&client, "server").await, ["com.a/one 1.10.0", "com.a/two 1.0.0"]);
    server.erase("com.a/two");
    let day = client.clone().clock(|| Timestamp::now() + SignedDuration::from_hours(25));
    assert_eq!(names(&day, "server").await.len(), 2, "deletions are not reported");
    let week = client.clone().clock(|| Timestamp::now() + SignedDuration::from_hours(8 * 24));
    assert_eq!(names(&week, "server").await, ["com.a/one 1.10.0"]);
}

#[tokio::test]
async fn an_old_list_answers_without_a_connection() {
    let server = RegistryServer::start();
    let client = client(&server);
    client.refresh(RefreshMode::Changes).await.unwrap();
    drop(server);
    let later = client.clone().clock(|| Timestamp::now() + SignedDuration::from_hours(48));
    let found = later.search("clock", 10).await.unwrap();
    assert_eq!(found.value.total, 2);
    assert!(found.age >= Duration::from_secs(47 * 3600));
    assert!(matches!(found.offline, Some(RegistryError::Offline { .. })));
    let entry = later.entry("io.github.rivermill/clock-py", None).await.unwrap();
    assert_eq!((entry.value.version.as_str(), entry.offline.is_some()), ("1.0.6", true));
    assert!(later.entry("io.github.rivermill/clock-py", Some("9.9.9")).await.is_err());
}

#[tokio::test]
async fn a_reading_that_fails_leaves_the_list_as_it_was() {
    let server = RegistryServer::start();
    let client = client(&server);
    server.set_fault(Some(RegistryFault::SameCursor));
    let error = client.refresh(RefreshMode::Everything).await.unwrap_err().to_string();
    assert!(error.contains("two pages have the same cursor"), "{error}");
    server.set_fault(Some(RegistryFault::EndlessPages));
    let error = client.refresh(RefreshMode::Everything).await.unwrap_err().to_string();
    assert!(error.contains("more than 500 pages"), "{error}");
    server.set_fault(None);
    client.refresh(RefreshMode::Everything).await.unwrap();
    server.set_fault(Some(RegistryFault::Status(503)));
    assert!(client.refresh(RefreshMode::Everything).await.is_err());
    assert_eq!(names(&client, "clock").await.len(), 2);
}

#[tokio::test]
async fn the_cache_is_a_file_that_may_be_damaged() {
    let server = RegistryServer::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("below/registry.db");
    let open = || RegistryClient::new(&server.url(), Some(file.clone())).unwrap();
    open().refresh(RefreshMode::Changes).await.unwrap();
    server.clear_requests();
    assert_eq!(names(&open(), "clock").await.len(), 2);
    assert_eq!(server.requests(), [] as [&str; 0], "another process reads the same file");
    // Another registry has its own list.
    let other = RegistryServer::start_with(vec![named("com.a/clock", "", "x", "1")]);
    let other_client = RegistryClient::new(&other.url(), Some(file.clone())).unwrap();
    assert_eq!(names(&other_client, "clock").await, ["com.a/clock 1"]);
    drop(other_client);
    std::fs::write(&file, "this is no database, and long enough to be read as one".repeat(50)).unwrap();
    assert_eq!(names(&open(), "clock").await.len(), 2);
    assert_eq!(server.requests().len(), 1, "the file was replaced, and the registry asked");
}

#[tokio::test]
async fn a_list_of_thousands_is_searched_quickly() {
    let many: Vec<Value> = (0..3000)
        .map(|number| {
            named(&format!("com.a{}/server-{number}", number % 50), "", "A server for tests", "1.0.0")
        })
        .collect();
    let server = RegistryServer::start_with(many);
    let client = client(&server);
    client.refresh(RefreshMode::Changes).await.unwrap();
    let found = client.search("server-2999", 5).await.unwrap();
    assert_eq!(found.value.entries[0].name, "com.a49/server-2999");
    assert_eq!(client.search("server", 5).await.unwrap().value.total, 3000);
}
