//! Users' accounts at upstream servers.

use std::sync::Arc;

use hospes_auth::{ClientId, Issuer, UnixClock};
use hospes_host::config::{AccountsConfig, HostConfig, ServerTransport};
use hospes_host::{AccountLimits, UpstreamAccounts};
use hospes_oauth::{CredentialStore as Kept, PendingStore};

use super::endpoint::EndpointAuthorization;
use super::values::identifier;
use crate::exit::{CliError, CliResult};

/// Creates the accounts of a host whose own pages are below `issuer`. `pending` is the store of links that all nodes of a
/// fleet share.
pub(super) fn accounts_at(
    kept: Arc<dyn Kept>,
    pending: Option<Arc<dyn PendingStore>>,
    said: &AccountsConfig,
    issuer: &Issuer,
    clock: UnixClock,
) -> CliResult<UpstreamAccounts> {
    let accounts = UpstreamAccounts::new(kept).limits(AccountLimits::from(said)).clock(clock);
    let accounts = match pending {
        Some(pending) => accounts.with_pending_store(pending),
        None => accounts,
    };
    let accounts = identifier("auth.base_url", accounts.with_issuer(issuer.as_str()))?;
    let is_public = issuer.as_str().starts_with("https://");
    // Authorization servers must be able to fetch the client metadata document.
    if !is_public || said.client_document == Some(false) {
        return Ok(accounts);
    }
    let url = ClientId::new(format!("{}/connect/client.json", issuer.as_str().trim_end_matches('/')));
    Ok(accounts.with_metadata_url(identifier("auth.base_url", url)?))
}

/// Returns an error if a server has an account for each user, but no user can sign in.
pub(crate) fn users_can_sign_in(
    config: &HostConfig,
    authorization: Option<&EndpointAuthorization>,
) -> CliResult {
    let Some(server) = config.servers.iter().find(|server| server.is_per_user() && !server.disabled) else {
        return Ok(());
    };
    let refuse =
        |why: &str| CliError::usage(format!("server `{}`: `account = \"per-user\"`: {why}", server.name));
    if let ServerTransport::Http(http) = &server.transport
        && !hospes_auth::metadata::is_secure(http.url.reveal())
    {
        return Err(
            refuse("the users' tokens would be sent over http, without encryption").hint("use an https URL")
        );
    }
    if authorization.is_none() {
        return Err(refuse("no sign-in is configured for this host")
            .hint("add users under [auth]: users = { name = \"…\" }"));
    }
    let auth = config.auth.as_ref();
    if let Some(issuer) = auth.and_then(|auth| auth.issuer.as_ref().filter(|_| auth.sign_in.is_none())) {
        let why = format!(
            "users of {issuer} (`auth.issuer`) must sign in on this host's pages to connect an account, but \
             `client_id` under [auth.sign_in] is missing"
        );
        return Err(refuse(&why).hint(
            "register this host there as an OpenID client with the redirect URI BASE_URL/upstream/callback, or share \
             one account: account = \"shared\"",
        ));
    }
    Ok(())
}
