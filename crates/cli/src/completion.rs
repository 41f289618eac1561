//! Answers to a shell that completes the command line: words of this program, and names of servers and tools.
//!
//! Names come from the configuration and the state folder. No server is started and nothing is written.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Command, CommandFactory};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use crate::args::Cli;
use crate::{builtins, known_servers};

/// Environment variable with which a completion script asks. Its value is the name of the shell.
pub(crate) const VARIABLE: &str = "HOSPES_COMPLETE";
/// Number of the completed word, as the scripts of Bash, Zsh and Elvish pass it.
const INDEX_VARIABLE: &str = "_CLAP_COMPLETE_INDEX";
/// Maximum time until the names are known. A person waits for them with a key pressed.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum number of names that are offered.
const MAX_CANDIDATES: usize = 1000;

/// Answers the shell and ends the program if a completion script started it.
pub(crate) fn answer_shell() {
    CompleteEnv::with_factory(Cli::command).var(VARIABLE).complete();
}

/// Completes the name of a configured server.
pub(crate) fn servers() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| matching(current, server_names(&TypedWords::read())))
}

/// Completes the name of a profile.
pub(crate) fn profiles() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let profiles = crate::profiles::configured(&TypedWords::read().files);
        matching(current, profiles.into_iter().map(|profile| profile.name).collect())
    })
}

/// Completes the name of a configured or built-in server.
pub(crate) fn targets() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| matching(current, target_names(&TypedWords::read())))
}

/// Completes the name of a tool of the server that was typed before.
pub(crate) fn tools() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let typed = TypedWords::read();
        let names = typed.server.as_deref().map(|server| tool_names(&typed, server));
        matching(current, names.unwrap_or_default())
    })
}

/// Completes the words of `hospes call`: a server, and a tool of it.
pub(crate) fn call_words() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let typed = TypedWords::read();
        let names = match typed.words.as_slice() {
            [] => target_names(&typed),
            [server] => tool_names(&typed, server),
            _ => Vec::new(),
        };
        matching(current, names)
    })
}

/// The words before the completed one, as far as they can be parsed.
#[derive(Debug, Default)]
struct TypedWords {
    /// Configuration files.
    files: Vec<PathBuf>,
    /// Server of a command that names one.
    server: Option<String>,
    /// Words of `hospes call`.
    words: Vec<String>,
}

impl TypedWords {
    /// Reads the words that the completion script passes after `--`.
    fn read() -> Self {
        let mut words: Vec<OsString> = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
        let index = std::env::var(INDEX_VARIABLE).ok().and_then(|text| text.parse().ok());
        // Fish and PowerShell pass the words up to the completed one.
        words.truncate(index.unwrap_or_else(|| words.len().saturating_sub(1)));
        Self::parse(Cli::command(), words)
    }

    fn parse(command: Command, words: Vec<OsString>) -> Self {
        let Ok(matches) = command.ignore_errors(true).try_get_matches_from(words) else {
            return Self::default();
        };
        let mut deepest = &matches;
        while let Some((_, below)) = deepest.subcommand() {
            deepest = below;
        }
        let text = |id| one::<String>(deepest, id).cloned();
        Self { files: many(deepest, "config"), server: text("server"), words: many(deepest, "words") }
    }
}

/// Returns the value of an argument, or `None` if the command has no such argument.
fn one<'m, T: Clone + Send + Sync + 'static>(matches: &'m ArgMatches, id: &str) -> Option<&'m T> {
    matches.try_get_one(id).ok().flatten()
}

fn many<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Vec<T> {
    matches.try_get_many(id).ok().flatten().map(|values| values.cloned().collect()).unwrap_or_default()
}

fn server_names(typed: &TypedWords) -> Vec<String> {
    known_servers::names(&typed.files)
}

fn target_names(typed: &TypedWords) -> Vec<String> {
    let mut names = server_names(typed);
    for builtin in builtins::names() {
        if !names.iter().any(|name| name == builtin) {
            names.push(builtin.to_owned());
        }
    }
    names
}

fn tool_names(typed: &TypedWords, server: &str) -> Vec<String> {
    let lookup = async {
        // The timer needs the runtime, so it is created inside.
        tokio::time::timeout(LOOKUP_TIMEOUT, known_servers::tool_names(&typed.files, server)).await
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let names = runtime.map(|runtime| {
        let found = runtime.block_on(lookup);
        // A read of the state that is still running must not keep the shell waiting.
        runtime.shutdown_background();
        found.unwrap_or_default()
    });
    names.unwrap_or_default()
}

fn matching(current: &OsStr, names: Vec<String>) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let fitting = names.into_iter().filter(|name| name.starts_with(current) && is_harmless(name));
    fitting.take(MAX_CANDIDATES).map(CompletionCandidate::new).collect()
}

/// Returns true if a shell reads the name as one plain word. Bash inserts names unquoted, and servers choose the names of
/// their tools: one with `$(…)` would be a command on the person's command line.
fn is_harmless(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./@+,".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> TypedWords {
        TypedWords::parse(Cli::command(), line.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn the_server_and_the_configuration_are_read_from_an_incomplete_line() {
        let typed = parse("hospes call --config a.toml files");
        assert_eq!((typed.files, typed.words), (vec![PathBuf::from("a.toml")], vec!["files".to_owned()]));
        assert_eq!(parse("hospes pins show files").server.as_deref(), Some("files"));
        assert_eq!(parse("hospes policy test -c b.toml mail").server.as_deref(), Some("mail"));
        assert_eq!(parse("hospes audit search --server mail").server.as_deref(), Some("mail"));
        assert_eq!(parse("hospes nonsense --what").server, None);
    }

    #[test]
    fn names_that_a_shell_would_execute_are_not_offered() {
        for name in ["$(reboot)", "a b", "`id`", "a;b", "-rf", "a\nb", "a\u{202e}b", "a:b", "~", ""] {
            assert!(matching(OsStr::new(""), vec![name.to_owned()]).is_empty(), "{name}");
        }
        let good = matching(OsStr::new("read"), vec!["read_text-file.v2".to_owned(), "write".to_owned()]);
        assert_eq!(good.len(), 1);
        assert_eq!(good[0].get_value(), "read_text-file.v2");
    }
}
