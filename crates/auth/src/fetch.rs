//! What fetches, for those who decide what is to be fetched.

use std::error::Error;
use std::pin::Pin;

use crate::egress::GuardedClient;
use crate::{Request, Response};

/// The answer to a request, or why there is none.
pub type FetchFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Response, Box<dyn Error + Send + Sync>>> + Send + 'a>>;

/// Sends a request and brings the whole answer. For URLs that came from somebody else it is the guarded client that goes
/// only where it may; never one that follows redirects.
pub trait Fetch: Send + Sync + 'static {
    /// Sends it.
    fn fetch(&self, request: Request) -> FetchFuture<'_>;
}

impl Fetch for GuardedClient {
    fn fetch(&self, request: Request) -> FetchFuture<'_> {
        Box::pin(async move { Ok(Self::fetch(self, request).await?) })
    }
}
