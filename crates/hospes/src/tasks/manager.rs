//! The tasks of one server or client: rules, ids, owners, and the sweeping out of what is old.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
#[cfg(feature = "server")]
use hospes_model::{InputRequests, InputResponses};
use hospes_model::{ListTasksResult, RawJson, RpcError, Task};
use tokio::sync::watch;

use super::clock::{TaskClock, millis};
use super::live_task::{LiveTask, RequestMeter};
use super::record::TaskRecord;
use super::settings::TaskSettings;
use super::store::{TaskPosition, TaskStore, TaskStoreError};

/// Number of tasks on a page of a list.
const PAGE_SIZE: usize = 100;
/// Maximum number of attempts at a change when the task is changed concurrently.
const MAX_UPDATE_ATTEMPTS: usize = 16;

/// All tasks of a server, or those that a client runs for its server.
pub(crate) struct TaskManager {
    store: Arc<dyn TaskStore>,
    settings: TaskSettings,
    clock: TaskClock,
    live: Mutex<HashMap<Box<str>, Arc<LiveTask>>>,
    sweeping: AtomicBool,
    misses: RequestMeter,
}

impl TaskManager {
    pub(crate) fn new(settings: TaskSettings, store: Arc<dyn TaskStore>) -> Arc<Self> {
        Arc::new(Self {
            store,
            settings,
            clock: TaskClock::start(),
            live: Mutex::default(),
            sweeping: AtomicBool::new(false),
            misses: RequestMeter::default(),
        })
    }

    /// Creates a task for a request of this method, which takes so many bytes while it runs. Once this returns, the
    /// task can be queried (TSKX-06).
    pub(crate) async fn create(
        self: &Arc<Self>,
        method: &str,
        owner: Option<&str>,
        ttl_ms: Option<u64>,
        request_bytes: usize,
    ) -> Result<(Task, Arc<LiveTask>), RpcError> {
        let id = new_id()?;
        let longest = millis(self.settings.max_ttl);
        let ttl = ttl_ms.unwrap_or_else(|| millis(self.settings.ttl)).clamp(1, longest.max(1));
        let poll = millis(self.settings.poll_interval);
        let now = self.clock.now();
        let record =
            TaskRecord::new(id.clone(), owner.map(str::to_owned), method, now, ttl, poll, request_bytes);
        let (task, due) = (record.task.clone(), record.expires_ms.unwrap_or(u64::MAX));
        self.store.create(record).await.map_err(|why| store_failure(&why))?;
        let live = Arc::new(LiveTask::new(due));
        self.lock().insert(id.as_str().into(), Arc::clone(&live));
        tracing::info!(task = shortened_id(&id), owner, method, ttl, "task created");
        self.sweep();
        Ok((task, live))
    }

    /// A task of this owner (TASK-22, TASK-24).
    pub(crate) async fn get(&self, id: &str, owner: Option<&str>) -> Result<TaskRecord, RpcError> {
        let most = self.settings.max_requests_per_second;
        let now = self.clock.now();
        let too_often = || {
            RpcError::internal(format!(
                "more than {most} requests a second for one task (setting max_requests_per_second)"
            ))
        };
        if self.live_task(id).is_some_and(|live| !live.meter().is_within(now, most)) {
            return Err(too_often());
        }
        let record = self.store.get(id).await.map_err(|why| store_failure(&why))?;
        let own = record.filter(|record| {
            record.owner.as_deref() == owner && record.expires_ms.is_none_or(|due| due > now)
        });
        own.ok_or_else(|| {
            // Wrong ids share one meter, which slows down whoever guesses them.
            if !self.misses.is_within(now, most) {
                return too_often();
            }
            tracing::warn!(owner, "task not found, or owned by another caller");
            RpcError::invalid_params("no such task: the id is unknown or expired")
        })
    }

    /// Returns a task of any owner.
    pub(super) async fn find_task(&self, id: &str) -> Result<Option<TaskRecord>, TaskStoreError> {
        self.store.get(id).await
    }

    /// A page of an owner's tasks, as 2025-11-25 counts them.
    pub(crate) async fn list(
        &self,
        owner: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<ListTasksResult, RpcError> {
        let after = cursor.map(read_cursor).transpose()?;
        // One more than a page tells whether there is another page.
        let mut records =
            self.store.list(owner, after, PAGE_SIZE + 1).await.map_err(|why| store_failure(&why))?;
        let more = records.len() > PAGE_SIZE;
        records.truncate(PAGE_SIZE);
        let last = records.last().filter(|_| more).map(write_cursor);
        let now = self.clock.now();
        let current = records.iter().filter(|record| record.expires_ms.is_none_or(|due| due > now));
        let mut page = ListTasksResult::new(current.map(|record| record.view().to_legacy()).collect());
        page.next_cursor = last;
        Ok(page)
    }

    /// Records answers to the questions of a task found by [`TaskManager::get`].
    #[cfg(feature = "server")]
    pub(crate) async fn answer(&self, found: &TaskRecord, answers: InputResponses) -> Result<(), RpcError> {
        let id = &found.task.task_id;
        self.change(id, |record, now| record.answer(answers.clone(), now)).await.map(drop)
    }

    /// Ends a task that [`TaskManager::get`] has found, at its caller's wish. What is over stays what it is.
    pub(crate) async fn cancel(&self, found: &TaskRecord) -> Result<(), RpcError> {
        let (id, owner) = (found.task.task_id.as_str(), found.owner.as_deref());
        // The record first: work that ends before it is stopped must find the task cancelled (TASK-21).
        let cancelled = self.change(id, |record, now| record.cancel("cancelled by its caller", now)).await?;
        if let Some(live) = self.live_task(id) {
            live.stop();
        }
        if cancelled {
            tracing::info!(task = shortened_id(id), owner, "task cancelled");
        }
        Ok(())
    }

    /// Asks what a task needs to know.
    #[cfg(feature = "server")]
    pub(crate) async fn ask(&self, id: &str, questions: InputRequests) -> Result<bool, RpcError> {
        self.change(id, |record, now| record.ask(questions.clone(), now)).await
    }

    /// Waits for the answers to all of these questions; none when the task is over or gone.
    #[cfg(feature = "server")]
    pub(crate) async fn answers(&self, id: &str, keys: &[String]) -> Option<InputResponses> {
        let mut heard = self.live_task(id).map(|live| live.subscribe());
        loop {
            if let Some(heard) = &mut heard {
                // Before the look, so that an answer that comes during it ends the wait.
                heard.borrow_and_update();
            }
            let record = self.find_task(id).await.ok().flatten().filter(|record| !record.is_over())?;
            if keys.iter().all(|key| record.answers.contains_key(key)) {
                let mut answers = record.answers;
                answers.retain(|key, _| keys.contains(key));
                return Some(answers);
            }
            self.wait_for_news(heard.as_mut()).await;
        }
    }

    /// Sets the status message of a task. A failure is harmless.
    #[cfg(feature = "server")]
    pub(crate) async fn set_status_message(&self, id: &str, message: &str) {
        let said = self.change(id, |record, now| record.set_status_message(message, now)).await;
        if let Err(error) = said {
            tracing::debug!(task = shortened_id(id), %error, "cannot store the task's status message");
        }
    }

    /// Records the result of a task. A cancelled task stays cancelled (TASK-21).
    pub(crate) async fn finish(&self, id: &str, outcome: Result<RawJson, RpcError>) {
        let failed = outcome.is_err();
        let mut kept = self.change(id, |record, now| record.finish(outcome.clone(), now)).await;
        if let Err(error) = &kept {
            tracing::error!(task = shortened_id(id), %error, "cannot store the task's result");
            let error = error.clone();
            // The store may have refused the result for its size; the task has to end all the same.
            kept = self.change(id, |record, now| record.finish(Err(error.clone()), now)).await;
        }
        if let Some(live) = self.live_task(id) {
            live.finish_work();
        }
        if matches!(kept, Ok(true)) {
            tracing::info!(task = shortened_id(id), failed, "task finished");
        }
    }

    /// The task that runs here.
    pub(crate) fn live_task(&self, id: &str) -> Option<Arc<LiveTask>> {
        self.lock().get(id).cloned()
    }

    /// Waits for news, or, for tasks of other processes, for as long as anybody should between two looks.
    pub(super) async fn wait_for_news(&self, heard: Option<&mut watch::Receiver<u64>>) {
        let interval = self.settings.poll_interval.max(Duration::from_millis(10));
        match heard {
            // Another process may change it too.
            Some(heard) => drop(tokio::time::timeout(interval * 10, heard.changed()).await),
            None => tokio::time::sleep(interval).await,
        }
    }

    /// Waits until a task is no longer what it was in this version, at most for so long.
    #[cfg(feature = "client")]
    pub(crate) async fn wait_for_change(&self, id: &str, version: u64, most: Duration) {
        let mut heard = self.live_task(id).map(|live| live.subscribe());
        // It may have changed before anybody listened.
        let now = self.find_task(id).await.ok().flatten().map(|record| record.version);
        if now == Some(version) {
            let _ = tokio::time::timeout(most, self.wait_for_news(heard.as_mut())).await;
        }
    }

    /// Changes a task and wakes those who wait for it. Returns false if `change` reports that there is nothing to
    /// change.
    async fn change(
        &self,
        id: &str,
        change: impl Fn(&mut TaskRecord, u64) -> bool + Send,
    ) -> Result<bool, RpcError> {
        for _ in 0..MAX_UPDATE_ATTEMPTS {
            let Some(mut record) = self.find_task(id).await.map_err(|why| store_failure(&why))? else {
                return Ok(false);
            };
            if !change(&mut record, self.clock.now()) {
                return Ok(false);
            }
            let over = record.is_over();
            if self.store.update(record).await.map_err(|why| store_failure(&why))? {
                if let Some(live) = self.live_task(id) {
                    live.wake();
                    if over {
                        tracing::debug!(task = shortened_id(id), "task reached a terminal status");
                    }
                }
                return Ok(true);
            }
        }
        Err(RpcError::internal("task store conflict: the task was changed concurrently too often"))
    }

    /// Forgets tasks whose time is over, for as long as there are any.
    fn sweep(self: &Arc<Self>) {
        if self.sweeping.swap(true, Ordering::AcqRel) {
            return;
        }
        let weak = Arc::downgrade(self);
        tokio::spawn(async move {
            /// Time after which a store that fails, or has no tasks, is queried again.
            const SWEEP_RETRY_DELAY: Duration = Duration::from_secs(60);
            loop {
                let Some(tasks) = weak.upgrade() else { return };
                let now = tasks.clock.now();
                let wait = match tasks.store.expire(now).await {
                    Ok(expired) => {
                        tasks.forget_tasks(&expired.ids);
                        // Another process that shares the store may have removed them from it.
                        let next = tasks.forget_expired(now);
                        match expired.next_ms.into_iter().chain(next).min() {
                            Some(next) => {
                                Duration::from_millis(next.saturating_sub(now).max(1)).min(SWEEP_RETRY_DELAY)
                            }
                            None => {
                                tasks.sweeping.store(false, Ordering::Release);
                                // A task may have been made since the store looked.
                                if tasks.lock().is_empty() || tasks.sweeping.swap(true, Ordering::AcqRel) {
                                    return;
                                }
                                SWEEP_RETRY_DELAY
                            }
                        }
                    }
                    Err(error) => {
                        tracing::error!(%error, "cannot remove expired tasks");
                        SWEEP_RETRY_DELAY
                    }
                };
                // Released before the sleep, so that sweeping does not keep the manager alive.
                drop(tasks);
                tokio::time::sleep(wait).await;
            }
        });
    }

    fn forget_tasks(&self, ids: &[String]) {
        for id in ids {
            let live = self.lock().remove(id.as_str());
            if let Some(live) = live {
                live.stop();
                live.wake();
            }
            tracing::info!(task = shortened_id(id), "task expired");
        }
    }

    /// Forgets the tasks of this process whose time is over; when the next one's is.
    fn forget_expired(&self, now: u64) -> Option<u64> {
        let all = self.lock();
        let due: Vec<String> =
            all.iter().filter(|(_, live)| live.due() <= now).map(|(id, _)| id.to_string()).collect();
        let next = all.values().map(|live| live.due()).filter(|due| *due > now).min();
        // `forget` takes this lock for each of them.
        drop(all);
        self.forget_tasks(&due);
        next
    }

    /// Number of tasks of this process that are remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.lock().len()
    }

    /// Ends all that runs here, and says so of its tasks, which others may know of by the store.
    pub(crate) fn close(self: &Arc<Self>) {
        let all = std::mem::take(&mut *self.lock());
        let broken: Vec<_> = all.into_iter().filter(|(_, live)| live.stop()).map(|(id, _)| id).collect();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if broken.is_empty() {
            return;
        }
        tracing::info!(tasks = broken.len(), "running tasks stopped: the server is shutting down");
        let tasks = Arc::clone(self);
        runtime.spawn(async move {
            for id in broken {
                let error = RpcError::internal("the server that ran the task was shut down");
                tasks.finish(&id, Err(error)).await;
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<LiveTask>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TaskManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskManager").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The tasks as those have them who answer for them. What runs for a task has them too, but does not keep it running:
/// with this it ends.
pub(crate) struct TaskManagerHandle(Arc<TaskManager>);

impl TaskManagerHandle {
    pub(crate) fn new(settings: TaskSettings, store: Arc<dyn TaskStore>) -> Self {
        Self(TaskManager::new(settings, store))
    }
}

impl Deref for TaskManagerHandle {
    type Target = Arc<TaskManager>;

    fn deref(&self) -> &Arc<TaskManager> {
        &self.0
    }
}

impl Drop for TaskManagerHandle {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Creates an unguessable id (TASK-25, TSKX-18).
fn new_id() -> Result<String, RpcError> {
    // 144 bits; Base64 needs no padding for a multiple of three bytes.
    let mut random = [0_u8; 18];
    getrandom::fill(&mut random).map_err(|_| RpcError::internal("no random bytes available"))?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

/// Returns the part of an id that may be logged. The whole id grants access to the task.
pub(crate) fn shortened_id(id: &str) -> &str {
    id.get(..6).unwrap_or_default()
}

fn store_failure(error: &TaskStoreError) -> RpcError {
    if let TaskStoreError::Failed(source) = error {
        tracing::error!(error = %source, "task store error");
    }
    RpcError::internal(error.to_string())
}

fn write_cursor(last: &TaskRecord) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}.{}", last.created_ms, last.task.task_id))
}

fn read_cursor(cursor: &str) -> Result<TaskPosition, RpcError> {
    let read = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let (created, id) = text.split_once('.')?;
        Some(TaskPosition::new(created.parse().ok()?, id))
    };
    read().ok_or_else(|| RpcError::invalid_params("unknown or expired cursor"))
}
