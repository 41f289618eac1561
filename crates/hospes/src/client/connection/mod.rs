//! Connections: settings, establishment, and state.

pub(crate) mod builder;
pub(crate) mod connect;
pub(crate) mod core;
pub(crate) mod handle;
mod health;
pub(crate) mod lenient_lists;
pub(crate) mod parked_calls;
mod root_watcher;
pub(crate) mod settings;
pub(crate) mod task_state;
