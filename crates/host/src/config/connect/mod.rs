//! Entry of Hospes in the configuration file of an application.
//!
//! An entry is inserted as one [`EntrySplice`]: an offset and text. Everything else of the file stays as it is. The result
//! is parsed again and must be the old document with the entry and nothing else; otherwise the file is left alone.

mod compare;
mod json;
mod own_parser;
mod shared_files;
mod toml_text;
mod yaml_text;

#[cfg(test)]
mod edit_tests;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::compare::{is_empty, is_same, is_value, prune};
pub use self::own_parser::check_own_parser;
pub use self::shared_files::application_in_form;
use self::shared_files::shape_in;
use super::applications::{Application, EntryShape, FileFormat, ServerListing};
use super::document::{self, ConfigFormat, ConfigNode, ConfigValue, EMPTY_DOCUMENT};
use super::error::ConfigError;
use super::export::{command_members, with_name};
use super::export_value::{ExportMembers, ExportValue, toml_text};

/// Name of the entry.
pub const ENTRY_NAME: &str = "hospes";

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// An insertion into a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EntrySplice {
    /// Offset in bytes.
    pub offset: usize,
    /// Text at the offset that is replaced. Empty, unless a `null` makes room for the entry.
    pub removed: String,
    /// Text that is inserted.
    pub inserted: String,
}

impl EntrySplice {
    fn insertion(offset: usize, inserted: String) -> Self {
        Self { offset, removed: String::new(), inserted }
    }

    /// Returns the splice that makes one text of another. It replaces whole lines, so that no value is shown in part.
    #[must_use]
    pub fn between(before: &str, after: &str) -> Self {
        let (mut old, mut new) = (before, after);
        let mut offset = 0;
        while let (Some(one), Some(two)) =
            (old.split_inclusive('\n').next(), new.split_inclusive('\n').next())
            && one == two
        {
            offset += one.len();
            (old, new) = (&old[one.len()..], &new[two.len()..]);
        }
        while let (Some(one), Some(two)) =
            (old.split_inclusive('\n').next_back(), new.split_inclusive('\n').next_back())
            && one == two
        {
            (old, new) = (&old[..old.len() - one.len()], &new[..new.len() - two.len()]);
        }
        Self { offset, removed: old.to_owned(), inserted: new.to_owned() }
    }

    /// Applies the splice. `None` if it does not fit the text.
    #[must_use]
    pub fn apply(&self, text: &str) -> Option<String> {
        let (before, after) = text.split_at_checked(self.offset)?;
        let after = after.strip_prefix(self.removed.as_str())?;
        Some([before, &self.inserted, after].concat())
    }

    /// Cuts the inserted text out of a text, wherever it is. `None` unless it occurs exactly once.
    #[must_use]
    pub fn cut(&self, text: &str) -> Option<String> {
        let (before, after) = text.split_once(self.inserted.as_str())?;
        // Overlapping occurrences count, too.
        let mut rest = text.get(before.len()..)?.chars();
        rest.next()?;
        if rest.as_str().contains(self.inserted.as_str()) {
            return None;
        }
        Some([before, &self.removed, after].concat())
    }
}

/// Presence of the entry in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryState {
    /// The file has no server of the name.
    Absent,
    /// The file has the entry.
    Present,
    /// The file has another server of the name, or several.
    Different,
}

/// Error of a change of an application's file. The file is left alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditEntryError {
    /// The file cannot be parsed.
    #[error("{reason}")]
    Invalid {
        /// Reason, with the location.
        reason: String,
    },
    /// The file has comments or trailing commas, which the application's own parser refuses.
    #[error("{reason}")]
    Extended {
        /// Reason, with the location.
        reason: String,
    },
    /// The entry cannot be added or removed without changing something else.
    #[error("{reason}")]
    Unsupported {
        /// Reason.
        reason: String,
    },
}

fn unsupported(reason: impl Into<String>) -> EditEntryError {
    EditEntryError::Unsupported { reason: reason.into() }
}

/// Entry of Hospes in the form of an application.
#[derive(Clone, Debug)]
pub struct ApplicationEntry {
    shape: &'static EntryShape,
    members: ExportMembers,
}

impl ApplicationEntry {
    /// Creates the entry of a program with arguments. `text` is the file: OpenCode 1 and 2 have the same files, and an
    /// existing one determines the form.
    #[must_use]
    pub fn new(application: &'static Application, text: &str, program: &Path, args: &[&str]) -> Self {
        let shape = shape_in(application, text);
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        Self::of_members(shape, command_members(&shape.stdio, &program.to_string_lossy(), args))
    }

    /// Creates the entry of a URL, with a bearer token if one is needed. `None` if the application's file cannot name a
    /// URL.
    #[must_use]
    pub fn http(
        application: &'static Application,
        text: &str,
        url: &str,
        token: Option<&str>,
    ) -> Option<Self> {
        let shape = shape_in(application, text);
        let http = shape.http.as_ref()?;
        let mut members = Vec::new();
        if let Some(kind) = http.kind {
            members.push(("type".to_owned(), ExportValue::text(kind)));
        }
        members.push((http.url.to_owned(), ExportValue::text(url)));
        if let Some(token) = token {
            let value = ExportValue::text(&format!("Bearer {token}"));
            let headers = ExportValue::Object(vec![("Authorization".to_owned(), value)]);
            let (first, rest) = http.headers.split_first()?;
            members.push(((*first).to_owned(), nested(rest, headers)));
        }
        Some(Self::of_members(shape, members))
    }

    fn of_members(shape: &'static EntryShape, mut members: ExportMembers) -> Self {
        for (key, value) in shape.required {
            members.push(((*key).to_owned(), value.written()));
        }
        if shape.listing != ServerListing::Object {
            members = with_name(ENTRY_NAME, members);
        }
        Self { shape, members }
    }

    /// Returns the entry as a file of its own, to add by hand.
    #[must_use]
    pub fn snippet(&self) -> String {
        self.new_text("\n", "")
    }

    /// Returns true if a text can be parsed and has no value, such as one that is about to be written.
    #[must_use]
    pub fn has_no_value(&self, file: &Path, text: &str) -> bool {
        matches!(self.parse(file, text), Ok(None))
    }

    /// Determines if the file has the entry.
    ///
    /// # Errors
    /// If the file cannot be parsed.
    pub fn state(&self, file: &Path, text: &str) -> Result<EntryState, EditEntryError> {
        let Some(mut root) = self.parse(file, text)? else { return Ok(EntryState::Absent) };
        if self.count(&root) > 1 {
            return Ok(EntryState::Different);
        }
        Ok(match self.take(&mut root) {
            None => EntryState::Absent,
            Some(found) if is_value(&found, &ExportValue::Object(self.members.clone())) => {
                EntryState::Present
            }
            Some(_) => EntryState::Different,
        })
    }

    /// Finds the insertion that adds the entry. An absent file is an empty text.
    ///
    /// # Errors
    /// If the file cannot be parsed, or the result would not be the old document with the entry.
    pub fn insertion(&self, file: &Path, text: &str) -> Result<EntrySplice, EditEntryError> {
        let old = self.parse(file, text)?;
        let (mark, body) = split_mark(text);
        let entry = ExportValue::Object(self.members.clone());
        let candidates = match (&old, self.shape.format) {
            (None, _) => {
                let line_break = line_break(body);
                let begin = if body.is_empty() || body.ends_with('\n') { "" } else { line_break };
                vec![EntrySplice::insertion(body.len(), self.new_text(line_break, begin))]
            }
            (Some(_), FileFormat::Json) => {
                vec![json::insertion(body, self.shape.key, &entry).map_err(unsupported)?]
            }
            (Some(_), FileFormat::Toml) => {
                toml_text::insertions(body, self.shape.key, &entry).map_err(unsupported)?
            }
            (Some(root), FileFormat::Yaml) => {
                yaml_text::insertions(body, root, self.shape, &entry).map_err(unsupported)?
            }
        };
        let mut problem = unsupported("the file would be read differently");
        for mut splice in candidates {
            splice.offset += mark.len();
            let Some(new) = splice.apply(text) else { continue };
            match self.check(file, old.as_ref(), &new, true) {
                Ok(()) => return Ok(splice),
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    /// Removes the recorded insertion from a text that was changed since, and nothing else. `None` if the insertion is not
    /// there as it was made.
    #[must_use]
    pub fn cut(&self, file: &Path, text: &str, splice: &EntrySplice) -> Option<String> {
        let new = splice.cut(text)?;
        // All that had a value was inserted, together with what a new file begins with.
        if matches!(self.parse(file, &new), Ok(None)) {
            return Some(new);
        }
        let mut root = self.parse(file, text).ok()??;
        self.take(&mut root)?;
        self.take_preamble(file, splice, &mut root);
        self.check(file, Some(&root), &new, false).ok()?;
        Some(new)
    }

    /// Removes the entry in whatever form it is written, with its comma.
    ///
    /// # Errors
    /// If the file cannot be parsed, or the result would not be the old document without the entry.
    pub fn removal(&self, file: &Path, text: &str) -> Result<String, EditEntryError> {
        let mut root = self.parse(file, text)?.ok_or_else(|| unsupported("the entry is not there"))?;
        let (mark, body) = split_mark(text);
        let removed = match self.shape.format {
            FileFormat::Json => json::removal(body, self.shape.key),
            FileFormat::Toml => toml_text::removal(body, self.shape.key),
            FileFormat::Yaml => yaml_text::removal(body, &root, self.shape),
        };
        let new = format!("{mark}{}", removed.map_err(unsupported)?);
        self.take(&mut root).ok_or_else(|| unsupported("the entry is not there exactly once"))?;
        self.check(file, Some(&root), &new, false)?;
        Ok(new)
    }

    /// Returns true if a text has nothing but an empty table of servers, as a file that was created for the entry and lost
    /// it again.
    #[must_use]
    pub fn is_blank(&self, text: &str) -> bool {
        let squeeze = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>();
        let left = squeeze(split_mark(text).1);
        let with_preamble = |text: &str| squeeze(&format!("{}{text}", self.shape.preamble));
        let mut empty = vec![String::new(), with_preamble("")];
        match self.shape.format {
            FileFormat::Json => {
                let mut object = "{}".to_owned();
                empty.push(object.clone());
                for key in self.shape.key.iter().rev() {
                    object = format!("{{\"{key}\":{object}}}");
                    empty.push(object.clone());
                }
            }
            FileFormat::Yaml => empty.push(with_preamble(&format!("{}:", self.shape.key.join(":")))),
            FileFormat::Toml => {}
        }
        empty.contains(&left)
    }

    /// Writes a file with the entry and nothing else.
    fn new_text(&self, line_break: &str, begin: &str) -> String {
        let entry = ExportValue::Object(self.members.clone());
        let servers = match self.shape.listing {
            ServerListing::List => ExportValue::List(vec![entry]),
            ServerListing::Object | ServerListing::NamedObject => {
                ExportValue::Object(vec![(ENTRY_NAME.to_owned(), entry)])
            }
        };
        let root = nested(self.shape.key, servers);
        let text = match self.shape.format {
            FileFormat::Json => format!("{}\n", json::pretty(&root, "", "  ", "\n")),
            FileFormat::Yaml => format!("{}{}", self.shape.preamble, root.yaml(0)),
            FileFormat::Toml => toml_text(&root, self.shape.key),
        };
        format!("{begin}{}", text.replace('\n', line_break))
    }

    /// Parses a file. `None` if it holds no value.
    fn parse(&self, file: &Path, text: &str) -> Result<Option<ConfigNode>, EditEntryError> {
        let format = match self.shape.format {
            FileFormat::Json => ConfigFormat::Json,
            FileFormat::Toml => ConfigFormat::Toml,
            FileFormat::Yaml => ConfigFormat::Yaml,
        };
        match document::parse(&Arc::from(file), format, text) {
            Ok(root) => Ok(Some(root)),
            Err(error) => match *error {
                ConfigError::Syntax { message, .. } if message == EMPTY_DOCUMENT => Ok(None),
                error => Err(EditEntryError::Invalid { reason: error.to_string() }),
            },
        }
    }

    /// Returns the number of entries of the name.
    fn count(&self, root: &ConfigNode) -> usize {
        let servers = self.shape.key.iter().try_fold(root, |node, key| node.get(key));
        match servers.map(|servers| &servers.value) {
            Some(ConfigValue::Object(entries)) => {
                entries.iter().filter(|entry| entry.key == ENTRY_NAME).count()
            }
            Some(ConfigValue::Array(items)) => {
                let is_entry =
                    |item: &&ConfigNode| item.get("name").and_then(ConfigNode::as_str) == Some(ENTRY_NAME);
                items.iter().filter(is_entry).count()
            }
            _ => 0,
        }
    }

    /// Removes the entry from a document and returns it. `None` unless there is exactly one.
    fn take(&self, root: &mut ConfigNode) -> Option<ConfigNode> {
        let mut node = root;
        for key in self.shape.key {
            let ConfigValue::Object(entries) = &mut node.value else { return None };
            node = &mut entries.iter_mut().find(|entry| entry.key == **key)?.node;
        }
        match &mut node.value {
            ConfigValue::Object(entries) => {
                let mut found = entries.iter().enumerate().filter(|(_, entry)| entry.key == ENTRY_NAME);
                let (Some((index, _)), None) = (found.next(), found.next()) else { return None };
                Some(entries.remove(index).node)
            }
            ConfigValue::Array(items) => {
                let is_entry =
                    |item: &ConfigNode| item.get("name").and_then(ConfigNode::as_str) == Some(ENTRY_NAME);
                let mut found = items.iter().enumerate().filter(|(_, item)| is_entry(item));
                let (Some((index, _)), None) = (found.next(), found.next()) else { return None };
                Some(items.remove(index))
            }
            _ => None,
        }
    }

    /// Removes from a document what a new file begins with, if that was inserted together with the entry.
    fn take_preamble(&self, file: &Path, splice: &EntrySplice, root: &mut ConfigNode) {
        let preamble = self.shape.preamble;
        if preamble.is_empty() || !splice.inserted.replace("\r\n", "\n").contains(preamble) {
            return;
        }
        let Ok(Some(begin)) = self.parse(file, preamble) else { return };
        if let (ConfigValue::Object(begin), ConfigValue::Object(entries)) = (&begin.value, &mut root.value) {
            entries.retain(|entry| !begin.iter().any(|one| one.key == entry.key));
        }
    }

    /// Checks that a new text is the old document, with the entry or without it.
    fn check(
        &self,
        file: &Path,
        old: Option<&ConfigNode>,
        new: &str,
        with_entry: bool,
    ) -> Result<(), EditEntryError> {
        let differs = || unsupported("the file would be read differently");
        let mut root = self.parse(file, new)?;
        if with_entry {
            let found = root.as_mut().and_then(|root| self.take(root)).ok_or_else(differs)?;
            if !is_value(&found, &ExportValue::Object(self.members.clone())) {
                return Err(differs());
            }
        }
        // Nothing was there that could have changed; a new file may begin with what the application requires.
        if with_entry && old.is_none() {
            return Ok(());
        }
        let is_ordered = self.shape.format != FileFormat::Toml;
        let pruned = |node: Option<&ConfigNode>| {
            let mut node = node.cloned();
            if let Some(node) = &mut node {
                prune(node, self.shape.key);
            }
            node
        };
        match (pruned(old), pruned(root.as_ref())) {
            (Some(old), Some(new)) if is_same(&old, &new, is_ordered) => Ok(()),
            (Some(one), None) | (None, Some(one)) if is_empty(&one) => Ok(()),
            (None, None) => Ok(()),
            _ => Err(differs()),
        }
    }
}

/// Wraps a value into objects with these keys.
fn nested(keys: &[&str], value: ExportValue) -> ExportValue {
    keys.iter().rev().fold(value, |value, key| ExportValue::Object(vec![((*key).to_owned(), value)]))
}

fn split_mark(text: &str) -> (&str, &str) {
    match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(body) => (BYTE_ORDER_MARK, body),
        None => ("", text),
    }
}

/// Returns the line break of a text, which is that of its first line.
fn line_break(text: &str) -> &'static str {
    match text.find('\n') {
        Some(index) if text[..index].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Returns the white space at the beginning of the line with this offset.
fn indentation(text: &str, offset: usize) -> &str {
    let start = text[..offset].rfind('\n').map_or(0, |index| index + 1);
    let line = &text[start..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}
