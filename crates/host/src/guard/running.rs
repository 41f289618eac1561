//! Approved calls whose servers ask something in between: the next round is approved, too.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hospes_model::RawJson;
use tokio::time::Instant;

use super::bond::Bond;
use crate::desk::{Full, Refused, id};

/// Maximum number of approved calls that wait for the answer to a server's question.
const MAX_RUNNING: usize = 4096;

/// Lifetime of such an approval; longer than any call of an older server is kept waiting.
const RUNNING: Duration = Duration::from_secs(24 * 3600);

/// Binding of the approved call, and the arguments that replace the original ones.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Approved {
    pub(super) bond: Bond,
    pub(super) edited: Option<RawJson>,
    /// True if the person was told which data of the session could be sent out.
    pub(super) flow: bool,
}

#[derive(Debug, Default)]
pub(super) struct Running(Mutex<HashMap<String, (Approved, Instant)>>);

impl Running {
    /// The word that the next round is approved.
    pub(super) fn go_on(&self, approved: Approved) -> Result<String, Refused> {
        let (id, now) = (id()?, Instant::now());
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if running.len() >= MAX_RUNNING {
            running.retain(|_, (_, until)| *until > now);
        }
        if running.len() >= MAX_RUNNING {
            return Err(Refused::TooMany(Full::Running(MAX_RUNNING)));
        }
        running.insert(id.clone(), (approved, now + RUNNING));
        Ok(id)
    }

    /// The call that was approved is given up.
    pub(super) fn forget(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Uses up that word; what was approved.
    pub(super) fn resume(&self, id: &str, bond: &Bond) -> Result<Approved, Refused> {
        let given = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        match given {
            Some((_, until)) if until <= Instant::now() => Err(Refused::Expired),
            Some((approved, _)) if approved.bond == *bond => Ok(approved),
            Some(_) => Err(Refused::Changed),
            None => Err(Refused::Expired),
        }
    }
}
