//! Transactions of SQL that do not depend on the engine.
//!
//! The parts of the state are written once, in the SQL that all engines have in common: numbered parameters (`?1`),
//! `ON CONFLICT`, `RETURNING`, `coalesce`, `CASE`, `IS DISTINCT FROM` and `CAST`. Only the schema has one text for each
//! engine. This costs less than a method for each change in a trait with two implementations, and what one engine
//! does, the other does as well.

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod sqlite;
mod value;

use std::sync::Arc;

pub(crate) use value::{FromSqlValue, SqlRow, SqlValue, ToSqlValue};

/// Cause of a failure in a transaction.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum SqlError {
    /// SQLite failed.
    #[error(transparent)]
    Sqlite(Arc<rusqlite::Error>),
    /// PostgreSQL failed.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(#[from] postgres::PostgresError),
    /// A column has a value that this program does not write.
    #[error("column {column} of a result is not {expected}")]
    Value {
        /// Place of the column, from 0.
        column: usize,
        /// Name of the expected type.
        expected: &'static str,
    },
    /// A row that must exist is missing.
    #[error("a row that was written is missing")]
    Missing,
}

/// Result of a step in a transaction.
pub(crate) type SqlResult<T> = Result<T, SqlError>;

/// A transaction on one of the engines. It blocks, so it runs on a thread for that.
pub(crate) trait SqlTransaction {
    /// Runs a statement and returns the number of changed rows.
    fn execute(&mut self, sql: &str, values: &[SqlValue<'_>]) -> SqlResult<u64>;

    /// Runs a statement and returns its rows.
    fn query(&mut self, sql: &str, values: &[SqlValue<'_>]) -> SqlResult<Vec<SqlRow>>;
}

impl dyn SqlTransaction + '_ {
    /// Returns the first row, if there is one.
    pub(crate) fn query_first(&mut self, sql: &str, values: &[SqlValue<'_>]) -> SqlResult<Option<SqlRow>> {
        Ok(self.query(sql, values)?.into_iter().next())
    }

    /// Returns the first column of the first row, if there is one.
    pub(crate) fn query_value<T: FromSqlValue>(
        &mut self,
        sql: &str,
        values: &[SqlValue<'_>],
    ) -> SqlResult<Option<T>> {
        self.query_first(sql, values)?.map(|row| row.get(0)).transpose()
    }
}

/// Lists the values of numbered parameters.
macro_rules! sql_values {
    ($($value:expr),* $(,)?) => {
        &[$($crate::sql::ToSqlValue::to_sql_value(&$value)),*][..]
    };
}
pub(crate) use sql_values;
