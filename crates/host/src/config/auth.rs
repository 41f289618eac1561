//! Who may use the endpoint: the table `[auth]`.

use std::path::PathBuf;

use super::document::{Entry, Value};
use super::expand::Scope;
use super::secret::Secret;
use super::table::{Report, Table};

/// Who may use the endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthConfig {
    /// Whether tokens are asked for. Unless told: beyond loopback yes, and on loopback when anything else is said here.
    pub enabled: Option<bool>,
    /// The public address of the endpoint's origin, which tokens are made out for.
    pub base_url: Option<String>,
    /// Whether applications may introduce themselves to our authorization server.
    pub registration: Option<bool>,
    /// Who may sign in, with a password or the hash of one.
    pub users: Vec<(String, Secret)>,
    /// Tokens that never change, by the name of whoever has them.
    pub tokens: Vec<(String, Secret)>,
    /// Applications that need not introduce themselves.
    pub clients: Vec<AuthClient>,
    /// An authorization server elsewhere, in place of ours.
    pub issuer: Option<String>,
    /// What its tokens are made out for, if not for the endpoint's address.
    pub audience: Option<String>,
    /// Where users sign in, in place of our own page.
    pub provider: Option<AuthProvider>,
    /// The scopes that tokens of an authorization server elsewhere must have.
    pub scopes: Vec<String>,
    /// What ours makes out tokens for besides the endpoint: hosts that name it as their `issuer`. Its tokens are signed
    /// then, so that those can read them.
    pub resources: Vec<String>,
    /// Where ours keeps what it must.
    pub store: Option<PathBuf>,
}

/// An OpenID provider at which users sign in. Our authorization server goes on making out the tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthProvider {
    /// What it calls itself.
    pub issuer: String,
    /// What it calls us.
    pub client_id: String,
    /// The secret that it gave us.
    pub client_secret: Option<Secret>,
    /// What is asked for there; `openid` unless told.
    pub scopes: Vec<String>,
    /// What else it wants to be sent with every user.
    pub parameters: Vec<(String, String)>,
    /// Who is let in.
    pub allow: Allowed,
    /// What its tokens are sealed under, where several hosts share a store. Unless told, each host makes a key of its own.
    pub key: Option<Secret>,
}

/// Whom of a provider's users we let in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Allowed {
    /// Whoever can sign in there.
    Everybody,
    /// Those of whom each of these claims has one of its values.
    Claims(Vec<(String, Vec<String>)>),
}

/// An application that need not introduce itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthClient {
    /// Its id.
    pub id: String,
    /// Its name, for people.
    pub name: Option<String>,
    /// Its secret, if it can keep one.
    pub secret: Option<Secret>,
    /// Where answers may be sent.
    pub redirect_uris: Vec<String>,
}

const URL_FORM: &str = "an address such as \"https://mcp.example.org\"";

/// Reads the table.
pub(super) fn read_auth(table: &mut Table<'_>, scope: &Scope<'_>, report: &mut Report) -> AuthConfig {
    let mut auth = AuthConfig {
        enabled: table.boolean(&["enabled"], report),
        registration: table.boolean(&["registration"], report),
        base_url: url(table, "base_url", scope, report),
        issuer: url(table, "issuer", scope, report),
        audience: url(table, "audience", scope, report),
        users: secrets(table, "users", scope, report),
        tokens: secrets(table, "tokens", scope, report),
        scopes: table.strings(&["scopes"], report).unwrap_or_default(),
        resources: table.strings(&["resources"], report).unwrap_or_default(),
        ..AuthConfig::default()
    };
    if let Some(entry) = table.take(&["store"], report) {
        let path = table.expanded(&entry.node, &table.field(entry), scope, report);
        auth.store = path.map(|path| scope.path(scope.folder, path.reveal()));
    }
    if let Some(entry) = table.take(&["provider"], report) {
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
    if let Some(entry) = table.take(&["clients"], report)
        && let Some(clients) = Table::new(&entry.node, None, "auth.clients.", report)
    {
        for entry in clients.unread() {
            auth.clients.extend(client(entry, scope, report));
        }
    }
    table.refuse_unread(report);
    auth
}

fn client(entry: &Entry, scope: &Scope<'_>, report: &mut Report) -> Option<AuthClient> {
    let mut table = Table::new(&entry.node, None, &format!("auth.clients.{}.", entry.key), report)?;
    let name = text(&mut table, "name", scope, report);
    let secret = text(&mut table, "secret", scope, report).map(Secret::new);
    let redirect_uris = table.strings(&["redirect_uris"], report).unwrap_or_default();
    table.refuse_unread(report);
    Some(AuthClient { id: entry.key.clone(), name, secret, redirect_uris })
}

/// The fewest characters of a key: a text that somebody made up is soon guessed.
const KEY_CHARACTERS: usize = 32;

fn provider(entry: &Entry, scope: &Scope<'_>, report: &mut Report) -> Option<AuthProvider> {
    let mut table = Table::new(&entry.node, None, "auth.provider.", report)?;
    let issuer = url(&mut table, "issuer", scope, report);
    let client_id = text(&mut table, "client_id", scope, report);
    let client_secret = text(&mut table, "client_secret", scope, report).map(Secret::new);
    let scopes = table.strings(&["scopes"], report).unwrap_or_default();
    let parameters = secrets(&mut table, "parameters", scope, report);
    let parameters = parameters.into_iter().map(|(name, value)| (name, value.reveal().to_owned())).collect();
    let allow = allow(&mut table, entry, scope, report);
    let mut key = None;
    if let Some(entry) = table.take(&["key"], report)
        && let Some(text) = table.expanded(&entry.node, &table.field(entry), scope, report)
    {
        match text.reveal().trim().chars().count() < KEY_CHARACTERS {
            false => key = Some(Secret::new(text.reveal().trim())),
            true => {
                let expected = format!("at least {KEY_CHARACTERS} random characters");
                table.invalid::<()>(&entry.node.at, &table.field(entry), expected, "", report);
            }
        }
    }
    for (name, known) in [("issuer", issuer.is_some()), ("client_id", client_id.is_some())] {
        if !known && !table.has(name) {
            table.invalid::<()>(&entry.node.at, &format!("auth.provider.{name}"), "a text", "", report);
        }
    }
    table.refuse_unread(report);
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

/// Who is let in, which has to be said: at many providers anybody can make an account.
fn allow(table: &mut Table<'_>, provider: &Entry, scope: &Scope<'_>, report: &mut Report) -> Option<Allowed> {
    const FORM: &str = "who is let in: claims such as { email = [\"ann@example.org\"] }, or \"everybody\"";
    let field = "auth.provider.allow";
    let Some(entry) = table.take(&["allow"], report) else {
        return table.invalid(&provider.node.at, field, FORM, "", report);
    };
    if entry.node.as_str() == Some("everybody") {
        return Some(Allowed::Everybody);
    }
    let Some(claims) = entry.node.as_object().filter(|claims| !claims.is_empty()) else {
        return table.invalid(&entry.node.at, field, FORM, "", report);
    };
    let mut all = Vec::new();
    for claim in claims {
        let field = format!("{field}.{}", claim.key);
        let nodes = match &claim.node.value {
            Value::Array(many) => many.iter().collect(),
            _ => vec![&claim.node],
        };
        let values: Option<Vec<String>> = nodes
            .into_iter()
            .map(|node| Some(table.expanded(node, &field, scope, report)?.reveal().to_owned()))
            .collect();
        all.push((claim.key.clone(), values?));
    }
    Some(Allowed::Claims(all))
}

fn text(table: &mut Table<'_>, key: &'static str, scope: &Scope<'_>, report: &mut Report) -> Option<String> {
    let entry = table.take(&[key], report)?;
    let text = table.expanded(&entry.node, &table.field(entry), scope, report)?;
    Some(text.reveal().to_owned())
}

fn url(table: &mut Table<'_>, key: &'static str, scope: &Scope<'_>, report: &mut Report) -> Option<String> {
    let entry = table.take(&[key], report)?;
    let text = table.expanded(&entry.node, &table.field(entry), scope, report)?;
    let sound = url::Url::parse(text.reveal()).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.query().is_none() && url.fragment().is_none()
    });
    match sound {
        true => Some(text.reveal().to_owned()),
        false => table.invalid(&entry.node.at, &table.field(entry), URL_FORM, "", report),
    }
}

/// Names, each with something that must not be shown.
fn secrets(
    table: &mut Table<'_>,
    key: &'static str,
    scope: &Scope<'_>,
    report: &mut Report,
) -> Vec<(String, Secret)> {
    let Some(entry) = table.take(&[key], report) else { return Vec::new() };
    let Some(entries) = entry.node.as_object() else {
        report.wrong_type::<()>(&entry.node, None, table.field(entry), "a table");
        return Vec::new();
    };
    let mut all = Vec::new();
    for one in entries {
        let field = format!("{}.{}", table.field(entry), one.key);
        match table.expanded(&one.node, &field, scope, report) {
            Some(value) if value.reveal().is_empty() => {
                table.invalid::<()>(&one.node.at, &field, "a text that is not empty", "", report);
            }
            Some(value) => all.push((one.key.clone(), value.into_secret())),
            None => {}
        }
    }
    all
}
