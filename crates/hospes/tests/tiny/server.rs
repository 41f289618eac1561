//! A tiny server, for the tests of real processes.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use hospes::prelude::*;
use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes::transport::stdio_server::StdioServer;

/// Maximum time that two calls wait for each other.
const MEETING: Duration = Duration::from_secs(20);

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Sleep {
    millis: u64,
}

/// Tools that do not give back their thread.
#[derive(Default)]
struct Blocking {
    met: Mutex<usize>,
    changed: Condvar,
}

#[hospes::server]
impl Blocking {
    /// Waits for a second call of it; whether one came.
    #[tool]
    fn meet(&self) -> bool {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        *met += 1;
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(met, MEETING, |met| *met < 2);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Blocks for good, in a synchronous function.
    #[tool]
    fn block() {
        block()
    }

    /// Blocks for good, in an async function.
    #[tool]
    #[expect(clippy::unused_async, reason = "that is the point")]
    async fn hog() {
        block()
    }

    /// Panics, in a synchronous function.
    #[tool]
    #[expect(clippy::panic, reason = "that is the point")]
    fn panic() {
        panic!("on purpose")
    }
}

fn block() {
    eprintln!("blocking");
    loop {
        std::thread::park();
    }
}

fn main() -> hospes::Result<()> {
    let mut runtime = match setting("TINY_THREADS") {
        None => tokio::runtime::Builder::new_current_thread(),
        Some(threads) => {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            runtime.worker_threads(usize::try_from(threads)?);
            runtime
        }
    };
    runtime.enable_all().build()?.block_on(serve())
}

async fn serve() -> hospes::Result<()> {
    let server = Server::new("tiny", "1.0")
        .tool("echo", |Args(Echo { text })| async move { text })
        .tool("sleep", |Args(Sleep { millis })| async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            "slept"
        })
        .tool("noise", || async { noise() })
        .add(Blocking::default());
    let limit = setting("TINY_SHUTDOWN_MILLIS").map(Duration::from_millis);
    match (setting("TINY_SSE_PORT"), limit) {
        (Some(port), limit) => {
            let endpoint = Endpoint::builder(server).sse(true).build();
            let address = ("127.0.0.1", u16::try_from(port)?);
            let http = HttpServer::bind(address, endpoint).await?;
            let http = http.shutdown_timeout(limit.unwrap_or(Duration::from_secs(10)));
            eprintln!("listening on {}", http.url());
            Ok(http.serve_until_signal().await?)
        }
        (None, Some(limit)) => Ok(StdioServer::new(server).shutdown_timeout(limit).serve().await?),
        (None, None) => hospes::serve(server).await,
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What a careless library does: it must not reach the wire.
#[expect(clippy::print_stdout, reason = "that is the point")]
fn noise() -> hospes::Result<String> {
    println!("this is noise on stdout");
    let mut line = String::new();
    let bytes = std::io::stdin().read_line(&mut line)?;
    Ok(format!("read {bytes} bytes of somebody else's"))
}
