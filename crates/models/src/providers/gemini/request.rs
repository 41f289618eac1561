//! Conversion of requests to Gemini's format.

use hospes_model::{
    CreateMessageParams, RawJson, Role, SamplingMessage, SamplingMessageContentBlock as Block, ToolChoiceMode,
};
use serde::Serialize;

use super::{Gemini, THOUGHT_SIGNATURE, WireFormat};
use crate::ModelError;
use crate::conversation::{self, result_text, results, tool_choice};
use crate::providers::{ComposedRequest, check_image_type, omit_metadata, temperature, unsupported};
use crate::tool_names::ToolNameMap;

const NAME: &str = Gemini::NAME;
const PICTURES: [&str; 5] = ["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];
const MAX_STOPS: usize = 5;

/// Value to send for a call with an unknown signature, as the provider documents it. A signature is unknown if the call
/// came from another model, or if a server lost it.
const MISSING_SIGNATURE: &str = "skip_thought_signature_validator";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiRequest<'a> {
    contents: Vec<GeminiContent<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<GeminiContent<'a>>,
    generation_config: GeminiGenerationConfig<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<GeminiTools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<GeminiToolConfig>,
}

#[derive(Serialize)]
struct GeminiContent<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<GeminiPart<'a>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiPart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<GeminiInlineData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<GeminiFunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<GeminiFunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiInlineData<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
struct GeminiFunctionCall<'a> {
    name: &'a str,
    args: &'a RawJson,
}

#[derive(Serialize)]
struct GeminiFunctionResponse<'a> {
    name: &'a str,
    response: GeminiFunctionOutput,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum GeminiFunctionOutput {
    Output(String),
    Error(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiGenerationConfig<'a> {
    max_output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiTools<'a> {
    function_declarations: Vec<GeminiFunction<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiFunction<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters_json_schema: &'a RawJson,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiToolConfig {
    function_calling_config: GeminiCallingConfig,
}

#[derive(Serialize)]
struct GeminiCallingConfig {
    mode: &'static str,
}

pub(super) fn compose(model: &str, params: &CreateMessageParams) -> Result<ComposedRequest, ModelError> {
    conversation::check(params)?;
    let names = ToolNameMap::of(params, 64);
    let mut left_out = Vec::new();
    if params.stop_sequences.len() > MAX_STOPS {
        return unsupported(
            NAME,
            format!("{} stop sequences (at most {MAX_STOPS})", params.stop_sequences.len()),
        );
    }
    let mut contents = Vec::with_capacity(params.messages.len());
    let mut before: Option<&SamplingMessage> = None;
    for said in &params.messages {
        contents.push(content(said, before, model, &names)?);
        before = Some(said);
    }
    let mode = match tool_choice(params, NAME)? {
        ToolChoiceMode::Required => "ANY",
        ToolChoiceMode::None => "NONE",
        _ => "AUTO",
    };
    let function = |tool| -> GeminiFunction<'_> {
        let tool: &hospes_model::Tool = tool;
        GeminiFunction {
            name: names.wire_name(&tool.name),
            description: tool.description.as_deref(),
            parameters_json_schema: &tool.input_schema,
        }
    };
    let functions: Vec<_> = params.tools.iter().map(function).collect();
    let has_tools = !functions.is_empty();
    omit_metadata(params, NAME, &mut left_out);
    let body = GeminiRequest {
        contents,
        system_instruction: params.system_prompt.as_deref().filter(|text| !text.is_empty()).map(|text| {
            GeminiContent {
                role: None,
                parts: vec![GeminiPart { text: Some(text), ..GeminiPart::default() }],
            }
        }),
        generation_config: GeminiGenerationConfig {
            max_output_tokens: params.max_tokens,
            temperature: temperature(params, 2.0, &mut left_out),
            stop_sequences: &params.stop_sequences,
        },
        tools: if has_tools { vec![GeminiTools { function_declarations: functions }] } else { Vec::new() },
        tool_config: has_tools
            .then_some(GeminiToolConfig { function_calling_config: GeminiCallingConfig { mode } }),
    };
    let body = serde_json::to_vec(&body).map_err(|error| ModelError::Invalid(error.to_string()))?;
    Ok(ComposedRequest {
        // Without `alt=sse` the answer is one JSON array.
        path: format!("/models/{model}:streamGenerateContent?alt=sse"),
        body,
        names,
        left_out,
    })
}

fn content<'a>(
    message: &'a SamplingMessage,
    before: Option<&'a SamplingMessage>,
    model: &str,
    names: &'a ToolNameMap,
) -> Result<GeminiContent<'a>, ModelError> {
    let is_assistant = message.role == Role::Assistant;
    let role = Some(if is_assistant { "model" } else { "user" });
    // A message with tool results contains nothing else (SAMP-32).
    if results(message).next().is_some() {
        return Ok(GeminiContent { role, parts: responses(message, before, names)? });
    }
    let mut parts = Vec::with_capacity(message.content.len());
    let mut signed = false;
    for block in &message.content {
        parts.push(match block {
            Block::Text(text) => GeminiPart { text: Some(&text.text), ..GeminiPart::default() },
            Block::Image(_) | Block::Audio(_) if is_assistant => {
                return unsupported(NAME, "an image or audio in an assistant message");
            }
            Block::Image(image) => {
                check_image_type(&image.mime_type, &PICTURES, NAME)?;
                media(&image.mime_type, &image.data)
            }
            Block::Audio(audio) => media(&audio.mime_type, &audio.data),
            Block::ToolUse(tool_use) => {
                let call =
                    GeminiFunctionCall { name: names.wire_name(&tool_use.name), args: &tool_use.input };
                let mut signature: Option<String> = tool_use.meta.read(THOUGHT_SIGNATURE);
                // Models that know signatures require one for the first call of a message.
                if !signed && signature.is_none() && model.starts_with("gemini-3") {
                    signature = Some(MISSING_SIGNATURE.to_owned());
                }
                signed = true;
                GeminiPart {
                    function_call: Some(call),
                    thought_signature: signature,
                    ..GeminiPart::default()
                }
            }
            _ => return unsupported(NAME, "content of an unknown type"),
        });
    }
    Ok(GeminiContent { role, parts })
}

fn media<'a>(mime_type: &'a str, data: &'a str) -> GeminiPart<'a> {
    GeminiPart { inline_data: Some(GeminiInlineData { mime_type, data }), ..GeminiPart::default() }
}

/// Returns the results of tools in the order of the calls. They are matched by this order and by name, not by an id.
fn responses<'a>(
    message: &'a SamplingMessage,
    before: Option<&'a SamplingMessage>,
    names: &'a ToolNameMap,
) -> Result<Vec<GeminiPart<'a>>, ModelError> {
    let mut parts = Vec::new();
    for block in before.into_iter().flat_map(|message| &message.content) {
        let Block::ToolUse(tool_use) = block else { continue };
        let Some(result) = results(message).find(|result| result.tool_use_id == tool_use.id) else {
            continue;
        };
        let text = result_text(result, NAME)?;
        let response = if result.is_error == Some(true) {
            GeminiFunctionOutput::Error(text)
        } else {
            GeminiFunctionOutput::Output(text)
        };
        let response = GeminiFunctionResponse { name: names.wire_name(&tool_use.name), response };
        parts.push(GeminiPart { function_response: Some(response), ..GeminiPart::default() });
    }
    Ok(parts)
}
