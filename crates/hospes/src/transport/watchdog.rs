//! Watchdog that ends the process if a handler that holds its thread keeps it from ending.
//!
//! It runs on threads of its own, with a runtime of its own. Signals and the end of stdin are noticed regardless of the
//! server's runtime.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

#[cfg(all(unix, feature = "stdio"))]
use super::hang_up::HangUp;
use super::signal::Signals;

/// Time beyond the shutdown timeout for handlers to stop and for answers to go out.
const SHUTDOWN_MARGIN: Duration = Duration::from_millis(1500);
/// Maximum time that the process continues after the end of the server while a handler still has its thread.
const HANDLER_GRACE: Duration = Duration::from_millis(200);
/// Interval of its checks while something ends.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Exit code if the end was not requested by a signal, which has its own code.
const STUCK_EXIT_CODE: i32 = 1;

/// Progress of a connection with reading and writing.
#[derive(Debug, Default)]
pub(crate) struct ProgressPulse(AtomicU64);

impl ProgressPulse {
    /// Something was read or written.
    #[cfg_attr(not(feature = "stdio"), expect(dead_code, reason = "for stdio alone"))]
    pub(crate) fn record_progress(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchdogStage {
    Serving,
    /// The server has come to its end.
    Served,
}

/// Watcher of a server that has the process to itself. Dropping it is the end of the server.
#[derive(Debug)]
pub(crate) struct Watchdog {
    stage: watch::Sender<WatchdogStage>,
    pulse: Arc<ProgressPulse>,
    asked: Option<oneshot::Receiver<()>>,
    /// Closed with this.
    #[cfg(all(unix, feature = "stdio"))]
    _hang_up: Option<io::PipeWriter>,
}

impl Watchdog {
    /// Watches over a server that has `limit` to end, once it was asked to. `running` says how many of its handlers run.
    ///
    /// # Errors
    /// When signals cannot be waited for.
    pub(crate) fn start(
        limit: Duration,
        of_stdin: bool,
        running: impl Fn() -> usize + Send + 'static,
    ) -> io::Result<Self> {
        let (stage, served) = watch::channel(WatchdogStage::Serving);
        let (ask, asked) = oneshot::channel();
        let (hang_up, hung_up) = oneshot::channel();
        let pulse = Arc::new(ProgressPulse::default());
        let runtime = Builder::new_current_thread().enable_all().build()?;
        // Registered with the watchdog's runtime, which no handler
        // blocks; and here, so that a failure is returned.
        let signals = {
            let _entered = runtime.enter();
            Signals::new()?
        };
        let watch = WatchdogTask {
            limit: limit + SHUTDOWN_MARGIN,
            pulse: Arc::clone(&pulse),
            served,
            signals,
            running,
        };
        #[cfg(all(unix, feature = "stdio"))]
        let _hang_up = if of_stdin { Some(HangUp::watch(hang_up)?) } else { None };
        #[cfg(not(all(unix, feature = "stdio")))]
        let _ = (of_stdin, hang_up);
        let watch = move || runtime.block_on(watch.watch(ask, hung_up));
        std::thread::Builder::new().name("hospes-watchdog".to_owned()).spawn(watch)?;
        Ok(Self {
            stage,
            pulse,
            asked: Some(asked),
            #[cfg(all(unix, feature = "stdio"))]
            _hang_up,
        })
    }

    /// The counter by which the connection shows that it makes progress.
    #[cfg_attr(not(feature = "stdio"), expect(dead_code, reason = "for stdio alone"))]
    pub(crate) fn pulse(&self) -> Arc<ProgressPulse> {
        Arc::clone(&self.pulse)
    }

    /// Ready when a signal asks for the end; to be taken once.
    pub(crate) fn asked(&mut self) -> impl Future<Output = ()> + use<> {
        let asked = self.asked.take();
        async move {
            let asked = match asked {
                Some(asked) => asked.await.is_ok(),
                None => false,
            };
            // A watchdog that ended without a signal asks for nothing.
            if !asked {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stage.send_replace(WatchdogStage::Served);
    }
}

struct WatchdogTask<R> {
    limit: Duration,
    pulse: Arc<ProgressPulse>,
    served: watch::Receiver<WatchdogStage>,
    signals: Signals,
    running: R,
}

impl<R: Fn() -> usize> WatchdogTask<R> {
    async fn watch(mut self, ask: oneshot::Sender<()>, hung_up: oneshot::Receiver<()>) {
        let hung_up = async {
            if hung_up.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            code = self.signals.next() => {
                // The server may have ended, or may not listen for this.
                let _ = ask.send(());
                self.expect_end(Some(code)).await;
            }
            () = hung_up => {
                let mut ask = Some(ask);
                while let Some(code) = self.expect_end(None).await {
                    let _ = ask.take().map(|ask| ask.send(()));
                    if self.expect_end(Some(code)).await.is_none() {
                        break;
                    }
                }
            }
            _ = self.served.changed() => {
                self.expect_end(None).await;
            }
        }
    }

    /// Returns when nothing holds the process any more, or with the first signal's code; does not return where something
    /// holds it for too long.
    async fn expect_end(&mut self, code: Option<i32>) -> Option<i32> {
        let mut deadline = Instant::now() + self.limit;
        let mut served_at = None;
        let mut beats = self.pulse.0.load(Ordering::Relaxed);
        loop {
            if *self.served.borrow() == WatchdogStage::Served {
                if (self.running)() == 0 {
                    return None;
                }
                // What was served has had its time; what is left is what does not stop.
                deadline = *served_at.get_or_insert_with(|| Instant::now() + HANDLER_GRACE);
            } else if code.is_none() {
                // There may be much to read yet, and to answer.
                let now = self.pulse.0.load(Ordering::Relaxed);
                if std::mem::replace(&mut beats, now) != now {
                    deadline = Instant::now() + self.limit;
                }
            }
            if Instant::now() >= deadline {
                tracing::error!(
                    handlers = (self.running)(),
                    "a handler still blocked its thread after the shutdown timeout: terminating the process"
                );
                std::process::exit(code.unwrap_or(STUCK_EXIT_CODE));
            }
            tokio::select! {
                again = self.signals.next() => match code {
                    // The second: whoever asks again does not want to wait.
                    Some(code) => std::process::exit(code),
                    None => return Some(again),
                },
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
            }
        }
    }
}
