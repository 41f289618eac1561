//! Connector whose connections are measured.

use std::sync::Arc;

use hospes::{Call, Outcome, Service as _};
use tokio::sync::watch;

use super::connector::{
    ConnectOptions, ConnectorFuture, SignInChanges, UpstreamConnectError, UpstreamConnection,
    UpstreamConnector,
};
use super::process::ServerProcess;
use crate::config::ServerTransport;
use crate::metrics::{ConnectionMetrics, HostMetrics, ServerAddress, excluded};

/// Connector that gives each connection of another one its metrics.
pub(crate) struct MeasuredConnector {
    inner: Arc<dyn UpstreamConnector>,
    metrics: Arc<HostMetrics>,
    server: Arc<str>,
    transport: &'static str,
    address: Option<ServerAddress>,
}

impl MeasuredConnector {
    pub(crate) fn wrap(
        inner: Arc<dyn UpstreamConnector>,
        metrics: &Arc<HostMetrics>,
        server: &Arc<str>,
        transport: &ServerTransport,
    ) -> Arc<dyn UpstreamConnector> {
        let (metrics, server) = (Arc::clone(metrics), Arc::clone(server));
        Arc::new(Self { inner, metrics, server, transport: transport.kind(), address: address(transport) })
    }
}

/// Returns the host and the port of a URL.
fn address(transport: &ServerTransport) -> Option<ServerAddress> {
    let ServerTransport::Http(http) = transport else { return None };
    let url = http.url.reveal();
    // A host that stands there as a reference may be a secret.
    let host = url.host_str().filter(|host| http.url.written().contains(*host))?;
    Some(ServerAddress { host: Arc::from(host), port: url.port_or_known_default()? })
}

impl UpstreamConnector for MeasuredConnector {
    fn connect(
        &self,
        wish: ConnectOptions,
    ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>> {
        Box::pin(async move {
            let mut connection = self.inner.connect(wish).await?;
            let revision = connection.revision;
            let place = (self.transport, self.address.as_ref());
            connection.metrics = Some(ConnectionMetrics::begin(&self.metrics, &self.server, place, revision));
            Ok(connection)
        })
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn process(&self) -> Option<Arc<ServerProcess>> {
        self.inner.process()
    }

    fn changes(&self) -> Option<watch::Receiver<SignInChanges>> {
        self.inner.changes()
    }

    fn node(&self) -> Option<Arc<str>> {
        self.inner.node()
    }

    fn has_sign_in(&self) -> ConnectorFuture<'_, Option<bool>> {
        self.inner.has_sign_in()
    }
}

impl UpstreamConnection {
    /// Calls the server, and measures the call if there are metrics.
    pub(crate) async fn call(&self, call: Call) -> Outcome {
        let answer = |call| excluded(self.service.call(call));
        match &self.metrics {
            Some(metrics) => metrics.measure(call, answer).await,
            None => answer(call).await,
        }
    }
}
