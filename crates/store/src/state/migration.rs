//! The move of a host's state from its SQLite file to the PostgreSQL database of a fleet.
//!
//! The key of the state moves with it, sealed under the secret of the fleet. So what is sealed stays as it is, and
//! request states that applications hold stay valid: without them, no application could redeem a pending approval.
//! Digests of calls, by which approvals are found, could not be computed again for another key.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use hospes_sql::copy::{CopiedRow, CopiedTable, CopySide, RowConversion, RowConverter, count_rows};
pub use hospes_sql::copy::{CopySource, TableSummary};
use hospes_sql::postgres::DEFAULT_APPLICATION_NAME;
use hospes_sql::{
    ChangeScope, PostgresSettings, SqlEngine, SqlResult, SqlTransaction, SqlValue, SqliteSchema,
};
use hospes_sql::{SqliteSnapshot, sql_values};
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::shared_key::replace_shared_key;
use super::{SQLITE_PARTS, StateStore};
use crate::error::StoreError;
use crate::hex::to_hex;
use crate::key::{self, SealCipher, derive_key};

/// Migration steps. Never change a step; add one.
pub(super) const POSTGRES: &[&str] =
    &["CREATE TABLE state_migrations (source text PRIMARY KEY, at bigint NOT NULL)"];

/// Scope of the change: one host moves at a time.
const SCOPE: &str = "state migration";

/// State of a host, opened for reading alone.
pub struct HostState {
    source: CopySource,
    key: Option<Zeroizing<[u8; 32]>>,
}

/// Outcome of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveOutcome {
    /// Success: the whole state is in the database.
    Moved,
    /// Earlier move, at this time.
    MovedBefore(Timestamp),
    /// The database has rows of its own, in these tables. Nothing was changed.
    NotEmpty(Vec<(&'static str, u64)>),
    /// Refusal because of this number of open connections of nodes. Nothing was changed.
    NodesRun(u64),
}

impl HostState {
    /// Opens the state in this file, and its key beside it. Changes nothing.
    ///
    /// # Errors
    /// If a file cannot be read, is accessible to others or damaged, or the state was written by another version.
    pub fn open(file: impl AsRef<Path>) -> Result<Self, StoreError> {
        let file = file.as_ref();
        if matches!(key::is_private(file), Ok(false)) {
            return Err(StoreError::Exposed(file.to_owned()));
        }
        let snapshot = SqliteSnapshot::open(file, SqliteSchema::Parts(SQLITE_PARTS))?;
        let key = match key::read(&file.with_extension("key"), false) {
            // A host that never sealed anything has no key.
            Err(StoreError::KeyGone(_)) => None,
            key => Some(key?),
        };
        let cipher = |purpose: &str| {
            key.as_ref().map(|key| SealCipher::new(&derive_key("hospes state", key, purpose)))
        };
        let approvals = ApprovalRows(cipher("matters"));
        let sealed_body = || SealedBody(cipher("console sessions"));
        let tables = vec![
            CopiedTable::new("model budgets", "spending", &["one", "body"], &["one"]),
            CopiedTable::new("permissions", "grants", &["id", "body", "until", "used_at", "uses"], &["id"]),
            CopiedTable::new(
                "pinned servers",
                "pinned_servers",
                &[
                    "id",
                    "name",
                    "target",
                    "shown",
                    "program",
                    "program_hash",
                    "accepted_program",
                    "state",
                    "current",
                    "seen_at",
                    "decided_at",
                    "decided_by",
                ],
                &["id"],
            )
            .with_booleans(&["current"])
            .with_identity("id"),
            CopiedTable::new(
                "pinned definitions",
                "pinned_items",
                &[
                    "server",
                    "kind",
                    "name",
                    "hash",
                    "definition",
                    "state",
                    "current",
                    "sight",
                    "seen_at",
                    "decided_at",
                    "decided_by",
                ],
                &["server", "kind", "name", "hash"],
            )
            .with_booleans(&["current"]),
            CopiedTable::new(
                "audiences of servers",
                "pinned_sights",
                &["server", "sight"],
                &["server", "sight"],
            ),
            CopiedTable::new("tasks", "tasks", &["id", "body", "at"], &["id"]),
            CopiedTable::new(
                "pending approvals",
                "matters",
                &["rowid", "id", "until", "matter", "decided", "holder", "bond", "orphaned", "used_by"],
                &["rowid"],
            )
            .with_booleans(&["orphaned"])
            .with_identity("rowid")
            .with_rows(approvals),
            CopiedTable::new(
                "console sessions",
                "console_sessions",
                &["key", "id", "person", "opened", "seen", "until", "checked", "provider_session", "body"],
                &["key"],
            )
            .with_rows(sealed_body()),
            CopiedTable::new("console sign-ins", "console_sign_ins", &["key", "until", "body"], &["key"])
                .with_rows(sealed_body()),
            CopiedTable::new("sign-outs at the provider", "console_logouts", &["key", "until"], &["key"]),
        ];
        Ok(Self { source: CopySource::new(snapshot, tables), key })
    }

    /// Returns a secret for one purpose, as the nodes will derive it; `None` if the state has no key.
    #[must_use]
    pub fn secret(&self, purpose: &str) -> Option<Zeroizing<[u8; 32]>> {
        self.key.as_ref().map(|key| derive_key("hospes state", key, purpose))
    }

    /// Returns the tables.
    #[must_use]
    pub const fn source(&self) -> &CopySource {
        &self.source
    }

    /// Returns a name of this state that says nothing about its key.
    fn name(&self) -> String {
        self.secret("name of a moved state")
            .map_or_else(|| "state without a key".to_owned(), |name| to_hex(&*name))
    }
}

impl fmt::Debug for HostState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostState").field(&self.source).finish()
    }
}

/// Returns the numbers of rows in tables of a database, whose schema stays as it is. Missing tables are left out.
///
/// # Errors
/// If the database cannot be used.
pub async fn inspect(
    settings: PostgresSettings,
    tables: Vec<&'static str>,
) -> Result<Vec<(&'static str, u64)>, StoreError> {
    let engine = SqlEngine::inspect_postgres(settings).await?;
    Ok(engine.read(move |view| count_rows(view, &tables)).await?)
}

impl StateStore {
    /// Moves the state of a host, and `others`, into this database, in one transaction. `summaries` are those of the
    /// sources, and the copies are compared with them. `secrets` are those that this state was opened with. All handles
    /// on this state have to be opened again.
    ///
    /// # Errors
    /// If a database fails, or a copy differs from its source. Nothing was changed then, unless it is not known whether
    /// the change was made; a repetition finds out.
    pub async fn move_here(
        &self,
        host: Arc<HostState>,
        others: Arc<Vec<CopySource>>,
        summaries: Vec<TableSummary>,
        secrets: Vec<Zeroizing<[u8; 32]>>,
    ) -> Result<MoveOutcome, StoreError> {
        let now = self.clock().now();
        let moved = self.database.engine.write(ChangeScope::Named(SCOPE.to_owned()), move |change| {
            let tables = host.source.tables().iter().chain(others.iter().flat_map(CopySource::tables));
            let tables: Vec<&'static str> = tables.map(|table| table.target).collect();
            if let Some(obstacle) = find_obstacle(change, &host.name(), &tables)? {
                return Ok(obstacle);
            }
            host.source.copy(change, &summaries)?;
            others.iter().try_for_each(|source| source.copy(change, &summaries))?;
            if let Some(key) = &host.key {
                replace_shared_key(change, &secrets, key)?;
            }
            let mark = "INSERT INTO state_migrations (source, at) VALUES (?1, ?2)";
            change.execute(mark, sql_values![host.name(), now.as_microsecond()])?;
            Ok(MoveOutcome::Moved)
        });
        Ok(moved.await?)
    }
}

/// Returns why a state cannot be moved.
fn find_obstacle(
    change: &mut dyn SqlTransaction,
    name: &str,
    tables: &[&'static str],
) -> SqlResult<Option<MoveOutcome>> {
    let before = "SELECT at FROM state_migrations WHERE source = ?1";
    if let Some(at) = change.query_value::<i64>(before, sql_values![name])? {
        return Ok(Some(MoveOutcome::MovedBefore(Timestamp::from_microsecond(at).unwrap_or_default())));
    }
    let nodes = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND application_name = ?1";
    let nodes: Option<i64> = change.query_value(nodes, sql_values![DEFAULT_APPLICATION_NAME])?;
    if let Some(nodes @ 1..) = nodes {
        return Ok(Some(MoveOutcome::NodesRun(nodes.unsigned_abs())));
    }
    let mut counts = count_rows(change, tables)?;
    counts.retain(|(_, rows)| *rows > 0);
    Ok((!counts.is_empty()).then_some(MoveOutcome::NotEmpty(counts)))
}

/// Approvals, whose texts are sealed. The columns are those of the table above.
struct ApprovalRows(Option<SealCipher>);

impl RowConverter for ApprovalRows {
    fn convert(&self, row: CopiedRow) -> RowConversion {
        if self.opened(row.clone()).is_some() {
            RowConversion::Copied(row)
        } else {
            RowConversion::Unreadable
        }
    }

    fn contents(&self, row: CopiedRow, _side: CopySide) -> Option<CopiedRow> {
        self.opened(row)
    }
}

impl ApprovalRows {
    fn opened(&self, mut row: CopiedRow) -> Option<CopiedRow> {
        let SqlValue::Text(id) = row.get(1)?.clone() else { return None };
        for (column, what) in [(3, "matter"), (4, "decided")] {
            open(self.0.as_ref(), row.get_mut(column)?, format!("{what} {id}").as_bytes())?;
        }
        Some(row)
    }
}

/// Rows that begin with a key and end with a text that is sealed to it.
struct SealedBody(Option<SealCipher>);

impl RowConverter for SealedBody {
    fn convert(&self, row: CopiedRow) -> RowConversion {
        if self.opened(row.clone()).is_some() {
            RowConversion::Copied(row)
        } else {
            RowConversion::Unreadable
        }
    }

    fn contents(&self, row: CopiedRow, _side: CopySide) -> Option<CopiedRow> {
        self.opened(row)
    }
}

impl SealedBody {
    fn opened(&self, mut row: CopiedRow) -> Option<CopiedRow> {
        let SqlValue::Text(key) = row.first()?.clone() else { return None };
        open(self.0.as_ref(), row.last_mut()?, key.as_bytes())?;
        Some(row)
    }
}

/// Replaces a sealed value by its contents. An absent value stays absent.
fn open(cipher: Option<&SealCipher>, value: &mut SqlValue<'static>, context: &[u8]) -> Option<()> {
    match value {
        SqlValue::Null => Some(()),
        SqlValue::Bytes(sealed) => {
            let opened = cipher?.open(sealed, context).ok()?;
            *value = SqlValue::Bytes(opened.into());
            Some(())
        }
        _ => None,
    }
}
