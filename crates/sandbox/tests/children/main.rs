//! Real servers, started by the real helper, confined by real bubblewrap and by the kernel that the tests run on.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

mod confined;
mod hostile;
mod orphans;
mod started;

use std::path::Path;
use std::time::{Duration, Instant};

use hospes_sandbox::{
    LaunchCommand, SandboxError, SandboxFiles, SandboxHelper, SandboxKind, SandboxNetwork, SandboxProfile,
};

/// Maximum time to wait for anything.
const PATIENCE: Duration = Duration::from_secs(30);

fn helper() -> SandboxHelper {
    SandboxHelper::at(env!("CARGO_BIN_EXE_hospes-run-child"))
}

const NAUGHTY: &str = env!("CARGO_BIN_EXE_hospes-naughty");

/// Returns the commands that start a server with this profile, for each of the two mechanisms. A mechanism that does
/// not work on this machine is omitted, with a message.
fn both(profile: &SandboxProfile) -> Vec<LaunchCommand> {
    [SandboxKind::Bubblewrap, SandboxKind::Landlock]
        .into_iter()
        .filter_map(|kind| by(kind, profile))
        .collect()
}

fn by(kind: SandboxKind, profile: &SandboxProfile) -> Option<LaunchCommand> {
    match helper().launch(&profile.clone().with_kind(kind), None) {
        Ok(launch) => Some(launch),
        Err(why @ (SandboxError::Bubblewrap(_) | SandboxError::Landlock(_))) => {
            eprintln!("SKIPPED, not tested on this machine: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

fn confined(files: SandboxFiles) -> SandboxProfile {
    SandboxProfile::new().with_files(files).with_network(SandboxNetwork::None)
}

/// A path as an argument.
fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Waits until it holds.
#[track_caller]
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
