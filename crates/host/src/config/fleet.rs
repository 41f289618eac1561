//! Settings of several nodes behind one address.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::document::{ConfigEntry, ConfigNode, ConfigValue};
use super::expand::ExpansionScope;
use super::native::listen;
use super::secret::Secret;
use super::table::{ConfigReport, SettingsTable};

/// Minimum length of the secret of a fleet, in characters.
const MIN_SECRET_CHARACTERS: usize = 32;
/// Maximum number of secrets: one before and one after a change, and one to spare.
const MAX_SECRETS: usize = 3;

/// Settings of a node of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetConfig {
    /// Secrets that all nodes have, the present one first. At least one.
    pub secrets: Vec<Secret>,
    /// URL of the PostgreSQL database, which has what must be true.
    pub postgres: Secret,
    /// Certificates of the authorities of PostgreSQL, in a PEM file. Default: those of the system.
    pub postgres_ca: Option<PathBuf>,
    /// Certificate of the nodes for PostgreSQL. Default: none.
    pub postgres_client: Option<ClientCertificate>,
    /// URL of the Redis server, which has what is in use.
    pub redis: Secret,
    /// Certificates of the authorities of Redis, in a PEM file. Default: the public ones.
    pub redis_ca: Option<PathBuf>,
    /// Certificate of the nodes for Redis. Default: none.
    pub redis_client: Option<ClientCertificate>,
    /// Address on which requests of other nodes are served.
    pub node_listen: SocketAddr,
    /// `HOST:PORT` at which other nodes reach this one. Default: the address on which it listens.
    pub node_address: Option<String>,
}

/// PEM files with the certificate by which a client names itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientCertificate {
    /// Certificate, and those of intermediate authorities.
    pub certificate: PathBuf,
    /// Private key, without a passphrase.
    pub key: PathBuf,
}

impl FleetConfig {
    /// Returns the name of the node for people: the address at which others reach it.
    #[must_use]
    pub fn node_name(&self) -> String {
        self.node_address.clone().unwrap_or_else(|| self.node_listen.to_string())
    }
}

/// Reads the table.
pub(super) fn read_fleet(
    table: &mut SettingsTable<'_>,
    at: &ConfigNode,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Option<FleetConfig> {
    let secrets = table.take("secret", report).and_then(|entry| secrets(table, entry, scope, report));
    let postgres = url(table, "postgres", &["postgres", "postgresql"], scope, report);
    let redis = url(table, "redis", &["redis", "rediss"], scope, report);
    let mut file = |key| {
        let entry = table.take(key, report)?;
        let text = table.expanded(&entry.node, &table.field(entry), scope, report)?;
        Some(scope.path(scope.folder, text.reveal()))
    };
    let (postgres_ca, redis_ca) = (file("postgres_ca"), file("redis_ca"));
    let postgres_pair = [("postgres_cert", file("postgres_cert")), ("postgres_key", file("postgres_key"))];
    let redis_pair = [("redis_cert", file("redis_cert")), ("redis_key", file("redis_key"))];
    let node_listen = table.take("node_listen", report).and_then(|entry| listen(table, entry, report));
    let node_address =
        table.take("node_address", report).and_then(|entry| node_address(table, entry, scope, report));
    table.report_unknown_keys(report);
    let missing: Vec<&str> = ["secret", "postgres", "redis", "node_listen"]
        .into_iter()
        .filter(|key| table.entry(key).is_none())
        .collect();
    if let Some(first) = missing.first() {
        let expected = format!("`{first}`: all nodes share a secret, a database and a Redis server");
        return table.invalid(&at.at, "fleet", expected, "", report);
    }
    let postgres_client = client_certificate(postgres_pair, table, at, report)?;
    let redis_client = client_certificate(redis_pair, table, at, report)?;
    let config = FleetConfig {
        secrets: secrets?,
        postgres: postgres?,
        postgres_ca,
        postgres_client,
        redis: redis?,
        redis_ca,
        redis_client,
        node_listen: node_listen?,
        node_address,
    };
    // Other nodes can neither reach a wildcard address nor know a port that the system chooses.
    if config.node_address.is_none() && config.node_listen.ip().is_unspecified() {
        let expected = "`node_address`: the name or address at which other nodes reach this one";
        return table.invalid(&at.at, "fleet", expected, "; `node_listen` has no address of its own", report);
    }
    Some(config)
}

/// Returns a certificate with its key, if both are given. `None` if one is missing, which is reported.
fn client_certificate(
    pair: [(&str, Option<PathBuf>); 2],
    table: &SettingsTable<'_>,
    at: &ConfigNode,
    report: &mut ConfigReport,
) -> Option<Option<ClientCertificate>> {
    let missing = match pair {
        [(_, Some(certificate)), (_, Some(key))] => {
            return Some(Some(ClientCertificate { certificate, key }));
        }
        [(_, None), (_, None)] => return Some(None),
        [(missing, None), _] | [_, (missing, None)] => missing,
    };
    let expected = format!("`{missing}`: a certificate and its private key are given together");
    table.invalid(&at.at, "fleet", expected, "", report)
}

fn secrets(
    table: &SettingsTable<'_>,
    entry: &ConfigEntry,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Option<Vec<Secret>> {
    let field = table.field(entry);
    let nodes = match &entry.node.value {
        ConfigValue::Array(_) => table.items(entry, report)?.iter().collect(),
        _ => vec![&entry.node],
    };
    let mut secrets = Vec::new();
    for node in nodes {
        let text = table.expanded(node, &field, scope, report)?;
        // A file that holds a secret usually ends in a line break.
        let text = text.reveal().trim();
        if text.chars().count() < MIN_SECRET_CHARACTERS {
            let expected = format!("at least {MIN_SECRET_CHARACTERS} random characters");
            return table.invalid(&node.at, &field, expected, "", report);
        }
        secrets.push(Secret::new(text));
    }
    if secrets.is_empty() || secrets.len() > MAX_SECRETS {
        let expected = format!("1 to {MAX_SECRETS} secrets, the present one first");
        return table.invalid(&entry.node.at, &field, expected, "", report);
    }
    Some(secrets)
}

/// Reads a URL, which may have a password. What is wrong with it is said without its text.
fn url(
    table: &mut SettingsTable<'_>,
    key: &'static str,
    schemes: &[&str],
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Option<Secret> {
    let entry = table.take(key, report)?;
    let field = table.field(entry);
    let text = table.expanded(&entry.node, &field, scope, report)?;
    let text = text.reveal().trim();
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    if scheme.is_some_and(|scheme| schemes.contains(&scheme)) {
        return Some(Secret::new(text));
    }
    let schemes: Vec<String> = schemes.iter().map(|scheme| format!("{scheme}://")).collect();
    let expected = format!("a URL that begins with {}", schemes.join(" or "));
    table.invalid(&entry.node.at, &field, expected, "", report)
}

fn node_address(
    table: &SettingsTable<'_>,
    entry: &ConfigEntry,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Option<String> {
    let field = table.field(entry);
    let text = table.expanded(&entry.node, &field, scope, report)?;
    let authority: Option<http::uri::Authority> = text.reveal().parse().ok();
    match authority.filter(|authority| authority.port_u16().is_some_and(|port| port != 0)) {
        Some(authority) if !authority.as_str().contains('@') => Some(authority.to_string()),
        _ => table.invalid(
            &entry.node.at,
            &field,
            "a name or address and a port such as \"10.0.0.7:7400\"",
            "",
            report,
        ),
    }
}
