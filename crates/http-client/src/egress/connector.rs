//! Connector and name lookup for outgoing requests.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use rustls::ClientConfig;
use tower_service::Service;

use super::error::FetchError;
use super::policy::EgressPolicy;

/// Future that resolves to the addresses of a name.
pub type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;
/// Function that looks names up.
pub type HostLookup = Arc<dyn Fn(String) -> LookupFuture + Send + Sync>;
/// Connector that opens connections, with TLS or without, over HTTP/1.1.
pub type EgressConnector = HttpsConnector<HttpConnector<EgressResolver>>;

/// Creates the name lookup of the operating system.
#[must_use]
pub fn system_lookup() -> HostLookup {
    Arc::new(|host: String| -> LookupFuture {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.collect()) })
    })
}

/// Creates a connector that opens connections only to destinations permitted by `egress`, within `time`. IP addresses
/// in URLs are not looked up; [`EgressPolicy::check`] covers them.
#[must_use]
pub fn build_connector(
    egress: Arc<EgressPolicy>,
    lookup: HostLookup,
    tls: ClientConfig,
    time: Duration,
) -> EgressConnector {
    let mut plain = HttpConnector::new_with_resolver(EgressResolver { egress, lookup });
    plain.set_nodelay(true);
    // The inner connector also receives https URLs, to be wrapped in TLS, and must not reject them.
    plain.enforce_http(false);
    plain.set_connect_timeout(Some(time));
    let https = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    https.enable_http1().wrap_connector(plain)
}

/// Resolver that returns only addresses which the policy permits.
#[derive(Clone)]
pub struct EgressResolver {
    egress: Arc<EgressPolicy>,
    lookup: HostLookup,
}

impl fmt::Debug for EgressResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressResolver").field("egress", &self.egress).finish_non_exhaustive()
    }
}

impl Service<Name> for EgressResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let egress = Arc::clone(&self.egress);
        let host = name.as_str().to_owned();
        let found = (self.lookup)(host.clone());
        Box::pin(async move {
            let found = found.await?;
            // Checked after the lookup, so that the checked addresses are the dialled ones.
            let permitted: Vec<_> =
                found.into_iter().filter(|address| egress.permits(&host, address.ip())).collect();
            if permitted.is_empty() {
                return Err(io::Error::other(FetchError::Forbidden("the address is not public")));
            }
            Ok(permitted.into_iter())
        })
    }
}

/// Returns the reason why a client with [`build_connector`] got no response.
#[must_use]
pub fn classify_send_error(error: &hyper_util::client::legacy::Error) -> FetchError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    // The connector and the client each wrap the error of the resolver.
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            if let Some(forbidden) = error.get_ref().and_then(|inner| inner.downcast_ref::<FetchError>()) {
                return forbidden.clone();
            }
            if error.kind() == io::ErrorKind::TimedOut {
                return FetchError::Timeout;
            }
        }
        cause = error.source();
    }
    if error.is_connect() { FetchError::Unreachable } else { FetchError::Broken }
}
