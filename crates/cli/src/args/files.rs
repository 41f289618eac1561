//! Arguments of the commands that read and write configurations and secrets.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use hospes_host::config::applications::{APPLICATIONS, Application};
use hospes_host::pins::Sha256Digest;

use super::values::{is_server_name, profile_name};
use crate::credentials::{CredentialsStore, KEPT_IN};

/// Options of `hospes import`.
#[derive(Debug, Args)]
#[command(after_help = IMPORT_HELP)]
pub(crate) struct ImportArgs {
    /// Applications and files to read [default: the files of all applications that are found]
    #[arg(value_name = "APP|FILE")]
    pub(crate) sources: Vec<String>,
    /// Application to read, as above. May be repeated
    #[arg(long, value_name = "APP", value_parser = applications(), ignore_case = true)]
    pub(crate) from: Vec<String>,
    /// Server to import: NAME, or APP:NAME if applications have different ones. May be repeated [default: all of the
    /// user's servers that are new]
    #[arg(short, long = "server", value_name = "NAME")]
    pub(crate) servers: Vec<String>,
    /// Import only servers with one of these digests, which `--dry-run --json` prints. May be repeated [default: all]
    #[arg(long, value_name = "DIGEST", requires = "servers")]
    pub(crate) seen: Vec<Sha256Digest>,
    /// Import a server under another name: NAME=NEW, or APP:NAME=NEW. May be repeated
    #[arg(long, value_name = "OLD=NEW", value_parser = renaming)]
    pub(crate) rename: Vec<(String, String)>,
    /// Import the servers of the project's files too, which may come from others
    #[arg(long)]
    pub(crate) project: bool,
    /// Import without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Show what would be imported, and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Configuration file to add the servers to [default: config.toml in the configuration folder]
    #[arg(short, long, value_name = "FILE", env = "HOSPES_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Location of the key that encrypts the secrets
    #[arg(long, value_enum, value_name = "WHERE", default_value_t, env = KEPT_IN, hide_env = true)]
    pub(crate) credentials_store: CredentialsStore,
}

const IMPORT_HELP: &str = "\
The files of the applications are only read. Tokens and passwords are stored encrypted; \
the configuration refers to them as ${secret:NAME}.

  hospes import                                  all that is found; asks first
  hospes import --dry-run cursor                 what Cursor has
  hospes import --yes --server cursor:github     the one that Cursor has
  hospes import --yes --rename github=github2    under another name
  hospes import --yes ./mcp.json                 a file";

/// Options of `hospes connect`.
#[derive(Clone, Debug, Args)]
#[command(after_help = CONNECT_HELP)]
pub(crate) struct ConnectApplicationArgs {
    /// Application to connect [default: list the applications that are found, with their state]
    #[arg(value_name = "APP", value_parser = applications(), ignore_case = true, hide_possible_values = true)]
    pub(crate) application: Option<String>,
    /// Add the entry to the application's file in this folder, instead of the user's file
    #[arg(long, requires = "application")]
    pub(crate) project: bool,
    /// Give the application the servers and tools of this profile only
    #[arg(long, value_name = "NAME", requires = "application", value_parser = profile_name, add = crate::completion::profiles())]
    pub(crate) profile: Option<String>,
    /// Write the URL of the endpoint instead of a command. If the endpoint asks for a token, the application gets one of
    /// its own, which `disconnect` revokes
    #[arg(long, requires = "application")]
    pub(crate) http: bool,
    /// Print the change as a diff, and change nothing
    #[arg(long, requires = "application")]
    pub(crate) dry_run: bool,
    /// Make only the change with this digest, which `--dry-run --json` prints
    #[arg(long, value_name = "DIGEST", requires = "application", conflicts_with_all = ["dry_run", "project"])]
    pub(crate) seen: Option<Sha256Digest>,
}

/// Options of `hospes disconnect`.
#[derive(Debug, Args)]
pub(crate) struct DisconnectArgs {
    /// Application to disconnect
    #[arg(value_name = "APP", value_parser = applications(), ignore_case = true, hide_possible_values = true)]
    pub(crate) application: String,
    /// Remove the entry from the application's file in this folder, instead of the user's file
    #[arg(long)]
    pub(crate) project: bool,
}

const CONNECT_HELP: &str = "\
One entry is inserted; everything else of the file stays as it is. `hospes disconnect` removes it again.

  hospes connect                         the applications and their state
  hospes connect --dry-run cursor        what would be changed
  hospes connect cursor                  adds the entry to the user's file
  hospes connect cursor --profile work   the servers of one profile";

/// Options of `hospes export`.
#[derive(Debug, Args)]
#[command(after_help = EXPORT_HELP)]
pub(crate) struct ExportArgs {
    /// Servers to export [default: all]
    #[arg(value_name = "SERVER")]
    pub(crate) servers: Vec<String>,
    /// Application in whose form the servers are written
    #[arg(short, long, value_name = "APP", value_parser = applications(), ignore_case = true)]
    pub(crate) format: String,
    /// New file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write the values of secrets, instead of references to variables
    #[arg(long)]
    pub(crate) with_secrets: bool,
    /// Configuration file to export. May be repeated [default: config.toml in the configuration folder]
    #[arg(short, long = "config", value_name = "FILE", env = "HOSPES_CONFIG")]
    pub(crate) config: Vec<PathBuf>,
}

const EXPORT_HELP: &str = "\
A secret becomes a reference to a variable in the form of the application, or <NAME> if the application has none.

  hospes export --format cursor                            all servers
  hospes export --format codex github --output new.toml    one server";

/// Subcommands of `hospes secret`.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Store a secret; its value is read from the terminal without showing it, or from standard input
    Set(SecretSetArgs),
    /// List the names of the secrets and the servers that use them
    List(SecretListArgs),
    /// Delete a secret
    Remove(SecretRemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SecretSetArgs {
    /// Name; the configuration refers to it as ${secret:NAME}
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Location of the key that encrypts the secrets
    #[arg(long, value_enum, value_name = "WHERE", default_value_t, env = KEPT_IN, hide_env = true)]
    pub(crate) credentials_store: CredentialsStore,
}

#[derive(Debug, Args)]
pub(crate) struct SecretListArgs {
    /// Configuration file whose servers use the secrets. May be repeated
    #[arg(short, long = "config", value_name = "FILE", env = "HOSPES_CONFIG")]
    pub(crate) config: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SecretRemoveArgs {
    /// Name of the secret
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Reads a pair of names.
fn renaming(text: &str) -> Result<(String, String), &'static str> {
    // A name in a file of an application may have `=`; the new one has none.
    let names = text.rsplit_once('=').filter(|(old, new)| !old.is_empty() && is_server_name(new));
    let names = names.map(|(old, new)| (old.to_owned(), new.to_owned()));
    names.ok_or("expected OLD=NEW, where NEW has up to 64 letters, digits, `-`, `_` or `.`")
}

/// Returns the parser for an application: its id, or its shown name. The result is the id.
fn applications() -> impl TypedValueParser<Value = String> {
    let value = |one: &Application| PossibleValue::new(one.id).alias(one.name);
    let values = PossibleValuesParser::new(APPLICATIONS.iter().map(value));
    values.map(|word| Application::find(&word).map_or(word, |one| one.id.to_owned()))
}
