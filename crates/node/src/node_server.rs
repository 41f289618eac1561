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
use futures::future::BoxFuture;
use hospes::transport::http_server::shared_sessions::ForwardedRequest;
use hospes::transport::http_server::{Body, Endpoint};
use hospes_fleet::node::NodeId;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroizing;

use crate::caller_context::{CallerContext, ContextKeys, EXPORTER_LABEL};
use crate::certificates::{FleetSecrets, NodeTls, is_certificate_of};
use crate::membership::Membership;
use crate::peers::NodeStream;

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

/// Header with the revision that a server speaks, in the response to the request for a stream to it.
pub(crate) const REVISION: &str = "hospes-revision";
/// Longest reason for which a stream was refused, in bytes.
pub(crate) const MAX_REASON_BYTES: usize = 4096;

/// Finds a server of this node for another one. The error is a sentence.
type ServerLookup = dyn Fn(String) -> BoxFuture<'static, Result<AcceptedServer, String>> + Send + Sync;

/// Server that this node runs for another one.
#[expect(clippy::exhaustive_structs, reason = "a pair that callers make")]
pub struct AcceptedServer {
    /// Revision that the server speaks.
    pub revision: String,
    /// Serves the messages on a stream. Each is a line.
    pub serve: Box<dyn FnOnce(NodeStream) -> BoxFuture<'static, ()> + Send>,
}

impl fmt::Debug for AcceptedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcceptedServer").field("revision", &self.revision).finish_non_exhaustive()
    }
}

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
    servers: Option<Box<ServerLookup>>,
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
        Ok(NodeListener { listener, address, servers: None })
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
pub struct NodeListener {
    listener: TcpListener,
    address: SocketAddr,
    servers: Option<Box<ServerLookup>>,
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
            servers: self.servers,
            permits: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        };
        NodeServer { listener: self.listener, address: self.address, shared: Arc::new(shared) }
    }

    /// Runs servers for the other nodes; `servers` finds one by its label, or says why it does not run here.
    #[must_use]
    pub fn servers(
        mut self,
        servers: impl Fn(String) -> BoxFuture<'static, Result<AcceptedServer, String>> + Send + Sync + 'static,
    ) -> Self {
        self.servers = Some(Box::new(servers));
        self
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

    async fn answer(&self, mut request: Request<Incoming>) -> Response<Body> {
        if request.method() == Method::CONNECT {
            let upgrade = hyper::upgrade::on(&mut request);
            return self.open_stream(&request.into_parts().0, upgrade).await;
        }
        let (mut parts, body) = request.into_parts();
        let Ok(body) = Limited::new(body, MAX_REQUEST_BYTES).collect().await else {
            return refusal("its body is incomplete or too long");
        };
        let body: Bytes = body.to_bytes();
        let context = match self.caller(&parts, &body) {
            Ok(context) => context,
            Err(why) => return refusal(why),
        };
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

    /// Returns the context of a request, which has to be for this process under its present id. Whether this node has a
    /// lease is asked where a session is served: other requests are forwarded while the engine is away, too.
    fn caller(&self, parts: &Parts, body: &[u8]) -> Result<CallerContext, &'static str> {
        let context = self.keys.open(parts, body);
        let context = context.ok_or("its caller context is not signed for this connection and request")?;
        if !self.is_from(context.from) {
            return Err("its caller context is that of another node than the certificate");
        }
        if self.shared.membership.id() != context.to {
            return Err("it is for an earlier id of this process");
        }
        Ok(context)
    }

    /// Opens a stream to a server that this node runs.
    async fn open_stream(&self, parts: &Parts, upgrade: OnUpgrade) -> Response<Body> {
        let context = match self.caller(parts, b"") {
            Ok(context) => context,
            Err(why) => return refusal(why),
        };
        let (Some(server), Some(servers)) = (context.server, &self.shared.servers) else {
            return refusal("it names no server, or this node runs none for others");
        };
        let accepted = match servers(server).await {
            Ok(accepted) => accepted,
            Err(mut why) => {
                why.truncate(why.floor_char_boundary(MAX_REASON_BYTES));
                let mut response = Response::new(Body::from(Bytes::from(why)));
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                return response;
            }
        };
        let mut response = Response::new(Body::from(Bytes::new()));
        let Ok(revision) = HeaderValue::from_str(&accepted.revision) else {
            return refusal("the revision of the server is no header value");
        };
        response.headers_mut().insert(REVISION, revision);
        // The stream is opened once this response is sent, and outlives the request.
        tokio::spawn(async move {
            match upgrade.await {
                Ok(stream) => (accepted.serve)(TokioIo::new(stream)).await,
                Err(error) => tracing::debug!(%error, "a stream to a server was not opened"),
            }
        });
        response
    }
}

/// Refuses a request that was not processed, so that its node looks for another way.
fn refusal(why: &'static str) -> Response<Body> {
    tracing::debug!(why, "a forwarded request was refused");
    let mut response = Response::new(Body::from(Bytes::new()));
    *response.status_mut() = StatusCode::MISDIRECTED_REQUEST;
    response
}

impl fmt::Debug for NodeListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeListener").field("address", &self.address).finish_non_exhaustive()
    }
}

impl fmt::Debug for NodeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeServer").field("address", &self.address).finish_non_exhaustive()
    }
}
