//! Calls of tools that a person makes at the console.
//!
//! Such a call takes the path of an application's call: pins, policy, approval and audit. Its caller is
//! [`PERSON_APPLICATION`], a name that no application may use.

use std::future::poll_fn;
use std::sync::Arc;

use hospes::{BoxService, Call, Context, Exchange, ExchangeEvent, Outcome, Peer};
use hospes_model::{
    CallToolResult, ClientCapabilities, Implementation, Method, Notification, ProgressParams, ProgressToken,
    RawJson, Reply, Revision, RpcError,
};

use serde::Serialize;

use super::handle::Gateway;
use super::host_servers::{HostServers, UnknownServerError};
use super::profile_table::GatewayScope;
use crate::server::decoded;

/// Application name of a person who calls a tool at the console. Rules can name it.
pub const PERSON_APPLICATION: &str = "you, in the console";

/// Marks the context of a call that a person makes at the console.
#[derive(Clone, Copy, Debug)]
struct AtConsole;

/// Error of starting a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PersonCallError {
    /// There is no server of that name.
    #[error(transparent)]
    Unknown(#[from] UnknownServerError),
    /// Each user has an account of their own at the server, and the person at the console has none.
    #[error(
        "each user has an account of their own at `{0}`; call its tools from an application that is signed in"
    )]
    PerUser(String),
    /// The params cannot be written as JSON.
    #[error("the params of the call cannot be written: {0}")]
    Params(String),
}

/// Params of `tools/call`. The arguments stay as they are, byte for byte.
#[derive(Serialize)]
struct ToolCallParams<'a> {
    name: &'a str,
    arguments: &'a RawJson,
}

/// Event of a call.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a viewer has to show all of them")]
pub enum PersonCallEvent {
    /// Progress, as the server or the host reports it.
    Progress(ProgressParams),
    /// Outcome: the result, or the error instead of it. No event follows.
    Done(Result<CallToolResult, RpcError>),
}

/// A running call of a person. Dropping it cancels the call.
#[derive(Debug)]
pub struct PersonCall(Exchange);

impl PersonCall {
    /// Waits for the next event. Must not be called again after [`PersonCallEvent::Done`].
    pub async fn next(&mut self) -> PersonCallEvent {
        loop {
            match poll_fn(|cx| self.0.poll_event(cx)).await {
                ExchangeEvent::Notify(Notification::Progress(progress)) => {
                    return PersonCallEvent::Progress(progress);
                }
                ExchangeEvent::Notify(_) => {}
                // Only peers of older revisions are asked in this way.
                ExchangeEvent::Ask(_) => return PersonCallEvent::Done(Err(no_questions())),
                ExchangeEvent::Done(outcome) => return PersonCallEvent::Done(result(outcome)),
            }
        }
    }
}

fn no_questions() -> RpcError {
    RpcError::internal(
        "the server asks a question in the middle of the call, which the console cannot answer",
    )
}

fn result(outcome: Outcome) -> Result<CallToolResult, RpcError> {
    match outcome {
        Outcome::Complete(reply) => match decoded(&Method::ToolsCall, reply)? {
            Reply::CallTool(result) => Ok(result),
            _ => Err(RpcError::internal("the server did not answer with the result of a tool")),
        },
        Outcome::InputRequired(_) => Err(no_questions()),
        Outcome::Failed(error) => Err(error),
    }
}

impl HostServers {
    /// Starts a call of a tool of one server, by its own name. `caller` describes where the person is, as in `browser
    /// session 4f1c`; calls with the same description belong to one session.
    ///
    /// # Errors
    /// If there is no such server, or each user has an account of their own there. All other failures are the outcome of
    /// the call.
    pub fn call_tool(
        &self,
        server: &str,
        tool: &str,
        arguments: &RawJson,
        caller: &str,
    ) -> Result<PersonCall, PersonCallError> {
        let position = self.position(server)?;
        if self.slot(server)?.is_per_user() {
            return Err(PersonCallError::PerUser(server.to_owned()));
        }
        let info = Implementation::new(PERSON_APPLICATION, env!("CARGO_PKG_VERSION"));
        let mut peer = Peer::new(Revision::LATEST, Some(info), ClientCapabilities::new());
        peer.caller = Some(Arc::from(caller));
        let mut extensions = http::Extensions::new();
        extensions.insert(AtConsole);
        let context = Context::builder(Arc::new(peer))
            .extensions(extensions)
            .progress_token(Some(ProgressToken::from("console")))
            .build();
        let params = ToolCallParams { name: tool, arguments };
        let params =
            RawJson::from_serialize(&params).map_err(|error| PersonCallError::Params(error.to_string()))?;
        let gateway = Gateway::new(Arc::clone(self.shared()), GatewayScope::Server(position));
        let call = Call::new(Method::ToolsCall, params, context);
        Ok(PersonCall(Exchange::new(BoxService::new(gateway), call)))
    }
}

/// Refuses the call of an application that calls itself as the person at the console is called.
pub(super) fn check_name(call: &Call) -> Result<(), RpcError> {
    let peer = call.context.peer();
    let is_person = |name: &str| letters(name).eq(letters(PERSON_APPLICATION));
    match peer.info.as_ref().is_some_and(|info| is_person(&info.name)) {
        true if call.context.extension::<AtConsole>().is_none() => Err(RpcError::invalid_request(format!(
            "`{PERSON_APPLICATION}` is the name of the person at the console; an application needs another name"
        ))),
        _ => Ok(()),
    }
}

/// Returns the letters of a name in lower case, which is what a person compares.
fn letters(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|letter| letter.is_alphabetic()).flat_map(char::to_lowercase)
}
