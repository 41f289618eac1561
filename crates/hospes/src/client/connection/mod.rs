//! A connection: its settings, how it is opened, and what is known of the server behind it.

pub(crate) mod builder;
pub(crate) mod connect;
pub(crate) mod core;
pub(crate) mod health;
pub(crate) mod settings;
