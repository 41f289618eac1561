//! The table `[telemetry]`: export of spans, metrics and log records by OTLP.

use std::path::PathBuf;
use std::time::Duration;

use hospes_telemetry::TelemetrySignal;
use url::Url;

use super::document::{ConfigEntry, ConfigValue};
use super::expand::ExpansionScope;
use super::nearest::hint;
use super::secret::{Secret, ServerUrl};
use super::table::{ConfigReport, SettingsTable};

/// Maximum number of attributes of the resource, and of headers.
const MAX_PAIRS: usize = 64;

/// Settings of the export by OTLP. What is not set is that of the environment, or the default.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TelemetryConfig {
    /// Base URL of the collector.
    pub otlp_endpoint: Option<ServerUrl>,
    /// Headers of all requests to the collector.
    pub headers: Option<Vec<(String, Secret)>>,
    /// Signals that are exported.
    pub signals: Option<Vec<TelemetrySignal>>,
    /// Part of the traces that are recorded, from 0 to 1.
    pub sample_ratio: Option<f64>,
    /// Name of the service.
    pub service_name: Option<String>,
    /// Attributes of the resource.
    pub resource: Vec<(String, String)>,
    /// Certificates of authorities that the collector's certificate may be of, in a PEM file.
    pub ca: Option<PathBuf>,
    /// Interval at which metrics are exported.
    pub metric_interval: Option<Duration>,
}

/// Reads the table.
pub(super) fn read_telemetry(
    table: &mut SettingsTable<'_>,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> TelemetryConfig {
    let config = TelemetryConfig {
        otlp_endpoint: endpoint(table, scope, report),
        headers: headers(table, scope, report),
        signals: signals(table, report),
        sample_ratio: sample_ratio(table, report),
        service_name: table.take("service_name", report).and_then(|entry| {
            let text = table.expanded(&entry.node, &table.field(entry), scope, report)?;
            Some(text.reveal().to_owned()).filter(|text| !text.is_empty())
        }),
        resource: resource(table, scope, report),
        ca: table.take("ca", report).and_then(|entry| {
            let text = table.expanded(&entry.node, &table.field(entry), scope, report)?;
            Some(scope.path(scope.folder, text.reveal()))
        }),
        metric_interval: table
            .take("metric_interval", report)
            .and_then(|entry| table.duration(entry, Duration::from_secs(1), report)),
    };
    table.report_unknown_keys(report);
    config
}

fn endpoint(
    table: &mut SettingsTable<'_>,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Option<ServerUrl> {
    let entry = table.take("otlp_endpoint", report)?;
    let field = table.field(entry);
    let text = table.expanded(&entry.node, &field, scope, report)?;
    let is_usable = |url: &Url| {
        let is_plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
        matches!(url.scheme(), "http" | "https") && url.host().is_some() && is_plain
    };
    match Url::parse(text.reveal()).ok().filter(is_usable) {
        Some(url) => Some(ServerUrl::expanded(text.written().to_owned(), url)),
        None => {
            let expected =
                "a base URL of a collector such as \"http://127.0.0.1:4318\", without user and query";
            table.invalid(&entry.node.at, &field, expected, "; credentials go into `headers`", report)
        }
    }
}

fn headers(
    table: &mut SettingsTable<'_>,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Option<Vec<(String, Secret)>> {
    let entry = table.take("headers", report)?;
    let mut headers = Vec::new();
    for member in members(table, entry, report)? {
        let field = format!("{}.{}", table.field(entry), member.key);
        let text = table.expanded(&member.node, &field, scope, report)?;
        let is_valid = http::HeaderName::try_from(&member.key).is_ok()
            && http::HeaderValue::try_from(text.reveal()).is_ok();
        if !is_valid {
            let expected = "a header: its name, and a value of one line";
            return table.invalid(&member.node.at, &field, expected, "", report);
        }
        headers.push((member.key.clone(), text.into_secret()));
    }
    Some(headers)
}

fn resource(
    table: &mut SettingsTable<'_>,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Vec<(String, String)> {
    let Some(entry) = table.take("resource", report) else { return Vec::new() };
    let members = members(table, entry, report).unwrap_or_default();
    let text = |member: &ConfigEntry, report: &mut ConfigReport| {
        let field = format!("{}.{}", table.field(entry), member.key);
        let text = table.expanded(&member.node, &field, scope, report)?;
        Some((member.key.clone(), text.reveal().to_owned()))
    };
    members.iter().filter_map(|member| text(member, report)).collect()
}

/// Returns the members of a table with names that the user chooses.
fn members<'n>(
    table: &SettingsTable<'n>,
    entry: &'n ConfigEntry,
    report: &mut ConfigReport,
) -> Option<&'n [ConfigEntry]> {
    let field = table.field(entry);
    let expected = format!("a table of at most {MAX_PAIRS} names and strings");
    match entry.node.as_object().filter(|members| members.len() <= MAX_PAIRS) {
        Some(members) => Some(members),
        None => table.invalid(&entry.node.at, &field, expected, "", report),
    }
}

fn signals(table: &mut SettingsTable<'_>, report: &mut ConfigReport) -> Option<Vec<TelemetrySignal>> {
    let entry = table.take("signals", report)?;
    let mut signals = Vec::new();
    for (name, at) in table.texts(entry, report)? {
        let Some(signal) = TelemetrySignal::read(name) else {
            let hint = hint(name, TelemetrySignal::ALL.map(TelemetrySignal::as_str));
            let expected = "\"traces\", \"metrics\" and \"logs\"";
            return table.invalid(at, &table.field(entry), expected, hint, report);
        };
        if !signals.contains(&signal) {
            signals.push(signal);
        }
    }
    Some(signals)
}

fn sample_ratio(table: &mut SettingsTable<'_>, report: &mut ConfigReport) -> Option<f64> {
    let entry = table.take("sample_ratio", report)?;
    let ratio = match &entry.node.value {
        ConfigValue::Number(number) => number.parse::<f64>().ok(),
        _ => None,
    };
    let expected = "a number from 0 to 1, such as 0.05";
    match ratio.filter(|ratio| (0.0..=1.0).contains(ratio)) {
        Some(ratio) => Some(ratio),
        None => table.invalid(&entry.node.at, &table.field(entry), expected, "", report),
    }
}
