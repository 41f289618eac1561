//! Options of `hospes profile`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Subcommands of `hospes profile`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// List the profiles and the servers that each shows
    List(ProfileListArgs),
    /// Show one profile: its endpoint, servers, filters and secrets
    Show(ProfileShowArgs),
}

/// Options of `hospes profile list`.
#[derive(Debug, Args)]
pub(crate) struct ProfileListArgs {
    /// Configuration file to read. May be repeated [default: config.toml in the configuration folder]
    #[arg(short, long = "config", value_name = "FILE", env = "HOSPES_CONFIG")]
    pub(crate) config: Vec<PathBuf>,
}

/// Options of `hospes profile show`.
#[derive(Debug, Args)]
pub(crate) struct ProfileShowArgs {
    /// Name of the profile
    #[arg(value_name = "NAME", add = crate::completion::profiles())]
    pub(crate) name: String,
    /// Configuration file to read. May be repeated [default: config.toml in the configuration folder]
    #[arg(short, long = "config", value_name = "FILE", env = "HOSPES_CONFIG")]
    pub(crate) config: Vec<PathBuf>,
}
