#![doc = include_str!("format.md")]

mod accounts;
mod auth;
mod document;
mod error;
mod expand;
mod foreign;
mod load;
mod model;
mod models;
mod nearest;
mod own;
mod remote;
mod sandbox;
mod secret;
mod server;
mod spellings;
mod table;
mod words;
mod yaml;

#[cfg(test)]
mod tests;

pub use accounts::AccountsConfig;
pub use auth::{Allowed, AuthClient, AuthConfig, AuthKeys, AuthProvider, AuthSignIn, Dpop};
pub use error::{ConfigError, ConfigErrors, Place, Source, Warning};
use load::read_text;
pub use load::{Loader, MAX_FILE, MAX_SERVER_NAME};
pub use model::{
    AccountChoice, Builtin, Callers, Config, ConsoleConfig, EraChoice, Http, HttpClient, HttpFlavour,
    Rejected, ServerConfig, Stdio, TargetError, Timeouts, ToolFilter, Transport,
};
pub use models::ModelsConfig;
pub use nearest::nearest;
pub use own::{CONSOLE_FORM, HOST_FORM, ORIGIN_FORM, is_host, is_origin, parse_console, parse_listen};
pub use sandbox::Sandbox;
pub use secret::{Expanded, Secret, ServerUrl, redact_command, redact_url};
pub use words::{WordsError, split_command};
