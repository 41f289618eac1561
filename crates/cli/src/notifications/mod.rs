//! Notifications when something waits for a decision, or a server needs the person.
//!
//! A notification is a hint to look, never a place to decide: it shows the application, the verb and the last part of the
//! target, but no other argument and no text of a server.

mod channels;
mod desktop;
mod notification_plan;
mod notification_text;
mod server_notices;

use std::convert::Infallible;
use std::time::Duration;

use hospes_console::ConsoleServer;
use hospes_host::Host;
use hospes_host::approvals::{Approval, ApprovalState};
use hospes_host::config::NotificationChannels;
use jiff::Timestamp;
use tokio::sync::watch;

use self::channels::NotificationSender;
use self::desktop::Desktop;
use self::notification_plan::{Notification, NotificationInput, NotificationPlan, NotificationStep};
use crate::commands::console::open_in_browser;

/// Time for which a test notification is shown.
const TEST_LIFETIME: Duration = Duration::from_secs(10);

/// Settings of the notifications.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotificationSettings {
    /// True if notifications are shown on the desktop.
    pub(crate) desktop: bool,
    /// Other ways in which they are sent.
    pub(crate) channels: NotificationChannels,
}

/// Shows, replaces and closes the notification about what waits. `screen` tells whether the screen of `hospes up` has the
/// focus. Never returns.
pub(crate) async fn show(
    host: &Host,
    settings: NotificationSettings,
    console: Option<&ConsoleServer>,
    mut screen: Option<watch::Receiver<bool>>,
) -> Infallible {
    let sender = NotificationSender::new(settings.channels);
    if !settings.desktop && !sender.is_used() {
        return std::future::pending().await;
    }
    let queue = host.guard().map(|guard| guard.approvals().clone());
    let mut changes = queue.as_ref().map(|queue| queue.subscribe());
    let mut page = console.map(ConsoleServer::is_focused);
    let mut plan = NotificationPlan::default();
    let mut desktop = Desktop::default();
    let mut seen = 0;
    loop {
        // Before anything is read, so that every later change ends the wait below.
        if let Some(changes) = &mut changes {
            changes.mark_unchanged();
        }
        let focus =
            [&mut page, &mut screen].map(|one| one.as_mut().is_some_and(|one| *one.borrow_and_update()));
        let now = Timestamp::now();
        let (pending, recent) = match &queue {
            Some(queue) => (queue.pending(), queue.recent()),
            None => (Vec::new(), Vec::new()),
        };
        let input = NotificationInput {
            pending: &pending,
            servers: &host.status().servers,
            last_decision: last_decision(&recent),
            is_focused: focus.contains(&true),
        };
        match plan.next(now, input) {
            NotificationStep::Show(notification) => {
                sender.send(&notification);
                if settings.desktop {
                    desktop.show(&notification, console.is_some()).await;
                }
            }
            NotificationStep::Close => desktop.close().await,
            NotificationStep::Nothing => {}
        }
        let wake = async {
            match plan.wakes_at() {
                Some(at) => tokio::time::sleep(at.duration_since(now).unsigned_abs()).await,
                None => std::future::pending().await,
            }
        };
        // Each of these is cancelled without loss: everything is read again, and the signals are queued.
        tokio::select! {
            () = changed(&mut changes) => {}
            () = changed(&mut page) => {}
            () = changed(&mut screen) => {}
            now = host.changed(seen) => seen = now,
            () = wake => {}
            () = desktop.look_requested() => {
                if let Some(console) = console {
                    let url = console.link().url().to_owned();
                    // In a task of its own, because the page stays for some seconds.
                    tokio::spawn(async move {
                        if !open_in_browser(&url).await {
                            tracing::warn!("no browser could be opened for the console; `hospes console` shows a link");
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

/// Waits for a change. Never returns if there is nothing to change any more.
async fn changed<T>(receiver: &mut Option<watch::Receiver<T>>) {
    if let Some(known) = receiver
        && known.changed().await.is_ok()
    {
        return;
    }
    *receiver = None;
    std::future::pending().await
}

/// Returns the time of the last decision of a person.
fn last_decision(recent: &[Approval]) -> Option<Timestamp> {
    let decided =
        recent.iter().filter(|one| matches!(one.state, ApprovalState::Allowed | ApprovalState::Denied));
    decided.filter_map(|one| one.decided.as_ref().map(|record| record.at)).max()
}
