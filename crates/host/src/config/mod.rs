#![doc = include_str!("format.md")]

mod accounts;
pub mod applications;
mod argument_check;
mod auth;
mod auto_update;
mod command_line;
pub mod connect;
mod console_team;
mod decision_source;
mod document;
mod error;
mod expand;
pub mod export;
mod export_value;
mod fleet;
mod foreign;
pub mod import;
mod keys;
mod load;
mod masked_text;
mod model;
mod models;
mod native;
mod nearest;
mod notify;
mod own_audit;
mod own_entry;
mod own_file;
mod own_profiles;
mod own_text;
mod partial;
mod pins;
mod placement;
mod profiles;
mod reference_values;
mod remote;
mod restart;
mod sandbox;
mod secret;
mod secret_finder;
mod secret_matcher;
mod secret_values;
mod server;
mod server_edit;
mod server_edit_values;
mod server_transport;
mod settings;
pub mod settings_text;
mod stdio_entry;
mod table;
mod telemetry;
mod text_file;
mod text_literal;
mod text_parts;
mod tool_filter;
mod yaml;

#[cfg(test)]
mod tests;

pub use accounts::{AccountsConfig, MAX_LINK_LIFETIME};
pub use argument_check::ArgumentCheck;
pub use auth::{AllowedUsers, AuthClient, AuthConfig, AuthKeys, AuthProvider, AuthSignIn, DpopRequirement};
pub use auto_update::AutoUpdate;
pub use command_line::{SplitCommandError, split_command};
pub use console_team::ConsoleTeamConfig;
pub use decision_source::DecisionSource;
pub use error::{ConfigError, ConfigErrors, ConfigSource, ConfigWarning, SettingPath};
pub use fleet::{ClientCertificate, FleetConfig};
pub use keys::config_reference;
pub use load::ConfigLoader;
pub use masked_text::{hide_literals, masked_change};
pub(crate) use model::server_label;
pub use model::{
    AllowedCallers, ConfigInput, ConsoleConfig, EraChoice, HostConfig, PackageOrigin, RejectedServer,
    ServerConfig, ServerTimeouts, SkippedServer,
};
pub use models::ModelsConfig;
pub use native::{
    CONSOLE_FORM, HOST_FORM, ORIGIN_FORM, is_host, is_origin, parse_console, parse_listen, parse_team_console,
};
pub use nearest::nearest;
pub use notify::{NotificationChannels, NotificationWebhook};
pub use own_audit::set_recorded_arguments;
pub use own_entry::{changed_keys, replace_server};
pub use own_file::{OwnFileError, add_servers, remove_server, servers_text};
pub use own_profiles::{OtherFileNames, remove_profile, set_profile};
pub use own_text::server_toml;
pub use pins::PinMode;
pub use placement::ServerPlacement;
pub use profiles::{
    MAX_PROFILE_NAME, MAX_PROFILES, PROFILE_NAME_FORM, ProfileConfig, is_profile_name, profile_hint,
};
pub use reference_values::{MAX_SECRET_NAME, is_secret_reference};
pub use restart::{
    BackoffPolicy, DEFAULT_FIRST_DELAY, DEFAULT_HEALTHY_AFTER, DEFAULT_MAX_DELAY, DEFAULT_QUARANTINE_AFTER,
    DEFAULT_QUARANTINE_DELAY,
};
pub use secret::{ExpandedText, Secret, ServerUrl, join_command, redact_command, redact_url, redact_words};
pub use secret_values::SecretValues;
pub use server::MAX_SERVER_NAME;
pub use server_edit::{EditedServer, ServerEdit, ServerEditError};
pub use server_edit_values::{ArgumentEdit, FilesEdit, SandboxEdit, ToolFilterEdit, ValueEdit};
pub use server_transport::{
    AccountChoice, BuiltinTransport, HttpFlavour, HttpTransport, ParseTargetError, PreregisteredClient,
    SandboxConfig, ServerTransport, StdioTransport,
};
pub(crate) use server_transport::{is_exposed, is_loopback};
pub use settings::{
    DEFAULT_CALL_WAIT, DEFAULT_CONNECT_TIMEOUT, DEFAULT_FIRST_START_WAIT, DEFAULT_GREETING_WAIT,
    DEFAULT_HEALTH_CHECK, DEFAULT_IDLE_AFTER, DEFAULT_MAX_CONNECTIONS, DEFAULT_MAX_VIEWS, DEFAULT_PAGE_SIZE,
    DEFAULT_START_WAIT, DEFAULT_STARTING_PER_CORE, HostSettings,
};
pub use telemetry::TelemetryConfig;
pub use text_file::MAX_FILE;
pub use text_parts::{TextPart, join_parts, text_parts};
pub use tool_filter::ToolFilter;
