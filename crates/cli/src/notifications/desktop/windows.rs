//! Notifications on Windows: toasts. A click opens the console.
//!
//! The system wants the id of an installed application, which an unpacked program has not, so that they appear under the
//! name of PowerShell. A toast is not replaced by the next one and not closed; both stay in the list of the system.

use std::time::Duration;

use tauri_winrt_notification::Toast;
use tokio::sync::mpsc;

use super::{FailureReport, with_advice};
use crate::notifications::notification_plan::Notification;

/// Maximum time of one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The desktop of the user.
#[derive(Debug)]
pub(in crate::notifications) struct Desktop {
    failures: FailureReport,
    /// Clicks. One that waits stands for all.
    clicked: mpsc::Sender<()>,
    clicks: mpsc::Receiver<()>,
}

impl Default for Desktop {
    fn default() -> Self {
        let (clicked, clicks) = mpsc::channel(1);
        Self { failures: FailureReport::default(), clicked, clicks }
    }
}

impl Desktop {
    /// Shows a notification. `can_look` makes a click on it open the console.
    pub(in crate::notifications) async fn show(&mut self, notification: &Notification, can_look: bool) {
        let summary = notification.summary.clone();
        let body = if can_look { notification.body.clone() } else { with_advice(notification) };
        let clicked = can_look.then(|| self.clicked.clone());
        // The system may start a service for the first one, which blocks.
        let show = tokio::task::spawn_blocking(move || {
            let mut toast = Toast::new(Toast::POWERSHELL_APP_ID).title(&summary).text1(&body);
            if let Some(clicked) = clicked {
                toast = toast.on_activated(move |_| {
                    let _queued = clicked.try_send(());
                    Ok(())
                });
            }
            toast.show().map_err(|error| error.to_string())
        });
        let problem = match tokio::time::timeout(CALL_TIMEOUT, show).await {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(problem))) => problem,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {CALL_TIMEOUT:?}"),
        };
        self.failures.report(&problem);
    }

    /// Does nothing: the person closes it.
    #[expect(clippy::unused_async, reason = "the same function as on other systems")]
    pub(in crate::notifications) async fn close(&mut self) {}

    /// Waits for a click. It loses none if it is cancelled.
    pub(in crate::notifications) async fn look_requested(&mut self) {
        if self.clicks.recv().await.is_none() {
            std::future::pending().await
        }
    }
}
