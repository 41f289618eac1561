//! Sign-in to upstream accounts. A call that needs an account its user has not connected asks the user to connect it,
//! then continues.
//!
//! An application that can show URLs is asked to open one, by the means of its revision. The call is made once the
//! account is connected. Any other application receives the URL in an error message. A server that lists nothing before
//! sign-in is shown with a single tool that starts the sign-in.

use std::sync::Arc;

use hospes::{Call, Context, Outcome, PendingInput};
use hospes_model::{
    CallToolResult, ElicitAction, ElicitParams, ElicitResult, ElicitUrlParams, ElicitationCompleteParams,
    InputRequest, Method, Notification, RpcError,
};
use hospes_oauth::StepError;
use serde_json::json;
use tokio::time::Instant;

use super::gateway_state::ViewLease;
use super::handle::Gateway;
use super::resources::own_resource;
use super::sign_in_tool::CONNECT_ACCOUNT;
use crate::accounts::{AccountLinkStage, KnownLink, UpstreamAccounts};
use crate::catalogue::ACCOUNTS_URI;
use crate::catalogue::names::SEPARATOR;
use crate::metrics::excluded;
use crate::upstream::sign_in_required_error;

/// Under which key the user is asked to go to the URL.
const QUESTION_KEY: &str = "connect-account";
/// Prefix of the request state of a call that waits for an account.
const STATE_PREFIX: &str = "account ";

impl Gateway {
    /// Answers a call. If it needs an account that is not connected, the user is asked to connect it.
    pub(super) async fn answer_with_account(
        &self,
        accounts: &UpstreamAccounts,
        call: Call,
    ) -> Result<Outcome, RpcError> {
        // `answer` takes the call, and its error may have to become a question of the same call.
        let (context, method) = (call.context.clone(), call.method.clone());
        let resumed = excluded(resume(accounts, &context, &method)).await;
        if let (Some(guard), Ok(Some(Outcome::Complete(_))) | Err(_)) = (&self.shared.guard, &resumed) {
            // It ends here, without having been near the guard.
            guard.abandon(&context);
        }
        if let Some(outcome) = resumed? {
            return Ok(outcome);
        }
        let carried = context.round().carried;
        let error = match self.answer(call).await {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
        // What a call took with it, it takes with it again.
        let mut round = context.round();
        round.carried = carried;
        context.begin_round(round);
        ask_to_sign_in(accounts, &context, &method, error).await
    }

    /// Returns the server whose sign-in tool has this name. `None` if the server has already listed its real tools.
    pub(super) fn find_sign_in_tool(&self, name: &str, using: &ViewLease) -> Option<usize> {
        let prefix = name.strip_suffix(CONNECT_ACCOUNT)?.strip_suffix(SEPARATOR)?;
        let server = self.position(self.shared.upstreams.prefixes().server(prefix)?)?;
        let slot = &self.shared.upstreams[server];
        if !slot.is_per_user() {
            return None;
        }
        let line = slot.of(using.view.user.as_ref())?.line(using.view.abilities);
        let is_theirs = line
            .phase()
            .offers()
            .is_some_and(|live| live.listing.tools.iter().any(|tool| tool.name == CONNECT_ACCOUNT));
        (!is_theirs).then_some(server)
    }

    /// Returns the calling user's accounts and the URL of the page where they can be disconnected.
    pub(super) async fn read_accounts(&self, using: &ViewLease) -> Result<Outcome, RpcError> {
        let (Some(accounts), Some(user)) = (&self.shared.accounts, &using.view.user) else {
            let why = "no accounts: no server uses per-user accounts, or the caller is not signed in";
            return Err(RpcError::invalid_params(why));
        };
        let known = accounts.status(user).await.map_err(|error| RpcError::internal(error.to_string()))?;
        let known: Vec<serde_json::Value> = known
            .iter()
            .filter(|account| self.position(&account.server).is_some())
            .map(|account| {
                json!({
                    "server": &*account.server,
                    "host": account.host,
                    "connected": account.is_connected(),
                    "scopes": account.granted.as_ref().map(|scopes| scopes.iter().collect::<Vec<_>>()),
                })
            })
            .collect();
        own_resource(ACCOUNTS_URI, &json!({ "accounts": known, "manage": accounts.accounts_page_url() }))
    }

    /// Answers a call of the sign-in tool.
    pub(super) async fn connect_account(
        &self,
        server: usize,
        using: &ViewLease,
    ) -> Result<Outcome, RpcError> {
        let name = &self.shared.upstreams[server].server.name;
        let result = match self.reach(server, using).await {
            Ok(mut reached) => {
                // No call goes out, and a lease that is only dropped counts as a call that was given up.
                reached.lease.finish();
                let text =
                    format!("The account at `{name}` is connected. Its tools are now in the tool list.");
                CallToolResult::text(text)
            }
            Err(unreached) if unreached.sign_in.is_some() => return Err(unreached.into()),
            Err(unreached) => CallToolResult::error(unreached.why),
        };
        Ok(Outcome::Complete(result.into()))
    }
}

/// Resumes a call that waited for an account. Returns `None` if the call continues, or the outcome if it ends here.
async fn resume(
    accounts: &UpstreamAccounts,
    context: &Context,
    method: &Method,
) -> Result<Option<Outcome>, RpcError> {
    let mut round = context.round();
    let Some(state) = round.carried.as_deref().and_then(|state| state.strip_prefix(STATE_PREFIX)) else {
        return Ok(None);
    };
    let foreign = || RpcError::invalid_params("invalid request state");
    let (id, inner) = state.split_once(' ').ok_or_else(foreign)?;
    // `+` precedes the state that the call had before, `-` says that it had none.
    let (id, inner) = (id.to_owned(), inner.strip_prefix('+').map(str::to_owned));
    let answer = round.answers.remove(QUESTION_KEY).and_then(|answer| answer.decode::<ElicitResult>().ok());
    round.fresh.retain(|key| key != QUESTION_KEY);
    round.carried = inner;
    context.begin_round(round);

    // Nobody else's link is looked at, whatever the state says.
    let known = accounts.links().look_up(&id).await.map_err(unavailable)?;
    let Some(KnownLink { link, until, .. }) =
        known.filter(|known| Some(&*known.link.principal) == context.principal())
    else {
        return Ok(None);
    };
    if answer.is_none_or(|answer| answer.action != ElicitAction::Accept) {
        // The call ends in any case; without the record, the link stays good for its time.
        let _ = hospes_auth::AccountConnections::refuse(accounts, &id).await;
        let why = format!("the user declined to connect an account at `{}`; nothing was done", link.server);
        return Ok(Some(told(method, why)?));
    }
    // Neither beyond the time of the link nor longer than proxies leave a silent request open.
    let end = until.min(Instant::now() + accounts.current_limits().sign_in_wait);
    match accounts.links().wait_for_result(&id, end).await.map_err(unavailable)? {
        Some(AccountLinkStage::Connected) => {
            // Maybe at another node.
            accounts.recheck(&link.server, &link.principal).await;
            let done = ElicitationCompleteParams::new(id);
            context.notify(Notification::ElicitationComplete(done));
            Ok(None)
        }
        Some(_) => {
            let why =
                format!("no account at `{}` was connected: the sign-in failed or was denied", link.server);
            Ok(Some(told(method, why)?))
        }
        // They still may be about it.
        None if Instant::now() < until && !context.peer().revision.is_legacy() => {
            let error = sign_in_required_error(&link.server, &accounts.link_url(&id));
            ask_to_sign_in(accounts, context, method, error).await.map(Some)
        }
        None => {
            let why =
                format!("the user has not signed in at `{}` yet; call again after the sign-in", link.server);
            Ok(Some(told(method, why)?))
        }
    }
}

/// Returns the error of a call whose sign-in link cannot be looked up.
// By value, for use with `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unavailable(error: StepError) -> RpcError {
    tracing::warn!(%error, "account links cannot be read");
    RpcError::internal("sign-in links are not available at the moment; call again later")
}

/// The sign-in that an error asks this user for.
struct SignInElicitation {
    id: String,
    server: Arc<str>,
    params: ElicitUrlParams,
}

/// Returns the sign-in that an error asks for. Returns none for any other error, and an error if the link does not
/// belong to this user.
async fn parse_sign_in_error(
    accounts: &UpstreamAccounts,
    context: &Context,
    error: &RpcError,
) -> Option<Result<SignInElicitation, RpcError>> {
    // The host's own error carries one link, to its own pages; others are a server's and go on as they are.
    let [params] = <[ElicitUrlParams; 1]>::try_from(error.url_elicitations()?).ok()?;
    let id = accounts.parse_link_id(&params.url)?.to_owned();
    let known = match accounts.links().look_up(&id).await {
        Ok(known) => known,
        Err(error) => return Some(Err(unavailable(error))),
    };
    let server = match known {
        Some(known) if Some(&*known.link.principal) == context.principal() => known.link.server,
        _ => return Some(Err(RpcError::internal("the sign-in link is no longer valid; call again"))),
    };
    Some(Ok(SignInElicitation { id, server, params }))
}

fn can_be_asked(context: &Context, method: &Method) -> bool {
    method.info().is_some_and(|info| info.input_required) && context.peer().capabilities.elicits_urls()
}

/// Returns true if an error becomes an elicitation, after which the call continues.
pub(super) async fn is_sign_in_elicitation(
    accounts: &UpstreamAccounts,
    context: &Context,
    method: &Method,
    error: &RpcError,
) -> bool {
    can_be_asked(context, method)
        && matches!(parse_sign_in_error(accounts, context, error).await, Some(Ok(_)))
}

/// Turns an error that asks the user to sign in into an elicitation, or into a text for an application that cannot show
/// URLs. Any other error is returned unchanged.
async fn ask_to_sign_in(
    accounts: &UpstreamAccounts,
    context: &Context,
    method: &Method,
    error: RpcError,
) -> Result<Outcome, RpcError> {
    let Some(wanted) = parse_sign_in_error(accounts, context, &error).await else { return Err(error) };
    let SignInElicitation { id, server, params } = wanted?;
    if can_be_asked(context, method) {
        let mut round = context.round();
        let inner = round.carried.take().map_or_else(|| "-".to_owned(), |inner| format!("+{inner}"));
        round.carried = Some(format!("{STATE_PREFIX}{id} {inner}"));
        let request = InputRequest::Elicit(Box::new(ElicitParams::Url(params)));
        return Ok(Outcome::InputRequired(PendingInput::new(
            vec![(QUESTION_KEY.to_owned(), request)],
            round,
        )));
    }
    let url = &params.url;
    told(
        method,
        format!(
            "`{server}` requires the user to sign in with their own account: open {url} in a browser, then call again"
        ),
    )
}

/// Returns the message as a tool result if a model reads it, else as an error.
fn told(method: &Method, why: String) -> Result<Outcome, RpcError> {
    match method {
        Method::ToolsCall => Ok(Outcome::Complete(CallToolResult::error(why).into())),
        _ => Err(RpcError::internal(why)),
    }
}
