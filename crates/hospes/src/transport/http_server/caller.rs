//! The sender of a request, as a layer around the endpoint describes it in the request's extensions.

use std::sync::Arc;

use http::request::Parts;

use crate::peer::RequestSender;

/// Principal of a request, set by a layer around the endpoint in the request's extensions. Sessions and sealed state
/// are bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal(Arc<str>);

impl Principal {
    /// Creates a principal; the name must always denote the same party.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Groups of the [`Principal`] of a request. The layer that sets the principal sets them in the request's extensions, too.
/// Handlers find them with [`Context::extension`](crate::Context::extension). Without them the principal is in no
/// group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrincipalGroups(Arc<[String]>);

impl PrincipalGroups {
    /// Creates groups from their names.
    pub fn new(names: impl Into<Arc<[String]>>) -> Self {
        Self(names.into())
    }

    /// Returns the names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

/// Description of the program that sends a request, for records and people. A layer around the endpoint sets it in the
/// request's extensions. A handler finds it in [`Peer::caller`](crate::Peer::caller).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerLabel(Arc<str>);

impl CallerLabel {
    /// `node, process 4711 of user 1000`.
    pub fn new(words: impl Into<Arc<str>>) -> Self {
        Self(words.into())
    }

    /// Returns the words.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the sender of the request.
pub(super) fn sender(parts: &Parts) -> RequestSender {
    RequestSender {
        principal: parts.extensions.get::<Principal>().map(|principal| Arc::clone(&principal.0)),
        caller: parts.extensions.get::<CallerLabel>().map(|caller| Arc::clone(&caller.0)),
    }
}
