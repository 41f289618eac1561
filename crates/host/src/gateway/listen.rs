//! One stream of changes for an application, fed by all servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use hospes::{Call, Context, Event, Outcome};
use hospes_model::{
    Notification, ResourceUpdatedParams, RpcError, SubscriptionFilter, SubscriptionsAcknowledgedParams,
    SubscriptionsListenParams,
};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::sleep;

use super::{Gateway, InUse};
use crate::catalogue::{STATUS_URI, template_matches};
use crate::upstream::{Line, listen};

/// How long to wait before a server's stream that ended is opened again.
const AGAIN: Duration = Duration::from_secs(2);
/// The most resources one stream may follow: the setting `max_resource_subscriptions`.
const MAX_RESOURCE_SUBSCRIPTIONS: usize = 1000;

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
        let mut epoch = self.shared.epoch.subscribe();
        let mut known = self.shared.catalogue(&using.view);

        let mut honoured = wanted.clone();
        honoured.task_ids.clear();
        let mut by_server: BTreeMap<usize, Vec<(String, String)>> = BTreeMap::new();
        let mut status = false;
        honoured.resource_subscriptions.retain(|uri| {
            if uri == STATUS_URI {
                status = true;
                return true;
            }
            let Ok((server, original)) = self.route(&known, uri) else { return false };
            by_server.entry(server).or_default().push((original, uri.clone()));
            true
        });
        let acknowledged = SubscriptionsAcknowledgedParams::new(honoured);
        context.notify(Notification::SubscriptionsAcknowledged(acknowledged));

        let lists = async {
            while epoch.changed().await.is_ok() {
                let now = self.shared.catalogue(&using.view);
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
            }
        };
        let abilities = using.view.abilities;
        let logs = (0..self.shared.upstreams.len()).map(|server| self.logs(server, using, context));
        let updates = by_server.into_iter().map(|(server, uris)| {
            let upstream = &self.shared.upstreams[server];
            async move {
                loop {
                    let line = upstream.line(abilities);
                    self.follow(&line, &uris, using, context).await;
                    sleep(AGAIN).await;
                }
            }
        });
        tokio::join!(lists, join_all(logs), join_all(updates));
        Err(RpcError::internal("the host stopped"))
    }

    /// Log messages of a server that belong to no call.
    async fn logs(&self, server: usize, using: &InUse, context: &Context) {
        let upstream = &self.shared.upstreams[server];
        let line = upstream.line(using.view.abilities);
        let mut logs = line.logs();
        loop {
            match logs.recv().await {
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
    async fn follow(&self, line: &Line, uris: &[(String, String)], using: &InUse, context: &Context) {
        line.wait(|phase| phase.ready().is_some()).await;
        let Some(live) = line.live() else { return };
        let resources = live.capabilities().resources.as_ref();
        if resources.is_none_or(|resources| resources.subscribe != Some(true)) {
            // It will not tell; a restart may bring another version that does.
            let id = live.id;
            line.wait(|phase| phase.ready().is_none_or(|now| now.id != id)).await;
            return;
        }
        let originals: Vec<String> = uris.iter().map(|(original, _)| original.clone()).collect();
        let filter = SubscriptionFilter::new().with_resource_subscriptions(originals);
        let onward = Context::new(Arc::clone(context.peer()));
        let mut exchange = listen(&live.connection, filter, onward);
        loop {
            match std::future::poll_fn(|cx| exchange.poll_event(cx)).await {
                Event::Notify(Notification::ResourceUpdated(mut params)) => {
                    params.uri = match uris.iter().find(|(original, _)| *original == params.uri) {
                        Some((_, shown)) => shown.clone(),
                        // A part of what was subscribed to.
                        None => {
                            let catalogue = self.shared.catalogue(&using.view);
                            catalogue.uris.show(&line.server.name, &params.uri, &template_matches)
                        }
                    };
                    context.notify(Notification::ResourceUpdated(params));
                }
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
