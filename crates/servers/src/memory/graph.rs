//! The knowledge graph in its SQLite file. Several processes may open the file: each change is one transaction, and
//! writers wait for each other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hospes::prelude::*;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

/// Maximum time to wait while another process writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of a name of an entity or type, in bytes.
pub(super) const MAX_NAME: usize = 512;
/// Maximum length of an observation, in bytes.
pub(super) const MAX_OBSERVATION: usize = 16 * 1024;
/// Maximum number of items in one call.
pub(super) const MAX_ITEMS: usize = 1000;
/// Maximum number of observations of one entity.
const MAX_OBSERVATIONS: i64 = 1000;
/// Maximum size of the text of an answer, in bytes; at least one entity is included.
const MAX_ANSWER: usize = 256 * 1024;
/// Maximum number of relations in an answer.
const MAX_RELATIONS: usize = 2000;

/// Schema of the database, as a list of migrations.
const SCHEMA_STEPS: &[&str] = &["
    CREATE TABLE entity (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, type TEXT NOT NULL) STRICT;
    CREATE TABLE observation (
        id INTEGER PRIMARY KEY,
        entity INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
        text TEXT NOT NULL,
        UNIQUE (entity, text)
    ) STRICT;
    CREATE TABLE relation (
        id INTEGER PRIMARY KEY,
        source INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
        target INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
        type TEXT NOT NULL,
        UNIQUE (source, target, type)
    ) STRICT;
    CREATE INDEX relation_target ON relation (target);
    CREATE VIRTUAL TABLE words USING fts5 (
        name, type, observations, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
    );
"];

/// Something that is known of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entity {
    pub(super) name: String,
    /// What it is: a person, a project.
    pub(super) entity_type: String,
    /// What is known of it, one fact each.
    #[serde(default)]
    pub(super) observations: Vec<String>,
}

/// How one entity stands to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Relation {
    pub(super) from: String,
    pub(super) to: String,
    /// In the active voice: `works at`.
    pub(super) relation_type: String,
}

/// A part of the graph.
#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(super) struct Part {
    pub(super) entities: Vec<Entity>,
    /// Those that begin or end at one of these entities.
    pub(super) relations: Vec<Relation>,
    /// The `offset` to go on with; missing at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<usize>,
}

/// Reasons the memory file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The file or its folder cannot be created or opened.
    #[error("cannot open the memory {}", file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// Cause of the failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file was written by a newer version of this program.
    #[error("the memory {} was written by a newer version of this program", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
    },
    /// The file to import cannot be imported.
    #[error("cannot import {}: {why}", file.display())]
    Import {
        /// The file.
        file: PathBuf,
        /// Problem, and its place in the file.
        why: String,
    },
}

pub(super) struct KnowledgeGraph {
    connection: Connection,
    pub(super) max_entities: i64,
}

impl KnowledgeGraph {
    pub(super) fn open(file: &Path, max_entities: u32) -> Result<Self, MemoryError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| MemoryError::Open {
            file: file.to_owned(),
            source,
        };
        let broken = |why: rusqlite::Error| failed(why.into());
        // Before SQLite creates the file, which would get the permissions of the umask.
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.map_or(Ok(()), hospes_fs::create_private_folder).map_err(|why| failed(why.into()))?;
        hospes_fs::open_private(file).map_err(|why| failed(why.into()))?;
        let mut connection = Connection::open(file).map_err(broken)?;
        // Set first, because changing the journal mode may have to wait for another process.
        connection.busy_timeout(BUSY_TIMEOUT).map_err(broken)?;
        // With WAL, readers do not wait for a process that writes.
        connection.pragma_update(None, "journal_mode", "WAL").map_err(broken)?;
        // With WAL this keeps the file consistent; a power failure can only lose the last changes.
        connection.pragma_update(None, "synchronous", "NORMAL").map_err(broken)?;
        // SQLite enforces foreign keys only if the connection enables it.
        connection.pragma_update(None, "foreign_keys", true).map_err(broken)?;
        // Immediate: of two processes that start at the same time, only one must apply the migrations.
        let steps = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(broken)?;
        let done: u32 = steps.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(broken)?;
        let Some(missing) = SCHEMA_STEPS.get(done as usize..) else {
            return Err(MemoryError::Newer { file: file.to_owned() });
        };
        for step in missing {
            steps.execute_batch(step).map_err(broken)?;
        }
        steps
            .pragma_update(None, "user_version", u32::try_from(SCHEMA_STEPS.len()).unwrap_or(u32::MAX))
            .map_err(broken)?;
        steps.commit().map_err(broken)?;
        hospes_fs::restrict_database_files(file).map_err(|why| failed(why.into()))?;
        Ok(Self { connection, max_entities: max_entities.into() })
    }

    /// Runs several changes in one transaction.
    pub(super) fn change<T>(&mut self, change: impl FnOnce(&GraphTransaction<'_>) -> Result<T>) -> Result<T> {
        // Immediate, because a transaction that writes after reading can fail as busy without waiting.
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let changing = GraphTransaction { transaction, max_entities: self.max_entities };
        let done = change(&changing)?;
        changing.transaction.commit()?;
        Ok(done)
    }

    /// Returns some entities, in order of creation.
    pub(super) fn read(&self, offset: u32, limit: u32) -> Result<Part> {
        let mut ids =
            self.ids("SELECT id FROM entity ORDER BY id LIMIT ?1 OFFSET ?2", params![limit + 1, offset])?;
        let more = ids.len() > limit as usize;
        ids.truncate(limit as usize);
        let mut part = self.part(&ids)?;
        // The result may also have been cut because of its size.
        if more || part.entities.len() < ids.len() {
            part.next = Some(offset as usize + part.entities.len());
        }
        Ok(part)
    }

    pub(super) fn open_nodes(&self, names: &[String]) -> Result<Part> {
        let mut ids = Vec::new();
        for name in names {
            ids.extend(id(&self.connection, name)?);
        }
        self.part(&ids)
    }

    /// Returns the entities that contain all these words. If there are none, the whole text is searched as a substring;
    /// then any of the words.
    pub(super) fn search(&self, query: &str, limit: u32) -> Result<Part> {
        // Weights of name, type and observations: a match in the name is the most significant.
        let words =
            "SELECT rowid FROM words WHERE words MATCH ?1 ORDER BY bm25(words, 10.0, 3.0, 1.0) LIMIT ?2";
        let letters = |word: &str| word.chars().any(char::is_alphanumeric);
        let terms: Vec<String> = query
            .split_whitespace()
            // The tokenizer drops everything else, and an empty phrase joined with AND matches nothing.
            .filter(|word| letters(word))
            // Quoted, so that FTS5 operators are ordinary words.
            .map(|word| format!("\"{}\"*", word.replace('"', "\"\"")))
            .collect();
        let mut ids = Vec::new();
        if !terms.is_empty() {
            ids = self.ids(words, params![terms.join(" AND "), limit])?;
        }
        if ids.is_empty() {
            let escaped = query.trim().replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
            let inside = "SELECT DISTINCT entity.id FROM entity LEFT JOIN observation ON observation.entity = entity.id
                WHERE entity.name LIKE ?1 ESCAPE '\\' OR entity.type LIKE ?1 ESCAPE '\\' OR observation.text LIKE ?1 ESCAPE '\\'
                ORDER BY entity.id LIMIT ?2";
            ids = self.ids(inside, params![format!("%{escaped}%"), limit])?;
        }
        if ids.is_empty() && terms.len() > 1 {
            ids = self.ids(words, params![terms.join(" OR "), limit])?;
        }
        self.part(&ids)
    }

    /// Returns names with this prefix, newest first.
    pub(super) fn names(&self, typed: &str, limit: u32) -> Result<Vec<String>> {
        // `LIKE` would treat `%` and `_` in the typed text as wildcards.
        let mut found = self.connection.prepare_cached(
            "SELECT name FROM entity WHERE substr(lower(name), 1, length(?1)) = lower(?1) ORDER BY id DESC LIMIT ?2",
        )?;
        let names = found.query_map(params![typed, limit], |row| row.get(0))?;
        Ok(names.collect::<Result<_, _>>()?)
    }

    fn ids(&self, query: &str, params: impl rusqlite::Params) -> Result<Vec<i64>> {
        let mut found = self.connection.prepare_cached(query)?;
        let ids = found.query_map(params, |row| row.get(0))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    /// Returns these entities, up to the size of a result, and their relations.
    fn part(&self, ids: &[i64]) -> Result<Part> {
        // One transaction, so that the result is consistent.
        let look = self.connection.unchecked_transaction()?;
        let (mut part, mut length, mut taken) = (Part::default(), 0, BTreeSet::new());
        for id in ids {
            let Some(entity) = entity(&look, *id)? else { continue };
            length += entity.name.len() + entity.observations.iter().map(String::len).sum::<usize>();
            if length > MAX_ANSWER && !part.entities.is_empty() {
                break;
            }
            // One entity may be requested twice.
            if taken.insert(*id) {
                part.entities.push(entity);
            }
        }
        let mut found = look.prepare_cached(
            "SELECT relation.id, a.name, b.name, relation.type FROM relation
             JOIN entity a ON a.id = source JOIN entity b ON b.id = target WHERE source = ?1 OR target = ?1 ORDER BY relation.id",
        )?;
        let mut seen = BTreeSet::new();
        for id in &taken {
            let rows = found.query_map([id], |row| {
                let relation = Relation { from: row.get(1)?, to: row.get(2)?, relation_type: row.get(3)? };
                Ok((row.get::<_, i64>(0)?, relation))
            })?;
            for row in rows {
                let (id, relation) = row?;
                if part.relations.len() < MAX_RELATIONS && seen.insert(id) {
                    part.relations.push(relation);
                }
            }
        }
        Ok(part)
    }
}

/// Changes to the graph in one transaction.
pub(super) struct GraphTransaction<'c> {
    transaction: Transaction<'c>,
    max_entities: i64,
}

impl GraphTransaction<'_> {
    /// Creates an entity. Returns false if there is one of that name.
    pub(super) fn create(&self, entity: &Entity) -> Result<bool> {
        check(&entity.name, "name", MAX_NAME)?;
        check(&entity.entity_type, "entityType", MAX_NAME)?;
        if id(&self.transaction, &entity.name)?.is_some() {
            return Ok(false);
        }
        let count: i64 = self.transaction.query_row("SELECT count(*) FROM entity", [], |row| row.get(0))?;
        if count >= self.max_entities {
            return Err(Error::msg(format!("the memory is full: it has {count} entities (max_entities)")));
        }
        let insert = "INSERT INTO entity (name, type) VALUES (?1, ?2)";
        self.transaction.execute(insert, params![entity.name, entity.entity_type])?;
        self.observe_all(self.transaction.last_insert_rowid(), &entity.observations)?;
        Ok(true)
    }

    /// Adds new observations of an entity and returns those that were new. Returns `None` if there is no such entity.
    pub(super) fn observe(&self, name: &str, observations: &[String]) -> Result<Option<Vec<String>>> {
        let Some(id) = id(&self.transaction, name)? else { return Ok(None) };
        self.observe_all(id, observations).map(Some)
    }

    fn observe_all(&self, id: i64, observations: &[String]) -> Result<Vec<String>> {
        let mut insert = self
            .transaction
            .prepare_cached("INSERT OR IGNORE INTO observation (entity, text) VALUES (?1, ?2)")?;
        let mut added = Vec::new();
        for text in observations {
            check(text, "observation", MAX_OBSERVATION)?;
            if insert.execute(params![id, text])? > 0 {
                added.push(text.clone());
            }
        }
        // Counted afterwards, because known observations add nothing; an error rolls everything back.
        let count = "SELECT count(*) FROM observation WHERE entity = ?1";
        let count: i64 = self.transaction.query_row(count, [id], |row| row.get(0))?;
        if count > MAX_OBSERVATIONS {
            return Err(Error::msg(format!(
                "an entity has at most {MAX_OBSERVATIONS} observations: split it into several entities"
            )));
        }
        self.index(id)?;
        Ok(added)
    }

    /// Relates two entities. Returns false if they already were related, `None` if one of them does not exist.
    pub(super) fn relate(&self, relation: &Relation) -> Result<Option<bool>> {
        check(&relation.relation_type, "relationType", MAX_NAME)?;
        let ends = (id(&self.transaction, &relation.from)?, id(&self.transaction, &relation.to)?);
        let (Some(from), Some(to)) = ends else { return Ok(None) };
        let insert = "INSERT OR IGNORE INTO relation (source, target, type) VALUES (?1, ?2, ?3)";
        Ok(Some(self.transaction.execute(insert, params![from, to, relation.relation_type])? > 0))
    }

    /// Deletes an entity and its relations.
    pub(super) fn delete(&self, name: &str) -> Result<bool> {
        let Some(id) = id(&self.transaction, name)? else { return Ok(false) };
        // The virtual table has no foreign keys, so its row is deleted separately.
        self.transaction.execute("DELETE FROM words WHERE rowid = ?1", [id])?;
        Ok(self.transaction.execute("DELETE FROM entity WHERE id = ?1", [id])? > 0)
    }

    /// Deletes observations of an entity and returns their number.
    pub(super) fn forget(&self, name: &str, observations: &[String]) -> Result<usize> {
        let Some(id) = id(&self.transaction, name)? else { return Ok(0) };
        let mut gone = 0;
        for text in observations {
            let delete = "DELETE FROM observation WHERE entity = ?1 AND text = ?2";
            gone += self.transaction.execute(delete, params![id, text])?;
        }
        self.index(id)?;
        Ok(gone)
    }

    pub(super) fn unrelate(&self, relation: &Relation) -> Result<bool> {
        let ends = (id(&self.transaction, &relation.from)?, id(&self.transaction, &relation.to)?);
        let (Some(from), Some(to)) = ends else { return Ok(false) };
        let delete = "DELETE FROM relation WHERE source = ?1 AND target = ?2 AND type = ?3";
        Ok(self.transaction.execute(delete, params![from, to, relation.relation_type])? > 0)
    }

    /// Updates the search index of an entity.
    fn index(&self, id: i64) -> Result<()> {
        let Some(entity) = entity(&self.transaction, id)? else { return Ok(()) };
        self.transaction.execute("DELETE FROM words WHERE rowid = ?1", [id])?;
        self.transaction.execute(
            "INSERT INTO words (rowid, name, type, observations) VALUES (?1, ?2, ?3, ?4)",
            params![id, entity.name, entity.entity_type, entity.observations.join("\n")],
        )?;
        Ok(())
    }
}

fn id(connection: &Connection, name: &str) -> Result<Option<i64>> {
    let mut found = connection.prepare_cached("SELECT id FROM entity WHERE name = ?1")?;
    Ok(found.query_row([name], |row| row.get(0)).optional()?)
}

fn entity(connection: &Connection, id: i64) -> Result<Option<Entity>> {
    let mut found = connection.prepare_cached("SELECT name, type FROM entity WHERE id = ?1")?;
    let found = found.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((name, entity_type)) = found else { return Ok(None) };
    let mut texts =
        connection.prepare_cached("SELECT text FROM observation WHERE entity = ?1 ORDER BY id")?;
    let observations = texts.query_map([id], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(Some(Entity { name, entity_type, observations }))
}

fn check(text: &str, what: &str, most: usize) -> Result<()> {
    if text.trim().is_empty() {
        return Err(Error::msg(format!("{what} is empty")));
    }
    if text.len() > most {
        return Err(Error::msg(format!("{what} has {} bytes, and at most {most} are stored", text.len())));
    }
    Ok(())
}
