//! Arguments of the commands that set the program up on a machine.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::rules::moment;
use crate::completion;
use crate::service_files::ServiceManager;

/// Options of `hospes completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: CompletionShell,
}

/// Shells with completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompletionShell {
    /// Bash 4.4 or later
    Bash,
    /// Zsh, after `compinit`
    Zsh,
    /// Fish
    Fish,
    /// PowerShell
    Powershell,
    /// Elvish
    Elvish,
}

const COMPLETIONS_HELP: &str = "\
Add one line to the file that your shell reads when it starts:

  bash, ~/.bashrc:
    source <(hospes completions bash)
  zsh, ~/.zshrc:
    source <(hospes completions zsh)
  fish, ~/.config/fish/config.fish:
    hospes completions fish | source
  elvish, ~/.config/elvish/rc.elv:
    eval (hospes completions elvish | slurp)
  powershell, $PROFILE:
    hospes completions powershell | Out-String | iex

Names of servers come from the configuration, and names of tools from what the host \
last saw of a server. No server is started.";

/// Options of `hospes man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder to write all pages to; it is created. Without it the page of the program is printed
    #[arg(long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
}

/// Options of `hospes logs`.
#[derive(Debug, Args)]
#[command(after_help = LOGS_HELP)]
pub(crate) struct LogsArgs {
    /// Only lines of this server
    #[arg(add = completion::servers())]
    pub(crate) server: Option<String>,
    /// Print further lines as they are written, until Ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only lines since a timestamp (2026-06-01T12:00:00Z), a date, or a duration ago (2h, 3d)
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) since: Option<jiff::Timestamp>,
    /// Least important level of the lines. Lines of servers on standard error have no level, and count as `info`
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub(crate) level: Option<LogLevel>,
    /// Maximum number of earlier lines: the last ones
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 100, value_parser = line_count)]
    pub(crate) lines: usize,
}

/// Level of a line of the log, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// Returns true if lines of `level`, as the log has it, are at least as important as this.
    pub(crate) fn includes(self, level: &str) -> bool {
        let level = match level {
            "error" => Self::Error,
            "warn" => Self::Warn,
            "debug" => Self::Debug,
            "trace" => Self::Trace,
            // Also `stderr`: what a server writes may be anything.
            _ => Self::Info,
        };
        level <= self
    }
}

const LOGS_HELP: &str = "\
The log has the events of `hospes up`, `hospes stdio` and `hospes chat`, and what their servers write to standard error. \
With --json each line is an object.

  hospes logs                      the last lines of all hosts and servers
  hospes logs mail --since 1h      those of one server
  hospes logs --level warn         only warnings and errors
  hospes logs --follow --lines 0   only what happens from now on";

fn line_count(text: &str) -> Result<usize, &'static str> {
    /// The lines are sorted in memory.
    const MAX_LINES: usize = 100_000;

    text.parse().ok().filter(|count| *count <= MAX_LINES).ok_or("expected a whole number up to 100000")
}

/// Subcommands of `hospes service`.
#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Start the host now and whenever you sign in
    Install(ServiceInstallArgs),
    /// Show whether the service is installed, enabled and running, and where its file is
    Status,
    /// Stop the service and delete everything that `install` wrote
    Remove,
}

#[derive(Debug, Args)]
#[command(after_help = SERVICE_HELP)]
pub(crate) struct ServiceInstallArgs {
    /// Configuration file of the host. May be repeated [default: the default configuration]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,
    /// Print the file of the service, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the file for another service manager: systemd, launchd or task-scheduler
    #[arg(long, value_name = "MANAGER", requires = "dry_run", value_parser = service_manager)]
    pub(crate) manager: Option<ServiceManager>,
}

const SERVICE_HELP: &str = "\
The service runs `hospes up` as you, with the PATH of your login shell:
  Linux    a unit of the systemd user manager
  macOS    an agent of launchd
  Windows  a task of the Task Scheduler, at logon
It prints errors only; `hospes logs` has the rest, and `hospes console` opens the console.";

fn service_manager(text: &str) -> Result<ServiceManager, &'static str> {
    match text {
        "systemd" => Ok(ServiceManager::Systemd),
        "launchd" => Ok(ServiceManager::Launchd),
        "task-scheduler" => Ok(ServiceManager::TaskScheduler),
        _ => Err("expected systemd, launchd or task-scheduler"),
    }
}
