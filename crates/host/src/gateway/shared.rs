//! What all calls through the gateway share: the servers, and what each kind of application sees of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use hospes_model::RpcError;
use tokio::time::{Instant, sleep_until};

use crate::catalogue::names::Prefixes;
use crate::catalogue::{Catalogue, Part};
use crate::settings::Settings;
use crate::status::Status;
use crate::upstream::{Abilities, Epoch, Line, Live, Memory, Phase, Upstream};

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
    views: RwLock<HashMap<Abilities, Arc<View>>>,
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
    shared: Arc<Shared>,
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
    ) -> Self {
        Self {
            upstreams,
            prefixes,
            settings,
            memory,
            epoch,
            left_out,
            views: RwLock::default(),
            started: Instant::now(),
        }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The view of applications with these abilities.
    pub(crate) fn view(self: &Arc<Self>, abilities: Abilities) -> Result<InUse, RpcError> {
        {
            let views = self.views.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(view) = views.get(&abilities) {
                return Ok(self.used(view));
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
        Ok(self.used(view))
    }

    fn used(self: &Arc<Self>, view: &Arc<View>) -> InUse {
        view.users.fetch_add(1, Ordering::Acquire);
        InUse { view: Arc::clone(view), shared: Arc::clone(self) }
    }

    /// Everything that a view shows, as it is now.
    pub(crate) fn catalogue(&self, view: &View) -> Arc<Catalogue> {
        let epoch = self.epoch.now();
        let mut built = view.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = built.as_ref().filter(|built| built.epoch == epoch) {
            return Arc::clone(&built.catalogue);
        }
        let lives: Vec<Option<Arc<Live>>> = self
            .upstreams
            .iter()
            .map(|upstream| upstream.line(view.abilities).phase().offers().cloned())
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
        let before = built.as_ref().map(|built| &*built.catalogue);
        let catalogue = Arc::new(Catalogue::build(&self.prefixes, &parts, before, self.settings.page_size));
        let known = before.map(|before| before.collisions.as_slice()).unwrap_or_default();
        for collision in catalogue.collisions.iter().filter(|collision| !known.contains(collision)) {
            tracing::warn!("{collision}");
        }
        *built = Some(Built { epoch, catalogue: Arc::clone(&catalogue) });
        catalogue
    }

    /// Waits until it is known of every server how its first start went, but no longer than `limit` after it began.
    pub(crate) async fn settle(&self, abilities: Abilities, limit: Duration) {
        let mut epoch = self.epoch.subscribe();
        loop {
            epoch.mark_unchanged();
            let now = Instant::now();
            let starting = |line: &Line| match &*line.phase() {
                phase @ Phase::Starting { since, .. } if phase.is_first_start() => Some(*since + limit),
                _ => None,
            };
            let lines = self.upstreams.iter().filter_map(|upstream| starting(&upstream.line(abilities)));
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
            let gone: Vec<Abilities> = {
                let mut views = self.views.write().unwrap_or_else(PoisonError::into_inner);
                let gone = views.values().filter(|view| is_idle(view)).map(|view| view.abilities).collect();
                views.retain(|_, view| !is_idle(view));
                gone
            };
            for abilities in gone {
                tracing::debug!(%abilities, "nobody uses these connections any more");
                let releases = self.upstreams.iter().map(|upstream| upstream.release(abilities));
                futures::future::join_all(releases).await;
            }
        }
    }
}
