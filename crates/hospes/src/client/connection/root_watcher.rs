//! Watch over the folders that a server may work in.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hospes_model::Notification;

use crate::client::connection::core::ClientCore;

/// Interval between checks for folders that disappeared or returned.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

impl ClientCore {
    /// Notifies an older server when a folder disappears or returns (ROOT-18). Modern servers request the roots with
    /// every call.
    pub(crate) fn spawn_root_watcher(self: &Arc<Self>) {
        let tells =
            self.settings.capabilities.roots.as_ref().is_some_and(|roots| roots.list_changed == Some(true));
        if tells && self.protocol.revision.is_legacy() {
            tokio::spawn(run_root_watcher(Arc::downgrade(self)));
        }
    }
}

async fn run_root_watcher(core: Weak<ClientCore>) {
    let mut last = None;
    loop {
        let Some(strong) = core.upgrade() else { return };
        if strong.dispatcher.closed().is_some() {
            return;
        }
        let roots = &strong.dispatcher.handlers.roots;
        let now = if roots.has_watched_folders() { roots.list_accessible().await } else { None };
        if last.is_some() && now.is_some() && last != now {
            tracing::info!("accessible roots changed");
            strong.link.notify(&Notification::RootsListChanged, &strong.protocol);
        }
        last = now;
        // Released before the pause: being watched must not keep the connection open.
        drop(strong);
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}
