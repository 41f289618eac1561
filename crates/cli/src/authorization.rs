//! Authorization of the endpoint that `hospes up` serves.

#[cfg(feature = "authorization-server")]
mod account_pages;
mod accounts;
mod endpoint;
#[cfg(feature = "authorization-server")]
mod own_issuer;
#[cfg(not(feature = "authorization-server"))]
#[path = "authorization/without_server.rs"]
mod own_issuer;
#[cfg(feature = "authorization-server")]
mod server;
#[cfg(feature = "authorization-server")]
mod team_console;
mod values;

use std::net::SocketAddr;
use std::sync::Arc;

use hospes_auth::dpop::ProofNonces;
use hospes_auth::{GroupsClaim, Issuer, Resource, Scopes, Seed, TrustedProxies, UnixClock};
use hospes_console::TeamConsole;
use hospes_host::config::{AccountsConfig, AuthConfig, HostConfig};
use hospes_oauth::CredentialStore as Kept;
use hospes_oauth_resource::{
    AnyTokenVerifier, BearerAuth, JwtRules, JwtVerifier, ScopeRules, StaticTokenVerifier, TokenPrincipal,
};
use hospes_store::StateStore;
use url::Url;

use self::accounts::accounts_at;
pub(crate) use self::accounts::users_can_sign_in;
use self::endpoint::{
    AccountPages, EndpointAuthorization, EndpointParts, EndpointUrls, IssuedMiddleware, SCOPE, bound,
};
#[cfg(not(feature = "authorization-server"))]
use self::own_issuer as team_console;
use self::own_issuer::{require_own_tokens, with_account_pages};
#[cfg(feature = "authorization-server")]
pub(crate) use self::server::copy_seals;
use self::values::{fetcher, identifier, mistake, scopes};
use crate::enforcement::open_state;
use crate::exit::{CliError, CliResult};
use crate::fleet::SharedState;
use crate::output::CliOutput;

/// Creates the authorization of an endpoint at `address`. Returns `None` if every caller may use it. `shared` is the
/// state of all nodes of a fleet.
pub(crate) async fn authorization(
    config: Option<&AuthConfig>,
    address: SocketAddr,
    path: &str,
    kept: Option<Arc<dyn Kept>>,
    said_of_accounts: &AccountsConfig,
    shared: Option<&SharedState>,
    output: CliOutput,
) -> CliResult<Option<EndpointAuthorization>> {
    let exposed = !address.ip().is_loopback();
    let said = config.is_some();
    let config = config.cloned().unwrap_or_default();
    // Tokens are required beyond loopback unless the configuration disables them, and on loopback only if there is an
    // `[auth]` table.
    if !config.enabled.unwrap_or(said || exposed) {
        if exposed {
            output.warn(format_args!(
                "any client that reaches {address} can use every server: `auth.enabled` is false in the configuration"
            ));
        }
        return Ok(None);
    }
    let base = base(&config, address)?;
    let proxies = trusted_proxies(&config, &base, output)?;
    let urls = endpoint_urls(&base, path)?;
    let token = local_token()?;
    let machine = named(&urls.own, "this machine", &config)?;
    let tokens = static_tokens(&config, &urls.own)?.with(&token, machine.clone());
    let accounts = match kept {
        Some(kept) => {
            let pending = shared.map(SharedState::accounts).transpose()?.map(|shared| shared.pending);
            Some(accounts_at(kept, pending, said_of_accounts, &urls.own, endpoint_clock(shared))?)
        }
        None => None,
    };
    let (url, host) = (urls.main.to_string(), urls.host.clone());
    let parts = EndpointParts {
        config: &config,
        urls,
        machine,
        tokens,
        accounts: accounts.clone(),
        proxies,
        clock: endpoint_clock(shared),
        rate_limits: shared.and_then(|shared| shared.rate_limits.clone()),
        output,
    };
    let (front, by) = match &config.issuer {
        Some(issuer) => require_tokens_of(issuer, parts, shared).await?,
        None => require_own_tokens(parts, shared).await?,
    };
    Ok(Some(EndpointAuthorization { front, url, host, by, accounts, token }))
}

/// Returns the clock by which tokens and proofs are judged and issued: that of the shared database in a fleet, so that
/// all nodes agree even if the clock of one is wrong.
fn endpoint_clock(shared: Option<&SharedState>) -> UnixClock {
    shared.map_or_else(UnixClock::system, |shared| state_clock(&shared.state))
}

/// Returns the clock of a state, in seconds.
fn state_clock(state: &StateStore) -> UnixClock {
    let clock = state.clock();
    UnixClock::new(move || u64::try_from(clock.now().as_second()).unwrap_or_default())
}

/// Creates the settings of a console for a team, if the configuration has them. `address` is that of the endpoint.
pub(crate) fn team_console(
    config: &HostConfig,
    address: SocketAddr,
    shared: Option<&SharedState>,
) -> CliResult<Option<TeamConsole>> {
    let Some(team) = &config.console_team else { return Ok(None) };
    let auth = config.auth.clone().unwrap_or_default();
    let own = Issuer::new(base(&auth, address)?).map_err(|error| mistake("auth.base_url", &error))?;
    let state = match shared {
        Some(shared) => Some(shared.state.clone()),
        None => open_state()?,
    };
    let state = state.ok_or_else(|| {
        CliError::usage("[console.team]: no folder found for the sessions of the console")
            .hint("set HOME or XDG_STATE_HOME")
    })?;
    team_console::team_console(team, &auth, own, &state).map(Some)
}

/// Creates the middleware that accepts the tokens of an external authorization server.
async fn require_tokens_of(
    issuer: &str,
    parts: EndpointParts<'_>,
    shared: Option<&SharedState>,
) -> CliResult<IssuedMiddleware> {
    let EndpointParts { config, urls, machine, tokens, accounts, proxies, clock, rate_limits, .. } = parts;
    let issuer = identifier("auth.issuer", Issuer::new(issuer))?;
    let audience = match &config.audience {
        Some(audience) => identifier("auth.audience", Resource::new(audience.as_str()))?,
        None => urls.main.clone(),
    };
    let mut rules = JwtRules::new(issuer.clone(), vec![audience]);
    rules.groups = config.groups_claim.as_deref().map(GroupsClaim::new);
    // Static tokens first, because comparing them needs no keys of the issuer.
    let tokens = AnyTokenVerifier::none().or(tokens).or(JwtVerifier::new(rules, fetcher(&issuer)));
    let rules = ScopeRules::default().always(scopes(config)?);
    let guard = BearerAuth::builder(urls.main, vec![issuer.clone()], tokens).also(urls.older).rules(rules);
    let guard = guard.clock(clock.clone());
    let guard = bound(guard, config, &machine, ProofNonces::in_process());
    let by = issuer.to_string();
    match (accounts, &config.sign_in) {
        (Some(accounts), Some(sign_in)) => {
            let pages =
                AccountPages { own: urls.own, issuer, sign_in, accounts, proxies, clock, rate_limits };
            Ok((with_account_pages(pages, guard, shared).await?, by))
        }
        // Without a base URL there are no pages to link to.
        _ => Ok((Box::new(guard), by)),
    }
}

/// Returns the identifiers of the endpoint at `path` below the public origin `base`.
fn endpoint_urls(base: &str, path: &str) -> CliResult<EndpointUrls> {
    let resource = |path: &str| identifier("auth.base_url", Resource::new(format!("{base}{path}")));
    let main = resource(path)?;
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let older = resource(&format!("{folder}/sse"))?;
    let own = Issuer::new(base).map_err(|error| mistake("auth.base_url", &error))?;
    let url = Url::parse(base).map_err(|error| mistake("auth.base_url", &error))?;
    let host = match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    };
    Ok(EndpointUrls { own, main, older, host })
}

/// Returns the public origin of the host, without a trailing slash.
fn base(config: &AuthConfig, address: SocketAddr) -> CliResult<String> {
    let Some(base) = &config.base_url else {
        if address.ip().is_loopback() {
            return Ok(format!("http://{address}"));
        }
        return Err(CliError::usage(format!("{address} is reachable from other machines, but has no public URL"))
            .hint(
                "tokens are issued for a URL: set `base_url = \"https://…\"` under [auth], or `enabled = false` if \
                 something else controls access",
            ));
    };
    let loopback = |url: &Url| hospes_auth::metadata::is_secure(url);
    match Url::parse(base) {
        Ok(url) if loopback(&url) && url.path() == "/" => Ok(base.trim_end_matches('/').to_owned()),
        Ok(url) if loopback(&url) => {
            Err(CliError::usage("`auth.base_url`: expected an origin, without a path"))
        }
        _ => Err(CliError::usage("`auth.base_url`: expected an https URL").hint(
            "run Hospes behind a proxy that terminates TLS: passwords and tokens pass through this URL",
        )),
    }
}

/// Returns the trusted proxies in front of this host. Warns if there must be one and none is configured, because all
/// visitors then share one set of limits.
fn trusted_proxies(config: &AuthConfig, base: &str, output: CliOutput) -> CliResult<TrustedProxies> {
    let proxies = identifier("auth.trusted_proxies", TrustedProxies::parse(&config.trusted_proxies))?;
    if proxies.is_empty() && config.issuer.is_none() && base.starts_with("https:") {
        output.warn(
            "all clients share one limit on sign-ins and registrations: `auth.base_url` is https, so a proxy \
             terminates TLS, but `auth.trusted_proxies` is empty",
        );
        output.hint(
            "set `trusted_proxies = [\"ADDRESS\"]` under [auth], and have the proxy set `X-Forwarded-For`",
        );
    }
    Ok(proxies)
}

fn static_tokens(config: &AuthConfig, issuer: &Issuer) -> CliResult<StaticTokenVerifier> {
    let mut tokens = StaticTokenVerifier::none();
    for (name, token) in &config.tokens {
        tokens = tokens.with(token.reveal(), named(issuer, &format!("token {name}"), config)?);
    }
    Ok(tokens)
}

/// Creates the principal of a configured token, with every scope of this host.
fn named(issuer: &Issuer, name: &str, config: &AuthConfig) -> CliResult<TokenPrincipal> {
    let mut principal = TokenPrincipal::new(issuer.clone(), name);
    // Marked as a client, because its name may equal that of a user.
    principal.is_client = true;
    principal.scopes = Scopes::parse(SCOPE).union(&scopes(config)?);
    Ok(principal)
}

/// Creates a token for `hospes status`, valid for the lifetime of this process.
fn local_token() -> CliResult<String> {
    let seed = Seed::from_system();
    Ok(seed
        .map_err(|error| CliError::usage("cannot read random bytes from the system").with_cause(&error))?
        .draw_text())
}
