//! A credential store over another one. What is written stays in memory until it is kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hospes_oauth::{CredentialStore, StepError};
use parking_lot::Mutex;
use secrecy::SecretString;

/// Changes of the documents of another store. A sign-in that may still be refused writes here; nothing of it is in a file
/// before [`Self::keep_in`].
#[derive(Debug)]
pub(crate) struct OverlayStore {
    under: Arc<dyn CredentialStore>,
    /// Changed documents. `None` for removed ones.
    changes: Mutex<BTreeMap<String, Option<SecretString>>>,
    holds_back: AtomicBool,
}

impl OverlayStore {
    /// Creates an overlay without changes. Until [`Self::hold_back`], what is written goes through: a refreshed token
    /// replaces one that is spent, so that it must not be lost.
    pub(crate) fn new(under: Arc<dyn CredentialStore>) -> Self {
        Self { under, changes: Mutex::default(), holds_back: AtomicBool::new(false) }
    }

    /// Holds all further changes back.
    pub(crate) fn hold_back(&self) {
        self.holds_back.store(true, Ordering::Relaxed);
    }

    /// Writes the changes to `store`, which is the other store or the same one, opened to be created. Further ones go through.
    ///
    /// # Errors
    /// If the store fails. What was not written stays an unkept change.
    pub(crate) fn keep_in(&self, store: &dyn CredentialStore) -> Result<(), StepError> {
        let mut changes = self.changes.lock();
        while let Some(entry) = changes.first_entry() {
            match entry.get() {
                Some(document) => store.write(entry.key(), document)?,
                None => store.remove(entry.key())?,
            }
            entry.remove();
        }
        self.holds_back.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Returns true if some changes are not kept.
    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.lock().is_empty()
    }

    /// Records a change, if it is held back.
    fn record(&self, name: &str, document: Option<SecretString>) -> bool {
        let mut changes = self.changes.lock();
        let is_held = self.holds_back.load(Ordering::Relaxed) || changes.contains_key(name);
        if is_held {
            changes.insert(name.to_owned(), document);
        }
        is_held
    }
}

impl CredentialStore for OverlayStore {
    fn read(&self, name: &str) -> Result<Option<SecretString>, StepError> {
        let changed = self.changes.lock().get(name).cloned();
        changed.map_or_else(|| self.under.read(name), Ok)
    }

    fn write(&self, name: &str, document: &SecretString) -> Result<(), StepError> {
        match self.record(name, Some(document.clone())) {
            true => Ok(()),
            false => self.under.write(name, document),
        }
    }

    fn remove(&self, name: &str) -> Result<(), StepError> {
        match self.record(name, None) {
            true => Ok(()),
            false => self.under.remove(name),
        }
    }

    fn names(&self, beginning: &str) -> Result<Vec<String>, StepError> {
        let changes = self.changes.lock();
        let mut names = self.under.names(beginning)?;
        names.retain(|name| !changes.contains_key(name));
        let written =
            changes.iter().filter(|(name, document)| name.starts_with(beginning) && document.is_some());
        names.extend(written.map(|(name, _)| name.clone()));
        names.sort();
        Ok(names)
    }

    fn lock(&self, name: &str) -> Result<Option<Box<dyn Send>>, StepError> {
        self.under.lock(name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use hospes_oauth::MemoryCredentialStore;
    use secrecy::ExposeSecret as _;

    use super::*;

    fn text(store: &dyn CredentialStore, name: &str) -> Option<String> {
        store.read(name).unwrap().map(|document| document.expose_secret().to_owned())
    }

    #[test]
    fn held_back_changes_are_seen_and_reach_the_store_only_when_they_are_kept() {
        let under = Arc::new(MemoryCredentialStore::new());
        under.write("tokens a", &"old".into()).unwrap();
        under.write("tokens b", &"old".into()).unwrap();
        let overlay = OverlayStore::new(Arc::clone(&under) as _);
        // A refreshed token is written at once.
        overlay.write("tokens a", &"refreshed".into()).unwrap();
        assert_eq!(text(&*under, "tokens a").as_deref(), Some("refreshed"));

        overlay.hold_back();
        overlay.write("tokens a", &"new".into()).unwrap();
        overlay.write("tokens c", &"new".into()).unwrap();
        overlay.remove("tokens b").unwrap();
        assert_eq!((text(&overlay, "tokens a").as_deref(), text(&overlay, "tokens b")), (Some("new"), None));
        assert_eq!(overlay.names("tokens ").unwrap(), ["tokens a", "tokens c"]);
        assert_eq!(text(&*under, "tokens a").as_deref(), Some("refreshed"));
        assert_eq!(under.names("tokens ").unwrap(), ["tokens a", "tokens b"]);

        assert!(overlay.has_changes());
        overlay.keep_in(&*under).unwrap();
        assert!(!overlay.has_changes());
        assert_eq!(under.names("tokens ").unwrap(), ["tokens a", "tokens c"]);
        assert_eq!(text(&*under, "tokens a").as_deref(), Some("new"));
        overlay.remove("tokens c").unwrap();
        assert_eq!(under.names("").unwrap(), ["tokens a"], "what comes later goes through");
    }
}
