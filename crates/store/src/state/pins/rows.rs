//! Queries for servers and items.

use aws_lc_rs::digest::{Context, SHA256};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::{
    ItemKind, ItemPinState, RecordedDefinition, ServerFingerprint, ServerPinState, Sha256Digest, StoredItem,
    StoredServer,
};

const SERVER: &str = "SELECT id, name, target, shown, program, program_hash, accepted_program, state, current, \
                      seen_at, decided_at, decided_by FROM pinned_servers";

const ITEM: &str = "SELECT kind, name, hash, state, current, seen_at, decided_at, decided_by";

pub(super) fn server(
    view: &Connection,
    name: &str,
    target: &Sha256Digest,
) -> rusqlite::Result<Option<StoredServer>> {
    Ok(with_id(view, name, target)?.map(|(_, server)| server))
}

/// Returns a server and its row id.
pub(super) fn with_id(
    view: &Connection,
    name: &str,
    target: &Sha256Digest,
) -> rusqlite::Result<Option<(i64, StoredServer)>> {
    let mut query = view.prepare_cached(&format!("{SERVER} WHERE name = ?1 AND target = ?2"))?;
    let found = query.query_row((name, target), read_server).optional()?;
    found.map(|found| whole(view, found)).transpose()
}

pub(super) fn servers(view: &rusqlite::Transaction<'_>) -> rusqlite::Result<Vec<StoredServer>> {
    let mut query =
        view.prepare_cached(&format!("{SERVER} ORDER BY name, current DESC, seen_at DESC, id DESC"))?;
    let found = query.query_map([], read_server)?.collect::<rusqlite::Result<Vec<_>>>()?;
    found.into_iter().map(|found| whole(view, found).map(|(_, server)| server)).collect()
}

pub(super) fn history(
    view: &Connection,
    name: &str,
    target: &Sha256Digest,
    item: Option<&(ItemKind, String)>,
) -> rusqlite::Result<Vec<RecordedDefinition>> {
    // Without an item two parameters are NULL, and `ifnull` then selects every row.
    let mut query = view.prepare_cached(&format!(
        "{ITEM}, definition FROM pinned_items
         WHERE server = (SELECT id FROM pinned_servers WHERE name = ?1 AND target = ?2)
           AND ifnull(kind = ?3 AND name = ?4, 1)
         ORDER BY seen_at DESC, current DESC, kind, name"
    ))?;
    let (kind, of) = (item.map(|(kind, _)| kind.as_str()), item.map(|(_, name)| name));
    let read = |row: &Row<'_>| Ok(RecordedDefinition { item: read_item(row)?, definition: row.get(8)? });
    query.query_map((name, target, kind, of), read)?.collect()
}

fn whole(view: &Connection, (id, mut server): (i64, StoredServer)) -> rusqlite::Result<(i64, StoredServer)> {
    let mut query = view.prepare_cached(&format!(
        "{ITEM} FROM pinned_items WHERE server = ?1 ORDER BY kind, name, seen_at"
    ))?;
    server.items = query.query_map([id], read_item)?.collect::<rusqlite::Result<_>>()?;
    server.hash = hash(&server);
    Ok((id, server))
}

/// Computes the hash of everything that a decision on the server covers.
fn hash(server: &StoredServer) -> Sha256Digest {
    let mut context = Context::new(&SHA256);
    let mut add = |part: &[u8]| {
        // Each part is preceded by its length, so that no bytes can be moved from one part to the next.
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    };
    add(server.fingerprint.target.as_bytes());
    add(server.fingerprint.program.as_deref().unwrap_or_default().as_bytes());
    add(server.fingerprint.program_hash.as_ref().map_or(&[][..], |hash| hash.as_bytes()));
    for item in server.items.iter().filter(|item| item.is_current) {
        add(item.kind.as_str().as_bytes());
        add(item.name.as_bytes());
        add(item.hash.as_bytes());
    }
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.finish().as_ref());
    Sha256Digest::new(bytes)
}

fn read_server(row: &Row<'_>) -> rusqlite::Result<(i64, StoredServer)> {
    let fingerprint = ServerFingerprint {
        target: row.get(2)?,
        shown: row.get(3)?,
        program: row.get(4)?,
        program_hash: row.get(5)?,
    };
    let server = StoredServer {
        name: row.get(1)?,
        hash: fingerprint.target,
        fingerprint,
        accepted_program: row.get(6)?,
        state: row.get(7)?,
        is_current: row.get(8)?,
        seen_at: row.get(9)?,
        decided_at: row.get(10)?,
        decided_by: row.get(11)?,
        items: Vec::new(),
    };
    Ok((row.get(0)?, server))
}

fn read_item(row: &Row<'_>) -> rusqlite::Result<StoredItem> {
    Ok(StoredItem {
        kind: row.get(0)?,
        name: row.get(1)?,
        hash: row.get(2)?,
        state: row.get(3)?,
        is_current: row.get(4)?,
        seen_at: row.get(5)?,
        decided_at: row.get(6)?,
        decided_by: row.get(7)?,
    })
}

impl ToSql for Sha256Digest {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_bytes().as_slice().into())
    }
}

impl FromSql for Sha256Digest {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        <[u8; 32]>::column_result(value).map(Self::new)
    }
}

/// Implements conversion from and to stored words. An unknown word was not written by this program and is an error.
macro_rules! by_word {
    ($type:ty, $($variant:ident = $word:literal),+) => {
        impl ToSql for $type {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(match self { $(Self::$variant => $word.into()),+ })
            }
        }

        impl FromSql for $type {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                match value.as_str()? {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(FromSqlError::InvalidType),
                }
            }
        }
    };
}

by_word!(ServerPinState, New = "new", Accepted = "accepted", Rejected = "rejected");
by_word!(ItemPinState, Waiting = "waiting", Accepted = "accepted", Rejected = "rejected");
by_word!(
    ItemKind,
    Instructions = "instructions",
    Tool = "tool",
    Prompt = "prompt",
    Template = "template",
    Resource = "resource"
);
