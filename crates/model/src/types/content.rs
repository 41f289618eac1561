//! Content: what tools return, prompts say and models read.

use serde::{Deserialize, Serialize};

use crate::types::lenient::or_default;
use crate::types::tagged::{self, Tagged};
use crate::{Meta, RawJson};

open_enum! {
    /// Role of a speaker or of an audience.
    Role {
        /// The person, or the application in their name.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

/// Hints on how content is meant to be used; hints only (META-10).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Annotations {
    /// Intended audience.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub audience: Vec<Role>,
    /// Priority from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// Time of the last change, in ISO 8601 (from 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: super::ExtraMembers,
}

setters!(Annotations {
    set with_audience(audience: Vec<Role>);
    some with_priority(priority: f64);
    some with_last_modified(last_modified: String);
});

impl Annotations {
    /// No hints.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

open_enum! {
    /// Background that an icon is drawn for.
    IconTheme {
        /// A light one.
        Light = "light",
        /// A dark one.
        Dark = "dark",
    }
}

/// An icon (from 2025-11-25).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Icon {
    /// An `https:` or `data:` URI of the icon.
    pub src: String,
    /// Its media type, where the URI does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its sizes, as `48x48` or `any`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub sizes: Vec<String>,
    /// The background it is drawn for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<IconTheme>,
}

impl Icon {
    /// An icon at a URI.
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), mime_type: None, sizes: Vec::new(), theme: None }
    }
}

setters!(Icon {
    some with_mime_type(mime_type: String);
    set with_sizes(sizes: Vec<String>);
    some with_theme(theme: IconTheme);
});

/// Text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TextContent {
    /// The text itself.
    pub text: String,
    /// Hints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<Annotations>>,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl TextContent {
    /// Text without hints.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), annotations: None, meta: Meta::new() }
    }
}

setters!(TextContent {
    some with_annotations(annotations: Box<Annotations>);
    set with_meta(meta: Meta);
});

macro_rules! media {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        #[non_exhaustive]
        pub struct $name {
            /// The bytes in Base64.
            pub data: String,
            /// The media type.
            pub mime_type: String,
            /// Hints.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub annotations: Option<Box<Annotations>>,
            /// Metadata.
            #[serde(
                default,
                rename = "_meta",
                skip_serializing_if = "Meta::is_empty",
                deserialize_with = "or_default"
            )]
            pub meta: Meta,
        }

        impl $name {
            /// From bytes that are in Base64 already.
            pub fn new(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
                Self { data: data.into(), mime_type: mime_type.into(), annotations: None, meta: Meta::new() }
            }

            /// From the bytes themselves.
            pub fn from_bytes(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
                use base64::Engine as _;
                Self::new(base64::engine::general_purpose::STANDARD.encode(bytes), mime_type)
            }
        }

        setters!($name {
            some with_annotations(annotations: Box<Annotations>);
            set with_meta(meta: Meta);
        });
    };
}

media! {
    /// A picture.
    ImageContent
}
media! {
    /// A sound (from 2025-03-26).
    AudioContent
}

/// A resource's content, right here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EmbeddedResource {
    /// The content.
    pub resource: crate::ResourceContents,
    /// Hints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<Annotations>>,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl EmbeddedResource {
    /// A resource's content without hints.
    #[must_use]
    pub fn new(resource: crate::ResourceContents) -> Self {
        Self { resource, annotations: None, meta: Meta::new() }
    }
}

setters!(EmbeddedResource {
    some with_annotations(annotations: Box<Annotations>);
    set with_meta(meta: Meta);
});

/// A piece of what a tool returns or a prompt says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text.
    Text(TextContent),
    /// A picture.
    Image(ImageContent),
    /// A sound (from 2025-03-26).
    Audio(AudioContent),
    /// A resource, by its URI (from 2025-06-18).
    ResourceLink(Box<crate::Resource>),
    /// A resource's content.
    Resource(Box<EmbeddedResource>),
    /// A type that the specification does not define: the whole object as it came.
    Unknown(RawJson),
}

impl ContentBlock {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// A picture, from its bytes.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Image(ImageContent::from_bytes(bytes, mime_type))
    }

    /// A sound, from its bytes.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Audio(AudioContent::from_bytes(bytes, mime_type))
    }

    /// A resource, by its URI.
    #[must_use]
    pub fn link(resource: crate::Resource) -> Self {
        Self::ResourceLink(Box::new(resource))
    }

    /// A resource's content.
    #[must_use]
    pub fn embedded(contents: crate::ResourceContents) -> Self {
        Self::Resource(Box::new(EmbeddedResource::new(contents)))
    }

    /// The text of a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(content) => Some(&content.text),
            _ => None,
        }
    }
}

impl From<TextContent> for ContentBlock {
    fn from(content: TextContent) -> Self {
        Self::Text(content)
    }
}

impl From<ImageContent> for ContentBlock {
    fn from(content: ImageContent) -> Self {
        Self::Image(content)
    }
}

impl From<AudioContent> for ContentBlock {
    fn from(content: AudioContent) -> Self {
        Self::Audio(content)
    }
}

impl From<EmbeddedResource> for ContentBlock {
    fn from(content: EmbeddedResource) -> Self {
        Self::Resource(Box::new(content))
    }
}

impl From<&str> for ContentBlock {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for ContentBlock {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

tagged_enum!(ContentBlock {
    "text" => Text(TextContent),
    "image" => Image(ImageContent),
    "audio" => Audio(AudioContent),
    "resource_link" => ResourceLink(Box<crate::Resource>),
    "resource" => Resource(Box<EmbeddedResource>),
});

/// The texts among the blocks, one under the other.
pub(crate) fn joined_text<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut joined = String::new();
    for (index, text) in texts.enumerate() {
        if index > 0 {
            joined.push('\n');
        }
        joined.push_str(text);
    }
    joined
}
