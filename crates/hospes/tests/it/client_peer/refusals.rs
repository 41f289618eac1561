//! An older application behind an older server: what it refuses to answer is the server's to deal with.

use std::time::Duration;

use hospes::client::CallError;
use hospes::model::{CallToolResult, ElicitResult, ElicitationCapability, RpcError};
use hospes::transport::{memory, stdio_server::StdioServer};
use tokio::task::JoinHandle;

use super::*;

const OLDER: Revision = Revision::V2025_06_18;

fn form(message: &str) -> Value {
    json!({ "message": message, "requestedSchema": { "type": "object", "properties": {} } })
}

/// Connects an application to a scripted server through a forwarding client. The server answers no call by itself.
async fn chain(application: ClientBuilder) -> (Client, Client, Peer) {
    let capabilities = hospes::model::ClientCapabilities::new();
    let capabilities = capabilities.with_elicitation(ElicitationCapability::new());
    let (between, peer) = Peer::connect(Client::builder().capabilities(capabilities), OLDER, |_| None).await;
    let front = StdioServer::new(between.clone()).question_timeout(Duration::from_secs(60));
    let (read, write) = tokio::io::split(memory::serve_with(front));
    let application = application.revision(OLDER).timeout(Duration::from_secs(600)).over(read, write);
    (application.await.unwrap(), between, peer)
}

fn calling(application: &Client) -> JoinHandle<Result<CallToolResult, CallError>> {
    let application = application.clone();
    tokio::spawn(async move { application.call("work", ()).await })
}

/// Builder whose handler accepts, refuses with an error or does not answer, depending on the question.
fn person() -> ClientBuilder {
    Client::builder().elicitation(|params| async move {
        let hospes::model::ElicitParams::Form(form) = params else { panic!("no form") };
        match form.message.as_str() {
            "yes" => Ok(ElicitResult::accept(json!({}).into())),
            "no" => Err(RpcError::new(-31000, "nobody is here").into()),
            _ => std::future::pending().await,
        }
    })
}

async fn answer(peer: &Peer, id: &str) -> Value {
    peer.wait(1, |message| message["id"] == id && message.get("method").is_none()).await.remove(0)
}

async fn finish(peer: &Peer, calling: JoinHandle<Result<CallToolResult, CallError>>) {
    let called = peer.wait_for(1, "tools/call").await.remove(0);
    let done = json!({ "content": [{ "type": "text", "text": "done" }] });
    peer.say(&json!({ "jsonrpc": "2.0", "id": called["id"], "result": done })).await;
    assert_eq!(calling.await.unwrap().unwrap().all_text(), "done");
    assert_eq!((peer.count("tools/call"), peer.count("notifications/cancelled")), (1, 0));
}

/// A question asked between calls was sent with the next call. That call failed when the application refused the
/// question.
#[tokio::test(start_paused = true)]
async fn a_refused_question_does_not_fail_the_call_it_came_along_with() {
    let (application, between, peer) = chain(person()).await;
    peer.say(&json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form("no") }))
        .await;
    settle().await;
    assert_eq!(between.parked_calls(), 1);
    let calling = calling(&application);
    let answer = answer(&peer, "q").await;
    assert_eq!(answer["error"], json!({ "code": -31000, "message": "nobody is here" }));
    finish(&peer, calling).await;
}

#[tokio::test(start_paused = true)]
async fn of_several_questions_each_gets_its_own_answer() {
    let (application, _between, peer) = chain(person()).await;
    let calling = calling(&application);
    peer.wait_for(1, "tools/call").await;
    for message in ["no", "yes", "what?"] {
        let params = form(message);
        peer.say(
            &json!({ "jsonrpc": "2.0", "id": message, "method": "elicitation/create", "params": params }),
        )
        .await;
    }
    assert_eq!(answer(&peer, "no").await["error"]["code"], -31000);
    assert_eq!(answer(&peer, "yes").await["result"]["action"], "accept");
    // Whoever says nothing is not waited for for ever.
    let silence = answer(&peer, "what?").await;
    assert!(silence["error"]["message"].as_str().unwrap().contains("setting question_timeout"), "{silence}");
    finish(&peer, calling).await;
}
