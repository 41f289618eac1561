//! `hospes`: the MCP host between your AI applications and your MCP servers.

mod approve;
mod args;
mod arguments;
mod attach;
mod authorization;
mod builtins;
mod callers;
mod chat;
mod command_groups;
mod command_lock;
mod commands;
mod completion;
mod credentials;
mod deciders;
mod enforcement;
mod exit;
mod file_watch;
mod fleet;
mod installation;
mod known_configs;
mod known_servers;
mod live;
mod local_host;
mod log_file;
mod logging;
mod login_path;
mod missing_programs;
mod mistake_text;
mod notifications;
mod organization_policy;
mod output;
mod packages;
mod paths;
mod platform;
mod policy_files;
mod printed_secrets;
mod profiles;
mod program_sources;
mod progress;
mod prompt;
mod readiness;
mod registry;
mod removed_record;
mod screen_log;
mod secrets;
mod server_record;
mod service_files;
mod settings;
mod shown_commands;
mod sweep;
mod target;
mod telemetry;
mod terminal_screen;
mod tolerant_writer;
mod tool_list;
mod typed_commands;
mod user_folders;

use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;

use args::CliCommand;
use exit::{CliError, CliResult};
use output::CliOutput;

/// Time tasks have to end when the program does.
const RUNTIME_SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    // Before anything else: the helper that starts servers stays small and single-threaded.
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|word| word == settings::RUN_CHILD) {
        return hospes_sandbox::entry(Some(settings::RUN_CHILD.into()), std::env::args_os().skip(2));
    }
    // A shell asks for words to complete; nothing else is to be printed then.
    completion::answer_shell();
    let cli = match command_groups::parse() {
        Ok(cli) => cli,
        Err(error) => return misread(&error),
    };
    let output = CliOutput { json: cli.global.json, quiet: cli.global.quiet };
    logging::start(&cli);
    let ended = runtime().and_then(|runtime| {
        let ended = runtime.block_on(run(cli.command, output));
        // Ends running tasks, so that no child process outlives the program. A pending read of the terminal must not
        // keep it alive.
        runtime.shutdown_timeout(RUNTIME_SHUTDOWN_TIMEOUT);
        ended
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            ExitCode::from(failure.code as u8)
        }
    }
}

async fn run(command: CliCommand, output: CliOutput) -> CliResult {
    platform::keep_running_at_limits();
    // Boxed, because this future would otherwise be as large as that of the largest command.
    match command {
        CliCommand::Up(args) => Box::pin(commands::up::run(args, output)).await,
        CliCommand::Stdio(args) => Box::pin(commands::stdio::run(args)).await,
        CliCommand::Status(args) => Box::pin(commands::status::run(args, output)).await,
        CliCommand::Doctor(args) => Box::pin(commands::doctor::run(args, output)).await,
        CliCommand::Console(args) => commands::console::run(&args, output).await,
        CliCommand::Approve(args) => Box::pin(approve::run(args, output)).await,
        CliCommand::Add(args) => Box::pin(commands::add::run(args, output)).await,
        CliCommand::Update(args) => Box::pin(commands::update::run(args, output)).await,
        CliCommand::Remove(args) => commands::remove::run(&args, output),
        CliCommand::Search(args) => Box::pin(commands::search::run(args, output)).await,
        CliCommand::Import(args) => commands::import::run(&args, output),
        CliCommand::Connect(args) => commands::connect::run(&args, output),
        CliCommand::Profile(command) => commands::profile::run(command, output).await,
        CliCommand::Disconnect(args) => commands::connect::disconnect(&args, output),
        CliCommand::Export(args) => commands::export::run(&args, output),
        CliCommand::Bundle(args) => commands::bundle::run(&args, output),
        CliCommand::Secret(args) => commands::secret::run(args, output),
        CliCommand::List(args) => Box::pin(commands::list::run(args, output)).await,
        CliCommand::Call(args) => Box::pin(commands::call::run(args, output)).await,
        CliCommand::Chat(args) => Box::pin(chat::run(args, output)).await,
        CliCommand::Auth(args) => Box::pin(commands::auth::run(args, output)).await,
        CliCommand::Policy(args) => Box::pin(commands::policy::run(args, output)).await,
        CliCommand::Audit(args) => commands::audit::run(args, output).await,
        CliCommand::Grants(args) => commands::grants::run(args.command, output).await,
        CliCommand::Pins(args) => Box::pin(commands::pins::run(args, output)).await,
        CliCommand::Service(command) => commands::service::run(command, output).await,
        CliCommand::State(command) => Box::pin(commands::state::run(command, output)).await,
        CliCommand::Upgrade => commands::upgrade::run(output),
        CliCommand::Logs(args) => commands::logs::run(args, output).await,
        CliCommand::Completions(args) => commands::completions::run(&args, output),
        CliCommand::Man(args) => commands::man::run(&args, output),
        CliCommand::Serve(args) => Box::pin(commands::serve::run(args, output)).await,
    }
}

fn runtime() -> CliResult<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| CliError::usage("cannot start the async runtime").with_cause(&error))
}

/// Prints help as a result and mistakes as errors, with this program's exit codes instead of the parser's.
fn misread(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _gone = error.print();
        return ExitCode::SUCCESS;
    }
    // The arguments could not be parsed, so the flag is searched for by hand. Words after `--` belong to another
    // program.
    let mut words = std::env::args_os().skip(1).take_while(|word| word != "--");
    let hint = add_hint(error);
    if words.any(|word| word == "--json") {
        let failure = CliError::from_clap(error);
        let failure = match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        };
        output::CliOutput { json: true, quiet: false }.failure(&failure);
    } else {
        let _gone = error.print();
        if let Some(hint) = hint {
            output::CliOutput { json: false, quiet: false }.hint(hint);
        }
    }
    ExitCode::from(exit::FailureCode::Usage as u8)
}

/// Returns the hint for `hospes add npx -y …`, whose words are read as options of `add`.
fn add_hint(error: &clap::Error) -> Option<String> {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let at = words.iter().position(|word| !word.starts_with('-'))?;
    if error.kind() != ErrorKind::UnknownArgument
        || words[at] != "add"
        || words.iter().any(|word| word == "--")
    {
        return None;
    }
    let words: Vec<&str> = words[at + 1..].iter().map(String::as_str).collect();
    typed_commands::find_command(&words).map(|program| typed_commands::usage(&output::printable(program)))
}
