//! Shipping of a node's entries to the record of all nodes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::super::AuditLog;
use super::super::block::EntryBlock;
use super::super::position::AuditPosition;
use super::super::spool::{ChainBreak, ChainId, SpoolPage, WeakAuditLog};
use super::SharedAuditLog;
use super::append::{AppendResult, append};
use super::chains::{OwnChain, begin, rename};
use crate::error::StoreError;

/// Interval at which new entries are looked for, and after which a failure is tried again.
const SHIP_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of anchors.
const ANCHOR_INTERVAL: Duration = Duration::from_secs(10);

/// Task that appends the entries of a file to the record of all nodes, and writes anchors.
///
/// The file is the spool: what is not shipped yet stays there, and the next start goes on after what was shipped. At
/// most one block is in memory. Calls are not delayed: the task only reads the file.
#[derive(Debug)]
pub struct AuditShipper {
    /// Set to end the task after what the file has now.
    ending: watch::Sender<bool>,
    /// Last time at which all entries were shipped.
    shipped: watch::Receiver<Instant>,
    task: JoinHandle<()>,
}

impl AuditShipper {
    /// Ships until the log is closed. `node` is a name for people. Must be called within a runtime.
    #[must_use]
    pub fn spawn(log: &AuditLog, shared: SharedAuditLog, node: impl Into<String>) -> Self {
        let (ending, is_ending) = watch::channel(false);
        // Weak, because the task must not keep the log open.
        let spool = AuditSpool {
            log: log.downgrade(),
            shared,
            node: node.into(),
            tail: None,
            unnamed: None,
            replaced: None,
        };
        let (done, shipped) = watch::channel(Instant::now());
        Self { ending, shipped, task: tokio::spawn(run(spool, is_ending, done)) }
    }

    /// Returns the time since all entries were shipped: at most about a second unless the database is away, or there are
    /// more entries than it takes in.
    #[must_use]
    pub fn lag(&self) -> Duration {
        self.shipped.borrow().elapsed()
    }

    /// Ships what is recorded so far and ends the task. What cannot be shipped within `limit` stays in the file for the
    /// next start. Returns true if all was shipped.
    pub async fn finish(mut self, limit: Duration) -> bool {
        self.ending.send_replace(true);
        tokio::time::timeout(limit, &mut self.task).await.is_ok()
    }
}

impl Drop for AuditShipper {
    fn drop(&mut self) {
        // Changes that have begun are completed, in tasks of their own.
        self.task.abort();
    }
}

/// The file, and what is shipped of it.
struct AuditSpool {
    log: WeakAuditLog,
    shared: SharedAuditLog,
    node: String,
    /// The chain and its last entry that was shipped. `None` if that has to be read.
    tail: Option<(ChainId, AuditPosition)>,
    /// The chain, while it has another name of this node.
    unnamed: Option<OwnChain>,
    /// A chain that the file does not continue.
    replaced: Option<ChainId>,
}

/// Result of one step.
enum ShipStep {
    /// There may be more.
    Shipped,
    /// End of the file: all entries are shipped.
    Idle,
    /// The log is closed.
    Closed,
}

async fn run(mut spool: AuditSpool, mut is_ending: watch::Receiver<bool>, shipped: watch::Sender<Instant>) {
    let (mut is_failing, mut anchored) = (false, Instant::now());
    loop {
        let is_last = *is_ending.borrow();
        let failed = loop {
            match spool.step(is_last).await {
                Ok(ShipStep::Shipped) => (),
                Ok(ShipStep::Idle) => break None,
                Ok(ShipStep::Closed) => return,
                Err(error) => break Some(error),
            }
        };
        if failed.is_none() {
            shipped.send_replace(Instant::now());
        }
        let failed = match failed {
            None if anchored.elapsed() >= ANCHOR_INTERVAL => {
                anchored = Instant::now();
                spool.shared.anchor(ANCHOR_INTERVAL).await.err()
            }
            failed => failed,
        };
        match (&failed, is_failing) {
            (Some(error), false) => tracing::warn!(
                %error,
                "audit entries cannot be shipped to the record of all nodes; they stay in the file of this node until they can"
            ),
            (None, true) => tracing::info!("audit entries are shipped again; none is missing"),
            _ => (),
        }
        is_failing = failed.is_some();
        if is_last && !is_failing {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(SHIP_INTERVAL) => (),
            // While it fails, the end is waited for with the same interval.
            changed = is_ending.changed(), if !is_last => if changed.is_err() { return },
        }
    }
}

impl AuditSpool {
    /// Ships one block. At the end, queued entries are waited for.
    async fn step(&mut self, flushes: bool) -> Result<ShipStep, StoreError> {
        let Some(log) = self.log.upgrade() else { return Ok(ShipStep::Closed) };
        if flushes {
            log.flush().await?;
        }
        let (id, tail) = match self.tail {
            Some(tail) => tail,
            None => match self.begin(&log).await? {
                Some(tail) => *self.tail.insert(tail),
                None => return Ok(ShipStep::Idle),
            },
        };
        let keys = Arc::clone(log.keys());
        let page = log.spooled(tail).await?;
        // Only now, because another machine may have a copy of the file, which ends elsewhere.
        if !matches!(page, SpoolPage::Broken(_))
            && let Some(own) = self.unnamed.take()
        {
            let keys = Arc::clone(&self.shared.0.keys);
            self.shared.0.part.write_rows(move |change| rename(change, &keys, &own)).await?;
        }
        let block = match page {
            SpoolPage::Empty => return Ok(ShipStep::Idle),
            SpoolPage::Block(block) => Arc::new(block),
            SpoolPage::Broken(found) => {
                self.replace(id, found);
                return Ok(ShipStep::Shipped);
            }
        };
        // Not held while the database is waited for: dropping the last clone waits for the writer.
        drop(log);
        let last = block.last;
        match self.append(id, keys, block).await {
            Ok(AppendResult::Appended) => self.tail = Some((id, last)),
            // Another process of this machine was faster, or the database was restored. What it has now is read anew.
            Ok(AppendResult::EndsAt(_) | AppendResult::NoChain) => self.tail = None,
            Err(error) => {
                // The block may be there.
                self.tail = None;
                return Err(error);
            }
        }
        Ok(ShipStep::Shipped)
    }

    /// Reads what is shipped. `None` before the first entry.
    async fn begin(&mut self, log: &AuditLog) -> Result<Option<(ChainId, AuditPosition)>, StoreError> {
        let Some((id, first)) = log.chain(self.replaced).await? else { return Ok(None) };
        let (keys, node) = (Arc::clone(log.keys()), self.node.clone());
        let own = OwnChain { id, keys, node, first, follows: self.replaced, has_decisions: false };
        let (keys, begun) = (Arc::clone(&self.shared.0.keys), own.clone());
        let shipped = self.shared.0.part.write_rows(move |change| begin(change, &keys, &begun)).await?;
        self.replaced = None;
        self.unnamed = (!shipped.is_named).then_some(own);
        Ok(Some((id, shipped.tail)))
    }

    async fn append(
        &self,
        id: ChainId,
        own: Arc<crate::key::AuditKeys>,
        block: Arc<EntryBlock>,
    ) -> Result<AppendResult, StoreError> {
        let keys = Arc::clone(&self.shared.0.keys);
        let part = &self.shared.0.part;
        part.write_rows(move |change| append(change, (&keys, &own), id, &block)).await
    }

    /// Goes on in a new chain, because the file does not continue the one that was shipped.
    fn replace(&mut self, id: ChainId, found: ChainBreak) {
        (self.tail, self.replaced) = (None, Some(id));
        match found {
            ChainBreak::Missing => tracing::error!(
                chain = %id,
                "audit entries were deleted from the file of this node before they were shipped; \
                 the record of all nodes has a gap, and goes on in a new chain"
            ),
            ChainBreak::Other => tracing::error!(
                chain = %id,
                "the audit file of this node is an older copy or another one than that which was shipped; \
                 its entries are shipped in a new chain"
            ),
        }
    }
}
