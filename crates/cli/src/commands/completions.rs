//! `hospes completions`: prints the script with which a shell completes the arguments of this program.

use clap_complete::env::Shells;

use crate::args::{CompletionShell, CompletionsArgs};
use crate::completion::VARIABLE;
use crate::exit::{CliError, CliResult};
use crate::output::CliOutput;

/// Name of the command that is completed, and of the program that answers.
const PROGRAM: &str = "hospes";

pub(crate) fn run(args: &CompletionsArgs, output: CliOutput) -> CliResult {
    let shell = match args.shell {
        CompletionShell::Bash => "bash",
        CompletionShell::Zsh => "zsh",
        CompletionShell::Fish => "fish",
        CompletionShell::Powershell => "powershell",
        CompletionShell::Elvish => "elvish",
    };
    let shells = Shells::builtins();
    let unknown = || CliError::usage(format!("no completion script for {shell}"));
    let completer = shells.completer(shell).ok_or_else(unknown)?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
        .map_err(|error| CliError::usage("cannot write the completion script").with_cause(&error))?;
    output.result(String::from_utf8_lossy(&script));
    Ok(())
}
