//! Notifications on the desktop when something waits for a decision.
//!
//! A notification is a hint to look, never a place to decide: it shows the application, the server and the tool, but no
//! arguments and no text of a server.

#[cfg(target_os = "linux")]
mod desktop;
#[cfg(not(target_os = "linux"))]
#[path = "no_desktop.rs"]
mod desktop;
mod notification_plan;

use std::convert::Infallible;
use std::time::Duration;

use hospes_console::ConsoleServer;
use hospes_host::Host;
use hospes_host::approvals::{Approval, ApprovalState};
use jiff::Timestamp;

use self::desktop::Desktop;
use self::notification_plan::{Notification, NotificationPlan, NotificationStep};
use crate::commands::console::open_in_browser;

/// Time for which a test notification is shown.
const TEST_LIFETIME: Duration = Duration::from_secs(10);

/// Shows, replaces and closes the notification about what waits. Never returns.
pub(crate) async fn show(host: &Host, is_enabled: bool, console: Option<&ConsoleServer>) -> Infallible {
    let Some(queue) = host.guard().filter(|_| is_enabled).map(|guard| guard.approvals().clone()) else {
        return std::future::pending().await;
    };
    let mut changes = queue.subscribe();
    let mut plan = NotificationPlan::default();
    let mut desktop = Desktop::default();
    loop {
        // Before the queue is read, so that every later change ends the wait below.
        changes.mark_unchanged();
        let now = Timestamp::now();
        match plan.next(now, &queue.pending(), last_decision(&queue.recent())) {
            NotificationStep::Show(notification) => desktop.show(&notification, console.is_some()).await,
            NotificationStep::Close => desktop.close().await,
            NotificationStep::Nothing => {}
        }
        let wake = async {
            match plan.wakes_at() {
                Some(at) => tokio::time::sleep(at.duration_since(now).unsigned_abs()).await,
                None => std::future::pending().await,
            }
        };
        // Each of these is cancelled without loss: the queue is read again, and the signals are queued.
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return std::future::pending().await },
            () = wake => {}
            () = desktop.look_requested() => {
                if let Some(console) = console {
                    let url = console.link().url().to_owned();
                    // In a task of its own, because the page stays for some seconds.
                    tokio::spawn(async move {
                        if !open_in_browser(&url).await {
                            tracing::warn!("no browser could be opened for the console");
                        }
                    });
                }
            }
        }
    }
}

/// Shows a notification that a person has asked for, to see whether the desktop shows any.
pub(crate) async fn show_test() {
    let notification = Notification {
        summary: "Hospes: a test notification".to_owned(),
        body: "When a call waits for you, it looks like this.".to_owned(),
        lifetime: TEST_LIFETIME,
    };
    Desktop::default().show(&notification, false).await;
}

/// Returns the time of the last decision of a person.
fn last_decision(recent: &[Approval]) -> Option<Timestamp> {
    let decided =
        recent.iter().filter(|one| matches!(one.state, ApprovalState::Allowed | ApprovalState::Denied));
    decided.filter_map(|one| one.decided.as_ref().map(|record| record.at)).max()
}
