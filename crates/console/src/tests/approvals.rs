//! A person decides at the console about a call that an application makes.

use hospes::client::CallError;
use hospes_host::approvals::ViewerRegistration;
use tokio::task::JoinHandle;

use super::*;

/// An application that cannot ask its person anything.
async fn calling(house: &House, arguments: Value) -> JoinHandle<Result<CallToolResult, CallError>> {
    house.ready().await;
    let client = hospes::client::Client::builder().in_memory(house.host.gateway()).await.unwrap();
    tokio::spawn(async move { client.call("notes__write", arguments).await })
}

/// The approval that waits, once it does.
async fn waiting(house: &House, browser: &Browser) -> Value {
    let mut changes = house.host.guard().unwrap().approvals().subscribe();
    let look = async {
        loop {
            changes.mark_unchanged();
            let all = browser.get("/api/approvals").await.json();
            if let Some(approval) = all["open"].get(0) {
                return approval.clone();
            }
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(LIMIT, look).await.expect("it is asked about")
}

fn path(approval: &Value) -> String {
    format!("/api/approvals/{}", approval["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_call_waits_for_the_console_and_goes_as_it_was_edited() {
    let house = House::new().await;
    let browser = house.browser().await;
    let _there = attended(&house);
    let call = calling(&house, json!({ "path": "/a", "text": "x" })).await;
    let approval = waiting(&house, &browser).await;
    assert_eq!(approval["card"]["kind"], "call");
    assert_eq!(approval["card"]["arguments"], json!({ "path": "/a", "text": "x" }));
    assert_eq!(approval["card"]["input_schema"]["properties"]["path"]["type"], "string");
    let said = &approval["sentence"];
    assert_eq!((&said["verb"], &said["targets"]), (&json!("write"), &json!(["/a"])), "{said}");
    assert_eq!(said["amount"], "1 line, 1 byte");
    assert_eq!(approval["content"]["kind"], "write");
    let signs = browser.get(&format!("{}/signs", path(&approval))).await.json();
    assert_eq!(signs["signs"], json!(["First call of write of notes"]));
    // The folders of this server are not known, so nothing of the disk is shown.
    let file = browser.get(&format!("{}/file", path(&approval))).await.json();
    assert_eq!(file["state"], "unreadable", "{file}");
    let wrong = json!({ "decision": "allow", "edited": { "path": 7 } });
    assert_eq!(browser.post(&path(&approval), wrong).await.code(), "edit");
    for nonsense in [json!({}), json!({ "decision": "maybe" }), json!({ "decision": "allow", "x": 1 })] {
        assert_eq!(browser.post(&path(&approval), nonsense).await.code(), "misread");
    }
    let right = json!({ "decision": "allow", "edited": { "path": "/b", "text": "xyz" } });
    let decided = browser.post(&path(&approval), right.clone()).await.json();
    assert_eq!(decided["state"], "allowed");
    let by = decided["decided"]["by"].as_str().unwrap();
    assert!(by.starts_with("the person at the console, browser session "), "{by}");
    assert_eq!(browser.post(&path(&approval), right).await.code(), "over");
    let result = tokio::time::timeout(LIMIT, call).await.unwrap().unwrap().unwrap();
    assert_eq!(result.all_text(), "3 bytes are in /b");
}

#[tokio::test]
async fn a_no_is_told_with_its_reason_and_may_last() {
    let house = House::new().await;
    let browser = house.browser().await;
    let _there = attended(&house);
    let call = calling(&house, json!({ "path": "/a", "text": "x" })).await;
    let approval = waiting(&house, &browser).await;
    let no = json!({ "decision": "deny", "reason": "not on a Sunday", "block": true });
    assert_eq!(browser.post(&path(&approval), no).await.json()["state"], "denied");
    let result = tokio::time::timeout(LIMIT, call).await.unwrap().unwrap().unwrap();
    assert!(result.is_error == Some(true) && result.all_text().contains("not on a Sunday"), "{result:?}");
    let grants = browser.get("/api/grants").await.json();
    assert_eq!(
        (&grants["grants"][0]["effect"], &grants["grants"][0]["name"]),
        (&json!("deny"), &json!("write"))
    );
    let again = tokio::time::timeout(LIMIT, calling(&house, json!({ "path": "/a", "text": "x" })).await);
    let again = again.await.unwrap().unwrap().unwrap();
    assert_eq!(again.is_error, Some(true), "it is denied without asking");
    let id = grants["grants"][0]["id"].as_str().unwrap();
    assert_eq!(browser.post(&format!("/api/grants/{id}/revoke"), json!({})).await.status, 200);
    assert_eq!(browser.get("/api/grants").await.json()["grants"], json!([]));
    assert_eq!(browser.post(&format!("/api/grants/{id}/revoke"), json!({})).await.code(), "nothing");
    // Each decision is in the record, newest first, as it was made.
    let recorded = browser.get("/api/activity?kind=decision").await.json();
    let word = |at: usize, name: &str| recorded["entries"][at]["entry"][name].as_str().unwrap().to_owned();
    assert_eq!(
        (word(0, "decision"), word(1, "decision"), word(1, "scope")),
        ("revoke".into(), "deny".into(), "block".into())
    );
    assert_eq!(
        (word(1, "subject"), word(1, "matter")),
        ("write".into(), approval["id"].as_str().unwrap().into())
    );
}

#[tokio::test]
async fn a_lasting_permission_holds_within_its_rule() {
    // Of what may destroy, "always" is offered only where a rule asks.
    let house = House::with(SessionLifetimes::default(), "[[rule]]\ndecide = 'ask'\ntool = 'write'").await;
    let browser = house.browser().await;
    let _there = attended(&house);
    let call = calling(&house, json!({ "path": "/srv/a", "text": "x" })).await;
    let approval = waiting(&house, &browser).await;
    let wrong = json!({ "decision": "allow", "scope": { "always": { "arguments": { "path": { "undre": "/srv" } } } } });
    assert_eq!(browser.post(&path(&approval), wrong).await.code(), "rule");
    let always = json!({ "decision": "allow", "scope": { "always": { "arguments": { "path": { "under": "/srv" } } } } });
    assert_eq!(browser.post(&path(&approval), always).await.status, 200);
    assert_ne!(tokio::time::timeout(LIMIT, call).await.unwrap().unwrap().unwrap().is_error, Some(true));
    let unasked = calling(&house, json!({ "path": "/srv/b", "text": "xy" })).await;
    let unasked = tokio::time::timeout(LIMIT, unasked).await.expect("nobody is asked").unwrap().unwrap();
    assert_eq!(unasked.all_text(), "2 bytes are in /srv/b");
    let outside = calling(&house, json!({ "path": "/etc/b", "text": "xy" })).await;
    assert_eq!(waiting(&house, &browser).await["card"]["arguments"]["path"], "/etc/b");
    outside.abort();
}

#[tokio::test]
async fn the_rules_are_shown_in_words() {
    let policy = "trusted = ['git']\n[[rule]]\ndecide = 'deny'\nname = 'no keys'\ntool = 'read_*'\narguments.path = { under = '/private' }";
    let house = House::with(SessionLifetimes::default(), policy).await;
    let rules = house.browser().await.get("/api/rules").await.json();
    assert_eq!((&rules["hasPolicy"], &rules["trusted"]), (&json!(true), &json!(["git"])));
    let rule = &rules["rules"][0];
    assert_eq!(
        (&rule["decide"], &rule["name"], &rule["line"]),
        (&json!("deny"), &json!("no keys"), &json!(2))
    );
    assert_eq!(rule["conditions"][0], json!(["tool", "`read_*`"]));
    assert!(rule["conditions"][1][1].as_str().unwrap().contains("/private"), "{rule}");
}

/// Reports a person as present, as the console does soon after a browser has signed in.
fn attended(house: &House) -> ViewerRegistration {
    house.host.guard().unwrap().approvals().register_viewer(None)
}
