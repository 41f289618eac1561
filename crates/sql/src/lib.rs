//! Transactions of SQL that do not depend on the engine.
//!
//! For `hospes-store` and `hospes-oauth-server`, whose data is in SQLite files or in a PostgreSQL database that several
//! nodes share (feature `postgres`).
//!
//! Changes are written once, in the SQL that both engines have in common: numbered parameters (`?1`), `ON CONFLICT`,
//! `RETURNING`, `coalesce`, `CASE`, `IS DISTINCT FROM` and `CAST`. Only the schema has one text for each engine. This
//! costs less than a method for each change in a trait with two implementations, and what one engine does, the other
//! does as well.
//!
//! A change of [`SqlEngine::write`] is one transaction that completes even if its caller is dropped. It takes effect
//! once: on PostgreSQL it stores its attempt, so a repetition after a lost connection finds it and has the same result.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use hospes_sql::{ChangeScope, SqlEngine, SqliteSchema, sql_values};
//!
//! let folder = tempfile::tempdir()?;
//! let schema = SqliteSchema::Parts(&[("notes", &["CREATE TABLE notes (text TEXT NOT NULL)"])]);
//! let engine = SqlEngine::open_sqlite(folder.path().join("notes.db"), schema)?;
//! let insert = "INSERT INTO notes (text) VALUES (?1)";
//! engine.write(ChangeScope::Part("notes"), |change| change.execute(insert, sql_values!["first"])).await?;
//! let count: Option<i64> = engine.read(|view| view.query_value("SELECT count(*) FROM notes", &[])).await?;
//! assert_eq!(count, Some(1));
//! # Ok(()) }
//! ```
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `engine` | [`SqlEngine`], one of the engines; [`ChangeScope`] |
//! | `transaction`, `value` | [`SqlTransaction`]; values of parameters and columns |
//! | [`sqlite`] | SQLite files: opening, migration, changes by other processes |
//! | `postgres` | PostgreSQL: settings, migration, attempts, advisory locks |
//! | `copy` | tables that move from a SQLite file to PostgreSQL |
//! | `error` | [`DatabaseError`] |

mod clock;
#[cfg(feature = "postgres")]
pub mod copy;
mod engine;
mod error;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod sqlite;
mod transaction;
mod value;

pub use clock::DatabaseClock;
pub use engine::{ChangeScope, SqlEngine};
pub use error::DatabaseError;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresMetrics, PostgresPart, PostgresSettings, PostgresSettingsError};
pub use sqlite::{SqlitePart, SqliteSchema, SqliteSnapshot};
pub use transaction::{SqlError, SqlResult, SqlTransaction};
pub use value::{FromSqlValue, SqlRow, SqlValue, ToSqlValue};
