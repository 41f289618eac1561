//! Tests of the messages through their public interface.

mod envelope;
mod schema;
