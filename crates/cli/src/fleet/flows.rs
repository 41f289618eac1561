//! Data flows of all nodes, in Redis.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use hospes_fleet::Relay;
use hospes_fleet::keys::FlowKey;
use hospes_host::SharedFlowLabels;

/// Labels of data flows in Redis.
#[derive(Debug)]
pub(super) struct RelayFlows(pub(super) Arc<dyn Relay>);

impl SharedFlowLabels for RelayFlows {
    fn add<'a>(
        &'a self,
        flow: &'a [&'a [u8]],
        labels: &'a [&'a str],
        lifetime: Duration,
    ) -> BoxFuture<'a, Result<Vec<Box<str>>, String>> {
        Box::pin(async move {
            let added = self.0.add_labels(&FlowKey::new(flow), labels, lifetime).await;
            added.map_err(|error| error.to_string())
        })
    }
}
