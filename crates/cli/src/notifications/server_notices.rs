//! Servers that need the person: a sign-in, once a day, and failures that last.

use std::collections::BTreeMap;
use std::time::Duration;

use hospes_host::upstream::{UpstreamState, UpstreamStatus};
use jiff::Timestamp;

use super::notification_plan::later;

/// Time between two notifications of a sign-in at one server.
const SIGN_IN_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// Time for which a server has failed before a person is notified. Most failures pass by themselves.
const FAILURE_GRACE: Duration = Duration::from_secs(5 * 60);

/// Trouble of a server that a person can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerTrouble {
    SignIn,
    Failure,
}

impl ServerTrouble {
    fn of(server: &UpstreamStatus) -> Option<Self> {
        let is_down = matches!(server.state, UpstreamState::Retrying | UpstreamState::Failed);
        let signs_in = server.hint.as_deref().is_some_and(|hint| hint.contains("hospes auth login"));
        is_down.then_some(if signs_in { Self::SignIn } else { Self::Failure })
    }
}

#[derive(Debug, Default)]
struct ServerNotice {
    /// Present trouble, and its beginning.
    trouble: Option<(ServerTrouble, Timestamp)>,
    /// True if the person was told of the present trouble.
    is_told: bool,
    signed_in_told_at: Option<Timestamp>,
}

impl ServerNotice {
    fn due(&self) -> Option<Timestamp> {
        let (trouble, since) = self.trouble?;
        match trouble {
            ServerTrouble::SignIn => {
                Some(self.signed_in_told_at.map_or(since, |at| later(at, SIGN_IN_INTERVAL).max(since)))
            }
            ServerTrouble::Failure => (!self.is_told).then(|| later(since, FAILURE_GRACE)),
        }
    }
}

/// Notices about servers.
#[derive(Debug, Default)]
pub(super) struct ServerNotices(BTreeMap<String, ServerNotice>);

impl ServerNotices {
    /// Notes the states of the servers.
    pub(super) fn observe(&mut self, now: Timestamp, servers: &[UpstreamStatus]) {
        // The time of the last sign-in notice outlives a reload of the configuration.
        for (name, notice) in &mut self.0 {
            if !servers.iter().any(|server| server.name == *name) {
                (notice.trouble, notice.is_told) = (None, false);
            }
        }
        for server in servers {
            let found = ServerTrouble::of(server);
            // A server that is started again has not recovered yet.
            if server.state == UpstreamState::Starting
                || found.is_none() && !self.0.contains_key(&server.name)
            {
                continue;
            }
            let notice = self.0.entry(server.name.clone()).or_default();
            if notice.trouble.map(|(trouble, _)| trouble) != found {
                (notice.trouble, notice.is_told) = (found.map(|found| (found, now)), false);
            }
        }
    }

    /// Returns when the next notice is due.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.0.values().filter_map(ServerNotice::due).min()
    }

    /// Marks what is due as told.
    pub(super) fn mark_told(&mut self, now: Timestamp) {
        for notice in self.0.values_mut().filter(|notice| notice.due().is_some_and(|due| due <= now)) {
            notice.is_told = true;
            if let Some((ServerTrouble::SignIn, _)) = notice.trouble {
                notice.signed_in_told_at = Some(now);
            }
        }
    }

    /// Returns the servers of which the person was told and that are still in trouble.
    pub(super) fn open(&self) -> Vec<(&str, ServerTrouble)> {
        let told = self.0.iter().filter(|(_, notice)| notice.is_told);
        told.filter_map(|(name, notice)| Some((name.as_str(), notice.trouble?.0))).collect()
    }
}
