//! Implementation details and the handshake.

use serde::{Deserialize, Serialize};

use super::ExtraMembers;
use crate::types::lenient::{self, or_default};
use crate::{CacheScope, ClientCapabilities, Icon, Meta, ServerCapabilities};

/// Name and version of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Implementation {
    /// Name of the program.
    pub name: String,
    /// Display name (from 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Version of the program.
    pub version: String,
    /// Description (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Icons (from 2025-11-25).
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
    /// Creates an `Implementation` with the required members; all others are absent.
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
    /// Returns the display name: the title, or the name if there is no title (META-09).
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

/// Params of `initialize`, which opens a legacy session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeParams {
    /// Revision that the client requests, by its date.
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
    /// Creates an `InitializeParams` with the required members; all others are absent.
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

/// Result of `initialize`.
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
    /// Revision of the session, by its date.
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
    /// Creates an `InitializeResult` with the required members; all others are absent.
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
    /// Supported revisions, by their dates.
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
    /// Creates a `DiscoverResult` with the required members; all others are absent.
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

/// Params without members other than `_meta` (ping, server/discover).
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
    /// Creates an empty `EmptyParams`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(EmptyParams {
    set with_meta(meta: Meta);
});

/// A result without members other than `_meta`.
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
    /// Creates an empty `EmptyResult`.
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
    /// Creates an empty `PaginatedParams`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(PaginatedParams {
    some with_cursor(cursor: String);
    set with_meta(meta: Meta);
});
