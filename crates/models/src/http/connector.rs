//! Connections with TLS, the proxy of the environment, and a time limit.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tower_service::Service;
use url::Url;

type ConnectorError = Box<dyn std::error::Error + Send + Sync>;
type ConnectionIo = hyper_rustls::MaybeHttpsStream<hyper_util::rt::TokioIo<tokio::net::TcpStream>>;
type ConnectionFuture = Pin<Box<dyn Future<Output = Result<ConnectionIo, ConnectorError>> + Send>>;

/// HTTP client that keeps connections for later requests.
pub(crate) type ProviderHttpClient = legacy::Client<TimedConnector, Full<Bytes>>;

/// Connector with a time limit.
#[derive(Clone)]
pub(crate) struct TimedConnector {
    way: ConnectRoute,
    limit: Duration,
}

#[derive(Clone)]
enum ConnectRoute {
    Straight(hyper_rustls::HttpsConnector<HttpConnector>),
    Tunnel(hyper_rustls::HttpsConnector<Tunnel<HttpConnector>>),
}

/// The connection was not opened in time.
#[derive(Debug, thiserror::Error)]
#[error("connection timed out")]
pub(super) struct ConnectTimeout;

/// Creates a client for the endpoint below `base`.
///
/// # Errors
/// If the proxy or the certificates of the environment cannot be used. The error is a description.
pub(crate) fn client(base: &Url, limit: Duration) -> Result<ProviderHttpClient, String> {
    let mut plain = HttpConnector::new();
    // A request is written in one piece and then waited for, so delayed packets gain nothing.
    plain.set_nodelay(true);
    // It also opens connections for https, which are wrapped in TLS.
    plain.enforce_http(false);
    // Divided among several addresses.
    plain.set_connect_timeout(Some(limit));
    let tls = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(hospes::client::tls_config(&[])?)
        .https_or_http()
        .enable_http1();
    let origin: Uri = base.as_str().parse().map_err(|_| "invalid URL".to_owned())?;
    let way = match hospes::client::proxy_to(&origin)? {
        None => ConnectRoute::Straight(tls.wrap_connector(plain)),
        Some((proxy, auth)) => {
            let tunnel = Tunnel::new(proxy, plain);
            ConnectRoute::Tunnel(tls.wrap_connector(auth.into_iter().fold(tunnel, Tunnel::with_auth)))
        }
    };
    Ok(legacy::Client::builder(TokioExecutor::new())
        .pool_idle_timeout(Duration::from_secs(60))
        .pool_max_idle_per_host(16)
        .pool_timer(TokioTimer::new())
        .build(TimedConnector { way, limit }))
}

impl Service<Uri> for TimedConnector {
    type Response = ConnectionIo;
    type Error = ConnectorError;
    type Future = ConnectionFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectorError>> {
        match &mut self.way {
            ConnectRoute::Straight(way) => way.poll_ready(cx),
            ConnectRoute::Tunnel(way) => way.poll_ready(cx),
        }
    }

    fn call(&mut self, there: Uri) -> ConnectionFuture {
        // Boxed, because the futures of the two routes differ in type.
        let opening: ConnectionFuture = match &mut self.way {
            ConnectRoute::Straight(way) => Box::pin(way.call(there)),
            ConnectRoute::Tunnel(way) => Box::pin(way.call(there)),
        };
        let limit = self.limit;
        Box::pin(async move {
            // Covers the tunnel and TLS as well, because the limit of the inner connector applies to TCP only.
            match tokio::time::timeout(limit, opening).await {
                Ok(opened) => opened,
                Err(_) => Err(ConnectTimeout.into()),
            }
        })
    }
}
