//! Built-in servers, which run in the host's process without a transport.

use std::sync::Arc;

use hospes::{Call, Context, Peer, Service};
use hospes_model::{Implementation, Method, RawJson, Reply, Revision, meta_key};

use hospes_policy::{CallEffect, FlowLabels, KnownLabels, PackageLabels};

use super::BuiltinFactory;
use crate::config::{ServerConfig, ServerTransport};
use crate::pins::{PackageIdentity, PinManager, target};
use crate::server::{
    ConnectOptions, ConnectorFuture, ServerPackage, UpstreamConnectError, UpstreamConnection,
    UpstreamConnector, complete,
};

/// Returns the data labels of a built-in server, or `None` for other servers. An operator's labels take precedence.
#[must_use]
pub(super) fn labels(transport: &ServerTransport) -> Option<FlowLabels> {
    let ServerTransport::Builtin(builtin) = transport else { return None };
    let (private, untrusted, outbound) = match builtin.name.as_str() {
        // They serve what is the person's, and reach nothing but that.
        "files" | "git" | "memory" => (true, false, false),
        "fetch" => (false, true, true),
        "time" => (false, false, false),
        _ => return None,
    };
    Some(FlowLabels { private, untrusted, outbound, effect: CallEffect::default() })
}

/// Returns what is known about the labels of a tool of a configured server without the policy file: by the program, and
/// by the package that the server runs. `pins` tell whether a person has accepted the definition of the tool.
pub async fn known_labels(config: &ServerConfig, tool: &str, pins: Option<&PinManager>) -> KnownLabels {
    let mut known = KnownLabels { program: labels(&config.transport), ..KnownLabels::default() };
    let Some(ServerPackage { labels, is_certain }) = package(&config.transport) else { return known };
    known.package = Some(labels);
    if is_certain && let Some(pins) = pins {
        known.may_lower = pins.is_accepted_by_person(&config.name, target(config), tool).await;
    }
    known
}

/// Returns the package that a server runs, if there are built-in labels for it.
pub(super) fn package(transport: &ServerTransport) -> Option<ServerPackage> {
    let PackageIdentity { name, is_certain } = PackageIdentity::of(transport)?;
    Some(ServerPackage { labels: PackageLabels::find(&name)?, is_certain })
}

/// Connector that creates a built-in server on demand.
pub(super) struct BuiltinConnector {
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) builtins: BuiltinFactory,
}

impl UpstreamConnector for BuiltinConnector {
    fn is_shared(&self) -> bool {
        // Each call brings the abilities of its application along.
        true
    }

    fn connect(
        &self,
        wish: ConnectOptions,
    ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>> {
        Box::pin(async move {
            let service = (self.builtins)(&self.name, &self.args)
                .map_err(|error| UpstreamConnectError::new(error.to_string()))?;
            let info = Some(crate::server::implementation());
            let peer = Arc::new(Peer::new(Revision::LATEST, info, wish.abilities.capabilities()));
            let call = Call::new(Method::Discover, RawJson::empty_object(), Context::new(peer));
            let reply = complete(&Method::Discover, service.call(call).await)
                .map_err(|error| UpstreamConnectError::new(error.message.into_owned()))?;
            let Reply::Discover(discovered) = reply else {
                return Err(UpstreamConnectError::new("unexpected result type for server/discover"));
            };
            let mut connection = UpstreamConnection::new(service, Revision::LATEST);
            connection.server = discovered.meta.read::<Implementation>(meta_key::SERVER_INFO);
            connection.capabilities = discovered.capabilities;
            connection.instructions = discovered.instructions;
            Ok(connection)
        })
    }
}
