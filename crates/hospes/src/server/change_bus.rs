//! Subscriptions to changes of a server, and the changes each listener has not received yet.
//!
//! A change is noted with every listener that asked for it, and merged with one that it has not heard of yet: a slow
//! listener hears of each thing once, and of nothing too late. So there is no queue that could overflow.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The most resources that one listener may ask for.
pub const MAX_SUBSCRIBED_URIS: usize = 1024;
/// Maximum number of changed resources in one event; a listener polls again for the rest.
const MAX_URIS_PER_EVENT: usize = 64;

/// A list that can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangedList {
    Tools,
    Prompts,
    Resources,
}

impl ChangedList {
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Changes that a listener asks for.
#[derive(Debug, Default)]
pub(crate) struct ChangeFilter {
    lists: u8,
    uris: Box<[Box<str>]>,
}

impl ChangeFilter {
    pub(crate) fn new(lists: impl IntoIterator<Item = ChangedList>, uris: Vec<Box<str>>) -> Self {
        Self { lists: lists.into_iter().fold(0, |all, list| all | list.bit()), uris: uris.into() }
    }
}

/// Changes since a listener last polled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChangeEvent {
    Changes {
        lists: Vec<ChangedList>,
        uris: Vec<Box<str>>,
    },
    /// There will be no more.
    End,
}

/// All the listeners of a server.
#[derive(Default)]
pub(crate) struct ChangeBus(Mutex<ChangeBusInner>);

#[derive(Default)]
struct ChangeBusInner {
    slots: Vec<Option<ListenerEntry>>,
    free: Vec<usize>,
    /// Listeners of each resource: slot, and position among the slot's URIs.
    by_uri: HashMap<Box<str>, Vec<(usize, usize)>>,
    closed: bool,
}

struct ListenerEntry {
    wants: ChangeFilter,
    due_lists: u8,
    due_uris: Vec<usize>,
    waker: Option<Waker>,
}

/// Size of a listener in bytes, besides the URIs that it asks for.
#[cfg(test)]
pub(crate) const LISTENER_SIZE: usize = size_of::<Option<ListenerEntry>>();

impl ChangeBus {
    /// Begins to listen; what changes from now on is heard.
    pub(crate) fn listen(&self, wants: ChangeFilter) -> ServerChangeListener<'_> {
        let mut inner = self.lock();
        let index = inner.free.pop().unwrap_or(inner.slots.len());
        for (position, uri) in wants.uris.iter().enumerate() {
            inner.by_uri.entry(uri.clone()).or_default().push((index, position));
        }
        let slot = Some(ListenerEntry { wants, due_lists: 0, due_uris: Vec::new(), waker: None });
        match inner.slots.get_mut(index) {
            Some(place) => *place = slot,
            None => inner.slots.push(slot),
        }
        ServerChangeListener { bus: self, index }
    }

    /// A list has changed.
    pub(crate) fn notify_list_changed(&self, list: ChangedList) {
        let mut woken = Vec::new();
        let mut inner = self.lock();
        for slot in inner.slots.iter_mut().flatten().filter(|slot| slot.wants.lists & list.bit() != 0) {
            slot.due_lists |= list.bit();
            woken.extend(slot.waker.take());
        }
        // Wakers run foreign code, which may come back here.
        drop(inner);
        woken.into_iter().for_each(Waker::wake);
    }

    /// A resource has changed.
    pub(crate) fn notify_resource_updated(&self, uri: &str) {
        let mut woken = Vec::new();
        let mut inner = self.lock();
        let ChangeBusInner { slots, by_uri, .. } = &mut *inner;
        for (index, position) in by_uri.get(uri).into_iter().flatten() {
            let Some(slot) = slots.get_mut(*index).and_then(Option::as_mut) else { continue };
            if !slot.due_uris.contains(position) {
                slot.due_uris.push(*position);
            }
            woken.extend(slot.waker.take());
        }
        drop(inner);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Ends the events of every listener, including later ones.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        let woken: Vec<Waker> =
            inner.slots.iter_mut().flatten().filter_map(|slot| slot.waker.take()).collect();
        drop(inner);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Returns the number of listeners.
    pub(crate) fn listeners(&self) -> usize {
        let inner = self.lock();
        inner.slots.len() - inner.free.len()
    }

    fn lock(&self) -> MutexGuard<'_, ChangeBusInner> {
        // Consistent after every statement that could panic, of which there are none but allocations.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ChangeBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bus({} listeners)", self.listeners())
    }
}

/// One who listens, until dropped.
pub(crate) struct ServerChangeListener<'b> {
    bus: &'b ChangeBus,
    index: usize,
}

impl ServerChangeListener<'_> {
    /// Returns the changes since the last call; `waker` is woken when there are any.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<ChangeEvent> {
        let mut inner = self.bus.lock();
        let closed = inner.closed;
        let Some(slot) = inner.slots.get_mut(self.index).and_then(Option::as_mut) else {
            return Poll::Ready(ChangeEvent::End);
        };
        if slot.due_lists == 0 && slot.due_uris.is_empty() {
            // Only once nothing is due: what changed before the end is still told.
            if closed {
                return Poll::Ready(ChangeEvent::End);
            }
            if !slot.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
                slot.waker = Some(waker.clone());
            }
            return Poll::Pending;
        }
        let lists = ChangedList::ALL.into_iter().filter(|list| slot.due_lists & list.bit() != 0).collect();
        slot.due_lists = 0;
        let now = slot.due_uris.len().min(MAX_URIS_PER_EVENT);
        let uris = slot.due_uris.drain(..now).map(|position| slot.wants.uris[position].clone()).collect();
        Poll::Ready(ChangeEvent::Changes { lists, uris })
    }
}

impl Drop for ServerChangeListener<'_> {
    fn drop(&mut self) {
        let mut inner = self.bus.lock();
        let Some(slot) = inner.slots.get_mut(self.index).and_then(Option::take) else { return };
        for uri in &slot.wants.uris {
            if let Some(listeners) = inner.by_uri.get_mut(uri) {
                listeners.retain(|(index, _)| *index != self.index);
                if listeners.is_empty() {
                    inner.by_uri.remove(uri);
                }
            }
        }
        inner.free.push(self.index);
        if inner.free.len() == inner.slots.len() {
            // After a crowd has gone nothing of it stays.
            *inner = ChangeBusInner { closed: inner.closed, ..ChangeBusInner::default() };
        }
        drop(inner);
        // The waker may own a task whose drop comes back here.
        drop(slot);
    }
}
