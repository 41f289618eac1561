//! Conversion of a profile to the helper's command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::profile::Confinement;
use crate::{SandboxError, SandboxProfile};

/// The program that starts servers: its `main` calls `entry`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxHelper {
    /// Path of the program.
    pub program: PathBuf,
    /// Word by which the program knows that it runs as the helper. None for a program that is only a helper.
    pub word: Option<OsString>,
}

/// Command that starts a server: the helper with these arguments, then `--`, the server's program and its arguments.
/// The server's variables have the prefix [`ENV_PREFIX`](crate::ENV_PREFIX) in the helper's environment.
///
/// The helper stands in for the server: it has the server's pipes and its exit status. `SIGTERM` asks the server to
/// end; `SIGQUIT` kills it and all its descendants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchCommand {
    /// Path of the helper.
    pub program: PathBuf,
    /// Arguments of the helper.
    pub args: Vec<OsString>,
    /// Confinement of the server.
    pub confinement: Confinement,
}

impl SandboxHelper {
    /// Uses the running program as the helper, even if its file has been replaced since. It acts as the helper when its
    /// first argument is `word`.
    #[must_use]
    pub fn this_program(word: impl Into<OsString>) -> Self {
        Self { program: "/proc/self/exe".into(), word: Some(word.into()) }
    }

    /// Uses another program, which is only a helper.
    #[must_use]
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), word: None }
    }

    /// Returns the command that starts a server with this profile. It may start a program to detect the available
    /// mechanisms, so it may block.
    ///
    /// `cwd` is the configured working folder of the server, if any.
    ///
    /// # Errors
    /// If the profile cannot be enforced. The server must not be started then.
    #[cfg(target_os = "linux")]
    pub fn launch(
        &self,
        profile: &SandboxProfile,
        cwd: Option<&Path>,
    ) -> Result<LaunchCommand, SandboxError> {
        let order = crate::run::order(profile, cwd)?;
        let confinement = order.confinement();
        let args = self.word.iter().cloned().chain(order.into_args()).collect();
        Ok(LaunchCommand { program: self.program.clone(), args, confinement })
    }

    /// Rejects every profile with restrictions, because there is no helper on this system.
    ///
    /// # Errors
    /// If the profile has restrictions.
    #[cfg(not(target_os = "linux"))]
    pub fn launch(&self, _: &SandboxProfile, _: Option<&Path>) -> Result<LaunchCommand, SandboxError> {
        Err(SandboxError::System)
    }

    /// Returns true if servers are started by a helper on this system.
    #[must_use]
    pub fn is_supported() -> bool {
        cfg!(target_os = "linux")
    }
}
