//! Recording of the offers of servers.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use super::rows::with_id;
use super::types::FIRST_USE;
use super::{
    ItemDefinition, ItemKind, ItemPinState, SMALL_CHANGE, ServerPinState, ServerSighting, Sha256Digest,
    SightingReport, TrustMode,
};
use hospes_sql::{SqlError, SqlResult, SqlTransaction, sql_values};

/// Maximum number of definitions kept of one item, besides the accepted ones.
pub const MAX_HISTORY: usize = 16;

/// Maximum length of a definition whose text is stored, in bytes. Of a longer one only the hash is stored.
pub const MAX_TEXT: usize = 256 * 1024;

/// Maximum number of definitions kept of one server.
pub const MAX_DEFINITIONS: usize = 40_000;

/// Maximum number of servers kept; beyond that, servers that were never accepted are removed, the oldest first.
pub const MAX_SERVERS: usize = 2000;

/// Marks a server whose resources are pinned. For a server that was accepted before resources were pinned, the
/// resources seen first are accepted once.
const RESOURCES: &str = "(resources)";

/// Maximum number of kinds of users and applications that are distinguished for one server.
const MAX_AUDIENCES: i64 = 4096;

/// Maximum size of the stored definitions of one server, in bytes.
const MAX_STORED_TEXT_BYTES: i64 = 32 * 1024 * 1024;

/// Returns the state of the server if everything in the sighting is known.
pub(super) fn report_if_known(
    view: &mut dyn SqlTransaction,
    sighting: &ServerSighting,
    trust: TrustMode,
) -> SqlResult<Option<SightingReport>> {
    let Some((id, server)) = with_id(view, &sighting.server, &sighting.fingerprint.target)? else {
        return Ok(None);
    };
    let is_trusted_now =
        trust == TrustMode::FirstUse && (server.state == ServerPinState::New || server.is_replaced());
    if server.fingerprint != sighting.fingerprint
        || !server.is_current
        || is_trusted_now
        || !(is_sight(view, id, &sighting.sight)?
            || !sighting.is_whole && is_sight(view, id, &in_part(&sighting.sight))?)
        || sighting.is_whole && !is_sight(view, id, RESOURCES)?
    {
        return Ok(None);
    }
    let current = server.items.iter().filter(|item| item.is_current);
    let current: HashSet<_> = current.map(|item| (item.kind, item.name.as_str(), item.hash)).collect();
    let offered: HashSet<_> =
        sighting.definitions.iter().map(|one| (one.kind, one.name.as_str(), one.hash)).collect();
    let is_known = offered.is_subset(&current) && removed_items(view, id, sighting)?.is_empty();
    Ok(is_known.then_some(SightingReport { server, is_first: false, is_replaced: false, news: Vec::new() }))
}

/// Removes the rows of a server about which nobody has decided.
pub(super) fn forget_undecided(change: &mut dyn SqlTransaction, name: &str) -> SqlResult<()> {
    change.execute(
        "DELETE FROM pinned_servers WHERE name = ?1 AND state = ?2 AND decided_at IS NULL",
        sql_values![name, ServerPinState::New],
    )?;
    Ok(())
}

/// Records everything in the sighting.
pub(super) fn record_sighting(
    change: &mut dyn SqlTransaction,
    sighting: &ServerSighting,
    trust: TrustMode,
) -> SqlResult<SightingReport> {
    let now = Timestamp::now().as_microsecond();
    let trusts = trust == TrustMode::FirstUse;
    let fingerprint = &sighting.fingerprint;
    let mut before = with_id(change, &sighting.server, &fingerprint.target)?;
    if let Some((id, server)) = &before
        && upgrade(change, *id, server, sighting)?
    {
        before = with_id(change, &sighting.server, &fingerprint.target)?;
    }
    let (id, is_replaced, trusts_all) = match &before {
        None => {
            make_room(change)?;
            let id = change.query_value(
                "INSERT INTO pinned_servers (name, target, shown, state, current, seen_at)
                 VALUES (?1, ?2, ?3, ?4, TRUE, ?5) RETURNING id",
                sql_values![sighting.server, fingerprint.target, fingerprint.shown, ServerPinState::New, now],
            )?;
            (id.ok_or(SqlError::Missing)?, false, trusts)
        }
        Some((id, server)) => {
            let is_replaced = server.fingerprint.program_hash != fingerprint.program_hash;
            (*id, is_replaced, trusts && server.state == ServerPinState::New)
        }
    };
    change.execute(
        "UPDATE pinned_servers SET shown = ?2, program = ?3, program_hash = ?4 WHERE id = ?1",
        sql_values![id, fingerprint.shown, fingerprint.program, fingerprint.program_hash],
    )?;
    change.execute(
        "UPDATE pinned_servers SET current = (id = ?1) WHERE name = ?2 AND current != (id = ?1)",
        sql_values![id, sighting.server],
    )?;
    if trusts {
        // A person has rejected it, which stays in force.
        change.execute(
            "UPDATE pinned_servers SET state = ?2, accepted_program = program_hash, decided_at = ?3, decided_by = ?4
             WHERE id = ?1 AND (state = ?5 OR state = ?2 AND accepted_program IS DISTINCT FROM program_hash)",
            sql_values![id, ServerPinState::Accepted, now, FIRST_USE, ServerPinState::New],
        )?;
    }
    // Items of an unreadable list will be seen for the first time later; but only if no one of the same audience has
    // seen a complete offer before.
    let is_new_sight = match sighting.is_whole {
        true => add_sight(change, id, &sighting.sight)?,
        false => !is_sight(change, id, &sighting.sight)? && add_sight(change, id, &in_part(&sighting.sight))?,
    };
    let accepts_resources = sighting.is_whole
        && add_sight(change, id, RESOURCES)?
        && before.as_ref().is_some_and(|(_, server)| server.state == ServerPinState::Accepted);

    let known = before.iter().flat_map(|(_, server)| &server.items);
    let mut names: HashMap<(ItemKind, &str), Vec<Sha256Digest>> = HashMap::new();
    known.for_each(|item| names.entry((item.kind, &item.name)).or_default().push(item.hash));
    let texts = "SELECT CAST(coalesce(sum(octet_length(definition)), 0) AS bigint) FROM pinned_items WHERE server = ?1";
    let mut texts: i64 = change.query_value(texts, sql_values![id])?.unwrap_or_default();
    let mut news = Vec::new();
    for one in &sighting.definitions {
        let hashes = names.get(&(one.kind, &*one.name));
        if hashes.is_none_or(|hashes| !hashes.contains(&one.hash)) {
            // Another audience may be offered more items, but items that were offered before must not change.
            let is_resource = one.kind == ItemKind::Resource;
            let is_trusted = !one.needs_review
                && (trusts_all
                    || trusts && one.is_small_change
                    || hashes.is_none() && (trusts && is_new_sight || accepts_resources && is_resource));
            insert(change, id, sighting, one, is_trusted, now, &mut texts)?;
            news.push((one.kind, one.name.clone(), hashes.is_some()));
        }
    }
    // After all are inserted: an item offered with another definition is no longer offered with the old one.
    let set = "UPDATE pinned_items
        SET current = (hash = ?4), sight = CASE WHEN hash = ?4 THEN ?5 ELSE sight END
        WHERE server = ?1 AND kind = ?2 AND name = ?3 AND current != (hash = ?4)";
    for one in &sighting.definitions {
        change.execute(set, sql_values![id, one.kind, one.name, one.hash, sighting.sight])?;
    }
    let unset = "UPDATE pinned_items SET current = FALSE WHERE server = ?1 AND kind = ?2 AND name = ?3";
    for (kind, name) in removed_items(change, id, sighting)? {
        change.execute(unset, sql_values![id, kind, name])?;
    }
    if trusts_all {
        change.execute(
            "UPDATE pinned_items SET state = ?2, decided_at = ?3, decided_by = ?4
             WHERE server = ?1 AND current AND state = ?5",
            sql_values![id, ItemPinState::Accepted, now, FIRST_USE, ItemPinState::Waiting],
        )?;
        let withhold = "UPDATE pinned_items SET state = ?5, decided_at = NULL, decided_by = NULL
            WHERE server = ?1 AND kind = ?2 AND name = ?3 AND hash = ?4 AND decided_by = ?6";
        for one in sighting.definitions.iter().filter(|one| one.needs_review) {
            let item = sql_values![id, one.kind, one.name, one.hash, ItemPinState::Waiting, FIRST_USE];
            change.execute(withhold, item)?;
        }
    }
    prune(change, id)?;
    let (_, server) = with_id(change, &sighting.server, &fingerprint.target)?.ok_or(SqlError::Missing)?;
    Ok(SightingReport { server, is_first: before.is_none(), is_replaced, news })
}

/// Replaces definitions that an earlier version hashed differently. Returns true if there were any.
fn upgrade(
    change: &mut dyn SqlTransaction,
    id: i64,
    server: &super::StoredServer,
    sighting: &ServerSighting,
) -> SqlResult<bool> {
    let known: HashSet<_> =
        server.items.iter().map(|item| (item.kind, item.name.as_str(), item.hash)).collect();
    let put = "UPDATE pinned_items SET hash = ?5, definition = ?6
               WHERE server = ?1 AND kind = ?2 AND name = ?3 AND hash = ?4";
    let mut upgraded = false;
    for one in &sighting.definitions {
        let Some(earlier) = one.earlier else { continue };
        let is_known = |hash| known.contains(&(one.kind, one.name.as_str(), hash));
        if is_known(earlier) && !is_known(one.hash) {
            let text = (one.text.len() <= MAX_TEXT).then_some(&one.text);
            change.execute(put, sql_values![id, one.kind, one.name, earlier, one.hash, text])?;
            upgraded = true;
        }
    }
    Ok(upgraded)
}

/// Key under which a sighting of readable lists only is recorded.
fn in_part(sight: &str) -> String {
    format!("{sight} in part")
}

fn insert(
    change: &mut dyn SqlTransaction,
    id: i64,
    sighting: &ServerSighting,
    one: &ItemDefinition,
    is_trusted: bool,
    now: i64,
    texts: &mut i64,
) -> SqlResult<()> {
    let length = i64::try_from(one.text.len()).unwrap_or(i64::MAX);
    let text = (one.text.len() <= MAX_TEXT && texts.saturating_add(length) <= MAX_STORED_TEXT_BYTES)
        .then_some(&one.text);
    if text.is_some() {
        *texts += length;
    }
    let (state, decided_at, by) = match is_trusted {
        true if one.is_small_change => (ItemPinState::Accepted, Some(now), Some(SMALL_CHANGE)),
        true => (ItemPinState::Accepted, Some(now), Some(FIRST_USE)),
        false => (ItemPinState::Waiting, None, None),
    };
    let insert =
        "INSERT INTO pinned_items (server, kind, name, hash, definition, state, current, sight, seen_at,
            decided_at, decided_by)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, FALSE, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING";
    let row = sql_values![id, one.kind, one.name, one.hash, text, state, sighting.sight, now, decided_at, by];
    change.execute(insert, row).map(drop)
}

/// Returns the items that the same user and application were offered before and are not offered now.
fn removed_items(
    view: &mut dyn SqlTransaction,
    id: i64,
    sighting: &ServerSighting,
) -> SqlResult<Vec<(ItemKind, String)>> {
    if !sighting.is_whole {
        return Ok(Vec::new());
    }
    let offered: HashSet<_> = sighting.definitions.iter().map(|one| (one.kind, one.name.as_str())).collect();
    let rows = "SELECT kind, name FROM pinned_items WHERE server = ?1 AND current AND sight = ?2";
    let rows = view.query(rows, sql_values![id, sighting.sight])?;
    let rows = rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?)));
    let rows = rows.collect::<SqlResult<Vec<(ItemKind, String)>>>()?;
    Ok(rows.into_iter().filter(|(kind, name)| !offered.contains(&(*kind, name.as_str()))).collect())
}

fn is_sight(view: &mut dyn SqlTransaction, id: i64, sight: &str) -> SqlResult<bool> {
    let sql = "SELECT 1 FROM pinned_sights WHERE server = ?1 AND sight = ?2";
    Ok(view.query_first(sql, sql_values![id, sight])?.is_some())
}

/// Records the kind of user and application; returns true if it is new. If there is no room for another kind, it counts
/// as known.
fn add_sight(change: &mut dyn SqlTransaction, id: i64, sight: &str) -> SqlResult<bool> {
    let added = change.execute(
        "INSERT INTO pinned_sights (server, sight)
         SELECT CAST(?1 AS bigint), CAST(?2 AS text)
         WHERE (SELECT count(*) FROM pinned_sights WHERE server = CAST(?1 AS bigint)) < ?3
         ON CONFLICT DO NOTHING",
        sql_values![id, sight, MAX_AUDIENCES],
    )?;
    Ok(added > 0)
}

/// Removes servers that were never accepted, the oldest first, until there is room for one more.
fn make_room(change: &mut dyn SqlTransaction) -> SqlResult<()> {
    let count: i64 = change.query_value("SELECT count(*) FROM pinned_servers", &[])?.unwrap_or_default();
    let over = count.saturating_sub(i64::try_from(MAX_SERVERS - 1).unwrap_or(i64::MAX)).max(0);
    let oldest = "SELECT id FROM pinned_servers WHERE state = 'new' ORDER BY seen_at, id LIMIT ?1";
    for row in change.query(oldest, sql_values![over])? {
        let id: i64 = row.get(0)?;
        change.execute("DELETE FROM pinned_items WHERE server = ?1", sql_values![id])?;
        change.execute("DELETE FROM pinned_sights WHERE server = ?1", sql_values![id])?;
        change.execute("DELETE FROM pinned_servers WHERE id = ?1", sql_values![id])?;
    }
    Ok(())
}

/// Deletes old definitions: of one item those that were not accepted, of the whole server any, which makes them wait
/// again.
fn prune(change: &mut dyn SqlTransaction, id: i64) -> SqlResult<()> {
    let bound = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    change.execute(
        "DELETE FROM pinned_items WHERE server = ?1 AND (kind, name, hash) IN (
            SELECT kind, name, hash FROM (
                SELECT kind, name, hash, row_number() OVER (PARTITION BY kind, name ORDER BY seen_at DESC) AS place
                FROM pinned_items WHERE server = ?1 AND NOT current AND state != ?3) AS placed
            WHERE place > ?2)",
        sql_values![id, bound(MAX_HISTORY), ItemPinState::Accepted],
    )?;
    let count = "SELECT count(*) FROM pinned_items WHERE server = ?1";
    let count: i64 = change.query_value(count, sql_values![id])?.unwrap_or_default();
    change.execute(
        "DELETE FROM pinned_items WHERE server = ?1 AND (kind, name, hash) IN (
            SELECT kind, name, hash FROM pinned_items WHERE server = ?1 AND NOT current ORDER BY seen_at LIMIT ?2)",
        sql_values![id, count.saturating_sub(bound(MAX_DEFINITIONS)).max(0)],
    )?;
    Ok(())
}
