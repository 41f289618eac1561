//! Parameters of handlers: typed arguments, shared state, the call's context.

use std::any::type_name;
use std::ops::Deref;
use std::sync::Arc;

use hospes_model::{RawJson, RpcError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::error::Error;
use crate::server::call_parts::{CallInput, CallParts, Declaration, DeclaredArguments, FromCall};
use crate::server::schema;
use crate::server::variables;

/// The typed arguments of a tool or a prompt, or the variables of a resource template.
///
/// `T` is a struct that derives `Deserialize` and `JsonSchema`; its schema is what clients see. Arguments that it does
/// not have are refused, unless the type says otherwise (a `#[serde(flatten)]`ed map, say). Prompts and templates have
/// strings only; those are parsed into the numbers, booleans and enumerations that `T` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "taken apart in the parameters of handlers")]
pub struct Args<T>(pub T);

impl<T: DeserializeOwned + JsonSchema + Send> FromCall for Args<T> {
    fn declare(declaration: &mut Declaration) {
        declaration.set(DeclaredArguments::Typed {
            schema: schema::input_schema_of::<T>(),
            type_name: type_name::<T>(),
        });
    }

    fn from_call(parts: &CallParts<'_>) -> Result<Self, Error> {
        match &parts.input {
            CallInput::Tool { raw, rules } => rules.decode(raw).map(Self),
            CallInput::Prompt { variables } | CallInput::Completion { variables, .. } => {
                variables::decode_variables(variables)
                    .map(Self)
                    .map_err(|why| RpcError::invalid_params(why.to_string()).into())
            }
            CallInput::Resource { variables, uri } => variables::decode_variables(variables)
                .map(Self)
                .map_err(|why| RpcError::invalid_params(format!("{uri}: {why}")).into()),
            CallInput::Nothing => Err(RpcError::internal("this call has no arguments").into()),
        }
    }
}

/// A tool's arguments as they came, checked against the schema that was given by hand.
impl FromCall for RawJson {
    fn declare(declaration: &mut Declaration) {
        declaration.set(DeclaredArguments::Raw);
    }

    fn from_call(parts: &CallParts<'_>) -> Result<Self, Error> {
        match &parts.input {
            CallInput::Tool { raw, .. } => Ok((*raw).clone()),
            CallInput::Prompt { variables }
            | CallInput::Resource { variables, .. }
            | CallInput::Completion { variables, .. } => Ok(Self::from_serialize(variables)?),
            CallInput::Nothing => Ok(Self::empty_object()),
        }
    }
}

/// Value shared among the server's handlers, set by [`Server::state`](crate::Server::state).
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "taken apart in the parameters of handlers")]
pub struct State<T>(pub Arc<T>);

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send + Sync + 'static> FromCall for State<T> {
    fn from_call(parts: &CallParts<'_>) -> Result<Self, Error> {
        parts.state().map(Self).ok_or_else(|| {
            let name = type_name::<T>();
            tracing::error!(
                state = name,
                "handler requires state that is not registered; register it with Server::state"
            );
            RpcError::internal(format!("the server has no state of type {name}")).into()
        })
    }
}

/// A value that a layer left for handlers: over HTTP in the extensions of the request (a tower or axum layer around the
/// endpoint), or by a layer around the service in the [context's](Context::extensions).
///
/// A call without a value of this type is refused with an internal error; `Option<Extension<T>>` accepts both. Calls
/// over stdio and HTTP+SSE carry no values of a request, because their answers belong to none of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "taken apart in the parameters of handlers")]
pub struct Extension<T>(pub T);

impl<T: Clone + Send + Sync + 'static> FromCall for Extension<T> {
    fn from_call(parts: &CallParts<'_>) -> Result<Self, Error> {
        let found = parts.context.extension::<T>().cloned().map(Self);
        found.ok_or_else(|| {
            RpcError::internal(format!("the call has no extension {}", type_name::<T>())).into()
        })
    }
}

impl<T: Clone + Send + Sync + 'static> FromCall for Option<Extension<T>> {
    fn from_call(parts: &CallParts<'_>) -> Result<Self, Error> {
        Ok(parts.context.extension::<T>().cloned().map(Extension))
    }
}

/// The URI that is being read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "taken apart in the parameters of handlers")]
pub struct Uri(pub String);

impl FromCall for Uri {
    fn from_call(parts: &CallParts<'_>) -> Result<Self, Error> {
        let uri =
            parts.uri().ok_or_else(|| RpcError::internal("only a resource's handler can take a Uri"))?;
        Ok(Self(uri.to_owned()))
    }
}

/// Typed text of the argument to complete.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "taken apart in the parameters of handlers")]
pub struct Typed(pub String);

impl FromCall for Typed {
    fn from_call(parts: &CallParts<'_>) -> Result<Self, Error> {
        match parts.input {
            CallInput::Completion { typed, .. } => Ok(Self(typed.to_owned())),
            _ => Err(RpcError::internal("only a completion's handler can take a Typed").into()),
        }
    }
}

impl FromCall for Context {
    fn from_call(parts: &CallParts<'_>) -> Result<Self, Error> {
        Ok(parts.context.clone())
    }
}
