//! Listener for the other nodes: HTTP/2 with mutual TLS.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use hospes::transport::http_server::shared_sessions::ForwardedRequest;
use hospes::transport::http_server::{Body, Endpoint};
use hospes_fleet::node::NodeId;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroizing;

use crate::caller_context::{ContextKeys, EXPORTER_LABEL};
use crate::certificates::{FleetSecrets, NodeTls, is_certificate_of};
use crate::membership::Membership;

/// Maximum number of connections from other nodes: the limit `max_node_connections`.
const MAX_CONNECTIONS: usize = 1024;
/// Maximum time for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of requests of a connection at once.
const MAX_STREAMS: u32 = 8192;
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
const PING_INTERVAL: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum size of a request's headers, in bytes: those of the application, and the context with the caller's groups.
const MAX_HEADER_BYTES: u32 = 192 * 1024;
/// Longest request, in bytes. Endpoints have limits of their own, which are lower.
const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// Finds the endpoint of a path.
type EndpointLookup = dyn Fn(&str) -> Option<Endpoint> + Send + Sync;

/// Listener for requests that other nodes forward.
pub struct NodeServer {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<NodeServerShared>,
}

struct NodeServerShared {
    membership: Membership,
    tls: NodeTls,
    endpoints: Box<EndpointLookup>,
    permits: Arc<Semaphore>,
}

impl NodeServer {
    /// Listens at an address. Only nodes that have the secret of the fleet are served.
    ///
    /// # Errors
    /// If the address cannot be taken.
    pub async fn bind(address: impl ToSocketAddrs) -> io::Result<NodeListener> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(NodeListener { listener, address })
    }

    /// Returns the address that was taken.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is ready; then requests that are being answered have `grace` to end.
    pub async fn serve_until(self, shutdown: impl Future<Output = ()>, grace: Duration) {
        let mut shutdown = pin!(shutdown);
        let (ending, _) = watch::channel(false);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut shutdown => break,
                accepted = self.listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection of a node");
                    // Without a pause `accept` would fail again at once.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Ok(permit) = Arc::clone(&self.shared.permits).try_acquire_owned() else {
                tracing::warn!(
                    "too many connections of nodes (limit max_node_connections: {MAX_CONNECTIONS})"
                );
                continue;
            };
            let (shared, ended) = (Arc::clone(&self.shared), ending.subscribe());
            tokio::spawn(async move {
                if let Err(error) = serve(shared, stream, ended).await {
                    tracing::debug!(error, "a connection of a node has ended");
                }
                drop(permit);
            });
        }
        drop(self.listener);
        ending.send_replace(true);
        // Ready when the last connection has dropped its receiver.
        let _ = tokio::time::timeout(grace, ending.closed()).await;
    }
}

/// Address at which a node listens, before its membership is known: others are told the address when it joins.
#[derive(Debug)]
pub struct NodeListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl NodeListener {
    /// Returns the address that was taken.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves the endpoints of a member of the fleet; `endpoints` finds the one of a path.
    #[must_use]
    pub fn server(
        self,
        membership: Membership,
        secrets: FleetSecrets,
        endpoints: impl Fn(&str) -> Option<Endpoint> + Send + Sync + 'static,
    ) -> NodeServer {
        let shared = NodeServerShared {
            membership,
            tls: NodeTls::new(secrets),
            endpoints: Box::new(endpoints),
            permits: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        };
        NodeServer { listener: self.listener, address: self.address, shared: Arc::new(shared) }
    }
}

/// A connection of another node.
struct NodeConnection {
    shared: Arc<NodeServerShared>,
    keys: ContextKeys,
    certificate: CertificateDer<'static>,
    /// Node of the certificate, once a request has named it.
    peer: OnceLock<NodeId>,
}

async fn serve(
    shared: Arc<NodeServerShared>,
    stream: TcpStream,
    mut ending: watch::Receiver<bool>,
) -> Result<(), String> {
    let _ = stream.set_nodelay(true);
    // Also without a lease, which only sessions need.
    let tls = shared.tls.server(shared.membership.id()).map_err(|error| error.to_string())?;
    let accepted = tokio::time::timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(tls).accept(stream)).await;
    let stream = accepted.map_err(|_| "no handshake in time")?.map_err(|error| error.to_string())?;
    let (_, session) = stream.get_ref();
    let exported = session.export_keying_material(Zeroizing::new([0; 32]), EXPORTER_LABEL, None);
    let exported = exported.map_err(|error| error.to_string())?;
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let certificate = certificate.ok_or("no certificate")?.clone().into_owned();
    let keys = ContextKeys::new(shared.tls.secrets(), &exported);
    let connection = Arc::new(NodeConnection { shared, keys, certificate, peer: OnceLock::new() });
    let service = service_fn(|request: Request<Incoming>| {
        let connection = Arc::clone(&connection);
        async move { Ok::<_, Infallible>(connection.answer(request).await) }
    });
    let served = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_header_list_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    tokio::select! {
        served = &mut served => return served.map_err(|error| error.to_string()),
        _ = ending.changed() => served.as_mut().graceful_shutdown(),
    }
    served.await.map_err(|error| error.to_string())
}

impl NodeConnection {
    /// Returns true if the certificate is that of a node. It is read once, because it is the same for each request.
    fn is_from(&self, node: NodeId) -> bool {
        if self.peer.get() == Some(&node) {
            return true;
        }
        let is_from = is_certificate_of(&self.certificate, node);
        if is_from {
            // A certificate has one name.
            let _ = self.peer.set(node);
        }
        is_from
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let Ok(body) = Limited::new(body, MAX_REQUEST_BYTES).collect().await else {
            return refusal("its body is incomplete or too long");
        };
        let body: Bytes = body.to_bytes();
        let Some(context) = self.keys.open(&parts, &body) else {
            return refusal("its caller context is not signed for this connection and request");
        };
        if !self.is_from(context.from) {
            return refusal("its caller context is that of another node than the certificate");
        }
        if !self.shared.membership.is_owner(context.to) {
            return refusal("it is for an earlier id of this process, or this node has no lease");
        }
        let Some(endpoint) = (self.shared.endpoints)(parts.uri.path()) else {
            return refusal("no endpoint has its path");
        };
        parts.headers.remove(crate::caller_context::CALLER);
        if let Some(host) = parts.uri.authority().and_then(|host| host.as_str().parse().ok()) {
            parts.headers.insert(http::header::HOST, host);
        }
        context.apply(&mut parts);
        parts.extensions.insert(ForwardedRequest);
        endpoint.handle(Request::from_parts(parts, Full::new(body))).await
    }
}

/// Refuses a request that was not processed, so that its node looks for another way.
fn refusal(why: &'static str) -> Response<Body> {
    tracing::debug!(why, "a forwarded request was refused");
    let mut response = Response::new(Body::from(Bytes::new()));
    *response.status_mut() = StatusCode::MISDIRECTED_REQUEST;
    response
}

impl fmt::Debug for NodeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeServer").field("address", &self.address).finish_non_exhaustive()
    }
}
