//! How a node sends requests to the owner of their session.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hospes::transport::http_server::shared_sessions::{ForwardResult, SessionForwarder};
use hospes_fleet::node::NodeRecord;
use hospes_fleet::session::SessionKey;
use http::request::Parts;

use crate::owner_cache::OwnerCache;

/// Connections to the other nodes.
pub trait NodeTransport: fmt::Debug + Send + Sync + 'static {
    /// Sends a request once, and returns the response as it comes. The receiver serves it with the mark
    /// [`ForwardedRequest`](hospes::transport::http_server::shared_sessions::ForwardedRequest), as sent by the same
    /// principal.
    fn forward<'a>(&'a self, node: &'a NodeRecord, parts: Parts, body: Bytes)
    -> BoxFuture<'a, ForwardResult>;
}

/// Forwards the requests of a session to a node.
#[derive(Debug)]
pub(crate) struct NodeForwarder {
    transport: Arc<dyn NodeTransport>,
    node: NodeRecord,
    /// Cache that has the node as the owner of this session.
    remembered: Option<(OwnerCache, SessionKey)>,
}

impl NodeForwarder {
    pub(crate) fn new(
        transport: Arc<dyn NodeTransport>,
        node: NodeRecord,
        remembered: Option<(OwnerCache, SessionKey)>,
    ) -> Self {
        Self { transport, node, remembered }
    }
}

impl SessionForwarder for NodeForwarder {
    fn forward(&self, parts: Parts, body: Bytes) -> BoxFuture<'_, ForwardResult> {
        async move {
            let result = self.transport.forward(&self.node, parts, body).await;
            let is_served =
                matches!(&result, ForwardResult::Response(response) if response.status().is_success());
            if let Some((owners, session)) = self.remembered.as_ref().filter(|_| !is_served) {
                // Another node may own the session by now, or none.
                owners.remove(session);
            }
            result
        }
        .boxed()
    }

    fn forget(&self) {
        if let Some((owners, session)) = &self.remembered {
            owners.remove(session);
        }
    }
}
