//! Handle of the host's servers, for management such as in the console.

use std::sync::Arc;

use super::gateway_state::GatewayState;
use super::host_status::HostStatus;
use super::profile_table::GatewayScope;
use crate::config::ProfileConfig;
use crate::server::{ServerFolders, UpstreamListing};
use crate::upstream::PlacedServer;

/// There is no server of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown server `{0}`")]
#[non_exhaustive]
pub struct UnknownServerError(pub String);

/// Handle of the servers of a [`Host`](crate::Host): their status, their listings, and restarts. Cheap to clone; like a
/// gateway, it keeps them running.
#[derive(Clone, Debug)]
pub struct HostServers(Arc<GatewayState>);

impl HostServers {
    pub(crate) fn new(shared: Arc<GatewayState>) -> Self {
        Self(shared)
    }

    /// Returns the status of the servers.
    #[must_use]
    pub fn status(&self) -> HostStatus {
        self.0.status(GatewayScope::Everything)
    }

    /// Returns true if a person who is in these groups may use a profile. False if there is no such profile.
    #[must_use]
    pub fn admits(&self, profile: &str, groups: &[String]) -> bool {
        self.0.admits(profile, groups)
    }

    /// Waits until the servers may have changed since `seen` was returned. Returns the value for the next call.
    pub async fn changed(&self, seen: u64) -> u64 {
        let mut epoch = self.0.epoch.subscribe();
        let now = epoch.wait_for(|now| *now != seen).await.map(|now| *now);
        // The sender is part of the shared state, so waiting does not fail.
        now.unwrap_or(seen)
    }

    /// Returns the listing of a server as last read, or `None` if it is not known yet. Always `None` for a server with
    /// an account for each user, because each user has a separate listing.
    ///
    /// # Errors
    /// If there is no server with that name.
    pub fn listing(&self, server: &str) -> Result<Option<UpstreamListing>, UnknownServerError> {
        let slot = self.slot(server)?;
        Ok(slot.of(None).and_then(|upstream| upstream.listing()))
    }

    /// Restarts a server: closes all its connections and starts it immediately, regardless of earlier failures. Running
    /// calls end with an error.
    ///
    /// # Errors
    /// If there is no server with that name.
    pub fn restart(&self, server: &str) -> Result<(), UnknownServerError> {
        tracing::info!(server, "server restart requested");
        self.slot(server)?.all().iter().for_each(|upstream| upstream.restart());
        Ok(())
    }

    /// Returns true if there are tokens of a sign-in at a server, also those that another program has just stored. `None`
    /// if the server has no account that everybody shares, or has the secrets of a profile.
    ///
    /// # Errors
    /// If there is no server with that name.
    pub async fn has_sign_in(&self, server: &str) -> Result<Option<bool>, UnknownServerError> {
        let slot = self.slot(server)?;
        Ok(match slot.of(None).filter(|_| slot.server.profile.is_none()) {
            Some(upstream) => upstream.has_sign_in().await,
            None => None,
        })
    }

    /// Returns the configured profiles, in alphabetical order.
    #[must_use]
    pub fn profiles(&self) -> Vec<Arc<ProfileConfig>> {
        let mut profiles: Vec<_> = self.0.profiles.current().map(|(_, profile)| profile).collect();
        profiles.sort_by(|one, two| one.name.cmp(&two.name));
        profiles
    }

    /// Returns the last segment of the path of a server's own endpoint. `None` if it has no such endpoint.
    #[must_use]
    pub fn label(&self, server: &str) -> Option<String> {
        let slot =
            self.slot(server).ok().filter(|slot| !slot.is_per_user() && slot.server.profile.is_none())?;
        self.0.upstreams.prefixes().of(&slot.server.name).map(|label| label.as_str().to_owned())
    }

    /// Returns the folders of this machine that a server can reach, or none if there is no such server.
    #[must_use]
    pub fn folders(&self, server: &str) -> ServerFolders {
        self.slot(server).map(|slot| slot.server.folders.clone()).unwrap_or_default()
    }

    /// Returns a server that this node of a fleet runs for the others, once it is ready.
    ///
    /// # Errors
    /// Returns why the server is not ready, as a sentence.
    pub async fn placed(&self, server: &str) -> Result<PlacedServer, String> {
        let slot =
            self.slot(server).map_err(|error| format!("{error}: all nodes need the same configuration"))?;
        let upstream =
            slot.of(None).ok_or_else(|| format!("the server `{server}` has an account for each user"))?;
        PlacedServer::new(upstream, self.0.settings.call_wait).await
    }

    pub(super) fn slot(&self, server: &str) -> Result<&crate::upstream::UpstreamEntry, UnknownServerError> {
        let found = self.0.upstreams.get(self.position(server)?);
        found.ok_or_else(|| UnknownServerError(server.to_owned()))
    }

    pub(super) fn position(&self, server: &str) -> Result<usize, UnknownServerError> {
        let found = self.0.upstreams.labelled(server);
        found.ok_or_else(|| UnknownServerError(server.to_owned()))
    }

    pub(super) fn shared(&self) -> &Arc<GatewayState> {
        &self.0
    }
}

#[cfg(test)]
mod tests;
