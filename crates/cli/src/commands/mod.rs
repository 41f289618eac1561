//! Commands of the program.

pub(crate) mod audit;
pub(crate) mod auth;
mod batch;
pub(crate) mod call;
pub(crate) mod console;
pub(crate) mod list;
pub(crate) mod pins;
pub(crate) mod policy;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod stdio;
pub(crate) mod up;
mod waiting;

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use hospes::transport::shutdown_signal;
use tokio::sync::oneshot;

use crate::exit::{CliError, CliResult};

/// Time a shutdown may take before a message is printed.
const SHUTDOWN_NOTICE_DELAY: Duration = Duration::from_millis(300);

/// Does work until the program is asked to end: Ctrl-C, SIGTERM, or the terminal going away.
///
/// Create it before anything is started. A signal without a handler ends the program at once and leaves behind the
/// processes it has started.
pub(crate) struct InterruptListener {
    asked: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl InterruptListener {
    pub(crate) fn new() -> CliResult<Self> {
        let asked = shutdown_signal();
        let asked = asked.map_err(|error| CliError::usage("cannot wait for signals").with_cause(&error))?;
        // Boxed, because the type of the future has no name and it must not move between polls.
        Ok(Self { asked: Box::pin(asked) })
    }

    /// Does `work`, or returns none when the program is asked to end before it is done. Asked again, the next work
    /// ends.
    pub(crate) async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        // The signal first: work that is always ready could otherwise never be ended. It is used up then, so
        // that the next one is waited for anew.
        tokio::select! {
            biased;
            () = &mut self.asked => {
                *self = Self::new().ok()?;
                None
            }
            done = work => Some(done),
        }
    }

    /// Serves until the program is asked to end, and lets what was begun come to its end unless the program is asked
    /// again; where that takes a while, `asked` says so. `serve` is given what tells it to end.
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

/// Ready when a server is to end.
pub(crate) struct ServerShutdown(oneshot::Receiver<Infallible>);

impl Future for ServerShutdown {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

/// The program was asked to end before it was done.
pub(crate) fn interrupted(what: &str) -> CliError {
    CliError::usage(format!("interrupted; {what}"))
}
