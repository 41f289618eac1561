//! Requests to the console API of a running host.

use hospes::model::RawJson;
use hospes_console::{ClientError, LocalConsole};
use hospes_host::desk::Matter;
use hospes_host::pins::PinnedServer;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::state::Seen;
use crate::exit::Outcome;
use crate::local;

/// The host that was started last and answers, and its process.
pub(super) async fn find() -> Outcome<(LocalConsole, Option<u64>)> {
    let wanted = async |console: &LocalConsole| console.get::<Value>("console").await;
    let (console, about) = local::ask("the console does not say who it is", wanted).await?;
    Ok((console, about["pid"].as_u64()))
}

/// Fetches the state of the approval queue.
pub(super) async fn look(console: &LocalConsole) -> Result<Seen, ClientError> {
    #[derive(Deserialize)]
    struct Matters {
        open: Vec<Matter>,
        recent: Vec<Matter>,
        now: Timestamp,
    }
    let Matters { open, recent, now } = console.get("approvals").await?;
    Ok(Seen { open, recent, now, pins: None })
}

/// The approval queue with each entry in the JSON text that the host sent.
#[derive(Deserialize)]
pub(super) struct Written {
    pub(super) open: Vec<RawJson>,
    pub(super) recent: Vec<RawJson>,
}

pub(super) async fn written(console: &LocalConsole) -> Result<Written, ClientError> {
    console.get("approvals").await
}

/// Fetches the accepted definitions of all servers. Returns `None` if the host pins nothing.
pub(super) async fn pins(console: &LocalConsole) -> Result<Option<Vec<PinnedServer>>, ClientError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct All {
        is_pinned: bool,
        servers: Vec<PinnedServer>,
    }
    let all: All = console.get("definitions").await?;
    Ok(all.is_pinned.then_some(all.servers))
}
