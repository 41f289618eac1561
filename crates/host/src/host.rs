//! The host, which runs the servers of a configuration.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hospes::BoxService;
use hospes::transport::StateKeyRing;
use hospes_store::tasks::TaskRecords;
use hospes_store::{StateStore as Kept, StoreError};
use hospes_telemetry::SpanTracer;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::accounts::UpstreamAccounts;
use crate::catalogue::names::{PrefixCollision, ServerPrefixes};
use crate::config::{HostConfig, HostSettings, ProfileConfig, ServerConfig};
use crate::file_problems::FileProblems;
use crate::gateway::{Gateway, GatewayScope, GatewayState, HostServers, HostStatus, UnknownServerError};
use crate::guard::PolicyEnforcer;
use crate::metrics::HostMetrics;
use crate::pins::{PinManager, PinningConfig, format_error_chain};
use crate::sampling::Sampler;
use crate::server::{ServerPlaces, UpstreamConnector};
use crate::upstream::{ServerMemory, UpstreamEntry, UpstreamState, UpstreamStatus};

mod builtin;
mod host_gateways;
mod launch;
mod pinned;
mod server_changes;

pub use builtin::known_labels;
pub use host_gateways::HostGateways;
use launch::ServerLauncher;
use pinned::HostPins;
use server_changes::ConfiguredServers;
pub use server_changes::ServerChanges;

/// Minimum lifetime of sealed request state.
const MIN_REQUEST_STATE_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// Time that an application may take to return after the person's decision, in addition to the time to decide.
const ROUND_TRIP_ALLOWANCE: Duration = Duration::from_secs(60);

/// Configuration of the sealed request state of an endpoint.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestStateConfig {
    /// With which keys: the same after a restart.
    keys: StateKeyRing,
    /// Lifetime of the state: one hour, or longer if a person has longer to decide.
    pub lifetime: Duration,
}

impl RequestStateConfig {
    /// Returns the keys for an endpoint of this gateway. State that the endpoint of one profile or server has sealed is
    /// refused by the others, because the same call may use another account there.
    #[must_use]
    pub fn keys_for(&self, gateway: &Gateway) -> StateKeyRing {
        self.keys.clone().for_audience(&gateway.state_audience())
    }

    /// Returns the keys for the streams of other nodes to a server that this node runs for them.
    #[must_use]
    pub fn keys_for_server(&self, server: &str) -> StateKeyRing {
        self.keys.clone().for_audience(&format!("placed server {server}"))
    }
}

/// Finds a server that is part of the program, by its name and arguments.
pub type BuiltinFactory = Arc<dyn Fn(&str, &[String]) -> Result<BoxService, BuiltinError> + Send + Sync>;

/// Error of creating a built-in server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
#[non_exhaustive]
pub struct BuiltinError(pub String);

impl BuiltinError {
    /// Creates an error with this message.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Error of starting the host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostStartError {
    /// Two servers would be shown under one name.
    #[error(transparent)]
    Names(#[from] PrefixCollision),
    /// A profile has the path of a server's own endpoint.
    #[error(
        "{at}: the profile `{profile}` and the server `{server}` would have the same endpoint; rename the profile"
    )]
    ProfileName {
        /// Location of the profile.
        at: String,
        /// Name of the profile.
        profile: String,
        /// Name of the server.
        server: String,
    },
}

/// Factory of connectors, which open the connections to a server according to its configuration.
type ConnectorFactory = Box<dyn Fn(&ServerConfig, &HostSettings) -> Arc<dyn UpstreamConnector> + Send + Sync>;

/// Builder of a [`Host`].
pub struct HostBuilder {
    config: HostConfig,
    settings: HostSettings,
    memory: Arc<ServerMemory>,
    builtins: BuiltinFactory,
    connectors: Option<ConnectorFactory>,
    guard: Option<Arc<PolicyEnforcer>>,
    accounts: Option<UpstreamAccounts>,
    pinning: Option<PinningConfig>,
    sampler: Option<Arc<Sampler>>,
    tasks: Option<TaskRecords>,
    file_problems: FileProblems,
    metrics: Arc<HostMetrics>,
    places: Option<Arc<dyn ServerPlaces>>,
}

impl HostBuilder {
    /// Sets the host's settings.
    #[must_use]
    pub fn settings(mut self, settings: HostSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Remembers from run to run in this file.
    #[must_use]
    pub fn memory(mut self, file: impl Into<PathBuf>) -> Self {
        self.memory = Arc::new(ServerMemory::at(file));
        self
    }

    /// Exports spans.
    #[must_use]
    pub fn tracer(self, tracer: SpanTracer) -> Self {
        self.metrics.set_tracer(tracer);
        self
    }

    /// Sets the factory of built-in servers.
    #[must_use]
    pub fn builtins(mut self, builtins: BuiltinFactory) -> Self {
        self.builtins = builtins;
        self
    }

    /// Sets the accounts at servers over HTTP. Without them requests are sent without sign-in, and servers with an
    /// account for each user cannot be used.
    #[must_use]
    pub fn accounts(mut self, accounts: UpstreamAccounts) -> Self {
        self.accounts = Some(accounts);
        self
    }

    /// Sets a factory of connectors, which replaces the connections by configuration.
    #[must_use]
    pub fn connectors(
        mut self,
        connectors: impl Fn(&ServerConfig, &HostSettings) -> Arc<dyn UpstreamConnector> + Send + Sync + 'static,
    ) -> Self {
        self.connectors = Some(Box::new(connectors));
        self
    }

    /// Sets the policy enforcement, which also records calls. Without one, everything is allowed and nothing is
    /// recorded.
    #[must_use]
    pub fn guard(mut self, guard: Arc<PolicyEnforcer>) -> Self {
        self.guard = Some(guard);
        self
    }

    /// Uses servers as they were accepted, and not otherwise. Without this nothing is pinned.
    #[must_use]
    pub fn pins(mut self, pinning: PinningConfig) -> Self {
        self.pinning = Some(pinning);
        self
    }

    /// Sets the sampler, which answers servers' sampling requests if the application does not. A person reviews both
    /// the request and the result, unless the rules say otherwise. If the console is unattended, nothing is sent.
    #[must_use]
    pub fn sampler(mut self, sampler: Arc<Sampler>) -> Self {
        self.sampler = Some(sampler);
        self
    }

    /// Stores the owners of tasks and the calls that started them in this state, without arguments. Without it tasks
    /// that outlive the host lose their owner; if there are rules, they can no longer be read.
    #[must_use]
    pub fn store_tasks_in(mut self, state: &Kept) -> Self {
        self.tasks = Some(state.tasks());
        self
    }

    /// Shows problems of files in the status of the host.
    #[must_use]
    pub fn file_problems(mut self, problems: FileProblems) -> Self {
        self.file_problems = problems;
        self
    }

    /// Sets the nodes that run servers with placement `one`. Without it, this host runs them all.
    #[must_use]
    pub fn places(mut self, places: Arc<dyn ServerPlaces>) -> Self {
        self.places = Some(places);
        self
    }

    /// Starts all servers, and waits for none.
    ///
    /// # Errors
    /// When two servers would be shown under one name.
    pub fn start(mut self) -> Result<Host, HostStartError> {
        if let Some(wait) = self.config.start_wait {
            (self.settings.start_wait, self.settings.first_start_wait) = (wait, wait);
        }
        let (wanted, left_out) = split_servers(&mut self.config);
        let profiles = std::mem::take(&mut self.config.profiles);
        // Before anything starts: two names that look alike keep the whole host from starting.
        let prefixes = ServerPrefixes::assign(wanted.iter().map(|server| server.name.as_str()))?;
        check_profile_names(&profiles, &prefixes)?;
        let epoch = Arc::clone(&self.file_problems.epoch);
        let audit = self.guard.as_ref().and_then(|guard| guard.audit());
        let pins = self.pinning.take().and_then(|pinning| HostPins::new(pinning, &wanted, audit, &epoch));
        let Self {
            settings,
            memory,
            guard,
            accounts,
            sampler,
            tasks,
            metrics,
            builtins,
            connectors,
            places,
            ..
        } = self;
        let nodes = places.clone();
        let launcher = ServerLauncher {
            memory: Arc::clone(&memory),
            epoch: Arc::clone(&epoch),
            builtins,
            connectors,
            guard: guard.clone(),
            accounts: accounts.clone(),
            metrics: Arc::clone(&metrics),
            places,
            // With no permits no process would ever start.
            starts: Arc::new(Semaphore::new(settings.max_starting.max(1))),
            settings: settings.clone(),
        };
        let mut members = HashMap::new();
        let mut upstreams = Vec::with_capacity(wanted.len());
        for config in &wanted {
            // Servers of one name share what is accepted of it, also those that run for profiles.
            let member = members
                .entry(config.name.clone())
                .or_insert_with(|| pins.as_ref().and_then(|pins| pins.member(config)));
            upstreams.push(launcher.launch(config.clone(), member.as_ref()));
        }
        if let Some(pins) = &pins {
            pins.set(&wanted, members);
        }
        let mut shared = GatewayState::new(upstreams, prefixes, settings, memory, epoch, left_out, guard);
        (shared.accounts, shared.file_problems) = (accounts, self.file_problems);
        if let Some(guard) = &shared.guard {
            guard.set_metrics(&metrics);
        }
        shared.metrics = metrics;
        shared.profiles.set(&profiles);
        // Reviews of sampling requests need an approval queue.
        if sampler.is_some() && shared.guard.is_none() {
            shared.guard = Some(Arc::new(PolicyEnforcer::new(None)));
        }
        (shared.sampler, shared.tasks, shared.nodes) = (sampler, tasks, nodes);
        let shared = Arc::new(shared);
        let mut tasks = vec![
            tokio::spawn(Arc::clone(&shared).close_idle_connections()),
            tokio::spawn(Arc::clone(&shared).follow_policy()),
        ];
        let manager = pins.as_ref().map(|pins| {
            tasks.push(pins.watch());
            pins.manager()
        });
        let configured = ConfiguredServers::new(launcher, pins, &wanted, &profiles);
        let configured = tokio::sync::Mutex::new(configured);
        Ok(Host { shared, pins: manager, tasks, configured })
    }
}

/// Takes the servers out of a configuration: those to start, and the names and reasons of the others.
fn split_servers(config: &mut HostConfig) -> (Vec<ServerConfig>, Vec<(String, String)>) {
    let (mut wanted, disabled): (Vec<_>, Vec<_>) =
        std::mem::take(&mut config.servers).into_iter().partition(|server| !server.disabled);
    let mut left_out: Vec<(String, String)> =
        disabled.into_iter().map(|server| (server.name, "disabled".to_owned())).collect();
    let rejected = std::mem::take(&mut config.rejected).into_iter();
    left_out.extend(rejected.map(|rejected| (rejected.name, format_error_chain(&rejected.errors))));
    wanted.append(&mut config.profile_servers);
    (wanted, left_out)
}

/// Returns an error if a profile has the path of a server's own endpoint.
fn check_profile_names(profiles: &[ProfileConfig], prefixes: &ServerPrefixes) -> Result<(), HostStartError> {
    match profiles.iter().find_map(|profile| Some((profile, prefixes.server(&profile.name)?))) {
        Some((profile, server)) => Err(HostStartError::ProfileName {
            at: profile.source.to_string(),
            profile: profile.name.clone(),
            server: server.to_owned(),
        }),
        None => Ok(()),
    }
}

impl std::fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostBuilder")
            .field("config", &self.config)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A running host. When it and its gateways are dropped, all connections are closed in the background; [`Host::stop`]
/// waits for it.
#[derive(Debug)]
pub struct Host {
    shared: Arc<GatewayState>,
    pins: Option<PinManager>,
    tasks: Vec<JoinHandle<()>>,
    configured: tokio::sync::Mutex<ConfiguredServers>,
}

impl Host {
    /// Creates a builder for the servers of a configuration.
    #[must_use]
    pub fn builder(config: HostConfig) -> HostBuilder {
        HostBuilder {
            config,
            settings: HostSettings::default(),
            memory: Arc::new(ServerMemory::forgetful()),
            builtins: Arc::new(|name, _| {
                Err(BuiltinError::new(format!("there is no built-in server `{name}`")))
            }),
            connectors: None,
            guard: None,
            accounts: None,
            pinning: None,
            sampler: None,
            tasks: None,
            file_problems: FileProblems::default(),
            metrics: Arc::default(),
            places: None,
        }
    }

    /// Returns the gateway: all servers as one service.
    #[must_use]
    pub fn gateway(&self) -> Gateway {
        Gateway::new(Arc::clone(&self.shared), GatewayScope::Everything)
    }

    /// Returns a gateway for one server with its own names and URIs, under the same rules. `None` if there is no such
    /// server, or each user has an account of their own there.
    #[must_use]
    pub fn gateway_of(&self, server: &str) -> Option<Gateway> {
        let position = self.shared.upstreams.position(server)?;
        let slot = self.shared.upstreams.get(position).filter(|slot| !slot.is_per_user())?;
        tracing::debug!(server = %slot.server.name, "separate endpoint created");
        Some(Gateway::new(Arc::clone(&self.shared), GatewayScope::Server(position)))
    }

    /// Returns a gateway for the servers and tools of a profile, under the same rules. It follows changes of the
    /// profile; once the profile is removed, all its calls fail. `None` if there is no such profile.
    #[must_use]
    pub fn gateway_of_profile(&self, profile: &str) -> Option<Gateway> {
        self.gateways().profile(profile)
    }

    /// Returns the configured profiles, in alphabetical order.
    #[must_use]
    pub fn profiles(&self) -> Vec<Arc<ProfileConfig>> {
        self.servers().profiles()
    }

    /// Returns a handle that creates gateways, for programs that attach to the host.
    #[must_use]
    pub fn gateways(&self) -> HostGateways {
        HostGateways(Arc::clone(&self.shared))
    }

    /// Returns the servers with an endpoint of their own, each with the last segment of its path. The segment is also
    /// the label of its tools on the shared endpoint.
    #[must_use]
    pub fn labels(&self) -> Vec<(String, String)> {
        let has_endpoint = |slot: &UpstreamEntry| !slot.is_per_user() && slot.server.profile.is_none();
        let slots = self.shared.upstreams.current().filter(|(_, slot)| has_endpoint(slot));
        let prefixes = self.shared.upstreams.prefixes();
        let label =
            |slot: &UpstreamEntry| prefixes.of(&slot.server.name).map(|label| label.as_str().to_owned());
        slots.filter_map(|(_, slot)| Some((slot.server.name.to_string(), label(slot)?))).collect()
    }

    /// Returns the guard, which enforces and records policy decisions, if there is one.
    #[must_use]
    pub fn guard(&self) -> Option<&Arc<PolicyEnforcer>> {
        self.shared.guard.as_ref()
    }

    /// Returns the configuration with which an endpoint seals request state. An application that returns after a
    /// restart is then recognized and gets the decision made in the meantime. `None` without a store.
    ///
    /// # Errors
    /// If the key in the state cannot be read.
    pub fn request_state(&self) -> Result<Option<RequestStateConfig>, StoreError> {
        let Some(guard) = self.guard() else { return Ok(None) };
        let Some(keys) = guard.approvals().request_keys()? else { return Ok(None) };
        // After a decision at the last moment, the application has the same time again to return.
        let lifetime = guard
            .approval_timeout()
            .saturating_mul(2)
            .saturating_add(ROUND_TRIP_ALLOWANCE)
            .max(MIN_REQUEST_STATE_LIFETIME);
        Ok(Some(RequestStateConfig { keys, lifetime }))
    }

    /// Returns the pins: the accepted definitions and those that wait for a person. `None` if pinning is off.
    #[must_use]
    pub fn pins(&self) -> Option<&PinManager> {
        self.pins.as_ref()
    }

    /// Returns the sampler, which answers servers' sampling requests, if there is one.
    #[must_use]
    pub fn sampler(&self) -> Option<&Arc<Sampler>> {
        self.shared.sampler.as_ref()
    }

    /// Returns the problems of files that the status shows.
    #[must_use]
    pub fn file_problems(&self) -> &FileProblems {
        &self.shared.file_problems
    }

    /// Returns the status of the servers.
    #[must_use]
    pub fn status(&self) -> HostStatus {
        self.shared.status(GatewayScope::Everything)
    }

    /// Returns a handle of the servers, for example for the console.
    #[must_use]
    pub fn servers(&self) -> HostServers {
        HostServers::new(Arc::clone(&self.shared))
    }

    /// Restarts a server immediately, as [`HostServers::restart`].
    ///
    /// # Errors
    /// If there is no server with that name.
    pub fn restart(&self, server: &str) -> Result<(), UnknownServerError> {
        self.servers().restart(server)
    }

    /// Waits until every server that the host is not to start without is ready.
    ///
    /// # Errors
    /// When the first try of one of them fails: how it is.
    pub async fn wait_required(&self) -> Result<(), Box<UpstreamStatus>> {
        let mut epoch = self.shared.epoch.subscribe();
        loop {
            epoch.mark_unchanged();
            let required = self.shared.upstreams.current().filter(|(_, upstream)| upstream.is_required);
            let states: Vec<UpstreamStatus> = required.map(|(_, upstream)| upstream.status()).collect();
            if states.iter().all(|status| status.state == UpstreamState::Ready) {
                return Ok(());
            }
            if let Some(failed) = states.into_iter().find(|status| status.problem.is_some()) {
                return Err(Box::new(failed));
            }
            // The sender is the host's own.
            let _ = epoch.changed().await;
        }
    }

    /// Waits until the servers may have changed since `seen` was returned. Returns the value for the next call.
    pub async fn changed(&self, seen: u64) -> u64 {
        self.servers().changed(seen).await
    }

    /// Closes all connections and waits until no child is left.
    pub async fn stop(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        let all: Vec<_> = self.shared.upstreams.current().flat_map(|(_, entry)| entry.all()).collect();
        let stopped = futures::future::join_all(all.iter().map(|upstream| upstream.stop()));
        futures::future::join(stopped, self.wait_for_removed()).await;
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The sweep holds the shared state: if it went on, nothing would ever be closed.
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use hospes_model::Revision;

    use super::*;
    use crate::server::{ConnectOptions, ConnectorFuture, UpstreamConnectError, UpstreamConnection};

    /// Connector that reports when its connection is closed.
    struct Telling(tokio::sync::mpsc::UnboundedSender<&'static str>);

    impl UpstreamConnector for Telling {
        fn connect(
            &self,
            _: ConnectOptions,
        ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>> {
            let tell = self.0.clone();
            Box::pin(async move {
                let service = BoxService::new(hospes::Server::new("silent", "1"));
                let mut connection = UpstreamConnection::new(service, Revision::LATEST);
                let _ = tell.send("open");
                connection.close = Box::new(move || {
                    let _ = tell.send("closed");
                    Box::pin(async {})
                });
                Ok(connection)
            })
        }
    }

    #[tokio::test]
    async fn a_host_that_is_dropped_leaves_no_connection() {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let text = r#"{ "mcpServers": { "a": { "command": "x" } } }"#;
        let config = crate::config::ConfigLoader::new().parse("mcp.json", text).unwrap();
        let telling = Arc::new(Telling(tell));
        let host = Host::builder(config).connectors(move |_, _| Arc::clone(&telling) as _).start().unwrap();
        assert_eq!(told.recv().await, Some("open"));
        let gateway = host.gateway();
        drop(host);
        drop(gateway);
        let closed = tokio::time::timeout(Duration::from_secs(10), told.recv()).await;
        assert_eq!(closed.expect("the connection is left open"), Some("closed"));
    }
}
