//! Errors of a program that was built without the authorization server.

use hospes::transport::http_server::HttpMiddleware;
use hospes_auth::Issuer;
use hospes_console::TeamConsole;
use hospes_host::config::{AuthConfig, ConsoleTeamConfig};
use hospes_oauth_resource::BearerAuth;
use hospes_store::StateStore;

use super::endpoint::{AccountPages, EndpointParts, IssuedMiddleware};
use crate::exit::{CliError, CliResult};
use crate::fleet::SharedState;

/// Fails, because this program cannot issue tokens.
#[expect(clippy::unused_async, reason = "with the authorization server it waits for a database")]
pub(super) async fn require_own_tokens(
    _: EndpointParts<'_>,
    _: Option<&SharedState>,
) -> CliResult<IssuedMiddleware> {
    Err(missing("the endpoint needs tokens, and `auth.issuer` names no authorization server").hint(
        "set `issuer` under [auth], or `enabled = false`, or build with `--features authorization-server`",
    ))
}

/// Fails, because this program has no pages.
#[expect(clippy::unused_async, reason = "with the authorization server it waits for a database")]
pub(super) async fn with_account_pages(
    _: AccountPages<'_>,
    _: BearerAuth,
    _: Option<&SharedState>,
) -> CliResult<Box<dyn HttpMiddleware>> {
    Err(missing("`auth.sign_in` is for pages on which users connect their accounts")
        .hint("remove [auth.sign_in], or build with `--features authorization-server`"))
}

/// Fails, because this program has no client of providers.
pub(super) fn team_console(
    _: &ConsoleTeamConfig,
    _: &AuthConfig,
    _: Issuer,
    _: &StateStore,
) -> CliResult<TeamConsole> {
    Err(missing("[console.team] signs people in at a provider")
        .hint("remove [console.team], or build with `--features authorization-server`"))
}

fn missing(why: &str) -> CliError {
    CliError::usage(format!("this program was built without the authorization server: {why}"))
}
