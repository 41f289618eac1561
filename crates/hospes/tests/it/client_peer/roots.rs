//! The folders that the server may work in.

use std::time::Duration;

use hospes::client::Client;
use hospes::model::Revision;
use serde_json::{Value, json};

use crate::client_peer::Peer;

fn names(answer: &Value) -> Vec<&str> {
    answer["result"]["roots"].as_array().unwrap().iter().map(|root| root["name"].as_str().unwrap()).collect()
}

/// covers: ROOT-11 ROOT-18 ROOT-03
#[tokio::test(start_paused = true)]
async fn a_folder_that_goes_or_comes_back_is_noticed() {
    for revision in Revision::ALL.into_iter().filter(|revision| revision.is_legacy()) {
        let folder = tempfile::tempdir().unwrap();
        let (stays, goes) = (folder.path().join("stays"), folder.path().join("goes"));
        std::fs::create_dir(&stays).unwrap();
        std::fs::create_dir(&goes).unwrap();
        let builder = Client::builder().roots([&stays, &goes]);
        let (client, peer) = Peer::connect(builder, revision, |_| None).await;
        assert_eq!(names(&peer.ask("1", "roots/list", json!({})).await), ["stays", "goes"], "{revision}");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(peer.count("notifications/roots/list_changed"), 0);
        std::fs::remove_dir(&goes).unwrap();
        // Nobody has to wait until that is noticed.
        assert_eq!(names(&peer.ask("2", "roots/list", json!({})).await), ["stays"]);
        peer.wait_for(1, "notifications/roots/list_changed").await;
        std::fs::create_dir(&goes).unwrap();
        peer.wait_for(2, "notifications/roots/list_changed").await;
        assert_eq!(names(&peer.ask("3", "roots/list", json!({})).await), ["stays", "goes"]);
        // What the application changes is told at once.
        client.set_roots([&stays]);
        peer.wait_for(3, "notifications/roots/list_changed").await;
        assert_eq!(names(&peer.ask("4", "roots/list", json!({})).await), ["stays"]);
    }
}

/// covers: ROOT-11 ROOT-17
#[tokio::test(start_paused = true)]
async fn a_modern_server_is_told_what_there_is_when_it_asks() {
    let folder = tempfile::tempdir().unwrap();
    let goes = folder.path().join("goes");
    std::fs::create_dir(&goes).unwrap();
    let (client, peer) = Peer::connect(Client::builder().roots([&goes]), Revision::LATEST, |message| {
        Some(match message["params"].get("inputResponses").is_some() {
            true => json!({ "resultType": "complete", "content": [] }),
            false => json!({ "resultType": "input_required", "inputRequests": { "r": { "method": "roots/list" } } }),
        })
    })
    .await;
    client.call("any", ()).await.unwrap();
    std::fs::remove_dir(&goes).unwrap();
    client.call("any", ()).await.unwrap();
    let calls = peer.wait_for(4, "tools/call").await;
    let told = [1, 3]
        .map(|call: usize| calls[call]["params"]["inputResponses"]["r"]["roots"].as_array().unwrap().len());
    assert_eq!(told, [1, 0]);
    assert_eq!(peer.count("notifications/roots/list_changed"), 0);
}

/// covers: ROOT-07
#[tokio::test(start_paused = true)]
async fn roots_that_cannot_be_had_are_an_internal_error() {
    for revision in Revision::ALL.into_iter().filter(|revision| revision.is_legacy()) {
        // Whoever has them is somebody else, and does not come.
        let capabilities = serde_json::from_value(json!({ "roots": {} })).unwrap();
        let builder = Client::builder().capabilities(capabilities).park_timeout(Duration::from_secs(5));
        let (_client, peer) = Peer::connect(builder, revision, |_| None).await;
        let answer = peer.ask("1", "roots/list", json!({})).await;
        assert_eq!(answer["error"]["code"], -32603, "{revision}: {answer}");
        // One after the other, and too many at once.
        for id in 0..20 {
            let id = format!("n{id}");
            peer.say(&json!({ "jsonrpc": "2.0", "id": id, "method": "roots/list" })).await;
        }
        let refused = peer.wait(21, |message| message.get("error").is_some()).await;
        assert!(refused.iter().all(|answer| answer["error"]["code"] == -32603), "{revision}: {refused:?}");
    }
}
