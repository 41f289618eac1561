//! What the program can be told to do.

pub(crate) mod call;
pub(crate) mod list;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod stdio;
pub(crate) mod up;

use tokio::signal::unix::{SignalKind, signal};

/// Resolves when the program is asked to end: Ctrl-C, or SIGTERM, or the terminal goes away.
pub(crate) async fn asked_to_end() {
    let listen = |kind| async move {
        match signal(kind) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = listen(SignalKind::interrupt()) => {}
        () = listen(SignalKind::terminate()) => {}
        () = listen(SignalKind::hangup()) => {}
    }
}
