//! Waiting for a decision.

use tokio::time::{Instant, timeout_at};

use super::{Desk, Digest, MatterState, Refused, Settled};

/// A matter whose asker waits. When this is dropped the matter is withdrawn.
pub(crate) struct Waiting {
    pub(super) desk: Desk,
    pub(super) id: String,
    pub(super) bond: Digest,
    /// Whether it goes on without whoever waits here.
    pub(super) detached: bool,
}

impl Waiting {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// It goes on without whoever waits here, who comes back for it.
    pub(crate) fn detach(mut self) -> String {
        self.detached = true;
        self.id.clone()
    }

    /// Waits for the decision, and uses it up.
    pub(crate) async fn settled(&self) -> Result<Settled, Refused> {
        let mut changes = self.desk.subscribe();
        loop {
            changes.mark_unchanged();
            let until = {
                let state = self.desk.state();
                state.entries.get(&self.id).map_or_else(Instant::now, |entry| entry.until)
            };
            if let Some(settled) = self.desk.redeem_quietly(&self.id, &self.bond)? {
                return Ok(settled);
            }
            // Too late is found out by looking again.
            let _ = timeout_at(until, changes.changed()).await;
        }
    }
}

impl Desk {
    fn redeem_quietly(&self, id: &str, bond: &Digest) -> Result<Option<Settled>, Refused> {
        let is_open = {
            let state = self.state();
            let entry = state.entries.get(id);
            entry.is_some_and(|entry| {
                entry.matter.state == MatterState::Open && entry.until > Instant::now() && entry.bond == *bond
            })
        };
        // Looking is no change, or everybody who waits would wake everybody else.
        if is_open { Ok(None) } else { self.redeem(id, bond, None) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.detached {
            return;
        }
        let mut state = self.desk.state();
        if state.entries.contains_key(&self.id) {
            self.desk.finish(&mut state, &self.id, MatterState::Withdrawn);
            drop(state);
            self.desk.changed();
        }
    }
}
