//! Conversion of requests to OpenAI's format.

use hospes_model::{
    CreateMessageParams, RawJson, Role, SamplingMessage, SamplingMessageContentBlock as Block, ToolChoiceMode,
};
use serde::Serialize;

use super::{MaxTokensField, OpenAi, WireFormat};
use crate::conversation::{self, result_text, tool_choice};
use crate::providers::{COMMON_IMAGE_TYPES, ComposedRequest, check_image_type, temperature, unsupported};
use crate::tool_names::ToolNameMap;
use crate::{ModelError, OmittedPart};

const NAME: &str = OpenAi::NAME;

#[derive(Serialize)]
struct OpenAiRequest<'a> {
    model: &'a str,
    messages: Vec<OpenAiMessage<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<OpenAiTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a RawJson>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct OpenAiMessage<'a> {
    role: &'static str,
    content: Option<OpenAiContent<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<OpenAiToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum OpenAiContent<'a> {
    Text(String),
    Parts(Vec<OpenAiPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OpenAiPart<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl },
    InputAudio { input_audio: InputAudio<'a> },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct InputAudio<'a> {
    data: &'a str,
    format: &'static str,
}

#[derive(Serialize)]
struct OpenAiToolCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: OpenAiCalledFunction<'a>,
}

#[derive(Serialize)]
struct OpenAiCalledFunction<'a> {
    name: &'a str,
    /// Arguments as JSON in a string.
    arguments: &'a str,
}

#[derive(Serialize)]
struct OpenAiTool<'a> {
    r#type: &'static str,
    function: OpenAiFunction<'a>,
}

#[derive(Serialize)]
struct OpenAiFunction<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters: &'a RawJson,
}

pub(super) fn compose(
    provider: &OpenAi,
    params: &CreateMessageParams,
) -> Result<ComposedRequest, ModelError> {
    conversation::check(params)?;
    let names = ToolNameMap::of(params, 64);
    let mut left_out = Vec::new();
    let mut messages = Vec::with_capacity(params.messages.len() + 1);
    if let Some(system) = params.system_prompt.as_ref().filter(|text| !text.is_empty()) {
        messages.push(text_message("system", OpenAiContent::Text(system.clone())));
    }
    for message in &params.messages {
        match message.role {
            Role::Assistant => messages.push(assistant(message, &names)?),
            _ => user(message, provider.is_own(), &mut messages)?,
        }
    }
    // Only OpenAI's own limit is known; other servers may accept more.
    if provider.is_own() && params.stop_sequences.len() > 4 {
        return unsupported(NAME, format!("{} stop sequences (at most 4)", params.stop_sequences.len()));
    }
    let choice = match tool_choice(params, NAME)? {
        _ if params.tools.is_empty() => None,
        ToolChoiceMode::Required => Some("required"),
        ToolChoiceMode::None => Some("none"),
        _ => Some("auto"),
    };
    let most = |field| (provider.max_tokens_field == field).then_some(params.max_tokens);
    let body = OpenAiRequest {
        model: &provider.model,
        messages,
        stream: true,
        stream_options: provider.stream_usage.then_some(StreamOptions { include_usage: true }),
        max_tokens: most(MaxTokensField::MaxTokens),
        max_completion_tokens: most(MaxTokensField::MaxCompletionTokens),
        temperature: temperature(params, 2.0, &mut left_out),
        stop: &params.stop_sequences,
        tools: tools(params, &names),
        tool_choice: choice,
        metadata: metadata(provider, params, &mut left_out),
    };
    let body = serde_json::to_vec(&body).map_err(|error| ModelError::Invalid(error.to_string()))?;
    Ok(ComposedRequest { path: "/chat/completions".to_owned(), body, names, left_out })
}

fn text_message<'a>(role: &'static str, content: OpenAiContent<'a>) -> OpenAiMessage<'a> {
    OpenAiMessage { role, content: Some(content), tool_calls: Vec::new(), tool_call_id: None }
}

/// Converts a message of the user. Text blocks alone become one string, because simple servers accept nothing else.
/// Tool results are separate messages.
fn user<'a>(
    message: &'a SamplingMessage,
    own: bool,
    messages: &mut Vec<OpenAiMessage<'a>>,
) -> Result<(), ModelError> {
    let mut parts = Vec::with_capacity(message.content.len());
    let mut results = false;
    for block in &message.content {
        match block {
            Block::Text(text) => parts.push(OpenAiPart::Text { text: &text.text }),
            Block::Image(image) => {
                // Compatible servers accept other formats too, and reject unknown ones themselves.
                if own {
                    check_image_type(&image.mime_type, &COMMON_IMAGE_TYPES, NAME)?;
                }
                let url = format!("data:{};base64,{}", image.mime_type, image.data);
                parts.push(OpenAiPart::ImageUrl { image_url: ImageUrl { url } });
            }
            Block::Audio(audio) => {
                let format = match audio.mime_type.to_ascii_lowercase().as_str() {
                    "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => "wav",
                    "audio/mpeg" | "audio/mp3" => "mp3",
                    kind => {
                        return unsupported(NAME, format!("audio of type {kind} (supported: wav, mp3)"));
                    }
                };
                parts.push(OpenAiPart::InputAudio { input_audio: InputAudio { data: &audio.data, format } });
            }
            Block::ToolResult(result) => {
                results = true;
                let content = OpenAiContent::Text(result_text(result, NAME)?);
                messages.push(OpenAiMessage {
                    tool_call_id: Some(&result.tool_use_id),
                    ..text_message("tool", content)
                });
            }
            _ => return unsupported(NAME, "such content in a user message"),
        }
    }
    if !results {
        messages.push(text_message("user", content(parts)));
    }
    Ok(())
}

fn content(parts: Vec<OpenAiPart<'_>>) -> OpenAiContent<'_> {
    let mut texts = Vec::with_capacity(parts.len());
    for part in &parts {
        match part {
            OpenAiPart::Text { text } => texts.push(*text),
            _ => return OpenAiContent::Parts(parts),
        }
    }
    OpenAiContent::Text(texts.join("\n"))
}

fn assistant<'a>(
    message: &'a SamplingMessage,
    names: &'a ToolNameMap,
) -> Result<OpenAiMessage<'a>, ModelError> {
    let (mut texts, mut tool_calls) = (Vec::new(), Vec::new());
    for block in &message.content {
        match block {
            Block::Text(text) => texts.push(text.text.as_str()),
            Block::ToolUse(tool_use) => tool_calls.push(OpenAiToolCall {
                id: &tool_use.id,
                r#type: "function",
                function: OpenAiCalledFunction {
                    name: names.wire_name(&tool_use.name),
                    arguments: tool_use.input.as_str(),
                },
            }),
            _ => return unsupported(NAME, "an image or audio in an assistant message"),
        }
    }
    // A message without text has `null` content if there are tool calls.
    let content = (!texts.is_empty() || tool_calls.is_empty()).then(|| OpenAiContent::Text(texts.join("\n")));
    Ok(OpenAiMessage { role: "assistant", content, tool_calls, tool_call_id: None })
}

fn tools<'a>(params: &'a CreateMessageParams, names: &'a ToolNameMap) -> Vec<OpenAiTool<'a>> {
    let function = |tool: &'a hospes_model::Tool| OpenAiFunction {
        name: names.wire_name(&tool.name),
        description: tool.description.as_deref(),
        parameters: &tool.input_schema,
    };
    params.tools.iter().map(|tool| OpenAiTool { r#type: "function", function: function(tool) }).collect()
}

/// Converts the metadata. OpenAI accepts it only for stored answers, which are not requested here; other servers get it
/// if its values are strings.
fn metadata<'a>(
    provider: &OpenAi,
    params: &'a CreateMessageParams,
    left_out: &mut Vec<OmittedPart>,
) -> Option<&'a RawJson> {
    let metadata = params.metadata.as_ref().filter(|metadata| metadata.as_bytes() != b"{}")?;
    let why = if provider.is_own() {
        "OpenAI accepts it only for answers that it stores"
    } else if metadata.decode::<std::collections::BTreeMap<String, String>>().is_err() {
        "this format supports only string values"
    } else {
        return Some(metadata);
    };
    left_out.push(OmittedPart::Metadata(why.to_owned()));
    None
}
