//! Entry of a configured server: one shared server, or one for each user.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::roots::RootsPolicy;
use super::server::Upstream;
use super::status::UpstreamStatus;
use crate::config::ToolFilter;
use crate::server::UpstreamServer;

/// Creates the connection on behalf of a user. Returns `None` if sign-in is not possible.
pub(crate) type UserConnector = Box<dyn Fn(&Arc<str>) -> Option<Upstream> + Send + Sync>;

/// A configured server.
pub(crate) struct UpstreamEntry {
    pub(crate) server: Arc<UpstreamServer>,
    pub(crate) filter: ToolFilter,
    /// Policy for the roots reported to the server.
    pub(crate) roots: RootsPolicy,
    /// True if the host does not start without the server.
    pub(crate) is_required: bool,
    behind: UpstreamSharing,
    removed: AtomicBool,
}

enum UpstreamSharing {
    Everybody(Arc<Upstream>),
    EachUser { connect: UserConnector, open: Mutex<HashMap<Arc<str>, Arc<Upstream>>>, max_users: usize },
}

impl UpstreamEntry {
    /// One server for all.
    pub(crate) fn shared(
        upstream: Upstream,
        filter: ToolFilter,
        roots: RootsPolicy,
        is_required: bool,
    ) -> Self {
        let server = Arc::clone(&upstream.server);
        let behind = UpstreamSharing::Everybody(Arc::new(upstream));
        Self { server, filter, roots, is_required, behind, removed: AtomicBool::new(false) }
    }

    /// Creates an entry with one server per user. It starts with none, so nothing waits for it.
    pub(crate) fn per_user(
        server: Arc<UpstreamServer>,
        filter: ToolFilter,
        roots: RootsPolicy,
        connect: UserConnector,
        max_users: usize,
    ) -> Self {
        let behind = UpstreamSharing::EachUser { connect, open: Mutex::default(), max_users };
        Self { server, filter, roots, is_required: false, behind, removed: AtomicBool::new(false) }
    }

    /// Returns true if each user has an account of their own.
    pub(crate) fn is_per_user(&self) -> bool {
        matches!(self.behind, UpstreamSharing::EachUser { .. })
    }

    /// Returns true if the server was removed from the configuration.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// Marks the server as removed, so that no call finds it any more. Returns what has to be stopped.
    pub(crate) fn remove(&self) -> Vec<Arc<Upstream>> {
        self.removed.store(true, Ordering::Release);
        match &self.behind {
            UpstreamSharing::Everybody(upstream) => vec![Arc::clone(upstream)],
            UpstreamSharing::EachUser { open, .. } => {
                open.lock().drain().map(|(_, upstream)| upstream).collect()
            }
        }
    }

    /// Returns the server for this user and connects it if needed. Returns none if accounts are per user and the caller
    /// is not signed in, and of a removed server.
    pub(crate) fn of(&self, user: Option<&Arc<str>>) -> Option<Arc<Upstream>> {
        if self.is_removed() {
            return None;
        }
        match &self.behind {
            UpstreamSharing::Everybody(upstream) => Some(Arc::clone(upstream)),
            UpstreamSharing::EachUser { connect, open, max_users } => {
                // Held over `connect`, which does not wait: two calls of a user would otherwise open two servers.
                let (user, mut open) = (user?, open.lock());
                if let Some(upstream) = open.get(user) {
                    return Some(Arc::clone(upstream));
                }
                if open.len() >= *max_users {
                    tracing::warn!(server = %self.server.name, limit = "max_users", "too many users at once");
                    return None;
                }
                let upstream = Arc::new(connect(user)?);
                open.insert(Arc::clone(user), Arc::clone(&upstream));
                Some(upstream)
            }
        }
    }

    /// Returns all servers that are connected or connecting.
    pub(crate) fn all(&self) -> Vec<Arc<Upstream>> {
        match &self.behind {
            UpstreamSharing::Everybody(upstream) => vec![Arc::clone(upstream)],
            UpstreamSharing::EachUser { open, .. } => open.lock().values().cloned().collect(),
        }
    }

    /// Removes the servers of users that no view needs any more; the caller stops them.
    pub(crate) fn release_users(&self, is_wanted: &impl Fn(&Arc<str>) -> bool) -> Vec<Arc<Upstream>> {
        let UpstreamSharing::EachUser { open, .. } = &self.behind else { return Vec::new() };
        let mut open = open.lock();
        let mut over = Vec::new();
        open.retain(|user, upstream| {
            // Closing one that is busy would end calls and tasks of a user who only has no view any more.
            let stays = is_wanted(user) || !upstream.is_idle();
            if !stays {
                over.push(Arc::clone(upstream));
            }
            stays
        });
        over
    }

    /// Returns the status of the server. For per-user servers only the number of users is included.
    pub(crate) fn status(&self) -> UpstreamStatus {
        let mut status = match &self.behind {
            UpstreamSharing::Everybody(upstream) => upstream.status(),
            UpstreamSharing::EachUser { open, .. } => {
                let lines = open.lock();
                UpstreamStatus::per_user(&self.server, lines.len())
            }
        };
        status.roots = self.roots.own.iter().map(|folder| folder.display().to_string()).collect();
        status
    }
}

impl std::fmt::Debug for UpstreamEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamEntry").field("server", &self.server.name).finish_non_exhaustive()
    }
}
