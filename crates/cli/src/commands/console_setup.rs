//! Commands that a person gives on a page of the console, carried out by this program's own commands.
//!
//! Each runs as a process of this program with `--json`, so that a page does exactly what the command does: the same
//! checks of files, the same records for undoing, the same messages.

mod followed_process;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use hospes_console::{
    FollowedCommand, FollowedOutcome, SeenServer, SetupCommand, SetupCommands, SetupOutcome,
};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::notifications;

/// Maximum time of a command.
const TIMEOUT: Duration = Duration::from_secs(25);
/// Maximum time of the checks of a server: their own limits, and the end of its processes.
const CHECK_TIMEOUT: Duration = Duration::from_secs(150);
/// Maximum time of a sign-in, with that of the person.
const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Maximum size of an output that is read, in bytes.
const MAX_OUTPUT: usize = 4 << 20;

/// Carries out the commands.
#[derive(Clone, Debug)]
pub(super) struct ProgramCommands {
    /// Configuration file to which servers are added. The default one if there is none.
    pub(super) config: Option<PathBuf>,
    /// Configuration files of the host that were named on its command line.
    pub(super) files: Vec<PathBuf>,
}

impl SetupCommands for ProgramCommands {
    fn run(&self, command: SetupCommand) -> SetupOutcome {
        let arguments = match command {
            SetupCommand::TestNotification => {
                return Box::pin(async {
                    notifications::show_test().await;
                    Ok(json!({}))
                });
            }
            command => self.arguments(command),
        };
        Box::pin(async move {
            match arguments {
                Some(arguments) => run(&arguments).await,
                None => Err("this version of hospes does not know the command".to_owned()),
            }
        })
    }

    fn follow(&self, command: FollowedCommand, lines: mpsc::Sender<Value>) -> FollowedOutcome {
        let arguments = self.followed_arguments(command);
        Box::pin(async move {
            match arguments {
                Some((arguments, limit)) => followed_process::run(&arguments, limit, lines).await,
                None => Err("this version of hospes does not know the command".to_owned()),
            }
        })
    }
}

impl ProgramCommands {
    /// Returns the arguments of a command. Values that a page chooses follow an `=` or a `--`, so none is an option.
    fn arguments(&self, command: SetupCommand) -> Option<Vec<String>> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let config = || self.config.iter().map(|file| format!("--config={}", file.display()));
        Some(match command {
            SetupCommand::FindServers => {
                words(&["import", "--json", "--dry-run"]).into_iter().chain(config()).collect()
            }
            SetupCommand::ImportServers(servers) => {
                let servers = servers.into_iter().flat_map(|SeenServer { name, digest }| {
                    [format!("--server={name}"), format!("--seen={digest}")]
                });
                words(&["import", "--json", "--yes"]).into_iter().chain(config()).chain(servers).collect()
            }
            SetupCommand::PreviewConnection(id) => words(&["connect", "--json", "--dry-run", "--", &id]),
            SetupCommand::Connect { application, digest } => {
                words(&["connect", "--json", &format!("--seen={digest}"), "--", &application])
            }
            SetupCommand::CheckUpdate(name) => words(&["update", "--json", "--check"])
                .into_iter()
                .chain(config())
                .chain(words(&["--", &name]))
                .collect(),
            SetupCommand::RemoveServer { name, digest } => words(&["remove", "--json", "--yes"])
                .into_iter()
                .chain(config())
                .chain(words(&[&format!("--seen={digest}"), "--", &name]))
                .collect(),
            SetupCommand::SignOut(name) => words(&["auth", "logout", "--json"])
                .into_iter()
                .chain(self.files())
                .chain(words(&["--", &name]))
                .collect(),
            SetupCommand::Disconnect(id) => words(&["disconnect", "--json", "--", &id]),
            _ => return None,
        })
    }

    /// Returns the options that name the configuration files of the host.
    fn files(&self) -> impl Iterator<Item = String> {
        self.files.iter().map(|file| format!("--config={}", file.display()))
    }

    /// Returns the arguments of a command that is followed, and its time limit.
    fn followed_arguments(&self, command: FollowedCommand) -> Option<(Vec<String>, Duration)> {
        let (words, name, limit): (&[&str], _, _) = match command {
            FollowedCommand::CheckServer(name) => (&["doctor", "--json"], name, CHECK_TIMEOUT),
            FollowedCommand::SignIn(name) => (&["auth", "login", "--json"], name, SIGN_IN_TIMEOUT),
            _ => return None,
        };
        let own = format!("--for-host={}", std::process::id());
        let words = words.iter().map(|word| (*word).to_owned()).chain([own]).chain(self.files());
        Some((words.chain(["--".to_owned(), name]).collect(), limit))
    }
}

async fn run(arguments: &[String]) -> Result<Value, String> {
    let program = std::env::current_exe()
        .map_err(|error| format!("cannot determine the path of the hospes executable: {error}"))?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot start hospes: {error}"))?;
    let ended = tokio::time::timeout(TIMEOUT, child.wait_with_output()).await;
    let ended = ended
        .map_err(|_| format!("the command did not end within {} seconds", TIMEOUT.as_secs()))?
        .map_err(|error| format!("cannot read the output of hospes: {error}"))?;
    // The exit code of `update --check` says that there is something to update.
    let found = serde_json::from_slice(&ended.stdout).ok().filter(Value::is_array);
    if let Some(found) = found.filter(|_| ended.stdout.len() <= MAX_OUTPUT) {
        return Ok(found);
    }
    if !ended.status.success() {
        return Err(failure(&String::from_utf8_lossy(&ended.stderr)));
    }
    if ended.stdout.len() > MAX_OUTPUT {
        return Err(format!("the output is larger than {MAX_OUTPUT} bytes; use the command in a terminal"));
    }
    serde_json::from_slice(&ended.stdout).map_err(|error| format!("unexpected output of hospes: {error}"))
}

/// Returns the message of a failed command with its cause and hint. The last line of its messages is the error as JSON.
fn failure(messages: &str) -> String {
    let read = |line: &str| serde_json::from_str::<Value>(line).ok()?.get("error").cloned();
    let Some(error) = messages.lines().rev().find_map(read) else {
        return messages.trim().to_owned();
    };
    let parts = ["message", "cause", "hint"].into_iter().filter_map(|key| error.get(key)?.as_str());
    parts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_page_chooses_is_an_option() {
        let program =
            ProgramCommands { config: Some("/etc/h.toml".into()), files: vec!["/etc/h.toml".into()] };
        let arguments = |command| program.arguments(command).unwrap();
        assert_eq!(
            arguments(SetupCommand::RemoveServer { name: "--purge".to_owned(), digest: "-p".to_owned() }),
            ["remove", "--json", "--yes", "--config=/etc/h.toml", "--seen=-p", "--", "--purge"]
        );
        assert_eq!(
            arguments(SetupCommand::CheckUpdate("--auto".to_owned())),
            ["update", "--json", "--check", "--config=/etc/h.toml", "--", "--auto"]
        );
        assert_eq!(
            arguments(SetupCommand::SignOut("--user".to_owned())),
            ["auth", "logout", "--json", "--config=/etc/h.toml", "--", "--user"]
        );
        let own = format!("--for-host={}", std::process::id());
        assert_eq!(
            program.followed_arguments(FollowedCommand::CheckServer("--call".to_owned())).unwrap().0,
            ["doctor", "--json", &own, "--config=/etc/h.toml", "--", "--call"]
        );
        assert_eq!(
            program.followed_arguments(FollowedCommand::SignIn("--device".to_owned())).unwrap().0,
            ["auth", "login", "--json", &own, "--config=/etc/h.toml", "--", "--device"]
        );
        assert_eq!(
            arguments(SetupCommand::Connect { application: "--project".to_owned(), digest: "-p".to_owned() }),
            ["connect", "--json", "--seen=-p", "--", "--project"]
        );
        assert_eq!(
            arguments(SetupCommand::ImportServers(vec![SeenServer {
                name: "--project".to_owned(),
                digest: "-p".to_owned()
            }])),
            ["import", "--json", "--yes", "--config=/etc/h.toml", "--server=--project", "--seen=-p"]
        );
    }

    #[test]
    fn the_message_of_a_failure_is_told_with_its_hint() {
        let said = "some progress\n{\"error\":{\"code\":\"usage\",\"message\":\"no\",\"hint\":\"do x\"}}\n";
        assert_eq!(failure(said), "no; do x");
        assert_eq!(failure("plain text\n"), "plain text");
    }
}
