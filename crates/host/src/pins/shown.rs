//! What is listed of a server of which something is withheld.

use std::sync::Arc;

use hospes_model::{RawJson, Tool};
use hospes_store::pins::ItemKind;
use serde_json::json;

use super::definition::Hashes;
use super::standing::Standing;
use crate::upstream::Listing;

/// The listing without a word that nobody has accepted. Tools keep their names, so that it can be asked about them;
/// whatever else the server says of them may be meant to make a model do something.
pub(super) fn shown(server: &str, listing: &Listing, hashes: &Hashes, standing: &Standing) -> Listing {
    let withheld = |kind, name: &str| standing.item(kind, name, hashes.get(kind, name));
    let tools = listing.tools.iter().map(|tool| match withheld(ItemKind::Tool, &tool.name) {
        None => tool.clone(),
        Some(why) => {
            let schema = RawJson::from(json!({ "type": "object" }));
            let mut empty = Tool::new(&tool.name, schema);
            empty.description = Some(format!("Cannot be called now: {}.", why.words(server)));
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
    if standing.whole().is_some() {
        shown.resources = Arc::default();
    }
    shown
}
