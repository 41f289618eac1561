//! Handle of the gateway, which its calls share.

use std::sync::Arc;

use super::gateway_state::GatewayState;
use super::profile_table::GatewayScope;

/// All servers as one service. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gateway {
    pub(super) shared: Arc<GatewayState>,
    /// Servers that this gateway shows.
    pub(super) scope: GatewayScope,
}

impl Gateway {
    pub(crate) fn new(shared: Arc<GatewayState>, scope: GatewayScope) -> Self {
        Self { shared, scope }
    }

    /// Returns the position of the server of this name, if the gateway shows it. Every name and URI of an application
    /// is resolved here, so that none leads to another server.
    pub(super) fn position(&self, server: &str) -> Option<usize> {
        self.shared.upstreams.position_where(server, |position| self.shared.sees(self.scope, position))
    }

    /// Returns the audience of the request state of this gateway's endpoint. It is the same after a restart.
    pub(crate) fn state_audience(&self) -> String {
        match self.scope {
            GatewayScope::Everything => "everything".to_owned(),
            GatewayScope::Server(position) => {
                format!("server {}", self.shared.upstreams[position].server.label())
            }
            GatewayScope::Profile(position) => {
                let profile = self.shared.profiles.get(position);
                format!("profile {}", profile.map_or("", |profile| &profile.name))
            }
        }
    }

    /// Returns true if the gateway shows the server's own names, because it shows no other server.
    pub(super) fn is_single(&self) -> bool {
        self.scope.server().is_some()
    }
}
