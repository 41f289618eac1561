//! No notifications on systems other than Linux.

use super::notification_plan::Notification;

#[derive(Debug, Default)]
pub(super) struct Desktop;

impl Desktop {
    pub(super) async fn show(&mut self, _notification: &Notification, _can_look: bool) {}

    pub(super) async fn close(&mut self) {}

    pub(super) async fn look_requested(&mut self) {
        std::future::pending().await
    }
}
