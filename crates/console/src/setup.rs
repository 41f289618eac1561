//! Onboarding: commands of the program that change files of the user, and the progress of the user.
//!
//! The console does not depend on the program. The program implements [`SetupCommands`] with the code of its own
//! commands, so a page does just what `hospes import` and `hospes connect` do.

use std::fmt;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

/// Maximum size of the file with the progress, in bytes.
const MAX_PROGRESS: u64 = 4096;
/// Number of steps of the onboarding.
pub(crate) const STEPS: u8 = 5;

/// A command that a person gives on a page.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetupCommand {
    /// Finds the servers of the user's applications and changes nothing. The result is that of
    /// `hospes import --dry-run --json`.
    FindServers,
    /// Adds these servers to the configuration. The result is that of `hospes import --yes --json`. Fails if one of them has
    /// changed since it was seen.
    ImportServers(Vec<SeenServer>),
    /// Computes the change of an application's file. The result is that of `hospes connect APP --dry-run --json`.
    PreviewConnection(String),
    /// Changes the application's file. The result is that of `hospes connect APP --json`.
    Connect {
        /// The application.
        application: String,
        /// Digest of the change that was seen. Fails if the change would be another one.
        digest: String,
    },
    /// Undoes the change. The result is that of `hospes disconnect APP --json`.
    Disconnect(String),
    /// Looks for a newer version of a server. The result is that of `hospes update NAME --check --json`.
    CheckUpdate(String),
    /// Removes a server from the configuration. The result is that of `hospes remove NAME --yes --json`.
    RemoveServer {
        /// Name of the server.
        name: String,
        /// SHA-256 digest of the configuration file that was seen. Fails if the file has changed.
        digest: String,
    },
    /// Signs out of a server: its tokens are revoked and deleted. The result is that of `hospes auth logout NAME --json`.
    SignOut(String),
    /// Shows a notification on the desktop. The result is an empty object.
    TestNotification,
}

/// A command that takes longer than a request, and says what it does as it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FollowedCommand {
    /// Makes the checks of `hospes doctor NAME`. Each check is a line as soon as it ends; the last line is the report.
    CheckServer(String),
    /// Signs in to a server, as `hospes auth login NAME`. A line has the page that the person has to open.
    SignIn(String),
}

/// End of a followed command: nothing, or the reason that it failed with what to do.
pub type FollowedOutcome = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A server of an application, as a person saw it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "the body of a request")]
pub struct SeenServer {
    /// `NAME` or `APP:NAME`.
    pub name: String,
    /// Digest of what was shown, from the result of [`SetupCommand::FindServers`].
    pub digest: String,
}

/// Outcome of a command: its JSON, or the reason that it failed with what to do.
pub type SetupOutcome = Pin<Box<dyn Future<Output = Result<Value, String>> + Send>>;

/// The commands, as the program carries them out.
pub trait SetupCommands: fmt::Debug + Send + Sync {
    /// Carries out a command. It ends within the time limit of a request, 30 seconds.
    fn run(&self, command: SetupCommand) -> SetupOutcome;

    /// Carries out a command that takes longer. Each of its lines is sent to `lines` as JSON. Once nobody receives them, the
    /// command is ended.
    fn follow(&self, command: FollowedCommand, lines: mpsc::Sender<Value>) -> FollowedOutcome {
        drop((command, lines));
        Box::pin(async { Err("this host carries out no such command for pages".to_owned()) })
    }
}

/// Progress of the onboarding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OnboardingProgress {
    /// Step that comes next, from 1.
    pub(crate) step: u8,
    /// True if the person has ended it or does not want it.
    pub(crate) is_done: bool,
}

/// The file that keeps the progress, so that it is the same in every browser.
#[derive(Clone, Debug)]
pub(crate) struct OnboardingFile(pub(crate) PathBuf);

impl OnboardingFile {
    /// Reads the progress. A missing or unreadable file means the beginning.
    pub(crate) fn read(&self) -> OnboardingProgress {
        let mut text = String::new();
        let read = fs::File::open(&self.0).and_then(|file| file.take(MAX_PROGRESS).read_to_string(&mut text));
        let found: Option<OnboardingProgress> = read.ok().and_then(|_| serde_json::from_str(&text).ok());
        let found = found.unwrap_or_default();
        OnboardingProgress { step: found.step.clamp(1, STEPS), ..found }
    }

    /// Replaces the progress.
    pub(crate) fn write(&self, progress: OnboardingProgress) -> io::Result<()> {
        let folder = self.0.parent().ok_or(io::ErrorKind::InvalidInput)?;
        fs::create_dir_all(folder)?;
        // Beside the file, so that a rename replaces it as a whole.
        let new = self.0.with_extension("new");
        let mut file = fs::File::create(&new)?;
        serde_json::to_writer(&mut file, &progress)?;
        file.flush()?;
        drop(file);
        hospes_fs::rename(&new, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_is_kept_and_a_broken_file_means_the_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let file = OnboardingFile(folder.path().join("new/onboarding.json"));
        let beginning = OnboardingProgress { step: 1, is_done: false };
        assert_eq!(file.read(), beginning);
        let later = OnboardingProgress { step: 3, is_done: true };
        file.write(later).unwrap();
        assert_eq!(file.read(), later);
        for broken in ["", "{}", "{\"step\":1}", "[]"] {
            fs::write(&file.0, broken).unwrap();
            assert_eq!(file.read(), beginning, "{broken}");
        }
        fs::write(&file.0, "{\"step\":200,\"isDone\":false}").unwrap();
        assert_eq!(file.read().step, STEPS);
    }
}
