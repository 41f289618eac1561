//! State shared by all calls through the gateway: the servers, and the catalogue for each kind of application.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hospes::Peer;
use hospes_model::{RpcError, Tool};
use hospes_store::tasks::TaskRecords;
use parking_lot::{Mutex, RwLock};
use tokio::time::{Instant, sleep_until};

use super::host_status::HostStatus;
use super::profile_table::{GatewayScope, ProfileTable};
use super::result_checks::CatalogueToolNames;
use super::server_table::ServerTable;
use super::task_owners::TaskOwners;
use super::{listing_differences, propose_plan, sign_in_tool};
use crate::accounts::{AccountLimits, UpstreamAccounts, is_user};
use crate::catalogue::names::ServerPrefixes;
use crate::catalogue::{CatalogueSource, MergedCatalogue, accounts_resource, status_resource};
use crate::config::{HostSettings, ToolFilter};
use crate::file_problems::FileProblems;
use crate::guard::PolicyEnforcer;
use crate::metrics::HostMetrics;
use crate::sampling::Sampler;
use crate::server::{CapabilitySet, ListKinds, ServerPlaces, UpstreamEpoch, UpstreamListing};
use crate::upstream::{
    ApplicationIdentity, ReadyConnection, ServerMemory, SupervisedConnection, UpstreamEntry, UpstreamPhase,
    UpstreamState,
};

/// Maximum number of cached catalogues of applications with their own connections.
const MAX_OWN_CATALOGUES: usize = 64;

/// The servers and the views of them.
#[derive(Debug)]
pub(crate) struct GatewayState {
    pub(crate) upstreams: ServerTable,
    pub(crate) profiles: ProfileTable,
    pub(crate) settings: HostSettings,
    pub(crate) memory: Arc<ServerMemory>,
    pub(crate) epoch: Arc<UpstreamEpoch>,
    /// Servers of the configuration that are not started, with the reason.
    pub(crate) left_out: RwLock<Vec<(String, String)>>,
    /// Followed files that could not be used.
    pub(crate) file_problems: FileProblems,
    /// Policy enforcement and recording. If it is absent, everything is allowed.
    pub(crate) guard: Option<Arc<PolicyEnforcer>>,
    pub(crate) accounts: Option<UpstreamAccounts>,
    pub(crate) metrics: Arc<HostMetrics>,
    /// Answers sampling requests of servers.
    pub(crate) sampler: Option<Arc<Sampler>>,
    /// True if there are servers at which each user has an account. Each user then has views of their own.
    has_users: bool,
    views: RwLock<HashMap<CatalogueViewKey, Arc<CatalogueView>>>,
    /// Catalogues of applications with their own connections, by viewer and the ids of those connections.
    own: Mutex<HashMap<(CatalogueViewKey, Vec<u64>), BuiltCatalogue>>,
    pub(crate) task_owners: TaskOwners,
    /// Storage of task owners for later runs of the host.
    pub(crate) tasks: Option<TaskRecords>,
    /// Nodes that run servers; `None` for a host without a fleet.
    pub(crate) nodes: Option<Arc<dyn ServerPlaces>>,
    /// Names of the tools of each catalogue, for the checks of results.
    pub(crate) tool_names: CatalogueToolNames,
    started: Instant,
}

/// Key of a view: applications with the same abilities share one. The user is part of it if servers have per-user
/// accounts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CatalogueViewKey {
    user: Option<Arc<str>>,
    abilities: CapabilitySet,
    scope: GatewayScope,
}

/// Catalogue that applications with the same key see.
#[derive(Debug)]
pub(crate) struct CatalogueView {
    /// User of the view, if some server has an account for each user.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) abilities: CapabilitySet,
    pub(crate) scope: GatewayScope,
    built: Mutex<Option<BuiltCatalogue>>,
    /// Number of calls and streams of changes that use the view.
    users: AtomicUsize,
    /// Time of last use, in milliseconds since the start.
    used: AtomicU64,
}

#[derive(Debug)]
struct BuiltCatalogue {
    epoch: u64,
    /// True if the host's own tools are part of it. The policy may have changed since.
    has_own_tools: bool,
    catalogue: Arc<MergedCatalogue>,
}

impl BuiltCatalogue {
    fn new((epoch, has_own_tools): (u64, bool), catalogue: &Arc<MergedCatalogue>) -> Self {
        Self { epoch, has_own_tools, catalogue: Arc::clone(catalogue) }
    }

    fn is_of(&self, age: (u64, bool)) -> bool {
        (self.epoch, self.has_own_tools) == age
    }
}

/// Contribution of one server to a view.
enum ViewOffer {
    Live(Arc<ReadyConnection>),
    /// Nothing before the user has signed in, which this offers.
    Entrance,
    Nothing,
}

/// Keeps a view from being closed.
#[derive(Debug)]
pub(crate) struct ViewLease {
    pub(crate) view: Arc<CatalogueView>,
    pub(crate) application: ApplicationIdentity,
    shared: Arc<GatewayState>,
}

impl ViewLease {
    /// Returns true if the application sees the server at this position.
    pub(crate) fn sees(&self, server: usize) -> bool {
        self.shared.sees(self.view.scope, server)
    }

    /// Returns everything that the application currently sees.
    pub(crate) fn catalogue(&self) -> Arc<MergedCatalogue> {
        self.shared.catalogue(&self.view, &self.application)
    }

    /// Returns a newly built catalogue. A connection may offer a change shortly before the change is announced.
    pub(crate) fn rebuild_catalogue(&self, before: &MergedCatalogue) -> Arc<MergedCatalogue> {
        let own = self.shared.own_lines(&self.view, &self.application);
        self.shared.build(&self.view, &own, Some(before))
    }
}

impl Drop for ViewLease {
    fn drop(&mut self) {
        self.view.used.store(self.shared.millis(), Ordering::Relaxed);
        // Pairs with the load in `sweep`: whoever sees that nobody uses the view sees the time above, too.
        self.view.users.fetch_sub(1, Ordering::Release);
    }
}

impl GatewayState {
    pub(crate) fn new(
        upstreams: Vec<UpstreamEntry>,
        prefixes: ServerPrefixes,
        settings: HostSettings,
        memory: Arc<ServerMemory>,
        epoch: Arc<UpstreamEpoch>,
        left_out: Vec<(String, String)>,
        guard: Option<Arc<PolicyEnforcer>>,
    ) -> Self {
        let has_users = upstreams.iter().any(UpstreamEntry::is_per_user);
        Self {
            upstreams: ServerTable::new(upstreams, prefixes),
            profiles: ProfileTable::default(),
            settings,
            memory,
            epoch,
            left_out: RwLock::new(left_out),
            file_problems: FileProblems::default(),
            guard,
            accounts: None,
            metrics: Arc::default(),
            sampler: None,
            has_users,
            views: RwLock::default(),
            own: Mutex::default(),
            task_owners: TaskOwners::default(),
            tasks: None,
            nodes: None,
            tool_names: CatalogueToolNames::default(),
            started: Instant::now(),
        }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the requests that the host can answer for applications that cannot. It answers sampling if it has
    /// models, and elicitation if a person uses the console.
    pub(crate) fn own_abilities(&self) -> CapabilitySet {
        let Some(guard) = &self.guard else { return CapabilitySet::NONE };
        let mut own = CapabilitySet::NONE;
        if let Some(sampler) = self.sampler.as_ref().filter(|sampler| !sampler.is_empty()) {
            own = own.with_sampling(sampler.catalogue().takes_tools());
        }
        if guard.answers_questions() {
            own = own.with_elicitation();
        }
        own
    }

    /// Returns the tools of the host itself.
    fn own_tools(&self) -> &'static [Tool] {
        propose_plan::own_tools(self.guard.as_ref())
    }

    /// Returns what a built catalogue depends on: the epoch of the servers, and whether the host has tools of its own.
    fn age(&self) -> (u64, bool) {
        (self.epoch.now(), !self.own_tools().is_empty())
    }

    /// Announces changed lists to applications when a changed policy adds or removes the host's own tools.
    pub(crate) async fn follow_policy(self: Arc<Self>) {
        let Some(mut changes) = self.guard.as_ref().map(|guard| guard.policy_changes()) else { return };
        let mut had = !self.own_tools().is_empty();
        while changes.changed().await.is_ok() {
            let has = !self.own_tools().is_empty();
            if has != had {
                had = has;
                self.epoch.bump();
            }
        }
    }

    /// Returns the view of an application.
    pub(crate) fn view(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        scope: GatewayScope,
    ) -> Result<ViewLease, RpcError> {
        self.check_scope(scope)?;
        self.view_of(peer, CapabilitySet::of(&peer.capabilities).and(self.own_abilities()), scope)
    }

    fn view_of(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        abilities: CapabilitySet,
        scope: GatewayScope,
    ) -> Result<ViewLease, RpcError> {
        let user = peer.principal.clone().filter(|name| self.has_users && is_user(name));
        let viewer = CatalogueViewKey { user, abilities, scope };
        {
            // For reading first, since nearly every call finds its view.
            let views = self.views.read();
            if let Some(view) = views.get(&viewer) {
                // Counted under the lock: the sweep, which takes it for writing, finds either the user or no view.
                return Ok(self.used(view, peer));
            }
        }
        let mut views = self.views.write();
        let max = self.settings.max_views;
        let is_like = |other: &&CatalogueViewKey| other.user == viewer.user && other.scope == viewer.scope;
        let of_user = || views.keys().filter(is_like).count();
        // Another call may have added it between the two locks.
        if !views.contains_key(&viewer) {
            let known = of_user();
            if known >= max && abilities.has_extensions() {
                tracing::warn!(max, limit = "max_views", "application served without its extensions");
                // The lock is not reentrant, and `view_of` takes it again.
                drop(views);
                return self.view_of(peer, abilities.without_extensions(), scope);
            }
            if known >= max {
                return Err(RpcError::internal(format!(
                    "too many different capability sets at once: the limit is {max} (setting max_views)"
                )));
            }
            let max_users = self.max_users();
            let users = || views.keys().filter_map(|other| other.user.as_ref()).collect::<HashSet<_>>().len();
            // A user of one scope is no further user of another.
            let is_known = || views.keys().any(|other| other.user == viewer.user);
            if viewer.user.is_some() && !is_known() && users() >= max_users {
                return Err(RpcError::internal(format!(
                    "too many users at once: the limit is {max_users} (setting max_users of the accounts)"
                )));
            }
        }
        let view = views.entry(viewer.clone()).or_insert_with(|| {
            self.memory.learn_abilities(abilities);
            Arc::new(CatalogueView {
                user: viewer.user,
                abilities,
                scope,
                built: Mutex::new(None),
                users: AtomicUsize::new(0),
                used: AtomicU64::new(0),
            })
        });
        Ok(self.used(view, peer))
    }

    fn max_users(&self) -> usize {
        self.accounts
            .as_ref()
            .map_or_else(|| AccountLimits::default().max_users, |all| all.current_limits().max_users)
    }

    fn used(self: &Arc<Self>, view: &Arc<CatalogueView>, peer: &Arc<Peer>) -> ViewLease {
        view.users.fetch_add(1, Ordering::Acquire);
        ViewLease {
            view: Arc::clone(view),
            application: ApplicationIdentity::of(peer),
            shared: Arc::clone(self),
        }
    }

    /// Returns everything that an application currently sees. It uses the application's own connections where they
    /// exist, and the common ones otherwise.
    fn catalogue(&self, view: &CatalogueView, application: &ApplicationIdentity) -> Arc<MergedCatalogue> {
        // Before anything is read: a change during the build leaves the catalogue marked as old.
        let age = self.age();
        let own = self.own_lines(view, application);
        let ids: Vec<u64> = own.iter().flatten().map(|line| line.id).collect();
        // Before the lock of the other cache is taken, so that the two are never held together.
        let common = self.common_catalogue(view, age);
        if ids.is_empty() {
            return common;
        }
        // Held over the build, so that calls that come together do not build the same catalogue several times.
        let mut cache = self.own.lock();
        let key =
            (CatalogueViewKey { user: view.user.clone(), abilities: view.abilities, scope: view.scope }, ids);
        if let Some(built) = cache.get(&key).filter(|built| built.is_of(age)) {
            return Arc::clone(&built.catalogue);
        }
        let before = cache.remove(&key).map(|built| built.catalogue);
        let catalogue = self.build(view, &own, Some(before.as_deref().unwrap_or(&common)));
        // Those of connections that are closed are never asked for again.
        if cache.len() >= MAX_OWN_CATALOGUES {
            cache.clear();
        }
        cache.insert(key, BuiltCatalogue::new(age, &catalogue));
        catalogue
    }

    /// Returns the catalogue of a view for applications without connections of their own.
    fn common_catalogue(&self, view: &CatalogueView, age: (u64, bool)) -> Arc<MergedCatalogue> {
        // Held over the build, so that calls that come together do not build the same catalogue several times.
        let mut built = view.built.lock();
        if let Some(built) = built.as_ref().filter(|built| built.is_of(age)) {
            return Arc::clone(&built.catalogue);
        }
        let catalogue = self.build(view, &[], built.as_ref().map(|built| &*built.catalogue));
        *built = Some(BuiltCatalogue::new(age, &catalogue));
        catalogue
    }

    /// Returns an application's own connection to each server, if it has one.
    fn own_lines(
        &self,
        view: &CatalogueView,
        application: &ApplicationIdentity,
    ) -> Vec<Option<Arc<SupervisedConnection>>> {
        let own = |(server, slot): (usize, &UpstreamEntry)| {
            let upstream = self.sees(view.scope, server).then(|| slot.of(view.user.as_ref()))??;
            upstream.own(application, view.abilities)
        };
        self.upstreams.iter().map(own).collect()
    }

    fn build(
        &self,
        view: &CatalogueView,
        own: &[Option<Arc<SupervisedConnection>>],
        before: Option<&MergedCatalogue>,
    ) -> Arc<MergedCatalogue> {
        let (user, abilities) = (view.user.as_ref(), view.abilities);
        let entrance = (ToolFilter::default(), sign_in_tool::listing());
        let offers: Vec<ViewOffer> = self
            .upstreams
            .iter()
            .map(|(server, slot)| {
                if !self.sees(view.scope, server) {
                    return ViewOffer::Nothing;
                }
                // Until it is connected, one's own offers what the common one does.
                let own = own.get(server).and_then(Option::as_ref);
                if let Some(live) = own.and_then(|line| line.phase().offers().cloned()) {
                    return ViewOffer::Live(live);
                }
                let Some(upstream) = slot.of(user) else { return ViewOffer::Nothing };
                match upstream.offers(abilities) {
                    Some(live) => ViewOffer::Live(live),
                    None if slot.is_per_user() && upstream.line(abilities).phase().wants_sign_in() => {
                        ViewOffer::Entrance
                    }
                    None => ViewOffer::Nothing,
                }
            })
            .collect();
        // Of what is withheld no word of the server's is passed on.
        let shown: Vec<Option<Cow<'_, UpstreamListing>>> = self
            .upstreams
            .iter()
            .zip(&offers)
            .map(|((_, slot), offer)| match (offer, &slot.server.gate) {
                (ViewOffer::Live(live), Some(gate)) => Some(gate.filter_listing(&live.listing, &live.hashes)),
                (ViewOffer::Live(live), None) => Some(Cow::Borrowed(&live.listing)),
                _ => None,
            })
            .collect();
        let profile = self.profile(view.scope);
        let parts: Vec<CatalogueSource<'_>> = self
            .upstreams
            .iter()
            .zip(offers.iter().zip(&shown))
            .map(|((_, slot), (offer, shown))| {
                let (filter, listing) = match offer {
                    ViewOffer::Live(_) => (&slot.filter, shown.as_deref()),
                    // What to show of a server says nothing of what we show for it.
                    ViewOffer::Entrance => (&entrance.0, Some(&entrance.1)),
                    ViewOffer::Nothing => (&slot.filter, None),
                };
                let narrowed = profile.as_deref().and_then(|profile| profile.tools.get(&*slot.server.name));
                let narrowed = narrowed.filter(|_| matches!(offer, ViewOffer::Live(_)));
                CatalogueSource { server: &slot.server.name, filter, narrowed, listing }
            })
            .collect();
        let only = view.scope.server().and_then(|server| self.upstreams.get(server));
        let only = only.map(|slot| &*slot.server.name);
        let mut own = if only.is_none() { vec![status_resource()] } else { Vec::new() };
        if only.is_none() && self.accounts.is_some() && user.is_some() {
            own.push(accounts_resource());
        }
        let tools = if only.is_none() { self.own_tools() } else { &[] };
        let catalogue = Arc::new(MergedCatalogue::build(
            &self.upstreams.prefixes(),
            &parts,
            (&own, tools),
            before,
            (only, self.settings.page_size),
        ));
        let known = before.map(|before| before.collisions.as_slice()).unwrap_or_default();
        for collision in catalogue.collisions.iter().filter(|collision| !known.contains(collision)) {
            tracing::warn!("{collision}");
        }
        let tools = catalogue.tools.items().iter().map(|tool| &*tool.name);
        let prompts = catalogue.prompts.items().iter().map(|prompt| &*prompt.name);
        // The names at the servers, too, which differ where several servers are shown.
        let own_tools = tools.clone().filter_map(|name| catalogue.tools.origin(name));
        let own_prompts = prompts.clone().filter_map(|name| catalogue.prompts.origin(name));
        let own = own_tools.chain(own_prompts).map(|location| &*location.name);
        self.metrics.learn(tools.chain(prompts).chain(own));
        catalogue
    }

    /// Waits until the first start of every server has succeeded or failed, at most `limit` from its begin.
    pub(crate) async fn wait_for_first_start(
        &self,
        view: &CatalogueView,
        limit: impl Fn(&UpstreamEntry) -> Duration,
    ) {
        let mut epoch = self.epoch.subscribe();
        loop {
            // Before the phases are read: what changes meanwhile wakes the wait below.
            epoch.mark_unchanged();
            let now = Instant::now();
            let starting = |(server, slot): (usize, &UpstreamEntry)| match &*slot
                .of(view.user.as_ref())?
                .line(view.abilities)
                .phase()
            {
                phase @ UpstreamPhase::Starting { since, .. }
                    if phase.is_first_start() && self.sees(view.scope, server) =>
                {
                    Some(*since + limit(slot))
                }
                _ => None,
            };
            let lines = self.upstreams.current().filter_map(starting);
            // The latest of them: a server that settles before wakes the loop by the epoch.
            let Some(until) = lines.filter(|until| *until > now).max() else { return };
            tokio::select! {
                _ = epoch.changed() => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// Reads lists again that an application asks for again, of the servers that do not announce changes.
    pub(super) async fn freshen(&self, view: &CatalogueView, wanted: ListKinds) {
        let seen = self.upstreams.current().filter(|(server, _)| self.sees(view.scope, *server));
        let lines = seen.filter_map(|(_, slot)| Some(slot.of(view.user.as_ref())?.line(view.abilities)));
        futures::future::join_all(lines.map(|line| async move { line.freshen(wanted).await })).await;
    }

    /// Returns the status that applications see: without the profiles that only the people of some groups may use, unless
    /// it is the status of one.
    pub(crate) fn shown_status(&self, scope: GatewayScope) -> HostStatus {
        self.status_without(scope, |profile| scope == GatewayScope::Everything && self.is_limited(profile))
    }

    /// Returns the status of the host and its servers, or of what a profile shows.
    pub(crate) fn status(&self, scope: GatewayScope) -> HostStatus {
        self.status_without(scope, |_| false)
    }

    fn status_without(&self, scope: GatewayScope, is_hidden: impl Fn(&str) -> bool) -> HostStatus {
        let profile = self.profile(scope);
        let is_shown = |server: usize| match scope {
            // Also those of profiles: this is the status of the whole host.
            GatewayScope::Everything => {
                !self.upstreams[server].server.profile.as_deref().is_some_and(&is_hidden)
            }
            _ => self.sees(scope, server),
        };
        // Read once, since servers may be added and removed meanwhile.
        let servers: Vec<(usize, &UpstreamEntry)> =
            self.upstreams.current().filter(|(server, _)| is_shown(*server)).collect();
        let mut status = HostStatus::new(servers.iter().map(|(_, slot)| slot.status()).collect());
        status.uptime_ms = self.millis();
        let left_out = self.left_out.read();
        let is_named = |name: &str| profile.as_ref().is_none_or(|profile| profile.includes(name));
        status.left_out.extend(left_out.iter().filter(|(name, _)| is_named(name)).cloned());
        drop(left_out);
        if profile.is_none() {
            // Paths and mistakes of files are of no use to the applications of one profile.
            status.file_problems = self.file_problems.current();
            status.node = self.nodes.as_ref().and_then(|nodes| nodes.status());
        }
        status.profiles = self.profile_statuses(scope);
        status.profiles.retain(|profile| !is_hidden(&profile.name));
        status.record_problem = self.guard.as_ref().and_then(|guard| guard.record_problem());
        let policy = self.guard.as_ref().and_then(|guard| guard.policy());
        status.without_policy = policy.is_none();
        status.preset = policy.and_then(|policy| policy.preset());
        // Copied, so that building the catalogues keeps no new application from its view.
        let views: Vec<Arc<CatalogueView>> = {
            let views = self.views.read();
            let is_shown = |view: &&Arc<CatalogueView>| profile.is_none() || view.scope == scope;
            views.values().filter(is_shown).cloned().collect()
        };
        for view in &views {
            let catalogue = self.common_catalogue(view, self.age());
            status.collisions.extend_from_slice(&catalogue.collisions);
            for ((position, slot), server) in servers.iter().zip(&mut status.servers) {
                if !self.sees(view.scope, *position) {
                    continue;
                }
                let narrowed = self.profile(view.scope);
                let narrowed = narrowed.as_ref().and_then(|profile| profile.tools.get(&*slot.server.name));
                let found = listing_differences::differences((slot, narrowed), *position, view, &catalogue);
                server.warnings.extend(found.filter(|_| server.state == UpstreamState::Ready));
            }
        }
        for server in &mut status.servers {
            // Several views may find the same differences.
            let mut known = HashSet::new();
            server.warnings.retain(|warning| known.insert(warning.clone()));
        }
        status.collisions.sort();
        status.collisions.dedup();
        status
    }

    /// Closes the connections of views that have been idle for `idle_after`. Runs until the future is dropped.
    pub(crate) async fn close_idle_connections(self: Arc<Self>) {
        let idle = self.settings.idle_after;
        loop {
            // Four looks in the period, so that connections stay at most a quarter longer than it.
            tokio::time::sleep(idle / 4).await;
            let now = self.millis();
            let idle = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
            let is_idle = |view: &CatalogueView| {
                view.users.load(Ordering::Acquire) == 0
                    && now.saturating_sub(view.used.load(Ordering::Relaxed)) >= idle
            };
            let (mut over, mut gone) = (Vec::new(), Vec::new());
            {
                // Connections go with their view, under one lock: whoever comes now finds neither, and opens new ones.
                let mut views = self.views.write();
                views.retain(|_, view| !is_idle(view));
                for (_, slot) in self.upstreams.current() {
                    let is_wanted =
                        |user: &Arc<str>| views.keys().any(|viewer| viewer.user.as_ref() == Some(user));
                    gone.extend(slot.release_users(&is_wanted));
                    for upstream in slot.all() {
                        let is_wanted = |abilities| views.keys().any(|viewer| viewer.abilities == abilities);
                        over.extend(upstream.release(&is_wanted));
                    }
                }
            }
            let all = self.upstreams.current().flat_map(|(_, slot)| slot.all());
            over.extend(all.flat_map(|upstream| upstream.sweep(self.settings.idle_after)));
            if !over.is_empty() {
                tracing::debug!(connections = over.len(), "closing idle connections");
            }
            // All at once, since each may take up to the limit for closing.
            let lines = futures::future::join_all(over.iter().map(|line| line.stop()));
            let users = futures::future::join_all(gone.iter().map(|upstream| upstream.stop()));
            futures::future::join(lines, users).await;
        }
    }
}
