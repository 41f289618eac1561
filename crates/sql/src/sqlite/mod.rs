//! SQLite files.

mod change_watch;
mod engine;
mod file;
mod snapshot;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Rows, ToSql, Transaction, params_from_iter};

pub(crate) use engine::SqliteEngine;
pub use engine::{SqlitePart, SqliteSchema};
pub use file::{examine, open};
pub use snapshot::SqliteSnapshot;

use crate::{SqlError, SqlResult, SqlRow, SqlTransaction, SqlValue};

impl SqlTransaction for Transaction<'_> {
    fn execute(&mut self, sql: &str, values: &[SqlValue<'_>]) -> SqlResult<u64> {
        let changed = self.prepare_cached(sql)?.execute(params_from_iter(values))?;
        Ok(changed as u64)
    }

    fn query(&mut self, sql: &str, values: &[SqlValue<'_>]) -> SqlResult<Vec<SqlRow>> {
        let mut statement = self.prepare_cached(sql)?;
        let columns = statement.column_count();
        let rows = statement.query(params_from_iter(values))?;
        read(rows, columns)
    }
}

fn read(mut rows: Rows<'_>, columns: usize) -> SqlResult<Vec<SqlRow>> {
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let values = (0..columns).map(|column| value(row.get_ref(column)?, column));
        all.push(SqlRow(values.collect::<SqlResult<_>>()?));
    }
    Ok(all)
}

fn value(value: ValueRef<'_>, column: usize) -> SqlResult<SqlValue<'static>> {
    let text = |text: &[u8]| String::from_utf8(text.to_vec()).ok();
    let read = match value {
        ValueRef::Null => Some(SqlValue::Null),
        ValueRef::Integer(number) => Some(SqlValue::Integer(number)),
        ValueRef::Real(_) => None,
        ValueRef::Text(bytes) => text(bytes).map(|text| SqlValue::Text(Cow::Owned(text))),
        ValueRef::Blob(bytes) => Some(SqlValue::Bytes(Cow::Owned(bytes.to_vec()))),
    };
    read.ok_or(SqlError::Value { column, expected: "a number, UTF-8 text or bytes" })
}

impl ToSql for SqlValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(Value::Null),
            Self::Bool(value) => ToSqlOutput::Owned(Value::Integer((*value).into())),
            Self::Integer(value) => ToSqlOutput::Owned(Value::Integer(*value)),
            Self::Text(value) => ToSqlOutput::Borrowed(ValueRef::Text(value.as_bytes())),
            Self::Bytes(value) => ToSqlOutput::Borrowed(ValueRef::Blob(value)),
        })
    }
}

impl From<rusqlite::Error> for SqlError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(Arc::new(error))
    }
}
