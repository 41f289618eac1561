//! Options of `hospes state`.

use clap::{Args, Subcommand, ValueEnum};

use super::ConfigFileArgs;

const MIGRATE_HELP: &str = "\
Approvals, permissions, pins, budgets, tasks, keys, console sessions and the records of sign-ins move. The files stay \
as they are, and so does the audit log, which each node has for itself.

End the host first. Write [fleet] into its configuration, with an empty database, then:
  hospes state migrate --dry-run
  hospes state migrate";

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Move the state of this host into the PostgreSQL database of [fleet]
    Migrate(StateMigrateArgs),
}

#[derive(Debug, Args)]
#[command(after_help = MIGRATE_HELP)]
pub(crate) struct StateMigrateArgs {
    /// Source of the state: the files of this host
    #[arg(long, value_name = "ENGINE", default_value = "sqlite")]
    pub(crate) from: StateSource,
    /// Target of the state: the database that `postgres` of [fleet] names
    #[arg(long, value_name = "ENGINE", default_value = "postgres")]
    pub(crate) to: StateTarget,
    /// Check everything and show what would move, without changing anything
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Leave out records that cannot be decrypted, instead of stopping
    #[arg(long)]
    pub(crate) skip_unreadable: bool,
    #[command(flatten)]
    pub(crate) files: ConfigFileArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StateSource {
    Sqlite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StateTarget {
    #[value(alias = "postgresql")]
    Postgres,
}
