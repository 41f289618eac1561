//! Requests.

use hospes_model::{
    CreateMessageParams, RawJson, Role, SamplingMessage, SamplingMessageContentBlock as Block, ToolChoiceMode,
};
use serde::Serialize;

use super::{Gemini, SIGNATURE, Wire};
use crate::ModelError;
use crate::conversation::{self, result_text, results, tool_choice};
use crate::names::Names;
use crate::providers::{Composed, no_metadata, picture, temperature, unsupported};

const NAME: &str = Gemini::NAME;
const PICTURES: [&str; 5] = ["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];
const MAX_STOPS: usize = 5;

/// Value to send for a call with an unknown signature, as the provider documents it. A signature is unknown if the call
/// came from another model, or if a server lost it.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    generation_config: Config<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig>,
}

#[derive(Serialize)]
struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Part<'a>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<Data<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<Response<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
struct Call<'a> {
    name: &'a str,
    args: &'a RawJson,
}

#[derive(Serialize)]
struct Response<'a> {
    name: &'a str,
    response: Returned,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Returned {
    Output(String),
    Error(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    max_output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Function<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters_json_schema: &'a RawJson,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig {
    function_calling_config: Calling,
}

#[derive(Serialize)]
struct Calling {
    mode: &'static str,
}

pub(super) fn compose(model: &str, params: &CreateMessageParams) -> Result<Composed, ModelError> {
    conversation::check(params)?;
    let names = Names::of(params, 64);
    let mut left_out = Vec::new();
    if params.stop_sequences.len() > MAX_STOPS {
        return unsupported(
            NAME,
            format!("{} stop sequences (it takes {MAX_STOPS})", params.stop_sequences.len()),
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
    let function = |tool| -> Function<'_> {
        let tool: &hospes_model::Tool = tool;
        Function {
            name: names.out(&tool.name),
            description: tool.description.as_deref(),
            parameters_json_schema: &tool.input_schema,
        }
    };
    let functions: Vec<_> = params.tools.iter().map(function).collect();
    let has_tools = !functions.is_empty();
    no_metadata(params, NAME, &mut left_out);
    let body =
        Body {
            contents,
            system_instruction: params.system_prompt.as_deref().filter(|text| !text.is_empty()).map(|text| {
                Content { role: None, parts: vec![Part { text: Some(text), ..Part::default() }] }
            }),
            generation_config: Config {
                max_output_tokens: params.max_tokens,
                temperature: temperature(params, 2.0, &mut left_out),
                stop_sequences: &params.stop_sequences,
            },
            tools: if has_tools { vec![Tools { function_declarations: functions }] } else { Vec::new() },
            tool_config: has_tools.then_some(ToolConfig { function_calling_config: Calling { mode } }),
        };
    let body = serde_json::to_vec(&body).map_err(|error| ModelError::Invalid(error.to_string()))?;
    Ok(Composed { path: format!("/models/{model}:streamGenerateContent?alt=sse"), body, names, left_out })
}

fn content<'a>(
    message: &'a SamplingMessage,
    before: Option<&'a SamplingMessage>,
    model: &str,
    names: &'a Names,
) -> Result<Content<'a>, ModelError> {
    let is_assistant = message.role == Role::Assistant;
    let role = Some(if is_assistant { "model" } else { "user" });
    if results(message).next().is_some() {
        return Ok(Content { role, parts: responses(message, before, names)? });
    }
    let mut parts = Vec::with_capacity(message.content.len());
    let mut signed = false;
    for block in &message.content {
        parts.push(match block {
            Block::Text(text) => Part { text: Some(&text.text), ..Part::default() },
            Block::Image(_) | Block::Audio(_) if is_assistant => {
                return unsupported(NAME, "a picture or sound in a message of the assistant");
            }
            Block::Image(image) => {
                picture(&image.mime_type, &PICTURES, NAME)?;
                media(&image.mime_type, &image.data)
            }
            Block::Audio(audio) => media(&audio.mime_type, &audio.data),
            Block::ToolUse(tool_use) => {
                let call = Call { name: names.out(&tool_use.name), args: &tool_use.input };
                let mut signature: Option<String> = tool_use.meta.read(SIGNATURE);
                // The first call of a message has to have one, for the models that know of it.
                if !signed && signature.is_none() && model.starts_with("gemini-3") {
                    signature = Some(NO_SIGNATURE.to_owned());
                }
                signed = true;
                Part { function_call: Some(call), thought_signature: signature, ..Part::default() }
            }
            _ => return unsupported(NAME, "content of an unknown type"),
        });
    }
    Ok(Content { role, parts })
}

fn media<'a>(mime_type: &'a str, data: &'a str) -> Part<'a> {
    Part { inline_data: Some(Data { mime_type, data }), ..Part::default() }
}

/// Returns the results of tools in the order of the calls. They are matched by this order and by name, not by an id.
fn responses<'a>(
    message: &'a SamplingMessage,
    before: Option<&'a SamplingMessage>,
    names: &'a Names,
) -> Result<Vec<Part<'a>>, ModelError> {
    let mut parts = Vec::new();
    for block in before.into_iter().flat_map(|message| &message.content) {
        let Block::ToolUse(tool_use) = block else { continue };
        let Some(result) = results(message).find(|result| result.tool_use_id == tool_use.id) else {
            continue;
        };
        let text = result_text(result, NAME)?;
        let response =
            if result.is_error == Some(true) { Returned::Error(text) } else { Returned::Output(text) };
        let response = Response { name: names.out(&tool_use.name), response };
        parts.push(Part { function_response: Some(response), ..Part::default() });
    }
    Ok(parts)
}
