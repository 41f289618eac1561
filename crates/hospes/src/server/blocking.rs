//! Synchronous functions as handlers: they run on threads of their own.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinHandle};

use crate::error::Error;
use crate::server::call_parts::{CallParts, Declaration, FromCall};
use crate::server::handler::Handler;

/// Number of synchronous handlers that run in this process, of all servers. Those of calls that were cancelled count until
/// they return.
static RUNNING_HANDLERS: AtomicUsize = AtomicUsize::new(0);

/// Number of synchronous handlers that run in this process.
#[cfg(any(feature = "stdio", feature = "http"))]
pub(crate) fn running_handlers() -> usize {
    RUNNING_HANDLERS.load(Ordering::Acquire)
}

/// Makes a handler of a synchronous function or closure that may block. It runs on a thread of the runtime's blocking
/// pool, and the connection is served meanwhile.
///
/// ```
/// use hospes::server::{Server, blocking};
///
/// let server = Server::new("files", "1.0").tool("motd", blocking(|| std::fs::read_to_string("/etc/motd")));
/// # let _ = server;
/// ```
///
/// A call costs a change of threads and back, some ten microseconds. What does not block needs none of that: an `async`
/// closure without an `await` runs in place. At most [`MAX_BLOCKING_CALLS`](crate::server::MAX_BLOCKING_CALLS) of one
/// server run at once.
///
/// A synchronous function cannot be interrupted. When its call is cancelled its result is discarded, but its thread is
/// busy until it returns.
pub fn blocking<F>(function: F) -> Blocking<F> {
    Blocking(Arc::new(function))
}

/// A synchronous function as a handler; made by [`blocking`].
#[derive(Debug)]
pub struct Blocking<F>(Arc<F>);

impl<F> Clone for Blocking<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

macro_rules! handlers {
    ($([$($parameter:ident $value:ident)*])*) => { $(
        #[diagnostic::do_not_recommend]
        impl<F, R, $($parameter,)*> Handler<($($parameter,)*)> for Blocking<F>
        where
            F: Fn($($parameter),*) -> R + Send + Sync + 'static,
            R: Send + 'static,
            $($parameter: FromCall + 'static,)*
        {
            type Output = R;
            type Future = Pin<Box<dyn Future<Output = R> + Send>>;

            fn declare(declaration: &mut Declaration) {
                let _ = &declaration;
                $($parameter::declare(declaration);)*
            }

            fn start(&self, parts: &CallParts<'_>) -> Result<Self::Future, Error> {
                $(let $value = $parameter::from_call(parts)?;)*
                let function = Arc::clone(&self.0);
                let threads = Arc::clone(&parts.shared.threads);
                Ok(Box::pin(run_on_thread(threads, move || function($($value),*))))
            }
        }
    )* };
}

handlers! {
    []
    [T1 t1]
    [T1 t1 T2 t2]
    [T1 t1 T2 t2 T3 t3]
    [T1 t1 T2 t2 T3 t3 T4 t4]
    [T1 t1 T2 t2 T3 t3 T4 t4 T5 t5]
    [T1 t1 T2 t2 T3 t3 T4 t4 T5 t5 T6 t6]
    [T1 t1 T2 t2 T3 t3 T4 t4 T5 t5 T6 t6 T7 t7]
    [T1 t1 T2 t2 T3 t3 T4 t4 T5 t5 T6 t6 T7 t7 T8 t8]
}

/// Counts a handler as running.
struct RunningHandlerGuard;

impl RunningHandlerGuard {
    fn new() -> Self {
        RUNNING_HANDLERS.fetch_add(1, Ordering::AcqRel);
        Self
    }
}

impl Drop for RunningHandlerGuard {
    fn drop(&mut self) {
        RUNNING_HANDLERS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Removes work that has not started from the pool's queue when dropped.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run_on_thread<R: Send + 'static>(
    threads: Arc<Semaphore>,
    function: impl FnOnce() -> R + Send + 'static,
) -> R {
    let Ok(runtime) = Handle::try_current() else {
        // Polled by something that is no runtime, so that there is no pool: a test, mostly.
        return function();
    };
    // Waiting here rather than in the pool, whose queue has no bound and keeps what was cancelled.
    let place = threads.acquire_owned().await;
    let span = tracing::Span::current();
    let work: JoinHandle<R> = runtime.spawn_blocking(move || {
        let (_place, _counted) = (place, RunningHandlerGuard::new());
        span.in_scope(function)
    });
    let withdrawn = AbortOnDrop(work.abort_handle());
    let done = work.await;
    // Held until here: if this future is dropped before, work that has not begun is withdrawn.
    drop(withdrawn);
    match done {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            // As if it had been called in place: whoever polls this makes an answer of it.
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is ending, and this future with it.
            Err(_) => std::future::pending().await,
        },
    }
}
