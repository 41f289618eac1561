//! Redacted listing of a server with blocked items.

use std::sync::Arc;

use hospes_model::{RawJson, Resource, Tool};
use hospes_store::pins::ItemKind;
use serde_json::json;

use super::status::PinStatus;
use crate::server::{BlockReason, DefinitionHashes, UpstreamListing};

/// The longest part of a media type, in bytes.
const MAX_MEDIA_TYPE: usize = 64;

/// Returns the listing without any text that was not accepted. Tools keep their names, so that calls of them can be
/// answered with the reason. Their other text could be meant to manipulate a model.
pub(super) fn redact_listing(
    server: &str,
    listing: &UpstreamListing,
    hashes: &DefinitionHashes,
    standing: &PinStatus,
) -> UpstreamListing {
    let withheld = |kind, name: &str| standing.item_block_reason(kind, name, hashes.get(kind, name));
    let tools = listing.tools.iter().map(|tool| match withheld(ItemKind::Tool, &tool.name) {
        None => tool.clone(),
        Some(why) => {
            let schema = RawJson::from(json!({ "type": "object" }));
            let mut empty = Tool::new(&tool.name, schema);
            empty.description = Some(format!("Cannot be called now: {}.", why.message(server)));
            empty
        }
    });
    let prompts = listing.prompts.iter().filter(|prompt| withheld(ItemKind::Prompt, &prompt.name).is_none());
    let templates =
        listing.templates.iter().filter(|one| withheld(ItemKind::Template, &one.uri_template).is_none());
    let mut shown = listing.clone();
    shown.tools = Arc::new(tools.collect());
    shown.prompts = Arc::new(prompts.cloned().collect());
    shown.templates = Arc::new(templates.cloned().collect());
    let resources = listing.resources.iter().filter_map(|resource| {
        match withheld(ItemKind::Resource, &resource.uri) {
            None => Some(resource.clone()),
            Some(BlockReason::Rejected) => None,
            // Resources come and go, and can be read before anybody has looked at what is said about them. It is that
            // which is not passed on.
            Some(_) => Some(redact_resource(resource)),
        }
    });
    shown.resources =
        if standing.server_block_reason().is_some() { Arc::default() } else { Arc::new(resources.collect()) };
    shown
}

/// Returns a resource with its URI alone, without any text.
fn redact_resource(resource: &Resource) -> Resource {
    let mut unnamed = Resource::new(&resource.uri, &resource.uri);
    unnamed.size = resource.size;
    // It is the server's text, too, and could hold words for a model.
    unnamed.mime_type = resource.mime_type.clone().filter(|kind| is_media_type(kind));
    unnamed
}

/// Returns whether it is a media type and nothing besides: `type/subtype`, without parameters.
fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"+-._".contains(&letter);
        (1..=MAX_MEDIA_TYPE).contains(&part.len()) && part.bytes().all(is_letter)
    };
    text.split_once('/').is_some_and(|(kind, of)| is_token(kind) && is_token(of))
}
