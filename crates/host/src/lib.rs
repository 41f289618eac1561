//! The MCP host: many servers, one person, one endpoint.

pub mod catalogue;
pub mod config;
