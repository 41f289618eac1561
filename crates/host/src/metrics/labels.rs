//! Values of labels, and the table of names that they may have.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

/// Value for everything that is not in a closed set or in a catalogue.
pub(super) const OTHER: &str = "_OTHER";
/// Maximum number of names. A server may offer other names each time it is asked.
const MAX_NAMES: usize = 8192;

/// Number of a name in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NameId(u32);

/// Value of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LabelValue {
    /// The series does not have the label.
    Absent,
    /// A value of a closed set.
    Fixed(&'static str),
    /// A name of the configuration or a catalogue.
    Name(NameId),
}

impl LabelValue {
    pub(super) const OTHER: Self = Self::Fixed(OTHER);

    /// Returns the value without a name.
    pub(super) fn without_name(self) -> Self {
        match self {
            Self::Name(_) => Self::OTHER,
            value => value,
        }
    }
}

/// Names of servers, tools and prompts that may be the value of a label. Only grows. Names are found without a lock.
#[derive(Debug, Default)]
pub(super) struct NameTable {
    known: ArcSwap<KnownNames>,
    /// Held while names are added.
    learning: Mutex<()>,
}

#[derive(Clone, Debug, Default)]
struct KnownNames {
    ids: HashMap<Arc<str>, NameId>,
    names: Vec<Arc<str>>,
}

impl NameTable {
    /// Returns the value for a name. Allocates nothing.
    pub(super) fn value(&self, name: &str) -> LabelValue {
        self.known.load().ids.get(name).map_or(LabelValue::OTHER, |id| LabelValue::Name(*id))
    }

    /// Adds names, unless the table is full.
    pub(super) fn learn<'n>(&self, names: impl Iterator<Item = &'n str>) {
        let known = self.known.load();
        let mut new = names.filter(|name| !known.ids.contains_key(*name)).peekable();
        if new.peek().is_none() || known.names.len() >= MAX_NAMES {
            return;
        }
        let _learning = self.learning.lock();
        // Read again under the lock: another thread may have added some.
        let mut larger = KnownNames::clone(&self.known.load());
        for name in new {
            let at = larger.names.len();
            let Some(id) = u32::try_from(at).ok().filter(|_| at < MAX_NAMES) else { break };
            if !larger.ids.contains_key(name) {
                let name: Arc<str> = name.into();
                larger.ids.insert(Arc::clone(&name), NameId(id));
                larger.names.push(name);
            }
        }
        self.known.store(Arc::new(larger));
    }

    /// Returns the text of a value. `None` if the series does not have the label.
    pub(super) fn text(&self, value: LabelValue) -> Option<Arc<str>> {
        match value {
            LabelValue::Absent => None,
            LabelValue::Fixed(text) => Some(text.into()),
            LabelValue::Name(NameId(id)) => {
                usize::try_from(id).ok().and_then(|id| self.known.load().names.get(id).cloned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_learned_names_are_values_and_their_number_is_bounded() {
        let table = NameTable::default();
        assert_eq!(table.value("greet"), LabelValue::OTHER);
        table.learn(["greet", "greet"].into_iter());
        assert_eq!(table.text(table.value("greet")).as_deref(), Some("greet"));
        let many: Vec<String> = (0..2 * MAX_NAMES).map(|at| format!("tool-{at}")).collect();
        table.learn(many.iter().map(String::as_str));
        assert_eq!(table.known.load().names.len(), MAX_NAMES);
        assert_eq!(table.value(&many[2 * MAX_NAMES - 1]), LabelValue::OTHER);
        assert_eq!(table.text(LabelValue::Absent), None);
    }
}
