//! The server: everything that can cross a bridge, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use hospes::model::{
    CallToolResult, ContentBlock, LoggingLevel, ResourceContents, Revision, SamplingMessageContentBlock,
};
use hospes::prelude::*;
use hospes::server::Json;
use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes::transport::stdio_server::StdioServer;
use hospes::transport::{RevisionSet, shutdown_signal};

/// Content of the sound and the picture.
const BYTES: &[u8] = &[1, 2, 3];

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Day {
    day: String,
}

/// Counts the calls that were dropped before they were done.
struct DroppedCallCounter(Arc<AtomicUsize>);

impl Drop for DroppedCallCounter {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Serves until the client goes, or until told to end.
pub(crate) async fn serve(revision: Revision, name: &str, address: Option<&str>) -> Result<()> {
    let server = server(name);
    match address {
        None => StdioServer::new(server).revisions(RevisionSet::only(revision)).serve().await?,
        Some(address) => {
            let endpoint = Endpoint::builder(server).revisions(RevisionSet::only(revision)).sse(true).build();
            let server = HttpServer::bind(address, endpoint).await?;
            eprintln!("listening on {}", server.url());
            server.serve_until(shutdown_signal()?).await?;
        }
    }
    Ok(())
}

fn server(name: &str) -> Server {
    add_asking_handlers(add_notifying_handlers(add_immediate_handlers(Server::new(name, "1"), name), name))
}

/// Adds handlers that answer at once.
fn add_immediate_handlers(server: Server, name: &str) -> Server {
    let note = format!("bridge://{name}/note");
    let link = note.clone();
    server
        .tool("echo", |Args(Text { text }): Args<Text>| async move { text })
        .tool("sum", || async { Json(Sum { sum: 42 }) })
        .tool("fail", || async { CallToolResult::error("on purpose") })
        .tool("contents", move || {
            let link = link.clone();
            async move {
                let mut resource = hospes::model::Resource::new(link, "note");
                resource.mime_type = Some("text/plain".to_owned());
                [
                    ContentBlock::text("text"),
                    ContentBlock::image(BYTES, "image/png"),
                    ContentBlock::audio(BYTES, "audio/wav"),
                    ContentBlock::link(resource),
                    ContentBlock::embedded(ResourceContents::text("bridge://embedded", "inside")),
                ]
            }
        })
        .prompt("greet", |Args(Day { day }): Args<Day>| async move { format!("Greet on {day}") })
        .complete(Completes::prompt("greet", "day"), ["monday", "tuesday"])
        .resource(note, "a note")
        .resource_template(
            format!("bridge://{name}/days/{{day}}"),
            |Args(Day { day }): Args<Day>| async move { format!("the {day}") },
        )
}

/// Adds handlers that send progress, log messages and change notifications.
fn add_notifying_handlers(server: Server, name: &str) -> Server {
    let (begun, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&begun), Arc::clone(&dropped));
    let grown = Arc::new(AtomicUsize::new(0));
    let note = format!("bridge://{name}/note");
    let name = name.to_owned();
    server
        .tool("steps", |ctx: Context, Args(Text { text }): Args<Text>| async move {
            for step in 1..=3 {
                ctx.progress(f64::from(step), Some(3.0), Some("on it"));
                ctx.log(LoggingLevel::Warning, format!("{text} {step}"));
                tokio::task::yield_now().await;
            }
            "done"
        })
        .tool("wait", move || {
            let (begun, dropped) = counts.clone();
            async move {
                let _dropped = DroppedCallCounter(dropped);
                begun.fetch_add(1, Ordering::SeqCst);
                std::future::pending::<()>().await;
            }
        })
        .tool("waiting", move || {
            let (begun, dropped) = (begun.load(Ordering::SeqCst), dropped.load(Ordering::SeqCst));
            async move { format!("{begun} {dropped}") }
        })
        .tool("touch", move |server: ServerHandle| {
            let note = note.clone();
            async move {
                server.resource_updated(&note);
                "touched"
            }
        })
        .tool("grow", move |server: ServerHandle| {
            let number = grown.fetch_add(1, Ordering::SeqCst);
            let name = name.clone();
            async move {
                server.add_tool(format!("more{number}"), || async { "more" })?;
                server.add_prompt(format!("more{number}"), || async { "more" })?;
                server.add_resource(format!("bridge://{name}/more{number}"), "more")?;
                Ok::<_, Error>("grown")
            }
        })
}

/// Adds handlers that ask the client.
fn add_asking_handlers(server: Server) -> Server {
    server
        .tool(
            "form",
            |ctx: Context| async move { Ok::<_, Error>(ctx.elicit::<String>("Which seat?").await?) },
        )
        .tool("declined", |ctx: Context| async move {
            let answer = ctx.elicit::<String>("Please decline").raw().await?;
            Ok::<_, Error>(answer.action.as_str().to_owned())
        })
        .tool("url", |ctx: Context| async move {
            ctx.elicit_url("Please sign in", "https://example.com/sign-in").await?;
            Ok::<_, Error>("signed in")
        })
        .tool("rounds", |ctx: Context| async move {
            let first: String = ctx.elicit("Which seat?").await?;
            let second: String = ctx.elicit("Which meal?").await?;
            Ok::<_, Error>(format!("{first}, {second}"))
        })
        .tool("sample", |ctx: Context| async move { Ok::<_, Error>(ctx.sample("?").await?.text()) })
        .tool("sample_tools", |ctx: Context| async move {
            let schema = RawJson::empty_object();
            let tool = hospes::model::Tool::new("look_up", schema);
            let answer = ctx.sample("?").tools([tool]).await?;
            let used = answer.content.iter().find_map(|block| match block {
                SamplingMessageContentBlock::ToolUse(used) => Some(used.name.clone()),
                _ => None,
            });
            Ok::<_, Error>(used.unwrap_or_else(|| answer.text()))
        })
        .tool("roots", |ctx: Context| async move {
            let roots = ctx.roots().await?;
            Ok::<_, Error>(roots.iter().map(|root| root.uri.clone()).collect::<Vec<_>>().join(" "))
        })
        .tool("several", |ctx: Context| async move {
            let (answer, roots) = ctx.ask((ctx.sample("?"), ctx.roots())).await?;
            Ok::<_, Error>(format!("{}, {} root", answer.text(), roots.len()))
        })
        .tool("who", |ctx: Context, Args(Text { text }): Args<Text>| async move {
            // Of two calls at once each must get what was asked for it.
            Ok::<_, Error>(ctx.sample(format!("repeat {text}")).await?.text())
        })
}
