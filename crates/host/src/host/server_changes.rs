//! Changes of the servers while the host runs.

use std::collections::{BTreeMap, HashMap, HashSet};

use tokio::task::JoinHandle;

use super::launch::ServerLauncher;
use super::pinned::{self, HostPins};
use super::{Host, HostStartError, split_servers};
use crate::catalogue::names::ServerPrefixes;
use crate::config::{HostConfig, ServerConfig};

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
}

impl ServerChanges {
    /// Returns true if nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The servers that a host was last told to run, and what starts more of them.
pub(super) struct ConfiguredServers {
    pub(super) launcher: ServerLauncher,
    pub(super) pins: Option<HostPins>,
    /// By name, without their places in the files, which change with every line above them.
    servers: BTreeMap<String, ServerConfig>,
    /// Servers that are being stopped.
    ending: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for ConfiguredServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfiguredServers").field("servers", &self.servers.keys()).finish_non_exhaustive()
    }
}

impl ConfiguredServers {
    pub(super) fn new(launcher: ServerLauncher, pins: Option<HostPins>, servers: &[ServerConfig]) -> Self {
        let servers = servers.iter().map(|server| (server.name.clone(), server.without_source())).collect();
        Self { launcher, pins, servers, ending: Vec::new() }
    }
}

impl Host {
    /// Makes the host run the servers of another configuration. New ones are started, those that are gone are stopped,
    /// and those that changed are started again with their new configuration; running calls to these end with an error.
    /// A server whose entry has become invalid goes on as it was. All other settings of the configuration are ignored.
    /// Applications are told of changed lists.
    ///
    /// # Errors
    /// If two servers would be shown under one name. Nothing has changed then.
    pub async fn update_servers(&self, mut config: HostConfig) -> Result<ServerChanges, HostStartError> {
        let invalid: HashSet<String> = config.rejected.iter().map(|rejected| rejected.name.clone()).collect();
        let (mut wanted, left_out) = split_servers(&mut config);
        let mut configured = self.configured.lock().await;
        let mut changes = ServerChanges::default();
        // A server that is in use is not stopped for a typing mistake.
        wanted.extend(configured.servers.values().filter(|server| invalid.contains(&server.name)).cloned());
        let is_deferred = |server: &ServerConfig| {
            let known = configured.servers.get(&server.name);
            let is_new = known.is_none_or(|known| *known != server.without_source());
            is_new && (server.is_per_user() || known.is_some_and(ServerConfig::is_per_user))
        };
        changes
            .deferred
            .extend(wanted.iter().filter(|server| is_deferred(server)).map(|one| one.name.clone()));
        wanted.retain(|server| !changes.deferred.contains(&server.name));
        let gone = configured
            .servers
            .values()
            .filter(|known| known.is_per_user() && wanted.iter().all(|server| server.name != known.name));
        let gone: Vec<ServerConfig> = gone.cloned().collect();
        for known in gone {
            if !changes.deferred.contains(&known.name) {
                changes.deferred.push(known.name.clone());
            }
            wanted.push(known);
        }
        let prefixes = ServerPrefixes::assign(wanted.iter().map(|server| server.name.as_str()))?;

        let mut new: Vec<&ServerConfig> = Vec::new();
        for server in &wanted {
            match configured.servers.get(&server.name) {
                None => changes.added.push(server.name.clone()),
                Some(known) if *known == server.without_source() => continue,
                Some(_) => changes.replaced.push(server.name.clone()),
            }
            new.push(server);
        }
        let is_wanted = |name: &String| wanted.iter().any(|server| server.name == *name);
        changes.removed.extend(configured.servers.keys().filter(|name| !is_wanted(name)).cloned());
        [&mut changes.added, &mut changes.replaced, &mut changes.deferred]
            .into_iter()
            .for_each(|list| list.sort());
        *self.shared.left_out.write() = left_out;
        if new.is_empty() && changes.removed.is_empty() {
            return Ok(changes);
        }

        let table = &self.shared.upstreams;
        let mut over = Vec::new();
        for name in changes.removed.iter().chain(&changes.replaced) {
            let entry = table.position(name).and_then(|position| table.get(position));
            over.extend(entry.into_iter().flat_map(|entry| entry.remove()));
        }
        table.set_prefixes(prefixes);
        let mut members = HashMap::new();
        for server in &new {
            let member = configured.pins.as_ref().and_then(|pins| pins.member(server));
            table.push(configured.launcher.launch((*server).clone(), pinned::gate(member.as_ref())));
            members.insert(server.name.clone(), member);
        }
        if let Some(pins) = &configured.pins {
            pins.set(&wanted, members);
        }
        configured.servers =
            wanted.iter().map(|server| (server.name.clone(), server.without_source())).collect();
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
