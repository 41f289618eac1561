//! Routes that check a server, and sign in to it and out of it, with the commands of the program. For browsers only: a
//! program runs the commands.

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use hospes_store::{AuditEntry, AuditEntryKind};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::body::{EmptyBody, JsonBody};
use super::line_stream::LineStream;
use crate::api_error::{ApiError, ApiResult};
use crate::browser_auth::{AuthorizedDecider, ConsoleCaller};
use crate::console::{Console, MAX_FOLLOWED_COMMANDS};
use crate::setup::{FollowedCommand, SetupCommand, SetupCommands};

/// Number of lines that a page may be behind.
const MAX_LINES: usize = 64;
/// Maximum size of a line, in bytes.
const MAX_LINE: usize = 1 << 20;

/// Makes the checks of `hospes doctor NAME`. The answer is a stream of lines.
pub(super) async fn check(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    Path(name): Path<String>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> Result<Response, ApiError> {
    require_known(&console, &name)?;
    follow(console, &caller, FollowedCommand::CheckServer(name), None)
}

/// Signs in to a server. The answer is a stream of lines, one of which has the page to open.
pub(super) async fn sign_in(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    AuthorizedDecider(by): AuthorizedDecider,
    Path(name): Path<String>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> Result<Response, ApiError> {
    require_account(&console, &name).await?;
    follow(console, &caller, FollowedCommand::SignIn(name.clone()), Some((name, by)))
}

/// Signs out of a server: the tokens are revoked and deleted.
pub(super) async fn sign_out(
    State(console): State<Console>,
    AuthorizedDecider(by): AuthorizedDecider,
    Path(name): Path<String>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> ApiResult<Value> {
    require_account(&console, &name).await?;
    let said = setup(&console)?.run(SetupCommand::SignOut(name.clone())).await.map_err(ApiError::Setup)?;
    account_changed(&console, &name, "signed out", by).await?;
    Ok(Json(said))
}

/// Connects the server anew with its other account, and records the change.
async fn account_changed(console: &Console, name: &str, what: &str, by: String) -> Result<(), ApiError> {
    // Not when the next attempt is due: the person waits for it.
    console.servers().restart(name)?;
    let Some(audit) = console.audit() else { return Ok(()) };
    let mut entry = AuditEntry::new(AuditEntryKind::Server);
    (entry.server, entry.subject, entry.by) = (Some(name.to_owned()), Some(what.to_owned()), Some(by));
    audit.record(entry).await?;
    Ok(())
}

fn setup(console: &Console) -> Result<std::sync::Arc<dyn SetupCommands>, ApiError> {
    let setup = console.environment().setup.clone();
    setup.ok_or_else(|| ApiError::Nothing("this host carries out no commands for pages".to_owned()))
}

/// Checks that the host has a server of this name: the commands also take URLs and applications.
fn require_known(console: &Console, name: &str) -> Result<(), ApiError> {
    let status = console.servers().status();
    let is_known = status.servers.iter().any(|server| server.name == name)
        || status.left_out.iter().any(|(left_out, _)| left_out == name);
    match is_known {
        true => Ok(()),
        false => Err(ApiError::Nothing(format!("no server named `{name}`"))),
    }
}

/// Checks that the server has an account that everybody shares.
async fn require_account(console: &Console, name: &str) -> Result<(), ApiError> {
    match console.servers().has_sign_in(name).await? {
        Some(_) => Ok(()),
        None => Err(ApiError::Nothing(format!("there is no sign-in at the server `{name}`"))),
    }
}

/// Begins a command, whose lines are the answer: those of the command, and `done` or `failed` at last. `signed_in` has the
/// server and the person, if the command is a sign-in.
fn follow(
    console: Console,
    caller: &ConsoleCaller,
    command: FollowedCommand,
    signed_in: Option<(String, String)>,
) -> Result<Response, ApiError> {
    let session = caller.session().ok_or(ApiError::NoSession)?.to_owned();
    let setup = setup(&console)?;
    let permit = console.command_permit().ok_or(ApiError::TooManyCommands(MAX_FOLLOWED_COMMANDS))?;
    let sessions = console.news().sessions();
    let (send, receive) = mpsc::channel(MAX_LINES);
    let (said, mut lines) = mpsc::channel(MAX_LINES);
    let work = setup.follow(command, said);
    let host = console.clone();
    // A task of its own, so that the command ends in order when the page is gone.
    tokio::spawn(async move {
        let pass = async {
            loop {
                let line = tokio::select! {
                    // A sign-in says nothing while it waits.
                    () = send.closed() => break,
                    line = lines.recv() => line,
                };
                let Some(line) = line else { break };
                if send.send(line_of(&line)).await.is_err() {
                    break;
                }
            }
            // The command sees that nobody listens any more, and ends.
            drop(lines);
        };
        let (outcome, ()) = tokio::join!(work, pass);
        if outcome.is_ok()
            && let Some((name, by)) = signed_in
            && let Err(error) = account_changed(&host, &name, "signed in", by).await
        {
            tracing::error!(%error, server = %name, "a sign-in is not in the audit log");
        }
        drop(permit);
        let last = match outcome {
            Ok(()) => json!({ "event": "done" }),
            Err(message) => json!({ "event": "failed", "message": message }),
        };
        let _gone = send.send(line_of(&last)).await;
    });
    Ok(LineStream { lines: receive, console, session, sessions }.into_response())
}

/// Formats a line. One that is too long is left out; the last one of a check then tells what failed.
fn line_of(value: &Value) -> Bytes {
    let mut text = serde_json::to_vec(value).unwrap_or_default();
    if text.len() > MAX_LINE {
        text = b"{}".to_vec();
    }
    text.push(b'\n');
    text.into()
}
