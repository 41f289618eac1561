//! Calls without a transport.

mod arguments;
mod changes;
mod complete;
mod discover;
mod lists;
mod prompts;
mod resources;
mod rules;
mod template;
mod tools;
mod wire;

use std::sync::Arc;

use hospes_model::{ClientCapabilities, Method, RawJson, Revision, RpcError, ServerStamp};
use serde_json::Value;

use crate::server::Server;
use crate::{Call, Context, Outcome, Peer, Service};

fn peer(revision: Revision) -> Arc<Peer> {
    Arc::new(Peer::new(revision, None, ClientCapabilities::new()))
}

fn context() -> Context {
    Context::new(peer(Revision::LATEST))
}

async fn outcome(server: &impl Service, method: &str, params: Value) -> Outcome {
    server.call(Call::new(Method::from_name(method), RawJson::from(params), context())).await
}

/// The result as a peer of the newest revision reads it.
async fn result(server: &impl Service, method: &str, params: Value) -> Value {
    match outcome(server, method, params).await {
        Outcome::Complete(reply) => {
            let mut bytes = Vec::new();
            let stamp = ServerStamp::anonymous();
            reply.encode(&Method::from_name(method), Revision::LATEST, &stamp, &mut bytes).unwrap();
            serde_json::from_slice(&bytes).unwrap()
        }
        other => panic!("{method} gave {other:?}"),
    }
}

async fn error(server: &impl Service, method: &str, params: Value) -> RpcError {
    match outcome(server, method, params).await {
        Outcome::Failed(error) => error,
        other => panic!("{method} gave {other:?}"),
    }
}

/// Calls a tool and gives its text and whether it failed.
async fn tool(server: &Server, name: &str, arguments: Value) -> (String, bool) {
    let params = serde_json::json!({ "name": name, "arguments": arguments });
    let result = result(server, "tools/call", params).await;
    let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    (text, result["isError"] == Value::Bool(true))
}

/// The message of the panic that building something ends in, and that it names this test's file: the caller's line.
fn refusal<T>(file: &str, build: impl FnOnce() -> T) -> String {
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    // The hook is the process's, and tests may share one.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    thread_local!(static PLACE: RefCell<String> = const { RefCell::new(String::new()) });
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(|place| place.file().to_owned()).unwrap_or_default();
        PLACE.with_borrow_mut(|kept| *kept = place);
    }));
    let panic = catch_unwind(AssertUnwindSafe(build)).err().expect("it should have been refused");
    std::panic::set_hook(before);
    drop(alone);
    assert_eq!(PLACE.with_borrow(Clone::clone), file, "the panic is not at the caller's line");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}
