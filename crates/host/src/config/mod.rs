#![doc = include_str!("format.md")]

mod accounts;
mod auth;
mod command_line;
mod document;
mod error;
mod expand;
mod foreign;
mod keys;
mod load;
mod model;
mod models;
mod native;
mod nearest;
mod remote;
mod sandbox;
mod secret;
mod server;
mod table;
mod yaml;

#[cfg(test)]
mod tests;

pub use accounts::AccountsConfig;
pub use auth::{AllowedUsers, AuthClient, AuthConfig, AuthKeys, AuthProvider, AuthSignIn, DpopRequirement};
pub use command_line::{SplitCommandError, split_command};
pub use error::{ConfigError, ConfigErrors, ConfigSource, ConfigWarning, SettingPath};
pub use keys::config_reference;
use load::read_text;
pub use load::{ConfigLoader, MAX_FILE, MAX_SERVER_NAME};
pub use model::{
    AccountChoice, AllowedCallers, BuiltinTransport, ConsoleConfig, EraChoice, HostConfig, HttpFlavour,
    HttpTransport, ParseTargetError, PreregisteredClient, RejectedServer, ServerConfig, ServerTimeouts,
    ServerTransport, StdioTransport, ToolFilter,
};
pub use models::ModelsConfig;
pub use native::{CONSOLE_FORM, HOST_FORM, ORIGIN_FORM, is_host, is_origin, parse_console, parse_listen};
pub use nearest::nearest;
pub use sandbox::SandboxConfig;
pub use secret::{ExpandedText, Secret, ServerUrl, redact_command, redact_url};
