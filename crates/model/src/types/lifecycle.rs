//! Implementation details and the opening of a session.

use serde::{Deserialize, Serialize};

use super::ExtraMembers;
use crate::types::lenient::{self, or_default};
use crate::{CacheScope, ClientCapabilities, Icon, Meta, ServerCapabilities};

/// The name and version of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Implementation {
    /// Its name.
    pub name: String,
    /// The name to show (from 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its version.
    pub version: String,
    /// Description (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Pictures of it (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub icons: Vec<Icon>,
    /// URL of the website (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl Implementation {
    /// With what is required.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            title: None,
            description: None,
            icons: Vec::new(),
            website_url: None,
            extra: ExtraMembers::new(),
        }
    }
}

setters!(Implementation {
    some with_title(title: String);
    some with_description(description: String);
    set with_icons(icons: Vec<Icon>);
    some with_website_url(website_url: String);
});

impl Implementation {
    /// The name to show: the title, else the name (META-09).
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

/// Opens a legacy session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeParams {
    /// The revision the client wants, by its date.
    pub protocol_version: String,
    /// Capabilities of the client.
    pub capabilities: ClientCapabilities,
    /// Name and version of the client.
    pub client_info: Implementation,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl InitializeParams {
    /// With what is required.
    pub fn new(
        protocol_version: impl Into<String>,
        capabilities: ClientCapabilities,
        client_info: Implementation,
    ) -> Self {
        Self { protocol_version: protocol_version.into(), capabilities, client_info, meta: Meta::new() }
    }
}

setters!(InitializeParams {
    set with_meta(meta: Meta);
});

/// The server's side of the handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// The revision the session has from here on.
    pub protocol_version: String,
    /// Capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// Name and version of the server.
    pub server_info: Implementation,
    /// Instructions for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

impl InitializeResult {
    /// With what is required.
    pub fn new(
        protocol_version: impl Into<String>,
        capabilities: ServerCapabilities,
        server_info: Implementation,
    ) -> Self {
        Self {
            protocol_version: protocol_version.into(),
            capabilities,
            server_info,
            meta: Meta::new(),
            instructions: None,
        }
    }
}

setters!(InitializeResult {
    set with_meta(meta: Meta);
    some with_instructions(instructions: String);
});

/// Result of `server/discover`: identity, capabilities and supported revisions of a modern server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DiscoverResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// The revisions it speaks, by their dates.
    pub supported_versions: Vec<String>,
    /// Capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// Instructions for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Time for which the result may be cached, in milliseconds (2026-07-28); written by
    /// [`Reply::encode`](crate::Reply::encode).
    #[serde(default, skip_serializing, deserialize_with = "lenient::millis")]
    pub ttl_ms: Option<u64>,
    /// Scope in which a cached result may be shared (2026-07-28); written by [`Reply::encode`](crate::Reply::encode).
    #[serde(default, skip_serializing)]
    pub cache_scope: Option<CacheScope>,
}

impl DiscoverResult {
    /// With what is required.
    #[must_use]
    pub fn new(supported_versions: Vec<String>, capabilities: ServerCapabilities) -> Self {
        Self {
            supported_versions,
            capabilities,
            meta: Meta::new(),
            instructions: None,
            ttl_ms: None,
            cache_scope: None,
        }
    }
}

setters!(DiscoverResult {
    set with_meta(meta: Meta);
    some with_instructions(instructions: String);
    some with_ttl_ms(ttl_ms: u64);
    some with_cache_scope(cache_scope: CacheScope);
});

/// Params that hold nothing but metadata (ping, server/discover).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EmptyParams {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl EmptyParams {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(EmptyParams {
    set with_meta(meta: Meta);
});

/// A result that holds nothing but metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EmptyResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl EmptyResult {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(EmptyResult {
    set with_meta(meta: Meta);
});

/// Params of a request for one page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PaginatedParams {
    /// Cursor of the page, from the page before it; absent for the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl PaginatedParams {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(PaginatedParams {
    some with_cursor(cursor: String);
    set with_meta(meta: Meta);
});
