//! Tests of the examples.

mod examples;
mod transports;
