//! Hashes of the definitions that one connection offers.

use std::collections::HashMap;

use hospes_store::pins::{ItemDefinition, ItemKind, Sha256Digest};

use super::listing::UpstreamListing;

/// The hashes of what one connection offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DefinitionHashes {
    pub(crate) instructions: Option<Sha256Digest>,
    tools: HashMap<Box<str>, Sha256Digest>,
    prompts: HashMap<Box<str>, Sha256Digest>,
    templates: HashMap<Box<str>, Sha256Digest>,
    resources: HashMap<Box<str>, Sha256Digest>,
}

impl DefinitionHashes {
    pub(crate) fn of(definitions: &[ItemDefinition]) -> Self {
        let mut hashes = Self::default();
        for one in definitions {
            let map = match one.kind {
                ItemKind::Tool => &mut hashes.tools,
                ItemKind::Prompt => &mut hashes.prompts,
                ItemKind::Template => &mut hashes.templates,
                ItemKind::Resource => &mut hashes.resources,
                _ => {
                    hashes.instructions = Some(one.hash);
                    continue;
                }
            };
            map.insert(one.name.as_str().into(), one.hash);
        }
        hashes
    }

    pub(crate) fn get(&self, kind: ItemKind, name: &str) -> Option<Sha256Digest> {
        match kind {
            ItemKind::Tool => self.tools.get(name).copied(),
            ItemKind::Prompt => self.prompts.get(name).copied(),
            ItemKind::Template => self.templates.get(name).copied(),
            ItemKind::Resource => self.resources.get(name).copied(),
            ItemKind::Instructions => self.instructions,
            _ => None,
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = Sha256Digest> {
        let named = self.tools.values().chain(self.prompts.values()).chain(self.templates.values());
        named.chain(self.resources.values()).chain(&self.instructions).copied()
    }

    /// Returns whether every resource of a listing is pinned.
    pub(crate) fn covers_resources(&self, listing: &UpstreamListing) -> bool {
        self.resources.len() >= listing.resources.len()
    }
}
