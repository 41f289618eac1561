//! Conversion of requests to Ollama's format.

use hospes_model::{
    CreateMessageParams, RawJson, Role, SamplingMessage, SamplingMessageContentBlock as Block, ToolChoiceMode,
};
use serde::Serialize;

use super::{Ollama, WireFormat};
use crate::ModelError;
use crate::conversation::{self, result_text, results, tool_choice};
use crate::providers::{ComposedRequest, omit_metadata, unsupported};
use crate::tool_names::ToolNameMap;

const NAME: &str = Ollama::NAME;

#[derive(Serialize)]
struct OllamaRequest<'a> {
    model: &'a str,
    messages: Vec<OllamaMessage<'a>>,
    stream: bool,
    options: OllamaOptions<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<OllamaTool<'a>>,
}

#[derive(Default, Serialize)]
struct OllamaMessage<'a> {
    role: &'static str,
    content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<OllamaToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
struct OllamaToolCall<'a> {
    id: &'a str,
    function: OllamaCalledFunction<'a>,
}

#[derive(Serialize)]
struct OllamaCalledFunction<'a> {
    name: &'a str,
    arguments: &'a RawJson,
}

#[derive(Serialize)]
struct OllamaOptions<'a> {
    num_predict: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_ctx: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'a [String],
}

#[derive(Serialize)]
struct OllamaTool<'a> {
    r#type: &'static str,
    function: OllamaFunction<'a>,
}

#[derive(Serialize)]
struct OllamaFunction<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters: &'a RawJson,
}

pub(super) fn compose(
    provider: &Ollama,
    params: &CreateMessageParams,
) -> Result<ComposedRequest, ModelError> {
    conversation::check(params)?;
    let names = ToolNameMap::of(params, 64);
    let mut left_out = Vec::new();
    let mut messages = Vec::with_capacity(params.messages.len() + 1);
    if let Some(system) = params.system_prompt.as_ref().filter(|text| !text.is_empty()) {
        messages.push(OllamaMessage { role: "system", content: system.clone(), ..OllamaMessage::default() });
    }
    let mut before: Option<&SamplingMessage> = None;
    for message in &params.messages {
        // A message with tool results contains nothing else (SAMP-32).
        if results(message).next().is_some() {
            tool_result_messages(message, before, &names, &mut messages)?;
        } else {
            messages.push(write_message(message, &names)?);
        }
        before = Some(message);
    }
    let tools = match tool_choice(params, NAME)? {
        ToolChoiceMode::Required => return unsupported(NAME, "a tool choice of \"required\""),
        // Tools that are not offered are not used.
        ToolChoiceMode::None => Vec::new(),
        _ => tools(params, &names),
    };
    omit_metadata(params, NAME, &mut left_out);
    let body = OllamaRequest {
        model: &provider.model,
        messages,
        stream: true,
        options: OllamaOptions {
            num_predict: params.max_tokens,
            num_ctx: provider.num_ctx,
            temperature: params.temperature,
            stop: &params.stop_sequences,
        },
        tools,
    };
    let body = serde_json::to_vec(&body).map_err(|error| ModelError::Invalid(error.to_string()))?;
    Ok(ComposedRequest { path: "/api/chat".to_owned(), body, names, left_out })
}

fn write_message<'a>(
    message: &'a SamplingMessage,
    names: &'a ToolNameMap,
) -> Result<OllamaMessage<'a>, ModelError> {
    let is_assistant = message.role == Role::Assistant;
    let mut said =
        OllamaMessage { role: if is_assistant { "assistant" } else { "user" }, ..OllamaMessage::default() };
    let mut texts = Vec::new();
    for block in &message.content {
        match block {
            Block::Text(text) => texts.push(text.text.as_str()),
            Block::Image(image) if !is_assistant => said.images.push(&image.data),
            Block::Image(_) => return unsupported(NAME, "an image in an assistant message"),
            Block::Audio(audio) => return unsupported(NAME, format!("audio ({})", audio.mime_type)),
            Block::ToolUse(tool_use) => said.tool_calls.push(OllamaToolCall {
                id: &tool_use.id,
                function: OllamaCalledFunction {
                    name: names.wire_name(&tool_use.name),
                    arguments: &tool_use.input,
                },
            }),
            _ => return unsupported(NAME, "content of an unknown type"),
        }
    }
    said.content = texts.join("\n");
    Ok(said)
}

/// Returns the results of tools in the order of the calls. Older versions match them by this order and by name.
fn tool_result_messages<'a>(
    message: &'a SamplingMessage,
    before: Option<&'a SamplingMessage>,
    names: &'a ToolNameMap,
    messages: &mut Vec<OllamaMessage<'a>>,
) -> Result<(), ModelError> {
    for block in before.into_iter().flat_map(|message| &message.content) {
        let Block::ToolUse(tool_use) = block else { continue };
        let Some(result) = results(message).find(|result| result.tool_use_id == tool_use.id) else {
            continue;
        };
        messages.push(OllamaMessage {
            role: "tool",
            content: result_text(result, NAME)?,
            tool_name: Some(names.wire_name(&tool_use.name)),
            tool_call_id: Some(&result.tool_use_id),
            ..OllamaMessage::default()
        });
    }
    Ok(())
}

fn tools<'a>(params: &'a CreateMessageParams, names: &'a ToolNameMap) -> Vec<OllamaTool<'a>> {
    let function = |tool: &'a hospes_model::Tool| OllamaFunction {
        name: names.wire_name(&tool.name),
        description: tool.description.as_deref(),
        parameters: &tool.input_schema,
    };
    params.tools.iter().map(|tool| OllamaTool { r#type: "function", function: function(tool) }).collect()
}
