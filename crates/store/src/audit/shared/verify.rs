//! Verification of the record: one pass over the blocks in the order of their numbers, beside the anchors.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use hospes_sql::{SqlError, SqlResult, SqlTransaction, sql_values};

use super::super::chain::{self, ChainEnd};
use super::super::position::AuditPosition;
use super::super::spool::ChainId;
use super::super::tamper_evidence::TamperEvidence;
use super::anchors::{self, StoredAnchor};
use super::append::SharedSummary;
use super::chains::ChainInfo;
use super::records::{self, PAGE_BLOCKS, SharedBlock};
use super::{SharedKeys, chain_id, order, position};

/// Number of anchors that are read at once.
const PAGE_ANCHORS: i64 = 256;

/// Result of a successful verification.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifiedSharedLog {
    /// Number of entries.
    pub entries: u64,
    /// Number of older entries that were deleted after their retention time.
    pub cut: u64,
    /// Chains: one for each file of a node, and one for the decisions made there.
    pub chains: Vec<VerifiedChain>,
    /// Number of anchors.
    pub anchors: u64,
    /// Number of entries since the last anchor, whose order is not bound yet.
    pub not_anchored: u64,
    /// Last anchor. Noted elsewhere, it later proves that the record up to here was not created anew.
    pub last_anchor: Option<AuditPosition>,
}

/// A chain that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifiedChain {
    /// Name of the node.
    pub node: String,
    /// Id of the chain.
    pub id: String,
    /// Number of entries.
    pub entries: u64,
    /// Number of the last entry in the file of the node, or of the last decision.
    pub last: u64,
    /// True if its entries are decisions, which are in no file of the node.
    pub has_decisions: bool,
    /// Number of entries of the file that never came here: its file was replaced, or entries were deleted before they
    /// could be shipped.
    pub missing_before: u64,
}

/// Faults found in the record of all nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SharedTamperEvidence {
    /// A chain has a fault.
    #[error("{found} (node {node}, chain {})", short(.chain))]
    Chain {
        /// Name of the node.
        node: String,
        /// Id of the chain.
        chain: String,
        /// Fault that was found. Its numbers are those of the chain.
        found: TamperEvidence,
    },
    /// The key of a chain cannot be opened: it was modified, or sealed by another fleet.
    #[error("the key of the chain {} was modified", short(.chain))]
    ChainKey {
        /// Id of the chain.
        chain: String,
    },
    /// A chain is missing that has blocks or that an anchor has seen.
    #[error("the chain {} is missing", short(.chain))]
    ChainMissing {
        /// Id of the chain.
        chain: String,
    },
    /// Blocks are missing, or were moved to other places of the record.
    #[error("the entries with the numbers {first} to {last} are missing")]
    Numbers {
        /// Number of the first entry that is missing.
        first: u64,
        /// Number of the last one.
        last: u64,
    },
    /// The beginning of the record is not as it was sealed.
    #[error("the sealed beginning of the record does not match")]
    Beginning,
    /// An anchor was modified, or is not bound to the one before.
    #[error("anchor {anchor} was modified, or is not bound to the anchor before it")]
    Anchor {
        /// Number of the anchor.
        anchor: u64,
    },
    /// An anchor is missing.
    #[error("anchor {anchor} is missing")]
    AnchorMissing {
        /// Number of the anchor.
        anchor: u64,
    },
    /// Entries that an anchor has seen are gone.
    #[error("entries are gone since anchor {anchor}: node {node} had {seq} entries then, and now has {now}")]
    WentBack {
        /// Number of the anchor.
        anchor: u64,
        /// Name of the node.
        node: String,
        /// Number of the last entry at the anchor.
        seq: u64,
        /// Number of the last entry.
        now: u64,
    },
    /// The order of the entries is not that of an anchor.
    #[error("the entries before anchor {anchor} have another order, or were replaced")]
    Order {
        /// Number of the anchor.
        anchor: u64,
    },
    /// The noted anchor is not in the record.
    #[error("anchor {anchor} does not match the noted one, or is missing")]
    NotAsNoted {
        /// Number of the noted anchor.
        anchor: u64,
    },
}

/// Returns the beginning of an id, which is enough for people.
fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// End of a verification before its end.
enum VerifyError {
    Sql(SqlError),
    Found(SharedTamperEvidence),
}

impl From<SqlError> for VerifyError {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl From<SharedTamperEvidence> for VerifyError {
    fn from(found: SharedTamperEvidence) -> Self {
        Self::Found(found)
    }
}

type VerifyResult<T> = Result<T, VerifyError>;

/// A chain while it is gone through.
struct ChainPass {
    id: ChainId,
    info: Arc<ChainInfo>,
    cut: AuditPosition,
    here: AuditPosition,
    /// Last entry, as it is sealed.
    last: AuditPosition,
}

impl ChainPass {
    fn found(&self, found: TamperEvidence) -> SharedTamperEvidence {
        let (node, chain) = (self.info.node.to_string(), self.info.text_id.to_string());
        SharedTamperEvidence::Chain { node, chain, found }
    }
}

/// Anchors in their order, read page by page.
struct AnchorPass {
    page: VecDeque<StoredAnchor>,
    is_read: bool,
    /// Last anchor that was verified, or that was deleted.
    before: AuditPosition,
    count: u64,
    /// Number of the last entry that is bound.
    entries: u64,
    noted: Option<AuditPosition>,
}

/// State of a verification.
struct RecordPass<'a> {
    keys: &'a SharedKeys,
    chains: BTreeMap<ChainId, ChainPass>,
    anchors: AnchorPass,
    /// Chains that have grown since the last anchor.
    grown: BTreeSet<ChainId>,
    /// Number of the last entry that was read.
    number: u64,
    /// First numbers that are missing. Reported at the end, because a chain that breaks says more.
    missing: Option<(u64, u64)>,
}

/// Verifies the whole record in one transaction, so that all that is read is consistent.
pub(super) fn verify(
    view: &mut dyn SqlTransaction,
    keys: &SharedKeys,
    noted: Option<AuditPosition>,
) -> SqlResult<Result<VerifiedSharedLog, SharedTamperEvidence>> {
    match run(view, keys, noted) {
        Ok(verified) => Ok(Ok(verified)),
        Err(VerifyError::Found(found)) => Ok(Err(found)),
        Err(VerifyError::Sql(error)) => Err(error),
    }
}

fn run(
    view: &mut dyn SqlTransaction,
    keys: &SharedKeys,
    noted: Option<AuditPosition>,
) -> VerifyResult<VerifiedSharedLog> {
    let chains = read_chains(view, keys)?;
    let order = order::read(view, keys)?;
    if order.is_some_and(|order| !order.is_sealed) {
        return Err(SharedTamperEvidence::Beginning.into());
    }
    let (total, cut) = order.map_or((0, order::RecordCut::NOTHING), |order| (order.entries, order.cut));
    let anchors = AnchorPass {
        page: VecDeque::new(),
        is_read: false,
        before: cut.anchor,
        count: 0,
        entries: cut.anchor_entries,
        // What was deleted can no longer be compared.
        noted: noted.filter(|noted| noted.seq >= cut.anchor.seq.max(1)),
    };
    let mut pass =
        RecordPass { keys, chains, anchors, grown: BTreeSet::new(), number: cut.number, missing: None };
    pass.anchors.compare_noted(cut.anchor)?;
    let sql = format!(
        "SELECT {}, first_at, last_at, kinds, array_to_string(names, ' ') FROM audit_blocks WHERE last_number > ?1
         ORDER BY last_number LIMIT {PAGE_BLOCKS}",
        records::COLUMNS
    );
    let mut after = cut.number;
    loop {
        let rows = view.query(&sql, sql_values![chain::number(after)])?;
        if rows.is_empty() {
            break;
        }
        for row in &rows {
            let found = records::read_block(row)?;
            after = found.last_number;
            let stored = (Some((row.get(8)?, row.get(9)?)), row.get::<i64>(10)?, row.get::<String>(11)?);
            pass.check_block(&found, &stored)?;
            if pass.missing.is_none() {
                pass.check_anchors(view)?;
            }
        }
    }
    pass.finish(view, total)?;
    let chains = pass.chains.values().map(|chain| VerifiedChain {
        node: chain.info.node.to_string(),
        id: chain.info.text_id.to_string(),
        entries: chain.here.seq - chain.cut.seq,
        last: chain.here.seq,
        has_decisions: chain.info.has_decisions,
        missing_before: missing_before(&pass.chains, &chain.info),
    });
    let mut chains: Vec<VerifiedChain> = chains.collect();
    chains.sort_by(|one, other| (&one.node, &one.id).cmp(&(&other.node, &other.id)));
    Ok(VerifiedSharedLog {
        entries: total - cut.number,
        cut: cut.number,
        chains,
        anchors: pass.anchors.count,
        not_anchored: total.saturating_sub(pass.anchors.entries),
        last_anchor: Some(pass.anchors.before).filter(|last| last.seq > 0),
    })
}

/// Returns the number of entries between the end of the chain before and the beginning of this one.
fn missing_before(chains: &BTreeMap<ChainId, ChainPass>, info: &ChainInfo) -> u64 {
    let before = info.follows.and_then(|id| chains.get(&id));
    before.map_or(0, |before| info.start.saturating_sub(before.last.seq))
}

/// Reads all chains, whose ends are sealed.
fn read_chains(
    view: &mut dyn SqlTransaction,
    keys: &SharedKeys,
) -> VerifyResult<BTreeMap<ChainId, ChainPass>> {
    let sql = "SELECT id, sealed, cut_seq, cut_bound, cut_seal, last_seq, last_bound, last_seal
        FROM audit_chains ORDER BY id";
    let mut chains = BTreeMap::new();
    for row in view.query(sql, sql_values![])? {
        let id = chain_id(&row, 0)?;
        let Some(info) = keys.open_chain(id, &row.get::<Vec<u8>>(1)?) else {
            return Err(SharedTamperEvidence::ChainKey { chain: id.to_string() }.into());
        };
        let (cut, last) = (position(&row, 2)?, position(&row, 5)?);
        let is_sealed =
            |sealed: Vec<u8>, end, place| chain::is_same(&sealed, &chain::seal(&info.keys, end, place));
        let are_sealed =
            is_sealed(row.get(4)?, ChainEnd::First, cut) && is_sealed(row.get(7)?, ChainEnd::Last, last);
        let pass = ChainPass { id, info, cut, here: cut, last };
        if !are_sealed {
            return Err(pass.found(TamperEvidence::End).into());
        }
        chains.insert(id, pass);
    }
    Ok(chains)
}

impl RecordPass<'_> {
    /// Checks the next block: it follows in its chain and in the record.
    fn check_block(
        &mut self,
        found: &SharedBlock,
        stored: &(Option<(i64, i64)>, i64, String),
    ) -> VerifyResult<()> {
        let SharedBlock { first_number, last_number, chain, block } = found;
        let Some(pass) = self.chains.get_mut(chain) else {
            return Err(SharedTamperEvidence::ChainMissing { chain: chain.to_string() }.into());
        };
        let next = pass.here.seq + 1;
        if block.first > next {
            return Err(pass.found(TamperEvidence::Missing { seq: next }).into());
        }
        let last = block.positions(&pass.info.keys).last().copied();
        let is_bound = block.first == next
            && chain::is_same(&block.before.bound, &pass.here.bound)
            && last == Some(block.last);
        let count = block.last.seq.saturating_sub(block.before.seq);
        let summary = SharedSummary::of(&block.entries);
        let is_stored = summary.has_unreadable
            || (summary.block.at, summary.block.kinds, summary.names_text()) == *stored;
        if !is_bound || !is_stored || first_number.checked_add(count) != last_number.checked_add(1) {
            return Err(pass.found(TamperEvidence::Changed { seq: next }).into());
        }
        pass.here = block.last;
        self.grown.insert(*chain);
        if *first_number != self.number + 1 {
            self.missing.get_or_insert_with(|| (self.number + 1, first_number.saturating_sub(1)));
        }
        self.number = *last_number;
        Ok(())
    }

    /// Checks the anchors up to the last entry that was read.
    fn check_anchors(&mut self, view: &mut dyn SqlTransaction) -> VerifyResult<()> {
        while let Some(anchor) = self.anchors.next_up_to(view, self.number)? {
            let number = anchor.position.seq;
            if number > self.anchors.before.seq + 1 {
                let anchor = self.anchors.before.seq + 1;
                return Err(SharedTamperEvidence::AnchorMissing { anchor }.into());
            }
            let is_bound = number == self.anchors.before.seq + 1
                && chain::is_same(&anchor.previous, &self.anchors.before.bound)
                && chain::is_same(&anchor.position.bound, &anchor.mac(self.keys));
            let Some(tails) = anchor.tails().filter(|_| is_bound) else {
                return Err(SharedTamperEvidence::Anchor { anchor: number }.into());
            };
            // An anchor ends with a block.
            let mut is_in_order = anchor.entries == self.number;
            for (id, tail) in tails {
                let Some(pass) = self.chains.get(&id) else {
                    return Err(SharedTamperEvidence::ChainMissing { chain: id.to_string() }.into());
                };
                is_in_order &= pass.here == tail;
                self.grown.remove(&id);
            }
            if !is_in_order || !self.grown.is_empty() {
                return Err(SharedTamperEvidence::Order { anchor: number }.into());
            }
            self.anchors.pass(&anchor)?;
        }
        Ok(())
    }

    /// Checks that nothing is missing at the ends.
    fn finish(&mut self, view: &mut dyn SqlTransaction, total: u64) -> VerifyResult<()> {
        for pass in self.chains.values() {
            debug_assert_eq!(pass.id.to_string(), *pass.info.text_id);
            if pass.here.seq < pass.last.seq {
                return Err(pass.found(TamperEvidence::Missing { seq: pass.here.seq + 1 }).into());
            }
            if pass.here != pass.last {
                return Err(pass.found(TamperEvidence::End).into());
            }
        }
        if let Some((first, last)) = self.missing {
            return Err(SharedTamperEvidence::Numbers { first, last }.into());
        }
        if self.number != total {
            let (first, last) = (self.number.min(total) + 1, self.number.max(total));
            return Err(SharedTamperEvidence::Numbers { first, last }.into());
        }
        // An anchor that is left has seen entries that are gone.
        if let Some(anchor) = self.anchors.next_up_to(view, u64::MAX)? {
            let number = anchor.position.seq;
            for (id, tail) in anchor.tails().unwrap_or_default() {
                let Some(pass) = self.chains.get(&id) else {
                    return Err(SharedTamperEvidence::ChainMissing { chain: id.to_string() }.into());
                };
                if pass.here.seq < tail.seq {
                    let (node, now) = (pass.info.node.to_string(), pass.here.seq);
                    return Err(
                        SharedTamperEvidence::WentBack { anchor: number, node, seq: tail.seq, now }.into()
                    );
                }
            }
            return Err(SharedTamperEvidence::Anchor { anchor: number }.into());
        }
        match self.anchors.noted {
            Some(noted) => Err(SharedTamperEvidence::NotAsNoted { anchor: noted.seq }.into()),
            None => Ok(()),
        }
    }
}

impl AnchorPass {
    /// Returns the next anchor if it has no later entry than this one.
    fn next_up_to(&mut self, view: &mut dyn SqlTransaction, entries: u64) -> SqlResult<Option<StoredAnchor>> {
        if self.page.is_empty() && !self.is_read {
            let sql = format!(
                "SELECT {} FROM audit_anchors WHERE n > ?1 ORDER BY n LIMIT {PAGE_ANCHORS}",
                anchors::COLUMNS
            );
            let rows = view.query(&sql, sql_values![chain::number(self.before.seq)])?;
            self.is_read = rows.is_empty();
            self.page = rows.iter().map(anchors::read).collect::<SqlResult<_>>()?;
        }
        let is_next = self.page.front().is_some_and(|anchor| anchor.entries <= entries);
        Ok(if is_next { self.page.pop_front() } else { None })
    }

    /// Goes past an anchor that was verified.
    fn pass(&mut self, anchor: &StoredAnchor) -> VerifyResult<()> {
        (self.before, self.entries) = (anchor.position, anchor.entries);
        self.count += 1;
        self.compare_noted(anchor.position)
    }

    fn compare_noted(&mut self, anchor: AuditPosition) -> VerifyResult<()> {
        match self.noted.filter(|noted| noted.seq == anchor.seq) {
            Some(noted) if noted != anchor => {
                Err(SharedTamperEvidence::NotAsNoted { anchor: anchor.seq }.into())
            }
            Some(_) => {
                self.noted = None;
                Ok(())
            }
            None => Ok(()),
        }
    }
}
