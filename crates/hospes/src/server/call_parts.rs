//! The parts of a call, from which the parameters of handlers are extracted.
//!
//! A handler may take a handle of its server, so that a call knows the state shared with handles. That state holds the
//! catalogue, the catalogue the entries, and an entry its handler, which starts with the parts of a call: these four
//! files refer to one another in a circle.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use hospes_model::RawJson;

use crate::context::Context;
use crate::error::Error;
use crate::server::arguments::ArgumentRules;
use crate::server::shared::ServerShared;
use crate::server::variables::TemplateVariables;

/// Parameter of a handler, extracted from the call.
#[diagnostic::on_unimplemented(
    message = "a handler cannot take `{Self}`",
    label = "not an extractor",
    note = "take typed arguments as `Args<{Self}>`, with `#[derive(Deserialize, JsonSchema)]`, \
            and shared state as `State<{Self}>`"
)]
pub trait FromCall: Sized + Send {
    /// Declares the parameter's needs at registration; most have none.
    fn declare(_declaration: &mut Declaration) {}

    /// Extracts the parameter from the call.
    ///
    /// # Errors
    /// When this call does not have it. An [`RpcError`](hospes_model::RpcError) becomes that protocol error; any other
    /// error becomes, in a tool, a result that the model reads.
    fn from_call(parts: &CallParts<'_>) -> Result<Self, Error>;
}

/// Needs that the parameters of a handler declare at registration.
#[derive(Debug, Default)]
pub struct Declaration {
    pub(crate) arguments: DeclaredArguments,
}

/// Form in which a handler takes its arguments.
#[derive(Debug, Default)]
pub(crate) enum DeclaredArguments {
    /// Not at all.
    #[default]
    Nothing,
    /// A type with this schema.
    Typed { schema: serde_json::Value, type_name: &'static str },
    /// Raw JSON.
    Raw,
    /// More than once, which cannot be meant.
    Twice,
}

impl Declaration {
    /// Enters the form of the arguments; a second one is a mistake.
    pub(super) fn set(&mut self, arguments: DeclaredArguments) {
        self.arguments = match self.arguments {
            DeclaredArguments::Nothing => arguments,
            _ => DeclaredArguments::Twice,
        };
    }
}

/// A call, as the extractors see it.
pub struct CallParts<'a> {
    pub(crate) context: &'a Context,
    pub(crate) shared: &'a Arc<ServerShared>,
    pub(crate) states: &'a StateMap,
    pub(crate) input: CallInput<'a>,
}

/// Input of the call, by kind.
pub(crate) enum CallInput<'a> {
    /// No input: the call has only a context.
    Nothing,
    /// A tool's arguments.
    Tool { raw: &'a RawJson, rules: &'a ArgumentRules },
    /// A prompt's arguments.
    Prompt { variables: &'a TemplateVariables },
    /// A resource's URI, and what the template found in it.
    Resource { uri: &'a str, variables: &'a TemplateVariables },
    /// Typed text, and the arguments already given.
    Completion { typed: &'a str, variables: &'a TemplateVariables },
}

impl CallParts<'_> {
    /// The call's context.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.context
    }

    /// The shared state of type `T`, if the server has some.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.states.get()
    }

    /// The URI that is being read; none unless this is a resource.
    #[must_use]
    pub fn uri(&self) -> Option<&str> {
        match self.input {
            CallInput::Resource { uri, .. } => Some(uri),
            _ => None,
        }
    }
}

impl fmt::Debug for CallParts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallParts").field("context", self.context).finish_non_exhaustive()
    }
}

/// Shared values by their types.
#[derive(Clone, Default)]
pub(crate) struct StateMap(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl StateMap {
    /// Adds a value; false when there is one of its type already.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: Arc<T>) -> bool {
        self.0.insert(TypeId::of::<T>(), value).is_none()
    }

    fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let value = self.0.get(&TypeId::of::<T>())?;
        Arc::clone(value).downcast().ok()
    }

    /// Adds the values of `other` whose types are missing here.
    pub(crate) fn merge(&mut self, other: Self) {
        for (id, value) in other.0 {
            self.0.entry(id).or_insert(value);
        }
    }
}

impl fmt::Debug for StateMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} states", self.0.len())
    }
}
