//! Accounts of users at a server behind the gateway, over real sockets from the application to the server.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod asked;
mod browser;
mod given_up;
mod known;
mod links;
mod raw;
mod site;

use std::sync::Arc;

use hospes::client::Client;
use hospes_model::{CallToolResult, ElicitAction, ElicitParams, ElicitResult, Revision};
use hospes_oauth::StoredTokens as Tokens;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;

use browser::PATIENCE;
use site::{Gate, Kept, Site};

/// Those in which an application can be asked to go to a URL.
pub(crate) const ASKING: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

pub(crate) async fn call(client: &Client, tool: &str) -> CallToolResult {
    tokio::time::timeout(PATIENCE, client.call(tool, json!({}))).await.expect("no answer").unwrap()
}

pub(crate) async fn says(client: &Client, tool: &str) -> String {
    call(client, tool).await.all_text()
}

async fn tools(client: &Client) -> Vec<String> {
    client.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

/// covers: ELIC-18 ELIC-24 ELIC-25 ELIC-33 ELIC-34
#[tokio::test]
async fn a_user_connects_an_account_in_the_middle_of_a_call() {
    let site = Site::new().await;
    for revision in ASKING {
        let gate = Gate::new(&site).await;
        let (alice, pages) = gate.willing("alice", revision).await;
        assert_eq!(tools(&alice).await, ["site__connect_account"], "{revision}");
        assert_eq!(says(&alice, "site__whoami").await, "alice-there", "{revision}");
        let pages = pages.lock().clone();
        assert_eq!(pages.len(), 1, "{pages:?}");
        assert!(pages[0].text.contains("Your account is connected"), "{pages:?}");
        assert_eq!(tools(&alice).await, ["site__admin", "site__together", "site__whoami"], "{revision}");
        gate.stop().await;
    }
}

/// covers: ELIC-21
#[tokio::test]
async fn an_application_of_2025_11_25_is_told_when_its_user_is_done() {
    let site = Site::new().await;
    let gate = Gate::new(&site).await;
    let done: Arc<Notify> = Arc::default();
    let told = Arc::clone(&done);
    let (browser, asked_for) = (gate.browser("alice"), Arc::new(Mutex::new(String::new())));
    let id = Arc::clone(&asked_for);
    let builder = Client::builder()
        .revision(Revision::V2025_11_25)
        .elicitation_urls()
        .on_elicitation_complete(move |_| told.notify_one())
        .elicitation(move |asked| {
            let (mut browser, id) = (browser.clone(), Arc::clone(&id));
            async move {
                let ElicitParams::Url(asked) = asked else { panic!("a form") };
                *id.lock() = asked.elicitation_id.clone().unwrap();
                // The page stays open when the application already has its answer.
                tokio::spawn(async move { browser.agree(&asked.url).await });
                Ok(ElicitResult::new(ElicitAction::Accept))
            }
        });
    let alice = gate.application("alice", builder).await;
    assert_eq!(says(&alice, "site__whoami").await, "alice-there");
    assert!(!asked_for.lock().is_empty());
    tokio::time::timeout(PATIENCE, done.notified()).await.expect("nobody said that it is done");
}

/// covers: AUTR-11 AUT3-11
#[tokio::test]
async fn everybody_is_somebody_else_at_the_server_at_the_same_time_too() {
    let site = Site::new().await;
    let gate = Gate::new(&site).await;
    let mut applications = Vec::new();
    for revision in Revision::ALL {
        for name in ["alice", "bob"] {
            let (client, _) = match ASKING.contains(&revision) {
                true => gate.willing(name, revision).await,
                false => {
                    let builder = Client::builder().revision(revision);
                    (gate.application(name, builder).await, Arc::default())
                }
            };
            applications.push((name, client));
        }
    }
    // The first that can be asked connect for all the others.
    for (name, client) in applications.iter().rev().take(2) {
        assert_eq!(says(client, "site__whoami").await, format!("{name}-there"));
    }
    for _ in 0..5 {
        let calls = applications.iter().map(|(name, client)| async move {
            assert_eq!(says(client, "site__together").await, format!("{name}-there"));
            let read = client.read("site://me").await.unwrap();
            let text = serde_json::to_string(&read.contents).unwrap();
            assert!(text.contains(&format!("{name}-there")), "{name}: {text}");
            assert_eq!(tools(client).await.len(), 3);
        });
        futures::future::join_all(calls).await;
    }
    // Again, over connections that are new on both sides.
    for (name, client) in applications {
        client.close().await;
        let again = gate.application(name, Client::builder()).await;
        assert_eq!(says(&again, "site__whoami").await, format!("{name}-there"));
    }
    let heard = site.heard.lock().clone();
    assert!(!heard.is_empty() && heard.iter().all(|shown| !shown.contains("token-of-")), "{heard:?}");
}

/// covers: HOST-06
#[tokio::test]
async fn what_one_user_has_nobody_else_is_shown() {
    let site = Site::new().await;
    let gate = Gate::new(&site).await;
    for revision in ASKING {
        let (alice, _) = gate.willing("alice", revision).await;
        let bob = gate.application("bob", Client::builder().revision(revision)).await;
        assert_eq!(says(&alice, "site__whoami").await, "alice-there");
        assert_eq!(tools(&alice).await.len(), 3);
        assert_eq!(tools(&bob).await, ["site__connect_account"]);
        let refused = call(&bob, "site__whoami").await;
        assert_eq!(refused.is_error, Some(true), "{refused:?}");
        assert!(bob.read("site://me").await.is_err());
        // Not by a program either, which is nobody who could sign in.
        let robot = gate.application("robot", Client::builder().revision(revision)).await;
        assert!(tools(&robot).await.is_empty());
        for tool in ["site__whoami", "site__connect_account"] {
            let refused = robot.call(tool, json!({})).await;
            assert!(format!("{refused:?}").contains("unknown tool"), "{refused:?}");
        }
        let status = bob.read("hospes://status").await.unwrap();
        let status = serde_json::to_string(&status.contents).unwrap();
        assert!(!status.contains("alice") && !status.contains("/connect/"), "{status}");
    }
}

#[tokio::test]
async fn an_application_hears_that_its_user_has_connected() {
    let site = Site::new().await;
    let gate = Gate::new(&site).await;
    for (name, revision) in ["alice", "bob"].into_iter().zip(ASKING) {
        let changed: Arc<Notify> = Arc::default();
        let told = Arc::clone(&changed);
        let builder = Client::builder().revision(revision).on_list_changed(move |_| told.notify_one());
        let watching = gate.application(name, builder).await;
        assert_eq!(tools(&watching).await, ["site__connect_account"]);
        let said = says(&watching, "site__connect_account").await;
        let page = gate.browser(name).agree(&gate.link(&said)).await;
        assert_eq!(page.status, 200, "{page:?}");
        tokio::time::timeout(PATIENCE, changed.notified())
            .await
            .expect("nobody said that the list has changed");
        assert_eq!(tools(&watching).await.len(), 3);
        assert!(says(&watching, "site__connect_account").await.contains("is connected"));
    }
}

/// covers: ELIC-03
#[tokio::test]
async fn who_cannot_be_asked_is_told_where_to_go() {
    let site = Site::new().await;
    for revision in Revision::ALL {
        let gate = Gate::new(&site).await;
        let alice = gate.application("alice", Client::builder().revision(revision)).await;
        let refused = call(&alice, "site__whoami").await;
        assert_eq!(refused.is_error, Some(true), "{revision}: {refused:?}");
        let link = gate.link(&refused.all_text());
        // As long as it is good it stays the same.
        assert_eq!(gate.link(&says(&alice, "site__connect_account").await), link);
        let done = gate.browser("alice").agree(&link).await;
        assert!(done.text.contains("Your account is connected"), "{done:?}");
        let answered = async {
            while says(&alice, "site__whoami").await != "alice-there" {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, answered).await.expect("it does not go on");
        gate.stop().await;
    }
}

/// covers: ELIC-06
#[tokio::test]
async fn a_user_who_does_not_want_to_is_not_asked_twice_in_a_call() {
    let site = Site::new().await;
    let gate = Gate::new(&site).await;
    for revision in ASKING {
        for action in [ElicitAction::Decline, ElicitAction::Cancel] {
            let said = action.clone();
            let builder = Client::builder().revision(revision).elicitation_urls().elicitation(move |_| {
                let said = said.clone();
                async move { Ok(ElicitResult::new(said)) }
            });
            let alice = gate.application("alice", builder).await;
            let refused = call(&alice, "site__whoami").await;
            assert_eq!(refused.is_error, Some(true));
            assert!(refused.all_text().contains("declined to connect an account"), "{refused:?}");
        }
    }
}

/// covers: AUTC-42 AUTC-45
#[tokio::test]
async fn a_tool_that_needs_more_asks_for_more() {
    let site = Site::new().await;
    for revision in ASKING {
        let gate = Gate::new(&site).await;
        let (alice, pages) = gate.willing("alice", revision).await;
        assert_eq!(says(&alice, "site__whoami").await, "alice-there");
        let said = says(&alice, "site__admin").await;
        assert_eq!(said, "alice-there", "{revision}: {:?}", pages.lock().last());
        assert_eq!(pages.lock().len(), 2, "{revision}");
        assert_eq!(says(&alice, "site__admin").await, "alice-there");
        assert_eq!(pages.lock().len(), 2, "{revision}");
        gate.stop().await;
    }
}

#[tokio::test]
async fn accounts_outlive_the_host_and_end_with_their_users() {
    let site = Site::new().await;
    let kept = Kept::new();
    let gate = Gate::with(&site, &kept, "127.0.0.1:0", |accounts| accounts).await;
    let address = gate.origin.trim_start_matches("http://").to_owned();
    for name in ["alice", "bob"] {
        let (client, _) = gate.willing(name, Revision::LATEST).await;
        assert_eq!(says(&client, "site__whoami").await, format!("{name}-there"));
        client.close().await;
    }
    gate.stop().await;
    let gate = Gate::with(&site, &kept, &address, |accounts| accounts).await;
    for name in ["bob", "alice"] {
        // It cannot be asked, and need not.
        let client = gate.application(name, Client::builder()).await;
        assert_eq!(says(&client, "site__whoami").await, format!("{name}-there"));
    }
    let known = Tokens::all(&*kept.store).unwrap();
    let mut users: Vec<String> = known.iter().map(|one| one.account.clone()).collect();
    users.sort();
    assert_eq!(users, ["alice", "bob"].map(|name| format!("{} user {name}", gate.origin)));
    assert!(known.iter().all(|one| one.endpoint == site.url()));

    assert_eq!(gate.accounts.forget_users("http://elsewhere", |_| false).unwrap(), 0);
    assert_eq!(gate.accounts.forget_users(&gate.origin, |user| user == "alice").unwrap(), 1);
    let bob = gate.application("bob", Client::builder()).await;
    let refused = async {
        while call(&bob, "site__whoami").await.is_error != Some(true) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("what was forgotten is still used");
    let alice = gate.application("alice", Client::builder()).await;
    assert_eq!(says(&alice, "site__whoami").await, "alice-there");
}
