//! Tests of the public interface.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod archive;
mod pack;
mod zip;
