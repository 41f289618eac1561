//! Calls without a transport.
