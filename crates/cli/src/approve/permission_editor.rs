//! Editor of a lasting permission. It starts as narrow as possible and always has an expiry date.

use std::collections::BTreeMap;

use crossterm::event::{KeyCode, KeyEvent};
use hospes::model::RawJson;
use hospes_host::approvals::{LastingPermission, SuggestedPermission};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::json;
use super::line_editor::LineEditor;

/// Maximum length of a value in the editor, in bytes.
const MAX_VALUE: usize = 4096;
/// Lifetimes that a permission may have, in days, shortest first.
const DAYS: [u16; 5] = [1, 7, 30, 90, 365];
/// Index of the default lifetime in [`DAYS`].
const DEFAULT_DAYS_INDEX: usize = 2;

/// Kind of condition on an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionKind {
    Is,
    Under,
    Like,
    Any,
}

impl ConditionKind {
    const ALL: [Self; 4] = [Self::Is, Self::Under, Self::Like, Self::Any];

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Is => "is",
            Self::Under => "is in folder",
            Self::Like => "matches",
            Self::Any => "any value",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Is => "is",
            Self::Under => "under",
            Self::Like => "like",
            Self::Any => "any",
        }
    }
}

/// A condition on one argument.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConditionRow {
    pub(crate) name: String,
    pub(crate) kind: ConditionKind,
    pub(crate) value: String,
    /// True if the argument is a string; the value entered for it is then a string too.
    is_text: bool,
}

/// Result of a key press in the editor.
#[derive(Debug, PartialEq)]
pub(crate) enum PermissionInput {
    Nothing,
    Closed,
    Given(LastingPermission),
}

/// Permission that is being edited.
#[derive(Clone, Debug)]
pub(crate) struct PermissionEditor {
    pub(crate) rows: Vec<ConditionRow>,
    pub(crate) destinations: String,
    days: usize,
    pub(crate) any_application: bool,
    /// True if calls may have arguments that have no row.
    pub(crate) any_others: bool,
    /// Index of the selected line: the rows, then other arguments, destinations, lifetime and applications.
    pub(crate) at: usize,
    pub(crate) writing: Option<LineEditor>,
    pub(crate) problem: Option<String>,
}

impl PermissionEditor {
    /// Creates a permission for these arguments, as narrow as the host suggests.
    pub(crate) fn new(arguments: &RawJson, suggestion: Option<&SuggestedPermission>) -> Self {
        let suggestion = suggestion.cloned().unwrap_or_default().arguments;
        let rows = json::members(arguments).unwrap_or_default().into_iter().map(|(name, value)| {
            let suggested = |kind: ConditionKind| suggestion.get(&name).and_then(|one| one.get(kind.key()));
            let found = ConditionKind::ALL.into_iter().find(|kind| suggested(*kind).is_some());
            let text = json::text(&value);
            let of_kind = match found {
                // The argument's own text, because a suggested number may have been reformatted.
                Some(ConditionKind::Is) | None => text.clone().unwrap_or_else(|| value.as_str().to_owned()),
                Some(kind) => suggested(kind).and_then(Value::as_str).unwrap_or_default().to_owned(),
            };
            ConditionRow {
                name,
                kind: found.unwrap_or(ConditionKind::Any),
                value: of_kind,
                is_text: text.is_some(),
            }
        });
        Self {
            rows: rows.collect(),
            destinations: String::new(),
            days: DEFAULT_DAYS_INDEX,
            any_application: false,
            any_others: false,
            at: 0,
            writing: None,
            problem: None,
        }
    }

    pub(crate) fn days(&self) -> u16 {
        DAYS[self.days.min(DAYS.len() - 1)]
    }

    /// Returns true if the permission restricts neither the values of arguments nor the destinations. Without rows, it
    /// restricts what it can if there are no other arguments.
    pub(crate) fn is_wide(&self) -> bool {
        let is_any = self.rows.iter().all(|row| row.kind == ConditionKind::Any);
        self.destinations.trim().is_empty() && is_any && (self.any_others || !self.rows.is_empty())
    }

    /// Handles a key press. `now` is the host's time.
    pub(crate) fn key(&mut self, key: KeyEvent, now: Timestamp) -> PermissionInput {
        if let Some(entry) = &mut self.writing {
            match key.code {
                KeyCode::Esc => self.writing = None,
                KeyCode::Enter => {
                    let text = entry.text().to_owned();
                    match self.rows.get_mut(self.at) {
                        Some(row) => row.value = text,
                        None => self.destinations = text,
                    }
                    self.writing = None;
                }
                _ => entry.key(key),
            }
            return PermissionInput::Nothing;
        }
        self.problem = None;
        let last = self.rows.len() + 3;
        match key.code {
            KeyCode::Esc | KeyCode::Char('q') => return PermissionInput::Closed,
            KeyCode::Down | KeyCode::Char('j') => self.at = (self.at + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.at = self.at.saturating_sub(1),
            KeyCode::Right | KeyCode::Char('l' | ' ') => self.turn(1),
            // A step back, written as a step forward because the index is unsigned.
            KeyCode::Left | KeyCode::Char('h') => self.turn(ConditionKind::ALL.len() - 1),
            KeyCode::Char('e') | KeyCode::Enter => self.write(),
            // Only this key gives the permission, because Enter is pressed out of habit.
            KeyCode::Char('A') => match self.permission(now) {
                Ok(permission) => return PermissionInput::Given(permission),
                Err(why) => self.problem = Some(why),
            },
            _ => {}
        }
        PermissionInput::Nothing
    }

    /// Inserts pasted text into the field that is being edited.
    pub(crate) fn paste(&mut self, text: &str) {
        if let Some(entry) = &mut self.writing {
            entry.paste(text);
        }
    }

    fn turn(&mut self, by: usize) {
        let rows = self.rows.len();
        if let Some(row) = self.rows.get_mut(self.at) {
            let at = ConditionKind::ALL.iter().position(|kind| *kind == row.kind).unwrap_or_default();
            row.kind = ConditionKind::ALL[(at + by) % ConditionKind::ALL.len()];
        } else if self.at == rows {
            self.any_others = !self.any_others;
        } else if self.at == rows + 2 {
            let by = if by == 1 { 1 } else { DAYS.len() - 1 };
            self.days = (self.days + by) % DAYS.len();
        } else if self.at == rows + 3 {
            self.any_application = !self.any_application;
        }
    }

    fn write(&mut self) {
        let text = match self.rows.get(self.at) {
            Some(row) if row.kind == ConditionKind::Any => return,
            Some(row) => &row.value,
            None if self.at == self.rows.len() + 1 => &self.destinations,
            None => return,
        };
        self.writing = Some(LineEditor::new(text, MAX_VALUE));
    }

    /// Returns the permission that would be granted.
    fn permission(&self, now: Timestamp) -> Result<LastingPermission, String> {
        let mut permission = LastingPermission::default();
        let mut arguments = BTreeMap::new();
        for ConditionRow { name, kind, value, is_text } in &self.rows {
            let value = match kind {
                ConditionKind::Any => continue,
                // An argument that was received as a number is compared as a number; the string `1` would never match
                // it.
                ConditionKind::Is if !is_text => serde_json::from_str(value)
                    .map_err(|_| format!("`{name}`: expected a number, true or false, got `{value}`"))?,
                _ => Value::from(value.as_str()),
            };
            arguments.insert(name.clone(), json!({ kind.key(): value }));
        }
        permission.arguments = arguments;
        if !self.any_others {
            let any = self.rows.iter().filter(|row| row.kind == ConditionKind::Any);
            permission.other_arguments = Some(any.map(|row| row.name.clone()).collect());
        }
        permission.destinations =
            self.destinations.split_whitespace().map(|one| one.trim_matches(',').to_owned()).collect();
        let days = SignedDuration::from_hours(i64::from(self.days()) * 24);
        permission.until = Some(now.checked_add(days).unwrap_or(Timestamp::MAX));
        permission.any_application = self.any_application;
        Ok(permission)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> PermissionEditor {
        let arguments = RawJson::parse(r#"{"path":"/srv/a/b.txt","count":9007199254740993,"deep":{"x":1}}"#);
        let suggestion = json!({ "arguments": { "path": { "under": "/srv/a" }, "count": { "is": 9007199254740993_u64 } } });
        PermissionEditor::new(&arguments.unwrap(), Some(&serde_json::from_value(suggestion).unwrap()))
    }

    fn typed(rule: &mut PermissionEditor, keys: &[KeyCode]) -> PermissionInput {
        let mut last = PermissionInput::Nothing;
        for code in keys {
            last = rule.key((*code).into(), Timestamp::UNIX_EPOCH);
        }
        last
    }

    #[test]
    fn a_permission_begins_narrow_and_lasts_a_month() {
        let PermissionInput::Given(given) = typed(&mut rule(), &[KeyCode::Char('A')]) else {
            panic!("nothing is given")
        };
        let written = json!({
            "arguments": { "path": { "under": "/srv/a" }, "count": { "is": 9007199254740993_u64 } },
            "other_arguments": ["deep"], "until": "1970-01-31T00:00:00Z",
        });
        assert_eq!(serde_json::to_value(&given).unwrap(), written);
    }

    #[test]
    fn conditions_are_changed_by_keys_and_enter_gives_nothing() {
        let mut rule = rule();
        let none = typed(&mut rule, &[KeyCode::Enter, KeyCode::Backspace, KeyCode::Enter, KeyCode::Down]);
        assert_eq!((none, rule.rows[0].value.as_str()), (PermissionInput::Nothing, "/srv/"));
        typed(&mut rule, &[KeyCode::Right; 3]);
        assert_eq!(rule.rows[1].kind, ConditionKind::Any);
        let keys = [KeyCode::Down, KeyCode::Down, KeyCode::Down, KeyCode::Char('e')];
        typed(&mut rule, &keys);
        rule.paste("~/work *.example.com");
        typed(&mut rule, &[KeyCode::Enter, KeyCode::Down, KeyCode::Right, KeyCode::Down, KeyCode::Right]);
        let PermissionInput::Given(given) = typed(&mut rule, &[KeyCode::Char('A')]) else {
            panic!("nothing is given")
        };
        let written = json!({
            "arguments": { "path": { "under": "/srv/" } }, "other_arguments": ["count", "deep"],
            "destinations": ["~/work", "*.example.com"], "until": "1970-04-01T00:00:00Z", "any_application": true,
        });
        assert_eq!(serde_json::to_value(&given).unwrap(), written);
        assert_eq!(typed(&mut rule, &[KeyCode::Esc]), PermissionInput::Closed);
    }

    #[test]
    fn other_arguments_are_allowed_by_a_key_of_their_line() {
        let mut rule = rule();
        assert!(!rule.any_others);
        typed(&mut rule, &[KeyCode::Down, KeyCode::Down, KeyCode::Down, KeyCode::Right]);
        let PermissionInput::Given(given) = typed(&mut rule, &[KeyCode::Char('A')]) else {
            panic!("nothing is given")
        };
        assert!(rule.any_others && given.other_arguments.is_none());
        let mut empty = PermissionEditor::new(&RawJson::empty_object(), None);
        assert!(!empty.is_wide(), "only calls without arguments");
        typed(&mut empty, &[KeyCode::Right]);
        assert!(empty.is_wide());
    }

    #[test]
    fn a_value_that_is_none_is_said() {
        let mut rule = rule();
        typed(&mut rule, &[KeyCode::Down, KeyCode::Char('e'), KeyCode::Char('x'), KeyCode::Enter]);
        assert_eq!(typed(&mut rule, &[KeyCode::Char('A')]), PermissionInput::Nothing);
        assert!(rule.problem.unwrap().contains("expected a number"));
    }
}
