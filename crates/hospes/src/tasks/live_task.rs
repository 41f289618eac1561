//! A task that was made in this process: who waits for news of it, and what stops it.

use std::collections::VecDeque;
use std::fmt;
#[cfg(feature = "server")]
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(feature = "server")]
use futures::Stream;
#[cfg(feature = "server")]
use futures::stream::unfold;
#[cfg(feature = "server")]
use hospes_model::GetTaskResult;
use hospes_model::Notification;
use tokio::sync::watch;
use tokio::task::AbortHandle;

#[cfg(feature = "server")]
use super::manager::TaskManager;

/// Maximum number of queued notifications of a task; beyond it the oldest are dropped.
#[cfg(feature = "server")]
const MAX_TASK_NOTIFICATIONS: usize = 64;

/// A task that was made in this process.
pub(crate) struct LiveTask {
    /// Grows whenever there is news.
    news: watch::Sender<u64>,
    /// Progress and log messages that have not been delivered. The first listener gets them, once.
    said: Mutex<VecDeque<Notification>>,
    work: Mutex<TaskWork>,
    meter: RequestMeter,
    /// Time at which it is forgotten, in milliseconds since 1970.
    due: u64,
}

/// Work of a task.
enum TaskWork {
    None,
    Runs(AbortHandle),
    /// Nothing may run any more.
    Stopped,
}

/// News of a task.
#[cfg(feature = "server")]
#[derive(Debug)]
pub(crate) enum TaskEvent {
    /// It has changed.
    Changed(Box<GetTaskResult>),
    /// It has something to say.
    Said(Notification),
}

impl LiveTask {
    pub(super) fn new(due: u64) -> Self {
        Self {
            news: watch::Sender::new(0),
            said: Mutex::default(),
            work: Mutex::new(TaskWork::None),
            meter: RequestMeter::default(),
            due,
        }
    }

    pub(super) fn due(&self) -> u64 {
        self.due
    }

    /// Sets the work of the task.
    pub(crate) fn set_work(&self, work: AbortHandle) {
        let mut place = self.work();
        match *place {
            // Its time was over before it began.
            TaskWork::Stopped => work.abort(),
            TaskWork::None | TaskWork::Runs(_) => *place = TaskWork::Runs(work),
        }
    }

    /// Ends what runs for it, and forgets what it said (PROG-12); true when something ran, or was about to: nothing else
    /// will say that the task is over.
    pub(super) fn stop(&self) -> bool {
        self.clear_notifications();
        match std::mem::replace(&mut *self.work(), TaskWork::Stopped) {
            TaskWork::Runs(work) => {
                work.abort();
                !work.is_finished()
            }
            TaskWork::None => true,
            TaskWork::Stopped => false,
        }
    }

    /// Its work is done: the memory in which it ran is given back.
    pub(super) fn finish_work(&self) {
        *self.work() = TaskWork::Stopped;
    }

    fn work(&self) -> MutexGuard<'_, TaskWork> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the undelivered notifications.
    fn clear_notifications(&self) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// It has something to say.
    #[cfg(feature = "server")]
    pub(crate) fn queue_notification(&self, notification: Notification) {
        if matches!(*self.work(), TaskWork::Stopped) {
            return;
        }
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= MAX_TASK_NOTIFICATIONS {
            said.pop_front();
        }
        said.push_back(notification);
        drop(said);
        self.wake();
    }

    pub(super) fn wake(&self) {
        // `send` would change nothing while nobody listens.
        self.news.send_modify(|number| *number = number.wrapping_add(1));
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    pub(super) fn meter(&self) -> &RequestMeter {
        &self.meter
    }

    #[cfg(feature = "server")]
    fn take_notification(&self) -> Option<Notification> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl fmt::Debug for LiveTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LiveTask")
    }
}

/// Counter of requests in the current second.
#[derive(Debug, Default)]
pub(super) struct RequestMeter(Mutex<(u64, u32)>);

impl RequestMeter {
    /// Returns true if one more request is within `most` a second.
    pub(super) fn is_within(&self, now_ms: u64, most: u32) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let second = now_ms / 1000;
        if state.0 != second {
            *state = (second, 0);
        }
        state.1 = state.1.saturating_add(1);
        state.1 <= most
    }
}

#[cfg(feature = "server")]
impl TaskManager {
    /// Events of a task from its version `told` on; ends when the task is over, or gone.
    pub(crate) fn task_events(
        self: &Arc<Self>,
        id: String,
        told: u64,
    ) -> impl Stream<Item = (String, TaskEvent)> + Send + use<> {
        let live = self.live_task(&id);
        let heard = live.as_ref().map(|live| live.subscribe());
        let state = (Arc::clone(self), id, told, live, heard);
        unfold(Some(state), |state| async move {
            let (tasks, id, mut told, live, mut heard) = state?;
            loop {
                if let Some(heard) = &mut heard {
                    // Before the look, so that what changes during it ends the next wait.
                    heard.borrow_and_update();
                }
                if let Some(said) = live.as_ref().and_then(|live| live.take_notification()) {
                    let news = (id.clone(), TaskEvent::Said(said));
                    return Some((news, Some((tasks, id, told, live, heard))));
                }
                let record = tasks.find_task(&id).await.ok().flatten()?;
                if record.version != told {
                    told = record.version;
                    let (news, over) =
                        ((id.clone(), TaskEvent::Changed(Box::new(record.view()))), record.is_over());
                    return Some((news, (!over).then_some((tasks, id, told, live, heard))));
                }
                if record.is_over() {
                    return None;
                }
                tasks.wait_for_news(heard.as_mut()).await;
            }
        })
    }
}
