//! HTTP client of a provider: it keeps connections, and limits how long opening one may take.

use std::time::Duration;

use bytes::Bytes;
use hospes_http_client::{NetworkSettings, OriginConnector};
use http_body_util::Full;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use url::Url;

/// HTTP client that keeps connections for later requests.
pub(crate) type ProviderHttpClient = legacy::Client<OriginConnector, Full<Bytes>>;

/// Creates a client for the endpoint below `base`.
///
/// # Errors
/// If the proxy or the certificates of the environment cannot be used. The error is a description.
pub(crate) fn client(base: &Url, limit: Duration) -> Result<ProviderHttpClient, String> {
    let origin = base.as_str().parse().map_err(|_| "invalid URL".to_owned())?;
    let connector = OriginConnector::tunnelling(origin, &NetworkSettings::default(), limit)?;
    Ok(legacy::Client::builder(TokioExecutor::new())
        .pool_idle_timeout(Duration::from_secs(60))
        .pool_max_idle_per_host(16)
        .pool_timer(TokioTimer::new())
        .build(connector))
}
