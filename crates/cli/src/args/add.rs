//! Arguments of the commands that add and remove servers.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hospes_host::pins::Sha256Digest;

use super::RegistryOptions;
use super::values::server_name;
use crate::completion;
use crate::credentials::{CredentialsStore, KEPT_IN};

/// Options of `hospes add`.
#[derive(Debug, Args)]
#[command(after_help = ADD_HELP)]
pub(crate) struct AddArgs {
    /// Server to add: its name in the registry, words to search for, a URL, a bundle, or a package such as
    /// npm:NAME@VERSION
    #[arg(value_name = "NAME", required_unless_present = "command")]
    pub(crate) server: Option<String>,
    /// Name of the server here [default: the last part of its full name]
    #[arg(long = "name", value_name = "NAME", value_parser = server_name)]
    pub(crate) local_name: Option<String>,
    /// Way to run it, if there are several: remote, mcpb, npm, pypi, oci, nuget, go or cargo
    #[arg(long, value_name = "TYPE")]
    pub(crate) package: Option<String>,
    /// Version of the registry entry or of the package [default: the latest]
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// SHA-256 that the bundle must have, 64 hexadecimal digits; needed for the URL of one
    #[arg(long, value_name = "HEX")]
    pub(crate) sha256: Option<String>,
    /// Run the package with npx or uvx, which download it when they have to, instead of installing it once
    #[arg(long)]
    pub(crate) no_install: bool,
    /// Sandbox of the server: none, or the one that is proposed for its kind (Linux)
    #[arg(long, value_enum, value_name = "SANDBOX", default_value_t)]
    pub(crate) sandbox: SandboxChoice,
    /// Answer to a question of the server. May be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Secret of the server, from a file, a variable, or standard input: NAME=@FILE, NAME=$VARIABLE or NAME=-. It is
    /// stored encrypted. May be repeated
    #[arg(long, value_name = "NAME=SOURCE")]
    pub(crate) secret: Vec<String>,
    /// Header of the requests to a server at a URL, from a file, a variable, or standard input: NAME=@FILE,
    /// NAME=$VARIABLE or NAME=-. It is stored encrypted. May be repeated
    #[arg(long, value_name = "NAME=SOURCE")]
    pub(crate) header: Vec<String>,
    /// Add and accept without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Show what would be added, and start and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) registry: RegistryOptions,
    /// Configuration file to add the server to [default: config.toml in the configuration folder]
    #[arg(short, long, value_name = "FILE", env = "HOSPES_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Location of the key that encrypts the secrets
    #[arg(long, value_enum, value_name = "WHERE", default_value_t, env = KEPT_IN, hide_env = true)]
    pub(crate) credentials_store: CredentialsStore,
    /// Command line of a server to add, after `--`
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["server", "package", "version", "set"])]
    pub(crate) command: Vec<String>,
}

/// Sandbox of a server that is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxChoice {
    /// No sandbox
    #[default]
    None,
    /// The proposed sandbox
    Suggested,
}

const ADD_HELP: &str = "\
The server is started once before anything is kept: you see what it offers, and it is added after your yes. \
A running host uses it at once.

  hospes add io.github.owner/server            a server of the registry
  hospes add airtable                          the best match in the registry
  hospes add https://example.com/mcp           a server at a URL
  hospes add npm:@scope/name@1.2.3             a package
  hospes add ./server.mcpb                     a bundle
  hospes add --name notes -- node server.js    a command";

/// Options of `hospes update`.
#[derive(Debug, Args)]
#[command(after_help = UPDATE_HELP)]
pub(crate) struct UpdateArgs {
    /// Server to update
    #[arg(value_name = "SERVER", add = completion::servers(), required_unless_present_any = ["all", "check", "auto"])]
    pub(crate) server: Option<String>,
    /// Update all servers that were added from a registry or an index of packages, one after the other
    #[arg(long, conflicts_with = "server")]
    pub(crate) all: bool,
    /// List what could be updated, and change nothing. Exits with 6 if something could be
    #[arg(long)]
    pub(crate) check: bool,
    /// Make the updates that `auto_update` allows in the configuration, without a question. Exits with 6 if others wait
    #[arg(long, conflicts_with_all = ["server", "all", "check", "rollback", "version", "package", "no_install", "set", "secret", "yes"])]
    pub(crate) auto: bool,
    /// Go back to the version before the last update
    #[arg(long, conflicts_with_all = ["all", "check", "version", "package", "set", "secret"], requires = "server")]
    pub(crate) rollback: bool,
    /// Version of the registry entry or package [default: the latest]
    #[arg(long, value_name = "VERSION", conflicts_with = "all")]
    pub(crate) version: Option<String>,
    /// Way to run it from now on [default: as before]
    #[arg(long, value_name = "TYPE", conflicts_with = "all")]
    pub(crate) package: Option<String>,
    /// Run the package with npx or uvx, which download it when they have to, instead of installing it once
    #[arg(long)]
    pub(crate) no_install: bool,
    /// Answer to a question of the server. May be repeated
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "all")]
    pub(crate) set: Vec<String>,
    /// Secret of the server, from a file, a variable, or standard input: NAME=@FILE, NAME=$VARIABLE or NAME=-
    #[arg(long, value_name = "NAME=SOURCE", conflicts_with = "all")]
    pub(crate) secret: Vec<String>,
    /// Update and accept without asking. Without it and without a terminal, nothing is installed or started
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) registry: RegistryOptions,
    /// Configuration file with the servers [default: config.toml in the configuration folder]
    #[arg(short, long, value_name = "FILE", env = "HOSPES_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Location of the key that encrypts the secrets
    #[arg(long, value_enum, value_name = "WHERE", default_value_t, env = KEPT_IN, hide_env = true)]
    pub(crate) credentials_store: CredentialsStore,
}

const UPDATE_HELP: &str = "\
The new version is installed beside the old one and started once, alone. You see what changes; nothing does before your \
yes. The old version stays for one step back.

  hospes update --check                what could be updated
  hospes update github                 the newest version
  hospes update github --rollback      the version before";

/// Options of `hospes remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Server to remove
    #[arg(value_name = "SERVER", add = completion::servers())]
    pub(crate) server: String,
    /// Remove without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Delete its files and secrets too, unless another server uses them
    #[arg(long)]
    pub(crate) purge: bool,
    /// Remove it only if the SHA-256 digest of the configuration file is still this one
    #[arg(long, value_name = "DIGEST")]
    pub(crate) seen: Option<Sha256Digest>,
    /// Configuration file to remove the server from [default: config.toml in the configuration folder]
    #[arg(short, long, value_name = "FILE", env = "HOSPES_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}
