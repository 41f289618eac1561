//! Behaviours at the end of calls and connections.

use std::time::Duration;

use hospes::client::{CallError, Client};
use hospes::serde_json::json;

use super::client::connect;
use super::server::server;
use super::site::TestTransport;

/// Waits until `want` handlers hang, as `client` sees it.
async fn hanging(client: &Client, want: usize) {
    loop {
        let answer = client.call("hanging", ()).await.expect("an answer");
        if answer.all_text() == want.to_string() {
            return;
        }
        // Polled, because a dropped handler cannot notify anyone.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A cancelled call, or one that has timed out, stops at the server; other calls continue.
///
/// # Panics
/// When it is not so.
pub async fn cancelled_calls_stop(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    for revision in transport.revisions() {
        let client = connect(&site, *revision).await;
        let calls: Vec<_> = (0..3)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { client.call("hang", ()).await.map(drop) })
            })
            .collect();
        hanging(&client, 3).await;
        for (ended, call) in calls.into_iter().enumerate() {
            call.abort();
            hanging(&client, 2 - ended).await;
        }
        let late = client.call("hang", ()).timeout(Duration::from_millis(30)).await;
        assert!(matches!(late, Err(CallError::Timeout { .. })), "{revision}: {late:?}");
        hanging(&client, 0).await;
        let answer = client.call("echo", json!({ "text": "still here" })).await.expect("an answer");
        assert_eq!(answer.all_text(), "still here", "{revision}");
    }
}

/// Clients of several revisions use the server concurrently, and the end of some does not affect the others.
///
/// # Panics
/// When it is not so.
pub async fn clients_do_not_disturb_each_other(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    let clients = transport.revisions().iter().cycle().take(12).enumerate().map(|(number, revision)| {
        let site = &site;
        async move {
            let client = connect(site, *revision).await;
            for round in 0..10 {
                let text = format!("{number} {round}");
                let answer = client.call("echo", json!({ "text": text })).await.expect("an answer");
                assert_eq!(answer.all_text(), text);
                if round == 5 && number % 3 == 0 {
                    return client.close().await;
                }
            }
        }
    });
    futures::future::join_all(clients).await;
}

/// When the client closes the connection, its calls fail immediately and stop at the server.
///
/// # Panics
/// When it is not so.
pub async fn the_clients_end_ends_its_calls<T: TestTransport>(transport: &T) {
    let site = transport.serve(server()).await;
    for revision in transport.revisions() {
        let (client, other) = (connect(&site, *revision).await, connect(&site, *revision).await);
        let calling = client.clone();
        let call = tokio::spawn(async move { calling.call("hang", ()).await });
        // If each client has its own server, only the client itself reaches the server in which its call hangs.
        hanging(if T::SHARED { &other } else { &client }, 1).await;
        client.close().await;
        call.await.expect("no panic").expect_err("the connection was closed");
        client.call("echo", json!({ "text": "" })).await.expect_err("the connection was closed");
        if T::SHARED {
            hanging(&other, 0).await;
        }
        let answer = other.call("echo", json!({ "text": "other" })).await.expect("an answer");
        assert_eq!(answer.all_text(), "other", "{revision}");
    }
}

/// When the server ends, pending calls fail, and so do later ones.
///
/// # Panics
/// When it is not so.
pub async fn the_servers_end_fails_what_waits<T: TestTransport>(transport: &T) {
    // If each client has its own server, dropping the site does not end the one that the client uses.
    if !T::SHARED {
        return;
    }
    for revision in transport.revisions() {
        let site = transport.serve(server()).await;
        let client = connect(&site, *revision).await;
        let calling = client.clone();
        let call = tokio::spawn(async move { calling.call("hang", ()).await });
        hanging(&client, 1).await;
        drop(site);
        call.await.expect("no panic").expect_err("the server is gone");
        client.call("echo", json!({ "text": "" })).await.expect_err("the server is gone");
    }
}
