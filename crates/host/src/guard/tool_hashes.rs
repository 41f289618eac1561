//! Hashes of tool definitions, kept between calls.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use hospes_model::Tool;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// Maximum number of tools whose hash is kept. Beyond it, all are computed anew.
const MAX_TOOLS: usize = 4096;

/// Hash of each tool's definition as the server sent it. An approval is bound to it, because it is for the described
/// behaviour.
///
/// A definition is compared with the one that was hashed, which costs a fraction of hashing it for each call.
#[derive(Debug, Default)]
pub(super) struct ToolHashCache(Mutex<HashMap<String, (Tool, Arc<str>)>>);

impl ToolHashCache {
    /// Returns the hash of a definition, in hexadecimal digits.
    pub(super) fn hash_of(&self, tool: &Tool) -> Arc<str> {
        if let Some((known, hash)) = self.0.lock().get(&tool.name)
            && known == tool
        {
            return Arc::clone(hash);
        }
        // Computed without the lock: a definition may be long.
        let hash = compute_hash(tool);
        let mut known = self.0.lock();
        if known.len() >= MAX_TOOLS {
            known.clear();
        }
        known.insert(tool.name.clone(), (tool.clone(), Arc::clone(&hash)));
        hash
    }
}

fn compute_hash(tool: &Tool) -> Arc<str> {
    let digest = Sha256::digest(serde_json::to_vec(tool).unwrap_or_default());
    let mut text = String::with_capacity(2 * digest.len());
    for byte in digest {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(description: &str) -> Tool {
        serde_json::from_value(serde_json::json!({
            "name": "x", "description": description, "inputSchema": { "type": "object" }
        }))
        .unwrap()
    }

    #[test]
    fn a_changed_definition_has_another_hash() {
        let hashes = ToolHashCache::default();
        let first = hashes.hash_of(&tool("one"));
        assert_eq!(first, compute_hash(&tool("one")));
        assert_eq!(first.len(), 64);
        assert!(Arc::ptr_eq(&first, &hashes.hash_of(&tool("one"))), "kept");
        let second = hashes.hash_of(&tool("two"));
        assert_ne!(first, second);
        assert_eq!(second, compute_hash(&tool("two")));
        assert_eq!(hashes.hash_of(&tool("one")), first, "and back");
    }

    #[test]
    fn the_number_of_kept_hashes_is_bounded() {
        let hashes = ToolHashCache::default();
        for number in 0..=MAX_TOOLS {
            let mut tool = tool("one");
            tool.name = number.to_string();
            hashes.hash_of(&tool);
        }
        assert!(hashes.0.lock().len() <= MAX_TOOLS);
    }
}
