//! A policy file as tables with positions, parsed so that all mistakes are reported together.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::file::{PolicyError, PolicyMistake};
use crate::nearest::nearest;
use crate::paths::visible_line;

/// Maximum number of mistakes that are listed. Further ones are counted.
pub(crate) const MAX_MISTAKES: usize = 50;

/// Maximum number of characters of a key or value that a message repeats.
const MAX_QUOTED: usize = 80;

/// Number of known keys up to which a message lists all of them beside the one that was probably meant.
const MAX_LISTED: usize = 10;

/// Collected mistakes of a file.
pub(crate) struct MistakeReport<'t> {
    text: &'t str,
    mistakes: Vec<PolicyMistake>,
    left_out: usize,
}

impl<'t> MistakeReport<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, mistakes: Vec::new(), left_out: 0 }
    }

    /// Adds a mistake at a byte offset of the text.
    pub(crate) fn add(&mut self, at: usize, section: Option<&str>, message: impl Into<String>) {
        if self.mistakes.len() >= MAX_MISTAKES {
            self.left_out += 1;
            return;
        }
        let before = self.text.get(..at).unwrap_or(self.text);
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        self.mistakes.push(PolicyMistake {
            line: line_of(self.text, at),
            column,
            section: section.map(str::to_owned),
            message: message.into(),
        });
    }

    /// Returns the number of mistakes so far.
    pub(crate) fn count(&self) -> usize {
        self.mistakes.len() + self.left_out
    }

    /// Ends the report.
    ///
    /// # Errors
    /// If there is at least one mistake.
    pub(crate) fn finish(mut self) -> Result<(), PolicyError> {
        if self.mistakes.is_empty() {
            return Ok(());
        }
        // Found key by key, but reported in the order of the file.
        self.mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
        Err(PolicyError { mistakes: self.mistakes, left_out: self.left_out })
    }

    /// Parses the text as TOML. Syntax errors are added to the mistakes; the table then holds what could be read.
    pub(crate) fn parse(&mut self) -> Option<Spanned<DeTable<'t>>> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            let at = error.span().map_or(0, |span| span.start);
            self.add(at, None, format!("not valid TOML: {}", error.message().trim_end().replace('\n', ", ")));
        }
        // A partially parsed file would cause mistakes that the file does not have.
        errors.is_empty().then_some(table)
    }
}

/// Returns the line of a byte offset, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.get(..at).unwrap_or(text).matches('\n').count()
}

/// A table of the file that records which keys have been read.
pub(crate) struct TableSection<'a> {
    /// Name of the rule or label in messages.
    name: Option<String>,
    /// Prefix of the table's keys in messages, such as `effects.`.
    path: String,
    at: usize,
    entries: &'a DeTable<'a>,
    known: Vec<&'static str>,
}

/// One table in a list of tables.
pub(crate) struct NumberedTable<'a> {
    /// Position in the list, from 1.
    pub(crate) number: usize,
    /// Byte offset of its start.
    pub(crate) at: usize,
    pub(crate) section: TableSection<'a>,
}

/// Words for the values of a setting.
pub(crate) type KeywordTable<T> = [(&'static str, T)];

impl<'a> TableSection<'a> {
    pub(crate) fn new(name: Option<String>, at: usize, entries: &'a DeTable<'a>) -> Self {
        Self { name, path: String::new(), at, entries, known: Vec::new() }
    }

    /// Returns the value of a key and marks the key as known.
    pub(crate) fn get(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.value(key)
    }

    pub(crate) fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.entries.get(key)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Iterates over all keys and values.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Spanned<DeValue<'a>>)> + use<'a> {
        self.entries.iter().map(|(key, value)| (key.get_ref().as_ref(), value))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a mistake at a key, or at the whole table if it does not have the key.
    pub(crate) fn add_mistake_at_key(&self, key: &str, what: &str, report: &mut MistakeReport<'_>) {
        let at = self.value(key).map_or(self.at, |value| value.span().start);
        let path = visible_line(&self.path);
        report.add(at, self.name.as_deref(), format!("`{path}{}`: {what}", quoted(key)));
    }

    /// Adds a mistake at the table itself.
    pub(crate) fn add_mistake_at_table(&self, what: &str, report: &mut MistakeReport<'_>) {
        let whole = self.path.trim_end_matches('.');
        let what = if whole.is_empty() { what.to_owned() } else { format!("`{}`: {what}", quoted(whole)) };
        report.add(self.at, self.name.as_deref(), what);
    }

    fn add_type_mistake(&self, key: &str, expected: &str, report: &mut MistakeReport<'_>) {
        let found = self.value(key).map_or("nothing", |value| kind(value.get_ref()));
        self.add_mistake_at_key(key, &format!("expected {expected}, found {found}"), report);
    }

    pub(crate) fn text(&mut self, key: &'static str, report: &mut MistakeReport<'_>) -> Option<String> {
        let value = self.get(key)?.get_ref();
        if value.as_str().is_none() {
            self.add_type_mistake(key, "a quoted string", report);
        }
        value.as_str().map(str::to_owned)
    }

    pub(crate) fn boolean(&mut self, key: &'static str, report: &mut MistakeReport<'_>) -> Option<bool> {
        let value = self.get(key)?.get_ref();
        if value.as_bool().is_none() {
            self.add_type_mistake(key, "true or false", report);
        }
        value.as_bool()
    }

    /// Reads a value as JSON.
    pub(crate) fn json(
        &mut self,
        key: &'static str,
        report: &mut MistakeReport<'_>,
    ) -> Option<serde_json::Value> {
        let value = self.get(key)?.get_ref();
        json(value).map_err(|what| self.add_mistake_at_key(key, &what, report)).ok()
    }

    pub(crate) fn number(
        &mut self,
        key: &'static str,
        report: &mut MistakeReport<'_>,
    ) -> Option<serde_json::Number> {
        match self.json(key, report)? {
            serde_json::Value::Number(number) => Some(number),
            _ => {
                self.add_type_mistake(key, "a number", report);
                None
            }
        }
    }

    /// Reads a non-negative integer.
    pub(crate) fn count(&mut self, key: &'static str, report: &mut MistakeReport<'_>) -> Option<usize> {
        let number = self.number(key, report)?.as_u64().and_then(|number| usize::try_from(number).ok());
        if number.is_none() {
            self.add_mistake_at_key(key, "expected a non-negative integer", report);
        }
        number
    }

    /// Reads a string or a non-empty list of strings.
    pub(crate) fn texts(&mut self, key: &'static str, report: &mut MistakeReport<'_>) -> Option<Vec<String>> {
        let value = self.get(key)?;
        let texts = texts(value.get_ref());
        match &texts {
            None => self.add_type_mistake(key, "a quoted string, or a list of them", report),
            Some(texts) if texts.is_empty() => {
                self.add_mistake_at_key(
                    key,
                    "an empty list matches nothing; remove the key to match everything",
                    report,
                );
            }
            Some(_) => (),
        }
        texts.filter(|texts| !texts.is_empty())
    }

    /// Reads a string or a list of strings, which may be empty.
    pub(crate) fn names(&mut self, key: &'static str, report: &mut MistakeReport<'_>) -> Option<Vec<String>> {
        let names = texts(self.get(key)?.get_ref());
        if names.is_none() {
            self.add_type_mistake(key, "a list of strings such as `[\"git\"]`", report);
        }
        names
    }

    /// Reads a string or a list of strings and converts each with a function whose errors are mistakes of the key.
    pub(crate) fn read<T>(
        &mut self,
        key: &'static str,
        report: &mut MistakeReport<'_>,
        make: impl FnOnce(&[String]) -> Result<T, String>,
    ) -> Option<T> {
        let texts = self.texts(key, report)?;
        make(&texts).map_err(|what| self.add_mistake_at_key(key, &what, report)).ok()
    }

    /// Reads one of the words of a setting.
    pub(crate) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &KeywordTable<T>,
        report: &mut MistakeReport<'_>,
    ) -> Option<T> {
        let value = self.get(key)?.get_ref();
        let Some(text) = value.as_str() else {
            self.add_type_mistake(key, &format!("one of {}", listed(words)), report);
            return None;
        };
        self.one_of(key, text, words, report)
    }

    /// Reads one or more of the words of a setting.
    pub(crate) fn words<T: Copy>(
        &mut self,
        key: &'static str,
        words: &KeywordTable<T>,
        report: &mut MistakeReport<'_>,
    ) -> Option<Vec<T>> {
        let texts = self.texts(key, report)?;
        // In two steps, because collecting into an `Option` directly would stop at the first wrong word.
        let found: Vec<Option<T>> = texts.iter().map(|text| self.one_of(key, text, words, report)).collect();
        found.into_iter().collect()
    }

    fn one_of<T: Copy>(
        &self,
        key: &str,
        text: &str,
        words: &KeywordTable<T>,
        report: &mut MistakeReport<'_>,
    ) -> Option<T> {
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let meant = did_you_mean(text, words.iter().map(|(word, _)| *word));
            let then = if meant.is_empty() { "; expected" } else { " Expected" };
            let what = format!("unknown value `{}`{meant}{then} one of {}", quoted(text), listed(words));
            self.add_mistake_at_key(key, &what, report);
        }
        found
    }

    /// Reads a table under a key. `expected` describes the table for messages.
    pub(crate) fn table(
        &mut self,
        key: &'static str,
        expected: &str,
        report: &mut MistakeReport<'_>,
    ) -> Option<Self> {
        let value = self.get(key)?;
        let Some(entries) = value.get_ref().as_table() else {
            self.add_type_mistake(key, expected, report);
            return None;
        };
        Some(self.inner(key, value.span().start, entries))
    }

    /// Returns a table under a key of this one.
    pub(crate) fn inner(&self, key: &str, at: usize, entries: &'a DeTable<'a>) -> Self {
        let path = format!("{}{key}.", self.path);
        Self { name: self.name.clone(), path, at, entries, known: Vec::new() }
    }

    /// Reads a list of tables under a key, numbered from 1. Messages use `name` for each.
    pub(crate) fn tables(
        &mut self,
        key: &'static str,
        report: &mut MistakeReport<'_>,
    ) -> Vec<NumberedTable<'a>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let Some(items) = value.get_ref().as_array() else {
            let form = format!("expected a list of tables, each below a line `[[{key}]]`, found");
            self.add_mistake_at_key(key, &format!("{form} {}", kind(value.get_ref())), report);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let number = index + 1;
            match item.get_ref().as_table() {
                Some(entries) => {
                    let name = Some(format!("{key} {number}"));
                    let at = item.span().start;
                    tables.push(NumberedTable { number, at, section: TableSection::new(name, at, entries) });
                }
                None => self.add_type_mistake(key, &format!("a list of tables (`[[{key}]]`)"), report),
            }
        }
        tables
    }

    /// Adds a mistake if more than one of these keys is present; a rule or label can have only one of them.
    pub(crate) fn reject_combination(&self, keys: &[&str], what: &str, report: &mut MistakeReport<'_>) {
        let mut there = keys.iter().filter(|key| self.has(key));
        let Some(first) = there.next() else { return };
        for second in there {
            let message = format!(
                "a {what} is about one of a tool, a prompt or a resource, and this one already has `{first}`; write a \
                 separate {what} for each"
            );
            self.add_mistake_at_key(second, &message, report);
        }
    }

    /// Adds a mistake for each key that was not read. `elsewhere` lists keys of other tables and where they belong.
    pub(crate) fn reject_unknown_keys(
        &self,
        elsewhere: &[(&'static str, &str)],
        report: &mut MistakeReport<'_>,
    ) {
        let unknown = self.entries.iter().filter(|(key, _)| !self.known.contains(&key.get_ref().as_ref()));
        for (key, _) in unknown {
            let name = key.get_ref().as_ref();
            let meant = nearest(name, self.known.iter().copied());
            let misplaced = elsewhere.iter().find(|(key, _)| *key == name);
            let hint = match (misplaced, meant) {
                // TOML parses `arguments.a.b = …` as nested tables.
                (None, None) if self.path.starts_with("arguments.") => {
                    let path = quoted(&format!("{}{name}", &self.path["arguments.".len()..]));
                    format!("; to reach inside an argument, quote its path: `arguments.\"{path}\"`")
                }
                (Some((_, place)), _) => format!("; it belongs {place}"),
                (None, Some(meant)) => format!("; did you mean `{meant}`?"),
                (None, None) => String::new(),
            };
            let is_short = self.known.len() <= MAX_LISTED;
            let list = if misplaced.is_none() && (is_short || meant.is_none()) {
                let known: Vec<String> = self.known.iter().map(|key| format!("`{key}`")).collect();
                let before = if meant.is_some() { " Known" } else { "; known" };
                format!("{before} here: {}", known.join(", "))
            } else {
                String::new()
            };
            let path = visible_line(&self.path);
            let message = format!("unknown key `{path}{}`{hint}{list}", quoted(name));
            report.add(key.span().start, self.name.as_deref(), message);
        }
    }
}

/// Returns the strings of a string or a list of strings.
pub(crate) fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    match value {
        DeValue::String(text) => Some(vec![text.to_string()]),
        DeValue::Array(items) => {
            items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect()
        }
        _ => None,
    }
}

/// Returns the type of a value, for messages.
pub(crate) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(true) => "true",
        DeValue::Boolean(false) => "false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// Converts a value of the file to JSON.
///
/// # Errors
/// If JSON has no such value. The error completes a sentence.
pub(crate) fn json(value: &DeValue<'_>) -> Result<serde_json::Value, String> {
    let too_large = || "a number of this size is not supported".to_owned();
    Ok(match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => {
            let signed = i64::from_str_radix(number.as_str(), number.radix()).map(serde_json::Value::from);
            let unsigned = || u64::from_str_radix(number.as_str(), number.radix()).map(Into::into);
            signed.or_else(|_| unsigned()).map_err(|_| too_large())?
        }
        DeValue::Float(number) => {
            let number: f64 = number.as_str().parse().map_err(|_| too_large())?;
            let number = serde_json::Number::from_f64(number);
            number.ok_or_else(|| "`inf` and `nan` are not JSON numbers".to_owned())?.into()
        }
        DeValue::Boolean(truth) => (*truth).into(),
        DeValue::Datetime(_) => return Err("a date is not a JSON value; write it as a string".to_owned()),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect::<Result<_, _>>()?,
        DeValue::Table(entries) => {
            let entries = entries
                .iter()
                .map(|(key, value)| json(value.get_ref()).map(|value| (key.get_ref().to_string(), value)));
            serde_json::Value::Object(entries.collect::<Result<_, _>>()?)
        }
    })
}

/// Returns "; did you mean …?", or an empty string.
pub(crate) fn did_you_mean<'k>(asked: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(asked, known).map(|meant| format!("; did you mean `{}`?", quoted(meant))).unwrap_or_default()
}

/// Quotes a key or value of the file for a message.
pub(crate) fn quoted(text: &str) -> String {
    let shown = visible_line(text);
    match shown.char_indices().nth(MAX_QUOTED) {
        Some((at, _)) => format!("{}…", &shown[..at]),
        None => shown,
    }
}

fn listed<T>(words: &KeywordTable<T>) -> String {
    words.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
