//! A clock that stands still until a test moves it, beside real sockets.

use std::sync::mpsc;
use std::time::Duration;

/// Paused clock of the test's runtime. It stays paused when this is dropped, but advances again whenever the runtime is
/// idle.
pub(crate) struct Clock(#[expect(dead_code, reason = "a task waits for its end")] mpsc::Sender<()>);

impl Clock {
    pub(crate) fn stop() -> Self {
        tokio::time::pause();
        // To wait for a socket looks like having nothing to do, unless there is work elsewhere.
        let (working, work) = mpsc::channel();
        tokio::task::spawn_blocking(move || work.recv());
        Self(working)
    }

    pub(crate) async fn advance(&self, by: Duration) {
        tokio::time::advance(by).await;
    }
}
