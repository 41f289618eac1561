//! `hospes`: the MCP host between your AI applications and your MCP servers.

mod approve;
mod args;
mod arguments;
mod authorization;
mod builtins;
mod callers;
mod chat;
mod commands;
mod credentials;
mod deciders;
mod exit;
mod guard;
mod known;
mod limits;
mod local;
mod logging;
mod output;
mod place;
mod progress;
mod prompt;
mod settings;
mod target;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Command};
use exit::{Failure, Outcome};
use output::Output;

/// Time tasks have to end when the program does.
const LAST_MOMENT: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    // Before anything else: what starts servers is small and has one thread.
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|word| word == settings::RUN_CHILD) {
        return hospes_sandbox::entry(Some(settings::RUN_CHILD.into()), std::env::args_os().skip(2));
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misread(&error),
    };
    let output = Output { json: cli.global.json, quiet: cli.global.quiet };
    logging::start(&cli);
    let ended = runtime().and_then(|runtime| {
        let ended = runtime.block_on(run(cli.command, output));
        // Ends what is still going on, so that no child outlives us; but a read of the terminal that is still
        // waiting must not keep the program.
        runtime.shutdown_timeout(LAST_MOMENT);
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

async fn run(command: Command, output: Output) -> Outcome {
    limits::heed();
    match command {
        Command::Up(args) => Box::pin(commands::up::run(args, output)).await,
        Command::Stdio(args) => Box::pin(commands::stdio::run(args)).await,
        Command::Status(args) => Box::pin(commands::status::run(args, output)).await,
        Command::Console(args) => commands::console::run(&args, output).await,
        Command::Approve(args) => Box::pin(approve::run(args, output)).await,
        Command::List(args) => Box::pin(commands::list::run(args, output)).await,
        Command::Call(args) => Box::pin(commands::call::run(args, output)).await,
        Command::Chat(args) => Box::pin(chat::run(args, output)).await,
        Command::Auth(args) => Box::pin(commands::auth::run(args, output)).await,
        Command::Policy(args) => Box::pin(commands::policy::run(args, output)).await,
        Command::Audit(args) => commands::audit::run(args, output).await,
        Command::Pins(args) => Box::pin(commands::pins::run(args, output)).await,
        Command::Serve(args) => Box::pin(commands::serve::run(args, output)).await,
    }
}

fn runtime() -> Outcome<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Failure::usage("cannot start").because(&error))
}

/// Help is a result; a mistake is talk, and its code is ours, not that of the parser.
fn misread(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _gone = error.print();
        return ExitCode::SUCCESS;
    }
    let mut words = std::env::args_os().skip(1).take_while(|word| word != "--");
    if words.any(|word| word == "--json") {
        output::Output { json: true, quiet: false }.failure(&Failure::misread(error));
    } else {
        let _gone = error.print();
    }
    ExitCode::from(exit::Code::Usage as u8)
}
