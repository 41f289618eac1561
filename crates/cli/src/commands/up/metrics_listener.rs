//! Listener of `hospes up` for scrapers of metrics: `/metrics`.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use hospes::Server;
use hospes::transport::http_server::{Endpoint, HttpMiddleware, HttpServer, MiddlewareFuture};
use hospes_host::{HostServers, METRICS_CONTENT_TYPE};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::net::TcpListener;

use super::super::serve::listen_error;
use crate::exit::CliResult;

/// Path of the metrics.
const PATH: &str = "/metrics";
/// Maximum number of connections of scrapers.
const MAX_CONNECTIONS: usize = 64;

/// A bound address for scrapers.
pub(super) struct MetricsListener {
    listener: TcpListener,
    is_loopback: bool,
}

impl MetricsListener {
    /// Binds the address of the configuration. `None` if it has none.
    pub(super) async fn bind(address: Option<SocketAddr>) -> CliResult<Option<Self>> {
        let Some(address) = address else { return Ok(None) };
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| listen_error(address, "[metrics] listen", &error))?;
        Ok(Some(Self { listener, is_loopback: address.ip().is_loopback() }))
    }

    /// Serves the metrics of a host, if there is a listener. Never returns.
    pub(super) async fn serve_if_any(listener: Option<Self>, servers: HostServers) -> Infallible {
        if let Some(listener) = listener
            && let Err(error) = listener.serve(servers).await
        {
            tracing::warn!(%error, "metrics are no longer served");
        }
        std::future::pending().await
    }

    /// Serves the metrics until the future is dropped.
    async fn serve(self, servers: HostServers) -> std::io::Result<()> {
        // The server behind the pages answers nobody: each request ends at the middleware.
        let endpoint = Endpoint::builder(Server::new("metrics", env!("CARGO_PKG_VERSION"))).build();
        let pages = MetricsPages { servers, is_loopback: self.is_loopback };
        let server = HttpServer::from_listener(self.listener, endpoint)?;
        server.max_connections(MAX_CONNECTIONS).middleware(pages).serve().await
    }
}

/// Middleware that answers all requests.
struct MetricsPages {
    servers: HostServers,
    is_loopback: bool,
}

impl MetricsPages {
    fn answer(&self, path: &str, method: &Method) -> Response<Bytes> {
        if path != PATH {
            return text(
                StatusCode::NOT_FOUND,
                "text/plain",
                format!("not found; the metrics are at {PATH}\n"),
            );
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut response =
                text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "method not allowed\n".into());
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        text(StatusCode::OK, METRICS_CONTENT_TYPE, self.servers.metrics())
    }
}

impl HttpMiddleware for MetricsPages {
    fn receive<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        request: &'a mut Request<Incoming>,
    ) -> MiddlewareFuture<'a> {
        let (mut parts, ()) = Request::new(()).into_parts();
        (parts.uri, parts.headers) = (request.uri().clone(), request.headers().clone());
        // Keeps out web pages whose name leads to this machine.
        let is_admitted = !self.is_loopback || endpoint.admit_sender(&parts).is_ok();
        let response = match is_admitted {
            true => self.answer(request.uri().path(), request.method()),
            false => text(StatusCode::FORBIDDEN, "text/plain", "this host name is not allowed\n".into()),
        };
        Box::pin(std::future::ready(Some(response)))
    }
}

fn text(status: StatusCode, kind: &'static str, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
