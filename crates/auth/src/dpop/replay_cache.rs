//! Used DPoP proofs, so that each is accepted once.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::proof::{DpopProof, PROOF_TOLERANCE_SECONDS};
use super::shared_store::{ProofStoreError, SharedProofStore};
use crate::bounded_cache::BoundedCache;

/// Maximum number of used proofs that are remembered: the limit `max_remembered_proofs`. At the cap, the oldest is
/// forgotten.
const MAX_USED: usize = 64 * 1024;

/// The proofs that were used. Cheap to clone; every clone is the same.
#[derive(Clone)]
pub struct ProofReplayCache {
    here: Arc<Mutex<BoundedCache<String, u64>>>,
    /// Store that all processes share. `None` if each process remembers its own.
    shared: Option<Arc<dyn SharedProofStore>>,
}

impl ProofReplayCache {
    /// Creates a cache for this process. Several processes behind one address need [`Self::shared`], or each would
    /// accept a proof once.
    #[must_use]
    pub fn in_process() -> Self {
        Self { here: Arc::new(Mutex::new(BoundedCache::new(MAX_USED))), shared: None }
    }

    /// Creates the cache of all processes with this store.
    #[must_use]
    pub fn shared(store: Arc<dyn SharedProofStore>) -> Self {
        Self { shared: Some(store), ..Self::in_process() }
    }

    /// Uses a proof; false when it was used before.
    ///
    /// # Errors
    /// When the shared store fails.
    pub async fn claim(&self, proof: &DpopProof, now: u64) -> Result<bool, ProofStoreError> {
        // A proof may be dated PROOF_SECONDS ahead, and is accepted for as long after its date.
        let until = now + 2 * PROOF_TOLERANCE_SECONDS;
        // The list of this process comes first: it refuses most repeats without a visit to the store.
        let is_new = self.claim_locally(proof, until, now)
            && match &self.shared {
                Some(store) => store.claim_proof(&proof.once, until, now).await?,
                None => true,
            };
        if !is_new {
            tracing::warn!(key = proof.key, "DPoP proof reused: possible replay attack");
        }
        Ok(is_new)
    }

    fn claim_locally(&self, proof: &DpopProof, until: u64, now: u64) -> bool {
        let mut used = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        if used.get(&proof.once).is_some_and(|until| *until > now) {
            return false;
        }
        // With a shared store an eviction here loses nothing: the store still knows the proof.
        if used.insert(proof.once.clone(), until).is_some() && self.shared.is_none() {
            tracing::warn!(
                limit = "max_remembered_proofs",
                "DPoP replay cache full: evicted a proof that is still valid"
            );
        }
        true
    }
}

impl fmt::Debug for ProofReplayCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.shared.is_some() { "shared" } else { "of this process" };
        write!(f, "ProofReplayCache({whose})")
    }
}
