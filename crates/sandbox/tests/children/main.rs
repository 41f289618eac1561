//! Real servers, started by the real helper, confined by real bubblewrap and by the kernel that the tests run on.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

mod confined;
mod hostile;
mod orphans;
mod started;

use std::path::Path;
use std::time::{Duration, Instant};

use hospes_sandbox::{Files, Helper, Kind, Launch, Network, Profile, Unenforceable};

/// Maximum time to wait for anything.
const PATIENCE: Duration = Duration::from_secs(30);

fn helper() -> Helper {
    Helper::at(env!("CARGO_BIN_EXE_hospes-run-child"))
}

const NAUGHTY: &str = env!("CARGO_BIN_EXE_hospes-naughty");

/// Returns the commands that start a server with this profile, for each of the two mechanisms. A mechanism that does
/// not work on this machine is omitted, with a message.
fn both(profile: &Profile) -> Vec<Launch> {
    [Kind::Bubblewrap, Kind::Landlock].into_iter().filter_map(|kind| by(kind, profile)).collect()
}

fn by(kind: Kind, profile: &Profile) -> Option<Launch> {
    match helper().launch(&profile.clone().with_kind(kind), None) {
        Ok(launch) => Some(launch),
        Err(why @ (Unenforceable::Bubblewrap(_) | Unenforceable::Landlock(_))) => {
            eprintln!("SKIPPED, not tested on this machine: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

fn confined(files: Files) -> Profile {
    Profile::new().with_files(files).with_network(Network::None)
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
