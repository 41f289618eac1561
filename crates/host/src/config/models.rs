//! Configuration of models and budgets: the tables `[models.NAME]` and `[sampling]`.

use std::time::Duration;

use hospes_models::{Allowance, AllowanceConfig, Model, ModelConfig};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::document::{ConfigEntry, ConfigNode, ConfigValue};
use super::expand::ExpansionScope;
use super::table::{ConfigReport, SettingsTable};

/// Settings of models, and of the servers' budgets for them.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ModelsConfig {
    /// The models, in the order of the file.
    pub models: Vec<Model>,
    /// Allowance of servers without their own; nothing if it is not set.
    pub every_server: Option<Allowance>,
    /// Allowances of servers, by name.
    pub servers: Vec<(String, Allowance)>,
    /// Time that a person has to review one request for a model's answer.
    pub review_timeout: Option<Duration>,
}

impl ModelsConfig {
    pub(super) fn extend(&mut self, other: Self) {
        let known = |models: &[Model], name: &str| models.iter().any(|model| model.name == name);
        for model in other.models {
            // The catalogue takes no two models of one name; the first file counts.
            if !known(&self.models, &model.name) {
                self.models.push(model);
            }
        }
        self.servers.extend(other.servers);
        self.every_server = other.every_server.or_else(|| self.every_server.take());
        self.review_timeout = other.review_timeout.or(self.review_timeout);
    }
}

/// Reads `[models]`.
pub(super) fn read_models(
    table: &SettingsTable<'_>,
    node: &ConfigNode,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Vec<Model> {
    let Some(entries) = node.as_object() else {
        return report.wrong_type(node, None, "models".to_owned(), "a table").unwrap_or_default();
    };
    let read = |entry: &ConfigEntry| {
        let path = format!("models.{}", entry.key);
        let mut config: ModelConfig = typed(table, entry, &path, report)?;
        let expanded = config.expand(|setting, text| {
            let field = format!("{path}.{setting}");
            let at = &entry.node.get(setting).unwrap_or(&entry.node).at;
            let text = table.expand(text, at, &field, scope, report).ok_or(())?;
            if setting == "path" {
                // Relative ones begin beside the configuration.
                return Ok::<_, ()>(scope.path(scope.folder, text.reveal()).to_string_lossy().into_owned());
            }
            Ok(text.reveal().to_owned())
        });
        expanded.ok()?;
        if config.enabled == Some(false) {
            return None;
        }
        match config.build(&entry.key) {
            Ok(model) => Some(model),
            Err(error) => {
                let setting = error.setting.rsplit('.').next().unwrap_or_default();
                let at = &entry.node.get(setting).unwrap_or(&entry.node).at;
                table.invalid(at, &error.setting, "a valid value", format!("; {}", error.why), report)
            }
        }
    };
    entries.iter().filter_map(read).collect()
}

/// Reads `[sampling]`.
pub(super) fn read_sampling(table: &mut SettingsTable<'_>, report: &mut ConfigReport) -> ModelsConfig {
    let mut config = ModelsConfig::default();
    if let Some(entry) = table.take("review_timeout", report) {
        config.review_timeout = table.duration(entry, Duration::from_secs(1), report);
    }
    if let Some(entry) = table.take("every_server", report) {
        config.every_server = allowance(table, entry, "sampling.every_server", report);
    }
    if let Some(entry) = table.take("servers", report) {
        match entry.node.as_object() {
            Some(entries) => {
                let read = |entry: &ConfigEntry| {
                    let path = format!("sampling.servers.{}", entry.key);
                    Some((entry.key.clone(), allowance(table, entry, &path, report)?))
                };
                config.servers = entries.iter().filter_map(read).collect();
            }
            None => {
                report.wrong_type::<()>(&entry.node, None, table.field(entry), "a table");
            }
        }
    }
    table.report_unknown_keys(report);
    config
}

fn allowance(
    table: &SettingsTable<'_>,
    entry: &ConfigEntry,
    path: &str,
    report: &mut ConfigReport,
) -> Option<Allowance> {
    let config: AllowanceConfig = typed(table, entry, path, report)?;
    match config.build(path) {
        Ok(allowance) => Some(allowance),
        Err(error) => {
            table.invalid(&entry.node.at, &error.setting, "a valid value", format!("; {}", error.why), report)
        }
    }
}

/// Deserializes a table as its type. Errors name the key, never the value, which could be a secret.
fn typed<T: DeserializeOwned>(
    table: &SettingsTable<'_>,
    entry: &ConfigEntry,
    path: &str,
    report: &mut ConfigReport,
) -> Option<T> {
    let Some(entries) = entry.node.as_object() else {
        return report.wrong_type(&entry.node, None, path.to_owned(), "a table");
    };
    let all: Map<String, Json> = entries.iter().map(|entry| (entry.key.clone(), json(&entry.node))).collect();
    // Cloned, because what is wrong is tried again below, without one member at a time.
    let error = match serde_json::from_value::<T>(Json::Object(all.clone())) {
        Ok(read) => return Some(read),
        Err(error) => error.to_string(),
    };
    let is_about_a_key = ["unknown field", "missing field"].iter().any(|start| error.starts_with(start));
    // The error does not say which member it is about: it is the one without which the error changes.
    let culprit = entries.iter().find(|entry| {
        let mut others = all.clone();
        others.remove(&entry.key);
        let without = serde_json::from_value::<T>(Json::Object(others));
        without.map_or_else(|other| other.to_string() != error, |_| true)
    });
    let (at, field) = match culprit {
        Some(culprit) => (&culprit.at, format!("{path}.{}", culprit.key)),
        None => (&entry.node.at, path.to_owned()),
    };
    let hint = if is_about_a_key { format!("; {error}") } else { String::new() };
    table.invalid(at, &field, "a valid value", hint, report)
}

fn json(node: &ConfigNode) -> Json {
    match &node.value {
        ConfigValue::Null | ConfigValue::Date => Json::Null,
        ConfigValue::Boolean(value) => Json::Bool(*value),
        ConfigValue::Number(text) => {
            serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.clone()))
        }
        ConfigValue::String(text) => Json::String(text.clone()),
        ConfigValue::Array(items) => Json::Array(items.iter().map(json).collect()),
        ConfigValue::Object(entries) => {
            Json::Object(entries.iter().map(|entry| (entry.key.clone(), json(&entry.node))).collect())
        }
    }
}
