//! Change notifications for an application, merged from all servers.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{FuturesUnordered, SelectAll};
use hospes::{Call, Context, ExchangeEvent, Outcome};
use hospes_model::{
    Notification, ResourceUpdatedParams, RpcError, SubscriptionFilter, SubscriptionsAcknowledgedParams,
    SubscriptionsListenParams, TASKS_EXTENSION,
};
use hospes_store::{AuditOutcome, DecisionBasis};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{sleep, timeout};

use super::declared_extensions::declared;
use super::gateway_state::ViewLease;
use super::handle::Gateway;
use super::subscription_sink::{PendingAcknowledgement, SubscriptionSink};
use super::task_ids::TaskId;
use super::task_watches::{SubscribedItems, WatchedTask};
use crate::catalogue::{MergedCatalogue, STATUS_URI, template_matches};
use crate::guard::{CallTarget, TargetItem};
use crate::server::BlockReason;
use crate::upstream::{
    ReadyConnection, SupervisedConnection, TaskHold, UpstreamEntry, UpstreamPhase, listen,
};

/// Wait before a server's stream that ended is opened again.
const REOPEN_DELAY: Duration = Duration::from_secs(2);
/// Minimum interval between two renewals of the hold on watched tasks.
const MIN_KEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Time that an application's stream of changes waits for its servers before it is acknowledged.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(2);

/// The most resources one stream may follow: as many as a session of the older revisions may have.
const MAX_RESOURCE_SUBSCRIPTIONS: usize = 1024;
/// The most tasks one stream may follow.
const MAX_TASK_SUBSCRIPTIONS: usize = 1024;

/// Handling of resources of a server that is withheld.
#[derive(Clone, Copy)]
enum IfWithheld {
    /// The subscription is denied; the server can still report that.
    Denied,
    /// They are once it is used.
    Waits,
}

/// Stream of changes of one server, on one connection, for one application.
struct ServerStream<'a> {
    /// The position of the server.
    server: usize,
    line: &'a SupervisedConnection,
    /// Handle for the tasks of the connection.
    hold: &'a TaskHold,
    using: &'a ViewLease,
    told: &'a SubscriptionSink<'a>,
}

impl Gateway {
    /// Stays pending until it is dropped.
    pub(super) async fn listen(&self, call: &Call, using: &ViewLease) -> Result<Outcome, RpcError> {
        let wanted = call.decode::<SubscriptionsListenParams>()?.notifications;
        let context = &call.context;
        check_limits(&wanted, context)?;
        // Before the catalogue is taken, so that no change falls between the two.
        let mut epoch = self.shared.epoch.subscribe();
        let mut known = using.catalogue();

        // What nobody has now is followed as soon as somebody does: its server may be about to start.
        let mut honoured = wanted.clone();
        let mut waiting = wanted.resource_subscriptions.clone();
        let is_own = |uri: &String| uri == STATUS_URI && !self.is_single();
        let status = waiting.iter().any(is_own);
        waiting.retain(|uri| !is_own(uri));
        // Before anything is waited for, because receivers only get what is sent after they subscribed.
        let logs = self.subscribe_to_logs(using);
        let told = SubscriptionSink::new(context);
        let mut follows = FuturesUnordered::new();
        let follow = |(server, wanted): (usize, SubscribedItems)| {
            let starting = told.expect_acknowledgement();
            self.keep_following(server, wanted, using, &told, starting)
        };
        let (routed, denied) = self.routable(&known, &mut waiting, context, IfWithheld::Denied).await;
        follows.extend(routed.into_iter().map(follow));
        let tasks = self.find_watched_tasks(&wanted.task_ids, using, context).await;
        follows.extend(tasks.into_iter().map(follow));
        wait_for_acknowledgements(&told, &mut follows).await;
        // What is followed by nobody is not said to be.
        honoured.resource_subscriptions.retain(|uri| !denied.contains(uri) && !told.is_declined(uri));
        honoured.task_ids = told.agreed_on();
        told.acknowledge(SubscriptionsAcknowledgedParams::new(honoured));

        let mut logs: FuturesUnordered<_> = logs
            .into_iter()
            .map(|(server, (line, logs))| self.logs(server, line, logs, call, using))
            .collect();
        let mut heard = HashSet::new();
        loop {
            // Before anything is waited for: the application may have connections of its own already.
            for (server, own) in self.own_connections(using) {
                if heard.insert(own.id) {
                    logs.push(self.logs(server, own.id, own.told(), call, using));
                }
            }
            // An empty set yields `None`, which switches its branch off until the next turn.
            tokio::select! {
                changed = epoch.changed() => if changed.is_err() {
                    return Err(RpcError::internal("the host stopped"));
                },
                Some(()) = follows.next() => continue,
                Some(()) = logs.next() => continue,
            }
            let now = using.catalogue();
            notify_list_changes(&wanted, (&known, &now), context);
            self.shared.check_scope(self.scope)?;
            if status {
                context.notify(Notification::ResourceUpdated(ResourceUpdatedParams::new(STATUS_URI)));
            }
            known = now;
            let (routed, _) = self.routable(&known, &mut waiting, context, IfWithheld::Waits).await;
            follows.extend(routed.into_iter().map(follow));
        }
    }

    /// Subscribes to the messages of the servers in view that belong to no call. Returns, by server, the connection's id
    /// and the receiver.
    fn subscribe_to_logs(&self, using: &ViewLease) -> Vec<(usize, (u64, Receiver<Notification>))> {
        let line = |slot: &UpstreamEntry| Some(slot.of(using.view.user.as_ref())?.line(using.view.abilities));
        let seen = self.shared.upstreams.current().filter(|(server, _)| using.sees(*server));
        let lines = seen.filter_map(|(server, slot)| Some((server, line(slot)?)));
        lines.map(|(server, line)| (server, (line.id, line.told()))).collect()
    }

    /// Returns the connections that belong to this application alone, by server.
    fn own_connections<'a>(
        &'a self,
        using: &'a ViewLease,
    ) -> impl Iterator<Item = (usize, Arc<SupervisedConnection>)> + 'a {
        let seen = self.shared.upstreams.current().filter(|(server, _)| using.sees(*server));
        seen.filter_map(|(server, slot)| {
            let upstream = slot.of(using.view.user.as_ref())?;
            Some((server, upstream.own(&using.application, using.view.abilities)?))
        })
    }

    /// Finds the tasks that this application may follow, by server.
    async fn find_watched_tasks(
        &self,
        ids: &[String],
        using: &ViewLease,
        context: &Context,
    ) -> BTreeMap<usize, SubscribedItems> {
        let mut by_server: BTreeMap<usize, SubscribedItems> = BTreeMap::new();
        for id in ids {
            self.recall_task(id).await;
            // Somebody else's is not followed, and the acknowledgement says so.
            let Ok((server, original)) = self.resolve_task(id, context) else { continue };
            if !using.sees(server) || !self.follows_task(server, (id, &original), context).await {
                continue;
            }
            // A process here does not know what one of another node does.
            if TaskId::parse(id).and_then(|task| task.node).is_some_and(|node| !self.is_here(node)) {
                continue;
            }
            let tasks = &mut by_server.entry(server).or_default().tasks;
            // A task that is named twice would be told of twice.
            if !tasks.iter().any(|known| known.original == original) {
                tasks.push(WatchedTask { original, shown: id.clone(), last: None });
            }
        }
        by_server
    }

    /// Removes the URIs from `waiting` that can be routed to a server. Returns them by server, as the server writes
    /// them and as they are shown. Also returns those that this application may not follow.
    async fn routable(
        &self,
        catalogue: &MergedCatalogue,
        waiting: &mut Vec<String>,
        context: &Context,
        if_withheld: IfWithheld,
    ) -> (BTreeMap<usize, SubscribedItems>, Vec<String>) {
        let mut by_server: BTreeMap<usize, SubscribedItems> = BTreeMap::new();
        let mut denied = Vec::new();
        for uri in std::mem::take(waiting) {
            let Ok((server, original)) = self.route(catalogue, &uri) else {
                waiting.push(uri);
                continue;
            };
            let gate = self.shared.upstreams[server].server.gate.as_ref();
            let withheld = gate.and_then(|gate| gate.server_block_reason());
            if withheld.is_some() && matches!(if_withheld, IfWithheld::Waits) {
                waiting.push(uri);
                continue;
            }
            let withheld = withheld.as_ref().map(BlockReason::as_str);
            let is_followed = match &self.shared.guard {
                Some(guard) => {
                    guard.admit_subscription(context, &self.subscription(server, &original), withheld).await
                }
                None => withheld.is_none(),
            };
            if !is_followed {
                denied.push(uri);
                continue;
            }
            by_server.entry(server).or_default().resources.push((original, uri));
        }
        (by_server, denied)
    }

    fn subscription<'a>(&'a self, server: usize, original: &'a str) -> CallTarget<'a> {
        self.target(server, TargetItem::Subscription(original))
    }

    /// Returns true if changes of a task are reported. A task that has to end is ended instead.
    async fn follows_task(&self, server: usize, (shown, original): (&str, &str), context: &Context) -> bool {
        let Some(over) = self.task_end_reason(server, shown, context) else { return true };
        if let Ok(Some(mut note)) = self.note_of_task(server, shown, context).await {
            note.set_decision("deny", &over.by, DecisionBasis::Host);
            note.end(AuditOutcome::Refused, None).await;
        }
        // The application hears of it by the acknowledgement, in which the task is missing.
        let _told = self.end_task(server, (shown, original), context, &over.why);
        false
    }

    /// Follows resources of one server across reconnects until the future is dropped, or tasks until they have ended.
    async fn keep_following(
        &self,
        server: usize,
        mut wanted: SubscribedItems,
        using: &ViewLease,
        told: &SubscriptionSink<'_>,
        starting: PendingAcknowledgement,
    ) {
        let Some(upstream) = self.shared.upstreams[server].of(using.view.user.as_ref()) else { return };
        let mut starting = Some(starting);
        loop {
            // Nothing is asked of what nobody has accepted, and no word of it is passed on. The same holds for what the
            // profile of the application shows no more.
            let gate = self.shared.upstreams[server].server.gate.as_ref();
            if !using.sees(server) || gate.is_some_and(|gate| gate.server_block_reason().is_some()) {
                sleep(REOPEN_DELAY).await;
                continue;
            }
            // Once it is connected it is known whether applications may share the connection.
            let lease = || upstream.lease(&using.application, using.view.abilities);
            match lease() {
                Ok(mut taken) => {
                    taken.finish();
                    taken.line.wait(|phase| phase.ready().is_some()).await;
                    if let Ok(mut fitting) = lease() {
                        // The stream may be dropped at any time, and must not count as a call that was given up then.
                        fitting.begin();
                        fitting.finish();
                        // Not before the other lease is taken: in between the connection must not lose its only user.
                        drop(taken);
                        let line = Arc::clone(&fitting.line);
                        let hold = fitting.tasks();
                        // A task keeps its connection by itself, for as long as it runs.
                        let kept = Some(fitting).filter(|_| wanted.tasks.is_empty());
                        let stream = ServerStream { server, line: &line, hold: &hold, using, told };
                        self.follow(&stream, &mut wanted, &mut starting).await;
                        while kept.is_none() {
                            if matches!(&*line.phase(), UpstreamPhase::Stopped) {
                                // With its connection a task is gone.
                                wanted
                                    .tasks
                                    .iter()
                                    .for_each(|task| self.notify_task_lost(task, server, told));
                                return;
                            }
                            if wanted.tasks.is_empty() {
                                return;
                            }
                            // Dropping it counts as started: the acknowledgement does not wait for a second attempt.
                            starting = None;
                            sleep(REOPEN_DELAY).await;
                            self.follow(&stream, &mut wanted, &mut starting).await;
                        }
                    }
                }
                Err(why) => {
                    tracing::warn!(server = %upstream.server.name, why, "cannot subscribe to changes");
                }
            }
            starting = None;
            sleep(REOPEN_DELAY).await;
        }
    }

    fn may_be_told(&self, server: usize, original: &str, told: &SubscriptionSink<'_>) -> bool {
        let Some(guard) = &self.shared.guard else { return true };
        guard.allows_update(told.context, &self.subscription(server, original))
    }

    /// Forwards a server's log messages and extension notifications that belong to no call.
    async fn logs(
        &self,
        server: usize,
        line: u64,
        mut told: Receiver<Notification>,
        call: &Call,
        using: &ViewLease,
    ) {
        let (slot, context) = (&self.shared.upstreams[server], &call.context);
        let Some(upstream) = slot.of(using.view.user.as_ref()) else { return };
        loop {
            match told.recv().await {
                // Another application makes its calls there, and this may be about them.
                Ok(_) if upstream.is_anothers(line, &using.application) => {}
                // The profile of the application may show it no more.
                Ok(_) if !using.sees(server) => {}
                // Nobody has accepted a word of it.
                Ok(_)
                    if slot.server.gate.as_ref().is_some_and(|gate| gate.server_block_reason().is_some()) => {
                }
                Ok(Notification::LogMessage(message)) => {
                    let name = &upstream.server.name;
                    let logger =
                        message.logger.map_or_else(|| name.to_string(), |logger| format!("{name}/{logger}"));
                    context.log_as(Some(&logger), message.level, message.data);
                }
                // Since 2026-07-28 a stream of changes has what was asked for, and nobody can ask for these.
                Ok(other)
                    if context.peer().revision.is_legacy()
                        && self.share_extension(server, using, context) =>
                {
                    context.notify(other);
                }
                // A listener that is too slow loses messages, so that the connection never waits for it.
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                // The sender is the line's own.
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Returns true if the application and the server declare an extension in common.
    fn share_extension(&self, server: usize, using: &ViewLease, context: &Context) -> bool {
        let theirs = &context.peer().capabilities;
        let seen = self.in_view(using);
        let live = seen.iter().find(|(position, _)| *position == server).map(|(_, live)| live);
        live.is_some_and(|live| declared(live).any(|(identifier, _)| theirs.has_extension(identifier)))
    }

    /// Follows resources or tasks of one server on one connection, until that ends or the tasks do.
    async fn follow(
        &self,
        stream: &ServerStream<'_>,
        wanted: &mut SubscribedItems,
        starting: &mut Option<PendingAcknowledgement>,
    ) {
        let ServerStream { server, line, hold, using, told } = *stream;
        line.wait(|phase| phase.ready().is_some() || matches!(phase, UpstreamPhase::Stopped)).await;
        let Some(live) = line.live() else { return };
        let uris = followed_resources(&live, &wanted.resources, told);
        if uris.is_empty() && wanted.tasks.is_empty() {
            // It will not tell; a restart may bring another version that does.
            let id = live.id;
            *starting = None;
            line.wait(|phase| phase.ready().is_none_or(|now| now.id != id)).await;
            return;
        }
        let onward = Context::new(Arc::clone(told.context.peer()));
        let mut exchange = listen(&live.connection, server_filter(uris, &wanted.tasks), onward);
        let mut asking = SelectAll::new();
        // Of tasks that nobody speaks of it is said that somebody still waits for them, before they count as left alone.
        let keep_tasks = (line.server.idle_after / 2).max(MIN_KEEP_INTERVAL);
        let follows_tasks = !wanted.tasks.is_empty();
        // A stream for tasks ends with the last of them.
        while !follows_tasks || !wanted.tasks.is_empty() {
            let event = std::future::poll_fn(|cx| exchange.poll_event(cx));
            let event = tokio::select! {
                Some((asked, found)) = asking.next() => {
                    self.apply_poll_result((server, hold), &asked, found, &mut wanted.tasks, using, told);
                    continue;
                }
                event = timeout(keep_tasks, event) => event,
            };
            let Ok(event) = event else {
                // A session of the older era follows all its tasks, whether or not anybody cares.
                let says_so = !told.context.peer().revision.is_legacy();
                wanted.tasks.iter().for_each(|task| hold.keep(&task.original, says_so));
                continue;
            };
            match event {
                ExchangeEvent::Notify(Notification::ResourceUpdated(params)) => {
                    self.forward_update(stream, params, uris);
                }
                ExchangeEvent::Notify(Notification::TasksChanged(found)) => {
                    self.apply_task_change((server, hold), found, &mut wanted.tasks, using, told);
                }
                ExchangeEvent::Notify(Notification::SubscriptionsAcknowledged(params)) => {
                    let is_first = starting.is_some();
                    apply_acknowledgement((params, is_first), uris, &mut wanted.tasks, hold, told);
                    // Dropped last: the application's acknowledgement may go out once it is gone.
                    *starting = None;
                    // While the stream was broken nobody told anything.
                    let unknown = wanted.tasks.iter().filter(|task| !is_first || task.last.is_none());
                    asking.push(self.poll_tasks(&live, unknown.cloned().collect(), told.context));
                }
                ExchangeEvent::Notify(_) => {}
                ExchangeEvent::Ask(_)
                | ExchangeEvent::Done(Outcome::Complete(_) | Outcome::InputRequired(_)) => return,
                ExchangeEvent::Done(Outcome::Failed(error)) => {
                    tracing::debug!(server = %line.server.name, %error, "change subscription failed");
                    return;
                }
            }
        }
    }

    /// Forwards the update of a resource under the URI that the application knows.
    fn forward_update(
        &self,
        stream: &ServerStream<'_>,
        mut params: ResourceUpdatedParams,
        uris: &[(String, String)],
    ) {
        let ServerStream { server, line, using, told, .. } = *stream;
        // The rules and the profile may have changed since it was followed.
        if !using.sees(server) || !self.may_be_told(server, &params.uri, told) {
            return;
        }
        params.uri = match uris.iter().find(|(original, _)| *original == params.uri) {
            Some((_, shown)) => shown.clone(),
            // A part of what was subscribed to.
            None => using.catalogue().uris.show(&line.server.name, &params.uri, &template_matches),
        };
        told.notify(Notification::ResourceUpdated(params));
    }
}

/// Waits until the servers have acknowledged their streams, but not for one that is slow to do so. An application that
/// is told that it listens misses nothing.
async fn wait_for_acknowledgements(
    told: &SubscriptionSink<'_>,
    follows: &mut FuturesUnordered<impl Future<Output = ()>>,
) {
    tokio::select! {
        _ = timeout(ACKNOWLEDGE_TIMEOUT, told.wait_for_acknowledgements()) => {}
        never = async {
            while follows.next().await.is_some() {}
            std::future::pending::<std::convert::Infallible>().await
        } => match never {},
    }
}

/// Returns the resources that the server reports changes of. The others are declined.
fn followed_resources<'w>(
    live: &ReadyConnection,
    resources: &'w [(String, String)],
    told: &SubscriptionSink<'_>,
) -> &'w [(String, String)] {
    let offered = live.capabilities().resources.as_ref();
    if offered.is_some_and(|offered| offered.subscribe == Some(true)) {
        return resources;
    }
    told.decline(resources.iter().map(|(_, shown)| shown.clone()));
    &[]
}

/// Creates the filter of a server's stream, with the URIs and ids of the server.
fn server_filter(uris: &[(String, String)], tasks: &[WatchedTask]) -> SubscriptionFilter {
    let uris: Vec<String> = uris.iter().map(|(original, _)| original.clone()).collect();
    let tasks: Vec<String> = tasks.iter().map(|task| task.original.clone()).collect();
    SubscriptionFilter::new().with_resource_subscriptions(uris).with_task_ids(tasks)
}

/// Checks the number of subscriptions of one stream, and that tasks were declared if any is followed.
fn check_limits(wanted: &SubscriptionFilter, context: &Context) -> Result<(), RpcError> {
    let counts = [
        (wanted.resource_subscriptions.len(), MAX_RESOURCE_SUBSCRIPTIONS, "resource"),
        (wanted.task_ids.len(), MAX_TASK_SUBSCRIPTIONS, "task"),
    ];
    if let Some((_, max, kind)) = counts.into_iter().find(|(count, max, _)| count > max) {
        let why = format!("more than {max} {kind} subscriptions on one stream; open another stream");
        return Err(RpcError::invalid_params(why));
    }
    if !wanted.task_ids.is_empty() && !context.peer().capabilities.has_extension(TASKS_EXTENSION) {
        return Err(hospes::tasks::tasks_not_declared());
    }
    Ok(())
}

/// Tells the application which of the lists that it follows have changed.
fn notify_list_changes(
    wanted: &SubscriptionFilter,
    (known, now): (&MergedCatalogue, &MergedCatalogue),
    context: &Context,
) {
    // A list that did not change is kept as it is when the catalogue is built, so its address says enough.
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
}

/// Applies the server's acknowledgement of a stream: what it declines is told to the application, and on the first
/// stream only agreed tasks stay followed.
fn apply_acknowledgement(
    (params, is_first): (SubscriptionsAcknowledgedParams, bool),
    uris: &[(String, String)],
    tasks: &mut Vec<WatchedTask>,
    hold: &TaskHold,
    told: &SubscriptionSink<'_>,
) {
    let told_of = params.notifications.resource_subscriptions;
    let declined = uris.iter().filter(|(original, _)| !told_of.contains(original));
    told.decline(declined.map(|(_, shown)| shown.clone()));
    let agreed = params.notifications.task_ids;
    let agrees = |task: &WatchedTask| agreed.contains(&task.original);
    told.agree(tasks.iter().filter(|task| agrees(task)).map(|task| task.shown.clone()));
    // Later on, whoever does not follow a task any more may have lost it.
    if is_first {
        tasks.retain(agrees);
    }
    tasks.iter_mut().for_each(|task| task.last = task.last.take().or_else(|| hold.last(&task.original)));
}
