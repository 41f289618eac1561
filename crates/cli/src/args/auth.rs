//! Options of `auth` and its subcommands.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::client::{ConnectArgs, EraArg};
use super::host::ConfigFileArgs;
use super::values::{profile_name, some_seconds};
use crate::completion;
use crate::credentials::{CredentialsStore, KEPT_IN};

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Sign in to a server in the browser
    Login(LoginArgs),
    /// List the servers you are signed in to
    Status,
    /// Revoke and delete the tokens for a server
    Logout(LogoutArgs),
    /// Repair the sign-in to a server: rediscover its authorization server, refresh the tokens, or sign in again
    Repair(LoginArgs),
    /// Print the client metadata document to publish at the URL that serves as the client id
    ClientMetadata(ClientMetadataArgs),
}

/// A server that can be signed in to, and how to reach it.
#[derive(Debug, Args)]
pub(crate) struct SignInServerArgs {
    /// The server: a URL, or an entry of the configuration that has one
    #[arg(add = completion::servers())]
    pub(crate) target: String,
    /// Profile whose secrets the server has: its account is another than the one of everybody
    #[arg(long, value_name = "NAME", value_parser = profile_name, add = completion::profiles())]
    pub(crate) profile: Option<String>,
    #[command(flatten)]
    pub(crate) files: ConfigFileArgs,
    /// Header for every request to the server: 'Name: value'. May be repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub(crate) headers: Vec<String>,
    /// Maximum time to connect, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = some_seconds, allow_negative_numbers = true)]
    pub(crate) connect_timeout: Duration,
}

impl SignInServerArgs {
    /// Returns the connection options for any server.
    pub(crate) fn reach(&self) -> ConnectArgs {
        let (files, headers) = (self.files.clone(), self.headers.clone());
        let connect_timeout = self.connect_timeout;
        ConnectArgs {
            files,
            headers,
            env: Vec::new(),
            cwd: None,
            era: EraArg::Auto,
            connect_timeout: Some(connect_timeout),
            roots: Vec::new(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    #[command(flatten)]
    pub(crate) site: SignInServerArgs,
    /// Print the sign-in URL and read the final redirect URL, instead of opening a browser
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Show a code to enter in a browser on any machine
    #[arg(long, conflicts_with = "no_browser")]
    pub(crate) device: bool,
    /// URL of this client's published metadata, used as the client id where supported
    #[arg(long, value_name = "URL", conflicts_with = "client_id")]
    pub(crate) metadata_url: Option<String>,
    /// Id of a client already registered with the authorization server
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Environment variable that holds that client's secret
    #[arg(long, value_name = "VARIABLE", requires = "client_id")]
    pub(crate) client_secret_env: Option<String>,
    /// Scope to request in addition to those that the server requires. May be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// Print the sign-in page as a line of JSON and open no browser, for the console of the host with this process id
    #[arg(long, value_name = "PID", hide = true, conflicts_with_all = ["no_browser", "device"])]
    pub(crate) for_host: Option<u32>,
    /// Location of the key that encrypts the tokens
    #[arg(long, value_enum, value_name = "WHERE", default_value_t, env = KEPT_IN, hide_env = true)]
    pub(crate) credentials_store: CredentialsStore,
}

#[derive(Debug, Args)]
pub(crate) struct ClientMetadataArgs {
    /// URL at which the document will be published: https, with a path
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Client name shown on the consent page
    #[arg(long, value_name = "NAME", default_value = "Hospes")]
    pub(crate) name: String,
    /// Redirect URI for browsers, if not on this machine. May be repeated
    #[arg(long = "redirect-uri", value_name = "URI")]
    pub(crate) redirect_uris: Vec<String>,
    /// Rejected: this program does not sign with a key
    #[arg(long, value_name = "URL", hide = true)]
    pub(crate) jwks_uri: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    #[command(flatten)]
    pub(crate) site: SignInServerArgs,
    /// Delete the account that a user of `hospes up` has connected there, by the name that `hospes auth status` shows
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
}
