//! Routes of the search in a registry, and of additions of its servers. For browsers only: a program has `hospes add`.

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::{EmptyBody, JsonBody};
use super::line_stream::LineStream;
use crate::additions::{AdditionAnswers, ServerAdder, WantedServer, WantedUpdate};
use crate::api_error::{ApiError, ApiResult};
use crate::browser_auth::{AuthorizedDecider, ConsoleCaller};
use crate::console::Console;

/// Maximum size of the body of an answer, in bytes.
pub(super) const MAX_ANSWER_BODY: usize = 256 << 10;
/// Maximum length of the words of a search, and of a name, in bytes.
const MAX_WORDS: usize = 200;
/// Maximum number of values that a page sends, of all questions.
const MAX_VALUES: usize = 256;

fn adder(console: &Console) -> Result<std::sync::Arc<dyn ServerAdder>, ApiError> {
    let adder = console.environment().adder.clone();
    adder.ok_or_else(|| ApiError::Nothing("this host adds no servers for pages".to_owned()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RegistryQuery {
    words: String,
}

pub(super) async fn search(
    State(console): State<Console>,
    Query(RegistryQuery { words }): Query<RegistryQuery>,
) -> ApiResult<Value> {
    let words = words.trim();
    if words.is_empty() || words.len() > MAX_WORDS {
        return Err(ApiError::Misread(format!("`words` has from 1 to {MAX_WORDS} bytes")));
    }
    adder(&console)?.search(words.to_owned()).await.map(Json).map_err(ApiError::Setup)
}

/// Server to add.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AdditionRequest {
    server: String,
    version: Option<String>,
    package: Option<String>,
}

pub(super) async fn begin(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    AuthorizedDecider(by): AuthorizedDecider,
    JsonBody(AdditionRequest { server, version, package }): JsonBody<AdditionRequest>,
) -> Result<Response, ApiError> {
    let session = caller.session().ok_or(ApiError::NoSession)?.to_owned();
    // Only names of a registry: a page must not be able to name a command or a URL.
    let is_name = server.contains('/')
        && !server.contains("://")
        && server.chars().all(|letter| letter.is_ascii_alphanumeric() || "./_-".contains(letter));
    let texts = [Some(&server), version.as_ref(), package.as_ref()];
    if !is_name || texts.into_iter().flatten().any(|text| text.is_empty() || text.len() > MAX_WORDS) {
        return Err(ApiError::Misread("`server` is the full name of a server in the registry".to_owned()));
    }
    let wanted = WantedServer { name: server, version, package, by };
    // Subscribed before the session is used, so that its end is not missed.
    let sessions = console.news().sessions();
    let adder = adder(&console)?;
    let lines = console.additions().begin(&session, |person| adder.add(wanted, person)).await?;
    Ok(LineStream { lines, console, session, sessions }.into_response())
}

/// Server to update.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateRequest {
    server: String,
}

/// Begins an update. Its questions are answered as those of an addition.
pub(super) async fn begin_update(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    AuthorizedDecider(by): AuthorizedDecider,
    JsonBody(UpdateRequest { server }): JsonBody<UpdateRequest>,
) -> Result<Response, ApiError> {
    let session = caller.session().ok_or(ApiError::NoSession)?.to_owned();
    if server.is_empty() || server.len() > MAX_WORDS {
        return Err(ApiError::Misread("`server` is the name of a server in the configuration".to_owned()));
    }
    let (wanted, adder) = (WantedUpdate { name: server, by }, adder(&console)?);
    // Subscribed before the session is used, so that its end is not missed.
    let sessions = console.news().sessions();
    let lines = console.additions().begin(&session, |person| adder.update(wanted, person)).await?;
    Ok(LineStream { lines, console, session, sessions }.into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswersRequest {
    answers: AdditionAnswers,
}

pub(super) async fn answer(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    Path(id): Path<String>,
    JsonBody(AnswersRequest { answers }): JsonBody<AnswersRequest>,
) -> ApiResult<Value> {
    if answers.values().map(|values| values.len().max(1)).sum::<usize>() > MAX_VALUES {
        return Err(ApiError::Misread(format!("`answers` has at most {MAX_VALUES} values")));
    }
    let session = caller.session().ok_or(ApiError::NoSession)?;
    taken(console.additions().answer(session, &id, answers))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct StartRequest {
    is_confined: bool,
}

pub(super) async fn start(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    Path(id): Path<String>,
    JsonBody(StartRequest { is_confined }): JsonBody<StartRequest>,
) -> ApiResult<Value> {
    let session = caller.session().ok_or(ApiError::NoSession)?;
    taken(console.additions().start(session, &id, is_confined))
}

pub(super) async fn accept(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    Path(id): Path<String>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> ApiResult<Value> {
    let session = caller.session().ok_or(ApiError::NoSession)?;
    taken(console.additions().accept(session, &id))
}

/// Ends the addition of the session, which another window may have begun.
pub(super) async fn end(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> ApiResult<Value> {
    let session = caller.session().ok_or(ApiError::NoSession)?;
    Ok(Json(json!({ "ended": console.additions().cancel(session) })))
}

fn taken(is_taken: bool) -> ApiResult<Value> {
    match is_taken {
        true => Ok(Json(json!({}))),
        false => Err(ApiError::NotAsked),
    }
}
