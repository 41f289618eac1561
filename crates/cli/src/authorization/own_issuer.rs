//! Endpoints whose tokens or account pages come from the built-in authorization server.

use std::sync::Arc;

use hospes::transport::http_server::HttpMiddleware;
use hospes_auth::Scopes;
use hospes_oauth_resource::{AnyTokenVerifier, BearerAuth, ScopeRules};
use hospes_oauth_server::{AuthServer, SharedRateLimits};

use super::account_pages::{forget_the_gone, visitors, with_accounts};
use super::endpoint::{AccountPages, EndpointParts, IssuedMiddleware, SCOPE, bound};
use super::server::server;
use super::values::{identifier, scopes};
use crate::exit::CliResult;
use crate::fleet::{NodeRateLimits, SharedState, VISITORS_PURPOSE};

/// Creates the middleware that issues the tokens it accepts.
pub(super) async fn require_own_tokens(
    parts: EndpointParts<'_>,
    shared: Option<&SharedState>,
) -> CliResult<IssuedMiddleware> {
    let EndpointParts { config, urls, machine, tokens, accounts, proxies, clock, rate_limits, output } =
        parts;
    let audiences = [urls.main.clone(), urls.older.clone()];
    let shared = match shared {
        Some(shared) => Some(shared.auth().await?),
        None => None,
    };
    let server = server(config, urls.own.clone(), audiences.to_vec(), shared.as_ref(), output)?;
    let server = server.trusting_proxies(proxies).clock(clock.clone());
    let mut server = sharing_limits(server, rate_limits);
    if let Some(accounts) = accounts {
        server = with_accounts(server, accounts.clone())?;
        // With a provider, only the provider knows which users still exist.
        if config.provider.is_none() {
            forget_the_gone(accounts, server.clone(), output).await?;
        }
    }
    let tokens = AnyTokenVerifier::none().or(tokens).or(server.tokens_for(audiences));
    let rules = ScopeRules::default().always(Scopes::parse(SCOPE).union(&scopes(config)?));
    let guard = BearerAuth::builder(urls.main, vec![urls.own], tokens).also(urls.older).rules(rules);
    let guard = guard.clock(clock);
    // Shared through the store, so that a DPoP proof is good only once (RFC 9449 §11.1).
    let guard = guard.used_proofs(server.used_proofs());
    let guard = bound(guard, config, &machine, server.proof_nonces());
    let by = match &config.provider {
        Some(provider) => format!("this host, after sign-in at {}", provider.issuer),
        None => "this host".to_owned(),
    };
    Ok((Box::new(server.in_front_of(guard)), by))
}

/// Adds the account pages to an endpoint whose tokens another issuer issues.
pub(super) async fn with_account_pages(
    pages: AccountPages<'_>,
    guard: BearerAuth,
    shared: Option<&SharedState>,
) -> CliResult<Box<dyn HttpMiddleware>> {
    let server = match shared {
        // People come to another node with the next page.
        Some(shared) => {
            let provider = visitors(pages.issuer, pages.sign_in, Some(shared.secret(VISITORS_PURPOSE)?))?;
            AuthServer::only_pages_with(pages.own, provider, shared.auth().await?.store)
        }
        None => AuthServer::only_pages(pages.own, visitors(pages.issuer, pages.sign_in, None)?),
    };
    let server = identifier("auth.base_url", server)?;
    let server = server.trusting_proxies(pages.proxies).clock(pages.clock);
    let server = sharing_limits(server, pages.rate_limits);
    Ok(Box::new(with_accounts(server, pages.accounts)?.in_front_of(guard)))
}

/// Applies the rate limits of a server to all nodes of a fleet.
fn sharing_limits(server: AuthServer, limits: Option<NodeRateLimits>) -> AuthServer {
    match limits {
        Some(limits) => server.sharing_limits(&(Arc::new(limits) as Arc<dyn SharedRateLimits>)),
        None => server,
    }
}
