//! Transactions on PostgreSQL.

use std::borrow::Cow;
use std::error::Error;
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::runtime::Handle;
use tokio_postgres::Row;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::PostgresError;
use crate::{SqlError, SqlResult, SqlRow, SqlTransaction, SqlValue};

/// A transaction, on a blocking thread.
///
/// Dropped without [`PostgresTransaction::into_client`], it closes its connection, and the server rolls it back.
pub(super) struct PostgresTransaction {
    client: Option<Object>,
    runtime: Handle,
    limit: Duration,
    /// True once a row was changed.
    pub(super) has_changes: bool,
}

impl PostgresTransaction {
    pub(super) fn new(client: Object, runtime: Handle, limit: Duration) -> Self {
        Self { client: Some(client), runtime, limit, has_changes: false }
    }

    /// Returns the connection for further use.
    pub(super) fn into_client(mut self) -> Option<Object> {
        self.client.take()
    }

    /// Rolls back, and gives the connection back.
    pub(super) fn end(self) {
        if self.batch("ROLLBACK").is_ok() {
            drop(self.into_client());
        }
    }

    /// Runs statements that have no parameters; returns the number of rows that the last one changed.
    pub(super) fn batch(&self, sql: &str) -> Result<u64, PostgresError> {
        use tokio_postgres::SimpleQueryMessage;
        let messages = self.wait(|client| client.simple_query(sql))?;
        let counts = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::CommandComplete(count) => Some(*count),
            _ => None,
        });
        Ok(counts.last().unwrap_or_default())
    }

    /// Waits for an answer of the server, for a limited time: a network that is cut gives none.
    fn wait<'a, T, F>(&'a self, run: impl FnOnce(&'a Object) -> F) -> Result<T, PostgresError>
    where
        F: Future<Output = Result<T, tokio_postgres::Error>> + 'a,
    {
        let client = self.client.as_ref().ok_or(PostgresError::NoAnswer)?;
        let answer = async { tokio::time::timeout(self.limit, run(client)).await };
        match self.runtime.block_on(answer) {
            Ok(answer) => answer.map_err(PostgresError::from),
            Err(_) => Err(PostgresError::NoAnswer),
        }
    }

    fn rows(&self, sql: &str, values: &[SqlValue<'_>]) -> Result<Vec<Row>, PostgresError> {
        let sql = numbered(sql);
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        self.wait(|client| async move {
            let statement = client.prepare_cached(&sql).await?;
            client.query(&statement, &values).await
        })
    }
}

impl Drop for PostgresTransaction {
    fn drop(&mut self) {
        // Out of the pool: nobody else may go on in the middle of a transaction.
        drop(self.client.take().map(Object::take));
    }
}

impl SqlTransaction for PostgresTransaction {
    fn execute(&mut self, sql: &str, values: &[SqlValue<'_>]) -> SqlResult<u64> {
        let sql = numbered(sql);
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        let changed = self.wait(|client| async move {
            let statement = client.prepare_cached(&sql).await?;
            client.execute(&statement, &values).await
        })?;
        self.has_changes |= changed > 0;
        Ok(changed)
    }

    fn query(&mut self, sql: &str, values: &[SqlValue<'_>]) -> SqlResult<Vec<SqlRow>> {
        let rows = self.rows(sql, values)?;
        // A statement that changes rows and returns them.
        self.has_changes |= !rows.is_empty() && !sql.trim_start().starts_with("SELECT");
        rows.iter().map(read).collect()
    }
}

/// Returns the statement with PostgreSQL's form of numbered parameters, `$1`. None of our statements has a question mark
/// in a text.
fn numbered(sql: &str) -> String {
    sql.replace('?', "$")
}

fn read(row: &Row) -> SqlResult<SqlRow> {
    let value = |column: usize| {
        let ty = row.columns()[column].type_();
        let read = match *ty {
            Type::BOOL => row.try_get::<_, Option<bool>>(column).map(|value| value.map(SqlValue::Bool)),
            Type::INT8 => row.try_get::<_, Option<i64>>(column).map(|value| value.map(SqlValue::Integer)),
            Type::INT4 => {
                let read = row.try_get::<_, Option<i32>>(column);
                read.map(|value| value.map(|value| SqlValue::Integer(value.into())))
            }
            Type::TEXT => {
                let read = row.try_get::<_, Option<String>>(column);
                read.map(|value| value.map(|value| SqlValue::Text(Cow::Owned(value))))
            }
            Type::BYTEA => {
                let read = row.try_get::<_, Option<Vec<u8>>>(column);
                read.map(|value| value.map(|value| SqlValue::Bytes(Cow::Owned(value))))
            }
            _ => return Err(SqlError::Value { column, expected: "of a type that this program uses" }),
        };
        Ok(read.map_err(PostgresError::from)?.unwrap_or(SqlValue::Null))
    };
    Ok(SqlRow((0..row.len()).map(value).collect::<SqlResult<_>>()?))
}

impl ToSql for SqlValue<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Bool(value) => value.to_sql_checked(ty, out),
            Self::Integer(value) if *ty == Type::INT4 => i32::try_from(*value)?.to_sql(ty, out),
            Self::Integer(value) => value.to_sql_checked(ty, out),
            Self::Text(value) => value.as_ref().to_sql_checked(ty, out),
            Self::Bytes(value) => value.as_ref().to_sql_checked(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        // Checked for each value, above.
        true
    }

    to_sql_checked!();
}
