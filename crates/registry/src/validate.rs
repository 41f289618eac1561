//! Strict rules for `server.json`, for publishing: the JSON Schema of 2025-12-11, then the rules of the official
//! registry. Whether the publisher owns the packages is checked by the registry alone.

mod packages;
mod text;

use jiff::civil::{Date, date};
use serde_json::{Map, Value};

use self::text::{RULES_OF_NAMES, check_version, is_repository_url, is_subfolder, is_uri};
use crate::entry::{PUBLISHER_META, read_escape};

/// Maximum number of violations that are listed.
const MAX_VIOLATIONS: usize = 100;
/// Maximum length of the publisher's part of `_meta`, in bytes of JSON.
const MAX_PUBLISHER_META: usize = 4 * 1024;
/// Media types of icons.
const ICON_TYPES: &[&str] = &["image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp"];
/// URLs of the JSON Schemas: the date is between these.
const SCHEMA_URL: (&str, &str) = ("https://static.modelcontextprotocol.io/schemas/", "/server.schema.json");
/// Dates of the published JSON Schemas, the newest last. Later ones may be published after this version.
const SCHEMA_DATES: [Date; 6] = [
    date(2025, 7, 9),
    date(2025, 9, 16),
    date(2025, 9, 29),
    date(2025, 10, 11),
    date(2025, 10, 17),
    date(2025, 12, 11),
];

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryViolation {
    /// Path of the field, such as `packages[0].version`.
    pub path: String,
    /// Stable name of the rule.
    pub rule: &'static str,
    /// Description of the problem, and the expected value. Text of the entry is escaped.
    pub what: String,
}

/// Checks a `server.json`. The list is empty if it may be published. At most 100 violations are listed.
#[must_use]
pub fn validate(server: &Value) -> Vec<EntryViolation> {
    let mut report = ViolationReport::default();
    match server {
        Value::Object(server) => check_server(server, &mut report),
        _ => report.add("", "type", "expected an object"),
    }
    report.0
}

/// Collects violations.
#[derive(Default)]
struct ViolationReport(Vec<EntryViolation>);

impl ViolationReport {
    fn add(&mut self, path: &str, rule: &'static str, what: impl Into<String>) {
        if self.0.len() < MAX_VIOLATIONS {
            let path = if path.is_empty() { "the entry".to_owned() } else { read_escape(path) };
            self.0.push(EntryViolation { path, rule, what: what.into() });
        }
    }

    /// Returns a text. A missing one is reported if it is required, and another type always.
    fn text<'a>(
        &mut self,
        object: &'a Map<String, Value>,
        path: &str,
        name: &str,
        is_required: bool,
    ) -> Option<&'a str> {
        match object.get(name) {
            Some(Value::String(text)) => Some(text),
            Some(_) => {
                self.add(&join(path, name), "type", "expected a text");
                None
            }
            None => {
                if is_required {
                    self.add(&join(path, name), "required", "this field is required");
                }
                None
            }
        }
    }

    fn boolean(&mut self, object: &Map<String, Value>, path: &str, name: &str) {
        if object.get(name).is_some_and(|value| !value.is_boolean()) {
            self.add(&join(path, name), "type", "expected true or false");
        }
    }

    /// Returns the objects of a list with their paths.
    fn objects<'a>(
        &mut self,
        object: &'a Map<String, Value>,
        path: &str,
        name: &str,
    ) -> Vec<(String, &'a Map<String, Value>)> {
        let path = join(path, name);
        match object.get(name) {
            None => Vec::new(),
            Some(Value::Array(items)) => {
                let mut objects = Vec::new();
                for (index, item) in items.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    match item {
                        Value::Object(item) => objects.push((path, item)),
                        _ => self.add(&path, "type", "expected an object"),
                    }
                }
                objects
            }
            Some(_) => {
                self.add(&path, "type", "expected a list");
                Vec::new()
            }
        }
    }

    fn length(&mut self, path: &str, text: &str, least: usize, most: usize) {
        let length = text.chars().count();
        if length < least || length > most {
            self.add(path, "length", format!("it has {length} characters; expected {least} to {most}"));
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn check_server(server: &Map<String, Value>, report: &mut ViolationReport) {
    check_schema_url(server, report);
    if let Some(name) = report.text(server, "", "name", true) {
        check_name(name, report);
    }
    if let Some(description) = report.text(server, "", "description", true) {
        report.length("description", description, 1, 100);
    }
    if let Some(title) = report.text(server, "", "title", false) {
        report.length("title", title, 1, 100);
        if !title.is_empty() && title.trim().is_empty() {
            report.add("title", "title-blank", "the title has only spaces");
        }
    }
    if let Some(version) = report.text(server, "", "version", true) {
        report.length("version", version, 0, 255);
        check_version("version", version, report);
    }
    if let Some(url) = report.text(server, "", "websiteUrl", false) {
        check_https("websiteUrl", url, "website-https", report);
    }
    check_repository(server, report);
    for (path, icon) in report.objects(server, "", "icons") {
        check_icon(&path, icon, report);
    }
    for (path, package) in report.objects(server, "", "packages") {
        packages::check_package(&path, package, report);
    }
    for (path, remote) in report.objects(server, "", "remotes") {
        packages::check_remote(&path, remote, report);
    }
    check_meta(server, report);
}

fn check_schema_url(server: &Map<String, Value>, report: &mut ViolationReport) {
    let Some(url) = report.text(server, "", "$schema", true) else { return };
    let named = url.strip_prefix(SCHEMA_URL.0).and_then(|rest| rest.strip_suffix(SCHEMA_URL.1));
    let named = named.and_then(|named| named.parse::<Date>().ok());
    let is_published =
        |named: Date| SCHEMA_DATES.contains(&named) || SCHEMA_DATES.iter().all(|known| *known < named);
    if !named.is_some_and(is_published) {
        let expected = format!("expected {}2025-12-11{}", SCHEMA_URL.0, SCHEMA_URL.1);
        report.add("$schema", "schema-url", expected);
    }
}

fn check_name(name: &str, report: &mut ViolationReport) {
    report.length("name", name, 3, 200);
    let slashes = name.matches('/').count();
    if slashes != 1 {
        let what = format!("it has {slashes} slashes; expected one, as in com.example/server");
        report.add("name", "name-slash", what);
        return;
    }
    let (namespace, last) = name.split_once('/').unwrap_or_default();
    for (part, rule) in [namespace, last].into_iter().zip(RULES_OF_NAMES) {
        if !rule.fits(part) {
            report.add("name", rule.name, rule.expected);
        }
    }
}

fn check_repository(server: &Map<String, Value>, report: &mut ViolationReport) {
    let repository = match server.get("repository") {
        None => return,
        Some(Value::Object(repository)) => repository,
        Some(_) => return report.add("repository", "type", "expected an object"),
    };
    let url = report.text(repository, "repository", "url", true);
    let source = report.text(repository, "repository", "source", true);
    report.text(repository, "repository", "id", false);
    // Also if both are empty. The rules of the registry take that for none, but its JSON Schema comes first, and an empty
    // text is no URI. Entries that a registry already has are read without these rules, so they stay usable.
    if let (Some(url), Some(source)) = (url, source)
        && !is_repository_url(source, url)
    {
        let what = "expected https://github.com/OWNER/NAME with the source `github`, or the same of `gitlab`";
        report.add("repository.url", "repository-url", what);
    }
    if let Some(folder) = report.text(repository, "repository", "subfolder", false)
        && !is_subfolder(folder)
    {
        let what = "expected a relative path without `.`, `..` and double slashes";
        report.add("repository.subfolder", "repository-subfolder", what);
    }
}

fn check_icon(path: &str, icon: &Map<String, Value>, report: &mut ViolationReport) {
    if let Some(src) = report.text(icon, path, "src", true) {
        let path = join(path, "src");
        report.length(&path, src, 0, 255);
        check_https(&path, src, "icon-https", report);
    }
    if let Some(kind) = report.text(icon, path, "mimeType", false)
        && !ICON_TYPES.contains(&kind)
    {
        report.add(&join(path, "mimeType"), "enum", format!("expected one of: {}", ICON_TYPES.join(", ")));
    }
    if let Some(theme) = report.text(icon, path, "theme", false)
        && !matches!(theme, "light" | "dark")
    {
        report.add(&join(path, "theme"), "enum", "expected `light` or `dark`");
    }
    match icon.get("sizes") {
        None => {}
        Some(Value::Array(sizes)) => {
            for (index, size) in sizes.iter().enumerate() {
                if !size.as_str().is_some_and(text::is_size) {
                    let path = format!("{}[{index}]", join(path, "sizes"));
                    report.add(&path, "icon-size", "expected WIDTHxHEIGHT, such as 48x48, or `any`");
                }
            }
        }
        Some(_) => report.add(&join(path, "sizes"), "type", "expected a list"),
    }
}

fn check_https(path: &str, text: &str, rule: &'static str, report: &mut ViolationReport) {
    if !is_uri(text) {
        report.add(path, "uri", "expected an absolute URL");
    } else if !text.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://")) {
        report.add(path, rule, "the URL must begin with https://");
    }
}

fn check_meta(server: &Map<String, Value>, report: &mut ViolationReport) {
    let meta = match server.get("_meta") {
        None => return,
        Some(Value::Object(meta)) => meta,
        Some(_) => return report.add("_meta", "type", "expected an object"),
    };
    match meta.get(PUBLISHER_META) {
        None => {}
        Some(publisher @ Value::Object(_)) => {
            let length = publisher.to_string().len();
            if length > MAX_PUBLISHER_META {
                let what = format!("it has {length} bytes; at most {MAX_PUBLISHER_META} are allowed");
                report.add(&format!("_meta.{PUBLISHER_META}"), "publisher-meta-size", what);
            }
        }
        Some(_) => report.add(&format!("_meta.{PUBLISHER_META}"), "type", "expected an object"),
    }
}

#[cfg(test)]
mod tests;
