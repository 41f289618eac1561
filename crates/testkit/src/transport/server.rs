//! The server of the suite.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hospes::prelude::*;
use hospes::schemars;
use tokio::sync::Barrier;

/// Number of calls that `meet` waits for.
pub(super) const MEETING_SIZE: usize = 32;

#[derive(Deserialize, JsonSchema)]
#[serde(crate = "hospes::serde")]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(crate = "hospes::serde")]
struct Count {
    count: u32,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "hospes::serde")]
struct Name {
    name: String,
}

/// Number of handlers that hang.
#[derive(Default)]
struct HangingHandlers(AtomicUsize);

struct HangGuard<'h>(&'h HangingHandlers);

impl Drop for HangGuard<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Creates the server of the suite. A transport that starts programs (stdio) has one of them serve it.
pub fn server() -> Server {
    let hanging = Arc::new(HangingHandlers::default());
    let counting = Arc::clone(&hanging);
    let meeting = Arc::new(Barrier::new(MEETING_SIZE));
    let server = Server::new("suite", "1.0")
        .tool("echo", |Args(Text { text }): Args<Text>| async move { text })
        .tool("fail", || async { Err::<String, _>(Error::msg("as asked")) })
        .tool("blob", |Args(Count { count }): Args<Count>| async move { "x".repeat(count as usize) })
        .tool("meet", move || {
            let meeting = Arc::clone(&meeting);
            async move {
                meeting.wait().await;
                "met"
            }
        })
        .tool("hang", move || {
            let hanging = Arc::clone(&hanging);
            async move {
                hanging.0.fetch_add(1, Ordering::SeqCst);
                // Dropped with the future, which is how a cancelled handler ends.
                let _hang = HangGuard(&hanging);
                std::future::pending::<String>().await
            }
        })
        .tool("hanging", move || {
            let counting = Arc::clone(&counting);
            async move { counting.0.load(Ordering::SeqCst).to_string() }
        })
        .tool("meta", |context: Context| async move {
            context.meta().map_or_else(|| "none".to_owned(), |meta| meta.as_str().to_owned())
        })
        .tool("count", |Args(Count { count }): Args<Count>, context: Context| async move {
            for step in 1..=count {
                context.progress(f64::from(step), Some(f64::from(count)), None);
                // Lets the connection write, so that notifications are sent while the call still runs.
                tokio::task::yield_now().await;
            }
            "counted"
        })
        .tool("log", |Args(Count { count }): Args<Count>, context: Context| async move {
            for line in 0..count {
                context.log(LoggingLevel::Warning, line);
                tokio::task::yield_now().await;
            }
            "logged"
        })
        .tool("ask", |Args(Text { text }): Args<Text>, context: Context| async move {
            let Name { name } = context.elicit(format!("who is {text}")).await?;
            Ok::<_, Error>(name)
        })
        .tool("think", |context: Context| async move {
            let answer = context.sample("think").max_tokens(10).await?;
            Ok::<_, Error>(answer.text())
        })
        .tool("look", |context: Context| async move {
            let roots = context.roots().await?;
            Ok::<_, Error>(roots.iter().map(|root| root.uri.as_str()).collect::<Vec<_>>().join(" "))
        });
    let handle = server.handle();
    let other = handle.clone();
    server
        .tool("grow", move || {
            let grown = handle.add_tool("grown", || async { "grown" });
            async move { grown.map(|()| "grown").map_err(|_| Error::msg("it had grown already")) }
        })
        .tool("shrink", move || {
            let shrunk = other.remove_tool("grown");
            async move { shrunk.to_string() }
        })
}
