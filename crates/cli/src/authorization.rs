//! Authorization of the endpoint that `hospes up` serves.

mod accounts;
mod server;

use std::net::SocketAddr;
use std::sync::Arc;

use hospes::transport::http_server::HttpMiddleware;
use hospes_auth::dpop::ProofNonces;
use hospes_auth::egress::{EgressPolicy, GuardedClient};
use hospes_auth::{Issuer, Resource, Scopes, Seed, TrustedProxies};
use hospes_host::UpstreamAccounts;
use hospes_host::config::{AccountsConfig, AuthConfig, DpopRequirement};
use hospes_oauth::CredentialStore as Kept;
use hospes_oauth_resource::{
    AnyTokenVerifier, BearerAuth, BearerAuthBuilder, JwtRules, JwtVerifier, ScopeRules, StaticTokenVerifier,
    TokenPrincipal,
};
use hospes_oauth_server::AuthServer;
use url::Url;

pub(crate) use self::accounts::users_can_sign_in;
use self::accounts::{accounts_at, forget_the_gone, visitors, with_accounts};
use crate::exit::{CliError, CliResult};
use crate::output::CliOutput;
use server::server;

/// Scope that grants use of the endpoint.
const SCOPE: &str = "mcp";

/// Authorization of an endpoint, with the values that other parts of the program need.
pub(crate) struct EndpointAuthorization {
    pub(crate) front: Box<dyn HttpMiddleware>,
    /// Public URL of the endpoint.
    pub(crate) url: String,
    /// Host name in the public URL.
    pub(crate) host: String,
    /// Description of the issuer of the tokens.
    pub(crate) by: String,
    /// Users' accounts at upstream servers.
    pub(crate) accounts: Option<UpstreamAccounts>,
    /// Token for programs of the user who runs this host.
    pub(crate) token: String,
}

/// Creates the authorization of an endpoint at `address`. Returns `None` if every caller may use it.
pub(crate) fn authorization(
    config: Option<&AuthConfig>,
    address: SocketAddr,
    path: &str,
    kept: Option<Arc<dyn Kept>>,
    said_of_accounts: &AccountsConfig,
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
    let resource = |path: &str| identifier("auth.base_url", Resource::new(format!("{base}{path}")));
    let main = resource(path)?;
    // HTTP+SSE (2024-11-05) has an address of its own beside the endpoint, which is a valid audience too.
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let older = resource(&format!("{folder}/sse"))?;
    let own = Issuer::new(base.as_str()).map_err(|error| mistake("auth.base_url", &error))?;
    let url = Url::parse(&base).map_err(|error| mistake("auth.base_url", &error))?;
    let host = match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    };
    let token = local_token()?;
    let machine = named(&own, "this machine", &config)?;
    let tokens = static_tokens(&config, &own)?.with(&token, machine.clone());
    let accounts = match kept {
        Some(kept) => Some(accounts_at(kept, said_of_accounts, &own)?),
        None => None,
    };
    let (front, by): (Box<dyn HttpMiddleware>, String) = match &config.issuer {
        Some(issuer) => {
            let issuer = identifier("auth.issuer", Issuer::new(issuer.as_str()))?;
            let audience = match &config.audience {
                Some(audience) => identifier("auth.audience", Resource::new(audience.as_str()))?,
                None => main.clone(),
            };
            let rules = JwtRules::new(issuer.clone(), vec![audience]);
            // Static tokens first, because comparing them needs no keys of the issuer.
            let tokens = AnyTokenVerifier::none().or(tokens).or(JwtVerifier::new(rules, fetcher(&issuer)));
            let rules = ScopeRules::default().always(scopes(&config)?);
            let guard =
                BearerAuth::builder(main.clone(), vec![issuer.clone()], tokens).also(older).rules(rules);
            let guard = bound(guard, &config, &machine, ProofNonces::in_process());
            let by = issuer.to_string();
            match (accounts.clone(), &config.sign_in) {
                (Some(accounts), Some(sign_in)) => {
                    let provider = visitors(issuer, sign_in)?;
                    let pages = identifier("auth.base_url", AuthServer::only_pages(own, provider))?;
                    let pages = pages.trusting_proxies(proxies);
                    (Box::new(with_accounts(pages, accounts)?.in_front_of(guard)), by)
                }
                // Without a base URL there are no pages to link to.
                _ => (Box::new(guard), by),
            }
        }
        None => {
            let mut server = server(&config, own.clone(), vec![main.clone(), older.clone()], output)?
                .trusting_proxies(proxies);
            if let Some(accounts) = accounts.clone() {
                server = with_accounts(server, accounts.clone())?;
                // With a provider, only the provider knows which users still exist.
                if config.provider.is_none() {
                    forget_the_gone(&accounts, &server, output)?;
                }
            }
            let tokens =
                AnyTokenVerifier::none().or(tokens).or(server.tokens_for([main.clone(), older.clone()]));
            let rules = ScopeRules::default().always(Scopes::parse(SCOPE).union(&scopes(&config)?));
            let guard = BearerAuth::builder(main.clone(), vec![own], tokens).also(older).rules(rules);
            // Shared through the store, so that a DPoP proof is good only once (RFC 9449 §11.1).
            let guard = guard.used_proofs(server.used_proofs());
            let guard = bound(guard, &config, &machine, server.proof_nonces());
            let by = match &config.provider {
                Some(provider) => format!("this host, after sign-in at {}", provider.issuer),
                None => "this host".to_owned(),
            };
            (Box::new(server.in_front_of(guard)), by)
        }
    };
    Ok(Some(EndpointAuthorization { front, url: main.to_string(), host, by, accounts, token }))
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

/// Builds the bearer-token middleware with the configured DPoP requirements.
fn bound(
    guard: BearerAuthBuilder,
    config: &AuthConfig,
    machine: &TokenPrincipal,
    nonces: ProofNonces,
) -> BearerAuth {
    let guard = match config.dpop {
        None => guard,
        Some(DpopRequirement::Allowed) => guard.offer_proofs(),
        // Tokens of programs on this machine never leave it, so they need no proof.
        Some(_) => guard.require_proofs().exempt(machine),
    };
    let guard = if config.dpop_nonces { guard.proof_nonces(nonces) } else { guard };
    guard.name("hospes").build()
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

/// Returns the configured scopes that tokens must have, in addition to those of every token of this host.
fn scopes(config: &AuthConfig) -> CliResult<Scopes> {
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

/// Creates a token for `hospes status`, valid for the lifetime of this process.
fn local_token() -> CliResult<String> {
    let seed = Seed::from_system();
    Ok(seed
        .map_err(|error| CliError::usage("cannot read random bytes from the system").with_cause(&error))?
        .draw_text())
}

/// Creates an HTTP client for an issuer that the operator has configured, even in a private network.
fn fetcher(issuer: &Issuer) -> GuardedClient {
    fetching(issuer.url().as_ref())
}

/// Creates an HTTP client for configured URLs, even in a private network.
fn fetching<'a>(places: impl IntoIterator<Item = &'a Url>) -> GuardedClient {
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

fn identifier<T, E: std::error::Error>(field: &str, made: Result<T, E>) -> CliResult<T> {
    made.map_err(|error| mistake(field, &error))
}

fn mistake(field: &str, error: &dyn std::error::Error) -> CliError {
    CliError::usage(format!("`{field}`: {error}"))
}
