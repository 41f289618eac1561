//! Tests of the public interface.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod archive;
mod launch;
mod manifest;
mod pack;
mod reference;
mod signature;
mod zip;
