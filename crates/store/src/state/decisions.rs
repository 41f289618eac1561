//! Recording of decisions in the transactions that make them.
//!
//! A state that several nodes share is in the database of the audit record, so that a decision and its entry are committed
//! together or not at all. The log of a single host is a file beside the state, with a key of its own: there the host
//! records a decision once it is made.

#[cfg(feature = "postgres")]
use std::sync::Arc;

use hospes_sql::{SqlResult, SqlTransaction};

use super::StateStore;
use crate::audit::AuditEntry;
#[cfg(feature = "postgres")]
use crate::audit::DecisionChain;
#[cfg(feature = "postgres")]
use crate::error::StoreError;

/// Recorder of the decisions that are made in a state.
#[derive(Clone, Default)]
pub(super) struct DecisionRecorder {
    /// `None` if decisions are recorded elsewhere, or not at all.
    #[cfg(feature = "postgres")]
    chain: Option<Arc<DecisionChain>>,
}

impl DecisionRecorder {
    pub(super) fn is_on(&self) -> bool {
        #[cfg(feature = "postgres")]
        return self.chain.is_some();
        #[cfg(not(feature = "postgres"))]
        false
    }

    /// Records entries within a transaction, at its end.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(
            clippy::unused_self,
            unused_variables,
            clippy::unnecessary_wraps,
            reason = "a file records nothing"
        )
    )]
    pub(super) fn record(&self, change: &mut dyn SqlTransaction, entries: &[AuditEntry]) -> SqlResult<()> {
        #[cfg(feature = "postgres")]
        if let Some(chain) = &self.chain {
            chain.append(change, entries)?;
        }
        Ok(())
    }
}

impl StateStore {
    /// Returns this state such that its decisions are recorded in the audit record of all nodes, each in the transaction
    /// that makes it: those about approvals, grants and pins. `node` is the name of the node for people. A state in a file
    /// stays as it is.
    ///
    /// # Errors
    /// The errors of [`StateStore::secret`].
    #[cfg(feature = "postgres")]
    pub fn recording_decisions(&self, node: &str) -> Result<Self, StoreError> {
        let chain = self.audit()?.map(|log| DecisionChain::new(&log, node)).transpose()?;
        Ok(Self {
            database: Arc::clone(&self.database),
            decisions: DecisionRecorder { chain: chain.map(Arc::new) },
        })
    }

    /// Returns true if decisions are recorded in the transactions that make them. Whoever makes one must not record it a
    /// second time then.
    #[must_use]
    pub fn records_decisions(&self) -> bool {
        self.decisions.is_on()
    }
}
