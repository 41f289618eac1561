//! The fifty tools of the yardstick: `echo`, `add` and 48 that are only listed.

use hospes::model::RawJson;
use hospes::server::{Args, Server, ServerHandle, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

/// A server with the tools.
pub fn server() -> Server {
    let server = Server::new("hospes-bench", env!("CARGO_PKG_VERSION"))
        .tool(
            Tool::new("echo").description("Echo the text").read_only(true),
            |Args(Echo { text })| async move { text },
        )
        .tool(Tool::new("add").description("Add two numbers"), |Args(Add { a, b })| async move {
            (a + b).to_string()
        });
    (0..48).fold(server, |server, number| {
        let tool = Tool::new(format!("tool_{number:02}"))
            .description(format!("Dummy tool number {number}, here to make the list long"))
            .input_schema(dummy_schema());
        server.tool(tool, |_: RawJson| async { "dummy" })
    })
}

/// Lets everybody who listens know that the list of tools has changed, by changing it.
pub fn change(server: &ServerHandle) {
    const PASSING: &str = "passing";
    if !server.remove_tool(PASSING) {
        // The name is a good one, so this cannot fail.
        let _ = server.add_tool(PASSING, || async {});
    }
}

fn dummy_schema() -> RawJson {
    let schema = json!({ "type": "object", "required": ["query"], "properties": {
        "query": { "type": "string", "description": "What to look for" },
        "limit": { "type": "integer", "description": "How many to return" },
    }});
    schema.into()
}
