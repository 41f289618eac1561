//! Values of parameters and columns.

use std::borrow::Cow;

use crate::transaction::{SqlError, SqlResult};

/// A value of a parameter or of a column.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SqlValue<'a> {
    /// No value.
    Null,
    /// A truth value. SQLite returns it as a number.
    Bool(bool),
    /// A number.
    Integer(i64),
    /// Text in UTF-8.
    Text(Cow<'a, str>),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
}

/// A row of a result.
#[derive(Clone, Debug)]
pub struct SqlRow(pub(crate) Vec<SqlValue<'static>>);

impl SqlRow {
    /// Returns the value of a column, counted from 0.
    ///
    /// # Errors
    /// If there is no such column, or its value is of another type.
    pub fn get<T: FromSqlValue>(&self, column: usize) -> SqlResult<T> {
        self.0
            .get(column)
            .and_then(T::from_sql_value)
            .ok_or(SqlError::Value { column, expected: T::EXPECTED })
    }
}

/// Conversion to the value of a parameter.
pub trait ToSqlValue {
    /// Returns the value, which borrows from this one.
    fn to_sql_value(&self) -> SqlValue<'_>;
}

/// Conversion from the value of a column.
pub trait FromSqlValue: Sized {
    /// Name of the type in errors.
    const EXPECTED: &'static str;

    /// Returns `None` if the value is of another type.
    fn from_sql_value(value: &SqlValue<'static>) -> Option<Self>;
}

impl ToSqlValue for bool {
    fn to_sql_value(&self) -> SqlValue<'_> {
        SqlValue::Bool(*self)
    }
}

impl ToSqlValue for i64 {
    fn to_sql_value(&self) -> SqlValue<'_> {
        SqlValue::Integer(*self)
    }
}

impl ToSqlValue for str {
    fn to_sql_value(&self) -> SqlValue<'_> {
        SqlValue::Text(Cow::Borrowed(self))
    }
}

impl ToSqlValue for String {
    fn to_sql_value(&self) -> SqlValue<'_> {
        self.as_str().to_sql_value()
    }
}

impl ToSqlValue for Vec<u8> {
    fn to_sql_value(&self) -> SqlValue<'_> {
        SqlValue::Bytes(Cow::Borrowed(self))
    }
}

impl<T: ToSqlValue + ?Sized> ToSqlValue for &T {
    fn to_sql_value(&self) -> SqlValue<'_> {
        (**self).to_sql_value()
    }
}

impl<T: ToSqlValue> ToSqlValue for Option<T> {
    fn to_sql_value(&self) -> SqlValue<'_> {
        self.as_ref().map_or(SqlValue::Null, ToSqlValue::to_sql_value)
    }
}

impl FromSqlValue for bool {
    const EXPECTED: &'static str = "a truth value";

    fn from_sql_value(value: &SqlValue<'static>) -> Option<Self> {
        match value {
            SqlValue::Bool(value) => Some(*value),
            // SQLite stores truth values as numbers.
            SqlValue::Integer(value) => Some(*value != 0),
            _ => None,
        }
    }
}

impl FromSqlValue for i64 {
    const EXPECTED: &'static str = "a number";

    fn from_sql_value(value: &SqlValue<'static>) -> Option<Self> {
        if let SqlValue::Integer(value) = value { Some(*value) } else { None }
    }
}

impl FromSqlValue for String {
    const EXPECTED: &'static str = "text";

    fn from_sql_value(value: &SqlValue<'static>) -> Option<Self> {
        if let SqlValue::Text(value) = value { Some(value.clone().into_owned()) } else { None }
    }
}

impl FromSqlValue for Vec<u8> {
    const EXPECTED: &'static str = "bytes";

    fn from_sql_value(value: &SqlValue<'static>) -> Option<Self> {
        if let SqlValue::Bytes(value) = value { Some(value.clone().into_owned()) } else { None }
    }
}

impl<T: FromSqlValue> FromSqlValue for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn from_sql_value(value: &SqlValue<'static>) -> Option<Self> {
        match value {
            SqlValue::Null => Some(None),
            value => T::from_sql_value(value).map(Some),
        }
    }
}
