//! Handle of the gateway, which its calls share.

use std::sync::Arc;

use super::gateway_state::GatewayState;

/// All servers as one service. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gateway {
    pub(super) shared: Arc<GatewayState>,
    /// Position of the single server that this gateway shows, under that server's own names. Without it, all servers
    /// are shown.
    pub(super) only: Option<usize>,
}

impl Gateway {
    pub(crate) fn new(shared: Arc<GatewayState>) -> Self {
        Self { shared, only: None }
    }

    /// The gateway of one server alone, at this position.
    pub(crate) fn only(shared: Arc<GatewayState>, server: usize) -> Self {
        Self { shared, only: Some(server) }
    }

    /// Returns the position of the server of this name.
    pub(super) fn position(&self, server: &str) -> Option<usize> {
        self.shared.upstreams.position(server)
    }
}
