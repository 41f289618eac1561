//! Errors of a profile that cannot be enforced.

use std::path::PathBuf;

/// Reasons a profile cannot be enforced here. The server must not be started then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// There is no sandbox for this operating system.
    #[error("its sandbox cannot be enforced: sandboxing is not supported on {}", std::env::consts::OS)]
    System,
    /// The program of the helper is not configured.
    #[error("its sandbox cannot be enforced: this program has no helper that starts servers")]
    NoHelper,
    /// Bubblewrap is required but does not work, with the reason.
    #[error("its sandbox cannot be enforced: {0}")]
    Bubblewrap(String),
    /// Landlock is required but does not work, with the reason.
    #[error("its sandbox cannot be enforced: {0}")]
    Landlock(String),
    /// Neither bubblewrap nor Landlock works.
    #[error("its sandbox cannot be enforced: {bubblewrap}, and {landlock}")]
    Neither {
        /// Reason bubblewrap does not work.
        bubblewrap: String,
        /// Reason Landlock does not work.
        landlock: String,
    },
    /// A granted path does not exist or cannot be used.
    #[error("its sandbox cannot be enforced: cannot grant access to {}: {why}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Description of the problem.
        why: String,
    },
    /// The profile does not grant access to the server's working folder.
    #[error("its sandbox cannot be enforced: its working directory {} is not readable for it", .0.display())]
    Folder(PathBuf),
}

impl SandboxError {
    /// Returns advice on how to fix the error.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::System => {
                "remove `sandbox` from its configuration to run it with all permissions of its user"
            }
            Self::NoHelper => "give the host a `Helper`, or remove `sandbox` from the server's configuration",
            Self::Bubblewrap(_) => {
                "install bubblewrap (Debian, Fedora, Arch: package `bubblewrap`) and allow user namespaces, or set \
                 `sandbox.kind` to \"auto\""
            }
            Self::Landlock(_) => "boot Linux 6.2 or newer with Landlock, or set `sandbox.kind` to \"auto\"",
            Self::Neither { .. } => {
                "install bubblewrap (Debian, Fedora, Arch: package `bubblewrap`) and allow user namespaces, or boot \
                 Linux 6.2 or newer with Landlock"
            }
            Self::Path { .. } => "create it, or remove it from `sandbox.files`",
            Self::Folder(_) => "add the folder to `sandbox.files`, or change `cwd`",
        }
    }
}
