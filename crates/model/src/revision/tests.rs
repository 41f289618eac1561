//! The table of this module's documentation, row by row, and that nothing else is lost.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::lift::Lift as _;
use super::step::Lower;
use super::*;
use crate::types::*;
use crate::{InputResponse, Method, RawJson, TASKS_EXTENSION, meta_key};
use Revision::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28};

fn raw(value: Value) -> RawJson {
    value.into()
}

fn value<T: serde::Serialize>(of: &T) -> Value {
    serde_json::to_value(of).unwrap()
}

/// Values in each revision, oldest first.
fn rows<T: Lower + serde::Serialize>(of: &T) -> Vec<Value> {
    Revision::ALL.into_iter().map(|to| value(of.lowered(to).as_ref())).collect()
}

#[test]
fn what_needs_no_change_is_not_copied() {
    let result = CallToolResult::text("a").with_meta(Meta::new().with("a/b", &1));
    let list = ListToolsResult::new(vec![Tool::new("t", raw(json!({"type": "object"})))]);
    for to in Revision::ALL {
        assert!(matches!(result.lowered(to), std::borrow::Cow::Borrowed(_)), "{to}");
        assert!(matches!(list.lowered(to), std::borrow::Cow::Borrowed(_)), "{to}");
    }
}

#[test]
fn content_of_an_unknown_type_is_shown_to_older_peers_as_text() {
    let odd = json!({"type": "smell", "of": "roses"});
    let block: ContentBlock = serde_json::from_value(odd.clone()).unwrap();
    let rows = rows(&CallToolResult::new(vec![block]));
    let text = json!({"content": [{"type": "text", "text": r#"{"type":"smell","of":"roses"}"#}]});
    assert_eq!(rows[4], json!({"content": [odd]}));
    for row in &rows[..4] {
        assert_eq!(*row, text);
    }
}

#[test]
fn the_metadata_of_tasks_is_of_one_revision() {
    let meta = Meta::new()
        .with(meta_key::RELATED_TASK, &json!({"taskId": "t"}))
        .with(meta_key::MODEL_IMMEDIATE_RESPONSE, &"wait")
        .with("a/b", &1);
    for (to, row) in Revision::ALL.into_iter().zip(rows(&EmptyResult::new().with_meta(meta))) {
        assert_eq!(row["_meta"].as_object().unwrap().len(), if to == V2025_11_25 { 3 } else { 1 }, "{to}");
    }
}

#[test]
fn the_metadata_of_stateless_requests_stays_in_its_revision() {
    let mut meta = Meta::new().with("a/b", &1);
    for key in v2025_11_25::NEWER_META {
        meta = meta.with(*key, &1);
    }
    for (to, row) in Revision::ALL.into_iter().zip(rows(&EmptyResult::new().with_meta(meta))) {
        assert_eq!(row["_meta"].as_object().unwrap().len(), if to == V2026_07_28 { 7 } else { 1 }, "{to}");
    }
}

/// covers: TOOL-35
#[test]
fn structured_output_that_is_no_object_goes_into_one_and_becomes_text_where_there_is_none() {
    let list = CallToolResult::new(vec![]).with_structured_content(raw(json!([1, 2])));
    for (to, row) in Revision::ALL.into_iter().zip(rows(&list)) {
        let mut expected = json!({"content": [{"type": "text", "text": "[1,2]"}]});
        if to == V2026_07_28 {
            expected = json!({"content": [], "structuredContent": [1, 2]});
        } else if to >= V2025_06_18 {
            expected["structuredContent"] = json!({"result": [1, 2]});
        }
        assert_eq!(row, expected, "{to}");
        let read: CallToolResult = serde_json::from_value(row).unwrap();
        assert_eq!(read.parse::<Vec<u32>>().unwrap(), [1, 2], "{to}");
    }
    let object = CallToolResult::structured(&json!({"a": 1})).unwrap();
    for (to, row) in Revision::ALL.into_iter().zip(rows(&object)) {
        assert_eq!(row.get("structuredContent").is_some(), to >= V2025_06_18, "{to}");
        assert_eq!(row["content"], json!([{"type": "text", "text": r#"{"a":1}"#}]));
    }
}

#[test]
fn a_schema_keeps_its_text_but_for_what_older_schemas_refuse() {
    let text = r#"{"type":"object", "properties":{ "z":true,"a\u0062":false, "k":{"x":true} }, "zeta":1}"#;
    let tool = Tool::new("t", RawJson::parse(text).unwrap());
    assert_eq!(tool.lowered(V2026_07_28).input_schema.as_str(), text);
    assert_eq!(
        tool.lowered(V2025_11_25).input_schema.as_str(),
        r#"{"type":"object", "properties":{ "z":{},"a\u0062":{"not":{}}, "k":{"x":true} }, "zeta":1}"#
    );
    for kept in [r#"{"type":"object","properties":5}"#, r#"{"type":"object"}"#, "true"] {
        let tool = Tool::new("t", RawJson::parse(kept).unwrap());
        assert_eq!(tool.lowered(V2024_11_05).input_schema.as_str(), kept);
    }
}

#[test]
fn a_tools_title_moves_into_its_annotations_before_it_is_lost() {
    let schema = || raw(json!({"type": "object"}));
    let titled = Tool::new("t", schema()).with_title("T");
    let rows_of = rows(&titled);
    assert_eq!(rows_of[2]["title"], "T");
    assert_eq!(rows_of[1]["annotations"], json!({"title": "T"}));
    assert_eq!(rows_of[0], json!({"name": "t", "inputSchema": {"type": "object"}}));
    let both = titled.with_annotations(ToolAnnotations::new().with_title("annotated"));
    assert_eq!(rows(&both)[1]["annotations"], json!({"title": "annotated"}));
    let lowered = both.lowered(V2025_03_26);
    assert_eq!(lowered.display_name(), "annotated");
}

#[test]
fn a_resource_link_is_text_for_those_who_know_none() {
    let link = Resource::new("file:///a", "a")
        .with_title("A")
        .with_description("the first")
        .with_annotations(Annotations::new().with_priority(1.0).with_last_modified("2025-01-12"));
    let rows = rows(&CallToolResult::new(vec![ContentBlock::link(link)]));
    assert_eq!(rows[2]["content"][0]["type"], "resource_link");
    assert_eq!(
        rows[1]["content"][0],
        json!({"type": "text", "text": "A: file:///a\nthe first", "annotations": {"priority": 1.0}})
    );
    assert_eq!(rows[0], rows[1]);
}

#[test]
fn a_sound_keeps_its_bytes_for_those_who_cannot_hear() {
    let sound =
        || AudioContent::new("AAAA", "audio/wav").with_annotations(Annotations::new().with_priority(1.0));
    let result = CallToolResult::new(vec![sound().into(), sound().into()]);
    let rows_of = rows(&result);
    assert_eq!(rows_of[1]["content"][1]["type"], "audio");
    assert_eq!(
        rows_of[0]["content"][1],
        json!({
            "type": "resource",
            "resource": {"uri": "hospes:audio/1", "mimeType": "audio/wav", "blob": "AAAA"},
            "annotations": {"priority": 1.0},
        })
    );
    let prompt = GetPromptResult::new(vec![PromptMessage::user(ContentBlock::Audio(sound()))]);
    assert_eq!(rows(&prompt)[0]["messages"][0]["content"]["resource"]["uri"], "hospes:audio/0");
}

/// covers: ELIC-02
#[test]
fn capabilities_are_offered_only_where_they_mean_something() {
    let empty = || Some(RawJson::empty_object());
    let with = |form: bool, url: bool| {
        let mut elicitation = ElicitationCapability::new();
        (elicitation.form, elicitation.url) = (empty().filter(|_| form), empty().filter(|_| url));
        ClientCapabilities::new().with_elicitation(elicitation)
    };
    assert_eq!(value(&*with(true, true).for_revision(V2025_06_18)), json!({"elicitation": {}}));
    assert_eq!(value(&*with(false, false).for_revision(V2025_06_18)), json!({"elicitation": {}}));
    assert_eq!(value(&*with(false, true).for_revision(V2025_06_18)), json!({}));
    assert_eq!(value(&*with(true, true).for_revision(V2025_03_26)), json!({}));
    assert_eq!(value(&*with(false, true).for_revision(V2025_11_25)), json!({"elicitation": {"url": {}}}));

    let lifted = with(false, false).lifted_from(V2025_06_18);
    assert_eq!(value(&lifted), json!({"elicitation": {"form": {}}}));
    assert!(lifted.elicits_forms() && !lifted.elicits_urls());
    let lifted = with(false, true).lifted_from(V2025_11_25);
    assert!(!lifted.elicits_forms() && lifted.elicits_urls());

    let server = ServerCapabilities::new();
    assert_eq!(value(&server.clone().lifted_from(V2024_11_05)), json!({"completions": {}}));
    assert_eq!(value(&server.lifted_from(V2025_03_26)), json!({}));
}

/// Settings stay what they are, experiments stay experiments, and tasks have a place of their own before 2026-07-28.
#[test]
fn extensions_are_declared_in_every_revision() {
    let declared = json!({
        "experimental": { "x/y": { "e": 1 } },
        "extensions": { "io.modelcontextprotocol/ui": { "mimeTypes": ["text/html"], "z": { "b": 1, "a": 2 } } },
    });
    let mut with_tasks = declared.clone();
    with_tasks["extensions"][TASKS_EXTENSION] = json!({});
    for revision in Revision::ALL {
        let want = if revision.is_legacy() { &declared } else { &with_tasks };
        let client: ClientCapabilities = serde_json::from_value(with_tasks.clone()).unwrap();
        assert_eq!(&value(&*client.for_revision(revision)), want, "to {revision}");
        let lifted = client.lifted_from(revision);
        assert_eq!(&value(&lifted), want, "from {revision}");
        assert!(lifted.has_extension("io.modelcontextprotocol/ui"));

        let server: ServerCapabilities = serde_json::from_value(with_tasks.clone()).unwrap();
        assert_eq!(&value(&*server.for_revision(revision)), want, "to {revision}");
        let lifted = value(&server.lifted_from(revision));
        assert_eq!(lifted["extensions"], want["extensions"], "from {revision}");
    }
    let odd: ClientCapabilities =
        serde_json::from_value(json!({ "extensions": { "a/b": true, "c/d": null } })).unwrap();
    assert!(!odd.has_extension("a/b") && !odd.has_extension("c/d"), "only an object is a declaration");
}

fn ask(params: impl Into<InputRequest>, to: Revision) -> Result<Value, LoweringErrorKind> {
    params.into().lower(to).map(|(_, params)| value(&params)).map_err(|refused| {
        assert_eq!(refused.revision, to);
        refused.kind
    })
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let form = || ElicitParams::form("m", ElicitSchema::new());
    let url = || ElicitUrlParams::new("m", "https://a/");
    for to in [V2024_11_05, V2025_03_26] {
        assert_eq!(ask(form(), to), Err(LoweringErrorKind::Elicitation), "{to}");
    }
    assert_eq!(
        ask(ElicitParams::Url(url().with_elicitation_id("e")), V2025_06_18),
        Err(LoweringErrorKind::ElicitationByUrl)
    );
    assert_eq!(ask(ElicitParams::Url(url()), V2025_11_25), Err(LoweringErrorKind::ElicitationWithoutId));
    assert!(ask(ElicitParams::Url(url().with_elicitation_id("e")), V2025_11_25).is_ok());
    assert!(ask(ElicitParams::Url(url()), V2026_07_28).is_ok());

    let many = || MultiSelectSchema::new(vec!["a".into()]);
    let required = ElicitParams::form("m", ElicitSchema::new().with_required("x", many()));
    assert_eq!(ask(required, V2025_06_18), Err(LoweringErrorKind::MultiSelect));
    let optional = ElicitParams::form("m", ElicitSchema::new().with_optional("x", many()));
    assert_eq!(ask(optional, V2025_06_18).unwrap()["requestedSchema"]["properties"], json!({}));

    let tools = CreateMessageParams::new(vec![], 1).with_tool_choice(ToolChoice::new());
    assert_eq!(ask(tools.clone(), V2025_06_18), Err(LoweringErrorKind::SamplingWithTools));
    assert!(ask(tools, V2025_11_25).is_ok());
    let other =
        |method: &str| InputRequest::Other { method: method.to_owned(), params: json!({ "n": 1 }).into() };
    assert_eq!(ask(other("tools/call"), V2025_11_25), Err(LoweringErrorKind::Question));
    // What an extension asks is the same in every revision.
    for revision in Revision::ALL {
        assert_eq!(ask(other("acme/ask"), revision).unwrap(), json!({ "n": 1 }), "{revision}");
    }
}

#[test]
fn choices_are_written_as_each_revision_has_them() {
    let options = vec![EnumOption::titled("a", "A"), EnumOption::new("b")];
    let field = SingleSelectSchema::new(options).with_default("a");
    let form = ElicitParams::form("m", ElicitSchema::new().with_required("x", field));
    let old = ask(form.clone(), V2025_06_18).unwrap();
    assert_eq!(
        old["requestedSchema"],
        json!({"type": "object", "properties": {"x": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "b"]}}, "required": ["x"]})
    );
    let new = ask(form, V2025_11_25).unwrap();
    assert_eq!(
        new["requestedSchema"]["properties"]["x"],
        json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "b"}], "default": "a"})
    );
}

/// covers: SAMP-09
#[test]
fn sampling_speaks_in_single_blocks_to_older_peers() {
    let blocks = || -> Vec<SamplingMessageContentBlock> {
        vec!["one".into(), ImageContent::new("AA==", "image/png").into(), "two".into()]
    };
    let params = CreateMessageParams::new(vec![SamplingMessage::of(Role::User, blocks())], 1);
    let old = ask(params.clone(), V2025_06_18).unwrap();
    assert_eq!(old["messages"].as_array().unwrap().len(), 3);
    assert_eq!(old["messages"][1]["content"]["type"], "image");
    assert_eq!(ask(params, V2025_11_25).unwrap()["messages"].as_array().unwrap().len(), 1);

    let answer = |content| InputResponse::from(CreateMessageResult::of("m", content));
    let content =
        |answer: &InputResponse, to| answer.encode(to).unwrap().to_value().unwrap()["content"].clone();
    let several = answer(blocks());
    assert_eq!(content(&several, V2025_11_25).as_array().unwrap().len(), 3);
    assert_eq!(
        content(&several, V2025_06_18),
        json!({"type": "text", "text": "one\n[image: image/png]\ntwo"})
    );
    let picture = || SamplingMessageContentBlock::from(ImageContent::new("AA==", "image/png"));
    let pictures = answer(vec![picture(), picture()]);
    assert_eq!(content(&pictures, V2025_06_18)["type"], "image");
    let sounds = answer(vec![AudioContent::new("AA==", "audio/wav").into()]);
    assert_eq!(content(&sounds, V2025_03_26)["type"], "audio");
    assert_eq!(content(&sounds, V2024_11_05), json!({"type": "text", "text": "[audio: audio/wav]"}));
    let tool = answer(vec![ToolUseContent::new("1", "t", raw(json!({"a": 1}))).into()]);
    assert_eq!(content(&tool, V2025_06_18)["text"], r#"Tool call: {"id":"1","name":"t","input":{"a":1}}"#);
}

#[test]
fn lists_say_of_a_resource_what_the_revision_has() {
    let resources = ListResourcesResult::new(vec![Resource::new("n://a", "a").with_title("A")]);
    let templates =
        ListResourceTemplatesResult::new(vec![ResourceTemplate::new("n://{a}", "a").with_title("A")]);
    for (to, (list, other)) in
        Revision::ALL.into_iter().zip(rows(&resources).into_iter().zip(rows(&templates)))
    {
        assert_eq!(list["resources"][0].get("title").is_some(), to >= V2025_06_18, "{to}: {list}");
        assert_eq!(other["resourceTemplates"][0].get("title").is_some(), to >= V2025_06_18, "{to}: {other}");
    }
}

/// Capabilities that a revision implies without declaring them are made explicit.
#[test]
fn the_capabilities_of_an_old_greeting_are_those_of_its_revision() {
    for (from, completes) in [(V2024_11_05, true), (V2025_03_26, false)] {
        let mut greeting: InitializeResult = serde_json::from_value(json!({
            "protocolVersion": from, "capabilities": {}, "serverInfo": { "name": "s", "version": "1" },
        }))
        .unwrap();
        greeting.lift(from);
        assert_eq!(greeting.capabilities.completions.is_some(), completes, "{from}");
    }
}

#[test]
fn a_revision_is_written_as_its_date() {
    let dates = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
    for (revision, date) in Revision::ALL.into_iter().zip(dates) {
        assert_eq!(date.parse::<Revision>().unwrap(), revision);
        assert_eq!(revision.to_string(), date);
        assert_eq!(value(&revision), date);
    }
    assert_eq!(
        "2025-06-19".parse::<Revision>().unwrap_err().to_string(),
        "unknown protocol version \"2025-06-19\""
    );
}

// What is lost, told a second time and in another way: as members of JSON objects.

/// Removes from everything but content blocks the members that the table lists as lost in `to`.
fn lose(to: Revision, value: &mut Value) {
    let Value::Object(members) = value else {
        if let Value::Array(items) = value {
            items.iter_mut().for_each(|item| lose(to, item));
        }
        return;
    };
    if to != V2025_11_25 {
        members.remove("execution");
    }
    if to <= V2025_06_18 {
        members.remove("icons");
    }
    if to <= V2025_03_26 {
        for key in ["outputSchema", "_meta", "lastModified", "structuredContent"] {
            members.remove(key);
        }
        let title = members.remove("title");
        // Only tools have another place for it.
        if let (Some(title), true, true) = (title, to == V2025_03_26, members.contains_key("inputSchema")) {
            let annotations = members.entry("annotations").or_insert_with(|| json!({}));
            annotations.as_object_mut().unwrap().entry("title").or_insert(title);
        }
    }
    if to == V2024_11_05 && members.contains_key("inputSchema") {
        members.remove("annotations");
    }
    for (key, member) in members.iter_mut() {
        let a_tools_title = key == "annotations" && to == V2025_03_26 && member.get("title").is_some();
        if !matches!(key.as_str(), "inputSchema" | "_meta" | "outputSchema" | "structuredContent")
            && !a_tools_title
        {
            lose(to, member);
        }
    }
}

fn text() -> impl Strategy<Value = String> {
    "[a-zé\"\\\\\n]{0,6}"
}

fn maybe<T: Strategy<Value: Clone>>(of: T) -> impl Strategy<Value = Option<T::Value>> {
    proptest::option::of(of)
}

fn any_meta() -> impl Strategy<Value = Meta> {
    proptest::collection::btree_map("[a-z]{1,3}/[a-z]", 0..9_i32, 0..3)
        .prop_map(|members| members.into_iter().map(|(key, value)| (key, raw(value.into()))).collect())
}

fn any_annotations() -> impl Strategy<Value = Option<Box<Annotations>>> {
    maybe((maybe(0.0..1.0), maybe(text()), any::<bool>())).prop_map(|some| {
        some.map(|(priority, last_modified, user)| {
            let mut annotations = Annotations::new();
            (annotations.priority, annotations.last_modified) = (priority, last_modified);
            annotations.audience = if user { vec![Role::User] } else { vec![] };
            Box::new(annotations)
        })
    })
}

fn any_icons() -> impl Strategy<Value = Vec<Icon>> {
    proptest::collection::vec(text().prop_map(Icon::new), 0..2)
}

fn any_tool() -> impl Strategy<Value = Tool> {
    let schema = || raw(json!({"type": "object", "title": "kept", "_meta": 1, "icons": []}));
    (text(), maybe(text()), maybe(text()), any::<[bool; 3]>(), any_icons(), any_meta(), maybe(text()))
        .prop_map(
            move |(name, title, description, [output, annotated, tasks], icons, meta, annotated_title)| {
                let mut tool = Tool::new(name, schema());
                (tool.title, tool.description, tool.icons, tool.meta) = (title, description, icons, meta);
                tool.output_schema = output.then(schema);
                tool.annotations = annotated.then(|| {
                    let mut annotations = ToolAnnotations::new().with_read_only_hint(true);
                    annotations.title = annotated_title;
                    Box::new(annotations)
                });
                tool.execution = tasks.then(|| ToolExecution::new().with_task_support(TaskSupport::Required));
                tool.extra.insert("x-odd".to_owned(), json!({"kept": true}));
                tool
            },
        )
}

fn any_resource() -> impl Strategy<Value = Resource> {
    (text(), text(), maybe(text()), maybe(any::<u64>()), any_annotations(), any_icons(), any_meta()).prop_map(
        |(uri, name, title, size, annotations, icons, meta)| {
            let mut resource = Resource::new(uri, name);
            (resource.title, resource.size, resource.annotations) = (title, size, annotations);
            (resource.icons, resource.meta) = (icons, meta);
            resource
        },
    )
}

fn any_prompt() -> impl Strategy<Value = Prompt> {
    (text(), maybe(text()), maybe(text()), any_icons(), any_meta()).prop_map(
        |(name, title, argument, icons, meta)| {
            let mut prompt = Prompt::new(name);
            (prompt.title, prompt.icons, prompt.meta) = (title.clone(), icons, meta);
            prompt.arguments.extend(argument.map(|name| {
                let mut argument = PromptArgument::new(name);
                argument.title = title;
                argument
            }));
            prompt
        },
    )
}

/// Blocks that every revision has.
fn any_block() -> impl Strategy<Value = ContentBlock> {
    (0..3_u8, text(), any_annotations(), any_meta()).prop_map(|(kind, text, annotations, meta)| match kind {
        0 => {
            let mut content = TextContent::new(text);
            (content.annotations, content.meta) = (annotations, meta);
            content.into()
        }
        1 => {
            let mut content = ImageContent::from_bytes(text, "image/png");
            (content.annotations, content.meta) = (annotations, meta);
            content.into()
        }
        _ => {
            let contents = ResourceContents::text("a:b", text).with_meta(meta.clone());
            let mut content = EmbeddedResource::new(contents);
            (content.annotations, content.meta) = (annotations, meta);
            content.into()
        }
    })
}

fn any_revision() -> impl Strategy<Value = Revision> {
    proptest::sample::select(Revision::ALL.to_vec())
}

/// Encodes `reply` for `to`, decodes it again, and compares the result with the table.
fn loses_only_what_is_said(method: &Method, reply: &crate::Reply, to: Revision) -> Result<(), TestCaseError> {
    let stamp = crate::ServerStamp::anonymous();
    let write = |reply: &crate::Reply, to: Revision| {
        let mut out = Vec::new();
        reply.encode(method, to, &stamp, &mut out).unwrap();
        RawJson::parse(out).unwrap()
    };
    let read = |json: &RawJson, from: Revision| match crate::PeerResult::decode(method, from, json).unwrap() {
        crate::PeerResult::Complete(reply) => reply,
        other => panic!("{other:?}"),
    };
    let there = write(reply, to);
    let back = read(&there, to);
    // 2025-11-25 can say all of these values: it is the paper on which both are compared.
    let mut expected = write(reply, V2025_11_25).to_value().unwrap();
    let own = expected.as_object_mut().and_then(|members| members.remove("_meta"));
    lose(to, &mut expected);
    if let Some(own) = own {
        expected["_meta"] = own;
    }
    prop_assert_eq!(write(&back, V2025_11_25).to_value().unwrap(), expected, "{}", to);
    // And whoever is told a second time hears the same.
    prop_assert_eq!(write(&back, to), there);
    Ok(())
}

proptest! {
    #[test]
    fn tools_lose_only_what_is_said(tools in proptest::collection::vec(any_tool(), 0..4), meta in any_meta(), to in any_revision()) {
        let list = ListToolsResult::new(tools).with_meta(meta);
        loses_only_what_is_said(&Method::ToolsList, &list.into(), to)?;
    }

    #[test]
    fn prompts_lose_only_what_is_said(prompts in proptest::collection::vec(any_prompt(), 0..4), to in any_revision()) {
        let list = ListPromptsResult::new(prompts).with_next_cursor("c");
        loses_only_what_is_said(&Method::PromptsList, &list.into(), to)?;
    }

    #[test]
    fn resources_lose_only_what_is_said(resources in proptest::collection::vec(any_resource(), 0..4), to in any_revision()) {
        loses_only_what_is_said(&Method::ResourcesList, &ListResourcesResult::new(resources).into(), to)?;
    }

    #[test]
    fn results_lose_only_what_is_said(
        blocks in proptest::collection::vec(any_block(), 1..5),
        structured in any::<bool>(),
        is_error in maybe(any::<bool>()),
        meta in any_meta(),
        to in any_revision(),
    ) {
        let mut result = CallToolResult::new(blocks.clone()).with_meta(meta);
        result.structured_content = structured.then(|| raw(json!({"title": 1, "_meta": 2})));
        result.is_error = is_error;
        loses_only_what_is_said(&Method::ToolsCall, &result.into(), to)?;
        let messages = blocks.into_iter().map(PromptMessage::user).collect();
        loses_only_what_is_said(&Method::PromptsGet, &GetPromptResult::new(messages).into(), to)?;
    }
}
