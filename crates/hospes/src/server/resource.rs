//! Resources and resource templates, and their registration.

use std::fmt;

use bytes::Bytes;
use hospes_model::{Annotations, Icon, Meta, ReadResourceResult, RpcError};
use serde::Serialize;
use serde_json::Value;

use crate::server::call_parts::DeclaredArguments;
use crate::server::content_checks::{essence, is_media_type, is_uri};
use crate::server::contents::{Contents, IntoContents};
use crate::server::entries::{ErasedHandler, ResourceEntry, TemplateEntry};
use crate::server::error::RegisterError;
use crate::server::handler::{Handler, declared_arguments, erase_handler};
use crate::server::schema;
use crate::server::template::UriTemplate;

macro_rules! described {
    ($type:ident) => {
        impl $type {
            /// The name; without it, the URI is the name.
            pub fn name(mut self, name: impl Into<String>) -> Self {
                self.listed.name = name.into();
                self
            }

            /// The name to show.
            pub fn title(mut self, title: impl Into<String>) -> Self {
                self.listed.title = Some(title.into());
                self
            }

            /// Sets the description.
            pub fn description(mut self, description: impl Into<String>) -> Self {
                self.listed.description = Some(description.into());
                self
            }

            /// The media type, of all that is read there; to be left out where it varies.
            pub fn mime(mut self, mime_type: impl Into<String>) -> Self {
                self.listed.mime_type = Some(mime_type.into());
                self
            }

            /// Hints on its use.
            pub fn annotations(mut self, annotations: Annotations) -> Self {
                self.listed.annotations = Some(Box::new(annotations));
                self
            }

            /// Pictures of it.
            pub fn icons(mut self, icons: impl IntoIterator<Item = Icon>) -> Self {
                self.listed.icons = icons.into_iter().collect();
                self
            }

            /// Metadata, sent along in lists.
            pub fn meta(mut self, meta: Meta) -> Self {
                self.listed.meta = meta;
                self
            }
        }

        impl From<&str> for $type {
            fn from(uri: &str) -> Self {
                Self::new(uri)
            }
        }

        impl From<String> for $type {
            fn from(uri: String) -> Self {
                Self::new(uri)
            }
        }
    };
}

/// Description of a resource for registration. A plain URI is enough.
#[derive(Clone, Debug)]
#[must_use]
pub struct Resource {
    pub(crate) listed: hospes_model::Resource,
}

impl Resource {
    /// The resource at `uri`.
    pub fn new(uri: impl Into<String>) -> Self {
        let uri = uri.into();
        Self { listed: hospes_model::Resource::new(uri.clone(), uri) }
    }

    /// Its size in bytes; known of itself where the content is given instead of a handler.
    pub fn size(mut self, bytes: u64) -> Self {
        self.listed.size = Some(bytes);
        self
    }
}

described!(Resource);

/// Description of a resource template for registration. A plain URI template (RFC 6570) is enough.
#[derive(Clone, Debug)]
#[must_use]
pub struct Template {
    pub(crate) listed: hospes_model::ResourceTemplate,
}

impl Template {
    /// The resources at the URIs that `template` makes.
    pub fn new(template: impl Into<String>) -> Self {
        let template = template.into();
        Self { listed: hospes_model::ResourceTemplate::new(template.clone(), template) }
    }
}

described!(Template);

/// Source of a resource's contents: a handler, or the contents themselves (text, or bytes).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source of resource contents",
    label = "neither a handler nor contents",
    note = "give text, bytes, or an async function that returns something that implements `IntoContents`"
)]
pub trait IntoResourceReader<Marker>: Sized {
    /// Converts into a reader.
    #[doc(hidden)]
    fn into_reader(self) -> ResourceReader;
}

/// A way to read a resource.
#[doc(hidden)]
pub struct ResourceReader {
    run: ErasedHandler<Contents>,
    declared: DeclaredArguments,
    size: Option<u64>,
}

impl fmt::Debug for ResourceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResourceReader")
    }
}

/// Marks contents that are given as they are.
#[doc(hidden)]
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "there is no value of it")]
pub enum FixedContents {}

impl<H, P> IntoResourceReader<(P,)> for H
where
    H: Handler<P>,
    H::Output: IntoContents,
{
    fn into_reader(self) -> ResourceReader {
        ResourceReader {
            declared: declared_arguments::<H, P>(),
            run: erase_handler(self, <H::Output as IntoContents>::into_contents),
            size: None,
        }
    }
}

macro_rules! fixed {
    ($($type:ty)*) => { $(
        impl IntoResourceReader<FixedContents> for $type {
            fn into_reader(self) -> ResourceReader {
                let size = u64::try_from(self.len()).ok();
                // What these types are can always be content.
                let contents = self.into_contents().unwrap_or(Contents::none());
                let run: ErasedHandler<Contents> = std::sync::Arc::new(move |_| {
                    let contents = contents.clone();
                    Ok(Box::pin(std::future::ready(Ok(contents))))
                });
                ResourceReader { run, declared: DeclaredArguments::Nothing, size }
            }
        }
    )* };
}

fixed! { String &'static str Vec<u8> Bytes &'static [u8] }

impl ResourceEntry {
    pub(crate) fn new<M>(
        resource: Resource,
        source: impl IntoResourceReader<M>,
    ) -> Result<Self, RegisterError> {
        let Resource { mut listed } = resource;
        if !is_uri(&listed.uri) {
            return Err(RegisterError::BadUri { uri: listed.uri });
        }
        listed.meta.check_keys()?;
        check_media_type(&listed.uri, listed.mime_type.as_deref())?;
        let ResourceReader { run, declared, size } = source.into_reader();
        match declared {
            DeclaredArguments::Twice => return Err(RegisterError::ArgumentsTwice { name: listed.uri }),
            DeclaredArguments::Typed { schema, .. } => {
                if let Some(variable) = required_variables(&schema).into_iter().next() {
                    return Err(RegisterError::NoSuchVariable { template: listed.uri, variable });
                }
            }
            DeclaredArguments::Nothing | DeclaredArguments::Raw => {}
        }
        listed.size = listed.size.or(size);
        Ok(Self { listed, run })
    }
}

impl TemplateEntry {
    pub(crate) fn new<M>(
        template: Template,
        source: impl IntoResourceReader<M>,
    ) -> Result<Self, RegisterError> {
        let Template { listed } = template;
        let template = UriTemplate::parse(listed.uri_template.as_str())?;
        listed.meta.check_keys()?;
        check_media_type(&listed.uri_template, listed.mime_type.as_deref())?;
        let ResourceReader { run, declared, .. } = source.into_reader();
        match declared {
            DeclaredArguments::Twice => {
                return Err(RegisterError::ArgumentsTwice { name: listed.uri_template });
            }
            DeclaredArguments::Typed { schema, .. } => {
                let missing = |variable: &String| template.names().all(|name| name != variable);
                if let Some(variable) = required_variables(&schema).into_iter().find(missing) {
                    return Err(RegisterError::NoSuchVariable { template: listed.uri_template, variable });
                }
            }
            DeclaredArguments::Nothing | DeclaredArguments::Raw => {}
        }
        Ok(Self { listed, template, run })
    }
}

/// The result of a read, or that there is no such resource.
///
/// # Errors
/// Also `-32603` where the listed media type is not that of the contents at `uri` (RES-09): clients choose by it.
pub(crate) fn complete_contents(
    contents: Contents,
    uri: &str,
    mime_type: Option<&str>,
) -> Result<ReadResourceResult, RpcError> {
    let result = contents.read(uri, mime_type).ok_or_else(|| not_found(uri))?;
    let same = |one: &str, other: &str| essence(one).eq_ignore_ascii_case(essence(other));
    // A read may also return contents at other URIs (RES-06), whose types are their own.
    for contents in result.contents.iter().filter(|contents| contents.uri == uri) {
        if let (Some(listed), Some(read)) = (mime_type, contents.mime_type.as_deref())
            && !same(listed, read)
        {
            tracing::error!(uri, listed, read, "resource was read with a different media type than listed");
            let shown = super::mistakes::shortened(uri, 200);
            return Err(RpcError::internal(format!("{shown} is listed as {listed}, but was read as {read}")));
        }
    }
    Ok(result)
}

fn check_media_type(of: &str, mime_type: Option<&str>) -> Result<(), RegisterError> {
    match mime_type {
        Some(text) if !is_media_type(text) => {
            Err(RegisterError::BadMediaType { of: of.to_owned(), mime_type: text.to_owned() })
        }
        _ => Ok(()),
    }
}

/// `-32602` with the URI in `data` (RES-20); older revisions have a code of their own.
pub(crate) fn not_found(uri: &str) -> RpcError {
    #[derive(Serialize)]
    struct NotFoundData<'a> {
        uri: &'a str,
    }
    let shown = super::mistakes::shortened(uri, 200);
    RpcError::invalid_params(format!("resource not found: {shown}")).with_data(&NotFoundData { uri })
}

/// The variables without which a handler cannot run.
fn required_variables(schema: &Value) -> Vec<String> {
    schema::build_input_schema(schema.clone())
        .ok()
        .and_then(|shaped| {
            let all = shaped.schema.get("required")?.as_array()?.iter();
            Some(all.filter_map(Value::as_str).map(str::to_owned).collect())
        })
        .unwrap_or_default()
}
