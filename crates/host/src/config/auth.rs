//! Authentication at the endpoint: the table `[auth]`.

use std::path::PathBuf;

use super::document::{ConfigEntry, ConfigNode, ConfigValue};
use super::expand::ExpansionScope;
use super::keys;
use super::secret::Secret;
use super::table::{ConfigReport, SettingsTable};

/// Authentication settings of the endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthConfig {
    /// True if tokens are required. Default: true beyond loopback; on loopback true if any other setting of this table
    /// is present.
    pub enabled: Option<bool>,
    /// Public origin of the endpoint, for which tokens are issued.
    pub base_url: Option<String>,
    /// True if applications may register dynamically at the built-in authorization server.
    pub registration: Option<bool>,
    /// Trusted reverse proxies before this host, which report the client's address, as addresses or networks in CIDR
    /// notation. By default none: the client is the peer of the connection.
    pub trusted_proxies: Vec<String>,
    /// Users who may sign in, each with a password or its Argon2id hash (a PHC string).
    pub users: Vec<(String, Secret)>,
    /// Static tokens, by the name of their holder.
    pub tokens: Vec<(String, Secret)>,
    /// Applications that need not introduce themselves.
    pub clients: Vec<AuthClient>,
    /// Further redirects that applications may register, as these exact strings: those to private-use schemes.
    pub redirect_uris: Vec<String>,
    /// Issuer of an external authorization server that replaces the built-in one.
    pub issuer: Option<String>,
    /// Audience of its tokens, if it is not the endpoint's address.
    pub audience: Option<String>,
    /// Sign-in of that issuer's users at this host's own pages, where they connect their accounts at servers.
    pub sign_in: Option<AuthSignIn>,
    /// OpenID provider at which users sign in, in place of the built-in sign-in page.
    pub provider: Option<AuthProvider>,
    /// Claim that has the groups of users, for rules of the policy. `None` if groups are not read.
    pub groups_claim: Option<String>,
    /// The scopes that tokens must have, besides those of the host itself. Our authorization server asks users for them.
    pub scopes: Vec<String>,
    /// DPoP: binding of tokens to a key of the application. By default a token is bound only if the application offers
    /// a key.
    pub dpop: Option<DpopRequirement>,
    /// True if DPoP proofs must carry a nonce of this host.
    pub dpop_nonces: bool,
    /// Identity providers trusted to identify users of applications that are `enterprise_managed`.
    pub identity_providers: Vec<String>,
    /// Further resources for which the built-in authorization server issues tokens: hosts that name it as their
    /// `issuer`. Its tokens are then signed, so that those hosts can read them.
    pub resources: Vec<String>,
    /// Folder in which the built-in authorization server stores its state.
    pub store: Option<PathBuf>,
    /// Key that encrypts secrets in that store, if several hosts share it. By default each user of a machine has a key
    /// in a separate file.
    pub key: Option<Secret>,
}

/// OpenID provider at which users sign in. The built-in authorization server still issues the tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthProvider {
    /// Issuer identifier of the provider.
    pub issuer: String,
    /// Client id of this host at the provider.
    pub client_id: String,
    /// The secret that it gave us.
    pub client_secret: Option<Secret>,
    /// Scopes that are requested; default `openid`.
    pub scopes: Vec<String>,
    /// Additional parameters of the authorization request.
    pub parameters: Vec<(String, String)>,
    /// Users who are admitted.
    pub allow: AllowedUsers,
    /// Key that encrypts its tokens, if it is not [`AuthConfig::key`].
    pub key: Option<Secret>,
}

/// Sign-in of an external authorization server's users at this host's pages, by OpenID Connect at that server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthSignIn {
    /// Client id of this host at that server.
    pub client_id: String,
    /// The secret that it gave us.
    pub client_secret: Option<Secret>,
    /// Scopes that are requested; default `openid`.
    pub scopes: Vec<String>,
    /// Additional parameters of the authorization request.
    pub parameters: Vec<(String, String)>,
}

/// Users of a provider who are admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllowedUsers {
    /// All users who can sign in at the provider.
    Everybody,
    /// Users for whom each of these claims has one of its values.
    Claims(Vec<(String, Vec<String>)>),
}

/// Binding of tokens to a key of the application that presents them (DPoP, RFC 9449).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DpopRequirement {
    /// Tokens of applications that prove possession of a key are bound. The metadata advertises this.
    Allowed,
    /// Proofs are required for all tokens.
    Required,
}

/// The public keys of an application that signs to show that it is itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthKeys {
    /// A JSON Web Key Set.
    Set(serde_json::Value),
    /// A URL at which the keys are published.
    At(String),
}

/// An application that need not introduce itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthClient {
    /// Id of the client.
    pub id: String,
    /// Name of the client, for display.
    pub name: Option<String>,
    /// Its secret, if it can keep one.
    pub secret: Option<Secret>,
    /// Its public keys, if it signs instead (`private_key_jwt`).
    pub keys: Option<AuthKeys>,
    /// True if it may exchange an assertion that an identity provider signed about a user, in place of that user's
    /// consent.
    pub enterprise_managed: bool,
    /// Resources that it serves. It may introspect tokens for these.
    pub serves: Vec<String>,
    /// Redirect URIs that it may use.
    pub redirect_uris: Vec<String>,
}

const URL_FORM: &str = "a URL such as \"https://mcp.example.org\"";

/// Reads the table.
pub(super) fn read_auth(
    table: &mut SettingsTable<'_>,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> AuthConfig {
    refuse_combinations(table, report);
    let mut auth = AuthConfig {
        enabled: table.boolean("enabled", report),
        registration: table.boolean("registration", report),
        base_url: url(table, "base_url", scope, report),
        issuer: url(table, "issuer", scope, report),
        audience: url(table, "audience", scope, report),
        users: secrets(table, "users", scope, report),
        tokens: secrets(table, "tokens", scope, report),
        key: key(table, scope, report),
        groups_claim: text(table, "groups_claim", scope, report),
        trusted_proxies: trusted_proxies(table, report),
        redirect_uris: table.strings("redirect_uris", report).unwrap_or_default(),
        scopes: table.strings("scopes", report).unwrap_or_default(),
        resources: table.strings("resources", report).unwrap_or_default(),
        dpop_nonces: table.boolean("dpop_nonces", report).unwrap_or_default(),
        identity_providers: table.strings("identity_providers", report).unwrap_or_default(),
        ..AuthConfig::default()
    };
    if let Some(entry) = table.take("dpop", report) {
        auth.dpop = match entry.node.as_str() {
            Some("allowed") => Some(DpopRequirement::Allowed),
            Some("required") => Some(DpopRequirement::Required),
            _ => table.invalid(&entry.node.at, &table.field(entry), "`allowed` or `required`", "", report),
        };
        if auth.dpop == Some(DpopRequirement::Required)
            && let Some(tokens) = table.entry("tokens")
        {
            let expected = "no tokens if `auth.dpop` is `required`: configured tokens are not bound to a key";
            let hint = "; register a client with `jwks` or a `secret` for each machine instead";
            table.invalid::<()>(&tokens.node.at, "auth.tokens", expected, hint, report);
        }
    }
    if let Some(entry) = table.take("store", report) {
        let path = table.expanded(&entry.node, &table.field(entry), scope, report);
        auth.store = path.map(|path| scope.path(scope.folder, path.reveal()));
    }
    if let Some(entry) = table.take("provider", report) {
        auth.provider = provider(entry, scope, report);
        let other = ["issuer", "users"].into_iter().find(|other| match *other {
            "issuer" => auth.issuer.is_some(),
            _ => !auth.users.is_empty(),
        });
        if let Some(other) = other {
            let expected = format!("`auth.provider` or `auth.{other}`, not both");
            table.invalid::<()>(&entry.node.at, &table.field(entry), expected, "", report);
        }
    }
    if let Some(entry) = table.take("sign_in", report) {
        auth.sign_in = sign_in(entry, scope, report);
        if auth.issuer.is_none() {
            let expected = "`auth.issuer` to be set too: `sign_in` configures how its users sign in on this host's pages";
            table.invalid::<()>(&entry.node.at, &table.field(entry), expected, "", report);
        }
    }
    if let Some(entry) = table.take("clients", report)
        && let Some(clients) =
            SettingsTable::new(&entry.node, None, &keys::AUTH_CLIENTS, "auth.clients.", report)
    {
        for entry in clients.unread() {
            auth.clients.extend(client(entry, scope, report));
        }
    }
    // Only after the clients are read is it known whether one of them is managed.
    let managed = auth.clients.iter().any(|client| client.enterprise_managed);
    if let Some(entry) = table.entry("identity_providers").filter(|_| !managed) {
        let expected = "a client that may present their assertions: `enterprise_managed = true` under [auth.clients.NAME]";
        table.invalid::<()>(&entry.node.at, "auth.identity_providers", expected, "", report);
    }
    if let Some(entry) = table.entry("clients").filter(|_| managed && !table.has("identity_providers")) {
        let expected =
            "`auth.identity_providers` to be set too: an `enterprise_managed` client presents their tokens";
        table.invalid::<()>(&entry.node.at, "auth.clients", expected, "", report);
    }
    table.report_unknown_keys(report);
    auth
}

/// Addresses and networks, each checked.
fn trusted_proxies(table: &mut SettingsTable<'_>, report: &mut ConfigReport) -> Vec<String> {
    let Some(entry) = table.take("trusted_proxies", report) else { return Vec::new() };
    let texts = table.texts(entry, report).unwrap_or_default();
    let mut proxies = Vec::new();
    for (index, (text, at)) in texts.into_iter().enumerate() {
        if hospes_auth::TrustedProxies::parse([text]).is_ok() {
            proxies.push(text.to_owned());
        } else {
            let field = format!("{}[{index}]", table.field(entry));
            let expected = "an IP address or a network such as \"127.0.0.1\" or \"10.0.0.0/8\"";
            table.invalid::<()>(at, &field, expected, "", report);
        }
    }
    proxies
}

/// Reports settings that have no effect in combination with another setting.
fn refuse_combinations(table: &SettingsTable<'_>, report: &mut ConfigReport) {
    let mut refuse = |entry: &ConfigEntry, expected: String, hint: &str| {
        table.invalid::<()>(&entry.node.at, &table.field(entry), expected, hint.to_owned(), report);
    };
    let of_ours = [
        "users",
        "registration",
        "clients",
        "redirect_uris",
        "resources",
        "store",
        "key",
        "identity_providers",
    ];
    for entry in of_ours.into_iter().filter(|_| table.has("issuer")).filter_map(|key| table.entry(key)) {
        let expected = format!("`auth.issuer` or `auth.{}`, not both", entry.key);
        refuse(entry, expected, "; it configures the built-in authorization server, which `issuer` replaces");
    }
    if let Some(entry) =
        table.entry("groups_claim").filter(|_| !table.has("issuer") && !table.has("provider"))
    {
        let expected =
            "`auth.provider` or `auth.issuer` to be set too: groups are those of a provider's users";
        refuse(entry, expected.to_owned(), "");
    }
    for (key, other) in [("audience", "issuer"), ("dpop_nonces", "dpop")] {
        if let Some(entry) = table.entry(key).filter(|_| !table.has(other)) {
            refuse(entry, format!("`auth.{other}` to be set too"), "");
        }
    }
}

fn client(entry: &ConfigEntry, scope: &ExpansionScope<'_>, report: &mut ConfigReport) -> Option<AuthClient> {
    let mut table = SettingsTable::new(
        &entry.node,
        None,
        &keys::AUTH_CLIENT,
        &format!("auth.clients.{}.", entry.key),
        report,
    )?;
    let name = text(&mut table, "name", scope, report);
    let secret = text(&mut table, "secret", scope, report).map(Secret::new);
    let set = table.take("jwks", report).and_then(|set| jwks(&table, set, scope, report));
    let at = text(&mut table, "jwks_uri", scope, report);
    let ways: Vec<_> = ["secret", "jwks", "jwks_uri"].into_iter().filter(|key| table.has(key)).collect();
    if let [_, .., second] = &*ways {
        let expected = format!("only one of {}: an application authenticates in one way", ways.join(" or "));
        let field = format!("auth.clients.{}.{second}", entry.key);
        table.invalid::<()>(&entry.node.at, &field, expected, "", report);
    }
    let enterprise_managed = table.boolean("enterprise_managed", report).unwrap_or_default();
    let serves = table.strings("serves", report).unwrap_or_default();
    for (key, is_said) in [("enterprise_managed", enterprise_managed), ("serves", !serves.is_empty())] {
        if is_said && ways.is_empty() {
            let field = format!("auth.clients.{}.{key}", entry.key);
            let expected =
                "`secret`, `jwks` or `jwks_uri` to be set too: the application has to authenticate";
            table.invalid::<()>(&entry.node.at, &field, expected, "", report);
        }
    }
    let redirect_uris = table.strings("redirect_uris", report).unwrap_or_default();
    table.report_unknown_keys(report);
    let keys = set.map(AuthKeys::Set).or_else(|| at.map(AuthKeys::At));
    Some(AuthClient { id: entry.key.clone(), name, secret, keys, enterprise_managed, serves, redirect_uris })
}

/// Reads a JSON Web Key Set, either as a table or as the text of a file.
fn jwks(
    table: &SettingsTable<'_>,
    entry: &ConfigEntry,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Option<serde_json::Value> {
    const FORM: &str = "a JSON Web Key Set, such as \"${file:application.jwks.json}\"";
    if entry.node.as_object().is_some() {
        return Some(json(&entry.node));
    }
    let text = table.expanded(&entry.node, &table.field(entry), scope, report)?;
    match serde_json::from_str(text.reveal()) {
        Ok(set) => Some(set),
        Err(_) => table.invalid(&entry.node.at, &table.field(entry), FORM, "", report),
    }
}

/// Converts a value of the file to JSON, as written.
fn json(node: &ConfigNode) -> serde_json::Value {
    match &node.value {
        ConfigValue::Null | ConfigValue::Date => serde_json::Value::Null,
        ConfigValue::Boolean(value) => (*value).into(),
        ConfigValue::Number(text) => serde_json::from_str(text).unwrap_or_default(),
        ConfigValue::String(text) => text.as_str().into(),
        ConfigValue::Array(items) => items.iter().map(json).collect(),
        ConfigValue::Object(entries) => {
            let members = entries.iter().map(|entry| (entry.key.clone(), json(&entry.node)));
            serde_json::Value::Object(members.collect())
        }
    }
}

fn sign_in(entry: &ConfigEntry, scope: &ExpansionScope<'_>, report: &mut ConfigReport) -> Option<AuthSignIn> {
    let mut table = SettingsTable::new(&entry.node, None, &keys::AUTH_SIGN_IN, "auth.sign_in.", report)?;
    let client_id = text(&mut table, "client_id", scope, report);
    let client_secret = text(&mut table, "client_secret", scope, report).map(Secret::new);
    let scopes = table.strings("scopes", report).unwrap_or_default();
    let parameters = revealed(secrets(&mut table, "parameters", scope, report));
    // If it is there and wrong, that has been reported already.
    if client_id.is_none() && !table.has("client_id") {
        table.invalid::<()>(&entry.node.at, "auth.sign_in.client_id", "a string", "", report);
    }
    table.report_unknown_keys(report);
    Some(AuthSignIn { client_id: client_id?, client_secret, scopes, parameters })
}

fn revealed(texts: Vec<(String, Secret)>) -> Vec<(String, String)> {
    texts.into_iter().map(|(name, value)| (name, value.reveal().to_owned())).collect()
}

/// Minimum length of a key, in characters. Shorter texts can be guessed.
const MIN_KEY_CHARACTERS: usize = 32;

fn provider(
    entry: &ConfigEntry,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Option<AuthProvider> {
    let mut table = SettingsTable::new(&entry.node, None, &keys::AUTH_PROVIDER, "auth.provider.", report)?;
    let issuer = url(&mut table, "issuer", scope, report);
    let client_id = text(&mut table, "client_id", scope, report);
    let client_secret = text(&mut table, "client_secret", scope, report).map(Secret::new);
    let scopes = table.strings("scopes", report).unwrap_or_default();
    let parameters = revealed(secrets(&mut table, "parameters", scope, report));
    let allow = allow(&mut table, entry, scope, report);
    let key = key(&mut table, scope, report);
    for (name, known) in [("issuer", issuer.is_some()), ("client_id", client_id.is_some())] {
        if !known && !table.has(name) {
            table.invalid::<()>(&entry.node.at, &format!("auth.provider.{name}"), "a string", "", report);
        }
    }
    table.report_unknown_keys(report);
    // Only now: everything was read first, so that all mistakes are reported at once.
    Some(AuthProvider {
        issuer: issuer?,
        client_id: client_id?,
        client_secret,
        scopes,
        parameters,
        allow: allow?,
        key,
    })
}

/// Reads an encryption key.
fn key(
    table: &mut SettingsTable<'_>,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Option<Secret> {
    let entry = table.take("key", report)?;
    let text = table.expanded(&entry.node, &table.field(entry), scope, report)?;
    // A file that holds a key usually ends in a line break.
    let text = text.reveal().trim();
    if text.chars().count() >= MIN_KEY_CHARACTERS {
        return Some(Secret::new(text));
    }
    let expected = format!("at least {MIN_KEY_CHARACTERS} random characters");
    table.invalid(&entry.node.at, &table.field(entry), expected, "", report)
}

/// Reads which users are admitted. The setting is required, because at many providers anybody can create an account.
fn allow(
    table: &mut SettingsTable<'_>,
    provider: &ConfigEntry,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Option<AllowedUsers> {
    const FORM: &str =
        "the users to admit: claims such as { email = [\"ann@example.org\"] }, or \"everybody\"";
    let field = "auth.provider.allow";
    let Some(entry) = table.take("allow", report) else {
        return table.invalid(&provider.node.at, field, FORM, "", report);
    };
    if entry.node.as_str() == Some("everybody") {
        return Some(AllowedUsers::Everybody);
    }
    let Some(claims) = entry.node.as_object().filter(|claims| !claims.is_empty()) else {
        return table.invalid(&entry.node.at, field, FORM, "", report);
    };
    let mut all = Vec::new();
    for claim in claims {
        let field = format!("{field}.{}", claim.key);
        let nodes = match &claim.node.value {
            ConfigValue::Array(many) => many.iter().collect(),
            _ => vec![&claim.node],
        };
        let values: Option<Vec<String>> = nodes
            .into_iter()
            .map(|node| Some(table.expanded(node, &field, scope, report)?.reveal().to_owned()))
            .collect();
        all.push((claim.key.clone(), values?));
    }
    Some(AllowedUsers::Claims(all))
}

fn text(
    table: &mut SettingsTable<'_>,
    key: &'static str,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Option<String> {
    let entry = table.take(key, report)?;
    let text = table.expanded(&entry.node, &table.field(entry), scope, report)?;
    Some(text.reveal().to_owned())
}

fn url(
    table: &mut SettingsTable<'_>,
    key: &'static str,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Option<String> {
    let entry = table.take(key, report)?;
    let text = table.expanded(&entry.node, &table.field(entry), scope, report)?;
    // An issuer has neither a query nor a fragment (RFC 8414, section 2).
    let sound = url::Url::parse(text.reveal()).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.query().is_none() && url.fragment().is_none()
    });
    match sound {
        true => Some(text.reveal().to_owned()),
        false => table.invalid(&entry.node.at, &table.field(entry), URL_FORM, "", report),
    }
}

/// Reads a table of names with secret values.
fn secrets(
    table: &mut SettingsTable<'_>,
    key: &'static str,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Vec<(String, Secret)> {
    let Some(entry) = table.take(key, report) else { return Vec::new() };
    let Some(entries) = entry.node.as_object() else {
        report.wrong_type::<()>(&entry.node, None, table.field(entry), "a table");
        return Vec::new();
    };
    let mut all = Vec::new();
    for one in entries {
        let field = format!("{}.{}", table.field(entry), one.key);
        match table.expanded(&one.node, &field, scope, report) {
            // A variable that is set to nothing leaves an empty text, which anybody could guess.
            Some(value) if value.reveal().is_empty() => {
                table.invalid::<()>(&one.node.at, &field, "a non-empty string", "", report);
            }
            Some(value) => all.push((one.key.clone(), value.into_secret())),
            None => {}
        }
    }
    all
}
