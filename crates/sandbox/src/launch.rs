//! From a profile to the helper's command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::profile::Confinement;
#[cfg(not(target_os = "linux"))]
use crate::profile::SandboxMechanism;
use crate::{SandboxError, SandboxProfile};

/// The program that starts servers: one whose `main` calls `entry`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxHelper {
    /// The program.
    pub program: PathBuf,
    /// Word by which the program knows that it runs as the helper. None for a program that is only a helper.
    pub word: Option<OsString>,
}

/// Command that starts a server: the helper with these arguments, then `--`, the server's program and its arguments.
/// The server's variables have the prefix [`ENV_PREFIX`](crate::ENV_PREFIX) in the helper's environment.
///
/// The helper takes the server's place: it has its pipes, and its exit is the server's. `SIGTERM` has the server asked to
/// end, `SIGQUIT` kills it and all that it has started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchCommand {
    /// The helper.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Confinement of the server.
    pub confinement: Confinement,
}

impl SandboxHelper {
    /// The program that runs, even if its file has been replaced since: it is the helper when its first argument is
    /// `word`.
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
    /// `cwd` is the folder that the server is to start in, if that was said.
    ///
    /// # Errors
    /// When something that the profile demands cannot be enforced: the server must not be started.
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

    /// There is no helper on this system, so nothing can be demanded.
    ///
    /// # Errors
    /// When the profile demands something.
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
