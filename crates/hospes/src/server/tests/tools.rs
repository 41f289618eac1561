use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hospes_model::{CallToolResult, ContentBlock, ElicitParams, InputRequest, RawJson, RpcError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{context, error, outcome, refusal, result, tool};
use crate::server::{Args, Extension, Json, Server, ServerHandle, State, Tool};
use crate::{Context, Outcome};

/// Adds two numbers.
#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The one.
    a: i64,
    /// The other.
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

fn calculator() -> Server {
    Server::new("calc", "1.0")
        .tool("add", |Args(Add { a, b })| async move { a + b })
        .tool("sum", |Args(Add { a, b }): Args<Add>| async move { Json(Sum { sum: a + b }) })
        .tool("nothing", || async {})
        .tool("fails", || async { Err::<String, _>(io::Error::other("the disk is full")) })
        .tool("refuses", || async { Err::<(), _>(RpcError::new(-1, "not today")) })
        .tool("says", || async { Err::<(), _>("no such train") })
}

/// covers: TOOL-06 TOOL-07 TOOL-37
#[tokio::test]
async fn a_tool_is_listed_with_the_schema_of_its_arguments() {
    let list = result(&calculator(), "tools/list", json!({})).await;
    let add = &list["tools"][0];
    assert_eq!(add["name"], "add");
    assert_eq!(add["description"], "Adds two numbers.");
    assert_eq!(
        add["inputSchema"],
        json!({
            "type": "object",
            "properties": {
                "a": { "type": "integer", "description": "The one." },
                "b": { "type": "integer", "description": "The other." },
            },
            "required": ["a", "b"],
            "additionalProperties": false,
        })
    );
    assert_eq!(
        list["tools"][2]["inputSchema"],
        json!({ "type": "object", "properties": {}, "additionalProperties": false })
    );
}

/// covers: TOOL-08
#[tokio::test]
async fn a_tool_runs_with_its_arguments() {
    let server = calculator();
    assert_eq!(tool(&server, "add", json!({ "a": 2, "b": 40 })).await, ("42".into(), false));
    let result = result(&server, "tools/call", json!({ "name": "nothing" })).await;
    assert_eq!(result["content"], json!([]));
    assert!(result.get("isError").is_none_or(|flag| flag == false));
}

/// covers: TOOL-32 TOOL-34
#[tokio::test]
async fn structured_output_has_a_schema_and_a_text_block() {
    let server = calculator();
    let list = result(&server, "tools/list", json!({})).await;
    assert_eq!(
        list["tools"][1]["outputSchema"],
        json!({ "type": "object", "properties": { "sum": { "type": "integer" } }, "required": ["sum"] })
    );
    let params = json!({ "name": "sum", "arguments": { "a": 1, "b": 2 } });
    let result = result(&server, "tools/call", params).await;
    assert_eq!(result["structuredContent"], json!({ "sum": 3 }));
    assert_eq!(result["content"], json!([{ "type": "text", "text": "{\"sum\":3}" }]));
}

/// covers: TOOL-17
#[tokio::test]
async fn a_failing_handler_is_a_result_that_the_model_reads() {
    let server = calculator();
    assert_eq!(tool(&server, "fails", json!({})).await, ("the disk is full".into(), true));
    assert_eq!(tool(&server, "says", json!({})).await, ("no such train".into(), true));
}

#[tokio::test]
async fn a_protocol_error_of_a_handler_stays_one() {
    let refused = error(&calculator(), "tools/call", json!({ "name": "refuses" })).await;
    assert_eq!((refused.code, &*refused.message), (-1, "not today"));
}

/// covers: TOOL-15 TOOL-16
#[tokio::test]
async fn an_unknown_tool_and_a_malformed_call_are_protocol_errors() {
    let server = calculator();
    let unknown = error(&server, "tools/call", json!({ "name": "ad", "arguments": {} })).await;
    assert_eq!(unknown.code, -32602);
    assert_eq!(unknown.message, "unknown tool: ad; did you mean `add`?");
    for params in [json!({}), json!({ "name": 7 }), json!({ "name": "add", "arguments": [1, 2] })] {
        assert_eq!(error(&server, "tools/call", params).await.code, -32602);
    }
}

/// covers: ERR-03
#[tokio::test]
async fn what_is_not_offered_is_not_found() {
    let empty = Server::new("empty", "0");
    for method in [
        "tools/list",
        "tools/call",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
        "no/such",
    ] {
        let params = json!({ "name": "x", "uri": "x:y", "ref": { "type": "ref/prompt", "name": "x" },
            "argument": { "name": "a", "value": "" } });
        assert_eq!(error(&empty, method, params).await.code, -32601, "{method}");
    }
}

/// covers: TOOL-30
#[tokio::test]
async fn a_tool_says_what_it_does() {
    let tool = Tool::new("book")
        .title("Book")
        .description("Books a train.")
        .read_only(false)
        .destructive(true)
        .idempotent(false)
        .open_world(true);
    let server = Server::new("trips", "1").tool(tool, || async { "done" });
    let listed = &result(&server, "tools/list", json!({})).await["tools"][0];
    assert_eq!(listed["title"], "Book");
    assert_eq!(
        listed["annotations"],
        json!({ "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true })
    );
}

/// covers: TOOL-11
#[tokio::test]
async fn a_tool_may_return_any_content() {
    let server = Server::new("media", "1")
        .tool("blocks", || async {
            vec![ContentBlock::text("see"), ContentBlock::image(b"\x89PNG", "image/png")]
        })
        .tool("texts", || async { ["a", "b"] })
        .tool("whole", || async { CallToolResult::text("all").with_is_error(true) })
        .tool("flag", || async { true });
    let blocks = result(&server, "tools/call", json!({ "name": "blocks" })).await;
    assert_eq!(blocks["content"][1], json!({ "type": "image", "data": "iVBORw==", "mimeType": "image/png" }));
    let texts = result(&server, "tools/call", json!({ "name": "texts" })).await;
    assert_eq!(texts["content"].as_array().unwrap().len(), 2);
    assert_eq!(tool(&server, "whole", json!({})).await, ("all".into(), true));
    assert_eq!(tool(&server, "flag", json!({})).await, ("true".into(), false));
}

/// covers: TOOL-12 TOOL-14
#[tokio::test]
async fn what_a_tool_embeds_or_links_to_can_be_read_and_need_not_be_listed() {
    let server = Server::new("x", "1")
        .resource_template("notes://{id}", |uri: crate::server::Uri| async move { format!("note {}", uri.0) })
        .tool("embeds", || async { hospes_model::ResourceContents::text("notes://1", "note notes://1") })
        .tool("links", || async { hospes_model::Resource::new("notes://2", "the second") });
    assert_eq!(result(&server, "resources/list", json!({})).await["resources"], json!([]));
    let embedded = result(&server, "tools/call", json!({ "name": "embeds" })).await["content"][0].clone();
    let linked = result(&server, "tools/call", json!({ "name": "links" })).await["content"][0].clone();
    assert_eq!(linked, json!({ "type": "resource_link", "uri": "notes://2", "name": "the second" }));
    for uri in [&embedded["resource"]["uri"], &linked["uri"]] {
        let read = result(&server, "resources/read", json!({ "uri": uri })).await;
        assert_eq!(read["contents"][0]["text"], format!("note {}", uri.as_str().unwrap()));
        let asked = json!({ "notifications": { "resourceSubscriptions": [uri] } });
        assert!(!matches!(
            futures::FutureExt::now_or_never(outcome(&server, "subscriptions/listen", asked)),
            Some(Outcome::Failed(_))
        ));
    }
    assert_eq!(embedded["resource"]["text"], "note notes://1");
}

/// covers: TOOL-38 TOOL-07
#[test]
fn mistakes_of_the_program_panic_at_its_line() {
    let nothing = || async {};
    let said = refusal(file!(), || Server::new("x", "1").tool("a", nothing).tool("a", nothing));
    assert_eq!(said, "duplicate tool \"a\"");
    for name in ["", "two words", "caf\u{e9}", &"a".repeat(129)] {
        let said = refusal(file!(), || Server::new("x", "1").tool(name, nothing));
        assert!(said.contains("invalid tool name"), "{said}");
    }
    let said = refusal(file!(), || Server::new("x", "1").tool("a", |Args(_): Args<String>| async {}));
    assert!(said.contains("String") && said.contains("use a struct"), "{said}");
    let said = refusal(file!(), || Server::new("x", "1").tool("a", |_: Args<Value>, _: RawJson| async {}));
    assert_eq!(said, "the handler of \"a\" takes its arguments twice");
    let said = refusal(file!(), || {
        Server::new("x", "1")
            .tool(Tool::new("a").input_schema(json!({ "type": "string" })), |_: RawJson| async {})
    });
    assert!(said.contains("its root must have"), "{said}");
    let said = refusal(file!(), || Server::new("x", "1").state(1_u8).state(2_u8));
    assert!(said.contains("a state of type u8 already"), "{said}");
}

#[tokio::test]
async fn handlers_take_what_they_need() {
    let seen = Arc::new(AtomicU32::new(0));
    let server =
        Server::new("x", "1").state(Arc::clone(&seen)).tool(
            "count",
            |State(seen): State<Arc<AtomicU32>>,
             context: Context,
             handle: ServerHandle,
             Args(add): Args<Add>| async move {
                assert!(context.principal().is_none() && handle.listeners() == 0);
                seen.fetch_add(u32::try_from(add.a + add.b).unwrap(), Ordering::Relaxed);
            },
        );
    tool(&server, "count", json!({ "a": 1, "b": 2 })).await;
    assert_eq!(seen.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_state_that_was_never_given_is_an_internal_error() {
    let server = Server::new("x", "1").tool("a", |_: State<String>| async {});
    let failed = error(&server, "tools/call", json!({ "name": "a" })).await;
    assert_eq!(failed.code, -32603);
    assert!(failed.message.contains("String"));
    let server = Server::new("x", "1").tool("a", |_: Extension<u8>| async {});
    assert_eq!(error(&server, "tools/call", json!({ "name": "a" })).await.code, -32603);
    let server = Server::new("x", "1").tool("a", |e: Option<Extension<u8>>| async move { e.is_none() });
    assert_eq!(tool(&server, "a", json!({})).await.0, "true");
}

/// covers: TOOL-42 PRM-21 RES-29 MRTR-01 MRTR-02
#[tokio::test]
async fn questions_that_a_handler_leaves_behind_are_the_outcome() {
    async fn asks(context: Context) -> Result<String, String> {
        if let Some(answer) = context.answer("name") {
            return Ok(answer.as_str().to_owned());
        }
        context.add_question("name", InputRequest::ListRoots(hospes_model::ListRootsParams::new()));
        Err("pending".into())
    }
    let server = Server::new("x", "1")
        .tool("asks", asks)
        .prompt("asks", asks)
        .resource("x://asks", asks)
        .resource_template("y://{any}", asks)
        .tool("swallows", |context: Context| async move {
            context.add_question("name", InputRequest::ListRoots(hospes_model::ListRootsParams::new()));
            "done without"
        });
    for (method, params) in [
        ("tools/call", json!({ "name": "asks" })),
        ("prompts/get", json!({ "name": "asks" })),
        ("resources/read", json!({ "uri": "x://asks" })),
        ("resources/read", json!({ "uri": "y://asks" })),
        // One that goes on with a default has not seen the answer yet.
        ("tools/call", json!({ "name": "swallows" })),
    ] {
        match outcome(&server, method, params).await {
            Outcome::InputRequired(questions) => assert_eq!(questions.requests[0].0, "name"),
            other => panic!("{method}: {other:?}"),
        }
    }
}

/// covers: CAP-13 MRTR-05
#[tokio::test]
async fn a_question_that_the_client_cannot_answer_is_a_named_error() {
    let request = InputRequest::Elicit(Box::new(ElicitParams::form(
        "Which?",
        serde_json::from_value(json!({ "type": "object", "properties": {} })).unwrap(),
    )));
    let server = Server::new("x", "1").tool("asks", move |context: Context| {
        let request = request.clone();
        async move {
            request.check_required_capability(&context.peer().capabilities)?;
            Ok::<_, crate::Error>("asked")
        }
    });
    let refused = error(&server, "tools/call", json!({ "name": "asks" })).await;
    assert_eq!(refused.code, -32021);
    assert!(refused.data.unwrap().as_str().contains("\"elicitation\""));
    // The tool is listed all the same.
    assert_eq!(result(&server, "tools/list", json!({})).await["tools"][0]["name"], "asks");
    let _ = context();
}
