//! Profiles of the host, which change while it runs, and the scope of a gateway.

use std::sync::Arc;

use hospes_model::RpcError;
use parking_lot::RwLock;

use super::gateway_state::GatewayState;
use super::host_status::ProfileStatus;
use crate::config::{ProfileConfig, profile_hint};
use crate::upstream::UpstreamEntry;

/// Servers that a gateway shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GatewayScope {
    /// All servers.
    Everything,
    /// The server at this position, under that server's own names.
    Server(usize),
    /// The servers and tools of the profile at this position.
    Profile(usize),
}

impl GatewayScope {
    /// Returns the position of the single server.
    pub(crate) fn server(self) -> Option<usize> {
        match self {
            Self::Server(position) => Some(position),
            Self::Everything | Self::Profile(_) => None,
        }
    }
}

/// A profile, which may have been removed.
#[derive(Debug)]
pub(crate) struct ProfileEntry {
    pub(crate) name: Arc<str>,
    current: RwLock<Option<Arc<ProfileConfig>>>,
}

impl ProfileEntry {
    /// Returns the current settings. `None` if the profile is not configured any more.
    pub(crate) fn current(&self) -> Option<Arc<ProfileConfig>> {
        self.current.read().clone()
    }

    pub(crate) fn is_configured(&self) -> bool {
        self.current.read().is_some()
    }

    /// Returns true if the profile shows this server. A server that runs for a profile alone is shown by no other, and
    /// takes the place of the one that runs for everybody.
    pub(crate) fn shows(&self, server: &UpstreamEntry) -> bool {
        let current = self.current.read();
        let Some(profile) = current.as_deref() else { return false };
        let name = &*server.server.name;
        let is_own = profile.own_servers.iter().any(|own| own == name);
        let wanted = if is_own { Some(&*self.name) } else { None };
        profile.includes(name) && server.server.profile.as_deref() == wanted
    }
}

/// Profiles by position. A profile keeps its position while the host runs, also if it is removed and comes back.
#[derive(Debug, Default)]
pub(crate) struct ProfileTable(boxcar::Vec<ProfileEntry>);

impl ProfileTable {
    /// Returns the profile at a position.
    pub(crate) fn get(&self, position: usize) -> Option<&ProfileEntry> {
        self.0.get(position)
    }

    /// Returns the position of a configured profile.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.current().find(|(_, profile)| profile.name == name).map(|(position, _)| position)
    }

    /// Iterates over the configured profiles with their positions.
    pub(crate) fn current(&self) -> impl Iterator<Item = (usize, Arc<ProfileConfig>)> {
        self.0.iter().filter_map(|(position, entry)| Some((position, entry.current()?)))
    }

    /// Sets the configured profiles. Callers do not overlap.
    pub(crate) fn set(&self, profiles: &[ProfileConfig]) {
        for (_, entry) in
            self.0.iter().filter(|(_, entry)| profiles.iter().all(|one| *one.name != *entry.name))
        {
            *entry.current.write() = None;
        }
        for profile in profiles {
            let current = Some(Arc::new(profile.clone()));
            match self.0.iter().find(|(_, entry)| *entry.name == *profile.name) {
                Some((_, entry)) => *entry.current.write() = current,
                None => drop(self.0.push(ProfileEntry {
                    name: Arc::from(profile.name.as_str()),
                    current: RwLock::new(current),
                })),
            }
        }
    }
}

impl GatewayState {
    /// Returns true if a scope shows the server at this position.
    pub(crate) fn sees(&self, scope: GatewayScope, server: usize) -> bool {
        match scope {
            GatewayScope::Everything => self.upstreams[server].server.profile.is_none(),
            GatewayScope::Server(only) => only == server,
            GatewayScope::Profile(position) => {
                let profile = self.profiles.get(position);
                profile.is_some_and(|profile| profile.shows(&self.upstreams[server]))
            }
        }
    }

    /// Returns the profile of a scope, if it is one and is configured.
    pub(crate) fn profile(&self, scope: GatewayScope) -> Option<Arc<ProfileConfig>> {
        match scope {
            GatewayScope::Profile(position) => self.profiles.get(position)?.current(),
            GatewayScope::Everything | GatewayScope::Server(_) => None,
        }
    }

    /// Returns the name of the profile of a scope, also of one that is not configured any more.
    pub(crate) fn profile_name(&self, scope: GatewayScope) -> Option<&str> {
        match scope {
            GatewayScope::Profile(position) => Some(&self.profiles.get(position)?.name),
            GatewayScope::Everything | GatewayScope::Server(_) => None,
        }
    }

    /// Returns true if a person who is in these groups may use a profile. False if there is no such profile.
    pub(crate) fn admits(&self, profile: &str, groups: &[String]) -> bool {
        self.profiles.current().any(|(_, one)| one.name == profile && one.admits(groups))
    }

    /// Returns true if only the people of some groups may use a profile.
    pub(crate) fn is_limited(&self, profile: &str) -> bool {
        self.profiles.current().any(|(_, one)| one.name == profile && one.groups.is_some())
    }

    /// Returns an error for applications of a profile that is not configured any more.
    pub(super) fn check_scope(&self, scope: GatewayScope) -> Result<(), RpcError> {
        match scope {
            GatewayScope::Profile(position) => match self.profiles.get(position) {
                Some(profile) if !profile.is_configured() => Err(self.removed_profile(&profile.name)),
                _ => Ok(()),
            },
            GatewayScope::Everything | GatewayScope::Server(_) => Ok(()),
        }
    }

    fn removed_profile(&self, name: &str) -> RpcError {
        let known: Vec<Arc<ProfileConfig>> = self.profiles.current().map(|(_, profile)| profile).collect();
        let known: Vec<&str> = known.iter().map(|profile| profile.name.as_str()).collect();
        let hint = profile_hint(name, &known);
        RpcError::invalid_request(format!("the profile `{name}` was removed from the configuration; {hint}"))
    }

    /// Returns the profiles that a scope may know of, with the servers that each shows.
    pub(super) fn profile_statuses(&self, scope: GatewayScope) -> Vec<ProfileStatus> {
        let is_known = |position: usize| match scope {
            GatewayScope::Everything => true,
            GatewayScope::Server(_) => false,
            GatewayScope::Profile(own) => own == position,
        };
        let known = self.profiles.current().filter(|(position, _)| is_known(*position));
        let statuses = known.map(|(position, profile)| {
            let shown = self.upstreams.current();
            let shown = shown.filter(|(server, _)| self.sees(GatewayScope::Profile(position), *server));
            ProfileStatus {
                name: profile.name.clone(),
                title: profile.title.clone(),
                servers: shown.map(|(_, slot)| slot.server.name.to_string()).collect(),
            }
        });
        let mut statuses: Vec<ProfileStatus> = statuses.collect();
        statuses.sort_by(|one, two| one.name.cmp(&two.name));
        statuses
    }
}
