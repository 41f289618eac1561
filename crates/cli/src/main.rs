//! Placeholder while the workspace is laid out.

#[allow(dead_code, reason = "the commands that take arguments are still to come")]
mod arguments;

fn main() {}
