//! An MCP registry and package registries on loopback, for tests.

use serde_json::Value;

/// Returns all entries, each a `server.json`.
///
/// # Panics
/// If the file of entries is broken.
#[must_use]
pub fn entries() -> Vec<Value> {
    serde_json::from_str(include_str!("../entries.json")).expect("the entries are valid JSON")
}

/// Returns the entry with this name.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn entry(name: &str) -> Value {
    let found = entries().into_iter().find(|entry| entry["name"] == name);
    found.unwrap_or_else(|| panic!("no entry is called {name}"))
}
