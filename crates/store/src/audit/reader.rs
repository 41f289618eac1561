//! Reading of an audit log: that of this host, or that of all nodes.

use jiff::Timestamp;

#[cfg(feature = "postgres")]
use super::SharedAuditLog;
use super::{AuditDigest, AuditLog, AuditQuery, GatheredEntry, RecordedEntry};
use crate::error::StoreError;

/// An audit log that is read. Cheap to clone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AuditReader {
    /// Log of this host.
    Local(AuditLog),
    /// Record of all nodes. The numbers of its entries are those of the record.
    #[cfg(feature = "postgres")]
    Shared(SharedAuditLog),
}

impl AuditReader {
    /// Returns the matching entries, newest first.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn search(&self, query: AuditQuery) -> Result<Vec<RecordedEntry>, StoreError> {
        match self {
            Self::Local(log) => log.search(query).await,
            #[cfg(feature = "postgres")]
            Self::Shared(log) => log.search(query).await,
        }
    }

    /// Returns entries in order, starting after a number, for reading all of them page by page.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn after(&self, number: u64, limit: usize) -> Result<Vec<RecordedEntry>, StoreError> {
        match self {
            Self::Local(log) => log.after(number, limit).await,
            #[cfg(feature = "postgres")]
            Self::Shared(log) => log.after(number, limit).await,
        }
    }

    /// Returns the number of the last entry, 0 if there is none.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn last_number(&self) -> Result<u64, StoreError> {
        match self {
            Self::Local(log) => {
                let last = log.search(AuditQuery::new().with_limit(1)).await?;
                Ok(last.first().map_or(0, |last| last.seq))
            }
            #[cfg(feature = "postgres")]
            Self::Shared(log) => log.last_number().await,
        }
    }

    /// Deletes the entries before a moment and returns their number, as [`AuditLog::delete_before`] does.
    ///
    /// # Errors
    /// If the log cannot be written.
    pub async fn delete_before(&self, before: Timestamp) -> Result<u64, StoreError> {
        match self {
            Self::Local(log) => log.delete_before(before).await,
            #[cfg(feature = "postgres")]
            Self::Shared(log) => log.delete_before(before).await,
        }
    }

    /// Decrypts the arguments of an entry. Returns `None` if there are none.
    ///
    /// # Errors
    /// If they were encrypted with another key or for another entry, or the log cannot be read.
    pub async fn unseal(&self, recorded: &RecordedEntry) -> Result<Option<String>, StoreError> {
        match self {
            Self::Local(log) => log.unseal(&recorded.entry),
            #[cfg(feature = "postgres")]
            Self::Shared(log) => log.unseal(recorded).await,
        }
    }
}

impl From<AuditLog> for AuditReader {
    fn from(log: AuditLog) -> Self {
        Self::Local(log)
    }
}

impl AuditLog {
    /// Searches as [`AuditReader::search_gathered`] does.
    ///
    /// # Errors
    /// If the audit log cannot be read.
    pub async fn search_gathered(&self, search: AuditQuery) -> Result<Vec<GatheredEntry>, StoreError> {
        AuditReader::from(self.clone()).search_gathered(search).await
    }

    /// Computes the digest of a time range.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn digest(&self, since: Timestamp, until: Timestamp) -> Result<AuditDigest, StoreError> {
        AuditReader::from(self.clone()).digest(since, until).await
    }
}
