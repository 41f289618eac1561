//! Options of `serve`, and the built-in servers with arguments of their own.

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, FromArgMatches, Subcommand};
use hospes_servers::BUILTINS;

#[derive(Debug, Args)]
#[command(subcommand_value_name = "NAME", subcommand_help_heading = "Built-in servers")]
#[command(after_help = SERVE_HELP)]
pub(crate) struct ServeArgs {
    #[command(subcommand)]
    pub(crate) server: BuiltinCommand,
    /// Serve over HTTP at this address instead of stdio: ADDRESS:PORT, or a port alone
    #[arg(long, value_name = "ADDR", global = true)]
    pub(crate) http: Option<String>,
    /// A name of this machine, besides loopback, that requests may be addressed to. May be repeated
    #[arg(long = "allow-host", value_name = "NAME", global = true)]
    pub(crate) allow_host: Vec<String>,
    /// Serve every caller that reaches the address, without authentication. Needed beyond loopback
    #[arg(long = "no-auth", requires = "http", global = true)]
    pub(crate) no_auth: bool,
}

/// A built-in server and its arguments.
#[derive(Clone, Debug)]
pub(crate) struct BuiltinCommand {
    pub(crate) name: String,
    pub(crate) options: ArgMatches,
}

impl FromArgMatches for BuiltinCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::new(ErrorKind::MissingSubcommand);
        let (name, options) = matches.subcommand().ok_or_else(missing)?;
        Ok(Self { name: name.to_owned(), options: options.clone() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

// The servers define their own arguments.
impl Subcommand for BuiltinCommand {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        let servers = BUILTINS.iter().map(hospes_servers::BuiltinServer::command);
        // Unless it is disabled, `help` is listed as if it were one of the servers.
        command.subcommands(servers).subcommand_required(true).disable_help_subcommand(true)
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        hospes_servers::builtin(name).is_some()
    }
}

const SERVE_HELP: &str = "\
Each server lists its options: hospes serve files --help

  hospes serve files --write ~/notes  over stdio
  hospes serve time --http 8080       over HTTP, at http://127.0.0.1:8080/mcp

The same server as an entry of a configuration:

  [servers.notes]
  builtin = \"files\"
  args = [\"--write\", \"/home/me/notes\"]";
