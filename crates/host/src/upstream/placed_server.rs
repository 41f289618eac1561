//! Server of this node as the other nodes of a fleet call it.
//!
//! Calls were judged and are recorded at the node that they came to, so nothing is asked or recorded here.

use std::sync::Arc;
use std::time::Duration;

use hospes::{Call, Context, Outcome, Service};
use hospes_model::{Notification, Reply, Revision, RpcError};

use super::application::ApplicationIdentity;
use super::connection_pool::ConnectionLease;
use super::line::SendTurn;
use super::phase::ReadyConnection;
use super::server::Upstream;
use super::status::UpstreamStatus;
use crate::server::CapabilitySet;

/// A server that this node runs for the others. Each connection of another node is an application of its own.
#[derive(Clone, Debug)]
pub struct PlacedServer {
    upstream: Arc<Upstream>,
    /// Time that a call waits for the server.
    wait: Duration,
    revision: Revision,
}

/// Connection that a call may use.
struct PlacedCall {
    lease: ConnectionLease,
    live: Arc<ReadyConnection>,
    turn: Option<SendTurn>,
}

impl PlacedServer {
    /// Waits for the server, at most `wait`, which is also the time that each call waits for it.
    ///
    /// # Errors
    /// Returns why the server is not ready.
    pub(crate) async fn new(upstream: Arc<Upstream>, wait: Duration) -> Result<Self, String> {
        let mut server = Self { upstream, wait, revision: Revision::LATEST };
        let line = server.upstream.primary();
        let ready = line.ready(wait).await;
        let (live, turn) =
            ready.ok_or_else(|| server.unreached(&UpstreamStatus::of(&line.server, &line.phase())))?;
        drop(turn);
        server.revision = live.revision();
        Ok(server)
    }

    /// Returns the revision that the server speaks.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    fn unreached(&self, status: &UpstreamStatus) -> String {
        let name = &self.upstream.server.name;
        let state = status.state.as_str();
        let problem = status.problem.as_deref().map(|problem| format!(": {problem}")).unwrap_or_default();
        format!("the server `{name}` is not available now at the node that runs it ({state}){problem}")
    }

    /// Leases the connection of a caller.
    async fn reach(&self, context: &Context) -> Result<PlacedCall, String> {
        let (application, abilities) =
            (ApplicationIdentity::of(context.peer()), CapabilitySet::of(&context.peer().capabilities));
        let mut taken = self.upstream.lease(&application, abilities)?;
        loop {
            let Some((live, turn)) = taken.line.ready(self.wait).await else {
                taken.finish();
                return Err(self.unreached(&UpstreamStatus::of(&self.upstream.server, &taken.line.phase())));
            };
            // Once it is connected it is known whether applications may share the connection.
            let fitting = self.upstream.lease(&application, abilities);
            taken.finish();
            let mut fitting = fitting?;
            if Arc::ptr_eq(&fitting.line, &taken.line) {
                fitting.begin();
                return Ok(PlacedCall { lease: fitting, live, turn });
            }
            taken = fitting;
        }
    }
}

impl Service for PlacedServer {
    async fn call(&self, call: Call) -> Outcome {
        let PlacedCall { mut lease, live, mut turn } = match self.reach(&call.context).await {
            Ok(reached) => reached,
            Err(why) => return Outcome::Failed(RpcError::internal(why)),
        };
        let outcome = live.call_in_turn(call, &mut turn).await;
        match &outcome {
            // A task goes on, and may ask: the connection stays.
            Outcome::Complete(Reply::CreateTask(made)) => lease.tasks().note(&made.task),
            _ => lease.finish(),
        }
        outcome
    }

    async fn notified(&self, notification: Notification, context: Context) {
        if let Ok(PlacedCall { mut lease, live, .. }) = self.reach(&context).await {
            lease.finish();
            live.connection.service.notified(notification, context).await;
        }
    }

    /// Returns true: a call never blocks its thread, and the server receives the calls of one application in order.
    fn is_cooperative(&self) -> bool {
        true
    }
}
