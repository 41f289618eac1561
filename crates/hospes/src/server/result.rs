//! Return types of tool handlers.

use std::borrow::Cow;
use std::error::Error as StdError;

use hospes_model::{
    AudioContent, CallToolResult, ContentBlock, EmbeddedResource, ImageContent, RawJson, Resource,
    ResourceContents, TextContent,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Error;
use crate::server::schema;

/// Return type of tool handlers.
///
/// Strings, numbers and booleans become text; `()` becomes an empty result; [`Json`] becomes structured content, with
/// the schema of its type as the tool's output schema; [`ContentBlock`]s stay what they are. An `Err` with an
/// [`RpcError`](crate::model::RpcError) in its chain becomes that protocol error, any other `Err` becomes a result with
/// `isError` that the model reads.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "not a tool's result",
    note = "return text, a number, `()`, `Json<T>` for a type with `Serialize` and `JsonSchema`, `ContentBlock`, `Vec<ContentBlock>`, `CallToolResult`, or a `Result` of one of them"
)]
pub trait IntoToolResult {
    /// The result, or the error that takes its place.
    ///
    /// # Errors
    /// The handler's own.
    fn into_tool_result(self) -> Result<CallToolResult, Error>;

    /// The JSON Schema of the structured content, for types that have one.
    #[must_use]
    fn output_schema() -> Option<RawJson> {
        None
    }
}

/// A value as JSON: structured content of a tool, or a resource's contents.
///
/// Up to 2025-11-25 structured content is an object. Any other value, such as a `Vec<T>` or a number, is sent to
/// clients of these revisions as `{ "result": … }`, with an output schema to match. From 2026-07-28 on it is sent
/// unchanged. [`CallToolResult::parse`](crate::model::CallToolResult::parse) reads both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built by handlers")]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> Result<CallToolResult, Error> {
        Ok(CallToolResult::structured(&self.0)?)
    }

    fn output_schema() -> Option<RawJson> {
        Some(schema::output_schema_of::<T>().into())
    }
}

impl<T, E> IntoToolResult for Result<T, E>
where
    T: IntoToolResult,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    fn into_tool_result(self) -> Result<CallToolResult, Error> {
        match self {
            Ok(value) => value.into_tool_result(),
            Err(error) => Err(Error::new(error)),
        }
    }

    fn output_schema() -> Option<RawJson> {
        T::output_schema()
    }
}

impl IntoToolResult for CallToolResult {
    fn into_tool_result(self) -> Result<CallToolResult, Error> {
        Ok(self)
    }
}

impl IntoToolResult for () {
    fn into_tool_result(self) -> Result<CallToolResult, Error> {
        Ok(CallToolResult::default())
    }
}

impl<B: Into<ContentBlock>> IntoToolResult for Vec<B> {
    fn into_tool_result(self) -> Result<CallToolResult, Error> {
        Ok(CallToolResult::new(self.into_iter().map(Into::into).collect::<Vec<_>>()))
    }
}

impl<B: Into<ContentBlock>, const N: usize> IntoToolResult for [B; N] {
    fn into_tool_result(self) -> Result<CallToolResult, Error> {
        Ok(CallToolResult::new(self.into_iter().map(Into::into).collect::<Vec<_>>()))
    }
}

macro_rules! blocks {
    ($($type:ty)*) => { $(
        impl IntoToolResult for $type {
            fn into_tool_result(self) -> Result<CallToolResult, Error> {
                Ok(CallToolResult::new(vec![ContentBlock::from(self)]))
            }
        }
    )* };
}

blocks! { ContentBlock TextContent ImageContent AudioContent EmbeddedResource String &'static str }

impl IntoToolResult for Cow<'static, str> {
    fn into_tool_result(self) -> Result<CallToolResult, Error> {
        Ok(CallToolResult::text(self))
    }
}

impl IntoToolResult for Box<str> {
    fn into_tool_result(self) -> Result<CallToolResult, Error> {
        Ok(CallToolResult::text(self))
    }
}

impl IntoToolResult for Resource {
    fn into_tool_result(self) -> Result<CallToolResult, Error> {
        Ok(CallToolResult::new(vec![ContentBlock::link(self)]))
    }
}

impl IntoToolResult for ResourceContents {
    fn into_tool_result(self) -> Result<CallToolResult, Error> {
        Ok(CallToolResult::new(vec![ContentBlock::embedded(self)]))
    }
}

macro_rules! displayed {
    ($($type:ty)*) => { $(
        impl IntoToolResult for $type {
            fn into_tool_result(self) -> Result<CallToolResult, Error> {
                Ok(CallToolResult::text(self.to_string()))
            }
        }
    )* };
}

displayed! { bool char i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 }
