//! Extensions that a server declares, and methods that belong to extensions.

use hospes_model::{ClientCapabilities, Method, RawJson};

use crate::server::own_extensions;
use crate::upstream::ReadyConnection;

/// The extensions that a server declares, but for tasks, which are carried by themselves.
pub(super) fn declared(live: &ReadyConnection) -> impl Iterator<Item = (&String, &RawJson)> {
    own_extensions(live.capabilities())
}

/// Returns whether an application and a server declare a common extension.
pub(super) fn shares_extension(live: &ReadyConnection, application: &ClientCapabilities) -> bool {
    declared(live).any(|(identifier, _)| application.has_extension(identifier))
}

/// Returns true if the method is not defined by the specification, so that it belongs to an extension.
pub(super) fn is_extension_method(method: &Method) -> bool {
    matches!(method, Method::Other(_))
}
