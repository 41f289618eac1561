//! Counter of changes.

use tokio::sync::watch;

/// Counts the changes of all connections.
#[derive(Debug, Default)]
pub(crate) struct UpstreamEpoch(watch::Sender<u64>);

impl UpstreamEpoch {
    pub(crate) fn now(&self) -> u64 {
        *self.0.borrow()
    }

    pub(crate) fn bump(&self) {
        // Unlike `send`, this counts while nobody has subscribed, too.
        self.0.send_modify(|epoch| *epoch += 1);
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}
