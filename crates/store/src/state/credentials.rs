//! Tokens of accounts at servers, and what waits for a sign-in, which the nodes of a fleet share.
//!
//! A single host has its tokens in a file of its own. So this part is in a database of several nodes alone.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::hmac;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::store::StatePart;
use crate::error::StoreError;
use crate::hex::to_hex;
use crate::key::SealCipher;
use hospes_sql::{SqlError, SqlTransaction, sql_values};

/// Migration steps. Never change a step; add one.
#[cfg(feature = "postgres")]
pub(super) const POSTGRES: &[&str] = &["
    CREATE TABLE credentials (
        key text PRIMARY KEY, family text NOT NULL, name bytea NOT NULL, body bytea NOT NULL, revision text NOT NULL
    );
    CREATE INDEX credentials_family ON credentials (family);
    CREATE TABLE credential_leases (key text PRIMARY KEY, holder text NOT NULL, until bigint NOT NULL);
"];

/// Maximum size of a document, in bytes.
pub const MAX_CREDENTIAL_BYTES: usize = 128 * 1024;
/// Maximum number of documents.
pub const MAX_CREDENTIALS: usize = 100_000;
/// Time after which the lease of a node that has ended is removed.
const LEASE_RETENTION: SignedDuration = SignedDuration::from_hours(1);

/// Documents with the tokens of accounts at servers, and registrations with their authorization servers.
///
/// A document is found by a keyed hash of its name. Name and text are sealed, so that a copy of the database shows neither
/// who has an account nor where.
///
/// # Leases
/// A node that renews tokens holds a lease of their document. The lease is a row and no transaction, because the request to
/// the authorization server takes time. It has the id of its holder, which is another one for each acquisition, and ends by
/// the clock of the database. A write of its holder names the id, and is refused if the lease has ended and another node
/// has acquired it, or if the document is another one than when it was acquired: whoever was stopped for longer than
/// the lease does not replace newer tokens.
#[derive(Clone)]
pub struct CredentialRecords {
    state: StatePart,
    seal: Arc<SealCipher>,
    names: Arc<hmac::Key>,
}

/// A lease of a document, which one node at a time has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialLease {
    key: String,
    holder: String,
    /// Revision of the document at the acquisition or since the last write of the holder. `None` if there was none.
    revision: Option<String>,
}

impl CredentialLease {
    /// Returns true if the other lease is of the same acquisition.
    #[must_use]
    pub fn is_of_same_holder(&self, other: &Self) -> bool {
        self.holder == other.holder
    }
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the caller does something else for each")]
pub enum CredentialWrite {
    /// The document is stored.
    Stored,
    /// The lease has ended, or another node has replaced the document. Nothing was changed.
    Superseded,
    /// There are [`MAX_CREDENTIALS`] documents already.
    TooMany,
    /// The document is larger than [`MAX_CREDENTIAL_BYTES`].
    TooLarge,
}

impl CredentialRecords {
    pub(super) fn new(state: StatePart) -> Result<Self, StoreError> {
        let seal = Arc::new(SealCipher::new(&*state.secret("credentials")?));
        let names = state.secret("names of credentials")?;
        let names = Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &*names));
        Ok(Self { state, seal, names })
    }

    /// Returns the document with this name.
    ///
    /// # Errors
    /// If the state cannot be read, or the document cannot be decrypted.
    pub async fn read(&self, name: &str) -> Result<Option<Zeroizing<String>>, StoreError> {
        let key = self.key(name);
        let context = body_context(&key);
        let sql = "SELECT body FROM credentials WHERE key = ?1";
        let found: Option<Vec<u8>> =
            self.state.read(move |view| view.query_value(sql, sql_values![key])).await?;
        found.map(|sealed| self.open(&sealed, &context)).transpose()
    }

    /// Replaces the document with this name, under `lease` if there is one, which then has the new revision.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn write(
        &self,
        name: &str,
        text: &str,
        lease: Option<&mut CredentialLease>,
    ) -> Result<CredentialWrite, StoreError> {
        self.write_within(name, text, lease, MAX_CREDENTIALS).await
    }

    async fn write_within(
        &self,
        name: &str,
        text: &str,
        lease: Option<&mut CredentialLease>,
        most: usize,
    ) -> Result<CredentialWrite, StoreError> {
        if text.len() > MAX_CREDENTIAL_BYTES {
            return Ok(CredentialWrite::TooLarge);
        }
        let key = self.key(name);
        let family = self.family(name);
        let sealed_name = self.seal.seal(name.as_bytes(), &name_context(&key));
        let body = self.seal.seal(text.as_bytes(), &body_context(&key));
        let (revision, now) = (random_id()?, self.state.now());
        let (held, new) = (lease.as_deref().cloned(), revision.clone());
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let written = self.state.write(move |change| {
            let current = match &held {
                Some(lease) => match confirm_lease(change, lease)? {
                    true => revision_of(change, &key)?,
                    false => return Ok(CredentialWrite::Superseded),
                },
                None => revision_of(change, &key)?,
            };
            if held.as_ref().is_some_and(|lease| lease.revision != current) {
                return Ok(CredentialWrite::Superseded);
            }
            if current.is_none() {
                let all: Option<i64> =
                    change.query_value("SELECT count(*) FROM credentials", sql_values![])?;
                if all.unwrap_or_default() >= most {
                    return Ok(CredentialWrite::TooMany);
                }
                let old = now.saturating_sub(LEASE_RETENTION).unwrap_or(Timestamp::MIN).as_microsecond();
                change.execute("DELETE FROM credential_leases WHERE until < ?1", sql_values![old])?;
            }
            let put =
                "INSERT INTO credentials (key, family, name, body, revision) VALUES (?1, ?2, ?3, ?4, ?5)
                       ON CONFLICT (key) DO UPDATE SET body = excluded.body, revision = excluded.revision";
            change.execute(put, sql_values![key, family, sealed_name, body, new])?;
            Ok(CredentialWrite::Stored)
        });
        let written = written.await?;
        if let (Some(lease), CredentialWrite::Stored) = (lease, written) {
            lease.revision = Some(revision);
        }
        Ok(written)
    }

    /// Removes the document with this name, if there is one.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub async fn remove(&self, name: &str) -> Result<(), StoreError> {
        let key = self.key(name);
        let delete = "DELETE FROM credentials WHERE key = ?1";
        self.state.write(move |change| change.execute(delete, sql_values![key]).map(drop)).await
    }

    /// Returns all names with this beginning. Names that cannot be decrypted are left out.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub async fn names(&self, beginning: &str) -> Result<Vec<String>, StoreError> {
        // Names of other kinds need not be decrypted.
        let family = beginning.contains(' ').then(|| self.family(beginning));
        let found = self.state.read(move |view| {
            let rows = match &family {
                Some(family) => {
                    view.query("SELECT key, name FROM credentials WHERE family = ?1", sql_values![family])?
                }
                None => view.query("SELECT key, name FROM credentials", sql_values![])?,
            };
            rows.iter()
                .map(|row| Ok((row.get(0)?, row.get(1)?)))
                .collect::<Result<Vec<(String, Vec<u8>)>, SqlError>>()
        });
        let opened = found.await?.into_iter().filter_map(|(key, name)| {
            let name = self.open(&name, &name_context(&key)).ok()?;
            Some(name.to_string()).filter(|name| name.starts_with(beginning))
        });
        Ok(opened.collect())
    }

    /// Acquires the lease of a document for `time`, unless another holder has it. There need not be such a document.
    ///
    /// # Errors
    /// If the lease cannot be written. A lease that was acquired nevertheless ends by itself.
    pub async fn acquire(
        &self,
        name: &str,
        time: SignedDuration,
    ) -> Result<Option<CredentialLease>, StoreError> {
        let (key, holder, now) = (self.key(name), random_id()?, self.state.now());
        let (wanted, mine) = (key.clone(), holder.clone());
        let until = now.saturating_add(time).unwrap_or(Timestamp::MAX).as_microsecond();
        let now = now.as_microsecond();
        let put = "INSERT INTO credential_leases (key, holder, until) VALUES (?1, ?2, ?3)
                   ON CONFLICT (key) DO UPDATE SET holder = excluded.holder, until = excluded.until
                   WHERE credential_leases.until <= ?4";
        let acquired = self.state.write_rows(move |change| {
            match change.execute(put, sql_values![wanted, mine, until, now])? {
                0 => Ok(None),
                _ => Ok(Some(revision_of(change, &wanted)?)),
            }
        });
        Ok(acquired.await?.map(|revision| CredentialLease { key, holder, revision }))
    }

    /// Ends a lease, if it is still that of its holder.
    ///
    /// # Errors
    /// If the end cannot be written. The lease ends by itself then.
    pub async fn release(&self, lease: &CredentialLease) -> Result<(), StoreError> {
        let (key, holder) = (lease.key.clone(), lease.holder.clone());
        let delete = "DELETE FROM credential_leases WHERE key = ?1 AND holder = ?2";
        self.state.write_rows(move |change| change.execute(delete, sql_values![key, holder]).map(drop)).await
    }

    /// Returns a counter of changes of the state: immediate for this process, within half a second for others. It also
    /// counts changes of other parts.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.state.changes()
    }

    fn key(&self, name: &str) -> String {
        self.keyed("name", name)
    }

    /// Returns the family of a name: of its first word, up to and with the space after it.
    fn family(&self, name: &str) -> String {
        let end = name.find(' ').map_or(name.len(), |space| space + 1);
        self.keyed("family", &name[..end])
    }

    fn keyed(&self, what: &str, text: &str) -> String {
        keyed(&self.names, what, text)
    }

    fn open(&self, sealed: &[u8], context: &[u8]) -> Result<Zeroizing<String>, StoreError> {
        let opened = self.seal.open(sealed, context)?;
        String::from_utf8(opened).map(Zeroizing::new).map_err(|_| StoreError::Sealed)
    }
}

/// Returns a keyed hash in hexadecimal digits. `what` must have no space.
pub(super) fn keyed(key: &hmac::Key, what: &str, text: &str) -> String {
    let mut hash = [0; 32];
    hash.copy_from_slice(hmac::sign(key, format!("{what} {text}").as_bytes()).as_ref());
    to_hex(&hash)
}

/// Returns a random id.
fn random_id() -> Result<String, StoreError> {
    let mut id = [0; 32];
    aws_lc_rs::rand::fill(&mut id).map_err(|_| StoreError::NoRandomBytes)?;
    Ok(to_hex(&id))
}

fn name_context(key: &str) -> Vec<u8> {
    format!("name {key}").into_bytes()
}

fn body_context(key: &str) -> Vec<u8> {
    format!("body {key}").into_bytes()
}

/// Returns true if this lease is still the holder's. Until the transaction ends, nobody else acquires it.
fn confirm_lease(change: &mut dyn SqlTransaction, lease: &CredentialLease) -> Result<bool, SqlError> {
    let touch = "UPDATE credential_leases SET holder = holder WHERE key = ?1 AND holder = ?2";
    Ok(change.execute(touch, sql_values![lease.key, lease.holder])? == 1)
}

fn revision_of(change: &mut dyn SqlTransaction, key: &str) -> Result<Option<String>, SqlError> {
    change.query_value("SELECT revision FROM credentials WHERE key = ?1", sql_values![key])
}

impl fmt::Debug for CredentialRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CredentialRecords").field(&self.state).finish()
    }
}
