//! Notifications on macOS, shown by `osascript`, which is part of the system.
//!
//! The interface of the system for programs requires a signed application bundle, which `hospes` is not. A notification of
//! `osascript` can be neither replaced nor closed, and a click on it does not come back.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::{FailureReport, with_advice};
use crate::notifications::notification_plan::Notification;

/// By its path, because what is first in `PATH` may be another program.
const PROGRAM: &str = "/usr/bin/osascript";
/// The texts are arguments of the script, so that they are never a part of it.
const SCRIPT: [&str; 3] =
    ["on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run"];
/// Maximum time of one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The desktop of the user.
#[derive(Debug, Default)]
pub(in crate::notifications) struct Desktop {
    failures: FailureReport,
}

impl Desktop {
    /// Shows a notification.
    pub(in crate::notifications) async fn show(&mut self, notification: &Notification, _can_look: bool) {
        if let Err(problem) = show(notification).await {
            self.failures.report(&problem);
        }
    }

    /// Does nothing: the system closes it.
    #[expect(clippy::unused_async, reason = "the same function as on other systems")]
    pub(in crate::notifications) async fn close(&mut self) {}

    /// Never returns: there is no button.
    pub(in crate::notifications) async fn look_requested(&mut self) {
        std::future::pending().await
    }
}

async fn show(notification: &Notification) -> Result<(), String> {
    let mut command = Command::new(PROGRAM);
    command.args(arguments(notification)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.kill_on_drop(true).status();
    match tokio::time::timeout(CALL_TIMEOUT, status).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("{PROGRAM}: {status}")),
        Ok(Err(error)) => Err(format!("{PROGRAM}: {error}")),
        Err(_) => Err(format!("no answer of {PROGRAM} within {CALL_TIMEOUT:?}")),
    }
}

/// Returns the arguments of the program. A summary never begins with a hyphen, and nothing after it is an option.
fn arguments(notification: &Notification) -> Vec<OsString> {
    let script = SCRIPT.iter().flat_map(|line| ["-e".into(), OsString::from(line)]);
    script.chain([notification.summary.clone().into(), with_advice(notification).into()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_arguments_and_no_part_of_the_script() {
        let notification = Notification {
            summary: "Hospes: 1 call waits for you".to_owned(),
            body: "mail\" & (do shell script \"x\"): call".to_owned(),
            lifetime: Duration::ZERO,
        };
        let arguments = arguments(&notification);
        assert_eq!(arguments.len(), 8);
        assert!(arguments[..6].iter().all(|word| !word.to_string_lossy().contains("mail")));
        assert!(arguments[7].to_string_lossy().starts_with("mail\" & ("));
    }
}
