//! Reader of Hospes' own configuration format.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use hospes::transport::http_server::{AllowedHosts, AllowedOrigins};

use super::accounts::read_accounts;
use super::auth::read_auth;
use super::console_team::read_console_team;
use super::decision_source::DecisionSource;
use super::document::{ConfigEntry, ConfigNode, ConfigValue};
use super::expand::ExpansionScope;
use super::fleet::read_fleet;
use super::keys;
use super::model::{AllowedCallers, ConsoleConfig};
use super::models::{ModelsConfig, read_models, read_sampling};
use super::nearest::hint;
use super::notify::read_notify;
use super::partial::{LocatedSetting, PartialConfig};
use super::profiles::read_profiles;
use super::server::{ServerDefaults, read_server};
use super::settings::DEFAULT_HEALTH_CHECK;
use super::table::{ConfigReport, SettingsTable};
use super::telemetry::read_telemetry;

/// Reads a file in Hospes' own format.
pub(super) fn read_native(root: &ConfigNode, scope: &ExpansionScope<'_>, part: &mut PartialConfig) {
    let report = &mut part.report;
    let Some(mut table) = SettingsTable::new(root, None, &keys::TOP, "", report) else { return };
    if let Some(entry) = table.take("registry", report) {
        let value = registry(&table, entry, report);
        part.registry = value.map(|value| LocatedSetting { value, at: entry.at.clone() });
    }
    if scope.keep {
        // The other tables are not for this host, and their references cannot be checked.
        if let Some(profiles) = table.take("profiles", report) {
            part.profiles = read_profiles(profiles, report);
        }
        if let Some(servers) = table.take("servers", report) {
            read_servers(servers, scope, ServerDefaults::default(), part);
        }
        return;
    }
    if let Some(entry) = table.take("organization_policy", report) {
        let text = table.expanded(&entry.node, &table.field(entry), scope, report);
        let value = text.map(|text| scope.path(scope.folder, text.reveal()));
        part.organization_policy = value.map(|value| LocatedSetting { value, at: entry.at.clone() });
    }
    if let Some(mut endpoint) = table.table("endpoint", &keys::ENDPOINT, report) {
        if let Some(entry) = endpoint.take("listen", report) {
            part.listen =
                listen(&endpoint, entry, report).map(|value| LocatedSetting { value, at: entry.at.clone() });
        }
        if let Some(entry) = endpoint.take("start_wait", report) {
            let wait = endpoint.duration(entry, Duration::from_secs(1), report);
            part.start_wait = wait.map(|value| LocatedSetting { value, at: entry.at.clone() });
        }
        if let Some(entry) = endpoint.take("callers", report) {
            let value = callers(&endpoint, entry, report);
            part.callers = value.map(|value| LocatedSetting { value, at: entry.at.clone() });
        }
        part.allowed_hosts = patterns(&mut endpoint, "allowed_hosts", is_host, HOST_FORM, report);
        part.allowed_origins = patterns(&mut endpoint, "allowed_origins", is_origin, ORIGIN_FORM, report);
        endpoint.report_unknown_keys(report);
    }
    if let Some(mut console) = table.table("console", &keys::CONSOLE, report) {
        if let Some(entry) = console.take("listen", report) {
            let is_for_team = console.has("team");
            let value = console_place(&console, entry, is_for_team, report);
            part.console = value.map(|value| LocatedSetting { value, at: entry.at.clone() });
        }
        if let Some(entry) = console.take("team", report) {
            let value = read_console_team(&entry.node, scope, report);
            part.console_team = value.map(|value| LocatedSetting { value, at: entry.at.clone() });
        }
        part.console_questions = console.boolean("questions", report);
        part.console_streams = console.count("max_streams", report);
        if let Some(entry) = console.take("decisions_from", report) {
            part.decisions_from = decisions_from(&console, entry, report);
        }
        console.report_unknown_keys(report);
    }
    if let Some(mut metrics) = table.table("metrics", &keys::METRICS, report) {
        if let Some(entry) = metrics.take("listen", report) {
            let address = listen(&metrics, entry, report);
            part.metrics_listen = address.map(|value| LocatedSetting { value, at: entry.at.clone() });
        }
        metrics.report_unknown_keys(report);
    }
    if let Some(entry) = table.take("telemetry", report)
        && let Some(mut telemetry) =
            SettingsTable::new(&entry.node, None, &keys::TELEMETRY, "telemetry.", report)
    {
        let value = read_telemetry(&mut telemetry, scope, report);
        part.telemetry = Some(LocatedSetting { value, at: entry.at.clone() });
    }
    if let Some(entry) = table.take("fleet", report)
        && let Some(mut fleet) = SettingsTable::new(&entry.node, None, &keys::FLEET, "fleet.", report)
    {
        let value = read_fleet(&mut fleet, &entry.node, scope, report);
        part.fleet = value.map(|value| LocatedSetting { value, at: entry.at.clone() });
    }
    if let Some(mut notify) = table.table("notify", &keys::NOTIFY, report) {
        let settings = read_notify(&mut notify, scope, report);
        notify.report_unknown_keys(report);
        part.desktop_notifications = settings.desktop;
        part.notification_command = settings.command;
        part.notification_webhook = settings.webhook;
    }
    if let Some(entry) = table.take("auth", report)
        && let Some(mut auth) = SettingsTable::new(&entry.node, None, &keys::AUTH, "auth.", report)
    {
        let value = read_auth(&mut auth, scope, report);
        part.auth = Some(LocatedSetting { value, at: entry.at.clone() });
    }
    if let Some(entry) = table.take("accounts", report)
        && let Some(mut accounts) =
            SettingsTable::new(&entry.node, None, &keys::ACCOUNTS, "accounts.", report)
    {
        let value = read_accounts(&mut accounts, report);
        part.accounts = Some(LocatedSetting { value, at: entry.at.clone() });
    }
    if let Some(mut audit) = table.table("audit", &keys::AUDIT, report) {
        part.audit_arguments = audit.boolean("arguments", report);
        if let Some(entry) = audit.take("keep_days", report) {
            let value = days(&audit, entry, report);
            part.audit_kept_for = value.map(|value| LocatedSetting { value, at: entry.at.clone() });
        }
        audit.report_unknown_keys(report);
    }
    if let Some(entry) = table.take("models", report) {
        part.models.models = read_models(&table, &entry.node, scope, report);
    }
    if let Some(entry) = table.take("sampling", report)
        && let Some(mut sampling) =
            SettingsTable::new(&entry.node, None, &keys::SAMPLING, "sampling.", report)
    {
        // What reads the sampling makes settings of its own, without the models.
        let models = std::mem::take(&mut part.models.models);
        part.models = ModelsConfig { models, ..read_sampling(&mut sampling, report) };
    }
    let mut defaults = ServerDefaults::default();
    if let Some(mut table) = table.table("defaults", &keys::DEFAULTS, report) {
        let mut time = |key: &'static str| {
            let entry = table.take(key, report)?;
            table.duration(entry, Duration::from_secs(1), report)
        };
        defaults.timeouts.connect = time("connect_timeout");
        defaults.timeouts.request = time("request_timeout");
        defaults.timeouts.park = time("park_timeout");
        defaults.timeouts.health_check = table.interval("health_check", DEFAULT_HEALTH_CHECK, report);
        defaults.max_connections = table.count("max_connections", report);
        defaults.pins = table.pins(report);
        defaults.check_arguments = table.check_arguments(report);
        defaults.auto_update = table.auto_update(report);
        table.report_unknown_keys(report);
    }
    if let Some(profiles) = table.take("profiles", report) {
        part.profiles = read_profiles(profiles, report);
    }
    let servers = table.take("servers", report);
    // Before the servers, so that unknown tables are reported even where there are none.
    table.report_unknown_keys(report);
    if let Some(servers) = servers {
        read_servers(servers, scope, defaults, part);
    }
}

/// Reads the table `servers`.
fn read_servers(
    servers: &ConfigEntry,
    scope: &ExpansionScope<'_>,
    defaults: ServerDefaults,
    part: &mut PartialConfig,
) {
    let report = &mut part.report;
    let Some(entries) = servers.node.as_object() else {
        report.wrong_type::<()>(&servers.node, None, servers.key.clone(), "a table");
        return;
    };
    for entry in entries {
        // Declared out here, because it is borrowed beyond its arm.
        let long;
        let entry = match expand_shorthand(entry) {
            Some(made) => {
                long = made;
                &long
            }
            None => entry,
        };
        let before = part.report.errors.len();
        let reading = read_server(&entry.key, entry, scope, defaults, &mut part.report);
        part.add(entry, reading, before);
    }
}

/// Expands a string to a table: a URL or a command line is short for a table with only that.
fn expand_shorthand(entry: &ConfigEntry) -> Option<ConfigEntry> {
    let text = entry.node.as_str()?;
    let is_url = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    let key = if is_url { "url" } else { "command" };
    let text = ConfigNode { at: entry.node.at.clone(), value: ConfigValue::String(text.to_owned()) };
    let inner = ConfigEntry { at: entry.at.clone(), key: key.to_owned(), node: text };
    let node = ConfigNode { at: entry.node.at.clone(), value: ConfigValue::Object(vec![inner]) };
    Some(ConfigEntry { at: entry.at.clone(), key: entry.key.clone(), node })
}

/// Reads an address to listen on: `127.0.0.1:7337`, `localhost:7337`, `:7337` or a port alone.
///
/// Without an address, loopback is used.
pub fn parse_listen(text: &str) -> Option<SocketAddr> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let text = text.trim();
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let port = text.strip_prefix("localhost").unwrap_or(text);
    // After `localhost` there has to be a colon; before a port alone there may be one.
    let port = if port.len() < text.len() {
        port.strip_prefix(':')?
    } else {
        port.strip_prefix(':').unwrap_or(port)
    };
    port.parse().ok().map(|port| SocketAddr::new(loopback, port))
}

/// Reads where the console listens: an address of this machine alone, as [`parse_listen`] reads it, or `off`.
pub fn parse_console(text: &str) -> Option<ConsoleConfig> {
    if text.trim() == "off" {
        return Some(ConsoleConfig::Off);
    }
    // Whoever reaches the console may decide in place of the person, so other machines never do.
    parse_team_console(text)
        .filter(|place| matches!(place, ConsoleConfig::Listen(address) if address.ip().is_loopback()))
}

/// Reads where the console of a team listens, which asks each request for its sign-in: any address, or `off`.
pub fn parse_team_console(text: &str) -> Option<ConsoleConfig> {
    if text.trim() == "off" {
        return Some(ConsoleConfig::Off);
    }
    parse_listen(text).map(ConsoleConfig::Listen)
}

/// Description of a valid console address.
pub const CONSOLE_FORM: &str =
    "a loopback address and a port such as \"127.0.0.1:7338\", a port alone, or \"off\"";

fn console_place(
    table: &SettingsTable<'_>,
    entry: &ConfigEntry,
    is_for_team: bool,
    report: &mut ConfigReport,
) -> Option<ConsoleConfig> {
    let text = match &entry.node.value {
        ConfigValue::Boolean(false) => "off",
        ConfigValue::String(text) | ConfigValue::Number(text) => text,
        _ => return report.wrong_type(&entry.node, None, table.field(entry), "a string or a port"),
    };
    let parsed = if is_for_team { parse_team_console(text) } else { parse_console(text) };
    match parsed {
        Some(place) => Some(place),
        None => table.invalid(&entry.node.at, &table.field(entry), CONSOLE_FORM, "", report),
    }
}

fn decisions_from(
    table: &SettingsTable<'_>,
    entry: &ConfigEntry,
    report: &mut ConfigReport,
) -> Option<DecisionSource> {
    let text = entry.node.as_str().unwrap_or_default();
    let found = DecisionSource::ALL.into_iter().find(|from| from.as_str() == text);
    found.or_else(|| {
        let hint = hint(text, DecisionSource::ALL.map(DecisionSource::as_str));
        let expected = "\"browser\", \"terminal\" or \"programs\"";
        table.invalid(&entry.node.at, &table.field(entry), expected, hint, report)
    })
}

fn callers(
    table: &SettingsTable<'_>,
    entry: &ConfigEntry,
    report: &mut ConfigReport,
) -> Option<AllowedCallers> {
    match entry.node.as_str().unwrap_or_default() {
        "same-user" => Some(AllowedCallers::SameUser),
        "token" => Some(AllowedCallers::Token),
        "any" => Some(AllowedCallers::Any),
        text => {
            let hint = hint(text, ["same-user", "token", "any"]);
            table.invalid(
                &entry.node.at,
                &table.field(entry),
                "\"same-user\", \"token\" or \"any\"",
                hint,
                report,
            )
        }
    }
}

/// Description of a valid host name.
pub const HOST_FORM: &str = "a name such as `mcp.example.org`, or with a port `mcp.example.org:8443`";

/// Description of a valid web origin.
pub const ORIGIN_FORM: &str =
    "an origin such as `https://example.org`, or with any port `https://example.org:*`";

/// Returns true if the text is a pattern for the `Host` header: a name or an address, with or without a port, or `*`.
pub fn is_host(text: &str) -> bool {
    AllowedHosts::is_valid_form(text)
}

/// Returns true if the text is a pattern for the `Origin` header: `scheme://host`, with a port or `:*`; `null`; `*`.
pub fn is_origin(text: &str) -> bool {
    AllowedOrigins::is_valid_form(text)
}

/// Maximum number of days of any setting: a hundred years.
const MAX_DAYS: u64 = 36_525;

fn days(table: &SettingsTable<'_>, entry: &ConfigEntry, report: &mut ConfigReport) -> Option<Duration> {
    let ConfigValue::Number(number) = &entry.node.value else {
        return report.wrong_type(&entry.node, None, table.field(entry), "a number");
    };
    match number.parse::<u64>().ok().filter(|days| (1..=MAX_DAYS).contains(days)) {
        Some(days) => Some(Duration::from_secs(days * 24 * 60 * 60)),
        None => {
            let expected = format!("a whole number of days from 1 to {MAX_DAYS}");
            table.invalid(&entry.node.at, &table.field(entry), expected, "", report)
        }
    }
}

fn patterns(
    table: &mut SettingsTable<'_>,
    key: &'static str,
    is_sound: impl Fn(&str) -> bool,
    form: &str,
    report: &mut ConfigReport,
) -> Vec<String> {
    let Some(entry) = table.take(key, report) else { return Vec::new() };
    let texts = table.texts(entry, report).unwrap_or_default();
    for (index, (text, at)) in texts.iter().enumerate() {
        if !is_sound(text) {
            let field = format!("{}[{index}]", table.field(entry));
            table.invalid::<()>(at, &field, form, "", report);
        }
    }
    texts.into_iter().map(|(text, _)| text.to_owned()).collect()
}

/// Reads the base URL of an MCP registry, without a slash at the end. Without TLS, it is on this machine.
fn registry(table: &SettingsTable<'_>, entry: &ConfigEntry, report: &mut ConfigReport) -> Option<String> {
    let Some(text) = entry.node.as_str() else {
        return report.wrong_type(&entry.node, None, table.field(entry), "a URL");
    };
    let is_allowed = |url: &url::Url| match url.scheme() {
        "https" => url.has_host(),
        "http" => super::is_loopback(url),
        _ => false,
    };
    if url::Url::parse(text).is_ok_and(|url| is_allowed(&url)) {
        return Some(text.trim_end_matches('/').to_owned());
    }
    let form = "a URL that begins with https://, or with http:// on this machine";
    table.invalid(&entry.at, &table.field(entry), form, "", report)
}

/// Reads an address to listen on.
pub(super) fn listen(
    table: &SettingsTable<'_>,
    entry: &ConfigEntry,
    report: &mut ConfigReport,
) -> Option<SocketAddr> {
    let (ConfigValue::String(text) | ConfigValue::Number(text)) = &entry.node.value else {
        return report.wrong_type(&entry.node, None, table.field(entry), "a string or a port");
    };
    match parse_listen(text) {
        Some(address) => Some(address),
        None => {
            let expected = "an address and a port such as \"127.0.0.1:7337\"";
            table.invalid(&entry.node.at, &table.field(entry), expected, "", report)
        }
    }
}
