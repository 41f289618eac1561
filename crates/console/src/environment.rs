//! Facts that the program knows about the host besides its servers: the endpoint, the policy file, the applications.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use hospes_host::config::{MAX_FILE, Secret};
use hospes_policy::PolicyEnvironment;
use serde::Serialize;

use crate::additions::ServerAdder;
use crate::edited_file::{EditedFile, FileReplacer};
use crate::setup::{OnboardingFile, SetupCommands};
use crate::team::TeamConsole;

/// Finds the applications of this user. It reads files, so it may block.
pub type ApplicationFinder = Arc<dyn Fn() -> Vec<ConnectedApplication> + Send + Sync>;

/// An application that can use the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(clippy::exhaustive_structs, reason = "the program fills in all of it")]
pub struct ConnectedApplication {
    /// Id, as in `hospes connect ID`.
    pub id: String,
    /// Name of the application.
    pub name: String,
    /// Configuration file, for display.
    pub file: String,
    /// State, as `hospes connect --json` names it: `connected`, `not-connected`, `changed`, `gone`, `unreadable`.
    pub state: &'static str,
    /// Reason that the file cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Default number of event streams of each kind of client.
const DEFAULT_STREAMS: usize = 64;

/// Largest number of event streams of each kind of client. Each holds a connection and reads the audit log once a second.
const MAX_STREAMS: usize = 4096;

/// Maximum size of a policy file that the console changes, in bytes.
const MAX_POLICY: u64 = 1 << 20;

/// The policy file, which the console changes when a person saves a rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PolicyFile {
    /// Environment in which the rules are read.
    pub environment: PolicyEnvironment,
    pub(crate) file: EditedFile,
}

impl PolicyFile {
    /// Creates the policy file at this path, which need not exist yet. `replacer` writes it.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, environment: PolicyEnvironment, replacer: FileReplacer) -> Self {
        Self { environment, file: EditedFile::new(path.into(), replacer, MAX_POLICY) }
    }
}

/// Hospes' own configuration file, which the console changes when a person saves a profile or the settings of a server.
#[derive(Clone, Debug)]
pub struct ConfigFile(pub(crate) EditedFile);

impl ConfigFile {
    /// Creates the file at this path, which need not exist yet. `replacer` writes it.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, replacer: FileReplacer) -> Self {
        Self(EditedFile::new(path.into(), replacer, MAX_FILE as u64))
    }
}

/// Stores a secret of the configuration under a name, or removes it without a value. Returns the value before, or why it
/// cannot. It blocks.
pub type SecretWriter = Arc<dyn Fn(&str, Option<&Secret>) -> Result<Option<Secret>, String> + Send + Sync>;

/// Facts about the host that the program tells the console. Everything is optional; without it, the pages leave it out.
#[derive(Clone, Default)]
pub struct ConsoleEnvironment {
    pub(crate) endpoint: Option<String>,
    pub(crate) policy: Option<PolicyFile>,
    pub(crate) config: Option<EditedFile>,
    pub(crate) secrets: Option<SecretWriter>,
    pub(crate) applications: Option<ApplicationFinder>,
    pub(crate) private_folders: Vec<PathBuf>,
    pub(crate) setup: Option<Arc<dyn SetupCommands>>,
    pub(crate) adder: Option<Arc<dyn ServerAdder>>,
    pub(crate) onboarding: Option<OnboardingFile>,
    pub(crate) team: Option<TeamConsole>,
    max_streams: Option<usize>,
}

impl ConsoleEnvironment {
    /// Sets the URL that applications connect to.
    #[must_use]
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.endpoint = Some(url.into());
        self
    }

    /// Sets the policy file. Without it, no rules can be saved.
    #[must_use]
    pub fn policy(mut self, file: PolicyFile) -> Self {
        self.policy = Some(file);
        self
    }

    /// Sets Hospes' own configuration file. Without it, no profiles and no settings of servers can be saved.
    #[must_use]
    pub fn config(mut self, file: ConfigFile) -> Self {
        self.config = Some(file.0);
        self
    }

    /// Sets how secrets of the configuration are stored. Without it, no page can replace one.
    #[must_use]
    pub fn secrets(mut self, writer: SecretWriter) -> Self {
        self.secrets = Some(writer);
        self
    }

    /// Sets the folders of the program itself, from which no file is shown: keys, decisions, the audit log.
    #[must_use]
    pub fn private_folders(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        self.private_folders = folders.into_iter().collect();
        self
    }

    /// Sets the commands with which pages change files of the user. Without them, pages show the commands to type.
    #[must_use]
    pub fn setup(mut self, commands: Arc<dyn SetupCommands>) -> Self {
        self.setup = Some(commands);
        self
    }

    /// Sets what adds servers of a registry. Without it, pages show the command to type.
    #[must_use]
    pub fn adder(mut self, adder: Arc<dyn ServerAdder>) -> Self {
        self.adder = Some(adder);
        self
    }

    /// Sets the file that keeps the progress of the onboarding. Without it, there is no onboarding.
    #[must_use]
    pub fn onboarding(mut self, file: impl Into<PathBuf>) -> Self {
        self.onboarding = Some(OnboardingFile(file.into()));
        self
    }

    /// Sets the maximum number of event streams of the browsers, of the programs at terminals and of the other programs,
    /// each. One client has a quarter of it. The default is 64, and 4096 is the largest.
    #[must_use]
    pub fn streams(mut self, max: Option<usize>) -> Self {
        self.max_streams = max;
        self
    }

    /// Returns the maximum number of event streams of each kind of client.
    pub(crate) fn max_streams(&self) -> usize {
        self.max_streams.unwrap_or(DEFAULT_STREAMS).clamp(1, MAX_STREAMS)
    }

    /// Serves the console to a team. Without it, the console is for the person of this machine.
    #[must_use]
    pub fn team(mut self, team: Option<TeamConsole>) -> Self {
        self.team = team;
        self
    }

    /// Sets how the applications of this user are found.
    #[must_use]
    pub fn applications(mut self, finder: ApplicationFinder) -> Self {
        self.applications = Some(finder);
        self
    }
}

impl fmt::Debug for ConsoleEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleEnvironment")
            .field("endpoint", &self.endpoint)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
