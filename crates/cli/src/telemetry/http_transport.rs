//! Requests to a collector over HTTP.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use hospes_http_client::{EgressClient, EgressPolicy, read_body};
use hospes_telemetry::{OtlpTransport, PostError, TelemetrySignal};
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;
use tokio::runtime::Runtime;
use url::Url;

/// Time limit for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;
/// Name and version of this program.
const AGENT: &str = concat!("hospes/", env!("CARGO_PKG_VERSION"));

/// Connection to a collector, from which each signal gets its own.
#[derive(Clone)]
pub(super) struct HttpTransport {
    endpoint: Url,
    headers: HeaderMap,
    client: EgressClient,
}

impl HttpTransport {
    /// Creates the connection. The error is a sentence without secrets.
    pub(super) fn new(
        endpoint: Url,
        headers: &[(String, String)],
        ca: Option<PathBuf>,
    ) -> Result<Self, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let wrong = || format!("the header `{name}` for the collector cannot be sent");
            let name = HeaderName::try_from(name).map_err(|_| wrong())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            map.insert(name, value);
        }
        map.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        map.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        // A person has named the collector, which is often on this machine or in the same network without TLS.
        let policy = EgressPolicy::of_endpoint(&endpoint).allow_http();
        let client = EgressClient::new(policy, CONNECT_TIMEOUT).ca_files(ca);
        Ok(Self { endpoint, headers: map, client })
    }

    /// Creates the connection of one signal.
    pub(super) fn connect(&self) -> std::io::Result<SignalTransport> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(SignalTransport { transport: self.clone(), runtime })
    }

    /// Returns the URL of a signal: its path after that of the base URL.
    fn url(&self, signal: TelemetrySignal) -> Url {
        let mut url = self.endpoint.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{}", signal.path()));
        url
    }

    async fn send(&self, signal: TelemetrySignal, body: Vec<u8>) -> Result<Vec<u8>, PostError> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        request.headers_mut().clone_from(&self.headers);
        let response = self.client.send(&self.url(signal), request).await;
        let response = response.map_err(|error| PostError::connection(error.to_string()))?;
        let status = response.status();
        if !status.is_success() {
            let after =
                response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            return Err(PostError::status(status.as_u16(), after.map(Duration::from_secs)));
        }
        // It was taken, whatever the response is.
        Ok(read_body(response, MAX_RESPONSE_BYTES).await.map(Vec::from).unwrap_or_default())
    }
}

/// Connection of one signal, which blocks the thread that uses it.
pub(super) struct SignalTransport {
    transport: HttpTransport,
    runtime: Runtime,
}

impl OtlpTransport for SignalTransport {
    fn post(
        &mut self,
        signal: TelemetrySignal,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<Vec<u8>, PostError> {
        let sent = async { tokio::time::timeout(limit, self.transport.send(signal, body)).await };
        let late = || PostError::connection(format!("no response within {limit:?}"));
        self.runtime.block_on(sent).unwrap_or_else(|_| Err(late()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_signal_follows_that_of_the_base_url() {
        let url = |base: &str, signal| {
            let transport = HttpTransport::new(Url::parse(base).unwrap(), &[], None).unwrap();
            transport.url(signal).to_string()
        };
        assert_eq!(url("http://127.0.0.1:4318", TelemetrySignal::Traces), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(url("https://a.example/otlp/", TelemetrySignal::Logs), "https://a.example/otlp/v1/logs");
        assert_eq!(
            url("https://a.example/otlp", TelemetrySignal::Metrics),
            "https://a.example/otlp/v1/metrics"
        );
    }
}
