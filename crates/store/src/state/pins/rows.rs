//! Queries for servers and items.

use aws_lc_rs::digest::{Context, SHA256};

use super::{
    ItemKind, ItemPinState, RecordedDefinition, ServerFingerprint, ServerPinState, Sha256Digest, StoredItem,
    StoredServer,
};
use hospes_sql::{FromSqlValue, SqlResult, SqlRow, SqlTransaction, SqlValue, ToSqlValue, sql_values};

const SERVER: &str = "SELECT id, name, target, shown, program, program_hash, accepted_program, state, current, \
                      seen_at, decided_at, decided_by FROM pinned_servers";

const ITEM: &str = "SELECT kind, name, hash, state, current, seen_at, decided_at, decided_by";

pub(super) fn server(
    view: &mut dyn SqlTransaction,
    name: &str,
    target: &Sha256Digest,
) -> SqlResult<Option<StoredServer>> {
    Ok(with_id(view, name, target)?.map(|(_, server)| server))
}

/// Returns a server and its row id.
pub(super) fn with_id(
    view: &mut dyn SqlTransaction,
    name: &str,
    target: &Sha256Digest,
) -> SqlResult<Option<(i64, StoredServer)>> {
    let found =
        view.query_first(&format!("{SERVER} WHERE name = ?1 AND target = ?2"), sql_values![name, target])?;
    found.map(|row| whole(view, read_server(&row)?)).transpose()
}

pub(super) fn servers(view: &mut dyn SqlTransaction) -> SqlResult<Vec<StoredServer>> {
    let found = view.query(&format!("{SERVER} ORDER BY name, current DESC, seen_at DESC, id DESC"), &[])?;
    found.iter().map(|row| whole(view, read_server(row)?).map(|(_, server)| server)).collect()
}

pub(super) fn history(
    view: &mut dyn SqlTransaction,
    name: &str,
    target: &Sha256Digest,
    item: Option<&(ItemKind, String)>,
) -> SqlResult<Vec<RecordedDefinition>> {
    // Without an item two parameters are NULL, and `coalesce` then selects every row.
    let query = format!(
        "{ITEM}, definition FROM pinned_items
         WHERE server = (SELECT id FROM pinned_servers WHERE name = ?1 AND target = ?2)
           AND coalesce(kind = ?3 AND name = ?4, TRUE)
         ORDER BY seen_at DESC, current DESC, kind, name"
    );
    let (kind, of) = (item.map(|(kind, _)| kind.as_str()), item.map(|(_, name)| name));
    let rows = view.query(&query, sql_values![name, target, kind, of])?;
    rows.iter().map(|row| Ok(RecordedDefinition { item: read_item(row)?, definition: row.get(8)? })).collect()
}

fn whole(
    view: &mut dyn SqlTransaction,
    (id, mut server): (i64, StoredServer),
) -> SqlResult<(i64, StoredServer)> {
    let items = format!("{ITEM} FROM pinned_items WHERE server = ?1 ORDER BY kind, name, seen_at");
    let items = view.query(&items, sql_values![id])?;
    server.items = items.iter().map(read_item).collect::<SqlResult<_>>()?;
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

fn read_server(row: &SqlRow) -> SqlResult<(i64, StoredServer)> {
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

fn read_item(row: &SqlRow) -> SqlResult<StoredItem> {
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

impl ToSqlValue for Sha256Digest {
    fn to_sql_value(&self) -> SqlValue<'_> {
        SqlValue::Bytes(self.as_bytes().into())
    }
}

impl FromSqlValue for Sha256Digest {
    const EXPECTED: &'static str = "32 bytes";

    fn from_sql_value(value: &SqlValue<'static>) -> Option<Self> {
        if let SqlValue::Bytes(bytes) = value { bytes[..].try_into().ok().map(Self::new) } else { None }
    }
}

/// Implements conversion from and to stored words. An unknown word was not written by this program and is an error.
macro_rules! by_word {
    ($type:ty, $($variant:ident = $word:literal),+) => {
        impl ToSqlValue for $type {
            fn to_sql_value(&self) -> SqlValue<'_> {
                match self { $(Self::$variant => $word.to_sql_value()),+ }
            }
        }

        impl FromSqlValue for $type {
            const EXPECTED: &'static str = "a known word";

            fn from_sql_value(value: &SqlValue<'static>) -> Option<Self> {
                let SqlValue::Text(word) = value else { return None };
                match &**word {
                    $($word => Some(Self::$variant),)+
                    _ => None,
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
