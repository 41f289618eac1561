use serde_json::{Value, json};

use super::*;
use crate::{Method, RequestId, RpcError};

fn stamp() -> ServerStamp {
    ServerStamp::new(&RawJson::parse(r#"{"name":"s","version":"1"}"#).unwrap())
}

fn encode(reply: &Reply, method: &Method, to: Revision) -> String {
    let mut out = Vec::new();
    reply.encode(method, to, &stamp(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn raw(value: Value) -> RawJson {
    value.into()
}

fn complete(method: &Method, from: Revision, json: Value) -> Reply {
    match PeerResult::decode(method, from, &raw(json)).unwrap() {
        PeerResult::Complete(reply) => reply,
        other => panic!("{other:?}"),
    }
}

const NAME: &str = r#""io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}"#;

/// covers: MSG-25 DISC-05
#[test]
fn a_modern_result_says_its_type_and_who_answers() {
    let reply = Reply::from(CallToolResult::text("hi"));
    let text = encode(&reply, &Method::ToolsCall, Revision::V2026_07_28);
    assert_eq!(
        text,
        format!(
            r#"{{"resultType":"complete","_meta":{{{NAME}}},"content":[{{"type":"text","text":"hi"}}]}}"#
        )
    );
    for to in &Revision::ALL[..4] {
        assert_eq!(encode(&reply, &Method::ToolsCall, *to), r#"{"content":[{"type":"text","text":"hi"}]}"#);
    }
    assert_eq!(
        encode(&Reply::Empty, &Method::TasksUpdate, Revision::V2026_07_28),
        format!(r#"{{"resultType":"complete","_meta":{{{NAME}}}}}"#)
    );
    assert_eq!(encode(&Reply::Empty, &Method::Ping, Revision::V2025_11_25), "{}");
    let mut out = Vec::new();
    Reply::Empty
        .encode(&Method::TasksUpdate, Revision::V2026_07_28, &ServerStamp::anonymous(), &mut out)
        .unwrap();
    assert_eq!(out, br#"{"resultType":"complete"}"#);
}

#[test]
fn metadata_of_a_result_keeps_its_members_beside_the_servers_name() {
    let meta = Meta::new().with("a/b", &1).with(crate::meta_key::RELATED_TASK, &json!({"taskId": "t"}));
    let reply = Reply::from(CallToolResult::text("hi").with_meta(meta));
    assert_eq!(
        encode(&reply, &Method::ToolsCall, Revision::V2026_07_28),
        format!(
            r#"{{"resultType":"complete","_meta":{{{NAME},"a/b":1}},"content":[{{"type":"text","text":"hi"}}]}}"#
        )
    );
    let meta = Meta::new().with("a/b", &1).with(crate::meta_key::SERVER_INFO, &"mine");
    let reply = Reply::from(CallToolResult::text("hi").with_meta(meta));
    assert_eq!(
        encode(&reply, &Method::ToolsCall, Revision::V2026_07_28),
        r#"{"resultType":"complete","_meta":{"a/b":1,"io.modelcontextprotocol/serverInfo":"mine"},"content":[{"type":"text","text":"hi"}]}"#
    );
    assert_eq!(
        encode(&reply, &Method::ToolsCall, Revision::V2025_11_25),
        r#"{"_meta":{"a/b":1},"content":[{"type":"text","text":"hi"}]}"#
    );
}

/// covers: CACHE-01 CACHE-02
#[test]
fn modern_lists_say_how_long_they_may_be_kept() {
    let reply = Reply::from(ListToolsResult::new(Vec::new()));
    assert_eq!(
        encode(&reply, &Method::ToolsList, Revision::V2026_07_28),
        format!(
            r#"{{"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{{{NAME}}},"tools":[]}}"#
        )
    );
    assert_eq!(encode(&reply, &Method::ToolsList, Revision::V2025_11_25), r#"{"tools":[]}"#);
    let own = ListToolsResult::new(Vec::new()).with_ttl_ms(5_u64).with_cache_scope(CacheScope::Public);
    let text = encode(&own.into(), &Method::ToolsList, Revision::V2026_07_28);
    assert!(text.contains(r#""ttlMs":5,"cacheScope":"public""#), "{text}");
    for reply in [
        Reply::from(DiscoverResult::new(vec![], ServerCapabilities::new())),
        ListPromptsResult::new(vec![]).into(),
        ListResourcesResult::new(vec![]).into(),
        ListResourceTemplatesResult::new(vec![]).into(),
        ReadResourceResult::new(vec![]).into(),
    ] {
        let text = encode(&reply, &Method::Discover, Revision::V2026_07_28);
        assert!(text.contains(r#""ttlMs":0,"cacheScope":"private""#), "{text}");
    }
}

/// covers: CACHE-03
#[test]
fn a_time_to_live_of_any_kind_is_read_with_care() {
    for (given, read) in
        [(json!(5), Some(5)), (json!(-5), Some(0)), (json!(2.9), Some(2)), (json!(null), None)]
    {
        let json = json!({"resultType": "complete", "tools": [], "ttlMs": given, "cacheScope": "odd"});
        let reply = complete(&Method::ToolsList, Revision::V2026_07_28, json);
        let Reply::ListTools(list) = reply else { panic!("{reply:?}") };
        assert_eq!((list.ttl_ms, list.cache_scope), (read, Some(CacheScope::Private)));
    }
}

/// covers: MSG-26 MSG-27 TSKX-03
#[test]
fn the_type_of_a_result_is_taken_from_the_method_and_its_tag() {
    let modern = Revision::V2026_07_28;
    let content = json!([{"type": "text", "text": "hi"}]);
    for json in [
        json!({"content": content}),
        json!({"content": content, "resultType": "complete"}),
        json!({"resultType": "complete", "content": content}),
    ] {
        let reply = complete(&Method::ToolsCall, modern, json);
        assert!(matches!(&reply, Reply::CallTool(result) if result.all_text() == "hi"), "{reply:?}");
    }

    let ask = json!({"resultType": "input_required", "requestState": "s", "inputRequests": {
        "a": {"params": {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}, "method": "elicitation/create"},
        "b": {"method": "roots/list"},
        "c": {"method": "mind/read", "params": {}},
    }});
    let PeerResult::InputRequired(asked) =
        PeerResult::decode(&Method::ToolsCall, modern, &raw(ask.clone())).unwrap()
    else {
        panic!("questions")
    };
    assert_eq!(asked.request_state.as_deref(), Some("s"));
    assert!(matches!(asked.input_requests["a"], InputRequest::Elicit(_)));
    assert!(matches!(asked.input_requests["b"], InputRequest::ListRoots(_)));
    assert!(matches!(asked.input_requests["c"], InputRequest::Other { .. }));
    // Even where it looks like the method's own result.
    let both = json!({"content": content, "resultType": "input_required", "requestState": "s"});
    assert!(matches!(
        PeerResult::decode(&Method::ToolsCall, modern, &raw(both)),
        Ok(PeerResult::InputRequired(_))
    ));
    assert!(matches!(
        PeerResult::decode(&Method::ToolsList, modern, &raw(ask.clone())),
        Err(PeerResultError::ResultType { .. })
    ));
    assert!(matches!(
        PeerResult::decode(&Method::Ping, modern, &raw(ask)),
        Err(PeerResultError::ResultType { .. })
    ));

    let task = json!({"resultType": "task", "taskId": "t", "status": "working", "createdAt": "c",
        "lastUpdatedAt": "u", "ttlMs": null, "pollIntervalMs": 7});
    let PeerResult::Task(made) = PeerResult::decode(&Method::ToolsCall, modern, &raw(task.clone())).unwrap()
    else {
        panic!("a task")
    };
    assert_eq!(
        (made.task.task_id.as_str(), made.task.ttl_ms, made.task.poll_interval_ms),
        ("t", None, Some(7))
    );
    assert!(PeerResult::decode(&Method::PromptsGet, modern, &raw(task)).is_err());

    for odd in
        [json!({"resultType": "other", "content": content}), json!({"resultType": 5, "content": content})]
    {
        assert!(PeerResult::decode(&Method::ToolsCall, modern, &raw(odd.clone())).is_err(), "{odd}");
    }
    // An older peer may use the word for itself.
    let reply = complete(
        &Method::ToolsCall,
        Revision::V2025_11_25,
        json!({"resultType": "other", "content": content}),
    );
    assert!(matches!(reply, Reply::CallTool(_)));
    assert!(matches!(
        PeerResult::decode(&Method::ToolsCall, Revision::V2025_11_25, &raw(json!({"tools": []}))),
        Err(PeerResultError::Shape { .. })
    ));
    for not_an_object in [json!([]), json!(null), json!("x")] {
        assert!(PeerResult::decode(&Method::ToolsCall, modern, &raw(not_an_object.clone())).is_err());
        assert!(PeerResult::decode(&Method::Ping, modern, &raw(not_an_object)).is_err());
    }
}

/// covers: TSKX-05
#[test]
fn a_task_has_the_shape_of_its_revision() {
    let task = Task::new("t", "c").with_ttl_ms(5_u64).with_poll_interval_ms(7_u64);
    let created = Reply::from(CreateTaskResult::new(task.clone()));
    assert_eq!(
        encode(&created, &Method::ToolsCall, Revision::V2026_07_28),
        format!(
            r#"{{"resultType":"task","_meta":{{{NAME}}},"taskId":"t","status":"working","createdAt":"c","lastUpdatedAt":"c","ttlMs":5,"pollIntervalMs":7}}"#
        )
    );
    let old =
        r#"{"taskId":"t","status":"working","createdAt":"c","lastUpdatedAt":"c","ttl":5,"pollInterval":7}"#;
    let text = encode(&created, &Method::ToolsCall, Revision::V2025_11_25);
    assert_eq!(text, format!(r#"{{"task":{old}}}"#));
    let back = PeerResult::decode_task(&Method::ToolsCall, &RawJson::parse(text).unwrap()).unwrap();
    assert_eq!(back.task, task);

    let status = Reply::from(GetTaskResult::new(task.clone()).with_result(RawJson::empty_object()));
    assert_eq!(
        encode(&status, &Method::TasksGet, Revision::V2026_07_28),
        format!(
            r#"{{"resultType":"complete","_meta":{{{NAME}}},"result":{{}},"taskId":"t","status":"working","createdAt":"c","lastUpdatedAt":"c","ttlMs":5,"pollIntervalMs":7}}"#
        )
    );
    let text = encode(&status, &Method::TasksGet, Revision::V2025_11_25);
    assert_eq!(text, old);
    let reply = complete(&Method::TasksGet, Revision::V2025_11_25, serde_json::from_str(&text).unwrap());
    assert!(matches!(reply, Reply::GetTask(result) if result.task == task));
    for older in &Revision::ALL[..3] {
        let mut out = b"kept".to_vec();
        assert!(matches!(
            created.encode(&Method::ToolsCall, *older, &stamp(), &mut out),
            Err(EncodeError::Unsayable(_))
        ));
        assert_eq!(out, b"kept", "a failure leaves nothing behind");
    }
}

/// covers: TASK-23 TSKX-14
#[test]
fn a_tool_that_failed_has_failed_its_task_in_one_revision_and_completed_it_in_the_other() {
    let task = Task::new("t", "c").with_status(TaskStatus::Completed);
    let result = RawJson::from_serialize(&CallToolResult::error("no disk")).unwrap();
    let status = Reply::from(GetTaskResult::new(task.clone()).with_result(result));
    let old = encode(&status, &Method::TasksGet, Revision::V2025_11_25);
    assert!(old.contains(r#""status":"failed","statusMessage":"no disk""#), "{old}");
    let new = encode(&status, &Method::TasksGet, Revision::V2026_07_28);
    assert!(new.contains(r#""status":"completed""#) && new.contains(r#""isError":true"#), "{new}");
    let failed = task.with_status(TaskStatus::Failed);
    let status = Reply::from(GetTaskResult::new(failed).with_error(RpcError::internal("no power")));
    let old = encode(&status, &Method::TasksGet, Revision::V2025_11_25);
    assert!(old.contains(r#""status":"failed","statusMessage":"no power""#), "{old}");
    let new = encode(&status, &Method::TasksGet, Revision::V2026_07_28);
    assert!(new.contains(r#""error":{"code":-32603"#), "{new}");
}

#[test]
fn a_foreign_result_is_spliced_in_its_own_revision_and_rewritten_in_others() {
    let text = r#"{ "content" : [ {"text":"a","type":"text"} ], "structuredContent":null, "odd":1 }"#;
    let reply = Reply::raw(Revision::V2025_06_18, RawJson::parse(text).unwrap());
    assert_eq!(encode(&reply, &Method::ToolsCall, Revision::V2025_06_18), text);
    assert_eq!(
        encode(&reply, &Method::ToolsCall, Revision::V2026_07_28),
        format!(r#"{{"resultType":"complete","_meta":{{{NAME}}},"content":[{{"type":"text","text":"a"}}]}}"#)
    );
    let modern = r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public","tools":[]}"#;
    let reply = Reply::raw(Revision::V2026_07_28, RawJson::parse(modern).unwrap());
    assert_eq!(encode(&reply, &Method::ToolsList, Revision::V2024_11_05), r#"{"tools":[]}"#);
    let own = Method::from_name("acme/do");
    let reply = Reply::raw(Revision::V2025_06_18, raw(json!({"x": 1})));
    assert_eq!(
        encode(&reply, &own, Revision::V2026_07_28),
        format!(r#"{{"resultType":"complete","_meta":{{{NAME}}},"x":1}}"#)
    );
    let named = Reply::raw(Revision::V2025_06_18, raw(json!({"x": 1, "_meta": {"a/b": 1}})));
    assert_eq!(
        serde_json::from_str::<Value>(&encode(&named, &own, Revision::V2026_07_28)).unwrap(),
        json!({"resultType": "complete", "x": 1, "_meta": {"a/b": 1}})
    );
    assert_eq!(encode(&named, &own, Revision::V2026_07_28).matches("_meta").count(), 1);
    let reply = Reply::raw(Revision::V2026_07_28, raw(json!({"resultType": "complete", "x": 1})));
    assert_eq!(encode(&reply, &own, Revision::V2025_06_18), r#"{"x":1}"#);
    let mut out = Vec::new();
    let bad = Reply::raw(Revision::V2025_06_18, raw(json!({"tools": 5})));
    assert!(matches!(
        bad.encode(&Method::ToolsList, Revision::V2026_07_28, &stamp(), &mut out),
        Err(EncodeError::Foreign(_))
    ));
}

#[test]
fn a_prepared_list_is_written_once_for_each_revision() {
    let prepared = PreparedResult::new(ListToolsResult::new(vec![
        Tool::new("t", RawJson::empty_object()).with_title("T"),
    ]));
    let first = prepared.bytes(&Method::ToolsList, Revision::V2025_11_25, &stamp()).unwrap();
    let again = prepared.bytes(&Method::ToolsList, Revision::V2025_11_25, &stamp()).unwrap();
    assert_eq!(first.as_ptr(), again.as_ptr());
    let old = prepared.bytes(&Method::ToolsList, Revision::V2024_11_05, &stamp()).unwrap();
    assert_eq!(old, r#"{"tools":[{"name":"t","inputSchema":{}}]}"#);
    let reply = Reply::from(prepared);
    assert_eq!(encode(&reply, &Method::ToolsList, Revision::V2025_11_25).as_bytes(), first);
}

/// covers: MRTR-03 MRTR-04
#[test]
fn questions_travel_inside_a_result() {
    assert!(matches!(
        InputRequiredResult::new().encode(&stamp(), &mut Vec::new()),
        Err(EncodeError::NothingAsked)
    ));
    let mut result = InputRequiredResult::new().with_request_state("s");
    let mut url = ElicitUrlParams::new("m", "https://a/").with_elicitation_id("e");
    url.task = Some(TaskMetadata::new());
    result.input_requests.insert("k".into(), ElicitParams::Url(url).into());
    let mut out = Vec::new();
    result.encode(&stamp(), &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        format!(
            r#"{{"resultType":"input_required","_meta":{{{NAME}}},"inputRequests":{{"k":{{"method":"elicitation/create","params":{{"mode":"url","message":"m","url":"https://a/"}}}}}},"requestState":"s"}}"#
        )
    );
    result.input_requests.insert(
        "odd".into(),
        InputRequest::Other { method: "tools/call".into(), params: RawJson::empty_object() },
    );
    let mut out = Vec::new();
    assert!(result.encode(&stamp(), &mut out).is_err());
    assert!(out.is_empty());
}

/// covers: MRTR-03
#[test]
fn a_question_needs_no_state_and_state_no_question() {
    let encode = |result: InputRequiredResult| {
        let mut out = Vec::new();
        result.encode(&ServerStamp::anonymous(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let mut asked = InputRequiredResult::new();
    asked.input_requests.insert("k".into(), InputRequest::ListRoots(ListRootsParams::new()));
    assert!(encode(asked).contains(r#""inputRequests":{"k":{"method":"roots/list""#));
    let state = encode(InputRequiredResult::new().with_request_state("s"));
    assert_eq!(state, r#"{"resultType":"input_required","requestState":"s"}"#);
}

/// covers: TSKX-05
#[test]
fn the_questions_of_a_task_are_written_as_its_revision_has_them() {
    let mut url = ElicitUrlParams::new("m", "https://a/").with_elicitation_id("e");
    url.task = Some(TaskMetadata::new());
    let mut waiting = GetTaskResult::new(Task::new("t", "c").with_status(TaskStatus::InputRequired));
    waiting.input_requests.insert("k".into(), ElicitParams::Url(url).into());
    let text = encode(&waiting.clone().into(), &Method::TasksGet, Revision::V2026_07_28);
    let asked =
        r#""k":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://a/"}}"#;
    assert!(text.contains(asked), "{text}");
    let unknown = InputRequest::Other { method: "tools/call".into(), params: RawJson::empty_object() };
    waiting.input_requests.insert("odd".into(), unknown);
    let refused =
        Reply::from(waiting).encode(&Method::TasksGet, Revision::V2026_07_28, &stamp(), &mut Vec::new());
    assert!(matches!(refused, Err(EncodeError::Unsayable(_))), "{refused:?}");
}

#[test]
fn a_result_of_another_revision_is_refused() {
    let refused = |reply: &Reply, method: &Method, to| {
        let result = reply.encode(method, to, &stamp(), &mut Vec::new());
        matches!(result, Err(EncodeError::Unsayable(_)))
    };
    let elicited = Reply::from(ElicitResult::cancel());
    for to in Revision::ALL {
        let known = [Revision::V2025_06_18, Revision::V2025_11_25].contains(&to);
        assert_eq!(refused(&elicited, &Method::Elicit, to), !known, "{to}");
    }
    // Questions in a result that is forwarded.
    let asked = json!({ "resultType": "input_required", "requestState": "s" });
    let asked = Reply::raw(Revision::V2026_07_28, raw(asked));
    for to in Revision::ALL {
        assert_eq!(refused(&asked, &Method::ToolsCall, to), to.is_legacy(), "{to}");
    }
}

#[test]
fn replies_are_the_same_when_they_say_the_same() {
    let forwarded = || Reply::raw(Revision::V2025_06_18, raw(json!({ "x": 1 })));
    assert_eq!(forwarded(), forwarded());
    assert!(format!("{:?}", forwarded()).contains("ResultTranslator"), "{:?}", forwarded());
    let prepared = |text: &str| PreparedResult::new(CallToolResult::text(text));
    let written = prepared("a");
    written.bytes(&Method::ToolsCall, Revision::LATEST, &stamp()).unwrap();
    assert_eq!(written, prepared("a"), "what has been written of it does not matter");
    assert_ne!(written, prepared("b"));
}

#[test]
fn a_reply_is_small() {
    assert!(size_of::<Reply>() <= 112, "{}", size_of::<Reply>());
    assert_eq!(size_of::<RequestId>(), 16);
}
