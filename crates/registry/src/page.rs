//! Pages of a registry's list.

use serde_json::Value;

use crate::entry::{EntryError, ServerEntry};

/// Maximum number of entries of a page that are read.
const MAX_PAGE_ENTRIES: usize = 5000;
/// Maximum length of a cursor, in bytes.
const MAX_CURSOR: usize = 4096;

/// A page of a list.
#[derive(Debug, Default)]
pub(crate) struct ServerPage {
    pub(crate) entries: Vec<ServerEntry>,
    /// Number of entries that could not be read.
    pub(crate) skipped: usize,
    pub(crate) first_error: Option<EntryError>,
    /// Cursor of the next page.
    pub(crate) next: Option<String>,
}

/// Reads `{"servers": […], "metadata": {"nextCursor": …}}`. The error says what is wrong.
pub(crate) fn read_page(body: Value) -> Result<ServerPage, String> {
    let Value::Object(mut body) = body else { return Err("the answer is not an object".to_owned()) };
    let servers = match body.remove("servers") {
        Some(Value::Array(servers)) => servers,
        // Registries written in Go send it for an empty list.
        Some(Value::Null) => Vec::new(),
        Some(_) => return Err("servers: expected a list".to_owned()),
        None => return Err("the answer has no field `servers`".to_owned()),
    };
    if servers.len() > MAX_PAGE_ENTRIES {
        return Err(format!("servers: more than {MAX_PAGE_ENTRIES} entries in one page"));
    }
    let next = match body.get("metadata").and_then(|metadata| metadata.get("nextCursor")) {
        Some(Value::String(next)) if next.len() > MAX_CURSOR => {
            return Err(format!("metadata.nextCursor: more than {MAX_CURSOR} bytes"));
        }
        Some(Value::String(next)) if !next.is_empty() => Some(next.clone()),
        None | Some(Value::Null | Value::String(_)) => None,
        Some(_) => return Err("metadata.nextCursor: expected a text".to_owned()),
    };
    let mut page = ServerPage { next, ..ServerPage::default() };
    for (index, server) in servers.into_iter().enumerate() {
        match ServerEntry::from_value(server) {
            Ok(entry) => page.entries.push(entry),
            Err(error) => {
                tracing::debug!(index, %error, "skipped an entry of a registry");
                page.skipped += 1;
                page.first_error.get_or_insert(error);
            }
        }
    }
    Ok(page)
}
