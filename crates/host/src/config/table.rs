//! Reader of a table of settings, which checks that each key occurs once and has the right type.

use std::time::Duration;

use super::argument_check::ArgumentCheck;
use super::auto_update::AutoUpdate;
use super::document::{ConfigEntry, ConfigNode, ConfigValue};
use super::error::{ConfigError, ConfigSource, ConfigWarning, SettingPath};
use super::expand::{ExpandError, ExpansionScope};
use super::keys::{KeyTable, KeyType};
use super::nearest::{hint, misspelt_key};
use super::pins::PinMode;
use super::placement::ServerPlacement;
use super::secret::ExpandedText;

/// Errors and warnings that are found while reading.
#[derive(Debug, Default)]
pub(super) struct ConfigReport {
    pub(super) errors: Vec<ConfigError>,
    pub(super) warnings: Vec<ConfigWarning>,
}

/// A table of settings, remembering which keys were read.
pub(super) struct SettingsTable<'n> {
    pub(super) server: Option<&'n str>,
    entries: &'n [ConfigEntry],
    read: Vec<bool>,
    /// Prefix of keys in messages: `endpoint.`.
    path: String,
    keys: &'static KeyTable,
    /// False in the files of other applications, which have spellings of their own.
    pub(super) is_own: bool,
}

impl<'n> SettingsTable<'n> {
    /// Returns the table, unless the value has another type.
    pub(super) fn new(
        node: &'n ConfigNode,
        server: Option<&'n str>,
        keys: &'static KeyTable,
        path: &str,
        report: &mut ConfigReport,
    ) -> Option<Self> {
        let Some(entries) = node.as_object() else {
            let field = path.trim_end_matches('.').to_owned();
            return report.wrong_type(node, server, field, "a table");
        };
        let read = vec![false; entries.len()];
        Some(Self { server, entries, read, path: path.to_owned(), keys, is_own: true })
    }

    /// Returns the spellings of a key in this file.
    pub(super) fn spellings(&self, key: &str) -> &'static [&'static str] {
        let found = self.keys.key(key);
        debug_assert!(found.is_some(), "`{key}` has no row in `config/keys.rs`");
        match found {
            Some(key) if !self.is_own => key.foreign,
            Some(key) if key.is_own => std::slice::from_ref(&key.name),
            _ => &[],
        }
    }

    /// Takes the entry under one of the spellings of a key.
    pub(super) fn take(&mut self, key: &'static str, report: &mut ConfigReport) -> Option<&'n ConfigEntry> {
        self.take_spelled(key, self.spellings(key), report)
    }

    /// Takes the entry under one of some spellings of a key.
    pub(super) fn take_spelled(
        &mut self,
        key: &'static str,
        spellings: &[&'static str],
        report: &mut ConfigReport,
    ) -> Option<&'n ConfigEntry> {
        #[cfg(test)]
        super::keys::record_read(self.keys.path, key);
        debug_assert!(self.keys.key(key).is_some(), "`{key}` has no row in `config/keys.rs`");
        let entries = self.entries;
        let mut found: Option<&'n ConfigEntry> = None;
        for (index, entry) in entries.iter().enumerate() {
            if !spellings.contains(&entry.key.as_str()) {
                continue;
            }
            // A second one, too: it is reported as repeated and must not be reported as unknown besides.
            self.read[index] = true;
            match found {
                None => found = Some(entry),
                Some(first) => report.report_repeated_key(entry, self.server, self.field(entry), first),
            }
        }
        found
    }

    /// Reads a table under a key.
    pub(super) fn table(
        &mut self,
        key: &'static str,
        keys: &'static KeyTable,
        report: &mut ConfigReport,
    ) -> Option<Self> {
        let entry = self.take(key, report)?;
        let path = format!("{}{key}.", self.path);
        Self::new(&entry.node, self.server, keys, &path, report)
    }

    /// Returns the entry under a key without marking it as read.
    pub(super) fn entry(&self, key: &str) -> Option<&'n ConfigEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Returns true if there is an entry under a key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Returns the entries that have not been read.
    pub(super) fn unread(&self) -> impl Iterator<Item = &'n ConfigEntry> {
        let entries = self.entries;
        entries.iter().zip(self.read.clone()).filter(|(_, read)| !read).map(|(entry, _)| entry)
    }

    /// Reports the entries with unknown keys as mistakes.
    pub(super) fn report_unknown_keys(&self, report: &mut ConfigReport) {
        let known: Vec<&str> = self.keys.own_names().collect();
        for entry in self.unread().filter(|entry| !known.contains(&entry.key.as_str())) {
            let mut hint = hint(&entry.key, known.iter().copied());
            if hint.is_empty() && !known.is_empty() {
                hint = format!("; known keys: {}", known.join(", "));
            }
            report.errors.push(ConfigError::UnknownKey {
                at: entry.at.clone(),
                place: self.place(&entry.key),
                hint,
            });
        }
    }

    /// Returns a hint with the known spelling that an unread key was most likely meant to be.
    pub(super) fn suggest_key(&self, wanted: &[&'static str]) -> String {
        self.unread()
            .find_map(|entry| {
                let meant = misspelt_key(&entry.key, wanted.iter().copied())?;
                Some(format!("; did you mean `{meant}` by `{}`?", entry.key))
            })
            .unwrap_or_default()
    }

    pub(super) fn place(&self, field: &str) -> SettingPath {
        SettingPath { server: self.server.map(str::to_owned), field: format!("{}{field}", self.path) }
    }

    pub(super) fn boolean(&mut self, key: &'static str, report: &mut ConfigReport) -> Option<bool> {
        self.check_type(key, KeyType::Boolean);
        let entry = self.take(key, report)?;
        match entry.node.value {
            ConfigValue::Boolean(value) => Some(value),
            _ => report.wrong_type(&entry.node, self.server, self.field(entry), "true or false"),
        }
    }

    /// Reads a positive integer.
    pub(super) fn count(&mut self, key: &'static str, report: &mut ConfigReport) -> Option<usize> {
        self.check_type(key, KeyType::Count);
        let entry = self.take(key, report)?;
        let ConfigValue::Number(number) = &entry.node.value else {
            return report.wrong_type(&entry.node, self.server, self.field(entry), "a number");
        };
        match number.parse::<usize>().ok().filter(|count| *count > 0) {
            Some(count) => Some(count),
            None => self.invalid(&entry.node.at, &self.field(entry), "a whole number above zero", "", report),
        }
    }

    /// Reads the pin mode.
    pub(super) fn pins(&mut self, report: &mut ConfigReport) -> Option<PinMode> {
        let entry = self.take("pins", report)?;
        let text = entry.node.as_str().unwrap_or_default();
        PinMode::read(text).or_else(|| {
            let hint = hint(text, PinMode::ALL.map(PinMode::as_str));
            self.invalid(
                &entry.node.at,
                &self.field(entry),
                "\"ask\", \"first-use\" or \"off\"",
                hint,
                report,
            )
        })
    }

    /// Reads the strictness of argument checks.
    pub(super) fn check_arguments(&mut self, report: &mut ConfigReport) -> Option<ArgumentCheck> {
        let entry = self.take("check_arguments", report)?;
        let text = entry.node.as_str().unwrap_or_default();
        ArgumentCheck::read(text).or_else(|| {
            let hint = hint(text, ArgumentCheck::ALL.map(ArgumentCheck::as_str));
            let expected = "\"strict\", \"lax\" or \"off\"";
            self.invalid(&entry.node.at, &self.field(entry), expected, hint, report)
        })
    }

    /// Reads which updates are made without a person.
    pub(super) fn auto_update(&mut self, report: &mut ConfigReport) -> Option<AutoUpdate> {
        let entry = self.take("auto_update", report)?;
        let text = entry.node.as_str().unwrap_or_default();
        AutoUpdate::read(text).or_else(|| {
            let hint = hint(text, AutoUpdate::ALL.map(AutoUpdate::as_str));
            self.invalid(&entry.node.at, &self.field(entry), "\"off\" or \"patch\"", hint, report)
        })
    }

    pub(super) fn placement(&mut self, report: &mut ConfigReport) -> Option<ServerPlacement> {
        let entry = self.take("placement", report)?;
        let text = entry.node.as_str().unwrap_or_default();
        ServerPlacement::read(text).or_else(|| {
            let hint = hint(text, ServerPlacement::ALL.map(ServerPlacement::as_str));
            let expected = "\"any\", \"per-user\" or \"one\"";
            self.invalid(&entry.node.at, &self.field(entry), expected, hint, report)
        })
    }

    /// Reads an interval: a duration, `true` for the default, or `false` for never, which is zero.
    pub(super) fn interval(
        &mut self,
        key: &'static str,
        usual: Duration,
        report: &mut ConfigReport,
    ) -> Option<Duration> {
        self.check_type(key, KeyType::Interval);
        let entry = self.take(key, report)?;
        match &entry.node.value {
            ConfigValue::Boolean(false) => Some(Duration::ZERO),
            ConfigValue::Boolean(true) => Some(usual),
            _ => {
                let expected = "a time above zero such as \"30s\" or \"2m\", or false for never";
                self.time(entry, Duration::from_secs(1), expected, report)
            }
        }
    }

    /// Reads an array of strings.
    pub(super) fn strings(&mut self, key: &'static str, report: &mut ConfigReport) -> Option<Vec<String>> {
        self.check_type(key, KeyType::Texts);
        let entry = self.take(key, report)?;
        self.owned_texts(entry, report)
    }

    /// Returns the strings of an array.
    pub(super) fn owned_texts(
        &self,
        entry: &'n ConfigEntry,
        report: &mut ConfigReport,
    ) -> Option<Vec<String>> {
        let texts = self.texts(entry, report)?;
        Some(texts.into_iter().map(|(text, _)| text.to_owned()).collect())
    }

    /// Checks that a key is documented with the type that it is read as.
    fn check_type(&self, key: &str, value: KeyType) {
        debug_assert!(
            self.keys.key(key).is_none_or(|key| key.value == value),
            "`{key}` has another type in `config/keys.rs`"
        );
    }

    /// Returns the strings of an array with their locations.
    pub(super) fn texts(
        &self,
        entry: &'n ConfigEntry,
        report: &mut ConfigReport,
    ) -> Option<Vec<(&'n str, &'n ConfigSource)>> {
        let items = self.items(entry, report)?;
        let mut texts = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match item.as_str() {
                Some(text) => texts.push((text, &item.at)),
                None => {
                    let field = format!("{}[{index}]", self.field(entry));
                    report.wrong_type(item, self.server, field, "a string")
                }?,
            }
        }
        Some(texts)
    }

    pub(super) fn items(
        &self,
        entry: &'n ConfigEntry,
        report: &mut ConfigReport,
    ) -> Option<&'n [ConfigNode]> {
        match &entry.node.value {
            ConfigValue::Array(items) => Some(items),
            _ => report.wrong_type(&entry.node, self.server, self.field(entry), "an array"),
        }
    }

    pub(super) fn field(&self, entry: &ConfigEntry) -> String {
        format!("{}{}", self.path, entry.key)
    }

    /// Expands a scalar. Numbers and booleans are used as written.
    pub(super) fn expanded(
        &self,
        node: &ConfigNode,
        field: &str,
        scope: &ExpansionScope<'_>,
        report: &mut ConfigReport,
    ) -> Option<ExpandedText> {
        match &node.value {
            ConfigValue::String(text) => self.expand(text, &node.at, field, scope, report),
            ConfigValue::Number(text) => Some(ExpandedText::literal(text)),
            ConfigValue::Boolean(value) => Some(ExpandedText::literal(value.to_string())),
            _ => report.wrong_type(node, self.server, field.to_owned(), "a string"),
        }
    }

    pub(super) fn expand(
        &self,
        text: &str,
        at: &ConfigSource,
        field: &str,
        scope: &ExpansionScope<'_>,
        report: &mut ConfigReport,
    ) -> Option<ExpandedText> {
        let place = SettingPath { server: self.server.map(str::to_owned), field: field.to_owned() };
        let at = at.clone();
        let failure = match scope.expand(text) {
            Ok(outcome) => {
                for left in outcome.left {
                    report.warnings.push(ConfigWarning {
                        at: at.clone(),
                        server: place.server.clone(),
                        message: format!("`{left}` in `{field}` is passed through unchanged"),
                    });
                }
                return Some(outcome.text);
            }
            Err(failure) => failure,
        };
        report.errors.push(match failure {
            ExpandError::Unset(variable) => ConfigError::Unset { at, place, variable },
            ExpandError::Input { id, description, variable } => {
                ConfigError::Input { at, place, id, description, variable }
            }
            ExpandError::Malformed { expected, start } => {
                ConfigError::Reference { at, place, expected, start }
            }
            ExpandError::Command { shown } => ConfigError::Command { at, place, command: shown },
            ExpandError::Secret { name, why } => ConfigError::Secret { at, place, name, why },
            ExpandError::File(file, source) => ConfigError::File { at, place, file, source },
        });
        None
    }

    pub(super) fn invalid<T>(
        &self,
        at: &ConfigSource,
        field: &str,
        expected: impl Into<String>,
        hint: impl Into<String>,
        report: &mut ConfigReport,
    ) -> Option<T> {
        let place = SettingPath { server: self.server.map(str::to_owned), field: field.to_owned() };
        report.errors.push(ConfigError::Invalid {
            at: at.clone(),
            place,
            expected: expected.into(),
            hint: hint.into(),
        });
        None
    }

    /// Reads a duration: a number in `unit`s, or text such as `90s`, `500ms`, `1m30s`.
    pub(super) fn duration(
        &self,
        entry: &ConfigEntry,
        unit: Duration,
        report: &mut ConfigReport,
    ) -> Option<Duration> {
        let expected = "a time above zero such as \"500ms\", \"30s\", \"2m\" or \"1h\"";
        self.time(entry, unit, expected, report)
    }

    fn time(
        &self,
        entry: &ConfigEntry,
        unit: Duration,
        expected: &'static str,
        report: &mut ConfigReport,
    ) -> Option<Duration> {
        let seconds = match &entry.node.value {
            ConfigValue::Number(number) => {
                number.parse::<f64>().ok().map(|number| number * unit.as_secs_f64())
            }
            ConfigValue::String(text) => parse_duration(text),
            _ => {
                return report.wrong_type(
                    &entry.node,
                    self.server,
                    self.field(entry),
                    "a number or a string such as \"30s\"",
                );
            }
        };
        // NaN is not above zero, and what is too long is refused by the conversion.
        match seconds.filter(|seconds| *seconds > 0.0).and_then(|s| Duration::try_from_secs_f64(s).ok()) {
            Some(duration) => Some(duration),
            None => self.invalid(&entry.node.at, &self.field(entry), expected, "", report),
        }
    }
}

impl ConfigReport {
    pub(super) fn wrong_type<T>(
        &mut self,
        node: &ConfigNode,
        server: Option<&str>,
        field: String,
        expected: &'static str,
    ) -> Option<T> {
        self.errors.push(ConfigError::WrongType {
            at: node.at.clone(),
            place: SettingPath { server: server.map(str::to_owned), field },
            expected,
            found: node.kind(),
        });
        None
    }

    /// Reports a key that occurs twice, possibly in two spellings.
    pub(super) fn report_repeated_key(
        &mut self,
        second: &ConfigEntry,
        server: Option<&str>,
        field: String,
        first: &ConfigEntry,
    ) {
        self.errors.push(ConfigError::Repeated {
            at: second.at.clone(),
            place: SettingPath { server: server.map(str::to_owned), field },
            first: first.at.line(),
        });
    }

    pub(super) fn warn(&mut self, at: &ConfigSource, server: Option<&str>, message: impl Into<String>) {
        self.warnings.push(ConfigWarning {
            at: at.clone(),
            server: server.map(str::to_owned),
            message: message.into(),
        });
    }
}

/// Seconds in a text such as `1m30s`.
pub(super) fn parse_duration(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    let mut seconds = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        // Without a unit there is nothing after the digits, and the text is refused.
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let factor = match &rest[..letters] {
            "ms" => 0.001,
            "s" | "sec" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        seconds += number * factor;
        rest = rest[letters..].trim_start();
    }
    Some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_words() {
        for (text, expected) in [
            ("500ms", Some(0.5)),
            ("30s", Some(30.0)),
            ("1m30s", Some(90.0)),
            ("1.5h", Some(5400.0)),
            (" 2 m", None),
            ("1h 5m", Some(3900.0)),
            ("30", None),
            ("", None),
            ("s", None),
            ("1d", None),
            ("-1s", None),
            ("1..2s", None),
        ] {
            assert_eq!(parse_duration(text), expected, "{text}");
        }
    }
}
