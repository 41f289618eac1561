//! Routes of the servers: state, definitions and restart.

use axum::extract::{Path, State};
use axum::{Extension, Json};
use hospes_host::HostStatus;
use hospes_host::upstream::UpstreamStatus;
use hospes_store::{AuditEntry, AuditEntryKind};
use serde::Serialize;
use serde_json::{Value, json};

use super::body::{EmptyBody, JsonBody};
use crate::api_error::{ApiError, ApiResult};
use crate::browser_auth::ConsoleCaller;
use crate::console::Console;

pub(super) async fn list(State(console): State<Console>) -> Json<HostStatus> {
    Json(console.servers().status())
}

/// State of a server and its definitions.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerResponse {
    status: UpstreamStatus,
    /// URL of the server's own endpoint, if applications can use it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    /// True if there are tokens of a sign-in. Left out if the server has no account that everybody shares.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_signed_in: Option<bool>,
    /// Definitions as the server sent them; `None` until they are known.
    offers: Option<Value>,
}

pub(super) async fn show(
    State(console): State<Console>,
    Path(name): Path<String>,
) -> ApiResult<ServerResponse> {
    let listing = console.servers().listing(&name)?;
    let status = console.servers().status().servers.into_iter().find(|server| server.name == name);
    let status = status.ok_or_else(|| ApiError::Nothing(format!("no server named `{name}`")))?;
    let offers = listing.map(|listing| {
        json!({
            "tools": *listing.tools,
            "prompts": *listing.prompts,
            "resources": *listing.resources,
            "templates": *listing.templates,
        })
    });
    let endpoint = console.environment().endpoint.as_deref().zip(console.servers().label(&name));
    let endpoint = endpoint.map(|(endpoint, label)| format!("{endpoint}/{label}"));
    let is_signed_in = console.servers().has_sign_in(&name).await?;
    Ok(Json(ServerResponse { status, endpoint, is_signed_in, offers }))
}

pub(super) async fn restart(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    Path(name): Path<String>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> ApiResult<Value> {
    console.servers().restart(&name)?;
    if let Some(audit) = console.audit() {
        let mut entry = AuditEntry::new(AuditEntryKind::Server);
        entry.server = Some(name);
        entry.subject = Some("restart".to_owned());
        entry.by = Some(caller.describe());
        audit.record(entry).await?;
    }
    Ok(Json(json!({})))
}
