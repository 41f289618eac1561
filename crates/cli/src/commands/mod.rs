//! Commands of the program.

pub(crate) mod add;
mod application_package;
pub(crate) mod audit;
pub(crate) mod auth;
mod batch;
pub(crate) mod bundle;
pub(crate) mod call;
pub(crate) mod completions;
mod config_target;
pub(crate) mod connect;
pub(crate) mod console;
mod console_setup;
pub(crate) mod doctor;
pub(crate) mod export;
mod file_replace;
pub(crate) mod grants;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod man;
mod new_servers;
pub(crate) mod pins;
pub(crate) mod policy;
pub(crate) mod profile;
pub(crate) mod remove;
pub(crate) mod search;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod service;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod stdio;
pub(crate) mod up;
pub(crate) mod update;
pub(crate) mod upgrade;
mod waiting;

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use hospes::transport::shutdown_signal;
use tokio::sync::{Notify, oneshot};

use crate::exit::{CliError, CliResult, FailureCode};

/// Time a shutdown may take before a message is printed.
const SHUTDOWN_NOTICE_DELAY: Duration = Duration::from_millis(300);

/// Notified when a screen asks the program to end.
static END_REQUESTED: Notify = Notify::const_new();

/// Asks the program to end, as Ctrl-C does. For screens, on which Ctrl-C is a key.
pub(crate) fn request_end() {
    END_REQUESTED.notify_one();
}

/// Ends the program, as Ctrl-C does, when its standard input is closed: by the host that has started it, also by the host's
/// end.
pub(crate) fn end_with_input() {
    // A thread that is not waited for: reading may never end.
    std::thread::spawn(|| {
        let _read = io::copy(&mut io::stdin().lock(), &mut io::sink());
        request_end();
    });
}

/// Listener for requests to end the program: Ctrl-C, SIGTERM, a closed terminal, or a screen.
///
/// Create it before any process is started. A signal without a handler ends the program immediately and leaves its
/// child processes running.
pub(crate) struct InterruptListener {
    asked: Pin<Box<dyn Future<Output = ()> + Send>>,
    was_interrupted: bool,
}

impl InterruptListener {
    pub(crate) fn new() -> CliResult<Self> {
        let asked = shutdown_signal();
        let asked = asked.map_err(|error| CliError::usage("cannot wait for signals").with_cause(&error))?;
        // Boxed, because the type of the future has no name and it must not move between polls.
        let asked = async {
            tokio::select! {
                () = asked => {}
                () = END_REQUESTED.notified() => {}
            }
        };
        Ok(Self { asked: Box::pin(asked), was_interrupted: false })
    }

    /// Returns true if some work was interrupted.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.was_interrupted
    }

    /// Runs `work`. Returns `None` if the program is asked to end before it is done. A later request ends the next
    /// `work`.
    pub(crate) async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        // The signal first: work that is always ready could otherwise never be interrupted. The signal is consumed, so
        // that the next one is waited for again.
        tokio::select! {
            biased;
            () = &mut self.asked => {
                self.was_interrupted = true;
                self.asked = Self::new().ok()?.asked;
                None
            }
            done = work => Some(done),
        }
    }

    /// Serves until the program is asked to end, then lets running calls finish unless it is asked again. `asked`
    /// prints a message if that takes a while. `serve` receives the shutdown signal.
    pub(crate) async fn serve<S: Future<Output = io::Result<()>>>(
        &mut self,
        serve: impl FnOnce(ServerShutdown) -> S,
        asked: impl FnOnce(),
    ) -> io::Result<()> {
        // Nothing is ever sent: dropping the sender tells the server to end.
        let (tell, told) = oneshot::channel();
        let mut serving = pin!(serve(ServerShutdown(told)));
        if let Some(served) = self.unless(&mut serving).await {
            return served;
        }
        drop(tell);
        let late = async {
            tokio::time::sleep(SHUTDOWN_NOTICE_DELAY).await;
            asked();
            std::future::pending().await
        };
        let last = async {
            tokio::select! {
                served = serving => served,
                never = late => never,
            }
        };
        self.unless(last).await.unwrap_or(Ok(()))
    }
}

/// Resolves when a server is to shut down.
pub(crate) struct ServerShutdown(oneshot::Receiver<Infallible>);

impl Future for ServerShutdown {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

/// Creates the error for a program that was asked to end before `what` was done.
pub(crate) fn interrupted(what: &str) -> CliError {
    CliError::new(FailureCode::Interrupted, format!("interrupted; {what}"))
}
