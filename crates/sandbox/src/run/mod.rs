//! The helper process between the host and a server. Its first stage ([`supervise`]) supervises the server; its second
//! stage ([`become_server`](confine::become_server)) becomes the server.

pub(crate) mod bubblewrap;
mod confine;
mod helper_task;
pub(crate) mod landlock;
mod mounts;
mod parent_process;
mod process_tree;
pub(crate) mod seccomp;
mod supervise;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use helper_task::HelperStage;
pub(crate) use helper_task::HelperTask;

use crate::{SandboxError, SandboxProfile, available};

/// Returns the task of the helper for a server with this profile.
pub(crate) fn order(profile: &SandboxProfile, cwd: Option<&Path>) -> Result<HelperTask, SandboxError> {
    let (means, bubblewrap) = available::choose(profile)?;
    HelperTask::new(profile, means, bubblewrap, cwd)
}

/// Entry point of the helper. The `main` of the program used as [`SandboxHelper`](crate::SandboxHelper) must call it
/// first, with `word` and the arguments after it.
///
/// It returns when the server has ended or could not be started.
#[must_use]
pub fn entry(word: Option<OsString>, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let order = match HelperTask::parse(args) {
        Ok(order) => order,
        Err(why) => {
            say(&format!("this is an internal command that Hospes uses to start servers ({why})"));
            return ExitCode::from(USAGE);
        }
    };
    match order.stage {
        HelperStage::Supervise => supervise::supervise(&order, word),
        HelperStage::Become => confine::become_server(&order),
    }
}

/// Exit code of shells for a command that was found but could not be started.
const CANNOT_START: u8 = 126;
/// Exit code if the helper itself was called wrongly (`EX_USAGE`).
const USAGE: u8 = 64;

/// Prints an error. The host shows the last lines of stderr if a server does not start.
#[expect(clippy::print_stderr, reason = "stderr is how a server's process explains itself")]
fn say(what: &str) {
    eprintln!("hospes: {what}");
}
