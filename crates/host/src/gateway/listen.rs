//! One stream of changes for an application, fed by all servers.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use hospes::{Call, Context, Event, Outcome};
use hospes_model::{
    LogMessageParams, Notification, ResourceUpdatedParams, RpcError, SubscriptionFilter,
    SubscriptionsAcknowledgedParams, SubscriptionsListenParams, TASKS_EXTENSION,
};
use tokio::sync::Notify;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{sleep, timeout};

use super::{Gateway, InUse};
use crate::catalogue::{Catalogue, STATUS_URI, template_matches};
use crate::upstream::{Line, listen};

/// How long to wait before a server's stream that ended is opened again.
const AGAIN: Duration = Duration::from_secs(2);
/// How long an application's stream of changes waits for the servers behind it before it is acknowledged.
const FOLLOW_WAIT: Duration = Duration::from_secs(2);

/// The URIs of resources, as their server writes them and as they are shown.
type Uris = Vec<(String, String)>;

/// The most resources one stream may follow: the setting `max_resource_subscriptions`.
/// As many as a session of the older revisions may have.
const MAX_RESOURCE_SUBSCRIPTIONS: usize = 1024;

impl Gateway {
    /// Stays pending until it is dropped.
    pub(super) async fn listen(&self, call: &Call, using: &InUse) -> Result<Outcome, RpcError> {
        let wanted = call.decode::<SubscriptionsListenParams>()?.notifications;
        let max = MAX_RESOURCE_SUBSCRIPTIONS;
        if wanted.resource_subscriptions.len() > max {
            let why = format!("more than {max} resources on one stream (setting max_resource_subscriptions)");
            return Err(RpcError::invalid_params(why));
        }
        let context = &call.context;
        if !wanted.task_ids.is_empty() && !context.peer().capabilities.has_extension(TASKS_EXTENSION) {
            return Err(hospes::tasks::not_declared());
        }
        let mut epoch = self.shared.epoch.subscribe();
        let mut known = using.catalogue();

        // What nobody has now is followed as soon as somebody does: its server may be about to start.
        let mut honoured = wanted.clone();
        // Tasks are polled: which connection could tell of them differs from one application to the next.
        honoured.task_ids.clear();
        let mut waiting = wanted.resource_subscriptions.clone();
        let status = waiting.iter().any(|uri| uri == STATUS_URI);
        waiting.retain(|uri| uri != STATUS_URI);
        let lines = self.shared.upstreams.iter().map(|upstream| upstream.line(using.view.abilities));
        let logs: Vec<_> = lines.map(|line| (line.id, line.logs())).enumerate().collect();
        let told = Told { context, held_back: Mutex::new(Some(Vec::new())), starts: Arc::default() };
        let mut follows = FuturesUnordered::new();
        let follow = |(server, uris): (usize, Uris)| {
            let starting = told.one_starts();
            self.keep_following(server, uris, using, &told, starting)
        };
        follows.extend(self.routable(&known, &mut waiting).into_iter().map(follow));
        // Whoever is told that they listen misses nothing; but a server that is slow to say so is not waited for.
        tokio::select! {
            _ = timeout(FOLLOW_WAIT, told.all_started()) => {}
            Some(()) = follows.next() => {}
        }
        told.acknowledge(SubscriptionsAcknowledgedParams::new(honoured));

        let mut logs: FuturesUnordered<_> = logs
            .into_iter()
            .map(|(server, (line, logs))| self.logs(server, line, logs, call, using))
            .collect();
        let mut heard = HashSet::new();
        loop {
            tokio::select! {
                changed = epoch.changed() => if changed.is_err() {
                    return Err(RpcError::internal("the host stopped"));
                },
                Some(()) = follows.next() => continue,
                Some(()) = logs.next() => continue,
            }
            for (server, upstream) in self.shared.upstreams.iter().enumerate() {
                let own = upstream.own(&using.application, using.view.abilities);
                if let Some(own) = own.filter(|own| heard.insert(own.id)) {
                    logs.push(self.logs(server, own.id, own.logs(), call, using));
                }
            }
            let now = using.catalogue();
            if wanted.tools_list_changed && !Arc::ptr_eq(&now.tools, &known.tools) {
                context.notify(Notification::ToolsListChanged);
            }
            if wanted.prompts_list_changed && !Arc::ptr_eq(&now.prompts, &known.prompts) {
                context.notify(Notification::PromptsListChanged);
            }
            let resources = Arc::ptr_eq(&now.resources, &known.resources);
            let templates = Arc::ptr_eq(&now.templates, &known.templates);
            if wanted.resources_list_changed && !(resources && templates) {
                context.notify(Notification::ResourcesListChanged);
            }
            if status {
                context.notify(Notification::ResourceUpdated(ResourceUpdatedParams::new(STATUS_URI)));
            }
            known = now;
            follows.extend(self.routable(&known, &mut waiting).into_iter().map(follow));
        }
    }

    /// Takes those URIs out that can be told whose they are, as their servers write them and as they are shown.
    fn routable(&self, catalogue: &Catalogue, waiting: &mut Vec<String>) -> BTreeMap<usize, Uris> {
        let mut by_server: BTreeMap<usize, Uris> = BTreeMap::new();
        waiting.retain(|uri| {
            let Ok((server, original)) = self.route(catalogue, uri) else { return true };
            by_server.entry(server).or_default().push((original, uri.clone()));
            false
        });
        by_server
    }

    /// Follows resources of one server, whatever becomes of its connections; never ends.
    async fn keep_following(
        &self,
        server: usize,
        uris: Uris,
        using: &InUse,
        told: &Told<'_>,
        starting: Starting,
    ) {
        let upstream = &self.shared.upstreams[server];
        let mut starting = Some(starting);
        loop {
            // Once it is connected it is known whether applications may share the connection.
            let lease = || upstream.lease(&using.application, using.view.abilities);
            match lease() {
                Ok(mut taken) => {
                    taken.finish();
                    taken.line.wait(|phase| phase.ready().is_some()).await;
                    if let Ok(mut fitting) = lease() {
                        fitting.finish();
                        drop(taken);
                        self.follow(&fitting.line, &uris, using, told, &mut starting).await;
                    }
                }
                Err(why) => {
                    tracing::warn!(server = %upstream.server.name, why, "resources cannot be followed now");
                }
            }
            starting = None;
            sleep(AGAIN).await;
        }
    }

    /// Log messages of a server that belong to no call.
    async fn logs(
        &self,
        server: usize,
        line: u64,
        mut logs: Receiver<LogMessageParams>,
        call: &Call,
        using: &InUse,
    ) {
        let (upstream, context) = (&self.shared.upstreams[server], &call.context);
        loop {
            match logs.recv().await {
                // Another application makes its calls there, and this may be about them.
                Ok(_) if upstream.is_anothers(line, &using.application) => {}
                Ok(message) => {
                    let name = &upstream.server.name;
                    let logger =
                        message.logger.map_or_else(|| name.to_string(), |logger| format!("{name}/{logger}"));
                    context.log_as(Some(&logger), message.level, message.data);
                }
                Err(RecvError::Lagged(_)) => {}
                // The sender is the line's own.
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Follows resources of one server on one connection, until that ends.
    async fn follow(
        &self,
        line: &Line,
        uris: &[(String, String)],
        using: &InUse,
        told: &Told<'_>,
        starting: &mut Option<Starting>,
    ) {
        line.wait(|phase| phase.ready().is_some()).await;
        let Some(live) = line.live() else { return };
        let resources = live.capabilities().resources.as_ref();
        if resources.is_none_or(|resources| resources.subscribe != Some(true)) {
            // It will not tell; a restart may bring another version that does.
            let id = live.id;
            *starting = None;
            line.wait(|phase| phase.ready().is_none_or(|now| now.id != id)).await;
            return;
        }
        let originals: Vec<String> = uris.iter().map(|(original, _)| original.clone()).collect();
        let filter = SubscriptionFilter::new().with_resource_subscriptions(originals);
        let onward = Context::new(Arc::clone(told.context.peer()));
        let mut exchange = listen(&live.connection, filter, onward);
        loop {
            match std::future::poll_fn(|cx| exchange.poll_event(cx)).await {
                Event::Notify(Notification::ResourceUpdated(mut params)) => {
                    params.uri = match uris.iter().find(|(original, _)| *original == params.uri) {
                        Some((_, shown)) => shown.clone(),
                        // A part of what was subscribed to.
                        None => {
                            let catalogue = using.catalogue();
                            catalogue.uris.show(&line.server.name, &params.uri, &template_matches)
                        }
                    };
                    told.tell(Notification::ResourceUpdated(params));
                }
                Event::Notify(Notification::SubscriptionsAcknowledged(_)) => *starting = None,
                Event::Notify(_) => {}
                Event::Ask(_) | Event::Done(Outcome::Complete(_) | Outcome::InputRequired(_)) => return,
                Event::Done(Outcome::Failed(error)) => {
                    tracing::debug!(server = %line.server.name, %error, "cannot follow resources");
                    return;
                }
            }
        }
    }
}

/// What an application is told. Nothing goes before the acknowledgement (SUBS-03).
struct Told<'c> {
    context: &'c Context,
    /// What has to wait for it; none afterwards.
    held_back: Mutex<Option<Vec<Notification>>>,
    starts: Arc<Starts>,
}

/// How many servers have not said yet that they will tell.
#[derive(Default)]
struct Starts {
    missing: AtomicUsize,
    changed: Notify,
}

impl Told<'_> {
    fn tell(&self, notification: Notification) {
        match &mut *self.held_back.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(held_back) if held_back.contains(&notification) => {}
            Some(held_back) => held_back.push(notification),
            None => self.context.notify(notification),
        }
    }

    fn acknowledge(&self, honoured: SubscriptionsAcknowledgedParams) {
        self.context.notify(Notification::SubscriptionsAcknowledged(honoured));
        let held_back = self.held_back.lock().unwrap_or_else(PoisonError::into_inner).take();
        held_back.into_iter().flatten().for_each(|notification| self.context.notify(notification));
    }

    fn one_starts(&self) -> Starting {
        self.starts.missing.fetch_add(1, Ordering::AcqRel);
        Starting(Arc::clone(&self.starts))
    }

    async fn all_started(&self) {
        loop {
            let mut changed = std::pin::pin!(self.starts.changed.notified());
            changed.as_mut().enable();
            if self.starts.missing.load(Ordering::Acquire) == 0 {
                return;
            }
            changed.await;
        }
    }
}

/// A server that has not said yet that it will tell.
struct Starting(Arc<Starts>);

impl Drop for Starting {
    fn drop(&mut self) {
        self.0.missing.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_waiters();
    }
}
