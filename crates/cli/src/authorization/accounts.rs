//! Users' accounts at upstream servers, and the pages on which users connect them.

use std::sync::Arc;

use hospes_auth::{ClientId, Issuer, RedirectUri, Seed};
use hospes_host::config::{AccountsConfig, AuthSignIn, HostConfig, ServerTransport};
use hospes_host::{AccountLimits, UpstreamAccounts};
use hospes_oauth::{CredentialStore as Kept, InvalidDocument};
use hospes_oauth_server::{AuthServer, SignInProvider};

use super::server::asked_there;
use super::{EndpointAuthorization, fetcher, identifier, mistake};
use crate::exit::{CliError, CliResult};
use crate::output::CliOutput;

/// Creates the accounts of a host whose own pages are below `issuer`.
pub(super) fn accounts_at(
    kept: Arc<dyn Kept>,
    said: &AccountsConfig,
    issuer: &Issuer,
) -> CliResult<UpstreamAccounts> {
    let accounts = UpstreamAccounts::new(kept).limits(AccountLimits::from(said));
    let accounts = identifier("auth.base_url", accounts.with_issuer(issuer.as_str()))?;
    let is_public = issuer.as_str().starts_with("https://");
    // Authorization servers must be able to fetch the client metadata document.
    if !is_public || said.client_document == Some(false) {
        return Ok(accounts);
    }
    let url = ClientId::new(format!("{}/connect/client.json", issuer.as_str().trim_end_matches('/')));
    Ok(accounts.with_metadata_url(identifier("auth.base_url", url)?))
}

/// Adds the pages on which users connect these accounts, and publishes this host's client metadata document.
pub(super) fn with_accounts(server: AuthServer, accounts: UpstreamAccounts) -> CliResult<AuthServer> {
    // The sign-in provider may read the document too, so it lists that redirect URI as well.
    let more = identifier("auth.base_url", RedirectUri::new(server.provider_callback()))?;
    let document = accounts.client_document(vec![more]);
    let server = server.connecting(Arc::new(accounts));
    Ok(match document {
        Ok(document) => server.publishing(document),
        // No URL is configured for the document, so none is published.
        Err(InvalidDocument::NoUrl) => server,
        Err(error) => return Err(mistake("auth.base_url", &error)),
    })
}

/// Creates the provider at which users of another issuer sign in for this host's pages. Its sealed data lasts for
/// minutes, so the key is new each time.
pub(super) fn visitors(issuer: Issuer, config: &AuthSignIn) -> CliResult<SignInProvider> {
    let client = identifier("auth.sign_in.client_id", ClientId::new(config.client_id.as_str()))?;
    let key = Seed::from_system()
        .map_err(|error| CliError::usage("cannot read random bytes from the system").with_cause(&error))?
        .draw();
    let fetch = fetcher(&issuer);
    let provider = identifier("auth.sign_in", SignInProvider::new(issuer, client, &key, fetch))?;
    asked_there("auth.sign_in", provider, config.client_secret.as_ref(), &config.scopes, &config.parameters)
}

/// Removes the upstream accounts of users who can no longer sign in.
pub(super) fn forget_the_gone(
    accounts: &UpstreamAccounts,
    server: &AuthServer,
    output: CliOutput,
) -> CliResult {
    let gone = accounts.forget_users(server.settings().issuer.as_str(), |user| server.knows_user(user));
    match gone.map_err(|error| CliError::usage("cannot read the accounts of users").with_cause(&error))? {
        0 => {}
        gone => output.say(format_args!("deleted {gone} accounts of users who can no longer sign in")),
    }
    Ok(())
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
