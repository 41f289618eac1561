use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll, Wake, Waker};

use hospes_model::{Method, Notification, RawJson, Reply};
use serde_json::{Value, json};

use super::{context, error, result, tool};
use crate::server::{RegisterError, Server, ServerHandle};
use crate::{BoxService, Call, Exchange, ExchangeEvent, Outcome};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A `subscriptions/listen` under way.
struct Stream {
    exchange: Exchange,
    woken: Arc<Count>,
}

impl Stream {
    fn open(server: &Server, filter: &Value) -> Self {
        let params = RawJson::from(json!({ "notifications": filter }));
        let call = Call::new(Method::SubscriptionsListen, params, context());
        Self { exchange: Exchange::new(BoxService::new(server.clone()), call), woken: Arc::default() }
    }

    fn poll(&mut self) -> Poll<ExchangeEvent> {
        let waker = Waker::from(Arc::clone(&self.woken));
        Pin::new(&mut self.exchange).poll_event(&mut TaskContext::from_waker(&waker))
    }

    /// Returns the output that has not been read yet.
    fn read(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Poll::Ready(event) = self.poll() {
            all.push(match event {
                ExchangeEvent::Notify(Notification::SubscriptionsAcknowledged(params)) => {
                    format!("acknowledged {}", serde_json::to_string(&params.notifications).unwrap())
                }
                ExchangeEvent::Notify(Notification::ToolsListChanged) => "tools".into(),
                ExchangeEvent::Notify(Notification::PromptsListChanged) => "prompts".into(),
                ExchangeEvent::Notify(Notification::ResourcesListChanged) => "resources".into(),
                ExchangeEvent::Notify(Notification::ResourceUpdated(params)) => params.uri,
                ExchangeEvent::Done(Outcome::Complete(Reply::Listen(_))) => {
                    all.push("end".into());
                    return all;
                }
                other => panic!("{other:?}"),
            });
        }
        all
    }
}

fn server() -> Server {
    Server::new("x", "1")
        .tool("t", || async {})
        .prompt("p", || async { "p" })
        .resource("x://a", "a")
        .resource("x://b", "b")
        .resource_template("y://{id}", || async { "y" })
}

/// covers: SUBS-02 SUBS-03
#[test]
fn a_stream_begins_with_what_is_honoured_and_tells_nothing_else() {
    let server = server();
    let handle = server.handle();
    let mut stream = Stream::open(
        &server,
        &json!({ "toolsListChanged": true, "resourceSubscriptions": ["x://a", "y://7", "z://no", "x://a"] }),
    );
    assert_eq!(
        stream.read(),
        [r#"acknowledged {"toolsListChanged":true,"resourceSubscriptions":["x://a","y://7"]}"#]
    );
    handle.add_prompt("q", || async { "q" }).unwrap();
    handle.add_resource("x://c", "c").unwrap();
    handle.resource_updated("x://b");
    assert_eq!(stream.read(), Vec::<String>::new());
    handle.add_tool("u", || async {}).unwrap();
    handle.resource_updated("x://a");
    handle.resource_updated("y://7");
    assert_eq!(stream.read(), ["tools", "x://a", "y://7"]);
}

/// covers: SUBS-02 CAP-03
#[test]
fn what_is_not_declared_is_not_honoured() {
    let server = Server::new("x", "1").tool("t", || async {});
    let everything =
        json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true });
    assert_eq!(Stream::open(&server, &everything).read(), [r#"acknowledged {"toolsListChanged":true}"#]);
    assert_eq!(Stream::open(&server.unchanging(), &everything).read(), ["acknowledged {}"]);
}

/// covers: TOOL-10 PRM-20
#[test]
fn a_slow_listener_hears_of_each_change_once_and_of_none_too_late() {
    let server = server();
    let handle = server.handle();
    let mut stream = Stream::open(
        &server,
        &json!({ "toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["x://a", "x://b"] }),
    );
    stream.read();
    let before = stream.woken.0.load(Ordering::Relaxed);
    for n in 0..5000 {
        handle.add_tool(format!("t{n}"), || async {}).unwrap();
        handle.remove_tool(&format!("t{n}"));
        handle.resource_updated("x://b");
    }
    handle.add_prompt("q", || async { "q" }).unwrap();
    assert_eq!(stream.woken.0.load(Ordering::Relaxed), before + 1, "woken once for all of it");
    assert_eq!(stream.read(), ["tools", "prompts", "x://b"]);
    assert_eq!(stream.read(), Vec::<String>::new());
    handle.remove_tool("t");
    assert_eq!(stream.read(), ["tools"]);
}

#[test]
fn what_a_reader_takes_too_slowly_is_merged_not_queued() {
    let server = server();
    let handle = server.handle();
    let everything =
        json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true });
    let mut stream = Stream::open(&server, &everything);
    stream.read();
    for n in 0..50 {
        // Three things change for each that is read.
        handle.add_tool(format!("t{n}"), || async {}).unwrap();
        handle.add_prompt(format!("p{n}"), || async { "p" }).unwrap();
        handle.add_resource(format!("x://{n}"), "r").unwrap();
        assert!(matches!(stream.poll(), Poll::Ready(ExchangeEvent::Notify(_))));
    }
    let left = stream.read();
    assert!(left.len() <= 5, "{left:?}");
    assert!(left.iter().any(|last| last == "tools"), "the last change is heard of: {left:?}");
}

#[test]
fn a_listener_that_is_dropped_is_forgotten() {
    let server = server();
    let handle = server.handle();
    let mut streams: Vec<Stream> = (0..10)
        .map(|_| {
            Stream::open(&server, &json!({ "toolsListChanged": true, "resourceSubscriptions": ["x://a"] }))
        })
        .collect();
    streams.iter_mut().for_each(|stream| assert_eq!(stream.read().len(), 1));
    assert_eq!(handle.listeners(), 10);
    streams.truncate(5);
    assert_eq!(handle.listeners(), 5);
    handle.resource_updated("x://a");
    streams.iter_mut().for_each(|stream| assert_eq!(stream.read(), ["x://a"]));
    let mut late = Stream::open(&server, &json!({ "promptsListChanged": true }));
    late.read();
    handle.resource_updated("x://a");
    assert_eq!(late.read(), Vec::<String>::new(), "a place that was used before keeps nothing");
    drop((streams, late));
    assert_eq!(handle.listeners(), 0);
}

/// covers: SUBS-08
#[test]
fn the_server_can_end_every_stream() {
    let server = server();
    let mut stream = Stream::open(&server, &json!({ "toolsListChanged": true }));
    stream.read();
    server.handle().add_tool("u", || async {}).unwrap();
    server.handle().end_subscriptions();
    assert_eq!(stream.read(), ["tools", "end"]);
}

#[tokio::test]
async fn too_many_resources_in_one_stream_are_refused() {
    let uris: Vec<String> = (0..=super::super::MAX_SUBSCRIBED_URIS).map(|n| format!("x://{n}")).collect();
    let params = json!({ "notifications": { "resourceSubscriptions": uris } });
    assert_eq!(error(&server(), "subscriptions/listen", params).await.code, -32602);
    assert_eq!(error(&server(), "subscriptions/listen", json!({})).await.code, -32602);
}

#[tokio::test]
async fn what_is_added_is_served_and_what_is_removed_is_not() {
    let server = server();
    let handle = server.handle();
    handle.add_tool("later", || async { "late" }).unwrap();
    assert_eq!(tool(&server, "later", json!({})).await.0, "late");
    assert!(handle.remove_tool("later") && !handle.remove_tool("later"));
    assert_eq!(error(&server, "tools/call", json!({ "name": "later" })).await.code, -32602);
    assert!(matches!(handle.add_tool("t", || async {}), Err(RegisterError::Duplicate { .. })));
    assert!(matches!(handle.add_tool("a b", || async {}), Err(RegisterError::BadToolName { .. })));
    handle.add_resource_template("z://{id}", || async { "z" }).unwrap();
    assert_eq!(
        result(&server, "resources/read", json!({ "uri": "z://1" })).await["contents"][0]["text"],
        "z"
    );
    assert!(handle.remove_resource_template("z://{id}") && handle.remove_resource("x://a"));
    assert!(handle.remove_prompt("p"));
    // What was offered once stays declared, and its list is empty.
    assert_eq!(result(&server, "prompts/list", json!({})).await["prompts"], json!([]));
    drop(server);
    assert!(matches!(handle.add_tool("x", || async {}), Err(RegisterError::Gone)));
    assert!(!handle.remove_tool("t"));
}

#[tokio::test]
async fn a_handler_can_change_its_own_server() {
    let server = server().tool("grow", |handle: ServerHandle| {
        // Before the future is made, too: no lock is held while a handler runs.
        let added = handle.add_tool("grown", || async { "tall" });
        async move { added.map(|()| handle.remove_tool("t")) }
    });
    assert_eq!(tool(&server, "grow", json!({})).await, ("true".into(), false));
    assert_eq!(tool(&server, "grown", json!({})).await.0, "tall");
    let (text, failed) = tool(&server, "grow", json!({})).await;
    assert!(failed && text.contains("duplicate"), "{text}");
}

/// Ten thousand idle listeners are to be nothing to speak of; the rest of a stream's memory is its connection's.
#[test]
fn a_listener_costs_little_memory() {
    let server = server();
    let call = Call::new(Method::SubscriptionsListen, RawJson::empty_object(), context());
    let future = size_of_val(&crate::Service::call(&server, call));
    let slot = super::super::change_bus::LISTENER_SIZE;
    assert!(future + slot <= 640, "{future} + {slot}");
}
