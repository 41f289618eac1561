//! The attribute macros of the `hospes` crate.
