//! Tables that move from a SQLite file to PostgreSQL.
//!
//! The copy is made within one transaction of the target, and compared before it ends: it is there as a whole or not at
//! all, whenever the program is ended. Rows are read in the order of their keys, a batch at a time. Two tables are equal
//! if they have the same number of rows and the same digest: SHA-256 over the sorted digests of their rows.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};

use crate::error::DatabaseError;
use crate::sqlite::SqliteSnapshot;
use crate::transaction::{SqlError, SqlResult, SqlTransaction};
use crate::value::SqlValue;

/// Number of rows that are read at once.
const BATCH_ROWS: usize = 1000;
/// Number of rows that one statement inserts.
const INSERTED_ROWS: usize = 100;
/// Maximum number of unreadable rows that are named.
const NAMED_ROWS: usize = 20;

/// Values of a row, in the order of the columns of its table.
pub type CopiedRow = Vec<SqlValue<'static>>;

/// Database of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a copy has two sides")]
pub enum CopySide {
    /// The file.
    Source,
    /// The PostgreSQL database.
    Target,
}

/// Treatment of a row.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a copy treats each case")]
pub enum RowConversion {
    /// Copy with these values.
    Copied(CopiedRow),
    /// Omission: the row means nothing in the target.
    Omitted,
    /// Failure to open what the row has sealed: it was changed, or sealed with another key.
    Unreadable,
}

/// Conversion of the rows of a table.
pub trait RowConverter: Send + Sync {
    /// Returns what becomes of a row.
    fn convert(&self, row: CopiedRow) -> RowConversion {
        RowConversion::Copied(row)
    }

    /// Returns a row with the contents of what it has sealed, for a comparison; `None` if that does not open.
    fn contents(&self, row: CopiedRow, side: CopySide) -> Option<CopiedRow> {
        let _ = side;
        Some(row)
    }
}

/// Rows that are copied as they are.
#[derive(Clone, Copy, Debug)]
struct PlainRows;

impl RowConverter for PlainRows {}

/// Table that is copied.
#[derive(Clone)]
#[non_exhaustive]
pub struct CopiedTable {
    /// Name for people.
    pub title: &'static str,
    /// Name in the file.
    pub source: &'static str,
    /// Name in PostgreSQL.
    pub target: &'static str,
    columns: &'static [&'static str],
    keys: &'static [&'static str],
    booleans: &'static [&'static str],
    identity: Option<&'static str>,
    rows: Arc<dyn RowConverter>,
}

impl CopiedTable {
    /// Creates a table whose rows have these columns, and are found by the `keys` among them.
    #[must_use]
    pub fn new(
        title: &'static str,
        name: &'static str,
        columns: &'static [&'static str],
        keys: &'static [&'static str],
    ) -> Self {
        let rows = Arc::new(PlainRows);
        Self { title, source: name, target: name, columns, keys, booleans: &[], identity: None, rows }
    }

    /// Sets another name in PostgreSQL.
    #[must_use]
    pub fn named_in_postgres(mut self, name: &'static str) -> Self {
        self.target = name;
        self
    }

    /// Names the columns of truth values, which SQLite has as numbers.
    #[must_use]
    pub fn with_booleans(mut self, columns: &'static [&'static str]) -> Self {
        self.booleans = columns;
        self
    }

    /// Names the column whose values PostgreSQL generates. Those of the file are kept.
    #[must_use]
    pub fn with_identity(mut self, column: &'static str) -> Self {
        self.identity = Some(column);
        self
    }

    /// Sets how rows are converted.
    #[must_use]
    pub fn with_rows(mut self, rows: impl RowConverter + 'static) -> Self {
        self.rows = Arc::new(rows);
        self
    }

    /// Reads all rows in the order of their keys.
    fn each_row(
        &self,
        view: &mut dyn SqlTransaction,
        side: CopySide,
        mut work: impl FnMut(CopiedRow) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let name = match side {
            CopySide::Source => self.source,
            CopySide::Target => self.target,
        };
        let (columns, keys) = (self.columns.join(", "), self.keys.join(", "));
        let numbers: Vec<String> = (1..=self.keys.len()).map(|number| format!("?{number}")).collect();
        let numbers = numbers.join(", ");
        let first = format!("SELECT {columns} FROM {name} ORDER BY {keys} LIMIT {BATCH_ROWS}");
        let next = format!(
            "SELECT {columns} FROM {name} WHERE ({keys}) > ({numbers}) ORDER BY {keys} LIMIT {BATCH_ROWS}"
        );
        let mut after: Option<CopiedRow> = None;
        loop {
            let rows = match &after {
                None => view.query(&first, &[])?,
                Some(keys) => view.query(&next, keys)?,
            };
            let count = rows.len();
            for row in rows {
                let mut row = row.0;
                for (column, value) in self.columns.iter().zip(&mut row) {
                    if let SqlValue::Integer(number) = value
                        && self.booleans.contains(column)
                    {
                        *value = SqlValue::Bool(*number != 0);
                    }
                }
                after = Some(self.keys_of(&row));
                work(row)?;
            }
            if count < BATCH_ROWS {
                return Ok(());
            }
        }
    }

    fn keys_of(&self, row: &CopiedRow) -> CopiedRow {
        let columns = self.columns.iter().zip(row);
        // Keys are few, and in the order of `keys`.
        let value =
            |key: &&str| columns.clone().find(|(column, _)| *column == key).map(|(_, value)| value.clone());
        self.keys.iter().filter_map(value).collect()
    }

    fn row_name(&self, row: &CopiedRow) -> String {
        let value = |(column, value): (&&str, &SqlValue<'_>)| match value {
            SqlValue::Text(text) => Some(format!("{column} {text}")),
            SqlValue::Integer(number) => Some(format!("{column} {number}")),
            _ => None,
        };
        let named = self.columns.iter().zip(row).filter(|(column, _)| ["kind", "key", "id"].contains(column));
        named.filter_map(value).collect::<Vec<_>>().join(", ")
    }

    /// Counts and digests the rows of the file that are copied.
    fn summarize(&self, view: &mut dyn SqlTransaction) -> SqlResult<TableSummary> {
        let mut summary = TableSummary { title: self.title, ..TableSummary::default() };
        let mut digests = Vec::new();
        self.each_row(view, CopySide::Source, |row| {
            match self.rows.convert(row.clone()) {
                RowConversion::Omitted => summary.omitted += 1,
                RowConversion::Copied(_) => match self.rows.contents(row.clone(), CopySide::Source) {
                    Some(contents) => digests.push(row_digest(&contents)),
                    None => summary.note_unreadable(self.row_name(&row)),
                },
                RowConversion::Unreadable => summary.note_unreadable(self.row_name(&row)),
            }
            Ok(())
        })?;
        (summary.rows, summary.digest) = table_digest(digests);
        Ok(summary)
    }

    /// Copies the rows. Those that do not open are left out.
    fn copy(&self, view: &mut dyn SqlTransaction, change: &mut dyn SqlTransaction) -> SqlResult<()> {
        let mut waiting: Vec<CopiedRow> = Vec::new();
        self.each_row(view, CopySide::Source, |row| {
            if let RowConversion::Copied(row) = self.rows.convert(row) {
                waiting.push(row);
            }
            if waiting.len() == INSERTED_ROWS { self.insert(change, &mut waiting) } else { Ok(()) }
        })?;
        self.insert(change, &mut waiting)?;
        if let Some(column) = self.identity {
            let table = self.target;
            // The next generated value comes after those that were copied.
            let sql = format!(
                "SELECT setval(pg_get_serial_sequence('{table}', '{column}'), max({column})) FROM {table}"
            );
            change.query(&sql, &[])?;
        }
        Ok(())
    }

    fn insert(&self, change: &mut dyn SqlTransaction, waiting: &mut Vec<CopiedRow>) -> SqlResult<()> {
        let rows = std::mem::take(waiting);
        if rows.is_empty() {
            return Ok(());
        }
        let width = self.columns.len();
        let row = |at: usize| {
            let numbers: Vec<_> = (1..=width).map(|column| format!("?{}", at * width + column)).collect();
            format!("({})", numbers.join(", "))
        };
        let places: Vec<String> = (0..rows.len()).map(row).collect();
        let overriding = if self.identity.is_some() { "OVERRIDING SYSTEM VALUE " } else { "" };
        let (table, columns) = (self.target, self.columns.join(", "));
        let sql = format!("INSERT INTO {table} ({columns}) {overriding}VALUES {}", places.join(", "));
        change.execute(&sql, &rows.concat())?;
        Ok(())
    }

    /// Compares the rows of the target with those of the file.
    fn verify(&self, view: &mut dyn SqlTransaction, expected: &TableSummary) -> SqlResult<()> {
        let mut digests = Vec::new();
        self.each_row(view, CopySide::Target, |row| {
            let contents = self.rows.contents(row, CopySide::Target);
            digests.push(row_digest(&contents.ok_or(SqlError::CopyDiffers(self.title))?));
            Ok(())
        })?;
        let (rows, digest) = table_digest(digests);
        let is_equal = (rows, &digest) == (expected.rows, &expected.digest);
        if is_equal { Ok(()) } else { Err(SqlError::CopyDiffers(self.title)) }
    }
}

impl fmt::Debug for CopiedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CopiedTable").field(&self.source).finish()
    }
}

/// Rows of a table that are copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSummary {
    /// Name for people.
    pub title: &'static str,
    /// Number of rows that are copied.
    pub rows: u64,
    /// Number of rows that mean nothing in the target.
    pub omitted: u64,
    /// Number of rows that do not open.
    pub unreadable: u64,
    /// The first of them.
    pub unreadable_rows: Vec<String>,
    /// SHA-256 of the rows that are copied, opened, in hexadecimal.
    pub digest: String,
}

impl TableSummary {
    fn note_unreadable(&mut self, row: String) {
        self.unreadable += 1;
        if self.unreadable_rows.len() < NAMED_ROWS {
            self.unreadable_rows.push(row);
        }
    }
}

/// File whose tables are copied.
#[derive(Debug)]
pub struct CopySource {
    snapshot: SqliteSnapshot,
    tables: Vec<CopiedTable>,
}

impl CopySource {
    /// Creates a source. A table comes after those that it refers to.
    #[must_use]
    pub fn new(snapshot: SqliteSnapshot, tables: Vec<CopiedTable>) -> Self {
        Self { snapshot, tables }
    }

    /// Tables of the source.
    #[must_use]
    pub fn tables(&self) -> &[CopiedTable] {
        &self.tables
    }

    /// Counts and digests the rows that are copied.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn summarize(&self) -> Result<Vec<TableSummary>, DatabaseError> {
        let summaries =
            self.snapshot.read(|view| self.tables.iter().map(|table| table.summarize(view)).collect());
        summaries.map_err(|error| self.snapshot.failure(error))
    }

    /// Copies all tables, and compares the copies with the summaries of the source.
    ///
    /// # Errors
    /// If either database fails, or a copy differs: the source has changed since it was summarized.
    pub fn copy(&self, change: &mut dyn SqlTransaction, expected: &[TableSummary]) -> SqlResult<()> {
        self.snapshot.read(|view| self.tables.iter().try_for_each(|table| table.copy(view, change)))?;
        let summary = |table: &CopiedTable| expected.iter().find(|summary| summary.title == table.title);
        for table in &self.tables {
            table.verify(change, summary(table).ok_or(SqlError::CopyDiffers(table.title))?)?;
        }
        Ok(())
    }
}

/// Counts the rows of tables in PostgreSQL. Missing tables have none.
///
/// # Errors
/// If the database fails.
pub fn count_rows(
    view: &mut dyn SqlTransaction,
    tables: &[&'static str],
) -> SqlResult<Vec<(&'static str, u64)>> {
    let mut counts = Vec::new();
    for table in tables {
        let exists = format!("SELECT to_regclass('{table}') IS NOT NULL");
        let exists: Option<bool> = view.query_value(&exists, &[])?;
        if exists == Some(true) {
            let count: Option<i64> = view.query_value(&format!("SELECT count(*) FROM {table}"), &[])?;
            counts.push((*table, count.and_then(|count| count.try_into().ok()).unwrap_or_default()));
        }
    }
    Ok(counts)
}

fn row_digest(row: &CopiedRow) -> [u8; 32] {
    let mut text = Vec::new();
    for value in row {
        let (tag, bytes): (u8, Vec<u8>) = match value {
            SqlValue::Null => (0, Vec::new()),
            SqlValue::Bool(value) => (1, vec![u8::from(*value)]),
            SqlValue::Integer(value) => (2, value.to_be_bytes().to_vec()),
            SqlValue::Text(value) => (3, value.as_bytes().to_vec()),
            SqlValue::Bytes(value) => (4, value.to_vec()),
        };
        text.push(tag);
        text.extend((bytes.len() as u64).to_be_bytes());
        text.extend(bytes);
    }
    sha256(&text)
}

fn table_digest(mut rows: Vec<[u8; 32]>) -> (u64, String) {
    rows.sort_unstable();
    let digest = sha256(&rows.concat());
    (rows.len() as u64, digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut all = [0; 32];
    all.copy_from_slice(digest(&SHA256, bytes).as_ref());
    all
}
