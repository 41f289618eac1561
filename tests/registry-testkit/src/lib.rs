//! An MCP registry and package registries on loopback, for tests.
//!
//! [`RegistryServer::start`] serves, until it is dropped:
//! - API v0.1 of a registry, with pages, `search`, `updated_since`, `ETag` and deletions;
//! - a registry of npm and an index of PyPI with small MCP servers as packages, which real `npx` and `uvx` can run;
//! - a registry of images, with anonymous tokens;
//! - a proxy of Go with a small server as a module, which real `go install` builds;
//! - files, such as bundles.

mod archives;
mod crates;
mod http;
mod modules;
mod packages;
mod registry;
mod server;

pub use self::packages::{BUNDLE_MANIFEST, CLOCK_PATCH, CLOCK_VERSIONS, sha256_hex};
pub use self::server::{RegistryFault, RegistryServer};

use serde_json::Value;

/// Returns all entries, each a `server.json`. Their packages do not exist.
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
