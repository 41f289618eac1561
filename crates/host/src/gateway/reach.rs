//! Selection of the connection for a call.

use std::sync::Arc;

use hospes_model::RpcError;

use super::gateway_state::ViewLease;
use super::handle::Gateway;
use crate::metrics::excluded;
use crate::upstream::{
    ConnectionLease, ReadyConnection, SendTurn, SupervisedConnection, UpstreamState, UpstreamStatus,
    sign_in_required_error,
};

/// A connection that a call may use.
#[derive(Debug)]
pub(super) struct ReachedUpstream {
    pub(super) lease: ConnectionLease,
    pub(super) live: Arc<ReadyConnection>,
    /// Turn in the send order; set if the call had to wait for the connection.
    pub(super) turn: Option<SendTurn>,
}

/// Reasons a server cannot be called.
#[derive(Debug)]
pub(super) struct ReachError {
    /// Reason, as a sentence.
    pub(super) why: String,
    /// The server's name and the URL at which the user has to sign in first.
    pub(super) sign_in: Option<(Arc<str>, Arc<str>)>,
}

impl From<String> for ReachError {
    fn from(why: String) -> Self {
        Self { why, sign_in: None }
    }
}

impl From<ReachError> for RpcError {
    fn from(unreached: ReachError) -> Self {
        match unreached.sign_in {
            Some((server, url)) => sign_in_required_error(&server, &url),
            None => Self::internal(unreached.why),
        }
    }
}

impl Gateway {
    /// Returns a connection to a server for a call, or the reason the server cannot be reached.
    pub(super) async fn reach(
        &self,
        server: usize,
        using: &ViewLease,
    ) -> Result<ReachedUpstream, ReachError> {
        let slot = &self.shared.upstreams[server];
        // The last check before a connection: what a profile does not show is not reached, however it was found.
        if !using.sees(server) {
            return Err("unknown server".to_owned().into());
        }
        let (limit, abilities) = (self.shared.settings.call_wait, using.view.abilities);
        let name = &slot.server.name;
        let Some(upstream) = slot.of(using.view.user.as_ref()) else {
            let why = match &using.view.user {
                Some(_) => "signing in is not possible now",
                None => "the caller is not signed in",
            };
            return Err(format!("the server `{name}` requires an account for each user: {why}").into());
        };
        let lease = || {
            let lease = upstream.lease(&using.application, abilities);
            lease.map_err(|why| format!("the server `{name}` is not available now: {why}"))
        };
        let user = using.view.user.as_ref();
        let mut taken = lease()?;
        loop {
            // Whoever has to go somewhere first is not kept waiting.
            if let Some(sign_in) = self.wanted_sign_in(name, user, &taken.line).await {
                taken.finish();
                let why = format!("the user has to sign in at `{name}` first");
                return Err(ReachError { why, sign_in: Some(sign_in) });
            }
            let ready = excluded(taken.line.ready(limit));
            let Some((live, turn)) = ready.await else { break };
            // Once it is connected it is known whether applications may share the connection.
            let mut fitting = lease()?;
            taken.finish();
            if Arc::ptr_eq(&fitting.line, &taken.line) {
                fitting.begin();
                return Ok(ReachedUpstream { lease: fitting, live, turn });
            }
            taken = fitting;
        }
        taken.finish();
        // It may have turned out only while the call was waiting.
        let sign_in = self.wanted_sign_in(name, user, &taken.line).await;
        // That of this connection: another one to the same server may well be ready.
        let status = UpstreamStatus::of(&upstream.server, &taken.line.phase());
        let mut why = match (status.state, status.since_ms) {
            (UpstreamState::Starting, Some(since)) => format!(
                "the server `{name}` is still starting, after {} s; a call waits {} s for it (setting call_wait): \
                 call again later",
                since / 1000,
                limit.as_secs()
            ),
            (UpstreamState::Ready, _) => {
                format!("the connection to the server `{name}` was lost a moment ago; call again")
            }
            (state, _) => format!("the server `{name}` is not available now ({})", state.as_str()),
        };
        if let Some(problem) = status.problem {
            why.push_str(": ");
            why.push_str(&problem);
        }
        Err(ReachError { why, sign_in })
    }

    /// Returns the sign-in that a connection waits for, if its link can still be opened.
    async fn wanted_sign_in(
        &self,
        name: &Arc<str>,
        user: Option<&Arc<str>>,
        line: &SupervisedConnection,
    ) -> Option<(Arc<str>, Arc<str>)> {
        let url = line.phase().sign_in().cloned()?;
        let accounts = self.shared.accounts.as_ref()?;
        let id = accounts.parse_link_id(&url)?;
        match accounts.is_open(id).await {
            Ok(true) => return Some((Arc::clone(name), url)),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "account links cannot be read"),
        }
        // A link that was used, or whose time is over, leads nowhere. It may have been used at another node.
        if let Some(user) = user {
            accounts.recheck(name, user).await;
        }
        None
    }

    /// Returns the server that a name belongs to, if the server is starting and worth waiting for.
    pub(super) fn starting_owner(&self, name: &str, using: &ViewLease) -> Option<usize> {
        let server = match self.scope.server() {
            Some(server) => server,
            None => {
                let (prefix, _) = name.split_once(crate::catalogue::names::SEPARATOR)?;
                self.position(self.shared.upstreams.prefixes().server(prefix)?)?
            }
        };
        let line = self.shared.upstreams[server].of(using.view.user.as_ref())?.line(using.view.abilities);
        line.live().is_none().then_some(server)
    }

    /// Returns true if the server's offerings are unknown, because it has not been ready yet or has failed permanently.
    pub(super) fn is_unknown(&self, server: usize, using: &ViewLease) -> bool {
        let upstream = self.shared.upstreams[server].of(using.view.user.as_ref());
        upstream.is_none_or(|upstream| upstream.offers(using.view.abilities).is_none())
    }
}
