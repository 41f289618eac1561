//! The records of a host's file as a source for a copy in the database of a fleet.
//!
//! Keys of tokens, and tokens of the provider at which users sign in, are sealed under a key of the host. They are opened
//! and sealed under that of the fleet. Sign-ins that wait at the provider can be sealed as well, and end within minutes:
//! they are left behind if the keys differ.

use std::fmt;
use std::path::Path;

use hospes_auth::Seed;
use hospes_sql::copy::{CopiedRow, CopiedTable, CopySide, CopySource, RowConversion, RowConverter};
use hospes_sql::{SqlValue, SqliteSnapshot};
use serde_json::Value;

use super::server_keys::{InvalidSealKey, KeyRecord, RecordSeal, seal_context};
use super::sql::SQLITE;
use super::{AuthStoreError, RecordKind, encode};

/// Ciphers of sealed values in the file and in the database.
#[derive(Default)]
pub struct AuthCopySeals {
    keys: Option<SealPair>,
    provider: Option<SealPair>,
    is_same_provider_key: bool,
}

struct SealPair {
    source: RecordSeal,
    target: RecordSeal,
}

impl AuthCopySeals {
    /// Sets the keys of [`AuthServer::sealing`](crate::AuthServer::sealing) in the file and in the database.
    ///
    /// # Errors
    /// If a key cannot be used.
    pub fn sealing(mut self, source: &[u8; 32], target: &[u8; 32]) -> Result<Self, InvalidSealKey> {
        self.keys = Some(SealPair { source: RecordSeal::new(source)?, target: RecordSeal::new(target)? });
        Ok(self)
    }

    /// Sets the keys of the [`SignInProvider`](crate::SignInProvider) in the file and in the database.
    ///
    /// # Errors
    /// If a key cannot be used.
    pub fn provider(mut self, source: &[u8; 32], target: &[u8; 32]) -> Result<Self, InvalidSealKey> {
        // The first draw, as of the provider.
        let seal = |key| RecordSeal::new(&Seed::new(key).draw());
        self.provider = Some(SealPair { source: seal(source)?, target: seal(target)? });
        self.is_same_provider_key = source == target;
        Ok(self)
    }
}

impl fmt::Debug for AuthCopySeals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthCopySeals")
    }
}

/// Opens the records in a file for reading alone.
///
/// # Errors
/// If the file cannot be read, is damaged, or was written by another version.
pub fn open_records(file: &Path, seals: AuthCopySeals) -> Result<CopySource, AuthStoreError> {
    let snapshot = SqliteSnapshot::open(file, SQLITE)?;
    let records = CopiedTable::new(
        "sign-in records",
        "records",
        &["kind", "key", "value", "grant_id", "until", "taken", "note", "swapped_at"],
        &["kind", "key"],
    );
    let records = records.named_in_postgres("auth_records").with_rows(AuthRows(seals));
    let revoked = CopiedTable::new("revoked sign-ins", "revoked", &["grant_id", "until"], &["grant_id"])
        .named_in_postgres("revoked_grants");
    Ok(CopySource::new(snapshot, vec![records, revoked]))
}

/// Records with their seals. The first columns are kind, key and value.
struct AuthRows(AuthCopySeals);

/// Direction of a conversion.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SealDirection {
    Open(CopySide),
    Seal,
}

impl RowConverter for AuthRows {
    fn convert(&self, row: CopiedRow) -> RowConversion {
        let is_waiting = text(&row, 0) == Some(RecordKind::Pending.as_str())
            && text(&row, 2).is_some_and(|value| value.contains("\"verifier\""));
        if is_waiting && !self.0.is_same_provider_key {
            return RowConversion::Omitted;
        }
        let opened = self.turned(row, SealDirection::Open(CopySide::Source));
        match opened.and_then(|row| self.turned(row, SealDirection::Seal)) {
            Some(row) => RowConversion::Copied(row),
            None => RowConversion::Unreadable,
        }
    }

    fn contents(&self, row: CopiedRow, side: CopySide) -> Option<CopiedRow> {
        self.turned(row, SealDirection::Open(side))
    }
}

impl AuthRows {
    /// Opens or seals what a record has sealed; `None` if it does not open.
    fn turned(&self, mut row: CopiedRow, direction: SealDirection) -> Option<CopiedRow> {
        let (kind, key, value) = (text(&row, 0)?, text(&row, 1)?, text(&row, 2)?);
        let key_kind = [RecordKind::Key, RecordKind::Nonce].into_iter().find(|known| known.as_str() == kind);
        let turned = if let Some(kind) = key_kind {
            let mut record: KeyRecord = serde_json::from_str(value).ok()?;
            if !record.sealed {
                return Some(row);
            }
            record.document =
                turn(self.0.keys.as_ref()?, &seal_context(kind, key), &record.document, direction)?;
            encode(&record)
        } else if kind == RecordKind::Upstream.as_str()
            && let Some(seals) = &self.0.provider
        {
            let mut tokens: Value = serde_json::from_str(value).ok()?;
            for field in ["access", "refresh"] {
                if let Some(Value::String(token)) = tokens.get_mut(field) {
                    *token = turn(seals, key, token, direction)?;
                }
            }
            tokens.to_string()
        } else {
            return Some(row);
        };
        *row.get_mut(2)? = SqlValue::Text(turned.into());
        Some(row)
    }
}

fn turn(seals: &SealPair, context: &str, value: &str, direction: SealDirection) -> Option<String> {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let opened = |seal: &RecordSeal| Some(URL_SAFE_NO_PAD.encode(&*seal.open(context, value)?));
    match direction {
        SealDirection::Open(CopySide::Source) => opened(&seals.source),
        SealDirection::Open(CopySide::Target) => opened(&seals.target),
        SealDirection::Seal => seals.target.seal(context, &URL_SAFE_NO_PAD.decode(value).ok()?),
    }
}

fn text(row: &CopiedRow, column: usize) -> Option<&str> {
    match row.get(column) {
        Some(SqlValue::Text(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: [u8; 32] = [1; 32];
    const NEW: [u8; 32] = [2; 32];

    fn row(kind: RecordKind, key: &str, value: &str) -> CopiedRow {
        let texts = [kind.as_str(), key, value].map(|text| SqlValue::Text(text.to_owned().into()));
        texts.to_vec()
    }

    fn rows() -> AuthRows {
        AuthRows(AuthCopySeals::default().sealing(&OLD, &NEW).unwrap().provider(&OLD, &NEW).unwrap())
    }

    fn converted(row: CopiedRow) -> Option<CopiedRow> {
        match rows().convert(row) {
            RowConversion::Copied(row) => Some(row),
            RowConversion::Omitted | RowConversion::Unreadable => None,
        }
    }

    #[test]
    fn keys_and_provider_tokens_are_sealed_anew_and_keep_their_contents() {
        let own = RecordSeal::new(&OLD).unwrap();
        let document = own.seal(&seal_context(RecordKind::Nonce, "k"), b"secret").unwrap();
        let key = format!(r#"{{"document":"{document}","from":1,"to":2,"sealed":true}}"#);
        let provider = RecordSeal::new(&Seed::new(&OLD).draw()).unwrap();
        let access = provider.seal("g", b"token").unwrap();
        let tokens = format!(r#"{{"subject":"ann","access":"{access}","refresh":null}}"#);
        for source in [row(RecordKind::Nonce, "k", &key), row(RecordKind::Upstream, "g", &tokens)] {
            let target = converted(source.clone()).unwrap();
            assert_ne!(target, source);
            let contents = rows().contents(source.clone(), CopySide::Source).unwrap();
            assert_eq!(rows().contents(target.clone(), CopySide::Target).unwrap(), contents);
            assert!(rows().contents(target, CopySide::Source).is_none(), "it opens with the former key");
            // What was sealed for another record does not open.
            let mut moved = source;
            moved[1] = SqlValue::Text("another".into());
            assert!(matches!(rows().convert(moved), RowConversion::Unreadable));
        }
    }

    #[test]
    fn other_records_are_copied_and_waiting_sign_ins_are_left_behind() {
        let plain = row(RecordKind::Access, "hash", r#"{"client":"machine"}"#);
        assert_eq!(converted(plain.clone()), Some(plain));
        let waiting = row(RecordKind::Pending, "state", r#"{"errand":{},"verifier":"sealed","nonce":"n"}"#);
        assert!(matches!(rows().convert(waiting.clone()), RowConversion::Omitted));
        let same = AuthCopySeals::default().provider(&OLD, &OLD).unwrap();
        assert!(matches!(AuthRows(same).convert(waiting), RowConversion::Copied(_)));
    }
}
