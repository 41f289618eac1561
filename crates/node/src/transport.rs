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

use crate::node_list::NodeList;
use crate::owner_cache::OwnerCache;

/// Connections to the other nodes.
pub trait NodeTransport: fmt::Debug + Send + Sync + 'static {
    /// Sends a request once, and returns the response as it comes. The receiver serves it with the mark
    /// [`ForwardedRequest`](hospes::transport::http_server::shared_sessions::ForwardedRequest), as sent by the same
    /// principal.
    fn forward<'a>(&'a self, node: &'a NodeRecord, parts: Parts, body: Bytes)
    -> BoxFuture<'a, ForwardResult>;
}

/// Source from which a forwarder knows its node.
#[derive(Debug)]
pub(crate) enum ForwarderSource {
    /// Remembered owner of this session.
    Owner(OwnerCache, SessionKey),
    /// List of the nodes.
    Listed(NodeList),
}

impl ForwarderSource {
    fn forget(&self) {
        match self {
            Self::Owner(owners, session) => owners.remove(session),
            Self::Listed(nodes) => nodes.expire(),
        }
    }
}

/// Forwards requests to a node.
#[derive(Debug)]
pub(crate) struct NodeForwarder {
    transport: Arc<dyn NodeTransport>,
    node: NodeRecord,
    source: ForwarderSource,
}

impl NodeForwarder {
    pub(crate) fn new(transport: Arc<dyn NodeTransport>, node: NodeRecord, source: ForwarderSource) -> Self {
        Self { transport, node, source }
    }
}

impl SessionForwarder for NodeForwarder {
    fn forward(&self, parts: Parts, body: Bytes) -> BoxFuture<'_, ForwardResult> {
        async move {
            let result = self.transport.forward(&self.node, parts, body).await;
            if !matches!(&result, ForwardResult::Response(response) if response.status().is_success()) {
                // Another node may own the session by now, or none.
                self.source.forget();
            }
            result
        }
        .boxed()
    }

    fn forget(&self) {
        self.source.forget();
    }
}
