//! Calls to the server: their builder, lists, subscriptions, and the client as a service.

mod forwarded_params;
pub(crate) mod listen;
pub(crate) mod listing;
pub(crate) mod request;
pub(crate) mod service;
pub(crate) mod trace_context;
