//! Errors of a profile that cannot be enforced.

use std::path::PathBuf;

/// Reasons a profile cannot be enforced here. The server must not be started then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// There is no sandbox for this system.
    #[error("its sandbox cannot be enforced: there is none on {}", std::env::consts::OS)]
    System,
    /// The host was not told which program is its helper.
    #[error("its sandbox cannot be enforced: this program brings no helper to start servers with")]
    NoHelper,
    /// Bubblewrap is demanded and does not work.
    #[error("its sandbox cannot be enforced: {0}")]
    Bubblewrap(String),
    /// Landlock is demanded and does not work.
    #[error("its sandbox cannot be enforced: {0}")]
    Landlock(String),
    /// Neither works.
    #[error("its sandbox cannot be enforced: {bubblewrap}, and {landlock}")]
    Neither {
        /// Reason bubblewrap does not work.
        bubblewrap: String,
        /// Reason Landlock does not work.
        landlock: String,
    },
    /// A granted path does not exist or cannot be used.
    #[error("its sandbox cannot be enforced: {} cannot be granted: {why}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Description of the problem.
        why: String,
    },
    /// The server would start in a folder that it may not see.
    #[error("its sandbox cannot be enforced: it is to start in {}, which it may not read", .0.display())]
    Folder(PathBuf),
}

impl SandboxError {
    /// Returns advice on how to fix the error.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::System => "take `sandbox` out of its configuration to run it with all that its user may",
            Self::NoHelper => "give the host a `Helper`, or take `sandbox` out of the server's configuration",
            Self::Bubblewrap(_) => {
                "install bubblewrap (Debian, Fedora, Arch: package `bubblewrap`) and allow user namespaces, or let \
                 `sandbox.kind` be \"auto\""
            }
            Self::Landlock(_) => {
                "boot a Linux of 6.2 or newer with Landlock, or let `sandbox.kind` be \"auto\""
            }
            Self::Neither { .. } => {
                "install bubblewrap (Debian, Fedora, Arch: package `bubblewrap`) and allow user namespaces, or boot a \
                 Linux of 6.2 or newer with Landlock"
            }
            Self::Path { .. } => "make it, or take it out of `sandbox.files`",
            Self::Folder(_) => "add the folder to `sandbox.files`, or change `cwd`",
        }
    }
}
