//! Contents of resources, and the types that handlers return them in.

use std::borrow::Cow;
use std::error::Error as StdError;

use bytes::Bytes;
use hospes_model::{ReadResourceResult, ResourceBody, ResourceContents};
use serde::Serialize;

use crate::error::Error;
use crate::server::result::Json;

/// Return type of resource handlers: text, bytes, [`Json`], or complete contents.
///
/// `None`, and no contents at all, mean that there is no such resource (RES-22).
#[diagnostic::on_unimplemented(
    message = "a resource cannot be read as `{Self}`",
    label = "not a resource's contents",
    note = "return text (`String`), bytes (`Vec<u8>`), `Json<T>`, `ResourceContents` or a `Vec` of them, or an `Option` or a `Result` of one of these"
)]
pub trait IntoContents {
    /// The contents; what they leave unsaid is filled in from the resource that is read.
    ///
    /// # Errors
    /// The handler's own.
    fn into_contents(self) -> Result<Contents, Error>;
}

/// Contents of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents(ContentsKind);

#[derive(Clone, Debug, PartialEq)]
enum ContentsKind {
    /// One content of the URI that was read; with a media type if it is another than the resource's.
    One { body: ResourceBody, mime_type: Option<&'static str> },
    /// Complete contents from the handler.
    Whole(ReadResourceResult),
    /// No such resource.
    Nothing,
}

impl Contents {
    /// Contents for a resource that does not exist.
    pub(super) fn none() -> Self {
        Self(ContentsKind::Nothing)
    }

    fn text(text: impl Into<String>) -> Self {
        Self(ContentsKind::One { body: ResourceBody::Text(text.into()), mime_type: None })
    }

    fn bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self(ContentsKind::One { body: ResourceContents::bytes("", bytes).body, mime_type: None })
    }

    /// The result of reading `uri`; none if there is no such resource.
    pub(super) fn read(self, uri: &str, mime_type: Option<&str>) -> Option<ReadResourceResult> {
        match self.0 {
            ContentsKind::Nothing => None,
            ContentsKind::Whole(result) => (!result.contents.is_empty()).then_some(result),
            ContentsKind::One { body, mime_type: own } => {
                let usual = match &body {
                    ResourceBody::Text(_) => "text/plain",
                    ResourceBody::Blob(_) => "application/octet-stream",
                };
                // The listed type goes before the handler's, because clients have chosen by it.
                let mime_type = mime_type.or(own).unwrap_or(usual);
                let mut contents = ResourceContents::text(uri, "").with_mime_type(mime_type);
                contents.body = body;
                Some(ReadResourceResult::new(vec![contents]))
            }
        }
    }
}

impl IntoContents for Contents {
    fn into_contents(self) -> Result<Contents, Error> {
        Ok(self)
    }
}

macro_rules! text {
    ($($type:ty)*) => { $(
        impl IntoContents for $type {
            fn into_contents(self) -> Result<Contents, Error> {
                Ok(Contents::text(self))
            }
        }
    )* };
}

text! { String &'static str Box<str> Cow<'static, str> }

macro_rules! bytes {
    ($($type:ty)*) => { $(
        impl IntoContents for $type {
            fn into_contents(self) -> Result<Contents, Error> {
                Ok(Contents::bytes(self))
            }
        }
    )* };
}

bytes! { Vec<u8> Bytes &'static [u8] }

impl<T: Serialize> IntoContents for Json<T> {
    fn into_contents(self) -> Result<Contents, Error> {
        let text = serde_json::to_string(&self.0)?;
        Ok(Contents(ContentsKind::One {
            body: ResourceBody::Text(text),
            mime_type: Some("application/json"),
        }))
    }
}

impl IntoContents for ResourceContents {
    fn into_contents(self) -> Result<Contents, Error> {
        vec![self].into_contents()
    }
}

impl IntoContents for Vec<ResourceContents> {
    fn into_contents(self) -> Result<Contents, Error> {
        ReadResourceResult::new(self).into_contents()
    }
}

impl IntoContents for ReadResourceResult {
    fn into_contents(self) -> Result<Contents, Error> {
        Ok(Contents(ContentsKind::Whole(self)))
    }
}

impl<T: IntoContents> IntoContents for Option<T> {
    fn into_contents(self) -> Result<Contents, Error> {
        self.map_or(Ok(Contents(ContentsKind::Nothing)), IntoContents::into_contents)
    }
}

impl<T, E> IntoContents for Result<T, E>
where
    T: IntoContents,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    fn into_contents(self) -> Result<Contents, Error> {
        self.map_err(Error::new)?.into_contents()
    }
}
