//! Logging to standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::Uptime;

use crate::args::{Cli, CliCommand};

/// Environment variable with a log filter.
const VARIABLE: &str = "HOSPES_LOG";

/// Starts logging at the level that the command line selects.
pub(crate) fn start(cli: &Cli) {
    // `up` reports the states of servers itself.
    let quiet = if matches!(cli.command, CliCommand::Up(_)) { "error" } else { "warn" };
    let level = match cli.global.verbose {
        _ if cli.global.quiet => "error",
        0 => quiet,
        1 => "hospes=info,hospes_host=info,hospes_cli=info,warn",
        2 => "hospes=debug,hospes_host=debug,hospes_cli=debug,info",
        _ => "trace",
    };
    // An invalid filter is ignored: logging must not keep the program from running.
    let filter = std::env::var(VARIABLE).ok().and_then(|filter| EnvFilter::try_new(filter).ok());
    let colour =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new(level)))
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .with_timer(Uptime::default())
        .with_target(cli.global.verbose > 1);
    // Only tests start it twice.
    let _twice = subscriber.try_init();
}
