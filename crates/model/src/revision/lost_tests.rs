//! Tests that each part that a revision does not have is left out wherever it stands.

use serde_json::json;

use super::step::Lower;
use super::*;
use crate::types::*;
use crate::{InputRequest, InputResponse, RawJson, TASKS_EXTENSION, meta_key};
use Revision::{V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28};

fn empty() -> Option<RawJson> {
    Some(RawJson::empty_object())
}

#[test]
fn metadata_is_lowered_on_every_result() {
    fn check<T: Lower>(result: &mut T, meta: fn(&mut T) -> &mut Meta) {
        *meta(result) = Meta::new()
            .with("a/b", &1)
            .with(meta_key::SERVER_INFO, &json!({ "name": "s", "version": "1" }))
            .with(meta_key::RELATED_TASK, &json!({ "taskId": "t" }));
        for to in Revision::ALL {
            let mut lowered = result.lowered(to).into_owned();
            let left = meta(&mut lowered);
            let name = std::any::type_name::<T>();
            assert!(left.contains_key("a/b"), "{name} in {to}");
            assert_eq!(left.contains_key(meta_key::SERVER_INFO), to == V2026_07_28, "{name} in {to}");
            assert_eq!(left.contains_key(meta_key::RELATED_TASK), to == V2025_11_25, "{name} in {to}");
        }
    }
    macro_rules! check {
        ($($type:ident: $result:expr;)+) => {$( check::<$type>(&mut $result, |result| &mut result.meta); )+};
    }
    let task = || Task::new("t", "c");
    check! {
        EmptyResult: EmptyResult::new();
        CallToolResult: CallToolResult::text("a");
        GetPromptResult: GetPromptResult::new(vec![]);
        ListToolsResult: ListToolsResult::new(vec![]);
        ListPromptsResult: ListPromptsResult::new(vec![]);
        ListResourcesResult: ListResourcesResult::new(vec![]);
        ListResourceTemplatesResult: ListResourceTemplatesResult::new(vec![]);
        ReadResourceResult: ReadResourceResult::new(vec![]);
        CompleteResult: CompleteResult::new(Completion::new(vec![]));
        SubscriptionsListenResult: SubscriptionsListenResult::new();
        DiscoverResult: DiscoverResult::new(vec![], ServerCapabilities::new());
        CreateTaskResult: CreateTaskResult::new(task());
        GetTaskResult: GetTaskResult::new(task());
        ListTasksResult: ListTasksResult::new(vec![task()]);
    }
}

#[test]
fn each_part_of_a_name_is_left_out_where_there_is_none() {
    let plain = || Implementation::new("n", "1");
    for newer in [
        plain().with_description("d"),
        plain().with_icons(vec![Icon::new("https://a/i")]),
        plain().with_website_url("https://a/"),
    ] {
        for to in Revision::ALL {
            let want = if to <= V2025_06_18 { plain() } else { newer.clone() };
            assert_eq!(*newer.for_revision(to), want, "{to}");
        }
    }
    let titled = plain().with_title("N");
    for to in Revision::ALL {
        let want = if to < V2025_06_18 { plain() } else { titled.clone() };
        assert_eq!(*titled.for_revision(to), want, "{to}");
    }
}

#[test]
fn each_capability_is_left_out_where_there_is_none() {
    for (tools, context) in [(true, false), (false, true), (true, true)] {
        let mut sampling = SamplingCapability::new();
        (sampling.tools, sampling.context) = (empty().filter(|_| tools), empty().filter(|_| context));
        let client = ClientCapabilities::new().with_sampling(sampling);
        for to in Revision::ALL {
            let plain = ClientCapabilities::new().with_sampling(SamplingCapability::new());
            let want = if to <= V2025_06_18 { plain } else { client.clone() };
            assert_eq!(*client.for_revision(to), want, "{to}");
        }
    }
    let mut server = ServerCapabilities::new();
    server.extensions.insert(TASKS_EXTENSION.to_owned(), RawJson::empty_object());
    server.tasks = Some(serde_json::from_str("{}").unwrap());
    server.completions = empty();
    server.logging = empty();
    for to in Revision::ALL {
        let left = server.for_revision(to);
        assert_eq!(left.extensions.is_empty(), to != V2026_07_28, "{to}");
        assert_eq!(left.tasks.is_some(), to == V2025_11_25, "{to}");
        assert_eq!(left.completions.is_some(), to != V2024_11_05, "{to}");
        assert!(left.logging.is_some(), "{to}");
    }
}

#[test]
fn what_sampling_does_not_have_is_a_block_of_text() {
    let result = ToolResultContent::new("1", vec!["one".into(), "two".into()]);
    let odd = r#"{"type":"smell","of":"roses"}"#;
    let unknown: SamplingMessageContentBlock = serde_json::from_str(odd).unwrap();
    for (block, newest_text, text) in [
        (SamplingMessageContentBlock::ToolResult(result), V2025_06_18, "Tool result: one\ntwo"),
        (unknown, V2025_11_25, odd),
    ] {
        let told = json!({ "type": "text", "text": text });
        for to in Revision::ALL {
            let message = SamplingMessage::of(Role::User, vec![block.clone()]);
            let question = InputRequest::from(CreateMessageParams::new(vec![message], 1));
            let asked = question.lower(to).unwrap().1.to_value().unwrap();
            let answer = InputResponse::from(CreateMessageResult::of("m", vec![block.clone()]));
            let answered = answer.encode(to).unwrap().to_value().unwrap();
            for content in [&asked["messages"][0]["content"], &answered["content"]] {
                let content = if content.is_array() { &content[0] } else { content };
                assert_eq!(*content == told, to <= newest_text, "{to}: {content}");
            }
        }
    }
}

/// covers: TOOL-35
#[test]
fn a_schema_of_output_is_kept_where_its_root_is_an_object() {
    for (schema, is_object) in [
        (json!({ "type": "object", "properties": { "a": { "type": "string" } } }), true),
        (json!({ "type": ["object", "null"] }), false),
        (json!({ "type": "array", "items": { "$ref": "#" } }), false),
        (json!({ "type": "array", "items": { "$ref": "#/items" } }), false),
        (json!({ "properties": {} }), false),
        (json!(true), false),
    ] {
        let mut tool = Tool::new("t", RawJson::empty_object());
        tool.output_schema = Some(schema.into());
        for to in Revision::ALL {
            let kept = to == V2026_07_28 || (is_object && to >= V2025_06_18);
            assert_eq!(
                tool.for_revision(to).output_schema,
                tool.output_schema.clone().filter(|_| kept),
                "{to}"
            );
        }
    }
}

/// covers: TOOL-35
#[test]
fn a_schema_of_output_that_is_no_object_becomes_that_of_a_member_of_one() {
    let list = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "List",
        "type": "array", "items": { "$ref": "#/$defs/Item" }, "$defs": { "Item": { "type": "string" } },
    });
    let wrapped = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": {
            "result": { "title": "List", "type": "array", "items": { "$ref": "#/$defs/Item" } },
        },
        "required": ["result"], "$defs": { "Item": { "type": "string" } },
    });
    let plain =
        |schema| json!({ "type": "object", "properties": { "result": schema }, "required": ["result"] });
    let (count, maybe) = (json!({ "type": "integer" }), json!({ "type": ["array", "null"] }));
    for (schema, wrapped) in [(list, wrapped), (count.clone(), plain(count)), (maybe.clone(), plain(maybe))] {
        let mut tool = Tool::new("t", RawJson::empty_object());
        tool.output_schema = Some(schema.clone().into());
        for to in Revision::ALL {
            let lowered =
                tool.for_revision(to).output_schema.as_ref().map(|schema| schema.to_value().unwrap());
            let expected = match to {
                V2026_07_28 => Some(schema.clone()),
                to if to >= V2025_06_18 => Some(wrapped.clone()),
                _ => None,
            };
            assert_eq!(lowered, expected, "{to}");
        }
    }
}
