//! Connections to one origin: opened when needed, kept when free.
//!
//! Each user of a connection drives it in its own task, so that no other task is between a call and its socket. An idle
//! connection is checked when it is taken. If the server has closed it meanwhile, this is noticed before anything is
//! sent.

use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use hospes_http_client::{ConnectTimeout, ConnectionIo, NetworkSettings, OriginConnector};
use http::header::PROXY_AUTHORIZATION;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use tokio::time::Instant;

use crate::client::error::{ConnectStage, HttpFailure};

/// Maximum time to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Time after which an idle connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of idle connections.
const MAX_IDLE: usize = 256;

pub(super) type RequestBody = Full<Bytes>;

/// The connections.
pub(super) struct HttpConnectionPool {
    /// Connector to the origin, perhaps through a proxy.
    connector: OriginConnector,
    free: Mutex<IdleConnections>,
}

#[derive(Default)]
struct IdleConnections {
    connections: Vec<(HttpConnection, Instant)>,
    sweeping: bool,
}

/// One connection, and the work that it needs to move.
pub(super) struct HttpConnection {
    sender: http1::SendRequest<RequestBody>,
    driver: Box<http1::Connection<ConnectionIo, RequestBody>>,
    /// The work is over: nothing will ever come or go again.
    over: bool,
}

/// Reason a request got no response.
#[derive(Debug)]
pub(super) enum PoolSendError {
    /// No connection could be opened.
    Connect(HttpFailure),
    /// It broke; whether the server has seen the request is unknown.
    Broken(String),
}

impl HttpConnectionPool {
    /// # Errors
    /// Returns a description of the invalid setting.
    pub(super) fn new(origin: Uri, network: &NetworkSettings) -> Result<Self, String> {
        let connector = OriginConnector::new(origin, network, CONNECT_TIMEOUT)?;
        Ok(Self { connector, free: Mutex::default() })
    }

    /// The origin as a URL, to which others may be relative.
    pub(super) fn url(&self) -> Option<url::Url> {
        url::Url::parse(&self.connector.origin().to_string()).ok()
    }

    /// Sends a request and waits for the head of its response. A request that a kept connection could not take is sent
    /// on another.
    pub(super) async fn send(
        &self,
        mut request: Request<RequestBody>,
    ) -> Result<(Response<Incoming>, HttpConnection), PoolSendError> {
        self.address(&mut request);
        while let Some(mut connection) = self.take() {
            match connection.try_send(request).await {
                Ok(response) => return Ok((response, connection)),
                Err((Some(unsent), _)) => request = unsent,
                // The server may have seen the request: sending it again could do its work twice.
                Err((None, why)) => return Err(PoolSendError::Broken(why)),
            }
        }
        let mut connection = self.open().await.map_err(PoolSendError::Connect)?;
        match connection.try_send(request).await {
            Ok(response) => Ok((response, connection)),
            Err((_, why)) => Err(PoolSendError::Broken(why)),
        }
    }

    /// A proxy that does not open a tunnel has to be told where a request goes.
    fn address(&self, request: &mut Request<RequestBody>) {
        let Some(proxy) = self.connector.forwarding_proxy() else { return };
        let mut there = self.connector.origin().clone().into_parts();
        there.path_and_query = request.uri().path_and_query().cloned();
        // A path of ours makes a URI of any origin.
        if let Ok(there) = Uri::from_parts(there) {
            *request.uri_mut() = there;
        }
        if let Some(auth) = &proxy.auth {
            request.headers_mut().insert(PROXY_AUTHORIZATION, auth.clone());
        }
    }

    /// Returns a connection whose response has been read to its end.
    pub(super) fn release(self: &Arc<Self>, connection: HttpConnection) {
        let mut free = self.lock();
        if connection.over || free.connections.len() >= MAX_IDLE {
            return;
        }
        free.connections.push((connection, Instant::now()));
        if !free.sweeping
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            free.sweeping = true;
            runtime.spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// A free connection that is not known to be dead, the one used last first.
    fn take(&self) -> Option<HttpConnection> {
        loop {
            let (mut connection, since) = self.lock().connections.pop()?;
            if since.elapsed() < IDLE_TIMEOUT && connection.is_usable() {
                return Some(connection);
            }
        }
    }

    async fn open(&self) -> Result<HttpConnection, HttpFailure> {
        let io = self.connector.connect().await.map_err(|error| self.failed(error.as_ref()))?;
        let (sender, driver) = http1::handshake(io)
            .await
            .map_err(|error| failure(ConnectStage::Http, format!("HTTP handshake failed: {error}")))?;
        Ok(HttpConnection { sender, driver: Box::new(driver), over: false })
    }

    fn failed(&self, error: &(dyn StdError + 'static)) -> HttpFailure {
        if error.is::<ConnectTimeout>() {
            let secure = self.connector.origin().scheme_str() == Some("https");
            return match secure {
                true => failure(ConnectStage::Tls, "TLS connection timed out".into()),
                false => failure(ConnectStage::Tcp, "connection timed out".into()),
            };
        }
        let mut failure = connect_failure(error);
        if let Some(proxy) = self.connector.proxy() {
            failure.what = format!("through the proxy {}: {}", proxy.shown(), failure.what);
        }
        failure
    }

    fn lock(&self) -> MutexGuard<'_, IdleConnections> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes connections that have been idle for a while; ends with the last of them.
async fn sweep(pool: Weak<HttpConnectionPool>) {
    loop {
        tokio::time::sleep(IDLE_TIMEOUT / 2).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut free = pool.lock();
        free.connections.retain(|(_, since)| since.elapsed() < IDLE_TIMEOUT);
        if free.connections.is_empty() {
            free.sweeping = false;
            return;
        }
    }
}

impl HttpConnection {
    /// Waits for `work` while moving the connection's bytes.
    pub(super) async fn drive<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|cx| self.poll_drive(cx, |cx| work.as_mut().poll(cx))).await
    }

    /// Polls `work`; where that waits, moves the connection's bytes and looks again.
    pub(super) fn poll_drive<T>(
        &mut self,
        cx: &mut TaskContext<'_>,
        mut work: impl FnMut(&mut TaskContext<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if let Poll::Ready(done) = work(cx) {
            return Poll::Ready(done);
        }
        self.poll_move(cx);
        work(cx)
    }

    fn poll_move(&mut self, cx: &mut TaskContext<'_>) {
        if !self.over && Pin::new(&mut *self.driver).poll(cx).is_ready() {
            self.over = true;
        }
    }

    /// The response, or the request if it was not sent and why.
    async fn try_send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, (Option<Request<RequestBody>>, String)> {
        let response = self.sender.try_send_request(request);
        self.drive(response).await.map_err(|mut error| {
            let unsent = error.take_message();
            (unsent, format!("the connection was lost: {}", chain(error.error())))
        })
    }

    /// Returns true if a request can be sent on it now.
    fn is_usable(&mut self) -> bool {
        // What has come since, its end for one, is noticed only by looking.
        self.poll_move(&mut TaskContext::from_waker(std::task::Waker::noop()));
        !self.over && self.sender.is_ready()
    }
}

/// Creates the error of a failed connection attempt. Its stage is known from the connector's message.
fn connect_failure(error: &(dyn StdError + 'static)) -> HttpFailure {
    let what = chain(error);
    let stage = if what.contains("dns error") {
        ConnectStage::Dns
    } else if what.contains("tcp ") || what.contains("tunnel error") {
        ConnectStage::Tcp
    } else {
        ConnectStage::Tls
    };
    failure(stage, what)
}

fn failure(stage: ConnectStage, what: String) -> HttpFailure {
    HttpFailure { stage, status: None, challenge: None, body: None, what }
}

/// The error and its causes on one line.
fn chain(error: &(dyn StdError + 'static)) -> String {
    crate::error::chain(error)
}

impl fmt::Debug for HttpConnectionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConnectionPool").field("origin", self.connector.origin()).finish_non_exhaustive()
    }
}

impl fmt::Debug for HttpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConnection").field("over", &self.over).finish_non_exhaustive()
    }
}
