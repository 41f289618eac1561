//! Values of the table `[auth]`: identifiers, scopes, and HTTP clients for configured URLs.

use hospes_auth::egress::{EgressPolicy, GuardedClient};
use hospes_auth::{Issuer, Scopes};
use hospes_host::config::AuthConfig;
use url::Url;

use crate::exit::{CliError, CliResult};

/// Returns the configured scopes that tokens must have, in addition to those of every token of this host.
pub(super) fn scopes(config: &AuthConfig) -> CliResult<Scopes> {
    let scopes: Scopes = config.scopes.iter().map(String::as_str).collect();
    // `offline_access` asks for a refresh token (OpenID Connect Core §11) and protects no resource.
    if scopes.contains("offline_access") {
        return Err(CliError::usage(
            "`auth.scopes`: `offline_access` is not a scope that access tokens can have",
        ));
    }
    if scopes.len() == config.scopes.len() {
        return Ok(scopes);
    }
    Err(CliError::usage("`auth.scopes`: expected unique scope names without spaces"))
}

/// Creates an HTTP client for an issuer that the operator has configured, even in a private network.
pub(super) fn fetcher(issuer: &Issuer) -> GuardedClient {
    fetching(issuer.url().as_ref())
}

/// Creates an HTTP client for configured URLs, even in a private network.
pub(super) fn fetching<'a>(places: impl IntoIterator<Item = &'a Url>) -> GuardedClient {
    // The configured hosts may be in a private network, but URLs that they refer to have to be public.
    let mut egress = EgressPolicy::public();
    for url in places {
        if let Some(host) = url.host_str() {
            egress = egress.allow_host(host);
        }
        if hospes_auth::metadata::is_loopback(url) {
            egress = egress.allow_loopback();
        }
    }
    GuardedClient::new(egress)
}

/// Returns a value of the configuration, or the error that names its setting.
pub(super) fn identifier<T, E: std::error::Error>(field: &str, made: Result<T, E>) -> CliResult<T> {
    made.map_err(|error| mistake(field, &error))
}

/// Creates the error for an invalid setting.
pub(super) fn mistake(field: &str, error: &dyn std::error::Error) -> CliError {
    CliError::usage(format!("`{field}`: {error}"))
}
