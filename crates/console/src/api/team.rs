//! Routes of the sign-in of people at the provider.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::header::{CONTENT_TYPE, SET_COOKIE, USER_AGENT};
use http::{HeaderMap, StatusCode};
use serde_json::json;

use super::body::{EmptyBody, JsonBody};
use super::sessions::record_sign_in;
use crate::api_error::ApiError;
use crate::browser_auth::cookie;
use crate::console::Console;
use crate::team::{
    BeginError, FinishError, NoRole, SESSION_COOKIE, SIGN_IN_COOKIE, TeamConsole, TeamSignInError,
    TeamSignInResponse,
};

/// Lifetime of the cookie of a sign-in, in seconds.
const SIGN_IN_SECONDS: u64 = 600;

/// Maximum size of the body of a sign-out at the provider, in bytes. A token has at most 16 KiB.
pub(super) const MAX_LOGOUT_BODY: usize = 32 << 10;

/// HTML of the page that says why nobody was signed in.
const REFUSED_PAGE: &str = include_str!("../../pages/refused.html");

/// Begins a sign-in. Returns the URL of the provider, to which the page goes.
pub(super) async fn begin(
    State(console): State<Console>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> Result<Response, ApiError> {
    let team = console.team().ok_or_else(|| ApiError::Nothing("not found".to_owned()))?;
    let started = team.begin_sign_in().await.map_err(|error| match error {
        BeginError::Provider(why) => {
            tracing::warn!(%why, "console sign-in cannot begin");
            ApiError::NoProvider
        }
        BeginError::Store(error) => ApiError::Store(error),
    })?;
    let cookie = team.cookie(SIGN_IN_COOKIE, &started.secret, Some(SIGN_IN_SECONDS));
    Ok(([(SET_COOKIE, cookie)], Json(json!({ "url": started.url }))).into_response())
}

/// Ends a sign-in: opens a session, or says why not.
pub(super) async fn finish(
    State(console): State<Console>,
    headers: HeaderMap,
    response: Result<Query<TeamSignInResponse>, QueryRejection>,
) -> Response {
    let Some(team) = console.team() else { return crate::pages::missing() };
    let Ok(Query(response)) = response else { return refused(team, &FinishError::Unknown) };
    let browser = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let secret = cookie(&headers, &team.cookie_name(SIGN_IN_COOKIE));
    // A browser that is signed in already gets another session, and the one of before ends.
    let before = cookie(&headers, &team.cookie_name(SESSION_COOKIE));
    let opened = match team.finish_sign_in(&response, secret.as_deref(), browser).await {
        Ok(opened) => opened,
        Err(why) => return refused(team, &why),
    };
    let person = &opened.person;
    let by = format!("{}, at the console, browser session {}", person.principal, person.session);
    tracing::info!(session = person.session, "person signed in to the console");
    if record_sign_in(&console, "a session was opened", &by).await.is_err() {
        let _ended = team.end_session(&person.session, person).await;
        return refused(team, &FinishError::TooMany);
    }
    if let Some(before) = before
        && let Ok(Some(known)) = team.authenticate(&before).await
        && let Err(error) = team.end_session(&known.session, &known).await
    {
        tracing::warn!(%error, "the former session of a browser could not be ended");
    }
    console.news().sessions_changed();
    let mut response = Redirect::to("/").into_response();
    for cookie in
        [team.cookie(SESSION_COOKIE, &opened.secret, None), team.cookie(SIGN_IN_COOKIE, "", Some(0))]
    {
        if let Ok(cookie) = cookie.try_into() {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
    }
    response
}

/// Ends the sessions of a person who has signed out at the provider (OpenID Connect Back-Channel Logout 1.0). Responds with
/// 200, or with 400 if no session was ended.
pub(super) async fn log_out(
    State(console): State<Console>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let Some(team) = console.team() else { return ApiError::Nothing("not found".to_owned()).into_response() };
    let failed = |why: &dyn std::fmt::Display| {
        tracing::warn!(%why, "sign-out at the provider refused");
        let body = json!({ "error": "invalid_request", "error_description": why.to_string() });
        (StatusCode::BAD_REQUEST, Json(body)).into_response()
    };
    let body = match body {
        Ok(body) => body,
        Err(why) => return failed(&why.body_text()),
    };
    let Some(token) = logout_token(&headers, &body) else {
        return failed(&"expected a form with one `logout_token`");
    };
    match team.end_by_provider(&token).await {
        Ok(0) => StatusCode::OK.into_response(),
        Ok(number) => {
            tracing::info!(number, "console sessions ended: the person has signed out at the provider");
            console.news().sessions_changed();
            let by = "the sign-in provider, by back-channel logout";
            // They have ended in any case.
            if let Err(error) = record_sign_in(&console, &format!("sessions were ended: {number}"), by).await
            {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the end of sessions cannot be recorded"
                );
            }
            StatusCode::OK.into_response()
        }
        Err(why) => failed(&why),
    }
}

/// Returns the token of a form that has one.
fn logout_token(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok())?;
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return None;
    }
    let mut tokens = url::form_urlencoded::parse(body).filter(|(name, _)| name == "logout_token");
    let (_, token) = tokens.next()?;
    tokens.next().is_none().then(|| token.into_owned())
}

/// Says why nobody was signed in.
fn refused(team: &TeamConsole, why: &FinishError) -> Response {
    let claim = team.claim();
    let (status, text) = match why {
        FinishError::Unknown => (
            StatusCode::BAD_REQUEST,
            "This sign-in was already used, has expired, or began in another browser.".to_owned(),
        ),
        FinishError::NoRole(NoRole::NoGroup, name) => (
            StatusCode::FORBIDDEN,
            format!(
                "{name} is signed in at the provider, but none of the groups of this account has a role here. An \
                 administrator gives groups a role in [console.team.roles] of the configuration."
            ),
        ),
        FinishError::NoRole(NoRole::NoClaim, name) => (
            StatusCode::FORBIDDEN,
            format!(
                "{name} is signed in at the provider, but it does not send the claim `{claim}`, from which roles come. \
                 An administrator sets the scope that it needs as `scopes`, or another claim as `groups_claim`, in \
                 [console.team] of the configuration."
            ),
        ),
        FinishError::NoRole(NoRole::Overage, name) => (
            StatusCode::FORBIDDEN,
            format!(
                "{name} is in too many groups: the provider cannot send the claim `{claim}` in full. An \
                 administrator limits the groups that the provider sends to this application."
            ),
        ),
        FinishError::Provider(TeamSignInError::Denied) => {
            (StatusCode::FORBIDDEN, "The sign-in was denied at the provider.".to_owned())
        }
        FinishError::Provider(why) => {
            tracing::warn!(%why, "console sign-in failed");
            let text = "The sign-in provider does not answer, or its answer is not valid. The log of the host says more.";
            (StatusCode::BAD_GATEWAY, text.to_owned())
        }
        FinishError::TooMany => (
            StatusCode::SERVICE_UNAVAILABLE,
            "No session can be opened now: there are too many, or the sign-in cannot be recorded.".to_owned(),
        ),
        FinishError::Store(error) => {
            tracing::error!(error = error as &dyn std::error::Error, "console sign-in failed");
            (StatusCode::SERVICE_UNAVAILABLE, "The database of the host does not answer.".to_owned())
        }
    };
    (status, Html(REFUSED_PAGE.replace("{text}", &escaped(&text)))).into_response()
}

/// Escapes text for HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut all = String::new();
    for character in text.chars() {
        match character {
            '&' => all.push_str("&amp;"),
            '<' => all.push_str("&lt;"),
            '>' => all.push_str("&gt;"),
            '"' => all.push_str("&quot;"),
            other => all.push(other),
        }
    }
    all
}
