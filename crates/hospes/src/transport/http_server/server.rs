//! Listens on a socket for an endpoint.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::Either;
use http::{Request, Response};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::watch;

use super::active_request::{ActiveRequest, ConnectionActivity};
use super::body::Body;
use super::endpoint::{Endpoint, RequestSource, handle};
use super::endpoint_inner::EndpointInner;
use super::endpoint_set::EndpointSet;
use super::middleware::{ConnectionLocal, HttpMiddleware, RemoteAddress};
use super::receive::drain;
use crate::transport::adapter::PeerCache;
use crate::transport::watchdog::Watchdog;

/// Default maximum number of connections served at once: the setting `max_connections`. If the process may open fewer
/// descriptors, it is three quarters of those, because handlers and children need some, too.
pub const DEFAULT_MAX_CONNECTIONS: usize = 32 * 1024;
/// Default maximum time that a connection may take to send a whole request head: the setting `idle_timeout`.
pub const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Default time that calls have to finish after the server was asked to end: the setting `shutdown_timeout`.
pub const DEFAULT_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for answers to reach their clients after everything was stopped.
const ABORT_GRACE: Duration = Duration::from_secs(1);

/// Listens on a socket for an [`Endpoint`].
///
/// ```no_run
/// # async fn example(server: impl hospes::Service) -> std::io::Result<()> {
/// use hospes::transport::http_server::{Endpoint, HttpServer};
///
/// let http = HttpServer::bind("127.0.0.1:7337", Endpoint::new(server)).await?;
/// eprintln!("listening on {}", http.url());
/// http.serve().await
/// # }
/// ```
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    endpoint: Endpoint,
    others: EndpointSet,
    front: Option<Arc<dyn HttpMiddleware>>,
    max_connections: usize,
    idle: Duration,
    shutdown: Duration,
}

impl HttpServer {
    /// Binds to the address. Port 0 picks any free port.
    ///
    /// Unless the address is a loopback one, tell the endpoint by which names it may be called
    /// ([`EndpointBuilder::allow_host`](super::EndpointBuilder::allow_host)).
    ///
    /// # Errors
    /// When the address cannot be taken.
    pub async fn bind(address: impl ToSocketAddrs, endpoint: Endpoint) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Self::from_listener(listener, endpoint)
    }

    /// Serves on a socket that listens already.
    ///
    /// # Errors
    /// When the socket has no address.
    pub fn from_listener(listener: TcpListener, endpoint: Endpoint) -> io::Result<Self> {
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            endpoint,
            others: EndpointSet::default(),
            front: None,
            max_connections: DEFAULT_MAX_CONNECTIONS.min(descriptor_limit()),
            idle: DEFAULT_IDLE_TIMEOUT,
            shutdown: DEFAULT_SHUTDOWN_TIMEOUT,
        })
    }

    /// Sets the maximum number of connections served at once; further ones get an error and are closed.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Serves another endpoint on the same socket, at its own path. What stands before the first stands before it, too.
    /// Of two with the same path the later one serves it, except that the first endpoint's path stays its own.
    #[must_use]
    pub fn also(self, endpoint: Endpoint) -> Self {
        self.others.insert(endpoint);
        self
    }

    /// Returns the further endpoints, which may be added and removed while the server runs.
    #[must_use]
    pub fn others(&self) -> EndpointSet {
        self.others.clone()
    }

    /// Puts something before the endpoint, which sees every request first: authorization, mostly.
    #[must_use]
    pub fn middleware(mut self, front: impl HttpMiddleware) -> Self {
        self.front = Some(Arc::new(front));
        self
    }

    /// Sets the maximum time that a connection may take to send a whole request head. It is measured in steps of this
    /// length, so the actual time is up to twice as long.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle = timeout;
        self
    }

    /// Sets the time that calls have to finish after the server was asked to end.
    #[must_use]
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown = timeout;
        self
    }

    /// The address that was taken.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The endpoint's URL, as this machine can call it.
    #[must_use]
    pub fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        format!("http://{address}{}", self.endpoint.path())
    }

    /// Serves until the listener fails.
    ///
    /// # Errors
    /// Never, as long as the socket lives.
    pub async fn serve(self) -> io::Result<()> {
        self.serve_until(std::future::pending()).await
    }

    /// Serves until a signal asks for the end (SIGTERM, SIGINT, SIGHUP), as [`HttpServer::serve_until`] does.
    ///
    /// A handler that does not give back its thread does not hold the process: it is ended at most two seconds after the
    /// [shutdown timeout](HttpServer::shutdown_timeout), with 128 and the signal's number as exit code. A second signal
    /// ends it at once.
    ///
    /// # Errors
    /// When signals cannot be waited for.
    pub async fn serve_until_signal(self) -> io::Result<()> {
        let endpoint = self.endpoint.clone();
        let running = move || endpoint.calls() + crate::server::blocking::running_handlers();
        let mut watchdog = Watchdog::start(self.shutdown, false, running)?;
        let asked = watchdog.asked();
        self.serve_until(asked).await
    }

    /// Serves until `shutdown` is ready. Then no further connections are accepted, streams of changes end, and calls
    /// have the shutdown timeout to finish. Calls that still run after it are answered with an error.
    ///
    /// # Errors
    /// Never, as long as the socket lives.
    pub async fn serve_until(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let mut shutdown = pin!(shutdown);
        let (stage, _) = watch::channel(ShutdownStage::Open);
        let connections = Arc::new(AtomicUsize::new(0));
        loop {
            // The end goes first: in a flood of connections `accept`
            // would always be ready. It loses none when dropped.
            let accepted = tokio::select! {
                biased;
                () = &mut shutdown => break,
                accepted = self.listener.accept() => accepted,
            };
            let (stream, from) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, mostly: those that are open will be closed again.
                    tracing::warn!(%error, "cannot accept a connection");
                    // Without a pause `accept` would fail again at once and keep a processor busy.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            // An answer is one write; to hold it back for another costs 40 ms.
            let _ = stream.set_nodelay(true);
            let place = ConnectionPermit::new(&connections);
            if connections.load(Ordering::Acquire) > self.max_connections {
                tokio::spawn(reject_connection(stream, self.max_connections));
                continue;
            }
            let connection = ServerConnection {
                endpoint: self.endpoint.clone(),
                others: self.others.clone(),
                front: self.front.clone(),
                from: RemoteAddress(from),
                memory: ConnectionLocal::default(),
                peers: PeerCache::default(),
                activity: Arc::default(),
            };
            tokio::spawn(serve(stream, connection, self.idle, stage.subscribe(), place));
        }
        // First of all: from now on the system refuses connections.
        drop(self.listener);
        let all = || std::iter::once(self.endpoint.clone()).chain(self.others.all());
        all().for_each(|endpoint| endpoint.close());
        stage.send_replace(ShutdownStage::Closing);
        // `closed` resolves when the last connection has dropped its receiver.
        if tokio::time::timeout(self.shutdown, stage.closed()).await.is_err() {
            tracing::warn!("shutdown timeout elapsed with calls still running");
            all().for_each(|endpoint| endpoint.abort());
            stage.send_replace(ShutdownStage::Closed);
            let _ = tokio::time::timeout(ABORT_GRACE, stage.closed()).await;
        }
        // Sessions outlive connections, and so do their calls.
        all().for_each(|endpoint| endpoint.abort());
        Ok(())
    }
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer")
            .field("address", &self.address)
            .field("endpoint", &self.endpoint)
            .finish()
    }
}

/// Returns the maximum number of connections for the available descriptors, with some left over.
fn descriptor_limit() -> usize {
    #[cfg(unix)]
    if let Some(descriptors) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        return usize::try_from(descriptors / 4 * 3).unwrap_or(usize::MAX).max(1);
    }
    usize::MAX
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShutdownStage {
    Open,
    Closing,
    Closed,
}

/// A connection's place among those that are served.
struct ConnectionPermit(Arc<AtomicUsize>);

impl ConnectionPermit {
    fn new(connections: &Arc<AtomicUsize>) -> Self {
        connections.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(connections))
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// State shared by the requests of one connection.
struct ServerConnection {
    endpoint: Endpoint,
    /// Further ones, each at its own path.
    others: EndpointSet,
    front: Option<Arc<dyn HttpMiddleware>>,
    from: RemoteAddress,
    memory: ConnectionLocal,
    peers: PeerCache,
    activity: Arc<ConnectionActivity>,
}

/// A request of a connection.
struct ConnectionRequest {
    connection: Arc<ServerConnection>,
    /// The endpoint that the request is for, if it is not the first.
    other: Option<Endpoint>,
    active: ActiveRequest,
}

impl ConnectionRequest {
    fn new(connection: &Arc<ServerConnection>, path: &str) -> Self {
        // The first endpoint's requests, which are nearly all, take no lock.
        let other = if connection.endpoint.serves(path) { None } else { connection.others.find(path) };
        Self { connection: Arc::clone(connection), other, active: ActiveRequest::new(&connection.activity) }
    }

    fn whole(&self) -> &Endpoint {
        self.other.as_ref().unwrap_or(&self.connection.endpoint)
    }
}

impl RequestSource for ConnectionRequest {
    fn endpoint(&self) -> &Arc<EndpointInner> {
        &self.whole().0
    }

    fn is_routed(&self) -> bool {
        false
    }

    fn peers(&self) -> &PeerCache {
        &self.connection.peers
    }

    fn answered(self, response: &mut Response<Body>) {
        response.body_mut().hold(self.active);
    }
}

async fn serve(
    stream: TcpStream,
    connection: ServerConnection,
    idle: Duration,
    mut stage: watch::Receiver<ShutdownStage>,
    place: ConnectionPermit,
) {
    let connection = Arc::new(connection);
    let service = service_fn(|request: Request<Incoming>| {
        let busy = ConnectionRequest::new(&connection, request.uri().path());
        let answer = match &connection.front {
            None => Either::Left(handle(busy, request)),
            Some(front) => Either::Right(Box::pin(run_middleware(Arc::clone(front), busy, request))),
        };
        answer.map(Ok::<_, Infallible>)
    });
    // No `pipeline_flush`: with it an answer stays here while anything unread follows its request, and a client that
    // waits for the answer before it goes on waits for good.
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    // One timer at a time for the whole connection, none for a request. Nothing waits for one that is due at once: it
    // would come with the clock's next millisecond.
    let mut tick = pin!(tokio::time::sleep(idle));
    let mut seen = 0;
    loop {
        // The connection goes first: a request that is there must not lose against the idle timer.
        tokio::select! {
            biased;
            result = &mut served => {
                if let Err(error) = result {
                    tracing::debug!(%error, "connection failed");
                }
                break;
            }
            changed = stage.changed() => {
                if changed.is_err() {
                    break;
                }
                served.as_mut().graceful_shutdown();
            }
            () = &mut tick => {
                let requests = connection.activity.requests();
                if !connection.activity.is_busy() && requests == seen {
                    break;
                }
                seen = requests;
                tick.set(tokio::time::sleep(idle));
            }
        }
    }
    drop(place);
}

/// Answers a request that something else sees first.
async fn run_middleware(
    front: Arc<dyn HttpMiddleware>,
    busy: ConnectionRequest,
    mut request: Request<Incoming>,
) -> Response<Body> {
    request.extensions_mut().insert(busy.connection.from);
    request.extensions_mut().insert(busy.connection.memory.clone());
    match front.receive(busy.whole(), &mut request).await {
        None => handle(busy, request).await,
        Some(response) => {
            let body = pin!(request.into_body());
            if !body.is_end_stream() {
                // Lets the client finish, so that it reads the answer.
                drain(body).await;
            }
            response.map(Body::full)
        }
    }
}

async fn reject_connection(mut stream: TcpStream, max: usize) {
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{{\"code\":-32603,\"message\":\"too many connections: the \
         limit is {max} (setting max_connections)\"}}}}"
    );
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let write = async {
        stream.write_all((head + &body).as_bytes()).await?;
        stream.shutdown().await
    };
    // A client that does not read the refusal must not keep its socket.
    let _ = tokio::time::timeout(Duration::from_secs(1), write).await;
}
