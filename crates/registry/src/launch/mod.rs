//! From an entry and the answers to its questions to what is started: a command or a URL. Nothing is run here, and no
//! shell is involved: arguments are items of a list.

mod answers;
mod arguments;
mod choice;
mod docker;
mod local_name;
mod packages;
mod permission;
mod questions;
mod remote;
mod template;
mod text;
mod words;

use crate::entry::{ServerEntry, TransportKind};

pub use self::answers::{AnswerProblem, LaunchAnswers};
pub(crate) use self::choice::remote_host;
pub use self::choice::{
    LaunchChoice, LaunchObstacle, LaunchOption, OptionReason, launch_options, own_domain,
};
pub(crate) use self::docker::full_reference;
pub use self::local_name::local_name;
pub use self::packages::{InstallObstacle, install_obstacle, other_registry, source_install};
pub use self::permission::{LaunchPermission, NetworkSuggestion, SandboxSuggestion};
pub use self::questions::{LaunchQuestion, QuestionKind, QuestionTarget, questions};
pub(crate) use self::template::{Piece, pieces};
pub use self::text::{PlannedText, TextPart};
pub(crate) use self::words::{
    is_at_domain, is_registry_host, is_sha256, is_usual_registry, looks_like_range, package_name_problem,
    split_image,
};

/// Settings of a plan.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LaunchSettings {
    /// Private folder into which crates and Go modules are installed. Without it their programs are named relative to it.
    pub folder: Option<std::path::PathBuf>,
    /// Digest that was resolved for the artifact, as `sha256:…` or `sha512-…`. An image is pinned to it.
    pub digest: Option<String>,
    /// Program that runs containers, instead of `docker`.
    pub container_program: Option<String>,
    /// Program of the installed package and its first arguments, such as `node` and a file. It replaces the launcher of
    /// the package, which would download it. Empty if the package is not installed.
    pub installed: Vec<String>,
}

/// Plan of a start or of a connection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LaunchPlan {
    /// Full name of the entry in the registry.
    pub registry_name: String,
    /// The package or remote that was chosen.
    pub choice: LaunchChoice,
    /// Transport between the host and the server.
    pub transport: TransportKind,
    /// Program. It is absent for remotes, and for bundles, whose manifest names it.
    pub command: Option<String>,
    /// Arguments of the program.
    pub args: Vec<PlannedText>,
    /// Environment variables that are set for it.
    pub env: Vec<(String, PlannedText)>,
    /// URL of a remote.
    pub url: Option<PlannedText>,
    /// Headers of requests to a remote.
    pub headers: Vec<(String, PlannedText)>,
    /// Step that comes before the first start.
    pub install: Option<InstallStep>,
    /// Version that is started: of the package, or of the entry for a remote.
    pub version: Option<String>,
    /// Digest that the artifact must have, if the entry or the settings name one.
    pub digest: Option<String>,
    /// Secrets and where they stand.
    pub secrets: Vec<PlannedSecret>,
    /// Permissions that the command line grants to the server.
    pub permissions: Vec<LaunchPermission>,
    /// Proposal for the sandbox.
    pub sandbox: SandboxSuggestion,
    /// Notices for a person.
    pub warnings: Vec<LaunchWarning>,
}

/// A secret of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedSecret {
    /// Id of the question whose answer it is.
    pub question: String,
    /// Positions in the plan.
    pub positions: Vec<SecretPosition>,
}

/// A position that contains a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretPosition {
    /// Environment variable.
    Env(String),
    /// HTTP header.
    Header(String),
    /// Argument, counted from 0. Other programs of this machine can read it.
    Argument(usize),
    /// URL.
    Url,
}

/// A step before the first start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InstallStep {
    /// Run a program: compile and install into the private folder.
    Run {
        /// Program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Environment variables that are set for it.
        env: Vec<(String, String)>,
    },
    /// Download a bundle, check it, and unpack it. Its manifest names the command.
    Unpack {
        /// URL of the bundle.
        url: String,
        /// SHA-256 that the file must have, 64 hexadecimal digits.
        sha256: String,
    },
}

/// Notice for a person before a plan is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaunchWarning {
    /// A positional argument begins with `-`: the server may read it as an option.
    PositionalLooksLikeOption {
        /// The argument.
        value: String,
    },
    /// A secret stands in an argument, which other programs of this machine can read.
    SecretInArguments {
        /// Id of the question.
        question: String,
    },
    /// A secret stands in the URL, which servers and proxies record.
    SecretInUrl {
        /// Id of the question.
        question: String,
    },
    /// The version is not pinned: the entry names none.
    Unpinned,
    /// The image is named by a tag, which can be moved; no digest is known.
    TagNotDigest,
    /// The hint names a program that is not used.
    HintNotUsed {
        /// The hint.
        hint: String,
        /// Program that is used.
        used: String,
    },
    /// The entry gives arguments to the program that runs the package.
    RuntimeArguments(Vec<String>),
    /// The package comes from another package registry than usual.
    OtherPackageRegistry(String),
    /// `{name}` stands in a value, and the entry does not declare it. It stays as it is.
    UndeclaredVariable(String),
    /// The entry sets a variable that changes which code a program loads.
    CodeLoadingVariable(String),
    /// The program is compiled on this machine first, which runs code of the publisher.
    Compiles,
    /// The publisher asks for a step after installing. It is not run.
    PostInstall {
        /// Instruction.
        description: String,
        /// Command that the publisher proposes.
        command: Option<String>,
    },
    /// The endpoint is on this machine.
    LoopbackUrl,
}

/// Reasons there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The entry has no such package or remote.
    #[error("the entry has no such package or remote")]
    NoSuchChoice,
    /// It cannot be started here.
    #[error("it cannot be started here: {0}")]
    Obstacle(LaunchObstacle),
    /// The entry asks for something that is not safe.
    #[error("{path}: {what}")]
    Unsafe {
        /// Path in the entry.
        path: String,
        /// Description of the problem.
        what: String,
    },
    /// Answers are missing or wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Answers(Vec<AnswerProblem>),
}

impl LaunchPlan {
    /// Creates the plan of a package or remote from the answers to its [`questions`].
    ///
    /// # Errors
    /// If it cannot be started here, answers are missing or wrong, or the result would not be safe.
    pub fn new(
        entry: &ServerEntry,
        choice: LaunchChoice,
        answers: &LaunchAnswers,
        settings: &LaunchSettings,
    ) -> Result<Self, LaunchError> {
        let mut plan = match choice {
            LaunchChoice::Package(index) => {
                let package = entry.packages.get(index).ok_or(LaunchError::NoSuchChoice)?;
                packages::plan(entry, index, package, answers, settings)?
            }
            LaunchChoice::Remote(index) => {
                let remote = entry.remotes.get(index).ok_or(LaunchError::NoSuchChoice)?;
                remote::plan(entry, index, remote, answers)?
            }
        };
        plan.collect_secrets();
        Ok(plan)
    }

    fn empty(entry: &ServerEntry, choice: LaunchChoice, transport: TransportKind) -> Self {
        Self {
            registry_name: entry.name.clone(),
            choice,
            transport,
            command: None,
            args: Vec::new(),
            env: Vec::new(),
            url: None,
            headers: Vec::new(),
            install: None,
            version: None,
            digest: None,
            secrets: Vec::new(),
            permissions: Vec::new(),
            sandbox: SandboxSuggestion::default(),
            warnings: Vec::new(),
        }
    }

    /// Lists the secrets of all texts, and warns of those that others can read.
    fn collect_secrets(&mut self) {
        let mut found: Vec<(String, SecretPosition)> = Vec::new();
        let mut note = |text: &PlannedText, position: &dyn Fn() -> SecretPosition| {
            found.extend(text.secret_questions().map(|question| (question.to_owned(), position())));
        };
        for (name, text) in &self.env {
            note(text, &|| SecretPosition::Env(name.clone()));
        }
        for (name, text) in &self.headers {
            note(text, &|| SecretPosition::Header(name.clone()));
        }
        for (index, text) in self.args.iter().enumerate() {
            note(text, &|| SecretPosition::Argument(index));
        }
        if let Some(url) = &self.url {
            note(url, &|| SecretPosition::Url);
        }
        for (question, position) in found {
            let warning = match &position {
                SecretPosition::Argument(_) => {
                    Some(LaunchWarning::SecretInArguments { question: question.clone() })
                }
                SecretPosition::Url => Some(LaunchWarning::SecretInUrl { question: question.clone() }),
                SecretPosition::Env(_) | SecretPosition::Header(_) => None,
            };
            self.warnings.extend(warning.filter(|warning| !self.warnings.contains(warning)));
            match self.secrets.iter_mut().find(|secret| secret.question == question) {
                Some(secret) if !secret.positions.contains(&position) => secret.positions.push(position),
                Some(_) => {}
                None => self.secrets.push(PlannedSecret { question, positions: vec![position] }),
            }
        }
    }
}

#[cfg(test)]
mod tests;
