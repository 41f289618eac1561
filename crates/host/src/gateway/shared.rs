//! What all calls through the gateway share: the servers, and what each kind of application sees of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use hospes::Peer;
use hospes_model::RpcError;
use tokio::time::{Instant, sleep_until};

use super::tasks::Owners;
use crate::catalogue::names::Prefixes;
use crate::catalogue::{Catalogue, Part};
use crate::guard::Guard;
use crate::settings::Settings;
use crate::status::Status;
use crate::upstream::{Abilities, Application, Epoch, Line, Live, Memory, Phase, Upstream};

/// How many catalogues of applications with connections of their own are remembered.
const MAX_OWN_CATALOGUES: usize = 64;

/// The servers and the views of them.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) prefixes: Prefixes,
    pub(crate) settings: Settings,
    pub(crate) memory: Arc<Memory>,
    pub(crate) epoch: Arc<Epoch>,
    /// Servers of the configuration that are not started, with the reason.
    pub(crate) left_out: Vec<(String, String)>,
    /// Who decides and records; without one everything is allowed.
    pub(crate) guard: Option<Arc<Guard>>,
    views: RwLock<HashMap<Abilities, Arc<View>>>,
    /// What applications see that have connections of their own, by the numbers of these.
    own: Mutex<HashMap<Vec<u64>, Built>>,
    pub(crate) task_owners: Owners,
    started: Instant,
}

/// What applications with the same abilities see.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) abilities: Abilities,
    built: Mutex<Option<Built>>,
    /// How many calls and streams of changes use it.
    users: AtomicUsize,
    /// When it was last used, in milliseconds since the start.
    used: AtomicU64,
}

#[derive(Debug)]
struct Built {
    epoch: u64,
    catalogue: Arc<Catalogue>,
}

/// Keeps a view from being closed.
#[derive(Debug)]
pub(crate) struct InUse {
    pub(crate) view: Arc<View>,
    pub(crate) application: Application,
    shared: Arc<Shared>,
}

impl InUse {
    /// Everything that the application sees, as it is now.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        self.shared.catalogue(&self.view, &self.application)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.view.used.store(self.shared.millis(), Ordering::Relaxed);
        self.view.users.fetch_sub(1, Ordering::Release);
    }
}

impl Shared {
    pub(crate) fn new(
        upstreams: Vec<Upstream>,
        prefixes: Prefixes,
        settings: Settings,
        memory: Arc<Memory>,
        epoch: Arc<Epoch>,
        left_out: Vec<(String, String)>,
        guard: Option<Arc<Guard>>,
    ) -> Self {
        Self {
            upstreams,
            prefixes,
            settings,
            memory,
            epoch,
            left_out,
            guard,
            views: RwLock::default(),
            own: Mutex::default(),
            task_owners: Owners::default(),
            started: Instant::now(),
        }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The view of an application.
    pub(crate) fn view(self: &Arc<Self>, peer: &Arc<Peer>) -> Result<InUse, RpcError> {
        let abilities = Abilities::of(&peer.capabilities);
        {
            let views = self.views.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(view) = views.get(&abilities) {
                return Ok(self.used(view, peer));
            }
        }
        let mut views = self.views.write().unwrap_or_else(PoisonError::into_inner);
        let max = self.settings.max_views;
        if !views.contains_key(&abilities) && views.len() >= max {
            return Err(RpcError::internal(format!(
                "applications with more than {max} different sets of capabilities at once (setting max_views)"
            )));
        }
        let view = views.entry(abilities).or_insert_with(|| {
            self.memory.learn_abilities(abilities);
            Arc::new(View {
                abilities,
                built: Mutex::new(None),
                users: AtomicUsize::new(0),
                used: AtomicU64::new(0),
            })
        });
        Ok(self.used(view, peer))
    }

    fn used(self: &Arc<Self>, view: &Arc<View>, peer: &Arc<Peer>) -> InUse {
        view.users.fetch_add(1, Ordering::Acquire);
        InUse { view: Arc::clone(view), application: Application::of(peer), shared: Arc::clone(self) }
    }

    /// Everything that an application sees, as it is now: what its own connections offer where it has such, else what
    /// the common ones do.
    fn catalogue(&self, view: &View, application: &Application) -> Arc<Catalogue> {
        let epoch = self.epoch.now();
        let own: Vec<Option<Arc<Line>>> =
            self.upstreams.iter().map(|upstream| upstream.own(application, view.abilities)).collect();
        let ids: Vec<u64> = own.iter().flatten().map(|line| line.id).collect();
        let mut built = view.built.lock().unwrap_or_else(PoisonError::into_inner);
        if built.as_ref().is_none_or(|built| built.epoch != epoch) {
            let before = built.as_ref().map(|built| &*built.catalogue);
            let catalogue = self.build(view.abilities, &[], before);
            *built = Some(Built { epoch, catalogue });
        }
        let Some(common) = built.as_ref().map(|built| Arc::clone(&built.catalogue)) else {
            return self.build(view.abilities, &own, None);
        };
        drop(built);
        if ids.is_empty() {
            return common;
        }
        let mut cache = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = cache.get(&ids).filter(|built| built.epoch == epoch) {
            return Arc::clone(&built.catalogue);
        }
        let before = cache.remove(&ids).map(|built| built.catalogue);
        let catalogue = self.build(view.abilities, &own, Some(before.as_deref().unwrap_or(&common)));
        // Those of connections that are closed are never asked for again.
        if cache.len() >= MAX_OWN_CATALOGUES {
            cache.clear();
        }
        cache.insert(ids, Built { epoch, catalogue: Arc::clone(&catalogue) });
        catalogue
    }

    fn build(
        &self,
        abilities: Abilities,
        own: &[Option<Arc<Line>>],
        before: Option<&Catalogue>,
    ) -> Arc<Catalogue> {
        let lives: Vec<Option<Arc<Live>>> = self
            .upstreams
            .iter()
            .enumerate()
            .map(|(server, upstream)| {
                // Until it is connected, one's own offers what the common one does.
                let own = own.get(server).and_then(Option::as_ref);
                let own = own.and_then(|line| line.phase().offers().cloned());
                own.or_else(|| upstream.line(abilities).phase().offers().cloned())
            })
            .collect();
        let parts: Vec<Part<'_>> = self
            .upstreams
            .iter()
            .zip(&lives)
            .map(|(upstream, live)| Part {
                server: &upstream.server.name,
                filter: &upstream.filter,
                listing: live.as_ref().map(|live| &live.listing),
            })
            .collect();
        let catalogue = Arc::new(Catalogue::build(&self.prefixes, &parts, before, self.settings.page_size));
        let known = before.map(|before| before.collisions.as_slice()).unwrap_or_default();
        for collision in catalogue.collisions.iter().filter(|collision| !known.contains(collision)) {
            tracing::warn!("{collision}");
        }
        catalogue
    }

    /// Waits until it is known of every server how its first start went, but no longer than `limit` says after it began.
    pub(crate) async fn settle(&self, abilities: Abilities, limit: impl Fn(&Upstream) -> Duration) {
        let mut epoch = self.epoch.subscribe();
        loop {
            epoch.mark_unchanged();
            let now = Instant::now();
            let starting = |upstream: &Upstream| match &*upstream.line(abilities).phase() {
                phase @ Phase::Starting { since, .. } if phase.is_first_start() => {
                    Some(*since + limit(upstream))
                }
                _ => None,
            };
            let lines = self.upstreams.iter().filter_map(starting);
            let Some(until) = lines.filter(|until| *until > now).max() else { return };
            tokio::select! {
                _ = epoch.changed() => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// How everything is.
    pub(crate) fn status(&self) -> Status {
        let mut status = Status::new(self.upstreams.iter().map(Upstream::status).collect());
        status.uptime_ms = self.millis();
        status.left_out.extend(self.left_out.iter().cloned());
        let views = self.views.read().unwrap_or_else(PoisonError::into_inner);
        for view in views.values() {
            let built = view.built.lock().unwrap_or_else(PoisonError::into_inner);
            status.collisions.extend(built.iter().flat_map(|built| built.catalogue.collisions.clone()));
        }
        status.collisions.sort();
        status.collisions.dedup();
        status
    }

    /// Closes the connections of views that nobody has used for a while; runs for good.
    pub(crate) async fn sweep(self: Arc<Self>) {
        let idle = self.settings.idle_after;
        loop {
            tokio::time::sleep(idle / 4).await;
            let now = self.millis();
            let idle = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
            let is_idle = |view: &View| {
                view.users.load(Ordering::Acquire) == 0
                    && now.saturating_sub(view.used.load(Ordering::Relaxed)) >= idle
            };
            let mut over = Vec::new();
            {
                // Connections go with their view, under one lock: whoever comes now finds neither, and opens new ones.
                let mut views = self.views.write().unwrap_or_else(PoisonError::into_inner);
                views.retain(|_, view| !is_idle(view));
                let is_wanted = |abilities| views.contains_key(&abilities);
                over.extend(self.upstreams.iter().flat_map(|upstream| upstream.release(&is_wanted)));
            }
            over.extend(self.upstreams.iter().flat_map(|upstream| upstream.sweep(self.settings.idle_after)));
            if !over.is_empty() {
                tracing::debug!(connections = over.len(), "nobody uses these connections any more");
            }
            futures::future::join_all(over.iter().map(|line| line.stop())).await;
        }
    }
}
