//! Roots: folders that a client makes accessible to servers.

use serde::{Deserialize, Serialize};

use crate::Meta;
use crate::types::lenient::or_default;

/// A folder or file that a server may access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Root {
    /// URI with the scheme `file:`.
    pub uri: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl Root {
    /// Creates a `Root` with the required members; all others are absent.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: None, meta: Meta::new() }
    }
}

setters!(Root {
    some with_name(name: String);
    set with_meta(meta: Meta);
});

/// Params of `roots/list`, without members other than `_meta`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListRootsParams {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl ListRootsParams {
    /// Creates an empty `ListRootsParams`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ListRootsParams {
    set with_meta(meta: Meta);
});

/// Result of `roots/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListRootsResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// The client's roots.
    pub roots: Vec<Root>,
}

impl ListRootsResult {
    /// Creates a `ListRootsResult` with the required members; all others are absent.
    #[must_use]
    pub fn new(roots: Vec<Root>) -> Self {
        Self { roots, meta: Meta::new() }
    }
}

setters!(ListRootsResult {
    set with_meta(meta: Meta);
});
