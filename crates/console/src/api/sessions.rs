//! Routes of links and browser sessions.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use hospes_store::{AuditEntry, AuditEntryKind};
use http::HeaderMap;
use http::header::{SET_COOKIE, USER_AGENT};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::body::{EmptyBody, JsonBody};
use crate::api_error::{ApiError, ApiResult};
use crate::browser_auth::{ConsoleCaller, cookie_name};
use crate::console::Console;
use crate::sessions::SessionSummary;
use crate::team::TeamSessionSummary;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkTokenBody {
    token: String,
}

/// Opens a session for a browser that presents the token of a link.
pub(super) async fn open(
    State(console): State<Console>,
    headers: HeaderMap,
    JsonBody(LinkTokenBody { token }): JsonBody<LinkTokenBody>,
) -> Result<Response, ApiError> {
    // A link would sign a browser in as nobody of the team.
    if let Some(team) = console.team() {
        return Err(ApiError::ForTeam(team.origin().to_owned()));
    }
    let browser = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let opened = console.sessions().redeem_link(&token, browser).ok_or(ApiError::NoLink)?;
    tracing::info!(session = opened.id, "browser signed in to the console");
    // Before the cookie is sent, so that a session that could not be recorded is never used. It would also count as a
    // person who is there.
    record_sign_in(&console, "a session was opened", "a link of the console").await.inspect_err(|_| {
        console.sessions().end(&opened.id);
    })?;
    console.news().sessions_changed();
    // Without `Max-Age` the cookie ends with the browser; the server checks the expiry.
    let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Strict", cookie_name(&console), opened.secret);
    Ok(([(SET_COOKIE, cookie)], Json(json!({ "key": opened.key }))).into_response())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LinkResponse {
    url: String,
    lifetime_ms: u64,
}

/// Creates a link for a browser. A browser that opens it can decide as the person does.
pub(super) async fn link(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> ApiResult<LinkResponse> {
    if let Some(team) = console.team() {
        return Err(ApiError::ForTeam(team.origin().to_owned()));
    }
    // A browser that opens the link can decide, so a program that may not decide must not get one.
    if let ConsoleCaller::Program(program) = &caller {
        program.decider.check_link(console.deciders().from)?;
    }
    let link = console.link();
    record_sign_in(&console, "a link was made", &caller.describe()).await?;
    let lifetime_ms = u64::try_from(link.lifetime.as_millis()).unwrap_or(u64::MAX);
    Ok(Json(LinkResponse { url: link.url().to_owned(), lifetime_ms }))
}

#[derive(Serialize)]
pub(super) struct SessionsResponse {
    sessions: ShownSessions,
    /// Session of the requesting browser.
    current: Option<String>,
}

/// Sessions of this machine, or those of a team that the person may see.
#[derive(Serialize)]
#[serde(untagged)]
enum ShownSessions {
    OfMachine(Vec<SessionSummary>),
    OfTeam(Vec<TeamSessionSummary>),
}

pub(super) async fn list(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
) -> ApiResult<SessionsResponse> {
    let sessions = match (console.team(), caller.person()) {
        (Some(team), Some(person)) => ShownSessions::OfTeam(team.list_sessions(person).await?),
        _ => ShownSessions::OfMachine(console.sessions().list()),
    };
    Ok(Json(SessionsResponse { sessions, current: caller.session().map(str::to_owned) }))
}

pub(super) async fn end(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    Path(id): Path<String>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> ApiResult<Value> {
    let is_ended = match (console.team(), caller.person()) {
        (Some(team), Some(person)) => team.end_session(&id, person).await?,
        _ => console.sessions().end(&id),
    };
    if !is_ended {
        return Err(ApiError::Nothing("this session has already ended".to_owned()));
    }
    console.news().sessions_changed();
    record_sign_in(&console, "a session was ended", &caller.describe()).await?;
    Ok(Json(json!({})))
}

/// Ends the session of the requesting browser.
pub(super) async fn sign_out(
    state: State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    body: JsonBody<EmptyBody>,
) -> ApiResult<Value> {
    // The route requires a session, so there always is one.
    let id = caller.session().unwrap_or_default().to_owned();
    end(state, Extension(caller), Path(id), body).await
}

pub(super) async fn record_sign_in(console: &Console, what: &str, by: &str) -> Result<(), ApiError> {
    let Some(audit) = console.audit() else { return Ok(()) };
    let mut entry = AuditEntry::new(AuditEntryKind::SignIn);
    entry.subject = Some(format!("the console: {what}"));
    entry.by = Some(by.to_owned());
    audit.record(entry).await?;
    Ok(())
}
