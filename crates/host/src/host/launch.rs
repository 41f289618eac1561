//! Launch of the configured servers.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::builtin::{self, BuiltinConnector};
use super::{BuiltinFactory, ConnectorFactory};
use crate::accounts::UpstreamAccounts;
use crate::config::{
    BuiltinTransport, ExpandedText, HostSettings, ServerConfig, ServerPlacement, ServerTransport,
};
use crate::guard::PolicyEnforcer;
use crate::metrics::HostMetrics;
use crate::pins::{PinMember, target};
use crate::server::{
    LaunchRecorder, MeasuredConnector, ServerFolders, ServerPlaces, UpstreamConnector, UpstreamEpoch,
    UpstreamServer,
};
use crate::upstream::{
    PlacedConnector, RootsPolicy, RootsRules, ServerMemory, Upstream, UpstreamEntry, client_connector,
    definition,
};

/// Starts servers, with what all of them share.
pub(super) struct ServerLauncher {
    pub(super) settings: HostSettings,
    pub(super) memory: Arc<ServerMemory>,
    pub(super) epoch: Arc<UpstreamEpoch>,
    pub(super) builtins: BuiltinFactory,
    pub(super) connectors: Option<ConnectorFactory>,
    pub(super) guard: Option<Arc<PolicyEnforcer>>,
    pub(super) accounts: Option<UpstreamAccounts>,
    pub(super) metrics: Arc<HostMetrics>,
    /// Nodes that run servers with placement `one`, in a fleet.
    pub(super) places: Option<Arc<dyn ServerPlaces>>,
    /// Permits of processes that start at once.
    pub(super) starts: Arc<Semaphore>,
}

impl ServerLauncher {
    /// Starts a server. One with an account for each user starts when a user calls it.
    pub(super) fn launch(&self, config: ServerConfig, member: Option<&PinMember>) -> UpstreamEntry {
        let server = Arc::new(self.describe(&config, member));
        let guard = self.guard.as_ref().map(|guard| Arc::clone(guard) as Arc<dyn RootsRules>);
        let roots = RootsPolicy::new(&config, &self.settings, guard);
        if config.is_per_user() {
            return self.launch_per_user(config, server, roots);
        }
        let connector = match &self.connectors {
            Some(connectors) => connectors(&config, &self.settings),
            None => self.connector(&config, &roots, server.launches.clone()),
        };
        let connector = match &self.places {
            Some(places) if server.placement == ServerPlacement::One => {
                PlacedConnector::wrap(connector, places, &config, &self.settings)
            }
            _ => connector,
        };
        let connector = MeasuredConnector::wrap(connector, &self.metrics, &server.name, &config.transport);
        let max = config.max_connections.unwrap_or(self.settings.max_connections);
        let (memory, epoch) = (Arc::clone(&self.memory), Arc::clone(&self.epoch));
        let upstream = Upstream::start(server, connector, memory, epoch, max);
        UpstreamEntry::shared(upstream, config.tools.clone(), roots, config.required)
    }

    /// Creates the entry of a server with an account for each user.
    fn launch_per_user(
        &self,
        config: ServerConfig,
        server: Arc<UpstreamServer>,
        roots: RootsPolicy,
    ) -> UpstreamEntry {
        let (accounts, settings) = (self.accounts.clone(), self.settings.clone());
        if let Some(accounts) = &accounts {
            accounts.serve(&config);
        }
        let (memory, epoch) = (Arc::clone(&self.memory), Arc::clone(&self.epoch));
        let max = config.max_connections.unwrap_or(settings.max_connections);
        let max_users = accounts.as_ref().map_or(0, |accounts| accounts.current_limits().max_users);
        let (filter, metrics) = (config.tools.clone(), Arc::clone(&self.metrics));
        let (shared, shared_roots) = (Arc::clone(&server), roots.clone());
        let connect = move |user: &Arc<str>| {
            let account = accounts.as_ref()?.of(&config, user)?;
            let launches = shared.launches.as_ref().map(|launches| Arc::new(launches.of(user)));
            let connector =
                client_connector(&config, &settings, &shared_roots, Some(account as _), launches.clone());
            let connector = MeasuredConnector::wrap(connector, &metrics, &shared.name, &config.transport);
            let (memory, epoch) = (Arc::clone(&memory), Arc::clone(&epoch));
            let user = Some(Arc::clone(user));
            let theirs = UpstreamServer { user, launches, ..UpstreamServer::clone(&shared) };
            Some(Upstream::start(Arc::new(theirs), connector, memory, epoch, max))
        };
        UpstreamEntry::per_user(server, filter, roots, Box::new(connect), max_users)
    }

    /// Returns the properties that all connections of a server share.
    fn describe(&self, config: &ServerConfig, member: Option<&PinMember>) -> UpstreamServer {
        let settings = &self.settings;
        let is_process = matches!(config.transport, ServerTransport::Stdio(_));
        // Remembered before it is started: what hangs costs the longer wait once.
        let is_first =
            is_process && definition(&config.transport).is_some_and(|key| self.memory.is_first_start(&key));
        let name: Arc<str> = Arc::from(config.name.as_str());
        let (shown, target) = (config.transport.to_string(), target(config).to_string());
        let target: Arc<str> = Arc::from(target);
        let audit = self.guard.as_ref().and_then(|guard| guard.audit());
        let profile: Option<Arc<str>> = config.profile.as_deref().map(Arc::from);
        let named = (&name, profile.as_ref());
        let launches = audit.map(|audit| LaunchRecorder::new(audit, named, &config.source, &target, &shown));
        UpstreamServer {
            name,
            profile,
            user: None,
            gate: member.and_then(PinMember::gate).map(|gate| Arc::clone(gate) as _),
            listings: member.and_then(PinMember::listings),
            shown,
            target,
            launches: launches.map(Arc::new),
            known: builtin::labels(&config.transport),
            package: builtin::package(&config.transport),
            check_arguments: config.check_arguments,
            placement: config.placement(),
            folders: ServerFolders::of(config),
            transport: config.transport.kind(),
            // With an era in the configuration there is nothing to find out or to remember.
            definition: definition(&config.transport).filter(|_| config.era.is_none()),
            policy: settings.restart,
            connect_timeout: config.timeouts.connect.unwrap_or(settings.connect_timeout),
            start_wait: if is_first { settings.first_start_wait } else { settings.start_wait },
            idle_after: settings.idle_after,
            starts: is_process.then(|| Arc::clone(&self.starts)),
            older: Arc::default(),
        }
    }

    /// Returns the connector for a server without an account for each user.
    fn connector(
        &self,
        config: &ServerConfig,
        roots: &RootsPolicy,
        launches: Option<Arc<LaunchRecorder>>,
    ) -> Arc<dyn UpstreamConnector> {
        match &config.transport {
            ServerTransport::Builtin(BuiltinTransport { name, args }) => Arc::new(BuiltinConnector {
                name: name.clone(),
                args: args.iter().map(ExpandedText::reveal).map(str::to_owned).collect(),
                builtins: Arc::clone(&self.builtins),
            }),
            ServerTransport::Stdio(_) | ServerTransport::Http(_) => {
                let account = self.accounts.as_ref().and_then(|accounts| accounts.shared(config));
                client_connector(config, &self.settings, roots, account.map(|account| account as _), launches)
            }
        }
    }
}
