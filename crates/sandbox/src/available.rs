//! Detection of the mechanisms that can confine a program on this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::profile::{SandboxKind, SandboxMechanism, SandboxProfile};
use crate::run::{bubblewrap, landlock, seccomp};
use crate::{SandboxError, SandboxNetwork};

/// Path of bubblewrap, once it has worked. If bubblewrap is installed later, the host need not be restarted.
static BUBBLEWRAP: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Chooses the mechanism that enforces a profile. Also returns the path of bubblewrap if that is chosen.
pub(crate) fn choose(profile: &SandboxProfile) -> Result<(SandboxMechanism, Option<PathBuf>), SandboxError> {
    match profile.kind {
        SandboxKind::Off => Ok((SandboxMechanism::Nothing, None)),
        // With nothing to enforce, no mechanism needs to work, and none is probed.
        SandboxKind::Auto if !profile.is_demanding() => Ok((SandboxMechanism::Nothing, None)),
        SandboxKind::Bubblewrap => {
            let found = probe_bubblewrap().map_err(SandboxError::Bubblewrap)?;
            Ok((SandboxMechanism::Bubblewrap, Some(found)))
        }
        SandboxKind::Landlock => {
            check_kernel().map_err(SandboxError::Landlock)?;
            Ok((SandboxMechanism::Landlock, None))
        }
        SandboxKind::Auto => match probe_bubblewrap() {
            Ok(found) => Ok((SandboxMechanism::Bubblewrap, Some(found))),
            Err(bubblewrap) => match check_kernel() {
                Ok(()) => Ok((SandboxMechanism::Landlock, None)),
                Err(landlock) => Err(SandboxError::Neither { bubblewrap, landlock }),
            },
        },
    }
}

/// Returns the path of a bubblewrap that can enforce every profile.
fn probe_bubblewrap() -> Result<PathBuf, String> {
    // Held while bubblewrap is probed, so that only one of many starting servers probes it.
    let mut known = BUBBLEWRAP.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // It may have been uninstalled in the meantime.
    if let Some(found) = known.as_ref().filter(|found| found.is_file()) {
        return Ok(found.clone());
    }
    let path = std::env::var_os("PATH");
    let found = crate::resolve("bwrap".as_ref(), path.as_deref(), Path::new("/"))
        .map_err(|_| "bubblewrap is not installed".to_owned())?;
    let mut probe = Command::new(&found);
    // The strictest isolation: if it works, every profile does.
    probe.args(bubblewrap::isolation(SandboxNetwork::None)).args([
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]);
    probe.args(["--", "/bin/sh", "-c", "exit 0"]).env_clear();
    let ended =
        probe.stdin(Stdio::null()).output().map_err(|error| format!("bubblewrap does not start: {error}"))?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        let said = said.lines().next().unwrap_or("no error message");
        return Err(format!("bubblewrap does not work on this system ({said})"));
    }
    Ok(known.insert(found).clone())
}

/// Checks that this kernel supports Landlock and seccomp.
fn check_kernel() -> Result<(), String> {
    landlock::check_support()?;
    seccomp::check_support()
}
