//! Validation of sampling requests for all providers, and conversion of their parts to text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hospes_model::{
    ContentBlock, CreateMessageParams, ResourceBody, Role, SamplingMessage,
    SamplingMessageContentBlock as Block, ToolChoiceMode, ToolResultContent,
};

use crate::ModelError;

/// Checks the rules that apply to every provider (SAMP-24, SAMP-32, SAMP-33, SAMP-34).
pub(crate) fn check(params: &CreateMessageParams) -> Result<(), ModelError> {
    let invalid = |why: &str| Err(ModelError::Invalid(why.to_owned()));
    if params.messages.is_empty() {
        return invalid("it has no messages");
    }
    if params.max_tokens == 0 {
        return invalid("maxTokens is 0");
    }
    if params.temperature.is_some_and(|temperature| !temperature.is_finite() || temperature < 0.0) {
        return invalid("the temperature is not a non-negative number");
    }
    if params.metadata.as_ref().is_some_and(|metadata| !metadata.is_object()) {
        return invalid("metadata is not an object");
    }
    if let Some(tool) = params.tools.iter().find(|tool| !tool.input_schema.is_object()) {
        return Err(ModelError::Invalid(format!(
            "the inputSchema of the tool {:?} is not an object",
            tool.name
        )));
    }
    let mut wanted: Vec<&str> = Vec::new();
    for message in &params.messages {
        message.content.iter().try_for_each(|block| check_block(block, &message.role))?;
        let results: Vec<&str> = results(message).map(|result| result.tool_use_id.as_str()).collect();
        if !results.is_empty() && results.len() < message.content.len() {
            return invalid("a message with tool results has other content");
        }
        if !wanted.iter().all(|id| results.contains(id)) {
            return invalid("a tool use is not followed by its result");
        }
        if !results.iter().all(|id| wanted.contains(id)) {
            return invalid("a tool result does not match a tool use of the previous message");
        }
        if results.iter().enumerate().any(|(index, id)| results[..index].contains(id)) {
            return invalid("a tool use has two results");
        }
        // Only the very next message may contain the results (SAMP-33).
        wanted.clear();
        for block in &message.content {
            if let Block::ToolUse(tool_use) = block {
                if wanted.contains(&tool_use.id.as_str()) {
                    return invalid("two tool uses of one message have the same id");
                }
                wanted.push(&tool_use.id);
            }
        }
    }
    if wanted.is_empty() { Ok(()) } else { invalid("it ends with a tool use that has no result") }
}

fn check_block(block: &Block, role: &Role) -> Result<(), ModelError> {
    let why = match (role, block) {
        (Role::User | Role::Assistant, Block::Image(image)) => {
            media_trouble(&image.data, &image.mime_type, "image")
        }
        (Role::User | Role::Assistant, Block::Audio(audio)) => {
            media_trouble(&audio.data, &audio.mime_type, "audio")
        }
        (Role::Assistant, Block::ToolUse(tool_use)) if !tool_use.input.is_object() => {
            Some("the input of a tool use is not an object")
        }
        (Role::User, Block::ToolUse(_)) => Some("a user message contains a tool use"),
        (Role::Assistant, Block::ToolResult(_)) => Some("an assistant message contains a tool result"),
        (Role::User | Role::Assistant, Block::Unknown(_)) => {
            Some("it has content of a type that the specification does not define")
        }
        (Role::User | Role::Assistant, _) => None,
        _ => Some("the role of a message is neither user nor assistant"),
    };
    why.map_or(Ok(()), |why| Err(ModelError::Invalid(why.to_owned())))
}

fn media_trouble(data: &str, kind: &str, wanted: &str) -> Option<&'static str> {
    let named =
        kind.split_once('/').is_some_and(|(main, sub)| main.eq_ignore_ascii_case(wanted) && !sub.is_empty());
    if !named || kind.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Some("the mimeType of an image or audio block is invalid");
    }
    // The bytes are discarded, because there is no decoder without output.
    (data.is_empty() || STANDARD.decode(data).is_err())
        .then_some("the data of an image or audio block is not valid Base64")
}

/// The tool results in a message.
pub(crate) fn results(message: &SamplingMessage) -> impl Iterator<Item = &ToolResultContent> {
    message.content.iter().filter_map(|block| match block {
        Block::ToolResult(result) => Some(result),
        _ => None,
    })
}

/// Returns the mode in which the model chooses among the tools. An unknown mode is an error.
pub(crate) fn tool_choice(
    params: &CreateMessageParams,
    provider: &'static str,
) -> Result<ToolChoiceMode, ModelError> {
    match params.tool_choice.as_ref().and_then(|choice| choice.mode.clone()).unwrap_or(ToolChoiceMode::Auto) {
        ToolChoiceMode::Other(mode) => {
            Err(ModelError::Unsupported { provider, what: format!("the tool choice {mode:?}") })
        }
        ToolChoiceMode::Required if params.tools.is_empty() => {
            Err(ModelError::Invalid("the tool choice requires a tool, and there are none".to_owned()))
        }
        mode => Ok(mode),
    }
}

/// A piece of a tool's result.
pub(crate) enum ResultPiece<'a> {
    /// Text.
    Text(String),
    /// An image: its Base64 and media type.
    Image(&'a str, &'a str),
    /// Other content, by its media type.
    Other(&'a str),
}

/// Returns the pieces of a tool's result. Structured content is used only if there is nothing else, because a server
/// that sends both repeats it as text.
pub(crate) fn pieces(result: &ToolResultContent) -> Vec<ResultPiece<'_>> {
    match (&result.structured_content, result.content.as_slice()) {
        (Some(structured), []) => vec![ResultPiece::Text(structured.as_str().to_owned())],
        (_, content) => content.iter().map(piece).collect(),
    }
}

fn piece(block: &ContentBlock) -> ResultPiece<'_> {
    match block {
        ContentBlock::Text(text) => ResultPiece::Text(text.text.clone()),
        ContentBlock::Image(image) => ResultPiece::Image(&image.data, &image.mime_type),
        ContentBlock::Audio(audio) => ResultPiece::Other(&audio.mime_type),
        ContentBlock::ResourceLink(link) => ResultPiece::Text(format!("{}: {}", link.name, link.uri)),
        ContentBlock::Resource(embedded) => {
            let kind = embedded.resource.mime_type.as_deref().unwrap_or("application/octet-stream");
            match &embedded.resource.body {
                ResourceBody::Text(text) => ResultPiece::Text(text.clone()),
                ResourceBody::Blob(blob) if kind.starts_with("image/") => ResultPiece::Image(blob, kind),
                ResourceBody::Blob(_) => ResultPiece::Other(kind),
            }
        }
        _ => ResultPiece::Other("an unknown type"),
    }
}

/// Returns a tool's result as text, for a provider that takes only text there.
pub(crate) fn result_text(result: &ToolResultContent, provider: &'static str) -> Result<String, ModelError> {
    let mut text = String::new();
    for piece in pieces(result) {
        match piece {
            ResultPiece::Text(more) => {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(&more);
            }
            ResultPiece::Image(_, kind) | ResultPiece::Other(kind) => {
                let what = format!("{kind} in a tool result (only text is supported there)");
                return Err(ModelError::Unsupported { provider, what });
            }
        }
    }
    Ok(text)
}
