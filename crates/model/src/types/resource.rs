//! Resources: content that can be read by URI.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::ExtraMembers;
use crate::types::lenient::{self, or_default};
use crate::{Annotations, CacheScope, Icon, InputResponses, Meta};

/// A resource as listed or linked by a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Resource {
    /// URI of the resource.
    pub uri: String,
    /// Name of the resource.
    pub name: String,
    /// Display name (from 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Hints on how to use the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<Annotations>>,
    /// Icons (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub icons: Vec<Icon>,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl Resource {
    /// Creates a `Resource` with the required members; all others are absent.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
            annotations: None,
            icons: Vec::new(),
            meta: Meta::new(),
            extra: ExtraMembers::new(),
        }
    }
}

setters!(Resource {
    some with_title(title: String);
    some with_description(description: String);
    some with_mime_type(mime_type: String);
    some with_size(size: u64);
    some with_annotations(annotations: Box<Annotations>);
    set with_icons(icons: Vec<Icon>);
    set with_meta(meta: Meta);
});

impl Resource {
    /// Returns the display name: the title, or the name if there is no title (META-09).
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

/// A family of resources, described by an RFC 6570 URI template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// URI template.
    pub uri_template: String,
    /// Name of the template.
    pub name: String,
    /// Display name (from 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description of the resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Media type, if all resources have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Hints on how to use the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<Annotations>>,
    /// Icons (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub icons: Vec<Icon>,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ResourceTemplate {
    /// Creates a `ResourceTemplate` with the required members; all others are absent.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri_template: uri_template.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            annotations: None,
            icons: Vec::new(),
            meta: Meta::new(),
            extra: ExtraMembers::new(),
        }
    }
}

setters!(ResourceTemplate {
    some with_title(title: String);
    some with_description(description: String);
    some with_mime_type(mime_type: String);
    some with_annotations(annotations: Box<Annotations>);
    set with_icons(icons: Vec<Icon>);
    set with_meta(meta: Meta);
});

impl ResourceTemplate {
    /// Returns the display name: the title, or the name if there is no title (META-09).
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

/// Result of `resources/list`: one page of resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListResourcesResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Resources of this page.
    pub resources: Vec<Resource>,
    /// Cursor of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Time for which the result may be cached, in milliseconds (2026-07-28); written by
    /// [`Reply::encode`](crate::Reply::encode).
    #[serde(default, skip_serializing, deserialize_with = "lenient::millis")]
    pub ttl_ms: Option<u64>,
    /// Scope in which a cached result may be shared (2026-07-28); written by [`Reply::encode`](crate::Reply::encode).
    #[serde(default, skip_serializing)]
    pub cache_scope: Option<CacheScope>,
}

impl ListResourcesResult {
    /// Creates a `ListResourcesResult` with the required members; all others are absent.
    #[must_use]
    pub fn new(resources: Vec<Resource>) -> Self {
        Self { resources, meta: Meta::new(), next_cursor: None, ttl_ms: None, cache_scope: None }
    }
}

setters!(ListResourcesResult {
    set with_meta(meta: Meta);
    some with_next_cursor(next_cursor: String);
    some with_ttl_ms(ttl_ms: u64);
    some with_cache_scope(cache_scope: CacheScope);
});

/// Result of `resources/templates/list`: one page of resource templates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListResourceTemplatesResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Templates of this page.
    pub resource_templates: Vec<ResourceTemplate>,
    /// Cursor of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Time for which the result may be cached, in milliseconds (2026-07-28); written by
    /// [`Reply::encode`](crate::Reply::encode).
    #[serde(default, skip_serializing, deserialize_with = "lenient::millis")]
    pub ttl_ms: Option<u64>,
    /// Scope in which a cached result may be shared (2026-07-28); written by [`Reply::encode`](crate::Reply::encode).
    #[serde(default, skip_serializing)]
    pub cache_scope: Option<CacheScope>,
}

impl ListResourceTemplatesResult {
    /// Creates a `ListResourceTemplatesResult` with the required members; all others are absent.
    #[must_use]
    pub fn new(resource_templates: Vec<ResourceTemplate>) -> Self {
        Self { resource_templates, meta: Meta::new(), next_cursor: None, ttl_ms: None, cache_scope: None }
    }
}

setters!(ListResourceTemplatesResult {
    set with_meta(meta: Meta);
    some with_next_cursor(next_cursor: String);
    some with_ttl_ms(ttl_ms: u64);
    some with_cache_scope(cache_scope: CacheScope);
});

/// Params of `resources/read`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReadResourceParams {
    /// URI of the resource.
    pub uri: String,
    /// Responses to the input requests of the previous round (2026-07-28).
    #[serde(default, skip_serializing_if = "InputResponses::is_empty", deserialize_with = "or_default")]
    pub input_responses: InputResponses,
    /// Request state received with those input requests, unchanged (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl ReadResourceParams {
    /// Creates a `ReadResourceParams` with the required members; all others are absent.
    pub fn new(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            input_responses: InputResponses::new(),
            request_state: None,
            meta: Meta::new(),
        }
    }
}

setters!(ReadResourceParams {
    set with_input_responses(input_responses: InputResponses);
    some with_request_state(request_state: String);
    set with_meta(meta: Meta);
});

/// Result of `resources/read`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReadResourceResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Contents; several if the URI names a collection.
    pub contents: Vec<ResourceContents>,
    /// Time for which the result may be cached, in milliseconds (2026-07-28); written by
    /// [`Reply::encode`](crate::Reply::encode).
    #[serde(default, skip_serializing, deserialize_with = "lenient::millis")]
    pub ttl_ms: Option<u64>,
    /// Scope in which a cached result may be shared (2026-07-28); written by [`Reply::encode`](crate::Reply::encode).
    #[serde(default, skip_serializing)]
    pub cache_scope: Option<CacheScope>,
}

impl ReadResourceResult {
    /// Creates a `ReadResourceResult` with the required members; all others are absent.
    #[must_use]
    pub fn new(contents: Vec<ResourceContents>) -> Self {
        Self { contents, meta: Meta::new(), ttl_ms: None, cache_scope: None }
    }
}

setters!(ReadResourceResult {
    set with_meta(meta: Meta);
    some with_ttl_ms(ttl_ms: u64);
    some with_cache_scope(cache_scope: CacheScope);
});

/// Params of `resources/subscribe` and `resources/unsubscribe` (up to 2025-11-25).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubscribeParams {
    /// URI of the resource.
    pub uri: String,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl SubscribeParams {
    /// Creates a `SubscribeParams` with the required members; all others are absent.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), meta: Meta::new() }
    }
}

setters!(SubscribeParams {
    set with_meta(meta: Meta);
});

/// Params of `notifications/resources/updated`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceUpdatedParams {
    /// URI of the resource, or of a part of it.
    pub uri: String,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl ResourceUpdatedParams {
    /// Creates a `ResourceUpdatedParams` with the required members; all others are absent.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), meta: Meta::new() }
    }
}

setters!(ResourceUpdatedParams {
    set with_meta(meta: Meta);
});

/// Content of a resource: text, or bytes in Base64.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ContentsParts")]
#[non_exhaustive]
pub struct ResourceContents {
    /// URI of the resource.
    pub uri: String,
    /// Media type.
    pub mime_type: Option<String>,
    /// The text or bytes.
    pub body: ResourceBody,
    /// Metadata (from 2025-06-18).
    pub meta: Meta,
}

/// Body of a resource's content.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every revision has exactly these two")]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Bytes, encoded in Base64.
    Blob(String),
}

impl ResourceContents {
    /// Creates text content.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self { uri: uri.into(), mime_type: None, body: ResourceBody::Text(text.into()), meta: Meta::new() }
    }

    /// Creates content from bytes that are already encoded in Base64.
    pub fn blob(uri: impl Into<String>, base64: impl Into<String>) -> Self {
        Self { uri: uri.into(), mime_type: None, body: ResourceBody::Blob(base64.into()), meta: Meta::new() }
    }

    /// Creates content from bytes, which are encoded in Base64.
    pub fn bytes(uri: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        use base64::Engine as _;
        Self::blob(uri, base64::engine::general_purpose::STANDARD.encode(bytes))
    }

    /// Returns the text if the content is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.body {
            ResourceBody::Text(text) => Some(text),
            ResourceBody::Blob(_) => None,
        }
    }
}

setters!(ResourceContents {
    some with_mime_type(mime_type: String);
    set with_meta(meta: Meta);
});

impl Serialize for ResourceContents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("uri", &self.uri)?;
        if let Some(mime_type) = &self.mime_type {
            map.serialize_entry("mimeType", mime_type)?;
        }
        match &self.body {
            ResourceBody::Text(text) => map.serialize_entry("text", text)?,
            ResourceBody::Blob(blob) => map.serialize_entry("blob", blob)?,
        }
        if !self.meta.is_empty() {
            map.serialize_entry("_meta", &self.meta)?;
        }
        map.end()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContentsParts {
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
    #[serde(default, rename = "_meta", deserialize_with = "or_default")]
    meta: Meta,
}

impl TryFrom<ContentsParts> for ResourceContents {
    type Error = &'static str;

    fn try_from(parts: ContentsParts) -> Result<Self, Self::Error> {
        let body = match (parts.text, parts.blob) {
            (Some(text), None) => ResourceBody::Text(text),
            (None, Some(blob)) => ResourceBody::Blob(blob),
            (None, None) => return Err("resource contents must have \"text\" or \"blob\""),
            (Some(_), Some(_)) => return Err("resource contents cannot have both \"text\" and \"blob\""),
        };
        Ok(Self { uri: parts.uri, mime_type: parts.mime_type, body, meta: parts.meta })
    }
}
