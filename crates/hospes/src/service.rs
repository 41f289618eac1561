//! The seam: one call, the notifications that belong to it, one outcome.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use hospes_model::{Method, Notification, RawJson, Reply, RpcError};
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::params::Params;
use crate::round::PendingInput;

/// Everything that answers an exchange: a server, a connected client, a gateway, a layer over any of them.
///
/// There is no readiness, no `&mut self` and no error type: a failure is an [`Outcome`]. Dropping the future cancels
/// the call. Layers are [`tower_layer::Layer`]s over this trait.
pub trait Service: Send + Sync + 'static {
    /// Answers one call.
    fn call(&self, call: Call) -> impl Future<Output = Outcome> + Send;

    /// Takes a notification of an extension ([`Notification::Other`]), which nobody answers. The peer that sent it is that of
    /// the context. Default: passes over it.
    fn notified(&self, notification: Notification, context: Context) -> impl Future<Output = ()> + Send {
        let _ = (notification, context);
        std::future::ready(())
    }

    /// Returns whether every call gives back its thread quickly whenever it is polled. Calls of one connection then begin in its own
    /// task, in the order in which they came. Default: no, since a server runs functions that may block.
    fn is_cooperative(&self) -> bool {
        false
    }
}

/// Conversion into a [`Service`]: every service, and a type with `#[hospes::server]` on its `impl` block.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a service nor a server",
    label = "cannot be served",
    note = "put `#[hospes::server]` on an `impl {Self}` block, or build a server with `Server::new`"
)]
pub trait IntoService {
    /// The service that it becomes.
    type Service: Service;

    /// The service.
    fn into_service(self) -> Self::Service;
}

impl<S: Service> IntoService for S {
    type Service = S;

    fn into_service(self) -> S {
        self
    }
}

/// One call, complete in itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call {
    /// Method that is called.
    pub method: Method,
    /// The params, in the shape of the peer's revision, not decoded.
    pub params: Params,
    /// Context: the peer, the answers so far, and the channel for notifications.
    pub context: Context,
}

impl Call {
    /// A call of `method`; absent params are `{}`.
    #[must_use]
    pub fn new(method: Method, params: RawJson, context: Context) -> Self {
        Self { method, params: Params::new(params), context }
    }

    /// The params as the method's type.
    ///
    /// # Errors
    /// `-32602` naming the path of the first value that does not fit.
    pub fn decode<P: DeserializeOwned>(&self) -> Result<P, RpcError> {
        self.params.decode()
    }
}

/// Result of a call.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the idea of the exchange: these three and no other")]
pub enum Outcome {
    /// The result.
    Complete(Reply),
    /// Questions whose answers the call needs; it is made again once they are there.
    InputRequired(PendingInput),
    /// A protocol error. (A tool's own failure is a [`Outcome::Complete`] with `isError`.)
    Failed(RpcError),
}

impl<R: Into<Reply>> From<Result<R, RpcError>> for Outcome {
    fn from(result: Result<R, RpcError>) -> Self {
        match result {
            Ok(reply) => Self::Complete(reply.into()),
            Err(error) => Self::Failed(error),
        }
    }
}

impl From<RpcError> for Outcome {
    fn from(error: RpcError) -> Self {
        Self::Failed(error)
    }
}

/// A [`Service`] whose type has been forgotten.
#[derive(Clone)]
pub struct BoxService(Arc<dyn DynService>);

pub(crate) type OutcomeFuture<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// The future of a notification.
type Notified = Pin<Box<dyn Future<Output = ()> + Send>>;

trait DynService: Send + Sync + 'static {
    fn call_boxed(self: Arc<Self>, call: Call) -> OutcomeFuture<'static>;
    fn notified_boxed(self: Arc<Self>, notification: Notification, context: Context) -> Notified;
    fn yields(&self) -> bool;
}

impl<S: Service> DynService for S {
    fn call_boxed(self: Arc<Self>, call: Call) -> OutcomeFuture<'static> {
        // The block owns the `Arc`, so that the future borrows nothing and outlives whoever started it.
        Box::pin(async move { self.call(call).await })
    }

    fn notified_boxed(self: Arc<Self>, notification: Notification, context: Context) -> Notified {
        Box::pin(async move { self.notified(notification, context).await })
    }

    fn yields(&self) -> bool {
        self.is_cooperative()
    }
}

impl BoxService {
    /// Forgets the type of `service`.
    pub fn new<S: Service>(service: S) -> Self {
        Self(Arc::new(service))
    }

    /// The call's future, owning all it needs.
    pub(crate) fn start(&self, call: Call) -> OutcomeFuture<'static> {
        Arc::clone(&self.0).call_boxed(call)
    }
}

impl Service for BoxService {
    fn call(&self, call: Call) -> impl Future<Output = Outcome> + Send {
        self.start(call)
    }

    fn notified(&self, notification: Notification, context: Context) -> impl Future<Output = ()> + Send {
        Arc::clone(&self.0).notified_boxed(notification, context)
    }

    fn is_cooperative(&self) -> bool {
        self.0.yields()
    }
}

impl fmt::Debug for BoxService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxService")
    }
}

impl<S: Service> Service for Arc<S> {
    fn call(&self, call: Call) -> impl Future<Output = Outcome> + Send {
        S::call(self, call)
    }

    fn notified(&self, notification: Notification, context: Context) -> impl Future<Output = ()> + Send {
        S::notified(self, notification, context)
    }

    fn is_cooperative(&self) -> bool {
        S::is_cooperative(self)
    }
}
