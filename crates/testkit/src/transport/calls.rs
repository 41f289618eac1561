//! Guarantees for calls.

use hospes::client::CallError;
use hospes::model::Revision;
use hospes::serde_json::json;

use super::client::{client, connect};
use super::server::{MEETING_SIZE, server};
use super::site::{TestTransport, TransportSite};

/// A client of every revision finds the server, and one that leaves the choice open speaks the newest.
///
/// # Panics
/// When it is not so.
pub async fn revisions_are_agreed_on(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    for revision in transport.revisions() {
        let client = connect(&site, *revision).await;
        assert_eq!(client.revision(), *revision);
        assert_eq!(client.server_info().map(|info| &*info.name), Some("suite"), "{revision}");
        let tools = client.tools().all().await.expect("a list of tools");
        assert!(tools.iter().any(|tool| tool.name == "echo"), "{revision}: {tools:?}");
        client.ping().await.expect("the server is there");
        client.close().await;
    }
    let client = site.connect(client()).await.expect("a client");
    assert_eq!(Some(&client.revision()), transport.revisions().iter().max());
}

/// Results, failures of tools and errors are distinguished and returned unchanged, whatever text they contain.
///
/// # Panics
/// When it is not so.
pub async fn calls_find_their_answers(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    for revision in transport.revisions() {
        let client = connect(&site, *revision).await;
        let texts = [
            "",
            "plain",
            "\r\n \n\u{2028}\u{85}",
            "\"\\\u{0}\u{7f}",
            "日本 \u{1f980} e\u{301}",
            "data: x\n\n",
        ];
        for text in texts {
            let answer = client.call("echo", json!({ "text": text })).await.expect("an answer");
            assert_eq!(answer.all_text(), text, "{revision}");
        }
        let failed = client.call("fail", ()).await.expect("a result");
        assert_eq!((failed.has_failed(), failed.all_text().contains("as asked")), (true, true), "{revision}");
        let refused = client.call("nothing of the kind", ()).await.expect_err("no such tool");
        assert_eq!(refused.rpc().map(|error| error.code), Some(-32602), "{revision}: {refused}");
    }
}

/// Calls of one client run concurrently, and each gets its own response.
///
/// # Panics
/// When it is not so.
pub async fn calls_run_at_once(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    for revision in transport.revisions() {
        let client = connect(&site, *revision).await;
        let echoes = (0..200).map(|number| {
            let client = &client;
            async move {
                let text = format!("{number}{}", "x".repeat(number * 7));
                let answer = client.call("echo", json!({ "text": text })).await.expect("an answer");
                assert_eq!(answer.all_text(), text, "{revision}");
            }
        });
        // None of these ends before all of them run.
        let meetings = (0..MEETING_SIZE).map(|_| async {
            let met = client.call("meet", ()).await.expect("an answer");
            assert_eq!(met.all_text(), "met", "{revision}");
        });
        futures::join!(futures::future::join_all(echoes), futures::future::join_all(meetings));
    }
}

/// Messages of more than a megabyte arrive as they were sent, in both directions, between others.
///
/// # Panics
/// When it is not so.
pub async fn large_messages_arrive_whole(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    for revision in transport.revisions() {
        let client = connect(&site, *revision).await;
        // At the sizes that buffers usually have, and over a megabyte.
        let sizes = [1, 8_191, 65_535, 65_536, 1_100_000, 3];
        let calls = sizes.map(|size| {
            let client = &client;
            async move {
                let mut text = "x".repeat(size);
                text.insert_str(size / 2, &"\"\\é\n".repeat(1000));
                let answer = client.call("echo", json!({ "text": text })).await.expect("an answer");
                assert!(answer.all_text() == text, "{revision}: {size} characters came back as others");
            }
        });
        futures::future::join_all(calls).await;
    }
}

/// A response over the client's limit fails only its own call, with an error that names the limit.
///
/// # Panics
/// When it is not so.
pub async fn answers_over_the_limit_fail_alone(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    for revision in transport.revisions() {
        let client = site.connect(client().revision(*revision).max_message_bytes(100_000)).await;
        let client = client.expect("a client");
        let (over, beside) =
            futures::join!(async { client.call("blob", json!({ "count": 200_000 })).await }, async {
                client.call("echo", json!({ "text": "beside" })).await
            },);
        let error = over.expect_err("an answer of 200,000 bytes where 100,000 were allowed");
        assert!(error.to_string().contains("max_message_bytes"), "{revision}: {error}");
        assert_eq!(beside.expect("an answer").all_text(), "beside", "{revision}");
        let within = client.call("blob", json!({ "count": 90_000 })).await.expect("an answer");
        assert_eq!(within.all_text().len(), 90_000, "{revision}");
    }
}

/// The `_meta` of a request reaches the handler unchanged; in 2026-07-28 with the revision and the client's
/// capabilities.
///
/// # Panics
/// When it is not so.
pub async fn metadata_travels_with_the_request(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    for revision in transport.revisions() {
        let client = connect(&site, *revision).await;
        let said = json!({ "deep": [1, null, "é"] });
        let answer: Result<_, CallError> = client.call("meta", ()).meta("example.com/trace", &said).await;
        let text = answer.expect("an answer").all_text();
        let meta: hospes::serde_json::Value = hospes::serde_json::from_str(&text).expect("JSON");
        assert_eq!(meta["example.com/trace"], said, "{revision}");
        let version = &meta["io.modelcontextprotocol/protocolVersion"];
        if *revision == Revision::V2026_07_28 {
            assert_eq!(version, revision.as_str());
            assert!(meta["io.modelcontextprotocol/clientCapabilities"]["elicitation"].is_object(), "{meta}");
        } else {
            assert!(version.is_null(), "{revision}: {meta}");
        }
    }
}
