//! Interface for sending the requests of components that do no I/O themselves.

use std::error::Error;
use std::pin::Pin;

use crate::egress::GuardedClient;
use crate::{FetchRequest, FetchResponse};

/// Future of a response, or of the error that prevented it.
pub type FetchFuture<'a> =
    Pin<Box<dyn Future<Output = Result<FetchResponse, Box<dyn Error + Send + Sync>>> + Send + 'a>>;

/// Sends a request and returns the whole response. URLs from untrusted parties go through the guarded client, which
/// limits the destinations. Implementations must not follow redirects.
pub trait HttpFetch: Send + Sync + 'static {
    /// Sends the request.
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_>;
}

impl HttpFetch for GuardedClient {
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_> {
        // Boxed, since an `async fn` in the trait would keep it from being used as `dyn HttpFetch`.
        Box::pin(async move { Ok(Self::fetch(self, request).await?) })
    }
}
