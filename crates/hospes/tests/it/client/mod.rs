//! Servers that the tests script, and their clock.

pub(crate) mod clock;
pub(crate) mod fake_http;
pub(crate) mod log;
