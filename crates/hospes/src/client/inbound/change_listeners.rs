//! Listeners for changes on a connection that delivers all changes to one place (up to 2025-11-25).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

use hospes_model::{GetTaskResult, Notification, ResourceUpdatedParams, SubscriptionFilter, Task};

use crate::client::cache::response_cache::covers_uri;

/// Maximum number of changed resources queued for one listener.
const MAX_CHANGED_RESOURCES: usize = 4096;

/// The listeners of one connection.
#[derive(Debug, Default)]
pub(crate) struct ChangeListeners {
    listeners: Mutex<Vec<Arc<ChangeListener>>>,
    /// Number of listeners for each resource.
    wanted: Mutex<HashMap<String, usize>>,
}

/// A listener. A change that it has not fetched yet is queued only once.
#[derive(Debug)]
pub(crate) struct ChangeListener {
    filter: SubscriptionFilter,
    news: Mutex<PendingChanges>,
}

#[derive(Debug, Default)]
struct PendingChanges {
    tools: bool,
    prompts: bool,
    resources: bool,
    updated: BTreeSet<String>,
    /// Status of changed tasks; only tasks named in the filter are stored.
    tasks: BTreeMap<String, Box<Task>>,
    ended: bool,
    waker: Option<Waker>,
}

impl ChangeListeners {
    /// Adds a listener. Returns it and the resources that had no listener before.
    pub(crate) fn add_listener(&self, filter: SubscriptionFilter) -> (Arc<ChangeListener>, Vec<String>) {
        let mut wanted = locked(&self.wanted);
        let mut new = Vec::new();
        for uri in unique_resources(&filter) {
            let count = wanted.entry(uri.clone()).or_default();
            *count += 1;
            if *count == 1 {
                new.push(uri);
            }
        }
        let listener = Arc::new(ChangeListener { filter, news: Mutex::default() });
        locked(&self.listeners).push(Arc::clone(&listener));
        (listener, new)
    }

    /// Removes a listener. Returns the resources without remaining listeners.
    pub(crate) fn remove_listener(&self, listener: &Arc<ChangeListener>) -> Vec<String> {
        // This lock is released before `wanted` is taken, because
        // `listen` holds `wanted` while it takes this one.
        locked(&self.listeners).retain(|other| !Arc::ptr_eq(other, listener));
        let mut wanted = locked(&self.wanted);
        unique_resources(&listener.filter)
            .into_iter()
            .filter(|uri| match wanted.get_mut(uri) {
                Some(count) if *count > 1 => {
                    *count -= 1;
                    false
                }
                Some(_) => wanted.remove(uri).is_some(),
                None => false,
            })
            .collect()
    }

    /// Returns every resource with a listener, to which a new session must subscribe.
    pub(crate) fn wanted_resources(&self) -> Vec<String> {
        locked(&self.wanted).keys().cloned().collect()
    }

    /// Passes a change to the listeners that subscribed to it.
    pub(crate) fn notify_listeners(&self, change: &Notification) {
        for listener in locked(&self.listeners).iter() {
            listener.record_change(change);
        }
    }

    /// Closes all listeners.
    pub(crate) fn close_all(&self) {
        for listener in locked(&self.listeners).drain(..) {
            let mut news = locked(&listener.news);
            news.ended = true;
            wake(news);
        }
    }
}

impl ChangeListener {
    fn record_change(&self, change: &Notification) {
        let (mut news, filter) = (locked(&self.news), &self.filter);
        match change {
            Notification::ToolsListChanged if filter.tools_list_changed => news.tools = true,
            Notification::PromptsListChanged if filter.prompts_list_changed => news.prompts = true,
            Notification::ResourcesListChanged if filter.resources_list_changed => news.resources = true,
            Notification::ResourceUpdated(params) if filter_covers(filter, &params.uri) => {
                if news.updated.len() < MAX_CHANGED_RESOURCES {
                    news.updated.insert(params.uri.clone());
                }
            }
            Notification::TaskStatus(task) if filter.task_ids.contains(&task.task_id) => {
                news.tasks.insert(task.task_id.clone(), task.clone());
            }
            _ => return,
        }
        wake(news);
    }

    /// Polls for the next change. `None` when the connection is closed.
    pub(crate) fn poll_change(&self, cx: &mut TaskContext<'_>) -> Poll<Option<Notification>> {
        let mut news = locked(&self.news);
        if std::mem::take(&mut news.tools) {
            return Poll::Ready(Some(Notification::ToolsListChanged));
        }
        if std::mem::take(&mut news.prompts) {
            return Poll::Ready(Some(Notification::PromptsListChanged));
        }
        if std::mem::take(&mut news.resources) {
            return Poll::Ready(Some(Notification::ResourcesListChanged));
        }
        if let Some(uri) = news.updated.pop_first() {
            return Poll::Ready(Some(Notification::ResourceUpdated(ResourceUpdatedParams::new(uri))));
        }
        if let Some((_, task)) = news.tasks.pop_first() {
            return Poll::Ready(Some(Notification::TasksChanged(Box::new(GetTaskResult::new(*task)))));
        }
        // After all changes: what was told before the end is still delivered.
        if news.ended {
            return Poll::Ready(None);
        }
        if !news.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            news.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

fn unique_resources(filter: &SubscriptionFilter) -> BTreeSet<String> {
    filter.resource_subscriptions.iter().cloned().collect()
}

/// Returns true if the filter covers a change of `uri`. A server may name a part of the subscribed resource.
fn filter_covers(filter: &SubscriptionFilter, uri: &str) -> bool {
    filter.resource_subscriptions.iter().any(|wanted| covers_uri(wanted, uri))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The state is consistent after every statement, so a panic elsewhere while it was held spoils nothing.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake(mut news: MutexGuard<'_, PendingChanges>) {
    let waker = news.waker.take();
    // A waker may poll the listener on this thread at once and must find the lock free.
    drop(news);
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(listener: &ChangeListener) -> Option<Notification> {
        match listener.poll_change(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(change) => change,
            Poll::Pending => None,
        }
    }

    fn updated(uri: &str) -> Notification {
        Notification::ResourceUpdated(ResourceUpdatedParams::new(uri))
    }

    #[test]
    fn listeners_hear_what_they_asked_for_once() {
        let changes = ChangeListeners::default();
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = true;
        filter.resource_subscriptions = vec!["a://x".into()];
        let (listener, _) = changes.add_listener(filter);
        for change in [
            Notification::ToolsListChanged,
            Notification::ToolsListChanged,
            Notification::PromptsListChanged,
            updated("a://x"),
            updated("a://x/part"),
            updated("a://xy"),
        ] {
            changes.notify_listeners(&change);
        }
        assert_eq!(next(&listener), Some(Notification::ToolsListChanged));
        assert_eq!(next(&listener), Some(updated("a://x")));
        assert_eq!(next(&listener), Some(updated("a://x/part")));
        assert_eq!(next(&listener), None);
    }

    /// covers: RES-11
    #[test]
    fn a_resource_is_subscribed_by_the_first_and_left_by_the_last() {
        let changes = ChangeListeners::default();
        let filter = |uris: &[&str]| {
            let mut filter = SubscriptionFilter::new();
            filter.resource_subscriptions = uris.iter().map(ToString::to_string).collect();
            filter
        };
        let (first, new) = changes.add_listener(filter(&["a", "b", "a"]));
        assert_eq!(new, ["a", "b"]);
        let (second, new) = changes.add_listener(filter(&["b", "c"]));
        assert_eq!(new, ["c"]);
        assert_eq!(changes.remove_listener(&first), ["a"]);
        assert_eq!(changes.remove_listener(&second), ["b", "c"]);
        assert!(changes.wanted_resources().is_empty());
    }
}
