//! Requests of the checks: without credentials, limited in time and size, and never redirected.

use std::time::Duration;

use bytes::Bytes;
use hospes_http_client::{EgressClient, EgressPolicy, read_body};
use http::{Method, Request};
use http_body_util::Full;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use url::Url;

/// Maximum time to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum time of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a document, in bytes.
const MAX_DOCUMENT: usize = 256 * 1024;

/// Returns the time in the answer of a server, whatever else the answer says.
pub(super) async fn date(url: &Url) -> Option<Timestamp> {
    // The person has configured the server, also one without encryption.
    let client = EgressClient::new(EgressPolicy::of_endpoint(url).allow_http(), CONNECT_TIMEOUT);
    let response = client.send(url, request(Method::HEAD)?).await.ok()?;
    let date = response.headers().get(http::header::DATE)?.to_str().ok()?;
    jiff::fmt::rfc2822::parse(date).ok().map(|date| date.timestamp())
}

/// Reads a document. `endpoint` is the server that names it, and may be on a private network.
pub(super) async fn document<T: DeserializeOwned>(url: &Url, endpoint: &Url) -> Result<T, String> {
    let client = EgressClient::new(EgressPolicy::of_endpoint(endpoint), CONNECT_TIMEOUT);
    let work = async {
        let request = request(Method::GET).ok_or("the request is not valid")?;
        let response = client.send(url, request).await.map_err(|error| error.to_string())?;
        if !response.status().is_success() {
            return Err(format!("status {}", response.status().as_u16()));
        }
        let body = read_body(response, MAX_DOCUMENT).await.map_err(|error| error.to_string())?;
        serde_json::from_slice(&body).map_err(|error| format!("not a valid document: {error}"))
    };
    tokio::time::timeout(REQUEST_TIMEOUT, work)
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {REQUEST_TIMEOUT:?}")))
}

fn request(method: Method) -> Option<Request<Full<Bytes>>> {
    let agent = concat!("hospes/", env!("CARGO_PKG_VERSION"));
    let request = Request::builder().method(method).header(http::header::USER_AGENT, agent);
    request.header(http::header::ACCEPT, "application/json").body(Full::new(Bytes::new())).ok()
}
