//! Routes of the console: pages for browsers, JSON for browsers and programs.

mod activity;
mod additions;
mod approval_view;
mod approvals;
mod body;
mod definitions;
mod events;
mod home;
mod line_stream;
mod models;
mod profiles;
mod rule_effect;
mod rule_proposals;
mod rule_saving;
mod rules;
mod server_commands;
mod server_edits;
mod server_settings;
mod servers;
mod sessions;
mod setup;
mod summary;
mod team;
mod tool_calls;

use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use http::HeaderMap;
use http::header::ACCEPT;
use serde::Serialize;

use crate::access;
use crate::api_error::ApiError;
use crate::browser_auth::{self, ConsoleCaller};
use crate::console::Console;
use crate::pages;
use crate::team::{CALLBACK_PATH, LOGOUT_PATH, TeamRole};
#[cfg(test)]
pub(crate) use team::escaped;

/// Maximum size of a request body, in bytes. A decision may contain the arguments of a call.
const MAX_BODY: usize = 4 << 20;
/// Time limit of a request, including the reading of its body. Event streams may last longer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Creates the routes for browsers, which require authentication.
pub(crate) fn for_browsers(console: Console) -> Router {
    let inside = api()
        .route("/sessions/end", post(sessions::sign_out))
        // For browsers only: a program that calls tools is an application, and not the person.
        .route("/servers/{name}/call", post(tool_calls::call))
        // For browsers only: a program edits the file, or runs the commands.
        .route("/servers/{name}/settings", get(server_settings::show).post(server_edits::save))
        .route("/servers/{name}/settings/preview", post(server_edits::preview))
        .route("/servers/{name}/settings/undo", post(server_edits::undo))
        .route("/servers/{name}/removal", get(server_edits::preview_removal).post(server_edits::remove))
        .route("/servers/{name}/update", post(server_edits::check_update))
        .route("/servers/{name}/check", post(server_commands::check))
        .route("/servers/{name}/sign-in", post(server_commands::sign_in))
        .route("/servers/{name}/sign-out", post(server_commands::sign_out))
        .route("/setup", get(setup::show))
        .route("/setup/progress", post(setup::set_progress))
        .route("/setup/servers", post(setup::find_servers))
        .route("/setup/import", post(setup::import_servers))
        .route("/setup/connections/{application}/{action}", post(setup::connection))
        .route("/setup/notification", post(setup::test_notification))
        .route("/setup/preset", post(setup::choose_preset))
        .route("/setup/recording", post(setup::set_recording))
        .route("/registry/servers", get(additions::search))
        .route("/additions", post(additions::begin))
        .route("/updates", post(additions::begin_update))
        .route("/additions/end", post(additions::end))
        .route(
            "/additions/{id}/answers",
            post(additions::answer).layer(DefaultBodyLimit::max(additions::MAX_ANSWER_BODY)),
        )
        .route("/additions/{id}/start", post(additions::start))
        .route("/additions/{id}/accept", post(additions::accept))
        // The last layer is the outermost: who calls is known before access is looked up.
        .layer(middleware::from_fn(access::enforce))
        .layer(middleware::from_fn_with_state(console.clone(), browser_auth::authenticate_browser))
        // After the layers, which cover only the routes before them: these begin a session.
        .route("/open", post(sessions::open))
        .route("/sign-in", post(team::begin));
    Router::new()
        .nest("/api", inside.fallback(not_found))
        .merge(pages::routes())
        .route(CALLBACK_PATH, get(team::finish))
        .fallback(not_found_in_browser)
        // The last layer is the outermost: host and origin are checked before a body is read, and errors get the
        // security headers too.
        .layer(middleware::from_fn_with_state(console.clone(), browser_auth::check_origin))
        // After that layer, which covers only the routes before it: the provider is no page of the console, and shows by
        // a signature who it is.
        .route(LOGOUT_PATH, post(team::log_out).layer(DefaultBodyLimit::max(team::MAX_LOGOUT_BODY)))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn(limit_time))
        .layer(middleware::map_response(pages::add_security_headers))
        .with_state(console)
}

/// Creates the routes for programs of the same user.
pub(crate) fn for_programs(console: Console) -> Router {
    let inside = api().route("/links", post(sessions::link));
    Router::new()
        .nest("/api", inside)
        .fallback(not_found)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn(limit_time))
        .layer(middleware::from_fn(browser_auth::attach_program))
        .with_state(console)
}

fn api() -> Router<Console> {
    Router::new()
        .route("/console", get(about))
        .route("/events", get(events::stream))
        .route("/focus", post(events::focus))
        .route("/approvals", get(approvals::list))
        .route("/approvals/{id}", get(approvals::show).post(approvals::decide))
        .route("/approvals/{id}/repeated", get(approvals::repeated))
        .route("/approvals/{id}/file", get(approval_view::file))
        .route("/approvals/{id}/signs", get(approval_view::signs))
        .route("/grants", get(approvals::grants))
        .route("/grants/{id}/revoke", post(approvals::revoke))
        .route("/rules", get(approvals::rules).post(rule_saving::save))
        .route("/rules/preview", post(rules::preview))
        .route("/rules/undo", post(rule_saving::undo))
        .route("/rules/proposals", get(rule_proposals::proposals))
        .route("/rules/{number}", get(rule_saving::show))
        .route("/rules/{number}/{action}", post(rule_saving::change))
        .route("/definitions", get(definitions::list))
        .route("/definitions/{server}", get(definitions::show))
        .route("/definitions/{server}/difference", get(definitions::difference))
        .route("/definitions/{server}/history", get(definitions::history))
        .route("/definitions/{server}/accept", post(definitions::accept))
        .route("/definitions/{server}/reject", post(definitions::reject))
        .route("/models", get(models::list))
        .route("/home", get(home::home))
        .route("/calls", get(home::running))
        .route("/applications", get(home::applications))
        .route("/profiles", get(profiles::list))
        .route("/profiles/{name}", post(profiles::save))
        .route("/profiles/{name}/remove", post(profiles::remove))
        .route("/servers", get(servers::list))
        .route("/servers/{name}", get(servers::show))
        .route("/servers/{name}/restart", post(servers::restart))
        .route("/activity", get(activity::search))
        .route("/activity/summary", get(summary::summary))
        .route("/activity/digest", get(activity::digest))
        .route("/activity/{number}/arguments", get(activity::arguments))
        .route("/sessions", get(sessions::list))
        .route("/sessions/{id}/end", post(sessions::end))
}

/// Description of the host that serves the console.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AboutResponse {
    version: &'static str,
    pid: u32,
    address: String,
    /// Session of the requesting browser.
    session: Option<String>,
    /// True if calls are recorded in the audit log.
    records: bool,
    /// Source from which decisions are accepted: `browser`, `terminal` or `programs`.
    decisions_from: &'static str,
    /// Person of a team who is signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    person: Option<PersonResponse>,
}

/// A person of a team.
#[derive(Serialize)]
struct PersonResponse {
    name: String,
    /// Issuer and subject, as calls and the record have them.
    principal: String,
    roles: Vec<TeamRole>,
    /// Key that the page sends with each change.
    key: Option<String>,
}

async fn about(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    headers: HeaderMap,
) -> Json<AboutResponse> {
    let person = caller.person().map(|person| PersonResponse {
        name: person.name.clone(),
        principal: person.principal.clone(),
        roles: person.roles.iter().copied().collect(),
        key: browser_auth::session_key_for_page(&headers, &console),
    });
    Json(AboutResponse {
        person,
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        address: console.address().to_string(),
        session: caller.session().map(str::to_owned),
        records: console.audit().is_some(),
        decisions_from: console.deciders().from.as_str(),
    })
}

async fn not_found() -> ApiError {
    ApiError::Nothing("not found".to_owned())
}

/// Answers at an unknown address: a page where a person looks at it, else as the interface does.
async fn not_found_in_browser(headers: HeaderMap) -> Response {
    let accepted = headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok());
    let is_page = accepted.is_some_and(|accepted| accepted.contains("text/html"));
    match is_page {
        true => pages::missing(),
        false => not_found().await.into_response(),
    }
}

async fn limit_time(request: Request, next: Next) -> Result<Response, ApiError> {
    // This ends when the response head is ready, so that streams are not cut off.
    tokio::time::timeout(TIMEOUT, next.run(request)).await.map_err(|_| ApiError::Late)
}
