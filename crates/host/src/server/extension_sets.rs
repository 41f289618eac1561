//! Interned sets of the extensions that applications declare.
//!
//! A set is part of the key of connections, so it has to be small to copy and quick to compare. It is therefore
//! represented by a number. The number of known sets is bounded. Beyond the bound the least recently used set is
//! forgotten, and a connection that is opened for it declares none.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use hospes_model::{RawJson, ServerCapabilities, TASKS_EXTENSION};
use parking_lot::Mutex;

/// Maximum number of known sets.
const MAX_SETS: usize = 256;
/// The longest set that is carried, as JSON, in bytes.
const MAX_SET_BYTES: usize = 16 * 1024;

/// Extensions with their settings, by identifier.
pub(crate) type ExtensionSettings = BTreeMap<String, RawJson>;

/// Iterates over the extensions that a server declares, except tasks, which the host handles itself.
pub(crate) fn own_extensions(capabilities: &ServerCapabilities) -> impl Iterator<Item = (&String, &RawJson)> {
    let all = capabilities.extensions.iter();
    all.filter(|(identifier, settings)| *identifier != TASKS_EXTENSION && settings.is_object())
}

/// Number of a set of extensions; the default is the empty set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ExtensionSetId(u32);

#[derive(Default)]
struct ExtensionSetTable {
    numbers: HashMap<Box<str>, u32>,
    sets: HashMap<u32, ExtensionSet>,
    last: u32,
    /// Counter of lookups.
    times: u64,
}

struct ExtensionSet {
    settings: ExtensionSettings,
    text: Box<str>,
    /// Value of the lookup counter at the last use.
    used: u64,
}

static TABLE: LazyLock<Mutex<ExtensionSetTable>> = LazyLock::new(Mutex::default);

impl ExtensionSetId {
    /// The set without extensions.
    pub(super) const NONE: Self = Self(0);

    /// Interns the extensions whose settings are an object, except tasks, which the host handles itself.
    pub(crate) fn of(extensions: &ExtensionSettings) -> Self {
        let is_one = |(identifier, settings): &(&String, &RawJson)| {
            *identifier != TASKS_EXTENSION && settings.is_object()
        };
        if !extensions.iter().any(|one| is_one(&one)) {
            return Self::NONE;
        }
        // Detached, because the table outlives the message whose buffer the values are slices of.
        let settings: ExtensionSettings =
            extensions.iter().filter(is_one).map(|(name, value)| (name.clone(), value.detached())).collect();
        let Ok(text) = serde_json::to_string(&settings) else { return Self::NONE };
        if text.len() > MAX_SET_BYTES {
            let bytes = text.len();
            tracing::warn!(bytes, "extensions of an application exceed the size limit and are not forwarded");
            return Self::NONE;
        }
        Self(TABLE.lock().number(text.into(), settings))
    }

    /// Returns the extensions with their settings.
    pub(crate) fn settings(self) -> ExtensionSettings {
        if self == Self::NONE {
            return ExtensionSettings::new();
        }
        TABLE.lock().sets.get(&self.0).map(|set| set.settings.clone()).unwrap_or_default()
    }
}

impl ExtensionSetTable {
    fn number(&mut self, text: Box<str>, settings: ExtensionSettings) -> u32 {
        self.times += 1;
        let used = self.times;
        if let Some(number) = self.numbers.get(&text).copied()
            && let Some(set) = self.sets.get_mut(&number)
        {
            set.used = used;
            return number;
        }
        // The search for the oldest looks at all of them, which the limit keeps cheap.
        if self.sets.len() >= MAX_SETS
            && let Some(oldest) = self.sets.iter().min_by_key(|(_, set)| set.used).map(|(number, _)| *number)
            && let Some(set) = self.sets.remove(&oldest)
        {
            self.numbers.remove(&set.text);
            tracing::warn!("more than {MAX_SETS} sets of extensions are in use; the oldest is dropped");
        }
        // None is never given twice while anybody could remember it.
        self.last = self.last.checked_add(1).unwrap_or(1);
        self.numbers.insert(text.clone(), self.last);
        self.sets.insert(self.last, ExtensionSet { settings, text, used });
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(json: &str) -> ExtensionSettings {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn equal_sets_are_one_and_what_is_no_declaration_is_none() {
        let set = settings(r#"{"a/b":{"x":1},"c/d":{}}"#);
        let one = ExtensionSetId::of(&set);
        assert_eq!(one, ExtensionSetId::of(&set));
        assert_eq!(one.settings(), set);
        assert_ne!(one, ExtensionSetId::of(&settings(r#"{"a/b":{"x":2},"c/d":{}}"#)));
        assert_eq!(ExtensionSetId::of(&settings(r#"{"a/b":{"x":1},"c/d":{},"e/f":true}"#)), one);
        for none in ["{}", r#"{"a/b":1,"c/d":null}"#, r#"{"io.modelcontextprotocol/tasks":{}}"#] {
            assert_eq!(ExtensionSetId::of(&settings(none)), ExtensionSetId::NONE, "{none}");
        }
        let long = format!(r#"{{"a/b":{{"x":"{}"}}}}"#, "y".repeat(MAX_SET_BYTES));
        assert_eq!(ExtensionSetId::of(&settings(&long)), ExtensionSetId::NONE);
        assert!(ExtensionSetId::NONE.settings().is_empty());
    }

    #[test]
    fn the_number_of_sets_is_bounded_and_the_oldest_makes_room() {
        let mut table = ExtensionSetTable::default();
        let mut add = |text: String| {
            let number = table.number(text.into(), ExtensionSettings::new());
            (number, table.sets.len(), table.numbers.len())
        };
        let (first, ..) = add("first".to_owned());
        let (second, ..) = add("second".to_owned());
        for number in 0..MAX_SETS * 2 {
            assert_eq!(add("first".to_owned()).0, first, "what somebody comes with stays");
            let (_, sets, numbers) = add(number.to_string());
            assert!(sets <= MAX_SETS && numbers == sets, "{sets} {numbers}");
        }
        assert_ne!(add("second".to_owned()).0, second, "nobody gets the number of another set");
    }
}
