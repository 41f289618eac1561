//! The fifty tools of the yardstick: `echo`, `add` and 48 that are only listed.

use std::sync::Arc;

use hospes::model::{
    CallToolResult, DiscoverResult, Implementation, ListToolsResult, Method, Notification, Prepared, RawJson,
    Reply, RpcError, ServerCapabilities, SubscriptionFilter, Tool, ToolsCapability,
};
use hospes::{Call, Outcome, Service};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;

#[derive(Deserialize)]
struct Echo {
    text: String,
}

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

/// The tools, and the bell that tells everybody that their list has changed.
#[derive(Debug)]
pub struct Tools {
    list: Arc<Prepared>,
    bell: watch::Sender<u64>,
}

impl Default for Tools {
    fn default() -> Self {
        let mut tools = vec![
            tool("echo", "Echo the text", &json!({ "text": { "type": "string" } }), &["text"]),
            tool(
                "add",
                "Add two numbers",
                &json!({ "a": { "type": "number" }, "b": { "type": "number" } }),
                &["a", "b"],
            ),
        ];
        tools.extend((0..48).map(|number| {
            let properties = json!({
                "query": { "type": "string", "description": "What to look for" },
                "limit": { "type": "integer", "description": "How many to return" },
            });
            tool(
                &format!("tool_{number:02}"),
                &format!("Dummy tool number {number}, here to make the list long"),
                &properties,
                &["query"],
            )
        }));
        Self { list: Arc::new(Prepared::new(ListToolsResult::new(tools))), bell: watch::Sender::new(0) }
    }
}

impl Tools {
    /// Tells every session and every listener.
    pub fn ring(&self) {
        self.bell.send_modify(|count| *count += 1);
    }
}

fn tool(name: &str, description: &str, properties: &serde_json::Value, required: &[&str]) -> Tool {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    Tool::new(name, RawJson::from(schema)).with_description(description.to_owned())
}

impl Service for Tools {
    async fn call(&self, call: Call) -> Outcome {
        match call.method {
            Method::ToolsCall => {
                let view = call.params.view();
                let empty = RawJson::empty_object();
                let arguments = view.arguments.as_ref().unwrap_or(&empty);
                let result = match view.name.as_deref() {
                    Some("echo") => arguments.decode::<Echo>().map(|Echo { text }| text),
                    Some("add") => arguments.decode::<Add>().map(|Add { a, b }| (a + b).to_string()),
                    _ => Ok("dummy".to_owned()),
                };
                match result {
                    Ok(text) => Outcome::Complete(CallToolResult::text(text).into()),
                    Err(error) => RpcError::invalid_params(error.to_string()).into(),
                }
            }
            Method::ToolsList => Outcome::Complete(Reply::Prepared(Arc::clone(&self.list))),
            Method::Discover => {
                let mut tools = ToolsCapability::new();
                tools.list_changed = Some(true);
                let mut capabilities = ServerCapabilities::new();
                capabilities.tools = Some(tools);
                let mut discovered = DiscoverResult::new(vec!["2026-07-28".to_owned()], capabilities);
                if let Ok(info) = RawJson::from_serialize(&Implementation::new("hospes-bench", "0")) {
                    discovered.meta.insert(hospes::model::meta_key::SERVER_INFO, info);
                }
                Outcome::Complete(discovered.into())
            }
            Method::SubscriptionsListen => {
                let mut bell = self.bell.subscribe();
                let filter = SubscriptionFilter::new().with_tools_list_changed(true);
                call.context.notify(Notification::SubscriptionsAcknowledged(
                    hospes::model::SubscriptionsAcknowledgedParams::new(filter),
                ));
                while bell.changed().await.is_ok() {
                    call.context.notify(Notification::ToolsListChanged);
                }
                Outcome::Failed(RpcError::internal("the bell is gone"))
            }
            method => RpcError::method_not_found(method.name()).into(),
        }
    }
}
