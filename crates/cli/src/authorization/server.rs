//! The built-in authorization server, set up from the configuration.

use std::path::Path;
use std::sync::Arc;

use hospes_auth::egress::{EgressPolicy, GuardedClient};
use hospes_auth::{ClientId, GroupsClaim, Issuer, RedirectUri, Resource, Scopes};
use hospes_host::config::{
    AllowedUsers, AuthClient, AuthConfig, AuthKeys, AuthProvider, DpopRequirement, Secret,
};
use hospes_oauth::StoreKey;
use hospes_oauth_server::auth_copy::AuthCopySeals;
use hospes_oauth_server::{
    AccessTokenFormat, AuthServer, AuthServerSettings, AuthStore, ClientKeys, LocalSignIn, MemoryAuthStore,
    OWN_PARAMETERS, PasswordHash, RegisteredClient, SignInProvider, SqlAuthStore, UserAdmissionRules,
};
use url::Url;

use super::endpoint::SCOPE;
use super::values::{fetcher, fetching, identifier, mistake, scopes};
use crate::exit::{CliError, CliResult};
use crate::fleet::SharedAuth;
use crate::output::{BOLD, CliOutput, paint};
use crate::paths;

/// Purposes of the keys that seal records.
const TOKEN_KEYS: &str = "keys of tokens";
const PROVIDER_TOKENS: &str = "provider of users";

const SCOPE_WORDS: &str = "Use all tools, prompts and resources of this host";

/// Creates the authorization server that issues tokens for these resources; the first is the endpoint.
pub(super) fn server(
    config: &AuthConfig,
    issuer: Issuer,
    resources: Vec<Resource>,
    shared: Option<&SharedAuth>,
    output: CliOutput,
) -> CliResult<AuthServer> {
    let mut settings = settings(config, issuer, resources)?;
    let mut key_urls = Vec::new();
    for client in &config.clients {
        let (client, key_url) = registered_client(client, &settings.resources)?;
        settings.clients.push(client);
        key_urls.extend(key_url);
    }
    let sign_in = sign_in(config, settings.issuer.as_str(), output)?;
    let mut server = identifier("auth.base_url", AuthServer::new(settings, store(config, shared)?, sign_in))?
        // URLs supplied by clients are fetched from the public internet only, unlike those that the operator has
        // configured.
        .fetching(GuardedClient::new(EgressPolicy::public()))
        .fetching_named(fetching(&key_urls));
    let key = config.key.as_ref().or_else(|| shared.map(|shared| &shared.key));
    if let Some(key) = seal_key(key)? {
        server = identifier("auth.key", server.sealing(&key.for_purpose(TOKEN_KEYS)))?;
    }
    for provider in &config.identity_providers {
        let issuer = identity_provider(provider)?;
        let fetch = fetcher(&issuer);
        server = server.trust(issuer, fetch);
    }
    Ok(match &config.provider {
        Some(known) => {
            let provider = provider(known, key)?;
            server.delegating(match &config.groups_claim {
                Some(claim) => provider.reading_groups(GroupsClaim::new(claim.as_str())),
                None => provider,
            })
        }
        None => server,
    })
}

/// Returns the settings of the server, without its clients.
fn settings(config: &AuthConfig, issuer: Issuer, resources: Vec<Resource>) -> CliResult<AuthServerSettings> {
    let Some(first) = resources.first() else {
        return Err(CliError::usage("no protected resource is configured"));
    };
    let mut settings = AuthServerSettings::new(issuer, first.clone()).scope(SCOPE, SCOPE_WORDS);
    // Clients of revisions before 2025-06-18 do not send `resource` (RFC 8707) and mean the endpoint.
    (settings.resources, settings.first_if_unnamed) = (resources, true);
    for other in &config.resources {
        settings.resources.push(identifier("auth.resources", Resource::new(other.as_str()))?);
        // Other resource servers verify tokens by signature, because they cannot see this host's store.
        settings.access_tokens = AccessTokenFormat::Jwt;
    }
    settings.registration = config.registration.unwrap_or(true);
    for (index, uri) in config.redirect_uris.iter().enumerate() {
        let field = format!("auth.redirect_uris[{index}]");
        let uri = identifier(&field, RedirectUri::new(uri.as_str()))?;
        check_redirect(&field, &uri)?;
        settings.redirect_uris.push(uri);
    }
    settings.require_proofs = config.dpop.is_some_and(|dpop| dpop != DpopRequirement::Allowed);
    settings.proof_nonces = config.dpop_nonces;
    for scope in scopes(config)?.iter().filter(|scope| *scope != SCOPE) {
        // The configuration has no description of the scope, so its name stands in for one.
        settings = settings.scope(scope, scope);
    }
    Ok(settings)
}

/// Returns a configured client, and the URL at which its keys are published. It can serve only resources that tokens
/// are issued for.
fn registered_client(
    config: &AuthClient,
    resources: &[Resource],
) -> CliResult<(RegisteredClient, Option<Url>)> {
    let field = format!("auth.clients.{}", config.id);
    let id = identifier(&field, ClientId::new(config.id.as_str()))?;
    let redirects: Result<Vec<_>, _> =
        config.redirect_uris.iter().map(|uri| RedirectUri::new(uri.as_str())).collect();
    let redirects = identifier(&field, redirects)?;
    redirects.iter().try_for_each(|uri| check_redirect(&field, uri))?;
    let (mut client, key_url) = match (&config.secret, &config.keys) {
        (Some(secret), _) => (RegisteredClient::confidential(id, secret.reveal(), redirects), None),
        (None, Some(keys)) => {
            let (keys, url) = client_keys(&field, keys)?;
            (RegisteredClient::signing(id, keys, redirects), url)
        }
        (None, None) => (RegisteredClient::public(id, redirects), None),
    };
    if config.enterprise_managed {
        client = client.with_assertions();
    }
    for resource in &config.serves {
        let field = format!("{field}.serves");
        let served = identifier(&field, Resource::new(resource.as_str()))?;
        if !resources.contains(&served) {
            return Err(CliError::usage(format!("`{field}`: no tokens are issued for {served}"))
                .hint("expected the URL of this endpoint, or one of `auth.resources`"));
        }
        client = client.serving([served]);
    }
    if let Some(name) = &config.name {
        client = client.named(name);
    }
    Ok((client, key_url))
}

/// Returns an identity provider whose assertions are accepted.
fn identity_provider(text: &str) -> CliResult<Issuer> {
    let issuer = identifier("auth.identity_providers", Issuer::new(text))?;
    if !issuer.url().is_some_and(|url| hospes_auth::metadata::is_secure(&url)) {
        return Err(CliError::usage(format!(
            "`auth.identity_providers`: {issuer} is neither an https nor a loopback URL"
        )));
    }
    Ok(issuer)
}

fn check_redirect(field: &str, uri: &RedirectUri) -> CliResult<()> {
    if hospes_oauth_server::may_configure(uri) {
        return Ok(());
    }
    let expected =
        "expected an https URL, an http loopback URL, or a custom scheme of an installed application";
    Err(CliError::usage(format!("`{field}`: {uri} is not a valid redirect URI: {expected}")))
}

/// Returns the keys of a client and the URL at which they are published.
fn client_keys(field: &str, keys: &AuthKeys) -> CliResult<(ClientKeys, Option<Url>)> {
    match keys {
        AuthKeys::At(text) => {
            let field = format!("{field}.jwks_uri");
            let url = Url::parse(text).map_err(|error| mistake(&field, &error))?;
            if !hospes_auth::metadata::is_secure(&url) {
                return Err(CliError::usage(format!(
                    "`{field}`: {url} is neither an https nor a loopback URL"
                )));
            }
            Ok((ClientKeys::At(text.clone()), Some(url)))
        }
        AuthKeys::Set(set) => Ok((identifier(&format!("{field}.jwks"), ClientKeys::from_jwks(set))?, None)),
        _ => Err(CliError::usage(format!("`{field}`: unsupported kind of client keys"))),
    }
}

/// Returns the key that seals the secrets in the store: the configured one, or the key in a file of this user. Returns
/// `None` if there is no folder for that file.
fn seal_key(said: Option<&Secret>) -> CliResult<Option<StoreKey>> {
    if let Some(text) = said {
        return Ok(Some(StoreKey::passphrase(text.reveal())));
    }
    let Some(file) = paths::authorization_key() else { return Ok(None) };
    make_folder(&file)?;
    let key = StoreKey::in_file(&file);
    key.map(Some).map_err(|error| {
        CliError::usage(crate::exit::error_chain(&error)).hint("fix this, or set `key` under [auth]")
    })
}

/// Returns the ciphers for records of this host that move into the database of nodes, whose key is `shared` unless the
/// configuration has one.
pub(crate) fn copy_seals(config: Option<&AuthConfig>, shared: Option<&Secret>) -> CliResult<AuthCopySeals> {
    let provider = config.and_then(|config| config.provider.as_ref());
    let key = config.and_then(|config| config.key.as_ref());
    // A key that does not exist yet has sealed nothing, and is not made here.
    let is_there = key.is_some() || paths::authorization_key().is_some_and(|file| file.exists());
    let mut seals = AuthCopySeals::default();
    if is_there && let (Some(from), Some(to)) = (seal_key(key)?, seal_key(key.or(shared))?) {
        let made = seals.sealing(&from.for_purpose(TOKEN_KEYS), &to.for_purpose(TOKEN_KEYS));
        seals = identifier("auth.key", made)?;
    }
    let Some(provider) = provider else { return Ok(seals) };
    let own = provider.key.as_ref().or(key);
    if (own.is_some() || is_there)
        && let (Some(from), Some(to)) = (seal_key(own)?, seal_key(own.or(shared))?)
    {
        let made = seals.provider(&from.for_purpose(PROVIDER_TOKENS), &to.for_purpose(PROVIDER_TOKENS));
        seals = identifier("auth.provider.key", made)?;
    }
    Ok(seals)
}

/// Creates the provider at which users sign in instead of at this host.
fn provider(config: &AuthProvider, key: Option<&Secret>) -> CliResult<SignInProvider> {
    let issuer = identifier("auth.provider.issuer", Issuer::new(config.issuer.as_str()))?;
    if !issuer.url().is_some_and(|url| hospes_auth::metadata::is_secure(&url)) {
        return Err(CliError::usage("`auth.provider.issuer`: expected an https URL"));
    }
    let client = identifier("auth.provider.client_id", ClientId::new(config.client_id.as_str()))?;
    let key = seal_key(config.key.as_ref().or(key))?.ok_or_else(|| {
        CliError::usage("no folder found for the key that encrypts the provider's tokens")
            .hint("set HOME, or `key` under [auth]")
    })?;
    let key = key.for_purpose(PROVIDER_TOKENS);
    let made = SignInProvider::new(issuer.clone(), client, &key, fetcher(&issuer));
    let provider = identifier("auth.provider.key", made)?;
    let provider = asked_there(
        "auth.provider",
        provider,
        config.client_secret.as_ref(),
        &config.scopes,
        &config.parameters,
    )?;
    Ok(match &config.allow {
        AllowedUsers::Claims(claims) => provider.admitting(UserAdmissionRules::only(claims.iter().cloned())),
        AllowedUsers::Everybody => provider,
        // An admission rule that this version does not know admits no user.
        _ => provider.admitting(UserAdmissionRules::only([("sub".to_owned(), Vec::new())])),
    })
}

/// Applies the secret, scopes and parameters of a provider. `table` is the table of the configuration, for error
/// messages.
pub(super) fn asked_there(
    table: &str,
    mut provider: SignInProvider,
    secret: Option<&Secret>,
    scopes: &[String],
    parameters: &[(String, String)],
) -> CliResult<SignInProvider> {
    if let Some(secret) = secret {
        provider = provider.secret(secret.reveal());
    }
    if !scopes.is_empty() {
        let scopes = Scopes::parse(&scopes.join(" "));
        // Without `openid` a provider returns no ID token (OpenID Connect Core §3.1.2.1).
        if !scopes.iter().any(|scope| scope == "openid") {
            return Err(CliError::usage(format!(
                "`{table}.scopes`: expected the scopes to include `openid`"
            )));
        }
        provider = provider.scopes(scopes);
    }
    for (name, value) in parameters {
        // `state`, `nonce` and the others are checked on return, so that the configuration must not set them.
        if OWN_PARAMETERS.contains(&name.as_str()) {
            return Err(CliError::usage(format!("`{table}.parameters`: `{name}` is reserved for Hospes")));
        }
        provider = provider.parameter(name, value);
    }
    Ok(provider)
}

fn make_folder(file: &Path) -> CliResult {
    let Some(folder) = file.parent() else { return Ok(()) };
    std::fs::create_dir_all(folder)
        .map_err(|error| CliError::usage(format!("cannot create {}", folder.display())).with_cause(&error))
}

fn sign_in(config: &AuthConfig, issuer: &str, output: CliOutput) -> CliResult<LocalSignIn> {
    if config.users.is_empty() {
        let issuer = issuer.to_owned();
        return Ok(LocalSignIn::owner(move |code| {
            output.say(format_args!(
                "\n  An application wants to sign in at {issuer}.\n  If that is you, the code is {}\n",
                paint(BOLD, code)
            ));
        }));
    }
    let mut users = Vec::new();
    for (name, password) in &config.users {
        let text = password.reveal();
        let hash = match PasswordHash::looks_like_hash(text) {
            true => {
                PasswordHash::parse(text).map_err(|error| mistake(&format!("auth.users.{name}"), &error))?
            }
            false => PasswordHash::hash_user_password(text, name, issuer),
        };
        users.push((name.clone(), hash));
    }
    Ok(LocalSignIn::users(users))
}

fn store(config: &AuthConfig, shared: Option<&SharedAuth>) -> CliResult<Arc<dyn AuthStore>> {
    match shared {
        Some(_) if config.store.is_some() => {
            return Err(CliError::usage(
                "`auth.store` is a file of one node, and [fleet] shares the data of all",
            )
            .hint("remove `store` under [auth]"));
        }
        Some(shared) => return Ok(Arc::clone(&shared.store)),
        None => {}
    }
    let Some(file) = config.store.clone().or_else(paths::authorization) else {
        return Ok(Arc::new(MemoryAuthStore::new()));
    };
    make_folder(&file)?;
    let store = SqlAuthStore::open(&file)
        .map_err(|error| CliError::usage(format!("cannot open {}", file.display())).with_cause(&error))?;
    Ok(Arc::new(store))
}
