//! Requests, in each provider's words.

use hospes_model::{
    AudioContent, ContentBlock, CreateMessageParams, ImageContent, RawJson, Role, SamplingMessage, Tool,
    ToolChoice, ToolChoiceMode, ToolResultContent, ToolUseContent,
};
use serde_json::{Value, json};

use super::super::WireFormat;
use super::*;
use crate::ModelProvider;

fn composed<W: WireFormat>(wire: &W, params: &CreateMessageParams) -> Value {
    let composed = wire.compose(params).unwrap_or_else(|error| panic!("{error}"));
    serde_json::from_slice(&composed.body).unwrap()
}

/// The parts of a request that matter beside the messages.
fn params(messages: Vec<SamplingMessage>) -> CreateMessageParams {
    CreateMessageParams::new(messages, 77)
}

fn raw(value: &Value) -> RawJson {
    RawJson::from(value.clone())
}

/// A conversation in which two tools were used at once, whose results came in another order.
fn with_tools() -> CreateMessageParams {
    let signed = ToolUseContent::new("b", "news", raw(&json!({})))
        .with_meta(hospes_model::Meta::new().with("geminiThoughtSignature", "c2ln"));
    let result = |id: &str, text: &str| ToolResultContent::new(id, vec![text.into()]);
    let schema = raw(&json!({ "type": "object", "properties": { "city": { "type": "string" } } }));
    params(vec![
        SamplingMessage::user("Rain?"),
        SamplingMessage::of(
            Role::Assistant,
            vec![
                "Let me see.".into(),
                ToolUseContent::new("a", "weather.now", raw(&json!({ "city": "Ulm" }))).into(),
                signed.into(),
            ],
        ),
        SamplingMessage::of(
            Role::User,
            vec![result("b", "None.").with_is_error(true).into(), result("a", "Wet.").into()],
        ),
    ])
    .with_tools(vec![Tool::new("weather.now", schema).with_description("Tells the weather.".to_owned())])
    .with_tool_choice(ToolChoice::new().with_mode(ToolChoiceMode::Auto))
}

/// Everything but tools.
fn with_media() -> CreateMessageParams {
    params(vec![SamplingMessage::of(
        Role::User,
        vec![
            "Look".into(),
            ImageContent::new("cGlj", "image/png").into(),
            AudioContent::new("c25k", "audio/wav").into(),
        ],
    )])
    .with_system_prompt("Be brief.".to_owned())
    .with_temperature(1.5)
    .with_stop_sequences(vec!["END".to_owned()])
    .with_metadata(raw(&json!({ "user_id": "u1", "n": 1 })))
}

/// covers: SAMP-09 SAMP-15 SAMP-35 SAMP-37
#[test]
fn openai() {
    let body = composed(super::openai(), &with_media());
    assert_eq!(
        body,
        json!({
            "model": "m",
            "stream": true,
            "stream_options": { "include_usage": true },
            "max_tokens": 77,
            "temperature": 1.5,
            "stop": ["END"],
            "messages": [
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": [
                    { "type": "text", "text": "Look" },
                    { "type": "image_url", "image_url": { "url": "data:image/png;base64,cGlj" } },
                    { "type": "input_audio", "input_audio": { "data": "c25k", "format": "wav" } },
                ]},
            ],
        })
    );
    assert_eq!(
        left_out(super::openai(), &with_media()),
        ["metadata is not sent: this format supports only string values"]
    );
    let body = composed(super::openai(), &with_tools());
    assert_eq!(
        body["messages"],
        json!([
            { "role": "user", "content": "Rain?" },
            { "role": "assistant", "content": "Let me see.", "tool_calls": [
                { "id": "a", "type": "function", "function": { "name": "weather_now", "arguments": "{\"city\":\"Ulm\"}" } },
                { "id": "b", "type": "function", "function": { "name": "news", "arguments": "{}" } },
            ]},
            { "role": "tool", "tool_call_id": "b", "content": "None." },
            { "role": "tool", "tool_call_id": "a", "content": "Wet." },
        ])
    );
    let tool = json!({ "type": "function", "function": {
        "name": "weather_now", "description": "Tells the weather.",
        "parameters": { "type": "object", "properties": { "city": { "type": "string" } } },
    }});
    assert_eq!((&body["tools"], &body["tool_choice"]), (&json!([tool]), &json!("auto")));
    assert_eq!(choice(super::openai(), "required")["tool_choice"], "required");
    assert_eq!(choice(super::openai(), "none")["tool_choice"], "none");

    let own = OpenAi::new("gpt", ProviderAccess::key("sk-1234")).unwrap();
    let body = composed(&own, &with_media());
    assert_eq!((&body["max_tokens"], &body["max_completion_tokens"]), (&Value::Null, &json!(77)));
    let quiet = OpenAi::new("m", at("http://127.0.0.1:1")).unwrap().stream_usage(false);
    let body = composed(&quiet.max_tokens_field(MaxTokensField::MaxCompletionTokens), &with_media());
    assert_eq!((&body["stream_options"], &body["max_completion_tokens"]), (&Value::Null, &json!(77)));
    let texts = with_media().with_metadata(raw(&json!({ "trace": "t" })));
    assert_eq!(composed(super::openai(), &texts)["metadata"], json!({ "trace": "t" }));
    assert!(left_out(&own, &texts)[0].contains("only for answers that it stores"));
}

#[test]
fn anthropic() {
    let mut media = with_media();
    media.messages[0].content.pop();
    assert_eq!(
        composed(super::anthropic(), &media),
        json!({
            "model": "m",
            "stream": true,
            "max_tokens": 77,
            "temperature": 1.0,
            "stop_sequences": ["END"],
            "system": "Be brief.",
            "metadata": { "user_id": "u1" },
            "messages": [{ "role": "user", "content": [
                { "type": "text", "text": "Look" },
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "cGlj" } },
            ]}],
        })
    );
    assert_eq!(
        left_out(super::anthropic(), &media),
        [
            "the temperature is changed: 1.5 is reduced to the maximum of 1",
            "metadata is not sent: Anthropic accepts only `user_id`, a string"
        ]
    );
    let mut tools = with_tools();
    let body = composed(super::anthropic(), &tools);
    assert_eq!(
        body["messages"],
        json!([
            { "role": "user", "content": [{ "type": "text", "text": "Rain?" }] },
            { "role": "assistant", "content": [
                { "type": "text", "text": "Let me see." },
                { "type": "tool_use", "id": "a", "name": "weather_now", "input": { "city": "Ulm" } },
                { "type": "tool_use", "id": "b", "name": "news", "input": {} },
            ]},
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "b", "content": [{ "type": "text", "text": "None." }], "is_error": true },
                { "type": "tool_result", "tool_use_id": "a", "content": [{ "type": "text", "text": "Wet." }] },
            ]},
        ])
    );
    assert_eq!(body["tools"][0]["name"], "weather_now");
    assert_eq!(body["tools"][0]["input_schema"]["properties"]["city"]["type"], "string");
    assert_eq!(body["tool_choice"], json!({ "type": "auto" }));
    assert_eq!(choice(super::anthropic(), "required")["tool_choice"], json!({ "type": "any" }));
    assert_eq!(choice(super::anthropic(), "none")["tool_choice"], json!({ "type": "none" }));
    // It wants definitions of what was used, even where nothing more may be.
    tools.tools.clear();
    let body = composed(super::anthropic(), &tools);
    let names: Vec<_> =
        body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!((names, &body["tool_choice"]), (vec!["news", "weather_now"], &json!({ "type": "none" })));
    // Pictures are taken there.
    let picture = ContentBlock::image(b"pic", "image/png");
    tools.messages[2] = SamplingMessage::of(
        Role::User,
        vec![
            ToolResultContent::new("a", vec![picture]).into(),
            ToolResultContent::new("b", Vec::new()).into(),
        ],
    );
    let body = composed(super::anthropic(), &tools);
    assert_eq!(body["messages"][2]["content"][0]["content"][0]["source"]["data"], "cGlj");
}

/// covers: SAMP-37
#[test]
fn gemini() {
    assert_eq!(
        composed(super::gemini(), &with_media()),
        json!({
            "contents": [{ "role": "user", "parts": [
                { "text": "Look" },
                { "inlineData": { "mimeType": "image/png", "data": "cGlj" } },
                { "inlineData": { "mimeType": "audio/wav", "data": "c25k" } },
            ]}],
            "systemInstruction": { "parts": [{ "text": "Be brief." }] },
            "generationConfig": { "maxOutputTokens": 77, "temperature": 1.5, "stopSequences": ["END"] },
        })
    );
    assert_eq!(
        left_out(super::gemini(), &with_media()),
        ["metadata is not sent: Gemini does not support it"]
    );
    let tools = with_tools();
    let body = composed(super::gemini(), &tools);
    assert_eq!(
        body["contents"],
        json!([
            { "role": "user", "parts": [{ "text": "Rain?" }] },
            { "role": "model", "parts": [
                { "text": "Let me see." },
                { "functionCall": { "name": "weather_now", "args": { "city": "Ulm" } } },
                { "functionCall": { "name": "news", "args": {} }, "thoughtSignature": "c2ln" },
            ]},
            // In the order of the calls.
            { "role": "user", "parts": [
                { "functionResponse": { "name": "weather_now", "response": { "output": "Wet." } } },
                { "functionResponse": { "name": "news", "response": { "error": "None." } } },
            ]},
        ])
    );
    let function = &body["tools"][0]["functionDeclarations"][0];
    assert_eq!(
        (&function["name"], &function["parametersJsonSchema"]["type"]),
        (&json!("weather_now"), &json!("object"))
    );
    assert_eq!(body["toolConfig"], json!({ "functionCallingConfig": { "mode": "AUTO" } }));
    assert_eq!(choice(super::gemini(), "required")["toolConfig"]["functionCallingConfig"]["mode"], "ANY");
    assert_eq!(choice(super::gemini(), "none")["toolConfig"]["functionCallingConfig"]["mode"], "NONE");
    let newer = Gemini::new("gemini-3-pro", at("http://127.0.0.1:1")).unwrap();
    let signed = composed(&newer, &tools)["contents"][1]["parts"][1]["thoughtSignature"].clone();
    assert_eq!(signed, "skip_thought_signature_validator", "the newer models want one of the first call");
    let path = newer.compose(&tools).unwrap().path;
    assert_eq!(path, "/models/gemini-3-pro:streamGenerateContent?alt=sse");
}

#[test]
fn ollama() {
    let mut media = with_media();
    media.messages[0].content.pop();
    let sized = Ollama::new("m", at("http://127.0.0.1:1")).unwrap().num_ctx(8_192);
    assert_eq!(
        composed(&sized, &media),
        json!({
            "model": "m",
            "stream": true,
            "messages": [
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": "Look", "images": ["cGlj"] },
            ],
            "options": { "num_predict": 77, "num_ctx": 8_192, "temperature": 1.5, "stop": ["END"] },
        })
    );
    let body = composed(super::ollama(), &with_tools());
    assert_eq!(
        body["messages"],
        json!([
            { "role": "user", "content": "Rain?" },
            { "role": "assistant", "content": "Let me see.", "tool_calls": [
                { "id": "a", "function": { "name": "weather_now", "arguments": { "city": "Ulm" } } },
                { "id": "b", "function": { "name": "news", "arguments": {} } },
            ]},
            { "role": "tool", "tool_name": "weather_now", "tool_call_id": "a", "content": "Wet." },
            { "role": "tool", "tool_name": "news", "tool_call_id": "b", "content": "None." },
        ])
    );
    assert_eq!(body["tools"][0]["function"]["name"], "weather_now");
    assert_eq!(choice(super::ollama(), "none")["tools"], Value::Null, "what is not on offer is not called");
}

fn choice<W: WireFormat>(wire: &W, mode: &str) -> Value {
    let choice = ToolChoice::new().with_mode(ToolChoiceMode::from(mode));
    composed(wire, &with_tools().with_tool_choice(choice))
}

fn left_out(provider: &impl ModelProvider, params: &CreateMessageParams) -> Vec<String> {
    provider.check(params).unwrap().iter().map(ToString::to_string).collect()
}

fn all() -> [&'static dyn ModelProvider; 4] {
    [super::openai(), super::anthropic(), super::gemini(), super::ollama()]
}

#[test]
fn what_a_provider_cannot_take_is_said_before_anything_is_sent() {
    let own = OpenAi::new("gpt", ProviderAccess::key("sk-1234")).unwrap();
    let user = |block: hospes_model::SamplingMessageContentBlock| params(vec![SamplingMessage::user(block)]);
    let stops =
        |count| params(vec![SamplingMessage::user("x")]).with_stop_sequences(vec!["s".to_owned(); count]);
    let mut pictured = with_tools();
    pictured.messages[2] = SamplingMessage::of(
        Role::User,
        vec![
            ToolResultContent::new("a", vec![ContentBlock::image(b"x", "image/png")]).into(),
            ToolResultContent::new("b", Vec::new()).into(),
        ],
    );
    let required = with_tools().with_tool_choice(ToolChoice::new().with_mode(ToolChoiceMode::Required));
    let odd = with_tools().with_tool_choice(ToolChoice::new().with_mode(ToolChoiceMode::from("perhaps")));
    let sound = user(AudioContent::new("c25k", "audio/ogg").into());
    let tiff = user(ImageContent::new("cGlj", "image/tiff").into());
    for (provider, params, said) in [
        (
            &own as &dyn ModelProvider,
            &sound,
            "OpenAI does not support audio of type audio/ogg (supported: wav, mp3)",
        ),
        (&own, &tiff, "OpenAI does not support an image of type image/tiff (supported: image/jpeg"),
        (&own, &stops(5), "OpenAI does not support 5 stop sequences (at most 4)"),
        (
            &own,
            &pictured,
            "OpenAI does not support image/png in a tool result (only text is supported there)",
        ),
        (super::anthropic(), &sound, "Anthropic does not support audio (audio/ogg)"),
        (super::anthropic(), &tiff, "Anthropic does not support an image of type image/tiff"),
        (super::gemini(), &stops(6), "Gemini does not support 6 stop sequences (at most 5)"),
        (super::gemini(), &pictured, "Gemini does not support image/png in a tool result"),
        (super::ollama(), &sound, "Ollama does not support audio (audio/ogg)"),
        (super::ollama(), &required, "Ollama does not support a tool choice of \"required\""),
        (super::ollama(), &odd, "Ollama does not support the tool choice \"perhaps\""),
    ] {
        let error = provider.check(params).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert!(error.is_before_sending());
        assert_eq!(error.to_rpc().code, hospes_model::code::INTERNAL_ERROR);
    }
    assert!(super::openai().check(&stops(9)).is_ok(), "what others take is not known");
}

/// covers: SAMP-24 SAMP-32 SAMP-33 SAMP-34
#[test]
fn what_breaks_the_specification_is_invalid_for_every_provider() {
    let say =
        |role: Role, block: hospes_model::SamplingMessageContentBlock| SamplingMessage::new(role, block);
    let used = |id: &str| ToolUseContent::new(id, "t", RawJson::empty_object());
    let result = |id: &str| ToolResultContent::new(id, vec!["r".into()]);
    let picture = |data: &str, kind: &str| params(vec![SamplingMessage::user(ImageContent::new(data, kind))]);
    let hello = || params(vec![SamplingMessage::user("x")]);
    let talk = |last: SamplingMessage| params(vec![SamplingMessage::assistant(used("a")), last]);
    for (params, said) in [
        (params(Vec::new()), "it has no messages"),
        (CreateMessageParams::new(vec![SamplingMessage::user("x")], 0), "maxTokens is 0"),
        (hello().with_temperature(f64::NAN), "the temperature is not a non-negative number"),
        (hello().with_metadata(raw(&json!([]))), "metadata is not an object"),
        (
            hello().with_tools(vec![Tool::new("t", raw(&json!("s")))]),
            "the inputSchema of the tool \"t\" is not an object",
        ),
        (
            params(vec![say(Role::from("system"), "x".into())]),
            "the role of a message is neither user nor assistant",
        ),
        (params(vec![SamplingMessage::assistant(used("a"))]), "it ends with a tool use that has no result"),
        (talk(SamplingMessage::user("x")), "a tool use is not followed by its result"),
        (
            talk(SamplingMessage::of(Role::User, vec![result("a").into(), "x".into()])),
            "a message with tool results has other content",
        ),
        (
            talk(SamplingMessage::of(Role::User, vec![result("a").into(), result("b").into()])),
            "a tool result does not match a tool use of the previous message",
        ),
        (
            talk(SamplingMessage::of(Role::User, vec![result("a").into(), result("a").into()])),
            "a tool use has two results",
        ),
        (
            params(vec![SamplingMessage::of(Role::Assistant, vec![used("a").into(), used("a").into()])]),
            "two tool uses of one message have the same id",
        ),
        (params(vec![say(Role::User, used("a").into())]), "a user message contains a tool use"),
        (
            params(vec![say(Role::Assistant, result("a").into())]),
            "an assistant message contains a tool result",
        ),
        (picture("c", "image/png"), "the data of an image or audio block is not valid Base64"),
        (picture("", "image/png"), "the data of an image or audio block is not valid Base64"),
        (picture("cGlj", "png"), "the mimeType of an image or audio block is invalid"),
        (picture("cGlj", "audio/wav"), "the mimeType of an image or audio block is invalid"),
        (picture("cGlj", "image/png,x\"\n"), "the mimeType of an image or audio block is invalid"),
    ] {
        for provider in all() {
            let error = provider.check(&params).unwrap_err();
            assert!(error.to_string().contains(said), "{}: {error}", provider.name());
            assert_eq!(error.to_rpc().code, hospes_model::code::INVALID_PARAMS);
        }
    }
}
