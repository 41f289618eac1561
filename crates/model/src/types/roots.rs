//! Roots: what a server may look at.

use serde::{Deserialize, Serialize};

use crate::Meta;
use crate::types::lenient::or_default;

/// A place a server may look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Root {
    /// A `file:` URI.
    pub uri: String,
    /// The name to show.
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
    /// With what is required.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: None, meta: Meta::new() }
    }
}

setters!(Root {
    some with_name(name: String);
    set with_meta(meta: Meta);
});

/// Nothing but metadata.
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
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ListRootsParams {
    set with_meta(meta: Meta);
});

/// The client's roots.
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
    /// The roots.
    pub roots: Vec<Root>,
}

impl ListRootsResult {
    /// With what is required.
    #[must_use]
    pub fn new(roots: Vec<Root>) -> Self {
        Self { roots, meta: Meta::new() }
    }
}

setters!(ListRootsResult {
    set with_meta(meta: Meta);
});
