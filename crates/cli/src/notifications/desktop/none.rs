//! No notifications on systems that have none.

use crate::notifications::notification_plan::Notification;

#[derive(Debug, Default)]
pub(in crate::notifications) struct Desktop;

impl Desktop {
    pub(in crate::notifications) async fn show(&mut self, _notification: &Notification, _can_look: bool) {}

    pub(in crate::notifications) async fn close(&mut self) {}

    pub(in crate::notifications) async fn look_requested(&mut self) {
        std::future::pending().await
    }
}
