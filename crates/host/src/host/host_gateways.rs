//! Handle that creates gateways of a running host.

use std::sync::Arc;

use crate::config::ProfileConfig;
use crate::gateway::{Gateway, GatewayScope, GatewayState, HostServers};

/// Handle of the gateways of a [`Host`](crate::Host): of all its servers, and of its profiles. Cheap to clone; like a
/// gateway, it keeps the servers running.
#[derive(Clone, Debug)]
pub struct HostGateways(pub(super) Arc<GatewayState>);

impl HostGateways {
    /// Returns the gateway of all servers.
    #[must_use]
    pub fn everything(&self) -> Gateway {
        Gateway::new(Arc::clone(&self.0), GatewayScope::Everything)
    }

    /// Returns the gateway of a profile. `None` if there is no such profile.
    #[must_use]
    pub fn profile(&self, name: &str) -> Option<Gateway> {
        let position = self.0.profiles.position(name)?;
        Some(Gateway::new(Arc::clone(&self.0), GatewayScope::Profile(position)))
    }

    /// Returns the configured profiles, in alphabetical order.
    #[must_use]
    pub fn profiles(&self) -> Vec<Arc<ProfileConfig>> {
        HostServers::new(Arc::clone(&self.0)).profiles()
    }

    /// Waits until a profile is not configured any more. Without a profile it never returns.
    pub async fn wait_for_removal(&self, profile: Option<&str>) {
        let Some(profile) = profile else { return std::future::pending().await };
        // Each change of a profile counts as one of the servers.
        let mut epoch = self.0.epoch.subscribe();
        loop {
            epoch.mark_unchanged();
            if self.0.profiles.position(profile).is_none() {
                return;
            }
            // The sender is part of the shared state.
            let _ = epoch.changed().await;
        }
    }
}
