//! JSON Schemas from third parties: limits on their size, and checks of values against them.

mod bounds;
#[cfg(feature = "validate")]
mod compile;
#[cfg(feature = "validate")]
mod composition;

pub(crate) use bounds::is_bounded;
pub use bounds::{MAX_SCHEMA_DEPTH, MAX_SUBSCHEMAS};
#[cfg(feature = "validate")]
pub use compile::check_against_schema;
#[cfg(feature = "validate")]
pub(crate) use compile::compile;
#[cfg(all(feature = "validate", feature = "server"))]
pub(crate) use compile::compile_with;
