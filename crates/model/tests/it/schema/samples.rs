//! Values with everything in them that can be said, and with as little as must be.

use hospes_model::*;
use serde_json::json;

pub(crate) fn raw(value: serde_json::Value) -> RawJson {
    value.into()
}

pub(crate) fn meta() -> Meta {
    Meta::new()
        .with("example.com/key", &json!({"deep": [1, null]}))
        .with(meta_key::RELATED_TASK, &json!({"taskId": "t"}))
        .with(meta_key::SUBSCRIPTION_ID, &"sub")
}

pub(crate) fn annotations() -> Annotations {
    Annotations::new()
        .with_audience(vec![Role::User, Role::Assistant])
        .with_priority(0.5)
        .with_last_modified("2025-01-12T15:00:58Z")
}

pub(crate) fn icon() -> Icon {
    Icon::new("https://example.com/i.png")
        .with_mime_type("image/png")
        .with_sizes(vec!["48x48".to_owned(), "any".to_owned()])
        .with_theme(IconTheme::Dark)
}

pub(crate) fn implementation() -> Implementation {
    Implementation::new("name", "1.0")
        .with_title("Title")
        .with_description("what it is")
        .with_icons(vec![icon()])
        .with_website_url("https://example.com/")
}

pub(crate) fn resource() -> Resource {
    Resource::new("file:///a", "a")
        .with_title("A")
        .with_description("the first")
        .with_mime_type("text/plain")
        .with_size(3_u64)
        .with_annotations(annotations())
        .with_icons(vec![icon()])
        .with_meta(meta())
}

pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new("file:///{path}", "files")
        .with_title("Files")
        .with_description("all of them")
        .with_mime_type("text/plain")
        .with_annotations(annotations())
        .with_icons(vec![icon()])
        .with_meta(meta())
}

pub(crate) fn contents() -> Vec<ResourceContents> {
    vec![
        ResourceContents::text("file:///a", "text").with_mime_type("text/plain").with_meta(meta()),
        ResourceContents::bytes("file:///b", [0, 1, 2]).with_mime_type("image/png"),
        ResourceContents::text("file:///c", ""),
    ]
}

/// One block of every kind, with and without what is optional.
pub(crate) fn blocks() -> Vec<ContentBlock> {
    vec![
        ContentBlock::text("plain"),
        TextContent::new("hinted").with_annotations(annotations()).with_meta(meta()).into(),
        ContentBlock::image([1, 2, 3], "image/png"),
        ImageContent::from_bytes([1], "image/png").with_annotations(annotations()).with_meta(meta()).into(),
        ContentBlock::audio([1, 2, 3], "audio/wav"),
        AudioContent::from_bytes([1], "audio/wav").with_annotations(annotations()).with_meta(meta()).into(),
        ContentBlock::link(Resource::new("file:///a", "a")),
        ContentBlock::link(resource()),
        ContentBlock::embedded(ResourceContents::text("file:///a", "x")),
        EmbeddedResource::new(contents().remove(0)).with_annotations(annotations()).with_meta(meta()).into(),
    ]
}

pub(crate) fn tools() -> Vec<Tool> {
    let annotations = ToolAnnotations::new()
        .with_title("Annotated")
        .with_read_only_hint(true)
        .with_destructive_hint(false)
        .with_idempotent_hint(true)
        .with_open_world_hint(false);
    let object = raw(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"any": true, "none": false, "text": {"type": "string"}, "deep": {"items": true}},
        "required": ["text"],
        "additionalProperties": false,
    }));
    vec![
        Tool::new("minimal", raw(json!({"type": "object"}))),
        Tool::new("maximal", object.clone())
            .with_title("Title")
            .with_description("what it does")
            .with_output_schema(object.clone())
            .with_annotations(annotations)
            .with_icons(vec![icon()])
            .with_execution(ToolExecution::new().with_task_support(TaskSupport::Optional))
            .with_meta(meta()),
        Tool::new("list", object.clone())
            .with_output_schema(raw(json!({"type": "array", "items": {"type": "string"}}))),
        Tool::new("either", object).with_output_schema(raw(json!({"type": ["object", "null"]}))),
    ]
}

pub(crate) fn prompts() -> Vec<Prompt> {
    let argument =
        PromptArgument::new("city").with_title("City").with_description("where").with_required(true);
    vec![
        Prompt::new("minimal"),
        Prompt::new("maximal")
            .with_title("Title")
            .with_description("what it is for")
            .with_arguments(vec![argument, PromptArgument::new("day")])
            .with_icons(vec![icon()])
            .with_meta(meta()),
    ]
}

pub(crate) fn client_capabilities() -> ClientCapabilities {
    let empty = RawJson::empty_object;
    let mut capabilities = ClientCapabilities::new()
        .with_roots(RootsCapability::new().with_list_changed(true))
        .with_sampling(SamplingCapability::new().with_tools(empty()).with_context(empty()))
        .with_elicitation(ElicitationCapability::new().with_form(empty()).with_url(empty()))
        .with_tasks(
            ClientTasksCapability::new().with_list(empty()).with_cancel(empty()).with_requests(
                ClientTaskRequests::new()
                    .with_sampling(SamplingTaskRequests::new().with_create_message(empty()))
                    .with_elicitation(ElicitationTaskRequests::new().with_create(empty())),
            ),
        );
    capabilities.experimental.insert("example".to_owned(), raw(json!({"x": 1})));
    capabilities.extensions.insert(TASKS_EXTENSION.to_owned(), empty());
    capabilities
}

pub(crate) fn server_capabilities() -> ServerCapabilities {
    let empty = RawJson::empty_object;
    let mut capabilities =
        ServerCapabilities::new()
            .with_tools(ToolsCapability::new().with_list_changed(true))
            .with_prompts(PromptsCapability::new().with_list_changed(true))
            .with_resources(ResourcesCapability::new().with_list_changed(true).with_subscribe(true))
            .with_completions(empty())
            .with_logging(empty())
            .with_tasks(ServerTasksCapability::new().with_list(empty()).with_cancel(empty()).with_requests(
                ServerTaskRequests::new().with_tools(ToolTaskRequests::new().with_call(empty())),
            ));
    capabilities.experimental.insert("example".to_owned(), raw(json!({"x": 1})));
    capabilities.extensions.insert(TASKS_EXTENSION.to_owned(), empty());
    capabilities
}

/// A form with every kind of field; a multi-select one only where it is asked for.
pub(crate) fn form(multi_select: bool) -> ElicitParams {
    let titled = || vec![EnumOption::titled("a", "A"), EnumOption::titled("b", "B")];
    let mut names = SingleSelectSchema::new(titled()).with_title("names");
    names.legacy_names = true;
    let mut schema = ElicitSchema::new()
        .with_required("name", StringSchema::new())
        .with_optional(
            "mail",
            StringSchema::new()
                .with_title("Mail")
                .with_description("where to write")
                .with_min_length(3_u64)
                .with_max_length(30_u64)
                .with_format(StringFormat::Email)
                .with_default("a@example.com"),
        )
        .with_optional("whole", NumberSchema::integer().with_minimum(1).with_maximum(9).with_default(5))
        .with_optional("number", NumberSchema::number().with_title("N"))
        .with_optional("yes", BooleanSchema::new().with_default(true).with_description("or no"))
        .with_optional("plain", SingleSelectSchema::new(vec!["a".into(), "b".into()]).with_default("a"))
        .with_optional("titled", SingleSelectSchema::new(titled()).with_default("b"))
        .with_optional("names", names);
    schema.dialect = Some("https://json-schema.org/draft/2020-12/schema".to_owned());
    if multi_select {
        let many = MultiSelectSchema::new(vec!["a".into(), "b".into()]);
        schema = schema
            .with_optional(
                "many",
                many.with_min_items(1_u64).with_max_items(2_u64).with_default(vec!["a".to_owned()]),
            )
            .with_optional("many titled", MultiSelectSchema::new(titled()).with_title("T"));
    }
    let mut form = ElicitFormParams::new("Who are you?", schema);
    form.task = Some(TaskMetadata::new().with_ttl(5_u64));
    form.meta = Meta::new().with_progress_token(&1.into());
    ElicitParams::Form(form)
}

pub(crate) fn url(id: Option<&str>) -> ElicitParams {
    let mut url = ElicitUrlParams::new("Go there", "https://example.com/");
    url.elicitation_id = id.map(str::to_owned);
    url.task = Some(TaskMetadata::new());
    ElicitParams::Url(url)
}

/// Content blocks that sampling without tools allows.
pub(crate) fn sampling_blocks() -> Vec<SamplingMessageContentBlock> {
    vec![
        "text".into(),
        TextContent::new("hinted").with_annotations(annotations()).with_meta(meta()).into(),
        ImageContent::from_bytes([1], "image/png").with_annotations(annotations()).into(),
        AudioContent::from_bytes([1], "audio/wav").with_meta(meta()).into(),
    ]
}

pub(crate) fn tool_blocks() -> Vec<SamplingMessageContentBlock> {
    vec![
        ToolUseContent::new("1", "t", raw(json!({"a": 1}))).with_meta(meta()).into(),
        ToolResultContent::new("1", blocks())
            .with_structured_content(raw(json!({"a": 1})))
            .with_is_error(false)
            .with_meta(meta())
            .into(),
        ToolResultContent::new("1", vec![]).with_structured_content(raw(json!(5))).into(),
    ]
}

pub(crate) fn create_message() -> CreateMessageParams {
    let mut messages: Vec<_> = sampling_blocks().into_iter().map(SamplingMessage::user).collect();
    messages.push(SamplingMessage::of(Role::Assistant, sampling_blocks()).with_meta(meta()));
    let preferences = ModelPreferences::new()
        .with_hints(vec![ModelHint::new().with_name("claude"), ModelHint::new()])
        .with_cost_priority(0.1)
        .with_speed_priority(0.2)
        .with_intelligence_priority(1.0);
    CreateMessageParams::new(messages, 100)
        .with_model_preferences(preferences)
        .with_system_prompt("be brief")
        .with_include_context(IncludeContext::ThisServer)
        .with_temperature(0.7)
        .with_stop_sequences(vec!["stop".to_owned()])
        .with_metadata(raw(json!({"x": 1})))
        .with_task(TaskMetadata::new().with_ttl(1_u64))
        .with_meta(Meta::new().with_progress_token(&"p".into()))
}

pub(crate) fn create_message_with_tools() -> CreateMessageParams {
    let mut params = create_message();
    params.messages.push(SamplingMessage::of(Role::User, tool_blocks()));
    params.with_tools(tools()).with_tool_choice(ToolChoice::new().with_mode(ToolChoiceMode::Required))
}

pub(crate) fn task() -> Task {
    Task::new("t", "2025-11-25T10:30:00Z")
        .with_status(TaskStatus::Failed)
        .with_status_message("it broke")
        .with_ttl_ms(60_000_u64)
        .with_poll_interval_ms(500_u64)
}
