//! Reader of one server's entry, in Hospes' own spelling or that of another application.

use std::time::Duration;

use super::argument_check::ArgumentCheck;
use super::auto_update::AutoUpdate;
use super::command_line::is_env_name;
use super::document::{ConfigEntry, ConfigNode, ConfigValue};
use super::error::ConfigError;
use super::expand::{ConfigDialect, ExpansionScope};
use super::keys::{self, FOREIGN_IGNORED};
use super::model::{EraChoice, PackageOrigin, ServerConfig, ServerTimeouts};
use super::nearest::hint;
use super::pins::PinMode;
use super::placement::ServerPlacement;
use super::server_transport::{BuiltinTransport, HttpFlavour, SandboxConfig, ServerTransport};
use super::settings::DEFAULT_HEALTH_CHECK;
use super::table::{ConfigReport, SettingsTable};
use super::tool_filter::ToolFilter;

/// The longest name of a server, in bytes.
pub const MAX_SERVER_NAME: usize = 128;

/// Result of reading an entry.
pub(super) enum ParsedServer {
    Server(Box<ServerConfig>),
    /// No server is defined, for this reason. A warning states it, too.
    Skipped(String),
}

/// Defaults for every server of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServerDefaults {
    pub(super) timeouts: ServerTimeouts,
    pub(super) max_connections: Option<usize>,
    pub(super) pins: Option<PinMode>,
    pub(super) check_arguments: Option<ArgumentCheck>,
    pub(super) auto_update: Option<AutoUpdate>,
}

/// Reads one server; mistakes go to the report.
pub(super) fn read_server(
    name: &str,
    entry: &ConfigEntry,
    scope: &ExpansionScope<'_>,
    defaults: ServerDefaults,
    report: &mut ConfigReport,
) -> Option<ParsedServer> {
    let mut table = SettingsTable::new(&entry.node, Some(name), &keys::SERVER, "", report)?;
    table.is_own = scope.dialect == ConfigDialect::Own;
    if name.is_empty() || name.chars().any(char::is_control) || name.len() > MAX_SERVER_NAME {
        let limit = MAX_SERVER_NAME;
        let expected = format!("a name of 1 to {limit} bytes without control characters");
        table.invalid::<()>(&entry.at, "", expected, "", report);
    }
    let enabled = table.boolean("enabled", report);
    let disabled = table.boolean("disabled", report);
    if enabled.is_some() && enabled == disabled {
        report.errors.push(ConfigError::Contradiction {
            at: entry.at.clone(),
            server: name.to_owned(),
            first: format!("`enabled` = {}", enabled == Some(true)),
            second: format!("`disabled` = {}", disabled == Some(true)),
        });
    }
    let disabled = disabled == Some(true) || enabled == Some(false);
    // Nobody needs the variables of a server that does not start.
    let secret = scope.secret.filter(|_| !disabled);
    let asked = goose_keys(entry, scope);
    let allow_unset = scope.allow_unset || disabled;
    let scope = &ExpansionScope { allow_unset, secret, asked: &asked, ..*scope };

    let errors_before = report.errors.len();
    let mut reader = ServerEntryReader { name, entry, scope, table: &mut table, report, unusable: None };
    let transport = reader.transport();
    let is_child = matches!(transport, Ok(Some(ServerTransport::Stdio(_))));
    let sandbox = match scope.dialect {
        _ if !is_child => SandboxConfig::default(),
        ConfigDialect::Own => reader.sandbox(),
        _ => reader.foreign_sandbox(),
    };
    let timeouts = reader.timeouts(defaults.timeouts);
    let max_connections = reader.table.count("max_connections", reader.report);
    let placement = reader.table.placement(reader.report);
    let tools = reader.tools();
    let era = reader.era();
    let roots = reader.roots();
    let mut origin_text = |key| {
        let entry = reader.take(key)?;
        match entry.node.as_str() {
            Some(text) => Some(text.to_owned()),
            None => reader.report.wrong_type(&entry.node, Some(name), entry.key.clone(), "a string"),
        }
    };
    let origin = PackageOrigin {
        registry: origin_text("registry"),
        version: origin_text("version"),
        digest: origin_text("digest"),
    };
    let pins = reader.table.pins(reader.report);
    let check_arguments = reader.table.check_arguments(reader.report);
    let auto_update = reader.table.auto_update(reader.report);
    let required = reader.table.boolean("required", reader.report).unwrap_or(false);
    if let Some(reason) = reader.unusable.take() {
        report.warn(&entry.at, Some(name), format!("{reason}; it is skipped"));
        return Some(ParsedServer::Skipped(reason));
    }
    let own = scope.dialect == ConfigDialect::Own;
    if own {
        table.report_unknown_keys(report);
    }
    let transport = match transport {
        Ok(Some(transport)) => transport,
        Ok(None) => return None,
        // A typo in a key is already reported, with its own suggestion.
        Err(MissingTransport) if own && report.errors.len() > errors_before => return None,
        Err(MissingTransport) => {
            let is_extension = table.unread().any(|unread| unread.key == "settings");
            if !own && (disabled || is_extension) {
                report.warn(&entry.at, Some(name), "has neither `command` nor `url` and is skipped");
                return Some(ParsedServer::Skipped("has neither `command` nor `url`".to_owned()));
            }
            let hint = table.suggest_key(&["command", "url", "httpUrl", "serverUrl", "baseUrl"]);
            report.errors.push(ConfigError::NoTransport {
                at: entry.at.clone(),
                server: name.to_owned(),
                hint,
            });
            return None;
        }
    };
    if !own {
        for unread in table.unread().filter(|unread| !FOREIGN_IGNORED.contains(&unread.key.as_str())) {
            report.warn(
                &unread.at,
                Some(name),
                format!("`{}` is not supported by Hospes and is ignored", unread.key),
            );
        }
    }
    let mut server = ServerConfig::new(name, transport, entry.at.clone());
    server.disabled = disabled;
    server.required = required;
    server.timeouts = timeouts;
    server.max_connections = max_connections.or(defaults.max_connections);
    server.placement = placement;
    server.tools = tools;
    server.pins = pins.or(defaults.pins);
    server.check_arguments = check_arguments.or(defaults.check_arguments).unwrap_or_default();
    server.auto_update = auto_update.or(defaults.auto_update).unwrap_or_default();
    server.era = era;
    server.sandbox = sandbox;
    server.roots = roots;
    server.origin = origin;
    if server.is_per_user() && placement == Some(ServerPlacement::One) {
        report.errors.push(ConfigError::Contradiction {
            at: entry.at.clone(),
            server: name.to_owned(),
            first: "`account` = \"per-user\"".to_owned(),
            second: "`placement` = \"one\"".to_owned(),
        });
    }
    Some(ParsedServer::Server(Box::new(server)))
}

/// Error for an entry with neither a command nor a URL.
struct MissingTransport;

#[derive(Clone, Copy, PartialEq, Eq)]
enum TransportKind {
    Stdio,
    Http(HttpFlavour),
}

/// Reads the settings of one server; `remote` has those of a URL.
pub(super) struct ServerEntryReader<'r, 'n, 's> {
    pub(super) name: &'r str,
    pub(super) entry: &'n ConfigEntry,
    pub(super) scope: &'r ExpansionScope<'s>,
    pub(super) table: &'r mut SettingsTable<'n>,
    pub(super) report: &'r mut ConfigReport,
    /// Reason why Hospes cannot use this entry of another application.
    pub(super) unusable: Option<String>,
}

/// Returns the names of variables whose values only Goose knows, if references are kept.
fn goose_keys(entry: &ConfigEntry, scope: &ExpansionScope<'_>) -> Vec<String> {
    if !scope.keep || scope.dialect != ConfigDialect::Goose {
        return Vec::new();
    }
    let keys = entry.node.get("env_keys").map(|keys| &keys.value);
    let Some(ConfigValue::Array(keys)) = keys else { return Vec::new() };
    keys.iter().filter_map(ConfigNode::as_str).filter(|name| is_env_name(name)).map(str::to_owned).collect()
}

impl<'n> ServerEntryReader<'_, 'n, '_> {
    pub(super) fn take(&mut self, key: &'static str) -> Option<&'n ConfigEntry> {
        self.table.take(key, self.report)
    }

    pub(super) fn report_contradiction(
        &mut self,
        at: &ConfigEntry,
        first: impl Into<String>,
        second: impl Into<String>,
    ) {
        self.report.errors.push(ConfigError::Contradiction {
            at: at.at.clone(),
            server: self.name.to_owned(),
            first: first.into(),
            second: second.into(),
        });
    }

    /// Reads the transport. `Ok(None)` means that an error has been reported.
    fn transport(&mut self) -> Result<Option<ServerTransport>, MissingTransport> {
        let kind = self.kind();
        if self.unusable.is_some() {
            return Ok(None);
        }
        let command = self.take("command");
        let url = self.take("url");
        let builtin = self.take("builtin");
        let found: Vec<&ConfigEntry> = [command, url, builtin].into_iter().flatten().collect();
        if let [first, second, ..] = found[..] {
            self.report_contradiction(second, format!("`{}`", first.key), format!("`{}`", second.key));
            return Ok(None);
        }
        match (kind, found.first()) {
            (Some((kind, said)), Some(entry)) if (kind == TransportKind::Stdio) != command.is_some() => {
                let said_kind = said.node.as_str().unwrap_or_default();
                self.report_contradiction(
                    entry,
                    format!("`{}` = `{said_kind}`", said.key),
                    format!("`{}`", entry.key),
                );
                return Ok(None);
            }
            _ => {}
        }
        if let Some(command) = command {
            let stdio = self.stdio(command);
            self.report_ineffective(
                &[
                    "headers",
                    "bearer_env",
                    "env_headers",
                    "account",
                    "client_id",
                    "client_secret",
                    "client_issuer",
                    "oauth",
                    "scopes",
                    "request_options",
                ],
                command,
            );
            return Ok(stdio.map(ServerTransport::Stdio));
        }
        if let Some(url) = url {
            let flavour = match kind {
                Some((TransportKind::Http(flavour), _)) => flavour,
                _ => HttpFlavour::Any,
            };
            let http = self.http(url, flavour);
            if self.scope.dialect == ConfigDialect::Goose
                && let Some(entry) = self.take("pass_env")
            {
                let message = format!(
                    "the values that `{}` names are in the keyring of Goose; `hospes import` asks for them",
                    entry.key
                );
                self.report.warn(&entry.at, Some(self.name), message);
            } else {
                self.report_ineffective(&["pass_env"], url);
            }
            let process = ["args", "env", "env_file", "cwd", "sandbox", "sandbox_enabled"];
            self.report_ineffective(&process, url);
            return Ok(http.map(ServerTransport::Http));
        }
        if let Some(builtin) = builtin {
            let name = match builtin.node.as_str() {
                Some(name) => Some(name),
                None => {
                    self.report.wrong_type(&builtin.node, Some(self.name), builtin.key.clone(), "a string")
                }
            };
            let args = self.args();
            let others = [
                "headers",
                "account",
                "client_id",
                "client_secret",
                "client_issuer",
                "scopes",
                "env",
                "env_file",
                "pass_env",
                "cwd",
                "sandbox",
            ];
            self.report_ineffective(&others, builtin);
            return Ok(name.zip(args).map(|(name, args)| {
                ServerTransport::Builtin(BuiltinTransport { name: name.to_owned(), args })
            }));
        }
        Err(MissingTransport)
    }

    /// Reports settings that have no effect for this transport: as an error in Hospes' own file, as a warning in files
    /// of other applications.
    fn report_ineffective(&mut self, keys: &[&'static str], because: &ConfigEntry) {
        for key in keys {
            let Some(entry) = self.take(key) else { continue };
            let is_empty = match &entry.node.value {
                ConfigValue::Array(items) => items.is_empty(),
                ConfigValue::Object(entries) => entries.is_empty(),
                _ => false,
            };
            if self.scope.dialect == ConfigDialect::Own {
                self.report_contradiction(entry, format!("`{}`", because.key), format!("`{}`", entry.key));
            } else if !is_empty {
                let message = format!("`{}` is ignored because `{}` is set", entry.key, because.key);
                self.report.warn(&entry.at, Some(self.name), message);
            }
        }
    }

    fn kind(&mut self) -> Option<(TransportKind, &'n ConfigEntry)> {
        let mut said: Option<(TransportKind, &'n ConfigEntry)> = None;
        // Some files say both `type` and `transport`; that is fine as long as they agree.
        for spelling in self.table.spellings("transport") {
            let Some(entry) = self.table.take_spelled("transport", &[spelling], self.report) else {
                continue;
            };
            let Some(text) = entry.node.as_str() else {
                self.report.wrong_type::<()>(&entry.node, Some(self.name), entry.key.clone(), "a string");
                continue;
            };
            let kind = match text {
                "stdio" | "local" => TransportKind::Stdio,
                "http" | "remote" | "auto" => TransportKind::Http(HttpFlavour::Any),
                "streamable-http" | "streamableHttp" | "streamable_http" | "streamablehttp" => {
                    TransportKind::Http(HttpFlavour::Streamable)
                }
                "sse" => TransportKind::Http(HttpFlavour::Sse),
                "ws" | "websocket" if self.scope.dialect != ConfigDialect::Own => {
                    self.unusable = Some(format!(
                        "`{}` = `{text}` is WebSocket, which Hospes does not support",
                        entry.key
                    ));
                    return None;
                }
                other => {
                    let hint = hint(other, ["stdio", "http", "streamable-http", "sse"]);
                    let expected = "`stdio`, `http`, `streamable-http` or `sse`";
                    self.table.invalid::<()>(&entry.node.at, &entry.key, expected, hint, self.report);
                    continue;
                }
            };
            match said {
                Some((first, before))
                    if (first == TransportKind::Stdio) != (kind == TransportKind::Stdio)
                        || (matches!((first, kind), (TransportKind::Http(a), TransportKind::Http(b))
                            if a != b && a != HttpFlavour::Any && b != HttpFlavour::Any)) =>
                {
                    let first = before.node.as_str().unwrap_or_default();
                    let (first, second) =
                        (format!("`{}` = `{first}`", before.key), format!("`{}` = `{text}`", entry.key));
                    self.report_contradiction(entry, first, second);
                }
                Some((TransportKind::Http(flavour), _)) if flavour != HttpFlavour::Any => {}
                _ => said = Some((kind, entry)),
            }
        }
        said
    }

    fn timeouts(&mut self, defaults: ServerTimeouts) -> ServerTimeouts {
        let (start, execution) = self.timeout_table();
        let connect = self.timeout("connect_timeout").or(start);
        let request = execution.or_else(|| self.timeout("request_timeout"));
        let park = self.timeout("park_timeout");
        let health_check = self.table.interval("health_check", DEFAULT_HEALTH_CHECK, self.report);
        ServerTimeouts {
            connect: connect.or(defaults.connect),
            request: request.or(defaults.request),
            park: park.or(defaults.park),
            health_check: health_check.or(defaults.health_check),
        }
    }

    /// Reads the table `timeout` of OpenCode 2: the times to start and to execute.
    fn timeout_table(&mut self) -> (Option<Duration>, Option<Duration>) {
        let (mut start, mut execution) = (None, None);
        let is_table = |entry: &ConfigEntry| entry.node.as_object().is_some();
        if self.scope.dialect != ConfigDialect::OpenCode || !self.table.entry("timeout").is_some_and(is_table)
        {
            return (start, execution);
        }
        let entry = self.table.take_spelled("request_timeout", &["timeout"], self.report);
        for member in entry.and_then(|entry| entry.node.as_object()).unwrap_or_default() {
            let milliseconds = Duration::from_millis(1);
            match member.key.as_str() {
                "startup" => start = self.table.duration(member, milliseconds, self.report),
                "execution" => execution = self.table.duration(member, milliseconds, self.report),
                other => {
                    let message = format!("`timeout.{other}` is not supported by Hospes and is ignored");
                    self.report.warn(&member.at, Some(self.name), message);
                }
            }
        }
        (start, execution)
    }

    fn timeout(&mut self, key: &'static str) -> Option<Duration> {
        let mut found = None;
        // Two spellings are tolerated here: `timeout` beside `tool_timeout_sec` is common; the first listed wins.
        for spelling in self.table.spellings(key) {
            let Some(entry) = self.table.take_spelled(key, &[spelling], self.report) else { continue };
            let unit = match entry.key.as_str() {
                "startup_timeout_ms" | "connectionTimeout" | "requestTimeout" => Duration::from_millis(1),
                "timeout" if is_milliseconds(entry, self.scope.dialect) => Duration::from_millis(1),
                _ => Duration::from_secs(1),
            };
            let duration = self.table.duration(entry, unit, self.report);
            found = found.or(duration);
        }
        found
    }

    fn tools(&mut self) -> ToolFilter {
        if self.scope.dialect == ConfigDialect::Own {
            let Some(mut tools) = self.table.table("tools", &keys::TOOLS, self.report) else {
                return ToolFilter::default();
            };
            let include = tools.strings("include", self.report);
            let exclude = tools.strings("exclude", self.report).unwrap_or_default();
            tools.report_unknown_keys(self.report);
            return ToolFilter { include, exclude };
        }
        // FastMCP has a table of transformations under `tools`, which is something else.
        let tools = self.entry.node.get("tools");
        let is_other = tools.is_some_and(|tools| !matches!(tools.value, ConfigValue::Array(_)));
        let spellings = self.table.spellings("include").iter().copied();
        let spellings: Vec<_> = spellings.filter(|spelling| !(is_other && *spelling == "tools")).collect();
        let include = self.table.take_spelled("include", &spellings, self.report);
        let include = include.and_then(|entry| self.table.owned_texts(entry, self.report));
        // In applications, every tool is no filter.
        let include = include.filter(|include| include.as_slice() != ["*"]);
        let exclude = self.table.strings("exclude", self.report).unwrap_or_default();
        ToolFilter { include, exclude }
    }

    fn era(&mut self) -> Option<EraChoice> {
        let entry = self.take("era")?;
        match entry.node.as_str() {
            Some("legacy") => Some(EraChoice::Legacy),
            Some("modern") => Some(EraChoice::Modern),
            Some("auto") => None,
            other => {
                let hint = other.map_or_else(String::new, |text| hint(text, ["legacy", "modern", "auto"]));
                let expected = "\"legacy\", \"modern\" or \"auto\"";
                self.table.invalid(&entry.node.at, &entry.key, expected, hint, self.report)
            }
        }
    }
}

/// Returns true if `timeout` is in milliseconds. Some applications use seconds (Cline, Roo: up to 3600), others
/// milliseconds (Gemini, OpenCode). If the file does not determine the unit, the size of the number does, in favour of
/// the longer wait.
fn is_milliseconds(entry: &ConfigEntry, dialect: ConfigDialect) -> bool {
    match (&entry.node.value, dialect) {
        (_, ConfigDialect::Gemini | ConfigDialect::OpenCode) => true,
        (_, ConfigDialect::Crush) => false,
        (ConfigValue::Number(number), _) => number.parse().is_ok_and(|number: f64| number > 3600.0),
        _ => false,
    }
}
