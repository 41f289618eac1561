//! Hashes of tool definitions, kept between calls.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use hospes_model::Tool;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// Maximum number of tools whose hash is kept. Beyond it, all are computed anew.
const MAX_TOOLS: usize = 4096;

/// Maximum size of the definitions that are kept, in bytes of their JSON. Beyond it, all are computed anew.
const MAX_BYTES: usize = 16 << 20;

/// Hash of each tool's definition as the server sent it. An approval is bound to it, because it is for the described
/// behaviour.
///
/// A definition is compared with the one that was hashed, which costs a fraction of hashing it for each call.
#[derive(Debug, Default)]
pub(super) struct ToolHashCache(Mutex<HashedTools>);

/// Hashed definitions by the names of the tools.
#[derive(Debug, Default)]
struct HashedTools {
    tools: HashMap<String, HashedTool>,
    /// Sum of their sizes.
    bytes: usize,
}

/// A definition with its hash.
#[derive(Debug)]
struct HashedTool {
    definition: Tool,
    hash: Arc<str>,
    /// Length of the definition as JSON.
    bytes: usize,
}

impl ToolHashCache {
    /// Returns the hash of a definition, in hexadecimal digits.
    pub(super) fn hash_of(&self, tool: &Tool) -> Arc<str> {
        if let Some(known) = self.0.lock().tools.get(&tool.name)
            && known.definition == *tool
        {
            return Arc::clone(&known.hash);
        }
        // Computed without the lock: a definition may be long.
        let json = serde_json::to_vec(tool).unwrap_or_default();
        let hash = compute_hash(&json);
        // Read from its own text, because a clone would keep the whole list in memory that the tool came in.
        if let Ok(definition) = serde_json::from_slice(&json) {
            let hash = Arc::clone(&hash);
            self.0.lock().insert(HashedTool { definition, hash, bytes: json.len() });
        }
        hash
    }
}

impl HashedTools {
    fn insert(&mut self, tool: HashedTool) {
        // The one before has the same name and is replaced, so that its size is free.
        let before = self.tools.remove(&tool.definition.name);
        self.bytes -= before.map_or(0, |before| before.bytes);
        // Kept alone, it would push out all others and be pushed out by them.
        if tool.bytes > MAX_BYTES / 2 {
            return;
        }
        if self.tools.len() >= MAX_TOOLS || self.bytes + tool.bytes > MAX_BYTES {
            *self = Self::default();
        }
        self.bytes += tool.bytes;
        self.tools.insert(tool.definition.name.clone(), tool);
    }
}

fn compute_hash(json: &[u8]) -> Arc<str> {
    let digest = Sha256::digest(json);
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

    fn computed(tool: &Tool) -> Arc<str> {
        compute_hash(&serde_json::to_vec(tool).unwrap())
    }

    fn named(name: &str, description: &str) -> Tool {
        let mut tool = tool(description);
        tool.name = name.to_owned();
        tool
    }

    /// Number and size of the kept definitions.
    fn kept(hashes: &ToolHashCache) -> (usize, usize) {
        let known = hashes.0.lock();
        assert_eq!(known.bytes, known.tools.values().map(|tool| tool.bytes).sum::<usize>());
        (known.tools.len(), known.bytes)
    }

    #[test]
    fn a_changed_definition_has_another_hash() {
        let hashes = ToolHashCache::default();
        let first = hashes.hash_of(&tool("one"));
        assert_eq!(first, computed(&tool("one")));
        assert_eq!(first.len(), 64);
        assert!(Arc::ptr_eq(&first, &hashes.hash_of(&tool("one"))), "kept");
        let second = hashes.hash_of(&tool("two"));
        assert_ne!(first, second);
        assert_eq!(second, computed(&tool("two")));
        assert_eq!(hashes.hash_of(&tool("one")), first, "and back");
        assert_eq!(kept(&hashes).0, 1);
    }

    #[test]
    fn a_definition_with_all_members_is_hashed_once() {
        let tool: Tool = serde_json::from_str(
            r#"{ "name": "x", "title": "X", "inputSchema": { "type" : "object", "b": 1, "a": 1.0 }, "more": [ 1 ],
                "outputSchema": {"type":"object"}, "annotations": { "readOnlyHint": true, "other": 1 },
                "_meta": { "a/b": { "c" : 1 } }, "icons": [{ "src": "https://a.example/x.png" }] }"#,
        )
        .unwrap();
        let hashes = ToolHashCache::default();
        assert!(Arc::ptr_eq(&hashes.hash_of(&tool), &hashes.hash_of(&tool)));
    }

    #[test]
    fn the_number_of_kept_hashes_is_bounded() {
        let hashes = ToolHashCache::default();
        for number in 0..=MAX_TOOLS {
            hashes.hash_of(&named(&number.to_string(), "one"));
        }
        assert!(kept(&hashes).0 <= MAX_TOOLS);
    }

    #[test]
    fn the_size_of_kept_definitions_is_bounded() {
        let hashes = ToolHashCache::default();
        let long = "x".repeat(MAX_BYTES / 8);
        for number in 0..24 {
            let tool = named(&number.to_string(), &long);
            assert_eq!(hashes.hash_of(&tool), hashes.hash_of(&tool));
            assert!(kept(&hashes).1 <= MAX_BYTES, "{number}: {:?}", kept(&hashes));
        }
        let before = kept(&hashes);
        assert!(before.0 > 0);
        // One that is too long is hashed each time, and leaves the others.
        let huge = named("huge", &"x".repeat(MAX_BYTES));
        assert_eq!(hashes.hash_of(&huge), computed(&huge));
        assert_eq!(kept(&hashes), before);
        // A name that gets a definition that is too long does not keep its earlier one.
        hashes.hash_of(&named("23", &"x".repeat(MAX_BYTES)));
        assert_eq!(kept(&hashes).0, before.0 - 1);
    }
}
