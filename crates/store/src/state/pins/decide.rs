//! Decisions of a person on pins.

use jiff::Timestamp;

use super::rows::with_id;
use super::types::FIRST_USE;
use super::{ItemKind, ItemPinState, SMALL_CHANGE, ServerPinState, Sha256Digest, StoredItem, StoredServer};
use crate::audit::AuditEntry;
use hospes_sql::{SqlResult, SqlTransaction, sql_values};

/// Decision of a person on a server or on one item that it offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustDecision {
    server: String,
    target: Sha256Digest,
    item: Option<(ItemKind, String)>,
    /// Hash of the accepted definition; `None` if it is rejected.
    accepts: Option<Sha256Digest>,
    by: String,
    /// Audit entry of the decision, for a state that records decisions.
    pub(super) entry: Option<AuditEntry>,
}

impl TrustDecision {
    /// Accepts the server and everything that it offers now, provided that [`StoredServer::hash`] is still this one.
    #[must_use]
    pub fn accept(server: &str, target: Sha256Digest, hash: Sha256Digest, by: &str) -> Self {
        Self {
            server: server.to_owned(),
            target,
            item: None,
            accepts: Some(hash),
            by: by.to_owned(),
            entry: None,
        }
    }

    /// Rejects the server, regardless of its definitions.
    #[must_use]
    pub fn reject(server: &str, target: Sha256Digest, by: &str) -> Self {
        Self { server: server.to_owned(), target, item: None, accepts: None, by: by.to_owned(), entry: None }
    }

    /// Sets the audit entry of the decision, for a state that records decisions.
    #[must_use]
    pub fn with_entry(mut self, entry: AuditEntry) -> Self {
        self.entry = Some(entry);
        self
    }

    /// Limits the decision to one item that the server offers; the hash is then its [`StoredItem::hash`].
    #[must_use]
    pub fn for_item(mut self, kind: ItemKind, name: &str) -> Self {
        self.item = Some((kind, name.to_owned()));
        self
    }
}

/// Result of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrustDecisionOutcome {
    /// State of the server after the decision.
    pub server: StoredServer,
    /// Items whose state changed.
    pub changed: Vec<StoredItem>,
}

/// Reasons a decision is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustDecisionError {
    /// There is no server or item with that name.
    #[error("no item of this name was ever offered")]
    Unknown,
    /// The definitions have changed since they were shown.
    #[error("the item has changed since it was reviewed")]
    Changed,
    /// The server itself has to be accepted first.
    #[error("the server is not accepted; accept the server first")]
    ServerFirst,
}

/// Makes items wait for a person that were accepted without one. Returns their number.
pub(super) fn withdraw_unreviewed(
    change: &mut dyn SqlTransaction,
    server: &str,
    target: &Sha256Digest,
    items: &[(ItemKind, String, Sha256Digest)],
) -> SqlResult<u64> {
    let Some((id, _)) = with_id(change, server, target)? else { return Ok(0) };
    let withdraw = "UPDATE pinned_items SET state = ?5, decided_at = NULL, decided_by = NULL
        WHERE server = ?1 AND kind = ?2 AND name = ?3 AND hash = ?4 AND state = ?6 AND decided_by IN (?7, ?8)";
    let mut count = 0;
    for (kind, name, hash) in items {
        let states = [ItemPinState::Waiting, ItemPinState::Accepted];
        count += change.execute(
            withdraw,
            sql_values![id, kind, name, hash, states[0], states[1], FIRST_USE, SMALL_CHANGE],
        )?;
    }
    Ok(count)
}

pub(super) fn decide(
    change: &mut dyn SqlTransaction,
    decision: &TrustDecision,
) -> SqlResult<Result<TrustDecisionOutcome, TrustDecisionError>> {
    let Some((id, before)) = with_id(change, &decision.server, &decision.target)? else {
        return Ok(Err(TrustDecisionError::Unknown));
    };
    let now = Timestamp::now().as_microsecond();
    match (&decision.item, decision.accepts) {
        (None, Some(hash)) if hash != before.hash => return Ok(Err(TrustDecisionError::Changed)),
        (None, Some(_)) => {
            change.execute(
                "UPDATE pinned_servers SET state = ?2, accepted_program = program_hash, decided_at = ?3, decided_by = ?4
                 WHERE id = ?1",
                sql_values![id, ServerPinState::Accepted, now, decision.by],
            )?;
            // The person has seen all of it: what was accepted without a person is now accepted by this one.
            change.execute(
                "UPDATE pinned_items SET decided_at = ?3, decided_by = ?4
                 WHERE server = ?1 AND current AND state = ?2 AND decided_by IN (?5, ?6)",
                sql_values![id, ItemPinState::Accepted, now, decision.by, FIRST_USE, SMALL_CHANGE],
            )?;
            // Only waiting items, because an item that was rejected separately stays rejected.
            change.execute(
                "UPDATE pinned_items SET state = ?2, decided_at = ?3, decided_by = ?4
                 WHERE server = ?1 AND current AND state = ?5",
                sql_values![id, ItemPinState::Accepted, now, decision.by, ItemPinState::Waiting],
            )?;
        }
        (None, None) => {
            change.execute(
                "UPDATE pinned_servers SET state = ?2, decided_at = ?3, decided_by = ?4 WHERE id = ?1",
                sql_values![id, ServerPinState::Rejected, now, decision.by],
            )?;
        }
        (Some((kind, name)), accepts) => {
            let mut same = before.items.iter().filter(|item| item.kind == *kind && item.name == *name);
            let Some(current) = same.clone().find(|item| item.is_current).or_else(|| same.next()) else {
                return Ok(Err(TrustDecisionError::Unknown));
            };
            if accepts.is_some() && before.state != ServerPinState::Accepted {
                return Ok(Err(TrustDecisionError::ServerFirst));
            }
            if accepts.is_some_and(|hash| hash != current.hash || !current.is_current) {
                return Ok(Err(TrustDecisionError::Changed));
            }
            let state = if accepts.is_some() { ItemPinState::Accepted } else { ItemPinState::Rejected };
            change.execute(
                "UPDATE pinned_items SET state = ?5, decided_at = ?6, decided_by = ?7
                 WHERE server = ?1 AND kind = ?2 AND name = ?3 AND hash = ?4",
                sql_values![id, kind, name, current.hash, state, now, decision.by],
            )?;
        }
    }
    let Some((_, server)) = with_id(change, &decision.server, &decision.target)? else {
        return Ok(Err(TrustDecisionError::Unknown));
    };
    let stood = |item: &StoredItem| {
        let same =
            |other: &&StoredItem| (other.kind, &other.name, other.hash) == (item.kind, &item.name, item.hash);
        before.items.iter().find(same).map(|before| before.state)
    };
    let changed = server.items.iter().filter(|item| stood(item) != Some(item.state)).cloned().collect();
    Ok(Ok(TrustDecisionOutcome { server, changed }))
}
