//! Secrets that were typed for a server that was not added: sealed for the next try, for one hour at most.

use std::collections::BTreeMap;
use std::path::Path;

use hospes_oauth::CredentialStore as _;
use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::{SecretStore, store_error};
use crate::credentials::CredentialsStore;
use crate::exit::CliResult;
use crate::output::CliOutput;
use crate::paths;

/// Maximum time for which the secrets are kept.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(1);
/// Prefix of their names in the store.
const PREFIX: &str = "pending ";
/// Maximum number of servers whose secrets are kept.
const MAX_SERVERS: usize = 20;

/// Secrets of one server, as they are sealed.
#[derive(Serialize, Deserialize)]
struct PendingAnswers {
    until: Timestamp,
    /// Values, by the ids of the questions.
    answers: BTreeMap<String, String>,
}

/// The secrets that were typed for a server, by its source: a registry and a name, or a package.
#[derive(Debug)]
pub(crate) struct PendingSecrets {
    source: String,
}

impl PendingSecrets {
    /// Creates the place of the secrets of a source.
    pub(crate) fn new(source: String) -> Self {
        Self { source }
    }

    /// Returns the secrets of a try within the last hour, by the ids of the questions.
    pub(crate) fn known(&self, now: Timestamp) -> BTreeMap<String, String> {
        // Without the note there are none, and the store need not be opened.
        let is_there = paths::pending_secrets().is_some_and(|note| note.is_file());
        let store = if is_there { SecretStore::open_existing().ok().flatten() } else { None };
        store.and_then(|store| store.read_pending(&self.source, now)).unwrap_or_default()
    }

    /// Seals the secrets for one hour.
    ///
    /// # Errors
    /// If the store cannot be opened or written.
    pub(crate) fn keep(
        &self,
        answers: BTreeMap<String, String>,
        (wanted, output): (CredentialsStore, CliOutput),
        now: Timestamp,
    ) -> CliResult {
        let store = SecretStore::open_or_create(wanted, output)?;
        store.write_pending(&self.source, answers, now)?;
        write_note(store.sweep_pending(now)?);
        Ok(())
    }

    /// Removes the secrets, because the server was added or rejected.
    pub(crate) fn forget(&self) {
        let is_there = paths::pending_secrets().is_some_and(|note| note.is_file());
        if is_there && let Ok(Some(store)) = SecretStore::open_existing() {
            let _gone = store.0.remove(&format!("{PREFIX}{}", self.source));
        }
    }
}

/// Removes the secrets whose hour is over. The store is opened only if there are some.
pub(crate) fn sweep(now: Timestamp) {
    let Some(note) = paths::pending_secrets() else { return };
    if !is_due(&note, now) {
        return;
    }
    match SecretStore::open_existing()
        .and_then(|store| store.map_or(Ok(None), |store| store.sweep_pending(now)))
    {
        Ok(next) => write_note(next),
        Err(error) => tracing::warn!(error = error.message, "secrets of servers that were not added stay"),
    }
}

/// Returns true if the time of a note has come. What is no time, or a later one than possible, has come.
fn is_due(note: &Path, now: Timestamp) -> bool {
    let Ok(text) = std::fs::read_to_string(note) else { return false };
    text.trim().parse::<Timestamp>().map_or(true, |next| next <= now || next > now + KEPT_FOR)
}

/// Writes when the next secrets have to be removed, or removes the note.
fn write_note(next: Option<Timestamp>) {
    let Some(note) = paths::pending_secrets() else { return };
    let written = match next {
        Some(next) => {
            let folder = note.parent().unwrap_or(&note);
            hospes_fs::create_private_folder(folder)
                .and_then(|()| paths::write_private(&note, next.to_string().as_bytes()))
        }
        None => std::fs::remove_file(&note),
    };
    if let Err(error) = written {
        tracing::debug!(%error, "the note about secrets of servers that were not added was not written");
    }
}

impl SecretStore {
    fn read_pending(&self, source: &str, now: Timestamp) -> Option<BTreeMap<String, String>> {
        let text = self.0.read(&format!("{PREFIX}{source}")).ok()??;
        let pending: PendingAnswers = serde_json::from_str(text.expose_secret()).ok()?;
        pending.is_valid(now).then_some(pending.answers)
    }

    fn write_pending(&self, source: &str, answers: BTreeMap<String, String>, now: Timestamp) -> CliResult {
        let pending = PendingAnswers { until: now + KEPT_FOR, answers };
        let text = SecretString::from(serde_json::to_string(&pending).unwrap_or_default());
        self.0.write(&format!("{PREFIX}{source}"), &text).map_err(store_error)
    }

    /// Removes the secrets whose hour is over. Returns when the next ones have to be removed.
    fn sweep_pending(&self, now: Timestamp) -> CliResult<Option<Timestamp>> {
        let mut next: Option<Timestamp> = None;
        let mut kept = 0;
        for name in self.0.names(PREFIX).map_err(store_error)? {
            let text = self.0.read(&name).map_err(store_error)?;
            let pending =
                text.and_then(|text| serde_json::from_str::<PendingAnswers>(text.expose_secret()).ok());
            match pending.filter(|pending| pending.is_valid(now) && kept < MAX_SERVERS) {
                Some(pending) => {
                    kept += 1;
                    next = Some(next.map_or(pending.until, |next| next.min(pending.until)));
                }
                None => self.0.remove(&name).map_err(store_error)?,
            }
        }
        Ok(next)
    }
}

impl PendingAnswers {
    /// Returns true within the hour. A later end than possible is that of a clock that was wrong.
    fn is_valid(&self, now: Timestamp) -> bool {
        now < self.until && self.until <= now + KEPT_FOR
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use std::sync::Arc;

    use hospes_oauth::{FileCredentialStore, StoreKey};

    use super::*;

    fn answers(value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("TOKEN".to_owned(), value.to_owned())])
    }

    #[test]
    fn secrets_of_a_try_are_there_for_one_hour_and_removed_then() {
        let folder = tempfile::tempdir().unwrap();
        let file = FileCredentialStore::new(folder.path().join("sealed"), StoreKey::generate().unwrap());
        let store = SecretStore(Arc::new(file));
        let begun: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let after = |minutes: i64| begun + SignedDuration::from_mins(minutes);
        store.write("own.key", "stays").unwrap();
        store.write_pending("a", answers("first"), begun).unwrap();
        store.write_pending("b", answers("second"), after(30)).unwrap();
        assert_eq!(store.read_pending("a", after(59)), Some(answers("first")));
        assert_eq!(store.read_pending("a", after(60)), None, "it is not used after its hour");
        assert_eq!(store.read_pending("a", after(-5)), None, "nor by a clock that was set back");
        assert_eq!(store.sweep_pending(after(59)).unwrap(), Some(after(60)));
        assert_eq!(store.sweep_pending(after(60)).unwrap(), Some(after(90)));
        assert_eq!(store.0.names(PREFIX).unwrap(), ["pending b"]);
        assert_eq!(store.sweep_pending(after(90)).unwrap(), None);
        assert_eq!(store.0.names(PREFIX).unwrap(), Vec::<String>::new());
        assert_eq!(store.names().unwrap(), ["own.key"], "other secrets are left alone");
    }

    #[test]
    fn the_note_tells_without_the_store_whether_something_is_due() {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("note");
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        assert!(!is_due(&note, now), "no note");
        for (text, expected) in [
            ("2026-03-01T12:59:00Z", false),
            ("2026-03-01T12:00:00Z", true),
            ("2026-03-02T00:00:00Z", true),
            ("x", true),
        ] {
            std::fs::write(&note, text).unwrap();
            assert_eq!(is_due(&note, now), expected, "{text}");
        }
    }
}
