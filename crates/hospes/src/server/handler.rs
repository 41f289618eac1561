//! Plain async functions as handlers.

use std::sync::Arc;

use crate::error::Error;
use crate::server::call_parts::{CallParts, Declaration, DeclaredArguments, FromCall};
use crate::server::entries::ErasedHandler;

/// An async function or closure that answers a call.
///
/// Its parameters say what it needs ([`FromCall`]): [`Args`](crate::server::Args) for typed arguments,
/// [`State`](crate::server::State) for what the server shares, [`Context`](crate::Context) for the call itself. There
/// may be up to eight, in any order. What it returns decides where it can be registered: a tool's handler returns
/// [`IntoToolResult`](crate::server::IntoToolResult), a prompt's [`IntoPrompt`](crate::server::IntoPrompt), a
/// resource's [`IntoContents`](crate::server::IntoContents), a completion's
/// [`IntoCompletion`](crate::server::IntoCompletion).
///
/// It runs in the connection's task and must not block; a synchronous function, which may, becomes a handler by
/// [`blocking`](fn@crate::server::blocking).
///
/// This trait is implemented for functions; there is no need to implement it by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a handler",
    label = "not a handler",
    note = "a handler is an async function or closure, such as `async fn add(Args(numbers): Args<Add>) -> i64`",
    note = "each parameter must be one of `Args<T>` (`T` with `Deserialize` and `JsonSchema`), `State<T>`, `Context`, `RawJson`, `ServerHandle`, `Uri`, `Typed`, or another type that implements `FromCall`",
    note = "a closure must return an `async move` block, and its captures must be `Send + Sync + 'static`"
)]
pub trait Handler<Parameters>: Send + Sync + 'static {
    /// Return type of the handler.
    type Output: 'static;
    /// Future of the handler's result.
    type Future: Future<Output = Self::Output> + Send + 'static;

    /// Declares the needs of its parameters at registration.
    fn declare(declaration: &mut Declaration);

    /// Extracts its parameters from the call and starts it.
    ///
    /// # Errors
    /// When a parameter cannot be had from this call.
    fn start(&self, parts: &CallParts<'_>) -> Result<Self::Future, Error>;
}

macro_rules! handlers {
    ($([$($parameter:ident)*])*) => { $(
        impl<F, Fut, $($parameter,)*> Handler<($($parameter,)*)> for F
        where
            F: Fn($($parameter),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output: 'static> + Send + 'static,
            $($parameter: FromCall,)*
        {
            type Output = Fut::Output;
            type Future = Fut;

            fn declare(declaration: &mut Declaration) {
                let _ = &declaration;
                $($parameter::declare(declaration);)*
            }

            fn start(&self, parts: &CallParts<'_>) -> Result<Fut, Error> {
                let _ = parts;
                Ok(self($($parameter::from_call(parts)?),*))
            }
        }
    )* };
}

handlers! {
    []
    [T1]
    [T1 T2]
    [T1 T2 T3]
    [T1 T2 T3 T4]
    [T1 T2 T3 T4 T5]
    [T1 T2 T3 T4 T5 T6]
    [T1 T2 T3 T4 T5 T6 T7]
    [T1 T2 T3 T4 T5 T6 T7 T8]
}

/// Returns the form in which a handler takes its arguments.
pub(crate) fn declared_arguments<H: Handler<P>, P>() -> DeclaredArguments {
    let mut declaration = Declaration::default();
    H::declare(&mut declaration);
    declaration.arguments
}

/// Forgets the types of `handler`; `convert` makes the reply's type of what it returns.
pub(crate) fn erase_handler<H, P, T>(
    handler: H,
    convert: impl Fn(H::Output) -> Result<T, Error> + Copy + Send + Sync + 'static,
) -> ErasedHandler<T>
where
    H: Handler<P>,
    T: 'static,
{
    Arc::new(move |parts| {
        // Outside the future: the parameters are extracted while the call's parts are borrowed.
        let running = handler.start(parts)?;
        Ok(Box::pin(async move { convert(running.await) }))
    })
}
