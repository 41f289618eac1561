//! Options of `doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::host::ConfigFileArgs;
use super::values::some_seconds;
use crate::commands::doctor::DOCTOR_CODES;

const DOCTOR_HELP: &str = "\
The checks follow the way from the application to the tools; the first fault ends it. Nothing is changed. Programs of \
servers are started, and ended again. Tools are called only if they are of built-in servers and only read.

  hospes doctor                              all that is configured
  hospes doctor github                       one server of the configuration
  hospes doctor cursor                       an application
  hospes doctor https://mcp.example.com/mcp  a server elsewhere
  hospes doctor github --call get_me         with a call of one of its tools
  hospes doctor github --ignore T02          do not warn of this again
  hospes doctor --bundle                     an archive for a report

Exit status: 0 if all is well, 1 if there is a fault, 2 if there are warnings only.";

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct DoctorArgs {
    /// Server, application or URL to check [default: everything]
    pub(crate) target: Option<String>,
    /// Arguments of the tool of --call: NAME=VALUE, as with `hospes call`
    #[arg(value_name = "ARGUMENT", requires = "call")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) files: ConfigFileArgs,
    /// Show every check, not only those that have found something
    #[arg(short = 'a', long = "all")]
    pub(crate) verbose_report: bool,
    /// List the checks and their codes, and make none
    #[arg(long)]
    pub(crate) codes: bool,
    /// Tool to call at the end, whatever it does
    #[arg(long, value_name = "TOOL", requires = "target")]
    pub(crate) call: Option<String>,
    /// Do not warn of this any more: of the target, or of all. Faults are shown nevertheless. May be repeated
    #[arg(long, value_name = "CODE", value_parser = code)]
    pub(crate) ignore: Vec<String>,
    /// Warn of this again. May be repeated
    #[arg(long, value_name = "CODE", value_parser = code)]
    pub(crate) no_ignore: Vec<String>,
    /// Write an archive for a report: versions, masked configuration, last lines of logs, results of the checks
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with_all = ["ignore", "no_ignore"])]
    pub(crate) bundle: Option<Option<PathBuf>>,
    /// Print each check as a line of JSON when it ends, for the console of the host with this process id
    #[arg(long, value_name = "PID", hide = true, requires = "target")]
    pub(crate) for_host: Option<u32>,
    /// Maximum time to start and connect to a server, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = some_seconds, allow_negative_numbers = true)]
    pub(crate) connect_timeout: Duration,
}

/// Reads the code of a check.
fn code(text: &str) -> Result<String, String> {
    let wanted = text.to_ascii_uppercase();
    match DOCTOR_CODES.iter().any(|code| code.code == wanted) {
        true => Ok(wanted),
        false => Err("`hospes doctor --codes` lists the codes".to_owned()),
    }
}
