//! Checks of arguments and results between an application and a server.

use hospes::model::{CallToolResult, ListToolsResult, RawJson, Reply, Tool};

use super::guarded::{guard, pairs};
use super::*;
use crate::CheckSettings;

/// A server that offers these tools and answers each call with the same result, whatever it is called with.
#[derive(Clone)]
struct Scripted {
    inner: hospes::BoxService,
    tools: Vec<Tool>,
    result: Arc<Mutex<CallToolResult>>,
    calls: Arc<AtomicUsize>,
}

impl Scripted {
    fn new(tools: impl IntoIterator<Item = Tool>) -> Self {
        let inner = Server::new("scripted", "1").tool("unused", || async { "x" });
        let result = Arc::new(Mutex::new(CallToolResult::text("done")));
        let inner = hospes::BoxService::new(inner);
        Self { inner, tools: tools.into_iter().collect(), result, calls: Arc::default() }
    }

    fn make(&self) -> Make {
        let server = self.clone();
        Arc::new(move || Ok(hospes::BoxService::new(server.clone())))
    }

    #[expect(dead_code, reason = "used by the tests of results")]
    fn answers(&self, result: CallToolResult) {
        *self.result.lock() = result;
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Service for Scripted {
    async fn call(&self, call: Call) -> Outcome {
        match call.method {
            Method::ToolsList => {
                Outcome::Complete(Reply::ListTools(Box::new(ListToolsResult::new(self.tools.clone()))))
            }
            Method::ToolsCall => {
                self.calls.fetch_add(1, Ordering::SeqCst);
                Outcome::Complete(self.result.lock().clone().into())
            }
            _ => self.inner.call(call).await,
        }
    }
}

fn tool(name: &str, schema: serde_json::Value) -> Tool {
    Tool::new(name, RawJson::from(schema))
}

fn checking() -> Arc<PolicyEnforcer> {
    Arc::new(PolicyEnforcer::new(None))
}

/// The model reads the mistakes as a result and may correct them; the server is not called.
///
/// covers: TOOL-18
#[tokio::test]
async fn arguments_that_break_the_schema_do_not_reach_the_server() {
    for (up, down) in pairs() {
        let ping = tool(
            "ping",
            json!({
                "type": "object",
                "properties": { "host": { "type": "string", "pattern": "^[a-z.]+$" }, "count": { "type": "integer" } },
                "required": ["host"],
            }),
        );
        let server = Scripted::new([ping, tool("open", json!({ "type": "object" }))]);
        let guard = checking();
        let host = House::default().made_by("net", up, Duration::ZERO, server.make()).guarded(&guard).start();
        let client = plain(&host, down).await;
        for (arguments, why) in [
            (json!({}), "host: missing"),
            (json!({ "host": "a.example; id" }), "host: expected text that matches"),
            (json!({ "host": "a.example", "count": "1" }), "count: expected integer"),
            (json!({ "host": "a.example", "__exec": "id" }), "__exec: unknown property"),
        ] {
            let result = client.call("net__ping", arguments).await.unwrap();
            let text = result.all_text();
            let start = "`ping` of the server `net` was not called: invalid arguments: ";
            assert!(result.has_failed() && text.starts_with(start) && text.contains(why), "{text}");
        }
        assert_eq!(server.calls(), 0, "{up} behind {down}");
        for (name, arguments) in [
            ("net__ping", json!({ "host": "a.example", "count": null })),
            ("net__open", json!({ "anything": [1, { "a": null }] })),
        ] {
            let result = client.call(name, arguments).await.unwrap();
            assert_eq!(result.all_text(), "done");
        }
        assert_eq!(server.calls(), 2);
    }
}

#[tokio::test]
async fn arguments_are_not_checked_if_the_checks_are_off() {
    let server = Scripted::new([tool("ping", json!({ "type": "object", "required": ["host"] }))]);
    let off = PolicyEnforcer::new(None).with_checks(CheckSettings::NONE);
    let rules = guard("[[rule]]\ndecide = 'allow'");
    assert_eq!(rules.checks(), CheckSettings::NONE, "a policy file decides itself");
    for guard in [Arc::new(off), rules] {
        let host = House::default()
            .made_by("net", Revision::LATEST, Duration::ZERO, server.make())
            .guarded(&guard)
            .start();
        let client = plain(&host, Revision::LATEST).await;
        assert_eq!(client.call("net__ping", json!({})).await.unwrap().all_text(), "done");
    }
}
