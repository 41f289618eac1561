//! Tests of headers that repeat parameters.

use super::*;

/// covers: HHDR-29 HHDR-30
#[tokio::test]
async fn a_tool_whose_headers_break_the_rules_is_dropped_and_the_log_says_why() {
    let log = log::Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let tool = |name: &str, header: Value| {
        let schema = json!({ "type": "object",
            "properties": { "a": { "type": "string", "x-mcp-header": header } } });
        json!({ "name": name, "inputSchema": schema })
    };
    let tools = json!([
        tool("good", json!("Region")),
        tool("empty", json!("")),
        tool("blank", json!("two words")),
        tool("number", json!(7)),
        { "name": "plain", "inputSchema": { "type": "object" } },
    ]);
    let fake = Fake::serve(modern(move |asked| {
        Said::json(&result(
            asked,
            &json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" }),
        ))
    }))
    .await;
    let names: Vec<String> =
        newer(&fake).await.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["good", "plain"]);
    let log = log.text();
    let said: Vec<&str> = log.lines().filter(|line| line.contains("tool dropped")).collect();
    assert_eq!(said.len(), 3, "{log}");
    for (line, name) in said.iter().zip(["empty", "blank", "number"]) {
        assert!(line.starts_with("WARN") && line.contains(name) && line.contains("error="), "{line}");
    }
}

/// covers: HHDR-05 HHDR-11 HHDR-12 HHDR-15 HHDR-20 HHDR-21 HHDR-29 HHDR-32 HTTP-12
#[tokio::test]
async fn modern_headers_repeat_the_body_and_learn_from_refusals() {
    let fake = Fake::serve(modern(|asked| match asked.method() {
        "tools/list" => {
            let marked = json!({ "type": "object", "properties": {
                "city": { "type": "string", "x-mcp-header": "City" }, "day": { "type": "integer", "x-mcp-header": "Day" } } });
            let bad = json!({ "type": "object", "properties": { "x": { "type": "number", "x-mcp-header": "X" } } });
            let tools = json!([{ "name": "trains", "inputSchema": marked }, { "name": "bad", "inputSchema": bad }]);
            Said::json(&result(asked, &json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" })))
        }
        _ if asked.tool() == "trains" && asked.header("mcp-param-city").is_none() => {
            let error = json!({ "code": -32020, "message": "the header Mcp-Param-City is missing" });
            Said::json(&json!({ "jsonrpc": "2.0", "id": asked.body["id"], "error": error })).with_status(400)
        }
        _ => Said::json(&text(asked, "hi")),
    }))
    .await;
    let client = newer(&fake).await;
    client.call("trains", json!({ "city": "Köln", "day": null })).await.unwrap();
    let asked = fake.asked();
    let methods: Vec<&str> = asked.iter().map(Asked::method).collect();
    assert_eq!(methods, ["server/discover", "tools/call", "tools/list", "tools/call"]);
    for asked in &asked {
        assert_eq!(asked.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(asked.header("mcp-method"), Some(asked.method()));
        assert_eq!(asked.header("mcp-session-id"), None);
    }
    assert_eq!(asked[3].header("mcp-name"), Some("trains"));
    assert_eq!(asked[3].header("mcp-param-city"), Some("=?base64?S8O2bG4=?="));
    assert_eq!(asked[3].header("mcp-param-day"), None);
    assert_ne!(asked[1].body["id"], asked[3].body["id"]);
    let names: Vec<String> = client.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["trains"]);
}

/// covers: TSKX-17
#[tokio::test]
async fn the_header_names_the_task_that_a_request_is_about() {
    let polls = AtomicUsize::new(0);
    let fake = Fake::serve(modern(move |asked| {
        let task = |status: &str, kind: &str| {
            json!({ "resultType": kind, "taskId": "t/1 \u{e9}", "status": status, "createdAt": "2026-07-28T00:00:00Z",
                "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttlMs": null, "pollIntervalMs": 1 })
        };
        Said::json(&result(
            asked,
            &match asked.method() {
                "tools/call" => task("working", "task"),
                "tasks/get" if polls.fetch_add(1, Ordering::Relaxed) == 0 => {
                    let mut asking = task("input_required", "complete");
                    asking["inputRequests"] = json!({ "roots": { "method": "roots/list" } });
                    asking
                }
                "tasks/get" => {
                    let mut done = task("completed", "complete");
                    done["result"] = json!({ "content": [] });
                    done
                }
                _ => json!({ "resultType": "complete" }),
            },
        ))
    }))
    .await;
    let builder = Client::builder().revision(Revision::V2026_07_28).roots(["/"]);
    let client = builder.connect(&fake.url).await.unwrap();
    let mut task = client.call("long", ()).as_task().await.unwrap();
    task.cancel().await.unwrap();
    task.result().await.unwrap();
    let asked = fake.asked();
    let about: Vec<_> = asked.iter().filter(|asked| asked.method().starts_with("tasks/")).collect();
    let methods: Vec<_> = about.iter().map(|asked| asked.method()).collect();
    assert_eq!(methods, ["tasks/cancel", "tasks/get", "tasks/update", "tasks/get"]);
    for asked in about {
        let name = asked.header("mcp-name").unwrap();
        assert_eq!(hospes_name(name), "t/1 \u{e9}", "{name}");
        assert_eq!(asked.body["params"]["taskId"], "t/1 \u{e9}");
    }
}

/// A header's value as it was before it was made fit for a header.
fn hospes_name(value: &str) -> String {
    use base64::Engine as _;
    let encoded = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    encoded.map_or_else(
        || value.to_owned(),
        |text| String::from_utf8(base64::engine::general_purpose::STANDARD.decode(text).unwrap()).unwrap(),
    )
}
