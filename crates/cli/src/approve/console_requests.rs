//! Requests to the console API of a running host.

use hospes::model::RawJson;
use hospes_console::{ClientError, LocalConsole};
use hospes_host::approvals::Approval;
use hospes_host::pins::PinnedServer;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::state::QueueSnapshot;
use crate::exit::CliResult;
use crate::local_host;

/// Returns the console of the most recently started host that answers, and the id of its process.
pub(super) async fn find_host() -> CliResult<(LocalConsole, Option<u64>)> {
    let wanted = async |console: &LocalConsole| console.get::<Value>("console").await;
    let (console, about) =
        local_host::ask_running_host("cannot identify the running console", wanted).await?;
    Ok((console, about["pid"].as_u64()))
}

/// Fetches the state of the approval queue.
pub(super) async fn fetch_queue(console: &LocalConsole) -> Result<QueueSnapshot, ClientError> {
    #[derive(Deserialize)]
    struct ApprovalsReply {
        open: Vec<Approval>,
        recent: Vec<Approval>,
        now: Timestamp,
    }
    let ApprovalsReply { open, recent, now } = console.get("approvals").await?;
    // Definitions are fetched separately, and only after the host has reported a change.
    Ok(QueueSnapshot { open, recent, now, pins: None })
}

/// The approval queue with each entry in the JSON text that the host sent.
#[derive(Deserialize)]
pub(super) struct RawApprovals {
    pub(super) open: Vec<RawJson>,
    pub(super) recent: Vec<RawJson>,
}

pub(super) async fn fetch_raw_queue(console: &LocalConsole) -> Result<RawApprovals, ClientError> {
    console.get("approvals").await
}

/// Fetches the accepted definitions of all servers. Returns `None` if the host pins nothing.
pub(super) async fn fetch_pins(console: &LocalConsole) -> Result<Option<Vec<PinnedServer>>, ClientError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct DefinitionsReply {
        is_pinned: bool,
        servers: Vec<PinnedServer>,
    }
    let all: DefinitionsReply = console.get("definitions").await?;
    Ok(all.is_pinned.then_some(all.servers))
}
