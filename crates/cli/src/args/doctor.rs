//! Options of `doctor`.

use std::time::Duration;

use clap::Args;

use super::host::ConfigFileArgs;
use super::values::some_seconds;

const DOCTOR_HELP: &str = "\
The checks follow the way from the application to the tools; the first fault ends it. Nothing is changed, and no tool is
called. Programs of servers are started, and ended again.

  hospes doctor                                  the host, the connected applications and all servers
  hospes doctor github                           one server of the configuration
  hospes doctor cursor                           an application
  hospes doctor https://mcp.example.com/mcp      a server that is not configured

Exit status: 0 if all is well or there are warnings only, 1 if there is a fault.";

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct DoctorArgs {
    /// Server, application or URL to check [default: everything]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) files: ConfigFileArgs,
    /// Show every check, not only those that have found something
    #[arg(short = 'a', long = "all")]
    pub(crate) verbose_report: bool,
    /// List the checks and their codes, and make none
    #[arg(long)]
    pub(crate) codes: bool,
    /// Maximum time to start and connect to a server, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = some_seconds, allow_negative_numbers = true)]
    pub(crate) connect_timeout: Duration,
}
