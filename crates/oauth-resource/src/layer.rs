//! The middleware as a tower layer, for other HTTP servers.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::bearer_auth::BearerAuth;
use super::bearer_error::BearerAuthError;

/// A service behind a [`BearerAuth`]. It also answers where the resource's metadata is looked for.
#[derive(Clone)]
pub struct BearerAuthService<S> {
    guard: BearerAuth,
    inner: S,
}

impl<S> Layer<S> for BearerAuth {
    type Service = BearerAuthService<S>;

    fn layer(&self, inner: S) -> BearerAuthService<S> {
        BearerAuthService { guard: self.clone(), inner }
    }
}

impl<S, B, R> Service<Request<B>> for BearerAuthService<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    R: From<Bytes> + Send + 'static,
{
    type Response = Response<R>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // The one that is ready answers; its clone waits for the next.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let guard = self.guard.clone();
        Box::pin(async move {
            if let Some(metadata) = guard.metadata(&request) {
                return Ok(metadata.map(R::from));
            }
            if !BearerAuth::is_preflight(&request) {
                // Not held across the check: a body need not be shareable.
                let (parts, body) = request.into_parts();
                let mut head = Request::from_parts(parts, ());
                match guard.admit(&head).await {
                    Ok(principal) => guard.attach_principal(principal, &mut head),
                    Err(refused) => {
                        let refused = match refused {
                            BearerAuthError::Scopes(_) => BearerAuthError::Scopes(
                                guard.collect_needed_scopes(head.method(), body).await,
                            ),
                            refused => refused,
                        };
                        return Ok(guard.refusal_response(&refused, head.uri().path()).map(R::from));
                    }
                }
                request = Request::from_parts(head.into_parts().0, body);
            }
            inner.call(request).await
        })
    }
}

impl<S> fmt::Debug for BearerAuthService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerAuthService").field("guard", &self.guard).finish_non_exhaustive()
    }
}
