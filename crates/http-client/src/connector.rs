//! Connections to one origin: straight or through a proxy, with TLS or without.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
#[cfg(feature = "tls")]
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::{NetworkSettings, ProxyRoute};

/// Stream of an open connection.
#[cfg(feature = "tls")]
pub type ConnectionIo = hyper_rustls::MaybeHttpsStream<TokioIo<TcpStream>>;
/// Stream of an open connection.
#[cfg(not(feature = "tls"))]
pub type ConnectionIo = TokioIo<TcpStream>;

/// Reason no connection was opened.
pub type ConnectorError = Box<dyn Error + Send + Sync>;
/// Future of a connection.
pub type ConnectionFuture = Pin<Box<dyn Future<Output = Result<ConnectionIo, ConnectorError>> + Send>>;

/// The connection was not opened in time.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("connection timed out")]
#[non_exhaustive]
pub struct ConnectTimeout;

/// Connector to one origin.
#[derive(Clone)]
pub struct OriginConnector {
    origin: Uri,
    proxy: Option<ProxyRoute>,
    route: ConnectRoute,
    timeout: Duration,
}

#[derive(Clone)]
enum ConnectRoute {
    /// Without TLS, to the origin or to a proxy that forwards requests.
    Plain(HttpConnector),
    #[cfg(feature = "tls")]
    Straight(hyper_rustls::HttpsConnector<HttpConnector>),
    #[cfg(feature = "tls")]
    Tunnel(hyper_rustls::HttpsConnector<Tunnel<HttpConnector>>),
}

impl OriginConnector {
    /// Creates a connector. A proxy opens a tunnel to an `https` origin. To an `http` origin it forwards the requests,
    /// which [`forwarding_proxy`](Self::forwarding_proxy) then asks for. `timeout` is the limit for one connection, from
    /// the name lookup to the end of the TLS handshake.
    ///
    /// # Errors
    /// A description of the setting that cannot be used.
    pub fn new(origin: Uri, settings: &NetworkSettings, timeout: Duration) -> Result<Self, String> {
        let proxy = ProxyRoute::to(&origin, &settings.proxy)?;
        let plain = tcp_connector(HttpConnector::new(), timeout);
        let route = match origin.scheme_str() {
            #[cfg(feature = "tls")]
            Some("https") => secure_route(proxy.as_ref(), plain, settings)?,
            _ => ConnectRoute::Plain(plain),
        };
        Ok(Self { origin, proxy, route, timeout })
    }

    /// Creates a connector whose proxy opens a tunnel to an `http` origin, too, so that requests are the same with and
    /// without a proxy.
    ///
    /// # Errors
    /// A description of the setting that cannot be used.
    #[cfg(feature = "tls")]
    pub fn tunnelling(origin: Uri, settings: &NetworkSettings, timeout: Duration) -> Result<Self, String> {
        let proxy = ProxyRoute::to(&origin, &settings.proxy)?;
        let plain = tcp_connector(HttpConnector::new(), timeout);
        let route = secure_route(proxy.as_ref(), plain, settings)?;
        Ok(Self { origin, proxy, route, timeout })
    }

    /// The origin: scheme, host and port.
    #[must_use]
    pub fn origin(&self) -> &Uri {
        &self.origin
    }

    /// The proxy on the way to the origin.
    #[must_use]
    pub fn proxy(&self) -> Option<&ProxyRoute> {
        self.proxy.as_ref()
    }

    /// The proxy that forwards requests instead of opening a tunnel. Requests to it have an absolute URI and the
    /// proxy's authorization header.
    #[must_use]
    pub fn forwarding_proxy(&self) -> Option<&ProxyRoute> {
        self.proxy.as_ref().filter(|_| matches!(self.route, ConnectRoute::Plain(_)))
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// A [`ConnectTimeout`], or the error of the step that failed.
    pub async fn connect(&self) -> Result<ConnectionIo, ConnectorError> {
        let opening = async {
            match self.route.clone() {
                ConnectRoute::Plain(mut plain) => {
                    let there = self.proxy.as_ref().map_or(&self.origin, |proxy| &proxy.uri);
                    let io = plain.call(there.clone()).await?;
                    #[cfg(feature = "tls")]
                    let io = ConnectionIo::from(io);
                    Ok(io)
                }
                #[cfg(feature = "tls")]
                ConnectRoute::Straight(mut tls) => tls.call(self.origin.clone()).await,
                #[cfg(feature = "tls")]
                ConnectRoute::Tunnel(mut tls) => tls.call(self.origin.clone()).await,
            }
        };
        // The limit of the inner connector is for TCP alone.
        match tokio::time::timeout(self.timeout, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(ConnectTimeout.into()),
        }
    }
}

/// For `hyper_util`'s client. The URI is not looked at: all requests go to the origin.
impl Service<Uri> for OriginConnector {
    type Response = ConnectionIo;
    type Error = ConnectorError;
    type Future = ConnectionFuture;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ConnectorError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> ConnectionFuture {
        let this = self.clone();
        Box::pin(async move { this.connect().await })
    }
}

impl fmt::Debug for OriginConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OriginConnector")
            .field("origin", &self.origin)
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}

/// Sets what holds for every TCP connection.
pub(crate) fn tcp_connector<R>(mut plain: HttpConnector<R>, timeout: Duration) -> HttpConnector<R> {
    // Otherwise a small request may wait until the server acknowledges an earlier one, which takes its time.
    plain.set_nodelay(true);
    // It opens the connections for `https` as well, on top of which TLS is put.
    plain.enforce_http(false);
    // Each of several addresses has its part of the time.
    plain.set_connect_timeout(Some(timeout));
    plain
}

/// Puts TLS on top of a connector, for `https` URLs. The protocol is HTTP/1.1.
#[cfg(feature = "tls")]
pub(crate) fn tls_connector<C>(plain: C, tls: rustls::ClientConfig) -> hyper_rustls::HttpsConnector<C> {
    let builder = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    builder.enable_http1().wrap_connector(plain)
}

#[cfg(feature = "tls")]
fn secure_route(
    proxy: Option<&ProxyRoute>,
    plain: HttpConnector,
    settings: &NetworkSettings,
) -> Result<ConnectRoute, String> {
    let tls = crate::tls_config(&settings.ca_files)?;
    Ok(match proxy {
        None => ConnectRoute::Straight(tls_connector(plain, tls)),
        Some(proxy) => {
            let tunnel = Tunnel::new(proxy.uri.clone(), plain);
            let tunnel = proxy.auth.iter().cloned().fold(tunnel, Tunnel::with_auth);
            ConnectRoute::Tunnel(tls_connector(tunnel, tls))
        }
    })
}
