//! Everything that we can send, in every revision, is what that revision's official schema says.
//!
//! The schemas are not part of this repository; see `official.rs` for where they are looked for. Without them these tests
//! print one line each and pass.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says aloud what it skips"
)]

mod book;
mod official;
mod samples;

use book::Book;
use hospes_model::message::{write_error, write_request, write_result};
use hospes_model::*;
use samples::*;
use serde::Serialize;
use serde_json::json;

fn each(mut check: impl FnMut(&mut Book, Revision)) {
    for revision in Revision::ALL {
        if let Some(mut book) = Book::open(revision) {
            check(&mut book, revision);
        }
    }
}

fn legacy(revision: Revision) -> bool {
    revision.is_legacy()
}

/// The whole request as a client sends it.
fn request<P: Serialize>(method: &Method, to: Revision, params: &P) -> Vec<u8> {
    let lowered = lower_params(method, to, RawJson::from_serialize(params).unwrap());
    let mut meta = Meta::new().with_progress_token(&7.into()).with(meta_key::TRACEPARENT, &"00-ab-cd-01");
    if !legacy(to) {
        meta = meta.with(meta_key::LOG_LEVEL, &LoggingLevel::Debug);
    }
    let stamp = ClientStamp::new(&client_capabilities(), Some(&implementation()));
    let mut params = Vec::new();
    write_params(&mut params, &lowered, &meta, (!legacy(to)).then_some(&stamp)).unwrap();
    let params = RawJson::parse(params).unwrap();
    let mut out = Vec::new();
    write_request(&mut out, &1.into(), method.name(), Some(&params)).unwrap();
    out
}

#[test]
fn the_strict_schemas_notice_mistakes() {
    each(|book, revision| {
        assert!(book.judge("CallToolResult", json!({"content": 5})).is_err());
        let mut fine = json!({"content": [{"type": "text", "text": "a"}]});
        if !legacy(revision) {
            fine["resultType"] = json!("complete");
        }
        assert_eq!(book.judge("CallToolResult", fine.clone()), Ok(()));
        fine["ttlMs"] = json!(1);
        assert!(book.judge("CallToolResult", fine).is_err(), "members of other revisions");
    });
}

/// covers: MSG-05 VER-11 CAP-11
#[test]
fn requests_of_a_client_are_valid() {
    each(|book, to| {
        let mut answers = InputResponses::new();
        answers.insert("roots".to_owned(), raw(json!({"roots": [{"uri": "file:///a"}]})));
        let mut context = CompleteContext::new();
        context.arguments.insert("country".to_owned(), "CH".to_owned());
        let reference = || CompletionReference::Prompt { name: "p".to_owned(), title: Some("P".to_owned()) };
        let argument = || CompleteArgument::new("city", "B");
        let mut prompt =
            GetPromptParams::new("p").with_input_responses(answers.clone()).with_request_state("s");
        prompt.arguments.insert("city".to_owned(), "Bern".to_owned());

        let mut check = |method: Method, definition: &str, bytes: Vec<u8>| {
            assert_eq!(method.in_revision(to), book.has(definition), "{to}: {method}");
            if method.in_revision(to) {
                book.check(definition, &bytes);
                book.check("JSONRPCRequest", &bytes);
            }
        };
        let initialize = InitializeParams::new(to.to_string(), client_capabilities(), implementation());
        check(Method::Initialize, "InitializeRequest", request(&Method::Initialize, to, &initialize));
        let initialize =
            InitializeParams::new(to.to_string(), ClientCapabilities::new(), Implementation::new("n", "1"));
        check(Method::Initialize, "InitializeRequest", request(&Method::Initialize, to, &initialize));
        check(Method::Discover, "DiscoverRequest", request(&Method::Discover, to, &EmptyParams::new()));
        check(Method::Ping, "PingRequest", request(&Method::Ping, to, &EmptyParams::new()));
        for (method, definition) in [
            (Method::ToolsList, "ListToolsRequest"),
            (Method::PromptsList, "ListPromptsRequest"),
            (Method::ResourcesList, "ListResourcesRequest"),
            (Method::ResourceTemplatesList, "ListResourceTemplatesRequest"),
        ] {
            check(method.clone(), definition, request(&method, to, &PaginatedParams::new()));
            let second = PaginatedParams::new().with_cursor("c");
            check(method.clone(), definition, request(&method, to, &second));
        }
        let call = CallToolParams::new("t");
        check(Method::ToolsCall, "CallToolRequest", request(&Method::ToolsCall, to, &call));
        let call = call
            .with_arguments(raw(json!({"a": [1, null]})))
            .with_input_responses(answers.clone())
            .with_request_state("s")
            .with_task(TaskMetadata::new().with_ttl(5_u64))
            .with_meta(meta());
        check(Method::ToolsCall, "CallToolRequest", {
            // Metadata that stands in the params already is merged by whoever writes them.
            let mut call = call.clone();
            call.meta = Meta::new();
            request(&Method::ToolsCall, to, &call)
        });
        let lowered = lower_params(&Method::ToolsCall, to, RawJson::from_serialize(&call).unwrap());
        assert_eq!(lowered.as_str().contains("related-task"), to == Revision::V2025_11_25, "{lowered:?}");
        assert_eq!(lowered.as_str().contains("subscriptionId"), !legacy(to), "{lowered:?}");
        assert!(lowered.as_str().contains("example.com/key"));
        check(Method::PromptsGet, "GetPromptRequest", request(&Method::PromptsGet, to, &prompt));
        let read = ReadResourceParams::new("file:///a");
        check(Method::ResourcesRead, "ReadResourceRequest", request(&Method::ResourcesRead, to, &read));
        let read = read.with_input_responses(answers).with_request_state("s");
        check(Method::ResourcesRead, "ReadResourceRequest", request(&Method::ResourcesRead, to, &read));
        let complete =
            CompleteParams::new(CompletionReference::Resource { uri: "a:{b}".to_owned() }, argument());
        check(Method::Complete, "CompleteRequest", request(&Method::Complete, to, &complete));
        let complete = CompleteParams::new(reference(), argument()).with_context(context);
        check(Method::Complete, "CompleteRequest", request(&Method::Complete, to, &complete));
        let subscribe = SubscribeParams::new("file:///a");
        for (method, definition) in [
            (Method::ResourcesSubscribe, "SubscribeRequest"),
            (Method::ResourcesUnsubscribe, "UnsubscribeRequest"),
        ] {
            check(method.clone(), definition, request(&method, to, &subscribe));
        }
        let level = SetLevelParams::new(LoggingLevel::Emergency);
        check(Method::SetLevel, "SetLevelRequest", request(&Method::SetLevel, to, &level));
        let filter = SubscriptionFilter::new()
            .with_tools_list_changed(true)
            .with_prompts_list_changed(true)
            .with_resources_list_changed(true)
            .with_resource_subscriptions(vec!["file:///a".to_owned()]);
        for filter in [filter, SubscriptionFilter::new()] {
            let listen = SubscriptionsListenParams::new(filter);
            let bytes = request(&Method::SubscriptionsListen, to, &listen);
            check(Method::SubscriptionsListen, "SubscriptionsListenRequest", bytes);
        }
        // Tasks are core in one revision only; later they are an extension, which the schema leaves out.
        if legacy(to) {
            let task = TaskParams::new("t");
            for (method, definition) in [
                (Method::TasksGet, "GetTaskRequest"),
                (Method::TasksResult, "GetTaskPayloadRequest"),
                (Method::TasksCancel, "CancelTaskRequest"),
            ] {
                check(method.clone(), definition, request(&method, to, &task));
            }
            let list = request(&Method::TasksList, to, &PaginatedParams::new());
            check(Method::TasksList, "ListTasksRequest", list);
        }
    });
}

fn every_result(to: Revision) -> Vec<(Method, &'static str, Reply)> {
    let mut replies: Vec<(Method, &'static str, Reply)> = Vec::new();
    let mut add = |method: Method, definition, reply: Reply| {
        if method.in_revision(to) {
            replies.push((method, definition, reply));
        }
    };
    add(Method::Ping, "EmptyResult", Reply::Empty);
    let version = to.to_string();
    add(
        Method::Initialize,
        "InitializeResult",
        InitializeResult::new(version.clone(), server_capabilities(), implementation())
            .with_instructions("use it well")
            .with_meta(meta())
            .into(),
    );
    let least = ServerCapabilities::new();
    let named = Implementation::new("n", "1");
    add(
        Method::Initialize,
        "InitializeResult",
        InitializeResult::new(version.clone(), least.clone(), named).into(),
    );
    add(
        Method::Discover,
        "DiscoverResult",
        DiscoverResult::new(vec![version.clone()], server_capabilities())
            .with_instructions("use it well")
            .with_ttl_ms(5_u64)
            .with_cache_scope(CacheScope::Public)
            .into(),
    );
    add(Method::Discover, "DiscoverResult", DiscoverResult::new(vec![version], least).into());
    for tools in [vec![], tools()] {
        let list = ListToolsResult::new(tools).with_next_cursor("c").with_meta(meta());
        add(Method::ToolsList, "ListToolsResult", list.into());
    }
    for prompts in [vec![], prompts()] {
        add(Method::PromptsList, "ListPromptsResult", ListPromptsResult::new(prompts).into());
    }
    for resources in [vec![], vec![Resource::new("a:b", "c"), resource()]] {
        add(Method::ResourcesList, "ListResourcesResult", ListResourcesResult::new(resources).into());
    }
    for templates in [vec![], vec![ResourceTemplate::new("a:{b}", "c"), template()]] {
        let list = ListResourceTemplatesResult::new(templates).with_next_cursor("c");
        add(Method::ResourceTemplatesList, "ListResourceTemplatesResult", list.into());
    }
    for contents in [vec![], contents()] {
        add(Method::ResourcesRead, "ReadResourceResult", ReadResourceResult::new(contents).into());
    }
    for structured in [None, Some(json!({"a": 1})), Some(json!([1])), Some(json!("s"))] {
        let mut result = CallToolResult::new(blocks()).with_is_error(true).with_meta(meta());
        result.structured_content = structured.map(raw);
        add(Method::ToolsCall, "CallToolResult", result.clone().into());
        result.content.clear();
        add(Method::ToolsCall, "CallToolResult", result.into());
    }
    add(Method::ToolsCall, "CallToolResult", CallToolResult::text("").into());
    let messages = blocks().into_iter().map(PromptMessage::user).collect();
    add(
        Method::PromptsGet,
        "GetPromptResult",
        GetPromptResult::new(messages).with_description("d").with_meta(meta()).into(),
    );
    add(Method::PromptsGet, "GetPromptResult", GetPromptResult::new(vec![]).into());
    let completion = Completion::new(vec!["a".to_owned()]);
    add(Method::Complete, "CompleteResult", CompleteResult::new(completion.clone()).into());
    let completion = completion.with_total(2_u64).with_has_more(true);
    add(Method::Complete, "CompleteResult", CompleteResult::new(completion).into());
    let listened = SubscriptionsListenResult::new().with_meta(meta());
    add(Method::SubscriptionsListen, "SubscriptionsListenResult", listened.into());

    // Of the client.
    for block in sampling_blocks() {
        let result = CreateMessageResult::new("model", block).with_stop_reason(StopReason::EndTurn);
        add(Method::CreateMessage, "CreateMessageResult", result.with_meta(meta()).into());
    }
    for content in [vec![], sampling_blocks(), sampling_blocks().split_off(2), tool_blocks()] {
        let result =
            CreateMessageResult::of("model", content).with_stop_reason(StopReason::Other("tired".into()));
        add(Method::CreateMessage, "CreateMessageResult", result.into());
    }
    let mut root = Root::new("file:///a");
    for roots in [vec![], vec![root.clone()], {
        root.name = Some("A".to_owned());
        root.meta = meta();
        vec![root]
    }] {
        add(Method::RootsList, "ListRootsResult", ListRootsResult::new(roots).with_meta(meta()).into());
    }
    let filled = raw(json!({"text": "t", "whole": 5, "yes": true, "list": ["a", "b"]}));
    for result in [ElicitResult::accept(filled), ElicitResult::decline(), ElicitResult::cancel()] {
        add(Method::Elicit, "ElicitResult", result.with_meta(meta()).into());
    }
    if legacy(to) {
        let related = Meta::new().with(meta_key::RELATED_TASK, &json!({"taskId": "t"}));
        let task = GetTaskResult::new(task()).with_result(RawJson::empty_object()).with_meta(related);
        add(Method::TasksGet, "GetTaskResult", task.clone().into());
        add(Method::TasksCancel, "CancelTaskResult", task.clone().into());
        let minimal = Task::new("t", "2025-11-25T10:30:00Z");
        add(Method::TasksList, "ListTasksResult", ListTasksResult::new(vec![task.task, minimal]).into());
    }
    replies
}

fn stamp() -> ServerStamp {
    ServerStamp::new(&RawJson::from_serialize(&implementation()).unwrap())
}

/// covers: MSG-05 LIFE-18 TOOL-11 TOOL-35 TOOL-36 SAMP-08 SAMP-09 DISC-03
#[test]
fn results_of_both_sides_are_valid() {
    each(|book, to| {
        for (method, definition, reply) in every_result(to) {
            let mut result = Vec::new();
            reply.encode(&method, to, &stamp(), &mut result).unwrap();
            book.check(definition, &result);
            let mut message = Vec::new();
            write_result(&mut message, &"id".into(), |out| reply.encode(&method, to, &stamp(), out)).unwrap();
            let whole =
                if book.has("JSONRPCResultResponse") { "JSONRPCResultResponse" } else { "JSONRPCResponse" };
            book.check(whole, &message);
            // Whoever reads it gets it by its method, and can say it again.
            let json = RawJson::parse(result).unwrap();
            let PeerResult::Complete(read) = PeerResult::decode(&method, to, &json).unwrap() else {
                panic!("{method} is complete")
            };
            let mut again = Vec::new();
            read.encode(&method, to, &stamp(), &mut again).unwrap();
            book.check(definition, &again);
        }
        if to == Revision::V2025_11_25 {
            let created = Reply::from(CreateTaskResult::new(task()).with_meta(meta()));
            let mut result = Vec::new();
            created.encode(&Method::ToolsCall, to, &stamp(), &mut result).unwrap();
            book.check("CreateTaskResult", &result);
        }
    });
}

/// covers: ELIC-04 ELIC-17 ELIC-18 SAMP-07
#[test]
fn questions_of_a_server_and_their_answers_are_valid() {
    each(|book, to| {
        let id = (to == Revision::V2025_11_25).then_some("e");
        let mut questions: Vec<InputRequest> = vec![
            ListRootsParams::new().into(),
            create_message().into(),
            CreateMessageParams::new(vec![SamplingMessage::user("a")], 1).into(),
        ];
        if to >= Revision::V2025_06_18 {
            questions.push(form(true).into());
            questions.push(form(false).into());
            questions.push(ElicitParams::form("m", ElicitSchema::new()).into());
        }
        if to >= Revision::V2025_11_25 {
            questions.push(url(id).into());
            questions.push(create_message_with_tools().into());
        }
        for question in questions {
            if legacy(to) {
                let (method, params) = question.lower(to).unwrap();
                let mut message = Vec::new();
                write_request(&mut message, &1.into(), method.name(), Some(&params)).unwrap();
                let definition = match method {
                    Method::RootsList => "ListRootsRequest",
                    Method::Elicit => "ElicitRequest",
                    _ => "CreateMessageRequest",
                };
                book.check(definition, &message);
            } else {
                let mut result = InputRequiredResult::new().with_request_state("s");
                result.input_requests.insert("k".to_owned(), question);
                let mut out = Vec::new();
                result.encode(&stamp(), &mut out).unwrap();
                book.check("InputRequiredResult", &out);
            }
        }
        if legacy(to) {
            return;
        }
        for (definition, answer) in [
            ("CreateMessageResult", InputResponse::from(CreateMessageResult::of("m", sampling_blocks()))),
            ("CreateMessageResult", CreateMessageResult::of("m", tool_blocks()).into()),
            ("ListRootsResult", ListRootsResult::new(vec![Root::new("file:///a")]).with_meta(meta()).into()),
            ("ElicitResult", ElicitResult::accept(raw(json!({"a": ["b"]}))).with_meta(meta()).into()),
        ] {
            let encoded = answer.encode(to).unwrap();
            book.check(definition, encoded.as_bytes());
            book.check("InputResponse", encoded.as_bytes());
        }
    });
}

/// covers: PROG-04 PROG-06 LOG-06 SUBS-04 MSG-19
#[test]
fn notifications_are_valid_or_left_unsaid() {
    each(|book, to| {
        let progress = ProgressParams::new(7.into(), 0.5);
        let cancelled = CancelledParams::new();
        let log = LogMessageParams::new(LoggingLevel::Warning, raw(json!({"x": [1]})));
        let all = vec![
            (Notification::Progress(progress.clone()), "ProgressNotification"),
            (Notification::Progress(progress.with_total(1.0).with_message("half")), "ProgressNotification"),
            (Notification::LogMessage(log.clone()), "LoggingMessageNotification"),
            (Notification::LogMessage(log.with_logger("l").with_meta(meta())), "LoggingMessageNotification"),
            (Notification::ToolsListChanged, "ToolListChangedNotification"),
            (Notification::PromptsListChanged, "PromptListChangedNotification"),
            (Notification::ResourcesListChanged, "ResourceListChangedNotification"),
            (
                Notification::ResourceUpdated(ResourceUpdatedParams::new("file:///a")),
                "ResourceUpdatedNotification",
            ),
            (
                Notification::Cancelled(cancelled.clone().with_request_id(7).with_reason("enough")),
                "CancelledNotification",
            ),
            (Notification::Cancelled(cancelled.with_request_id("x")), "CancelledNotification"),
            (
                Notification::ElicitationComplete(ElicitationCompleteParams::new("e")),
                "ElicitationCompleteNotification",
            ),
            (
                Notification::SubscriptionsAcknowledged(SubscriptionsAcknowledgedParams::new(
                    SubscriptionFilter::new().with_tools_list_changed(true),
                )),
                "SubscriptionsAcknowledgedNotification",
            ),
            (Notification::RootsListChanged, "RootsListChangedNotification"),
            (Notification::Initialized, "InitializedNotification"),
        ];
        for (notification, definition) in all {
            for subscription in [None, Some(RequestId::from("s"))] {
                let mut out = Vec::new();
                let said = notification.encode(to, subscription.as_ref(), &mut out).unwrap();
                assert_eq!(said, book.has(definition), "{to} {definition}");
                if !said {
                    assert!(out.is_empty());
                    continue;
                }
                book.check(definition, &out);
                book.check("JSONRPCNotification", &out);
                let text = String::from_utf8(out).unwrap();
                let tagged = text.contains("\"io.modelcontextprotocol/subscriptionId\":\"s\"");
                assert_eq!(tagged, subscription.is_some() && !legacy(to), "{text}");
            }
        }
        for notification in [
            Notification::TaskStatus(Box::new(task())),
            Notification::TasksChanged(Box::new(GetTaskResult::new(task()))),
        ] {
            let mut out = Vec::new();
            let said = notification.encode(to, None, &mut out).unwrap();
            assert_eq!(said, to >= Revision::V2025_11_25);
            if to == Revision::V2025_11_25 {
                book.check("TaskStatusNotification", &out);
            }
        }
    });
}

/// covers: ERR-02 ERR-04 ERR-08 RES-18 RES-20
#[test]
fn errors_are_valid_and_have_the_codes_of_their_revision() {
    each(|book, to| {
        let mut told = |method: Method, error: RpcError| -> (i64, Vec<u8>) {
            let error = encode_error(&method, to, error);
            let mut out = Vec::new();
            write_error(&mut out, Some(&1.into()), &error);
            let whole =
                if book.has("JSONRPCErrorResponse") { "JSONRPCErrorResponse" } else { "JSONRPCError" };
            book.check(whole, &out);
            let named = match error.code {
                code::UNSUPPORTED_VERSION => Some("UnsupportedProtocolVersionError"),
                code::MISSING_CLIENT_CAPABILITY => Some("MissingRequiredClientCapabilityError"),
                code::HEADER_MISMATCH => Some("HeaderMismatchError"),
                code::URL_ELICITATION_REQUIRED => Some("URLElicitationRequiredError"),
                _ => None,
            };
            if let Some(named) = named {
                book.check(named, &out);
            }
            (error.code, out)
        };
        let not_found = told(Method::ResourcesRead, RpcError::resource_not_found("file:///a")).0;
        assert_eq!(not_found, if legacy(to) { code::RESOURCE_NOT_FOUND } else { code::INVALID_PARAMS });
        assert_eq!(told(Method::ResourcesRead, RpcError::invalid_params("no uri")).0, code::INVALID_PARAMS);
        let version = RpcError::unsupported_version("1900-01-01", &Revision::ALL);
        let as_it_is = |code| if legacy(to) { code::INTERNAL_ERROR } else { code };
        assert_eq!(told(Method::ToolsCall, version.clone()).0, as_it_is(code::UNSUPPORTED_VERSION));
        let initialize = if legacy(to) { code::INVALID_PARAMS } else { code::UNSUPPORTED_VERSION };
        assert_eq!(told(Method::Initialize, version).0, initialize);
        let missing = RpcError::missing_client_capability(&ClientCapabilities::new());
        assert_eq!(told(Method::ToolsCall, missing).0, as_it_is(code::MISSING_CLIENT_CAPABILITY));
        let mismatch = RpcError::new(code::HEADER_MISMATCH, "the header says otherwise");
        assert_eq!(told(Method::ToolsCall, mismatch).0, as_it_is(code::HEADER_MISMATCH));
        let url = ElicitUrlParams::new("m", "https://example.com/").with_elicitation_id("e");
        let url = RpcError::url_elicitation_required(vec![url]);
        let (code, bytes) = told(Method::ToolsCall, url);
        let kept = to == Revision::V2025_11_25;
        assert_eq!(code, if kept { code::URL_ELICITATION_REQUIRED } else { code::INTERNAL_ERROR });
        assert!(String::from_utf8(bytes).unwrap().contains("\"elicitationId\":\"e\""), "nothing is lost");
        let foreign = told(Method::ToolsCall, RpcError::new(-32050, "mine")).0;
        assert_eq!(foreign, code::INTERNAL_ERROR);
    });
}
