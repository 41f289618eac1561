//! Callers, and the state bound to them.

use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::{Bytes, direct, initialize, modern_body, modern_headers, post, text, tool};
use crate::Context;
use crate::server::Server;
use crate::transport::http_server::{Endpoint, Principal};

fn endpoint() -> Endpoint {
    let server = Server::new("x", "1")
        .tool("who", |ctx: Context| async move { ctx.principal().unwrap_or("nobody").to_owned() })
        .tool("ask", |ctx: Context| async move {
            let name: String = ctx.elicit("Your name?").key("name").await?;
            Ok::<_, crate::Error>(format!("{} is {name}", ctx.principal().unwrap_or("nobody")))
        })
        .tool("log", |ctx: Context| async move {
            for level in hospes_model::LoggingLevel::ALL {
                ctx.log(level, level.as_str());
            }
            tokio::task::yield_now().await;
        });
    Endpoint::new(server)
}

async fn send(
    endpoint: &Endpoint,
    who: Option<&str>,
    mut request: Request<Full<Bytes>>,
) -> (StatusCode, Vec<Value>) {
    if let Some(who) = who {
        request.extensions_mut().insert(Principal::new(who));
    }
    let answer = direct(endpoint, request).await;
    let (status, is_stream) = (
        answer.status(),
        answer.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream"),
    );
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let body = std::str::from_utf8(&body).unwrap();
    let messages = match is_stream {
        true => body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).collect(),
        false => vec![body],
    };
    let messages = messages.into_iter().filter(|text| !text.is_empty());
    (status, messages.map(|text| serde_json::from_str(text).unwrap()).collect())
}

fn call(params: Value) -> Request<Full<Bytes>> {
    post(modern_body(1, "tools/call", params.clone()), &modern_headers("tools/call", &params))
}

/// The user is the one who signed in, regardless of what a client claims about itself.
///
/// covers: ELIC-25
#[tokio::test]
async fn who_calls_is_what_authorization_says_and_not_what_the_client_says() {
    let endpoint = endpoint();
    let mut claiming = json!({ "name": "who", "arguments": {}, "user": "eve", "sub": "eve" });
    claiming["_meta"] = json!({
        "io.modelcontextprotocol/clientInfo": { "name": "eve", "version": "1", "title": "eve" },
        "sub": "eve", "principal": "eve", "com.example/user": "eve",
    });
    for (who, seen) in [(Some("ann"), "ann"), (None, "nobody")] {
        let (_, messages) = send(&endpoint, who, call(claiming.clone())).await;
        assert_eq!(text(&messages[0]), seen);
    }
    let mut open = initialize("2025-11-25");
    open["params"]["clientInfo"] = json!({ "name": "eve", "version": "1" });
    let mut request = post(open, &[]);
    request.extensions_mut().insert(Principal::new("ann"));
    let opened = direct(&endpoint, request).await;
    let id = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let (_, messages) =
        send(&endpoint, Some("ann"), post(tool(1, "who", json!({})), &[("mcp-session-id", &id)])).await;
    assert_eq!(text(&messages[0]), "ann");
}

/// covers: ELIC-24
#[tokio::test]
async fn a_question_is_for_the_caller_and_the_user_it_was_put_to() {
    let endpoint = endpoint();
    let (_, messages) = send(&endpoint, Some("ann"), call(json!({ "name": "ask" }))).await;
    let state = messages[0]["result"]["requestState"].as_str().unwrap().to_owned();
    assert!(!state.contains("ann"), "sealed");
    let accepted = json!({ "name": { "action": "accept", "content": { "value": "Ada" } } });
    let retry = || call(json!({ "name": "ask", "requestState": state, "inputResponses": accepted }));
    for other in [Some("eve"), None] {
        let (status, messages) = send(&endpoint, other, retry()).await;
        assert_eq!((status, &messages[0]["error"]["code"]), (StatusCode::BAD_REQUEST, &json!(-32602)));
    }
    assert_eq!(text(&send(&endpoint, Some("ann"), retry()).await.1[0]), "ann is Ada");

    // In a session of the older revisions the session's id alone does not do, either.
    let mut sessions = Vec::new();
    for who in ["ann", "eve"] {
        let mut request = post(initialize("2025-11-25"), &[]);
        request.extensions_mut().insert(Principal::new(who));
        let opened = direct(&endpoint, request).await;
        sessions.push(opened.headers()["mcp-session-id"].to_str().unwrap().to_owned());
    }
    let mut request = post(tool(1, "ask", json!({})), &[("mcp-session-id", &*sessions[0])]);
    request.extensions_mut().insert(Principal::new("ann"));
    let mut stream = direct(&endpoint, request).await.into_body();
    let question = loop {
        let frame = stream.frame().await.unwrap().unwrap().into_data().unwrap();
        let frame = std::str::from_utf8(&frame).unwrap().to_owned();
        // Before it comes an event without data.
        let mut data = frame.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
        if let Some(data) = data.find(|data| !data.is_empty()) {
            break serde_json::from_str::<Value>(data).unwrap();
        }
    };
    assert_eq!(question["method"], "elicitation/create");
    let answer = |name: &str| {
        let content = json!({ "action": "accept", "content": { "value": name } });
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": content })
    };
    // Eve with her own session, with Ann's, and without any name.
    for (who, session) in [(Some("eve"), &sessions[1]), (Some("eve"), &sessions[0]), (None, &sessions[0])] {
        send(&endpoint, who, post(answer("Eve"), &[("mcp-session-id", session)])).await;
    }
    let (status, _) =
        send(&endpoint, Some("ann"), post(answer("Ada"), &[("mcp-session-id", &sessions[0])])).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let rest = super::timeout(super::PATIENCE, stream.collect()).await.unwrap().unwrap().to_bytes();
    let rest = std::str::from_utf8(&rest).unwrap();
    assert!(rest.contains("ann is Ada") && !rest.contains("Eve"), "{rest}");
}

/// Messages of a call reach only its own client.
///
/// covers: LOG-17
#[tokio::test]
async fn log_messages_travel_on_the_stream_of_the_request_that_asked_for_them() {
    let endpoint = endpoint();
    let wants =
        |level: &str| call(json!({ "name": "log", "_meta": { "io.modelcontextprotocol/logLevel": level } }));
    let (all, none, some) = tokio::join!(
        send(&endpoint, None, wants("debug")),
        send(&endpoint, None, call(json!({ "name": "log" }))),
        send(&endpoint, None, wants("alert")),
    );
    assert_eq!((all.1.len(), none.1.len(), some.1.len()), (9, 1, 3));
    assert_eq!(some.1[0]["params"]["level"], "alert");
}

/// Features that only 2025-03-26 has: batches, and the server as its own authorization server.
///
/// covers: DEPR-06
#[tokio::test]
async fn what_was_removed_is_not_there() {
    let endpoint = endpoint();
    for path in [
        "/authorize",
        "/token",
        "/register",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
    ] {
        for method in ["GET", "POST"] {
            let request = Request::builder().method(method).uri(path).header("host", "localhost");
            let (status, _) = send(&endpoint, None, request.body(Full::default()).unwrap()).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{method} {path}");
        }
    }
    for revision in ["2025-06-18", "2025-11-25"] {
        let opened = direct(&endpoint, post(initialize(revision), &[])).await;
        let id = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let batch = json!([tool(1, "who", json!({})), tool(2, "who", json!({}))]);
        let headers = [("mcp-session-id", &*id), ("mcp-protocol-version", revision)];
        let (status, messages) = send(&endpoint, None, post(batch, &headers)).await;
        assert_eq!(
            (status, &messages[0]["error"]["code"]),
            (StatusCode::BAD_REQUEST, &json!(-32600)),
            "{revision}"
        );
    }
    let batch = json!([modern_body(1, "tools/call", json!({ "name": "who" }))]);
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "who")];
    let (status, messages) = send(&endpoint, None, post(batch, &headers)).await;
    assert_eq!((status, &messages[0]["error"]["code"]), (StatusCode::BAD_REQUEST, &json!(-32600)));
}

/// Each caller lists only their own tasks, page by page, in any session.
///
/// covers: TASK-20 TASK-24
#[tokio::test(start_paused = true)]
async fn a_list_of_tasks_is_its_callers_own() {
    let work = crate::server::Tool::new("work").task(hospes_model::TaskSupport::Required);
    let endpoint =
        Endpoint::new(Server::new("x", "1").tool(work, async || std::future::pending::<String>().await));
    let open = async |who: Option<&str>| {
        let mut request = post(initialize("2025-11-25"), &[]);
        request.extensions_mut().extend(
            who.map(|who| {
                let mut extensions = http::Extensions::new();
                extensions.insert(Principal::new(who));
                extensions
            })
            .unwrap_or_default(),
        );
        let opened = direct(&endpoint, request).await;
        let id = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let body = opened.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        (id, body["result"]["capabilities"]["tasks"].clone())
    };
    let ask = async |who: Option<&str>, session: &str, method: &str, params: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (_, mut messages) = send(&endpoint, who, post(body, &[("mcp-session-id", session)])).await;
        messages.pop().unwrap()
    };
    let (mut sessions, mut made) = (Vec::new(), Vec::new());
    for who in ["ann", "eve", "ann"] {
        let (session, tasks) = open(Some(who)).await;
        assert_eq!(tasks["list"], json!({}));
        let mut ids = Vec::new();
        for _ in 0..60 {
            let call = json!({ "name": "work", "arguments": {}, "task": {} });
            let made = ask(Some(who), &session, "tools/call", call).await;
            ids.push(made["result"]["task"]["taskId"].as_str().unwrap().to_owned());
        }
        sessions.push(session);
        made.push(ids);
    }
    let of_ann: Vec<String> = [&*made[0], &*made[2]].concat();
    for (who, session, own) in [("ann", 0, &of_ann), ("ann", 2, &of_ann), ("eve", 1, &made[1])] {
        let (mut seen, mut params, mut pages) = (Vec::new(), json!({}), 0);
        loop {
            let page = ask(Some(who), &sessions[session], "tasks/list", params).await["result"].clone();
            for task in page["tasks"].as_array().unwrap() {
                assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &json!(3_600_000)));
                seen.push(task["taskId"].as_str().unwrap().to_owned());
            }
            pages += 1;
            let Some(next) = page.get("nextCursor") else { break };
            params = json!({ "cursor": next });
        }
        let (mut own, expected) = (own.clone(), own.len().div_ceil(100));
        seen.sort();
        own.sort();
        assert_eq!((seen, pages), (own, expected), "{who}");
    }
    let bad = ask(Some("ann"), &sessions[0], "tasks/list", json!({ "cursor": "?" })).await;
    assert_eq!(bad["error"]["code"], -32602);
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let refused = ask(Some("eve"), &sessions[1], method, json!({ "taskId": made[0][0] })).await;
        assert_eq!(refused["error"]["code"], -32602, "{method}");
    }
    // Nobody in particular has no list.
    let (session, tasks) = open(None).await;
    assert!(tasks.get("list").is_none());
    assert_eq!(ask(None, &session, "tasks/list", json!({})).await["error"]["code"], -32601);
}
