//! The pages on which users connect their accounts at upstream servers.

use std::sync::Arc;

use hospes_auth::{ClientId, Issuer, RedirectUri, Seed};
use hospes_host::UpstreamAccounts;
use hospes_host::config::AuthSignIn;
use hospes_oauth::InvalidDocument;
use hospes_oauth_server::{AuthServer, SignInProvider};
use zeroize::Zeroizing;

use super::server::asked_there;
use super::values::{fetcher, identifier, mistake};
use crate::exit::{CliError, CliResult};
use crate::output::CliOutput;

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
/// minutes, so the key is new each time, unless all nodes of a fleet have a `shared` one.
pub(super) fn visitors(
    issuer: Issuer,
    config: &AuthSignIn,
    shared: Option<Zeroizing<[u8; 32]>>,
) -> CliResult<SignInProvider> {
    let client = identifier("auth.sign_in.client_id", ClientId::new(config.client_id.as_str()))?;
    let key = match shared {
        Some(key) => key,
        None => {
            let seed = Seed::from_system();
            let mut seed = seed.map_err(|error| {
                CliError::usage("cannot read random bytes from the system").with_cause(&error)
            })?;
            Zeroizing::new(seed.draw())
        }
    };
    let fetch = fetcher(&issuer);
    let provider = identifier("auth.sign_in", SignInProvider::new(issuer, client, &key, fetch))?;
    asked_there("auth.sign_in", provider, config.client_secret.as_ref(), &config.scopes, &config.parameters)
}

/// Removes the upstream accounts of users who can no longer sign in.
pub(super) async fn forget_the_gone(
    accounts: UpstreamAccounts,
    server: AuthServer,
    output: CliOutput,
) -> CliResult {
    // The store may wait for a database.
    let forgetting = tokio::task::spawn_blocking(move || {
        accounts.forget_users(server.settings().issuer.as_str(), |user| server.knows_user(user))
    });
    let gone = forgetting
        .await
        .map_err(|error| CliError::usage("cannot read the accounts of users").with_cause(&error))?;
    match gone.map_err(|error| CliError::usage("cannot read the accounts of users").with_cause(&error))? {
        0 => {}
        gone => output.say(format_args!("deleted {gone} accounts of users who can no longer sign in")),
    }
    Ok(())
}
