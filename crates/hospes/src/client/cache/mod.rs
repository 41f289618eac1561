//! Answers and other knowledge of the server that is kept between calls.

#[cfg(feature = "validate")]
pub(crate) mod output_schemas;
pub(crate) mod response_cache;
pub(crate) mod task_support;
