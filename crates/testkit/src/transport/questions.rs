//! Messages that are exchanged while a call runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hospes::model::{LoggingLevel, Notification, Revision, SubscriptionFilter};
use hospes::serde_json::json;

use super::behaviour::BEHAVIOUR_TIMEOUT;
use super::client::{client, connect};
use super::server::server;
use super::site::{TestTransport, TransportSite};

/// Every progress notification arrives, in order and before the response.
///
/// # Panics
/// When it is not so.
pub async fn progress_precedes_the_answer(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    for revision in transport.revisions() {
        let client = connect(&site, *revision).await;
        let heard = Mutex::new(Vec::new());
        let call = client
            .call("count", json!({ "count": 100 }))
            .on_progress(|report| heard.lock().expect("no panic").push(report.progress));
        assert_eq!(call.await.expect("an answer").all_text(), "counted", "{revision}");
        let want: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(*heard.lock().expect("no panic"), want, "{revision}");
    }
}

/// Log messages of a call arrive in order and before its response.
///
/// # Panics
/// When it is not so.
pub async fn log_messages_precede_the_answer(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    for revision in transport.revisions() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&heard);
        let listening = client().revision(*revision).on_log(move |message| {
            lines.lock().expect("no panic").push(message.data.as_str().to_owned());
        });
        let client = site.connect(listening).await.expect("a client");
        client.set_log_level(LoggingLevel::Info).await.expect("log messages are offered");
        let answer = client.call("log", json!({ "count": 50 })).await.expect("an answer");
        assert_eq!(answer.all_text(), "logged", "{revision}");
        let want: Vec<String> = (0..50).map(|line| line.to_string()).collect();
        assert_eq!(*heard.lock().expect("no panic"), want, "{revision}");
    }
}

/// Requests of the server reach the client, and the responses reach the handler: sampling, roots and elicitation.
///
/// # Panics
/// When it is not so.
pub async fn questions_are_answered(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    for revision in transport.revisions() {
        let client = connect(&site, *revision).await;
        let thought = client.call("think", ()).await.expect("an answer");
        assert_eq!(thought.all_text(), "1 messages", "{revision}");
        let seen = client.call("look", ()).await.expect("an answer");
        assert_eq!(seen.all_text(), "file:///srv", "{revision}");
        if *revision >= Revision::V2025_06_18 {
            let name = client.call("ask", json!({ "text": "it" })).await.expect("an answer");
            assert_eq!(name.all_text(), "name it", "{revision}");
        }
    }
}

/// If many calls send many requests concurrently, each response goes to the call that asked.
///
/// # Panics
/// When it is not so.
pub async fn questions_find_their_callers(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    for revision in transport.revisions().iter().filter(|revision| **revision >= Revision::V2025_06_18) {
        let client = connect(&site, *revision).await;
        let calls = (0..24).map(|number| {
            let client = &client;
            async move {
                let text = format!("number {number}");
                let answer = client.call("ask", json!({ "text": text })).await.expect("an answer");
                assert_eq!(answer.all_text(), format!("name {text}"), "{revision}");
            }
        });
        futures::future::join_all(calls).await;
    }
}

/// A client that subscribes to changes is notified.
///
/// # Panics
/// When it is not so.
pub async fn changes_are_heard(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    for revision in transport.revisions() {
        let client = connect(&site, *revision).await;
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = true;
        let mut subscription = client.listen(filter).await.expect("changes can be heard of");
        // In the older revisions no message tells when the subscription takes effect.
        let change = async {
            loop {
                for tool in ["grow", "shrink"] {
                    client.call(tool, ()).await.expect("an answer");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        // Half of the whole limit, so that this behaviour's own message is seen.
        tokio::select! {
            () = change => {}
            heard = subscription.next() => assert_eq!(heard, Some(Notification::ToolsListChanged), "{revision}"),
            () = tokio::time::sleep(BEHAVIOUR_TIMEOUT / 2) => panic!("{revision}: nothing was heard"),
        }
        // The other branch may have ended between the two calls, and the next revision starts without the tool.
        client.call("shrink", ()).await.expect("an answer");
    }
}
