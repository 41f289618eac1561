//! The servers.

use axum::extract::{Path, State};
use axum::{Extension, Json};
use hospes_host::Status;
use hospes_host::upstream::UpstreamStatus;
use hospes_store::{Entry, EntryKind};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Answer, Body, Refused};
use crate::Console;
use crate::door::Caller;

pub(super) async fn all(State(console): State<Console>) -> Json<Status> {
    Json(console.servers().status())
}

/// One server.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Server {
    status: UpstreamStatus,
    /// Definitions as the server sent them; `None` until they are known.
    offers: Option<Value>,
}

pub(super) async fn one(State(console): State<Console>, Path(name): Path<String>) -> Answer<Server> {
    let listing = console.servers().listing(&name)?;
    let status = console.servers().status().servers.into_iter().find(|server| server.name == name);
    let status = status.ok_or_else(|| Refused::Nothing(format!("there is no server `{name}` here")))?;
    let offers = listing.map(|listing| {
        json!({
            "tools": *listing.tools,
            "prompts": *listing.prompts,
            "resources": *listing.resources,
            "templates": *listing.templates,
        })
    });
    Ok(Json(Server { status, offers }))
}

/// Nothing to say.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

pub(super) async fn restart(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Body(Nothing {}): Body<Nothing>,
) -> Answer<Value> {
    console.servers().restart(&name)?;
    if let Some(audit) = console.audit() {
        let mut entry = Entry::new(EntryKind::Server);
        entry.server = Some(name);
        entry.subject = Some("restart".to_owned());
        entry.by = Some(caller.words());
        audit.record(entry).await?;
    }
    Ok(Json(json!({})))
}
