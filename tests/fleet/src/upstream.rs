//! The server behind the fleet. Each of its tools notes the key of the call in a file before it answers, so that a
//! call that took effect twice is seen.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hospes::model::Revision;
use hospes::prelude::*;
use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes::transport::stdio_server::StdioServer;
use hospes::transport::{RevisionSet, shutdown_signal};

/// File of the effects of all servers. Lines are written at once, so that those of several processes do not mix.
#[derive(Clone, Debug)]
struct EffectFile(Arc<File>);

impl EffectFile {
    fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self(Arc::new(file.with_context(|| format!("opening {}", path.display()))?)))
    }

    /// Notes that a call took effect.
    fn note(&self, key: &str) -> Result<(), Error> {
        let line = format!("{key} {}\n", std::process::id());
        (&*self.0).write_all(line.as_bytes()).map_err(Error::new)
    }
}

#[derive(Deserialize, JsonSchema)]
struct KeyArgument {
    key: String,
}

#[derive(Deserialize, JsonSchema)]
struct StepArguments {
    key: String,
    steps: u32,
    pause_ms: u64,
}

/// Serves over stdio until the client closes its end, or over HTTP on a loopback port until told to end.
pub(crate) async fn serve(revision: Revision, effects: &Path, port: Option<u16>) -> Result<()> {
    let server = build_server(EffectFile::open(effects)?);
    let revisions = RevisionSet::only(revision);
    match port {
        None => StdioServer::new(server).revisions(revisions).serve().await?,
        Some(port) => {
            let endpoint = Endpoint::builder(server).revisions(revisions).build();
            let server = HttpServer::bind(("127.0.0.1", port), endpoint).await?;
            server.serve_until(shutdown_signal()?).await?;
        }
    }
    Ok(())
}

fn build_server(effects: EffectFile) -> Server {
    let (of_steps, of_questions, of_guarded) = (effects.clone(), effects.clone(), effects.clone());
    Server::new("effects", "1")
        .tool("echo", move |Args(KeyArgument { key }): Args<KeyArgument>| {
            let effects = effects.clone();
            async move { effects.note(&key).map(|()| key) }
        })
        // For a policy that asks about it.
        .tool("guarded", move |Args(KeyArgument { key }): Args<KeyArgument>| {
            let effects = of_guarded.clone();
            async move { effects.note(&key).map(|()| key) }
        })
        .tool(
            "steps",
            move |ctx: Context, Args(StepArguments { key, steps, pause_ms }): Args<StepArguments>| {
                let effects = of_steps.clone();
                async move {
                    for step in 1..=steps {
                        ctx.progress(f64::from(step), Some(f64::from(steps)), None);
                        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                    }
                    effects.note(&key).map(|()| key)
                }
            },
        )
        .tool("question", move |ctx: Context, Args(KeyArgument { key }): Args<KeyArgument>| {
            let effects = of_questions.clone();
            async move {
                let answer: String = ctx.elicit("Go on?").await?;
                effects.note(&key).map(|()| format!("{key} {answer}"))
            }
        })
}
