//! Changes of the servers while the host runs.

use std::collections::{BTreeMap, HashMap, HashSet};

use tokio::task::JoinHandle;

use super::launch::ServerLauncher;
use super::pinned::HostPins;
use super::{Host, HostStartError, check_profile_names, split_servers};
use crate::catalogue::names::ServerPrefixes;
use crate::config::{HostConfig, ProfileConfig, ServerConfig};

/// Result of [`Host::update_servers`]: names of servers, in alphabetical order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerChanges {
    /// Servers that were started, because they are new or enabled.
    pub added: Vec<String>,
    /// Servers that were stopped, because they are no longer configured or disabled.
    pub removed: Vec<String>,
    /// Servers that were started again, because their configuration changed.
    pub replaced: Vec<String>,
    /// Servers with an account for each user, whose changes take effect when the host starts again.
    pub deferred: Vec<String>,
    /// Profiles that are new.
    pub added_profiles: Vec<String>,
    /// Profiles that are no longer configured. Their applications get errors.
    pub removed_profiles: Vec<String>,
    /// Profiles that show other servers or tools than before, or have another title or description.
    pub changed_profiles: Vec<String>,
}

impl ServerChanges {
    /// Returns true if nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if profiles have changed.
    #[must_use]
    pub fn has_profiles(&self) -> bool {
        ![&self.added_profiles, &self.removed_profiles, &self.changed_profiles].into_iter().all(Vec::is_empty)
    }

    fn compare_profiles(
        &mut self,
        before: &BTreeMap<String, ProfileConfig>,
        now: &BTreeMap<String, ProfileConfig>,
    ) {
        self.removed_profiles.extend(before.keys().filter(|name| !now.contains_key(*name)).cloned());
        for (name, profile) in now {
            match before.get(name) {
                None => self.added_profiles.push(name.clone()),
                Some(known) if known != profile => self.changed_profiles.push(name.clone()),
                Some(_) => {}
            }
        }
    }
}

/// The servers that a host was last told to run, and what starts more of them.
pub(super) struct ConfiguredServers {
    pub(super) launcher: ServerLauncher,
    pub(super) pins: Option<HostPins>,
    /// By label, without their places in the files, which change with every line above them.
    servers: BTreeMap<String, ServerConfig>,
    /// By name, without their places in the files.
    profiles: BTreeMap<String, ProfileConfig>,
    /// Servers that are being stopped.
    ending: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for ConfiguredServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfiguredServers").field("servers", &self.servers.keys()).finish_non_exhaustive()
    }
}

impl ConfiguredServers {
    pub(super) fn new(
        launcher: ServerLauncher,
        pins: Option<HostPins>,
        servers: &[ServerConfig],
        profiles: &[ProfileConfig],
    ) -> Self {
        let servers = servers.iter().map(|server| (server.label(), server.without_source())).collect();
        Self { launcher, pins, servers, profiles: by_name(profiles), ending: Vec::new() }
    }
}

fn by_name(profiles: &[ProfileConfig]) -> BTreeMap<String, ProfileConfig> {
    profiles.iter().map(|profile| (profile.name.clone(), profile.without_source())).collect()
}

impl Host {
    /// Makes the host run the servers and serve the profiles of another configuration. New ones are started, those that are gone are stopped,
    /// and those that changed are started again with their new configuration; running calls to these end with an error.
    /// A server whose entry has become invalid goes on as it was. Sessions of a removed profile get errors. All other settings of the configuration are ignored.
    /// Applications are told of changed lists.
    ///
    /// # Errors
    /// If two servers would be shown under one name, or a profile has the name of a server. Nothing has changed then.
    pub async fn update_servers(&self, mut config: HostConfig) -> Result<ServerChanges, HostStartError> {
        let invalid: HashSet<String> = config.rejected.iter().map(|rejected| rejected.name.clone()).collect();
        let (mut wanted, mut left_out) = split_servers(&mut config);
        let profiles = std::mem::take(&mut config.profiles);
        let mut configured = self.configured.lock().await;
        let mut changes = ServerChanges::default();
        // A server that is in use is not stopped for a typing mistake, be it the one for everybody or one of a profile.
        let is_shown = |known: &ServerConfig| {
            known.profile.as_ref().is_none_or(|name| {
                let profile = profiles.iter().find(|profile| profile.name == *name);
                profile.is_some_and(|profile| profile.own_servers.contains(&known.name))
            })
        };
        let is_kept = |known: &&ServerConfig| {
            (invalid.contains(&known.label()) || invalid.contains(&known.name))
                && is_shown(known)
                && wanted.iter().all(|server| server.label() != known.label())
        };
        let kept: Vec<ServerConfig> = configured.servers.values().filter(is_kept).cloned().collect();
        wanted.extend(kept);
        let is_deferred = |server: &ServerConfig| {
            let known = configured.servers.get(&server.label());
            let is_new = known.is_none_or(|known| *known != server.without_source());
            is_new && (server.is_per_user() || known.is_some_and(ServerConfig::is_per_user))
        };
        changes
            .deferred
            .extend(wanted.iter().filter(|server| is_deferred(server)).map(|one| one.name.clone()));
        wanted.retain(|server| !changes.deferred.contains(&server.name));
        // They stay as they are until then.
        let is_gone = |known: &&ServerConfig| {
            (known.is_per_user() || changes.deferred.contains(&known.name))
                && wanted.iter().all(|server| server.name != known.name)
        };
        let gone = configured.servers.values().filter(is_gone);
        let gone: Vec<ServerConfig> = gone.cloned().collect();
        for known in gone {
            if !changes.deferred.contains(&known.name) {
                changes.deferred.push(known.name.clone());
            }
            wanted.push(known);
        }
        let prefixes = ServerPrefixes::assign(wanted.iter().map(|server| server.name.as_str()))?;
        check_profile_names(&profiles, &prefixes)?;
        // Those for everybody first, because the servers of profiles are pinned with them.
        wanted.sort_by_key(|server| server.profile.is_some());

        let mut new: Vec<&ServerConfig> = Vec::new();
        // Names of servers that go on running, for everybody or for a profile.
        let mut running: HashSet<&str> = HashSet::new();
        for server in &wanted {
            match configured.servers.get(&server.label()) {
                Some(known) if *known == server.without_source() => {
                    running.insert(&server.name);
                    continue;
                }
                Some(_) => changes.replaced.push(server.label()),
                None => changes.added.push(server.label()),
            }
            new.push(server);
        }
        let is_wanted = |label: &String| wanted.iter().any(|server| server.label() == *label);
        changes.removed.extend(configured.servers.keys().filter(|name| !is_wanted(name)).cloned());
        [&mut changes.added, &mut changes.replaced, &mut changes.deferred]
            .into_iter()
            .for_each(|list| list.sort());
        // Of a server that goes on as it was, it is not true that it was not started.
        left_out.retain(|(name, _)| wanted.iter().all(|server| server.label() != *name));
        let is_other = {
            let mut known = self.shared.left_out.write();
            std::mem::replace(&mut *known, left_out.clone()) != left_out
        };
        if is_other {
            // For those who show the status, also if no server changes.
            self.shared.epoch.bump();
        }
        let now = by_name(&profiles);
        changes.compare_profiles(&configured.profiles, &now);
        let has_new_servers = !(new.is_empty() && changes.removed.is_empty());
        if !has_new_servers && !changes.has_profiles() {
            return Ok(changes);
        }
        // A profile that shrinks does so before servers change; one that grows shows only what is there.
        self.shared.profiles.set(&profiles);
        configured.profiles = now;
        if let Some(pins) = &configured.pins {
            pins.set_names(&wanted);
        }
        if !has_new_servers {
            self.shared.epoch.bump();
            return Ok(changes);
        }

        let table = &self.shared.upstreams;
        let mut over = Vec::new();
        for name in changes.removed.iter().chain(&changes.replaced) {
            let entry = table.labelled(name).and_then(|position| table.get(position));
            over.extend(entry.into_iter().flat_map(|entry| entry.remove()));
        }
        table.set_prefixes(prefixes);
        let mut members = HashMap::new();
        for server in &new {
            let member = members.entry(server.name.clone()).or_insert_with(|| {
                let pins = configured.pins.as_ref()?;
                // All servers of one name share what is pinned of them, and running connections hold it already.
                match running.contains(server.name.as_str()) {
                    true => pins.current(&server.name),
                    false => pins.member(server),
                }
            });
            table.push(configured.launcher.launch((*server).clone(), member.as_ref()));
        }
        if let Some(pins) = &configured.pins {
            pins.set(&wanted, members);
        }
        configured.servers = wanted.iter().map(|server| (server.label(), server.without_source())).collect();
        self.shared.epoch.bump();
        // In the background, since a server may take a while to end.
        configured.ending.retain(|ending| !ending.is_finished());
        configured
            .ending
            .extend(over.into_iter().map(|upstream| tokio::spawn(async move { upstream.stop().await })));
        Ok(changes)
    }

    /// Waits until the servers that were removed have ended.
    pub(super) async fn wait_for_removed(&self) {
        let ending = std::mem::take(&mut self.configured.lock().await.ending);
        futures::future::join_all(ending).await;
    }
}
