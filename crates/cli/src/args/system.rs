//! Arguments of the commands that set the program up on a machine.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

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

  bash        ~/.bashrc                    source <(hospes completions bash)
  zsh         ~/.zshrc                     source <(hospes completions zsh)
  fish        ~/.config/fish/config.fish   hospes completions fish | source
  elvish      ~/.config/elvish/rc.elv      eval (hospes completions elvish | slurp)
  powershell  $PROFILE                     hospes completions powershell | Out-String | iex

Names of servers come from the configuration, and names of tools from what the host
last saw of a server. No server is started.";

/// Options of `hospes man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder to write all pages to; it is created. Without it the page of the program is printed
    #[arg(long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
}
