//! Logging to standard error, and of hosts to a file.

use std::io::IsTerminal;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::time::Uptime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::args::{Cli, CliCommand};
use crate::log_file::LogFileLayer;
use crate::paths;
use crate::screen_log::LogWriter;
use crate::telemetry::ExportedLog;

/// Libraries whose details have headers, bodies, keys or file contents in them. All they write is masked, too.
const CAPPED_LIBRARIES: [&str; 13] = [
    "h2",
    "hyper",
    "hyper_util",
    "reqwest",
    "rustls",
    "tokio_util",
    "tower",
    "tower_http",
    "axum",
    "zbus",
    "mio",
    "want",
    "tungstenite",
];

/// Environment variable with a log filter.
const VARIABLE: &str = "HOSPES_LOG";

/// Starts logging at the level that the command line selects.
pub(crate) fn start(cli: &Cli) {
    let level = match cli.global.verbose {
        _ if cli.global.quiet => "error",
        0 => default_filter(&cli.command, std::io::stderr().is_terminal()),
        1 => "hospes=info,hospes_host=info,hospes_cli=info,warn",
        2 => "hospes=debug,hospes_host=debug,hospes_cli=debug,info",
        _ => "trace",
    };
    // An invalid filter is ignored: logging must not keep the program from running.
    let filter = std::env::var(VARIABLE).ok().and_then(|filter| read_filter(&filter));
    let colour =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let terminal = tracing_subscriber::fmt::layer()
        .with_writer(LogWriter)
        .with_ansi(colour)
        .with_timer(Uptime::default())
        .with_target(cli.global.verbose > 1)
        .with_filter(filter.or_else(|| read_filter(level)).unwrap_or_default());
    let (file, problem) = match is_host(&cli.command).then(paths::log_folder).flatten() {
        Some(folder) => match LogFileLayer::create(&folder) {
            Ok(layer) => (Some(layer.with_filter(LogFileLayer::filter())), None),
            Err(error) => (None, Some((folder, error))),
        },
        None => (None, None),
    };
    // What is exported is what the log file has.
    let exported = is_host(&cli.command).then(|| ExportedLog.with_filter(LogFileLayer::filter()));
    // Only tests start it twice.
    let _twice = tracing_subscriber::registry().with(terminal).with(file).with(exported).try_init();
    // Logging must not keep the program from running.
    if let Some((folder, error)) = problem {
        tracing::warn!(folder = %folder.display(), %error, "no log file is written");
    }
    if is_host(&cli.command) {
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "host started");
    }
}

/// Reads a filter. The libraries that write headers, bodies and keys in their details are capped, unless it names them.
fn read_filter(text: &str) -> Option<EnvFilter> {
    let is_named = |library: &str| {
        text.split(',').any(|directive| {
            let target = directive.split(['=', '[']).next().unwrap_or_default().trim();
            directive.contains('=') && target.split("::").next() == Some(library)
        })
    };
    let capped = CAPPED_LIBRARIES.iter().filter(|library| !is_named(library));
    let mut filter = EnvFilter::try_new(text).ok()?;
    if filter.max_level_hint().is_none_or(|level| level > LevelFilter::INFO) {
        for library in capped {
            filter = filter.add_directive(format!("{library}=info").parse().ok()?);
        }
    }
    Some(filter)
}

/// Returns true if the command runs servers for others, whose log is of use later.
fn is_host(command: &CliCommand) -> bool {
    matches!(command, CliCommand::Up(_) | CliCommand::Stdio(_) | CliCommand::Chat(_))
}

/// Returns the filter without an option. Commands that report the problems of servers themselves print them once.
fn default_filter(command: &CliCommand, is_terminal: bool) -> &'static str {
    match command {
        CliCommand::Up(_) => "error",
        // Their pages name what is suspicious, for who looks at a terminal.
        CliCommand::Add(_) | CliCommand::Update(_) if is_terminal => "error",
        CliCommand::Add(_)
        | CliCommand::Update(_)
        | CliCommand::Doctor(_)
        | CliCommand::List(_)
        | CliCommand::Call(_) => "warn,hospes::client=error,hospes_host::upstream=error",
        _ => "warn",
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn a_page_at_a_terminal_is_not_interrupted_by_warnings_of_the_log() {
        let filter = |words: &[&str], is_terminal| {
            let cli = Cli::parse_from([&["hospes"][..], words].concat());
            default_filter(&cli.command, is_terminal)
        };
        for command in [&["add", "files"][..], &["update", "files"]] {
            assert_eq!(filter(command, true), "error", "{command:?}");
            assert!(filter(command, false).starts_with("warn,"), "{command:?}");
        }
        assert!(filter(&["doctor"], true).starts_with("warn,"));
    }

    #[test]
    fn libraries_that_write_headers_are_capped_unless_they_are_named() {
        let shown = |text: &str| read_filter(text).unwrap().to_string();
        for text in ["trace", "debug", "hospes=trace,debug", "hyper=trace", "trace,hyper::proto=trace"] {
            let filter = shown(text);
            assert!(filter.contains("h2=info") && filter.contains("reqwest=info"), "{text}: {filter}");
            assert_eq!(filter.contains("hyper=info"), !text.contains("hyper"), "{text}: {filter}");
        }
        assert!(!shown("warn").contains("h2"));
        assert!(read_filter("=nonsense=[").is_none());
    }
}
