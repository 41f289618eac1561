//! Operations and sessions of the host at servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use hospes::{Call, Outcome};
use hospes_model::Revision;
use parking_lot::Mutex;

use super::histogram::nanos;
use super::labels::LabelValue;
use super::operation::{OperationSide, PIPE, RunningOperation, TCP};
use super::registry::HostMetrics;

/// Labels of sessions.
pub(super) const SESSION_LABELS: [&str; 3] = ["mcp_protocol_version", "network_transport", "server"];

/// Maximum number of operations of one connection whose questions wait for answers.
const MAX_ASKING: usize = 1024;

/// Host and port of a server that is reached over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct ServerAddress {
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
}

/// Metrics of one connection to a server. The session ends when it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionMetrics {
    metrics: Arc<HostMetrics>,
    server: LabelValue,
    transport: LabelValue,
    address: Option<ServerAddress>,
    revision: Revision,
    begun: Instant,
    /// Operations of an older server that wait for answers to their questions, by the handle of the call.
    asking: Mutex<HashMap<String, RunningOperation>>,
}

impl ConnectionMetrics {
    /// Begins the session of a new connection. `transport` is that of the configuration.
    pub(crate) fn begin(
        metrics: &Arc<HostMetrics>,
        server: &str,
        (transport, address): (&str, Option<&ServerAddress>),
        revision: Revision,
    ) -> Self {
        metrics.learn(std::iter::once(server));
        let transport = match transport {
            "stdio" => PIPE,
            "http" => TCP,
            _ => LabelValue::Absent,
        };
        let (metrics, server) = (Arc::clone(metrics), metrics.names.value(server));
        let (begun, address) = (Instant::now(), address.cloned());
        Self { metrics, server, transport, address, revision, begun, asking: Mutex::default() }
    }

    /// Measures a call of the server, which `answer` answers. The rounds of a call that an older server asks questions in
    /// are one operation.
    pub(crate) async fn measure<A: Future<Output = Outcome>>(
        &self,
        call: Call,
        answer: impl FnOnce(Call) -> A,
    ) -> Outcome {
        let place = (OperationSide::Client(self.server), self.revision, self.transport);
        let (mut running, is_new) = match self.resume(&call) {
            Some(running) => (running, false),
            None => (RunningOperation::begin(&self.metrics, &call, place), true),
        };
        let mut call = call;
        if let Some(span) = running.span_mut().filter(|_| is_new) {
            if let Some(address) = &self.address {
                span.set_address(address);
            }
            // Answers to the questions of a call belong to what has been sent.
            if let Some(params) = span.sent_params(&call.params) {
                call = Call::new(call.method.clone(), params, call.context.clone());
            }
        }
        let outcome = answer(call).await;
        match &outcome {
            // Only the questions of a call that goes on take refusals.
            Outcome::InputRequired(pending) if self.revision.is_legacy() && pending.round.takes_refusals => {
                running.wait_for_answers();
                if let Some(handle) = &pending.round.carried {
                    self.keep(handle, running);
                }
            }
            outcome => running.finish(outcome),
        }
        outcome
    }

    /// Returns the operation that the answers of a call belong to.
    fn resume(&self, call: &Call) -> Option<RunningOperation> {
        if !self.revision.is_legacy() || !call.method.allows_input_requests() {
            return None;
        }
        let handle = call.context.round().carried?;
        self.asking.lock().remove(&handle).map(RunningOperation::resume)
    }

    fn keep(&self, handle: &str, running: RunningOperation) {
        let mut asking = self.asking.lock();
        if asking.len() >= MAX_ASKING {
            // The client has as many parked calls at most, so some of these have no answers to come.
            asking.clear();
        }
        asking.insert(handle.to_owned(), running);
    }
}

impl Drop for ConnectionMetrics {
    fn drop(&mut self) {
        let elapsed = nanos(self.begun.elapsed());
        let labels = [LabelValue::Fixed(self.revision.as_str()), self.transport, self.server];
        self.metrics.client_sessions.with(labels, |histogram| histogram.observe(elapsed));
    }
}
