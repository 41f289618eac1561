//! Lints of results.
