//! The second stage of the helper: it confines itself and becomes the server.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use nix::sys::signal::SigSet;
use rustix::process::Signal;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::helper_task::HelperTask;
use super::{CANNOT_START, landlock, mounts, say, seccomp};
use crate::ENV_PREFIX;
use crate::profile::SandboxMechanism;

/// Executes the server. Returns only on failure.
pub(super) fn become_server(order: &HelperTask) -> ExitCode {
    let Some((program, args)) = order.command.split_first() else { return ExitCode::from(CANNOT_START) };
    if let Err(why) = prepare(order) {
        say(&why);
        return ExitCode::from(CANNOT_START);
    }
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(environment());
    if let Some(folder) = &order.temporary
        && !environment().any(|(name, _)| name == "TMPDIR")
    {
        command.env("TMPDIR", folder);
    }
    let error = command.exec();
    say(&format!("{} could not be started: {error}", program.display()));
    ExitCode::from(CANNOT_START)
}

fn prepare(order: &HelperTask) -> Result<(), String> {
    let say = |what: &str, error: &dyn std::fmt::Display| {
        format!("the server cannot be started safely: {what}: {error}")
    };
    // The first stage has blocked signals for itself; the server must receive them.
    SigSet::empty().thread_set_mask().map_err(|error| say("signals", &error))?;
    // Before the death of the parent is tied to this process, because changed credentials would undo that.
    let guarded_by_mounts = order.means == SandboxMechanism::Landlock && mounts::make_read_only(order);
    if order.means != SandboxMechanism::Bubblewrap {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| say("parent-death signal", &error))?;
        // The parent may have ended before the death signal was set.
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
        if parent != Some(order.parent) {
            return Err("the host process has exited".to_owned());
        }
    }
    if order.means == SandboxMechanism::Nothing {
        return Ok(());
    }
    if order.means == SandboxMechanism::Landlock {
        // A session of its own, so that the server cannot use the host's terminal.
        rustix::process::setsid().map_err(|error| say("new session", &error))?;
        drop_capabilities().map_err(|error| say("capabilities", &error))?;
        landlock::restrict(order).map_err(|error| say("files", &error))?;
    }
    // Last, because the filter denies calls such as `mount`, which the earlier steps make.
    seccomp::restrict(order, guarded_by_mounts).map_err(|error| say("system calls", &error))
}

/// Drops all capabilities, so that root has no more rights than other users.
fn drop_capabilities() -> rustix::io::Result<()> {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::capability_is_in_bounding_set(one) {
            Ok(true) => match rustix::thread::remove_capability_from_bounding_set(one) {
                // A user without capabilities has nothing to drop.
                Ok(()) | Err(rustix::io::Errno::PERM) => {}
                Err(error) => return Err(error),
            },
            Ok(false) => {}
            // The kernel knows no capability of this or a higher number.
            Err(_) => break,
        }
    }
    // After the bounding set, which cannot be changed without capabilities.
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )
}

/// Returns the server's variables under their own names.
fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter_map(|(name, value)| {
        let own = name.as_bytes().strip_prefix(ENV_PREFIX.as_bytes())?;
        Some((OsStr::from_bytes(own).to_owned(), value))
    })
}
