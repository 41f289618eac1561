//! Content blocks of tool results, prompts and sampling messages.

use serde::{Deserialize, Serialize};

use crate::types::lenient::or_default;
use crate::types::tagged::{self, Tagged};
use crate::{Meta, RawJson};

open_enum! {
    /// Role of a speaker or of an audience.
    Role {
        /// The user, or the application on the user's behalf.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

/// Annotations of content: hints only, without guarantee (META-10).
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
    /// Creates annotations without hints.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

open_enum! {
    /// Background for which an icon is drawn.
    IconTheme {
        /// Light background.
        Light = "light",
        /// Dark background.
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
    /// Media type, which overrides that of the URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Sizes, such as `48x48` or `any`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub sizes: Vec<String>,
    /// Background for which the icon is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<IconTheme>,
}

impl Icon {
    /// Creates an icon with this URI.
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), mime_type: None, sizes: Vec::new(), theme: None }
    }
}

setters!(Icon {
    some with_mime_type(mime_type: String);
    set with_sizes(sizes: Vec<String>);
    some with_theme(theme: IconTheme);
});

/// Text content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TextContent {
    /// The text.
    pub text: String,
    /// Hints on how to use the content.
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
    /// Creates text content without annotations.
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
            /// The bytes, encoded in Base64.
            pub data: String,
            /// Media type of the bytes.
            pub mime_type: String,
            /// Hints on how to use the content.
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
            /// Creates content from bytes that are already encoded in Base64.
            pub fn new(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
                Self { data: data.into(), mime_type: mime_type.into(), annotations: None, meta: Meta::new() }
            }

            /// Creates content from bytes, which are encoded in Base64.
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
    /// Image content.
    ImageContent
}
media! {
    /// Audio content (from 2025-03-26).
    AudioContent
}

/// The content of a resource, embedded in a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EmbeddedResource {
    /// Content of the resource.
    pub resource: crate::ResourceContents,
    /// Hints on how to use the content.
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
    /// Creates an embedded resource without annotations.
    #[must_use]
    pub fn new(resource: crate::ResourceContents) -> Self {
        Self { resource, annotations: None, meta: Meta::new() }
    }
}

setters!(EmbeddedResource {
    some with_annotations(annotations: Box<Annotations>);
    set with_meta(meta: Meta);
});

/// Content block of a tool result or a prompt message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text.
    Text(TextContent),
    /// Image.
    Image(ImageContent),
    /// Audio (from 2025-03-26).
    Audio(AudioContent),
    /// Link to a resource (from 2025-06-18).
    ResourceLink(Box<crate::Resource>),
    /// Embedded content of a resource.
    Resource(Box<EmbeddedResource>),
    /// A block of a type that the specification does not define: the whole object, unchanged.
    Unknown(RawJson),
}

impl ContentBlock {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// Creates an image block from the bytes of the image.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Image(ImageContent::from_bytes(bytes, mime_type))
    }

    /// Creates an audio block from the bytes of the audio.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Audio(AudioContent::from_bytes(bytes, mime_type))
    }

    /// Creates a link to a resource.
    #[must_use]
    pub fn link(resource: crate::Resource) -> Self {
        Self::ResourceLink(Box::new(resource))
    }

    /// Creates a block with the content of a resource.
    #[must_use]
    pub fn embedded(contents: crate::ResourceContents) -> Self {
        Self::Resource(Box::new(EmbeddedResource::new(contents)))
    }

    /// Returns the text if this is a text block.
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

/// Joins texts with line breaks.
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
