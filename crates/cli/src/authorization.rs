//! Who may use the endpoint of `hospes up`: what stands before it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use hospes::transport::http_server::Front;
use hospes_auth::client::{Store as Kept, StoreKey};
use hospes_auth::egress::{Egress, GuardedClient};
use hospes_auth::resource::{
    AnyOf, Guard, IssuerTokens, JwtRules, Principal, ScopeRules, StaticTokens, Verify,
};
use hospes_auth::server::{
    AccessTokens, Admission, AuthServer, Client, MemoryStore, OWN_PARAMETERS, PasswordHash, Provider,
    ServerSettings, SignIn, SqliteStore, Store,
};
use hospes_auth::{ClientId, Issuer, RedirectUri, Resource, Scopes, Seed};
use hospes_host::Accounts;
use hospes_host::config::{Allowed, AuthConfig, AuthProvider, Config, Transport};
use url::Url;

use crate::exit::{Failure, Outcome};
use crate::output::{BOLD, Output, paint};
use crate::place;

/// The scope that lets a client use the endpoint.
const SCOPE: &str = "mcp";
const SCOPE_WORDS: &str = "Use all the tools, prompts and resources behind this address";

/// What stands before the endpoint.
pub(crate) struct Authorization {
    pub(crate) front: Box<dyn Front>,
    /// The endpoint's public address.
    pub(crate) url: String,
    /// The name under which it is called.
    pub(crate) host: String,
    /// Who makes out the tokens, in words.
    pub(crate) by: String,
    /// The accounts at servers behind this host.
    pub(crate) accounts: Option<Accounts>,
    /// What the programs of whoever runs this host show.
    pub(crate) token: String,
}

/// What is to stand before an endpoint at `address`; none where whoever reaches it may use it.
pub(crate) fn authorization(
    config: Option<&AuthConfig>,
    address: SocketAddr,
    path: &str,
    kept: Option<Arc<dyn Kept>>,
    output: Output,
) -> Outcome<Option<Authorization>> {
    let exposed = !address.ip().is_loopback();
    let said = config.is_some();
    let config = config.cloned().unwrap_or_default();
    if !config.enabled.unwrap_or(said || exposed) {
        if exposed {
            output.warn(format_args!(
                "whoever reaches {address} can use every server: `auth.enabled` is false in the configuration"
            ));
        }
        return Ok(None);
    }
    let base = base(&config, address)?;
    let resource = |path: &str| identifier("auth.base_url", Resource::new(format!("{base}{path}")));
    let main = resource(path)?;
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
    let tokens = static_tokens(&config, &own)?.with(&token, machine);
    let mut accounts = kept.map(Accounts::new);
    let (front, by): (Box<dyn Front>, String) = match &config.issuer {
        Some(issuer) => {
            let issuer = identifier("auth.issuer", Issuer::new(issuer.as_str()))?;
            let audience = match &config.audience {
                Some(audience) => identifier("auth.audience", Resource::new(audience.as_str()))?,
                None => main.clone(),
            };
            let rules = JwtRules::new(issuer.clone(), vec![audience]);
            let tokens = AnyOf::none().or(tokens).or(IssuerTokens::new(rules, fetcher(&issuer)));
            let rules = ScopeRules::default().always(scopes(&config)?);
            let guard = guard(main.clone(), older, issuer.clone(), tokens, rules);
            (Box::new(guard), issuer.to_string())
        }
        None => {
            let mut server = server(&config, own.clone(), vec![main.clone(), older.clone()], output)?;
            if let Some(plain) = accounts.take() {
                let made = identifier("auth.base_url", plain.at(own.as_str()))?;
                server = server.connecting(Arc::new(made.clone()));
                // Whom a provider knows, it alone can say.
                if config.provider.is_none() {
                    forget_the_gone(&made, &server, output)?;
                }
                accounts = Some(made);
            }
            let tokens = AnyOf::none().or(tokens).or(server.tokens_for([main.clone(), older.clone()]));
            let rules = ScopeRules::default().always(Scopes::parse(SCOPE));
            let guard = guard(main.clone(), older, own, tokens, rules);
            let by = match &config.provider {
                Some(provider) => format!("this host, for those who sign in at {}", provider.issuer),
                None => "this host".to_owned(),
            };
            (Box::new(server.beside(guard)), by)
        }
    };
    Ok(Some(Authorization { front, url: main.to_string(), host, by, accounts, token }))
}

/// Whoever may not sign in any more has no accounts either.
fn forget_the_gone(accounts: &Accounts, server: &AuthServer, output: Output) -> Outcome {
    let gone = accounts.forget_users(server.settings().issuer.as_str(), |user| server.knows_user(user));
    match gone.map_err(|error| Failure::usage("the accounts of users cannot be read").because(&error))? {
        0 => {}
        gone => output.say(format_args!("{gone} accounts of users who are gone were forgotten")),
    }
    Ok(())
}

/// Refuses to start where users are to have accounts of their own at a server, and there are none who could sign in.
pub(crate) fn users_can_sign_in(config: &Config, authorization: Option<&Authorization>) -> Outcome {
    let Some(server) = config.servers.iter().find(|server| server.is_per_user() && !server.disabled) else {
        return Ok(());
    };
    let refuse =
        |why: &str| Failure::usage(format!("server `{}`: `account = \"per-user\"`: {why}", server.name));
    if let Transport::Http(http) = &server.transport
        && !hospes_auth::metadata::is_secure(http.url.reveal())
    {
        return Err(refuse("it is reached over http, where anybody could read the users' tokens")
            .hint("use its https address"));
    }
    if authorization.is_none() {
        return Err(
            refuse("nobody signs in at this host").hint("say who may under [auth]: users = { name = \"…\" }")
        );
    }
    if config.auth.as_ref().is_some_and(|auth| auth.issuer.is_some() || auth.provider.is_some()) {
        return Err(refuse(
            "users who sign in elsewhere (`auth.issuer`, `auth.provider`) have no browser session here",
        )
        .hint("let them sign in here, with `auth.users`, or share one account: account = \"shared\""));
    }
    Ok(())
}

/// The origin that everybody else knows, without a slash at its end.
fn base(config: &AuthConfig, address: SocketAddr) -> Outcome<String> {
    let Some(base) = &config.base_url else {
        if address.ip().is_loopback() {
            return Ok(format!("http://{address}"));
        }
        return Err(Failure::usage(format!("{address} can be reached from elsewhere, and no public address is known"))
            .hint(
                "tokens are made out for an address: set `base_url = \"https://…\"` under [auth], or `enabled = false` \
                 if something else decides who may come",
            ));
    };
    let loopback = |url: &Url| hospes_auth::metadata::is_secure(url);
    match Url::parse(base) {
        Ok(url) if loopback(&url) && url.path() == "/" => Ok(base.trim_end_matches('/').to_owned()),
        Ok(url) if loopback(&url) => {
            Err(Failure::usage("`auth.base_url`: expected an origin, without a path"))
        }
        _ => Err(Failure::usage("`auth.base_url`: expected an https address")
            .hint("put a proxy that speaks TLS before Hospes: passwords and tokens go through here")),
    }
}

fn guard(main: Resource, older: Resource, issuer: Issuer, verify: impl Verify, rules: ScopeRules) -> Guard {
    Guard::builder(main, vec![issuer], verify).also(older).rules(rules).name("hospes").build()
}

fn static_tokens(config: &AuthConfig, issuer: &Issuer) -> Outcome<StaticTokens> {
    let mut tokens = StaticTokens::none();
    for (name, token) in &config.tokens {
        tokens = tokens.with(token.reveal(), named(issuer, &format!("token {name}"), config)?);
    }
    Ok(tokens)
}

/// Somebody whom the configuration knows: nothing is asked of them that they could lack.
fn named(issuer: &Issuer, name: &str, config: &AuthConfig) -> Outcome<Principal> {
    let mut principal = Principal::new(issuer.clone(), name);
    // Whoever shows it, it is no user: users may be called anything.
    principal.is_client = true;
    principal.scopes = Scopes::parse(SCOPE).union(&scopes(config)?);
    Ok(principal)
}

/// What the tokens of an authorization server elsewhere must have.
fn scopes(config: &AuthConfig) -> Outcome<Scopes> {
    let scopes: Scopes = config.scopes.iter().map(String::as_str).collect();
    if scopes.len() == config.scopes.len() {
        return Ok(scopes);
    }
    Err(Failure::usage("`auth.scopes`: expected names of scopes, each once and without spaces"))
}

/// A token for `hospes status`, which lives as long as this process.
fn local_token() -> Outcome<String> {
    let seed = Seed::from_system();
    Ok(seed.map_err(|error| Failure::usage("there is no randomness").because(&error))?.draw_text())
}

/// Fetches from an issuer that the operator has named, wherever that is.
fn fetcher(issuer: &Issuer) -> GuardedClient {
    let mut egress = Egress::public();
    if let Some(url) = issuer.url()
        && let Some(host) = url.host_str()
    {
        egress = egress.allow_host(host);
        if hospes_auth::metadata::is_loopback(&url) {
            egress = egress.allow_loopback();
        }
    }
    GuardedClient::new(egress)
}

fn server(
    config: &AuthConfig,
    issuer: Issuer,
    resources: Vec<Resource>,
    output: Output,
) -> Outcome<AuthServer> {
    let Some(first) = resources.first() else { return Err(Failure::usage("there is nothing to guard")) };
    let mut settings = ServerSettings::new(issuer, first.clone()).scope(SCOPE, SCOPE_WORDS);
    (settings.resources, settings.first_if_unnamed) = (resources, true);
    for other in &config.resources {
        settings.resources.push(identifier("auth.resources", Resource::new(other.as_str()))?);
        settings.access_tokens = AccessTokens::Jwt;
    }
    settings.registration = config.registration.unwrap_or(true);
    for client in &config.clients {
        let field = format!("auth.clients.{}", client.id);
        let id = identifier(&field, ClientId::new(client.id.as_str()))?;
        let redirects: Result<Vec<_>, _> =
            client.redirect_uris.iter().map(|uri| RedirectUri::new(uri.as_str())).collect();
        let redirects = identifier(&field, redirects)?;
        if let Some(bad) = redirects.iter().find(|uri| !hospes_auth::server::may_register(uri, true)) {
            return Err(Failure::usage(format!("`{field}`: {bad} is neither https nor this machine")));
        }
        let made = match &client.secret {
            Some(secret) => Client::confidential(id, secret.reveal(), redirects),
            None => Client::public(id, redirects),
        };
        settings.clients.push(match &client.name {
            Some(name) => made.named(name),
            None => made,
        });
    }
    let sign_in = sign_in(config, settings.issuer.as_str(), output)?;
    let server = identifier("auth.base_url", AuthServer::new(settings, store(config)?, sign_in))?
        .fetching(GuardedClient::new(Egress::public()));
    Ok(match &config.provider {
        Some(known) => server.delegating(provider(known)?),
        None => server,
    })
}

/// Where users sign in instead of here.
fn provider(config: &AuthProvider) -> Outcome<Provider> {
    let issuer = identifier("auth.provider.issuer", Issuer::new(config.issuer.as_str()))?;
    if !issuer.url().is_some_and(|url| hospes_auth::metadata::is_secure(&url)) {
        return Err(Failure::usage("`auth.provider.issuer`: expected an https address"));
    }
    let client = identifier("auth.provider.client_id", ClientId::new(config.client_id.as_str()))?;
    let key = match &config.key {
        Some(text) => StoreKey::passphrase(text.reveal()),
        None => {
            let file = place::authorization_key().ok_or_else(|| {
                Failure::usage("there is no folder for the key that seals the provider's tokens")
                    .hint("set HOME, or `key` under [auth.provider]")
            })?;
            make_folder(&file)?;
            StoreKey::in_file(&file).map_err(|error| {
                Failure::usage(crate::exit::chain(&error)).hint("or set `key` under [auth.provider]")
            })?
        }
    };
    let key = key.for_purpose("provider of users");
    let made = Provider::new(issuer.clone(), client, &key, fetcher(&issuer));
    let mut provider = identifier("auth.provider.key", made)?;
    if let Some(secret) = &config.client_secret {
        provider = provider.secret(secret.reveal());
    }
    if !config.scopes.is_empty() {
        let scopes = Scopes::parse(&config.scopes.join(" "));
        if !scopes.iter().any(|scope| scope == "openid") {
            return Err(Failure::usage("`auth.provider.scopes`: expected `openid` among them"));
        }
        provider = provider.scopes(scopes);
    }
    for (name, value) in &config.parameters {
        if OWN_PARAMETERS.contains(&name.as_str()) {
            return Err(Failure::usage(format!(
                "`auth.provider.parameters`: `{name}` is Hospes' own to say"
            )));
        }
        provider = provider.parameter(name, value);
    }
    Ok(match &config.allow {
        Allowed::Claims(claims) => provider.admitting(Admission::only(claims.iter().cloned())),
        Allowed::Everybody => provider,
        // A rule that is not known here lets nobody in.
        _ => provider.admitting(Admission::only([("sub".to_owned(), Vec::new())])),
    })
}

fn make_folder(file: &Path) -> Outcome {
    let Some(folder) = file.parent() else { return Ok(()) };
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::usage(format!("cannot make {}", folder.display())).because(&error))
}

fn sign_in(config: &AuthConfig, issuer: &str, output: Output) -> Outcome<SignIn> {
    if config.users.is_empty() {
        let issuer = issuer.to_owned();
        return Ok(SignIn::owner(move |code| {
            output.say(format_args!(
                "\n  An application wants to sign in at {issuer}.\n  If that is you, the code is {}\n",
                paint(BOLD, code)
            ));
        }));
    }
    let mut users = Vec::new();
    for (name, password) in &config.users {
        let text = password.reveal();
        let hash = match text.starts_with("pbkdf2-") {
            true => {
                PasswordHash::parse(text).map_err(|error| mistake(&format!("auth.users.{name}"), &error))?
            }
            false => PasswordHash::of_user(text, name, issuer),
        };
        users.push((name.clone(), hash));
    }
    Ok(SignIn::users(users))
}

fn store(config: &AuthConfig) -> Outcome<Arc<dyn Store>> {
    let Some(file) = config.store.clone().or_else(place::authorization) else {
        return Ok(Arc::new(MemoryStore::new()));
    };
    make_folder(&file)?;
    let store = SqliteStore::open(&file)
        .map_err(|error| Failure::usage(format!("cannot open {}", file.display())).because(&error))?;
    Ok(Arc::new(store))
}

fn identifier<T, E: std::error::Error>(field: &str, made: Result<T, E>) -> Outcome<T> {
    made.map_err(|error| mistake(field, &error))
}

fn mistake(field: &str, error: &dyn std::error::Error) -> Failure {
    Failure::usage(format!("`{field}`: {error}"))
}
