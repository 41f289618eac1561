//! Reading results: of every method, and where `resultType` has the last word.

use std::error::Error as _;

use serde_json::{Value, json};

use super::*;
use Revision::{V2025_06_18, V2025_11_25, V2026_07_28};

fn decode(method: &Method, from: Revision, json: &Value) -> Result<PeerResult, PeerResultError> {
    PeerResult::decode(method, from, &RawJson::from(json.clone()))
}

fn complete(method: &Method, from: Revision, json: &Value) -> Reply {
    match decode(method, from, json) {
        Ok(PeerResult::Complete(reply)) => reply,
        other => panic!("{method} from {from}: {other:?}"),
    }
}

#[test]
fn the_result_of_each_method_is_read_as_its_type() {
    macro_rules! reads {
        ($($method:ident from $from:ident: $json:tt is $variant:pat,)+) => {$(
            let reply = complete(&Method::$method, $from, &json!($json));
            assert!(matches!(reply, $variant), "{} from {}: {reply:?}", Method::$method, $from);
        )+};
    }
    reads! {
        Ping from V2025_11_25: {} is Reply::Empty,
        SetLevel from V2025_11_25: {} is Reply::Empty,
        ResourcesSubscribe from V2025_11_25: {} is Reply::Empty,
        ResourcesUnsubscribe from V2025_11_25: {} is Reply::Empty,
        Initialize from V2025_11_25:
            { "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "s", "version": "1" } }
            is Reply::Initialize(_),
        Discover from V2026_07_28: { "supportedVersions": ["2026-07-28"], "capabilities": {} } is Reply::Discover(_),
        ToolsList from V2026_07_28: { "tools": [] } is Reply::ListTools(_),
        ToolsCall from V2026_07_28: { "content": [] } is Reply::CallTool(_),
        PromptsList from V2026_07_28: { "prompts": [] } is Reply::ListPrompts(_),
        PromptsGet from V2026_07_28: { "messages": [] } is Reply::GetPrompt(_),
        ResourcesList from V2026_07_28: { "resources": [] } is Reply::ListResources(_),
        ResourceTemplatesList from V2026_07_28: { "resourceTemplates": [] } is Reply::ListResourceTemplates(_),
        ResourcesRead from V2026_07_28: { "contents": [] } is Reply::ReadResource(_),
        Complete from V2026_07_28: { "completion": { "values": [] } } is Reply::Complete(_),
        SubscriptionsListen from V2026_07_28: {} is Reply::Listen(_),
        CreateMessage from V2025_11_25:
            { "role": "assistant", "model": "m", "content": { "type": "text", "text": "a" } }
            is Reply::CreateMessage(_),
        RootsList from V2025_11_25: { "roots": [] } is Reply::ListRoots(_),
        Elicit from V2025_11_25: { "action": "cancel" } is Reply::Elicit(_),
        TasksUpdate from V2026_07_28: {} is Reply::Empty,
        TasksCancel from V2026_07_28: {} is Reply::Empty,
        TasksResult from V2025_11_25: { "content": [] } is Reply::Raw { .. },
    }
}

/// covers: TSKX-05
#[test]
fn a_task_is_read_as_its_revision_writes_it() {
    let mut old = json!({
        "taskId": "t", "status": "working", "createdAt": "c", "lastUpdatedAt": "u", "ttl": 5, "pollInterval": 7,
    });
    let new = json!({
        "taskId": "t", "status": "completed", "createdAt": "c", "lastUpdatedAt": "u", "ttlMs": 5,
        "pollIntervalMs": 7, "result": { "content": [] },
    });
    for (method, from, json) in [
        (Method::TasksGet, V2025_11_25, &old),
        (Method::TasksCancel, V2025_11_25, &old),
        (Method::TasksGet, V2026_07_28, &new),
    ] {
        let reply = complete(&method, from, json);
        let Reply::GetTask(read) = reply else { panic!("{method} from {from}: {reply:?}") };
        assert_eq!(
            (read.task.ttl_ms, read.task.poll_interval_ms),
            (Some(5), Some(7)),
            "{method} from {from}"
        );
        assert_eq!(read.result.is_some(), from == V2026_07_28);
    }
    old["_meta"] = json!({ "a/b": 1 });
    let page = json!({ "tasks": [old], "nextCursor": "n", "_meta": { "c/d": 2 } });
    let Reply::ListTasks(read) = complete(&Method::TasksList, V2025_11_25, &page) else { panic!("a page") };
    assert_eq!((read.tasks[0].ttl_ms, read.next_cursor.as_deref()), (Some(5), Some("n")));
    assert!(read.meta.contains_key("c/d"));
}

/// An error that the method would report about the value does not count if the value declares another type.
///
/// covers: MSG-27 MRTR-02
#[test]
fn the_type_of_a_result_has_the_last_word() {
    // The members stand in this order: what is wrong comes before the type.
    let odd = |result_type: &str| json!({ "content": 5, "requestState": "s", "resultType": result_type });
    assert!(matches!(
        decode(&Method::ToolsCall, V2026_07_28, &odd("input_required")),
        Ok(PeerResult::InputRequired(_))
    ));
    for (result_type, wrong_shape) in [("complete", true), ("other", false)] {
        let refused = decode(&Method::ToolsCall, V2026_07_28, &odd(result_type)).unwrap_err();
        assert_eq!(matches!(refused, PeerResultError::Shape { .. }), wrong_shape, "{result_type}: {refused}");
        assert_eq!(
            matches!(refused, PeerResultError::ResultType { .. }),
            !wrong_shape,
            "{result_type}: {refused}"
        );
    }

    // The same of a method that only the peers know; and an older peer may use the word for itself.
    let own = Method::from_name("acme/do");
    let plain = |from, result_type: &str| decode(&own, from, &json!({ "resultType": result_type, "x": 1 }));
    assert!(matches!(plain(V2026_07_28, "complete"), Ok(PeerResult::Complete(Reply::Raw { .. }))));
    assert!(matches!(plain(V2026_07_28, "other"), Err(PeerResultError::ResultType { .. })));
    assert!(matches!(plain(V2025_06_18, "other"), Ok(PeerResult::Complete(Reply::Raw { .. }))));
}

#[test]
fn what_is_no_object_is_said_to_be_none() {
    let refused = decode(&Method::ToolsList, V2026_07_28, &json!([])).unwrap_err();
    let why = refused.source().unwrap().to_string();
    assert!(why.contains("expected a result, an object"), "{why}");
}
