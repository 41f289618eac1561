//! Transactions, whatever their engine is.

use std::sync::Arc;

use crate::value::{FromSqlValue, SqlRow, SqlValue};

/// Cause of a failure in a transaction.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// SQLite failed.
    #[error(transparent)]
    Sqlite(Arc<rusqlite::Error>),
    /// PostgreSQL failed.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(#[from] crate::postgres::PostgresError),
    /// A column has a value that this program does not write.
    #[error("column {column} of a result is not {expected}")]
    Value {
        /// Place of the column, from 0.
        column: usize,
        /// Name of the expected type.
        expected: &'static str,
    },
    /// A table differs from the one that it was copied from.
    #[error("the copy of {0} differs from its source")]
    CopyDiffers(&'static str),
    /// A step refuses the change, which is rolled back.
    #[error("{0}")]
    Refused(&'static str),
    /// A row that must exist is missing.
    #[error("a row that was written is missing")]
    Missing,
}

/// Result of a step in a transaction.
pub type SqlResult<T> = Result<T, SqlError>;

/// A transaction on one of the engines. It blocks, so it runs on a thread for that.
pub trait SqlTransaction {
    /// Runs a statement and returns the number of changed rows.
    ///
    /// # Errors
    /// If the engine fails.
    fn execute(&mut self, sql: &str, values: &[SqlValue<'_>]) -> SqlResult<u64>;

    /// Runs a statement and returns its rows.
    ///
    /// # Errors
    /// If the engine fails, or a column has a type that this program does not use.
    fn query(&mut self, sql: &str, values: &[SqlValue<'_>]) -> SqlResult<Vec<SqlRow>>;
}

impl dyn SqlTransaction + '_ {
    /// Returns the first row, if there is one.
    ///
    /// # Errors
    /// Those of [`SqlTransaction::query`].
    pub fn query_first(&mut self, sql: &str, values: &[SqlValue<'_>]) -> SqlResult<Option<SqlRow>> {
        Ok(self.query(sql, values)?.into_iter().next())
    }

    /// Returns the first column of the first row, if there is one.
    ///
    /// # Errors
    /// Those of [`SqlTransaction::query`], and if the column has another type.
    pub fn query_value<T: FromSqlValue>(
        &mut self,
        sql: &str,
        values: &[SqlValue<'_>],
    ) -> SqlResult<Option<T>> {
        self.query_first(sql, values)?.map(|row| row.get(0)).transpose()
    }
}

/// Lists the values of numbered parameters.
#[macro_export]
macro_rules! sql_values {
    ($($value:expr),* $(,)?) => {
        &[$($crate::ToSqlValue::to_sql_value(&$value)),*][..]
    };
}
