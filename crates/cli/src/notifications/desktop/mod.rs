//! Notifications on the desktop of the user, with one implementation for each system. All have the same items.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
#[path = "none.rs"]
mod other;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub(super) use linux::Desktop;
#[cfg(target_os = "macos")]
pub(super) use macos::Desktop;
#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
pub(super) use other::Desktop;
#[cfg(windows)]
pub(super) use windows::Desktop;

use super::notification_plan::Notification;

/// Returns the text of a notification that cannot open the console: it names the commands that lead to the decision.
fn with_advice(notification: &Notification) -> String {
    format!("{}\nDecide with `hospes approve` or `hospes console`.", notification.body)
}

/// Report of the first failure. The others would say the same.
#[derive(Debug, Default)]
struct FailureReport {
    is_done: bool,
}

impl FailureReport {
    fn report(&mut self, problem: &str) {
        if !std::mem::replace(&mut self.is_done, true) {
            tracing::warn!(
                problem,
                "desktop notifications cannot be shown; `notify.desktop = false` disables them"
            );
        }
    }
}
