//! Checks of contents: their URIs, media types and Base64 data. Those of a prompt's messages are PRM-08 to PRM-10.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hospes_model::{ContentBlock, ResourceBody};

/// Fills in the media type of what is embedded without one, and checks the rest: bytes are Base64, media types and URIs
/// are some.
///
/// # Errors
/// A description of the problem, for the author of the handler.
pub(crate) fn complete_block(block: &mut ContentBlock) -> Result<(), String> {
    match block {
        ContentBlock::Image(content) => check_media("image", &content.data, &content.mime_type),
        ContentBlock::Audio(content) => check_media("audio", &content.data, &content.mime_type),
        ContentBlock::ResourceLink(link) => check_uri(&link.uri),
        ContentBlock::Resource(embedded) => {
            let contents = &mut embedded.resource;
            let usual = match &contents.body {
                ResourceBody::Blob(data) => {
                    check_base64("an embedded resource", data)?;
                    "application/octet-stream"
                }
                ResourceBody::Text(_) => "text/plain",
            };
            check_media_type(contents.mime_type.get_or_insert_with(|| usual.to_owned()))?;
            check_uri(&contents.uri)
        }
        ContentBlock::Text(_) | ContentBlock::Unknown(_) => Ok(()),
        // What later revisions may add is theirs to describe.
        _ => Ok(()),
    }
}

fn check_media(kind: &str, data: &str, mime_type: &str) -> Result<(), String> {
    check_base64(kind, data)?;
    check_media_type(mime_type)
}

fn check_base64(what: &str, data: &str) -> Result<(), String> {
    STANDARD.decode(data).map(drop).map_err(|why| format!("the data of {what} is not Base64: {why}"))
}

fn check_uri(text: &str) -> Result<(), String> {
    if is_uri(text) { Ok(()) } else { Err(format!("{text:?} is not a URI")) }
}

fn check_media_type(text: &str) -> Result<(), String> {
    if is_media_type(text) { Ok(()) } else { Err(format!("{text:?} is not a media type")) }
}

/// Returns true if the text is a URI, or an IRI, with a scheme.
pub(crate) fn is_uri(text: &str) -> bool {
    iri_string::types::IriStr::new(text).is_ok()
}

/// Returns true if the text is `type/subtype`, optionally with parameters (RFC 9110, 8.3.1).
pub(crate) fn is_media_type(text: &str) -> bool {
    let token = |text: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        !text.is_empty() && text.bytes().all(allowed)
    };
    essence(text).split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype))
}

/// A media type without its parameters.
pub(crate) fn essence(text: &str) -> &str {
    text.split(';').next().unwrap_or_default().trim()
}
