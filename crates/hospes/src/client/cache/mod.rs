//! Caches of responses and other knowledge about the server.

#[cfg(feature = "validate")]
pub(crate) mod output_schemas;
pub(crate) mod response_cache;
pub(crate) mod task_support;
