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
use super::tls::{TlsFailure, causes};
use crate::connector::{tcp_connector, tls_connector};

/// Future that resolves to the addresses of a name.
pub type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;
/// Function that looks names up.
pub type HostLookup = Arc<dyn Fn(String) -> LookupFuture + Send + Sync>;
/// Connector that opens connections, with TLS or without, over HTTP/1.1.
pub(super) type EgressConnector = HttpsConnector<HttpConnector<EgressResolver>>;

/// Creates the name lookup of the operating system.
#[must_use]
pub fn system_lookup() -> HostLookup {
    Arc::new(|host: String| -> LookupFuture {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.collect()) })
    })
}

/// Creates a connector that opens connections only to destinations permitted by `egress`, within `time`. IP addresses
/// in URLs are not looked up; [`EgressPolicy::check`] covers them.
pub(super) fn build_connector(
    egress: Arc<EgressPolicy>,
    lookup: HostLookup,
    tls: ClientConfig,
    time: Duration,
) -> EgressConnector {
    let plain = HttpConnector::new_with_resolver(EgressResolver { egress, lookup });
    tls_connector(tcp_connector(plain, time), tls)
}

/// Resolver that returns only addresses which the policy permits.
#[derive(Clone)]
pub(super) struct EgressResolver {
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
pub(super) fn classify_send_error(error: &hyper_util::client::legacy::Error) -> FetchError {
    // The connector and the client each wrap the error of the resolver, and that of TLS.
    for cause in causes(error) {
        if let Some(forbidden) = cause.downcast_ref::<FetchError>() {
            return forbidden.clone();
        }
        if cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            return FetchError::Timeout;
        }
    }
    if let Some(failure) = TlsFailure::of(error).filter(|_| error.is_connect()) {
        return FetchError::Tls(failure);
    }
    if error.is_connect() { FetchError::Unreachable } else { FetchError::Broken }
}
