//! Conversion of requests to Anthropic's format.

use std::collections::BTreeMap;

use hospes_model::{
    CreateMessageParams, RawJson, Role, SamplingMessage, SamplingMessageContentBlock as Block, ToolChoiceMode,
};
use serde::Serialize;

use super::{Anthropic, WireFormat};
use crate::conversation::{self, ResultPiece, pieces, tool_choice};
use crate::providers::{COMMON_IMAGE_TYPES, ComposedRequest, check_image_type, temperature, unsupported};
use crate::tool_names::ToolNameMap;
use crate::{ModelError, OmittedPart};

const NAME: &str = Anthropic::NAME;

#[derive(Serialize)]
struct AnthropicRequest<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<&'a str>,
    messages: Vec<AnthropicMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<AnthropicTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<AnthropicToolChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<AnthropicMetadata>,
}

#[derive(Serialize)]
struct AnthropicMessage<'a> {
    role: &'static str,
    content: Vec<AnthropicContent<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicContent<'a> {
    Text {
        text: String,
    },
    Image {
        source: AnthropicSource<'a>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a RawJson,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: Vec<Self>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
struct AnthropicSource<'a> {
    r#type: &'static str,
    media_type: String,
    data: &'a str,
}

#[derive(Serialize)]
struct AnthropicTool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: RawJson,
}

#[derive(Serialize)]
struct AnthropicToolChoice {
    r#type: &'static str,
}

#[derive(Serialize)]
struct AnthropicMetadata {
    user_id: String,
}

pub(super) fn compose(model: &str, params: &CreateMessageParams) -> Result<ComposedRequest, ModelError> {
    conversation::check(params)?;
    let names = ToolNameMap::of(params, 64);
    let mut left_out = Vec::new();
    let messages = params.messages.iter().map(|said| message(said, &names)).collect::<Result<_, _>>()?;
    let mut tools: Vec<AnthropicTool<'_>> = params
        .tools
        .iter()
        .map(|tool| AnthropicTool {
            name: names.wire_name(&tool.name),
            description: tool.description.as_deref(),
            input_schema: tool.input_schema.clone(),
        })
        .collect();
    let mut choice = match tool_choice(params, NAME)? {
        _ if tools.is_empty() => None,
        ToolChoiceMode::Required => Some("any"),
        ToolChoiceMode::None => Some("none"),
        _ => Some("auto"),
    };
    if tools.is_empty() {
        // A conversation with tool uses must define these tools, even if no further ones are allowed.
        tools = tools_from_conversation(params, &names);
        choice = (!tools.is_empty()).then_some("none");
    }
    let body = AnthropicRequest {
        model,
        max_tokens: params.max_tokens,
        stream: true,
        system: params.system_prompt.as_deref().filter(|text| !text.is_empty()),
        messages,
        // The range ends at 1 here; other providers accept up to 2.
        temperature: temperature(params, 1.0, &mut left_out),
        stop_sequences: &params.stop_sequences,
        tools,
        tool_choice: choice.map(|r#type| AnthropicToolChoice { r#type }),
        metadata: metadata(params, &mut left_out),
    };
    let body = serde_json::to_vec(&body).map_err(|error| ModelError::Invalid(error.to_string()))?;
    Ok(ComposedRequest { path: "/v1/messages".to_owned(), body, names, left_out })
}

fn message<'a>(
    message: &'a SamplingMessage,
    names: &'a ToolNameMap,
) -> Result<AnthropicMessage<'a>, ModelError> {
    let is_assistant = message.role == Role::Assistant;
    let mut content = Vec::with_capacity(message.content.len());
    for block in &message.content {
        content.push(match block {
            // Empty text blocks are rejected, and dispensable beside other blocks.
            Block::Text(text) if text.text.is_empty() && message.content.len() > 1 => continue,
            Block::Text(text) => AnthropicContent::Text { text: text.text.clone() },
            Block::Image(image) if !is_assistant => part_of_picture(&image.data, &image.mime_type)?,
            Block::Image(_) => return unsupported(NAME, "an image in an assistant message"),
            Block::Audio(audio) => return unsupported(NAME, format!("audio ({})", audio.mime_type)),
            Block::ToolUse(tool_use) => AnthropicContent::ToolUse {
                id: &tool_use.id,
                name: names.wire_name(&tool_use.name),
                input: &tool_use.input,
            },
            Block::ToolResult(result) => {
                let mut content = Vec::new();
                for piece in pieces(result) {
                    content.push(match piece {
                        ResultPiece::Text(text) if text.is_empty() => continue,
                        ResultPiece::Text(text) => AnthropicContent::Text { text },
                        ResultPiece::Image(data, kind) => part_of_picture(data, kind)?,
                        ResultPiece::Other(kind) => {
                            return unsupported(
                                NAME,
                                format!("{kind} in a tool result (only text and images are supported there)"),
                            );
                        }
                    });
                }
                let is_error = result.is_error.unwrap_or(false);
                AnthropicContent::ToolResult { tool_use_id: &result.tool_use_id, content, is_error }
            }
            _ => return unsupported(NAME, "content of an unknown type"),
        });
    }
    Ok(AnthropicMessage { role: if is_assistant { "assistant" } else { "user" }, content })
}

fn part_of_picture<'a>(data: &'a str, kind: &str) -> Result<AnthropicContent<'a>, ModelError> {
    check_image_type(kind, &COMMON_IMAGE_TYPES, NAME)?;
    Ok(AnthropicContent::Image {
        source: AnthropicSource { r#type: "base64", media_type: kind.to_ascii_lowercase(), data },
    })
}

/// Returns the tools used in the conversation, of which only the names are known.
fn tools_from_conversation<'a>(
    params: &'a CreateMessageParams,
    names: &'a ToolNameMap,
) -> Vec<AnthropicTool<'a>> {
    let mut used: BTreeMap<&str, AnthropicTool<'_>> = BTreeMap::new();
    for block in params.messages.iter().flat_map(|message| &message.content) {
        if let Block::ToolUse(tool_use) = block {
            let schema = RawJson::from(serde_json::json!({ "type": "object" }));
            let tool = AnthropicTool {
                name: names.wire_name(&tool_use.name),
                description: None,
                input_schema: schema,
            };
            used.entry(&tool_use.name).or_insert(tool);
        }
    }
    used.into_values().collect()
}

/// Converts the metadata. Only one member is supported.
fn metadata(params: &CreateMessageParams, left_out: &mut Vec<OmittedPart>) -> Option<AnthropicMetadata> {
    let metadata = params.metadata.as_ref()?;
    let members: BTreeMap<String, serde_json::Value> = metadata.decode().unwrap_or_default();
    let user_id = members.get("user_id").and_then(|id| id.as_str()).map(str::to_owned);
    if members.len() > usize::from(user_id.is_some()) {
        left_out.push(OmittedPart::Metadata("Anthropic accepts only `user_id`, a string".to_owned()));
    }
    user_id.map(|user_id| AnthropicMetadata { user_id })
}
