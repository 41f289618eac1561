//! The connections of one server, and their assignment to applications.
//!
//! A legacy server sends requests of its own, and on most transports they are not tied to a call. A connection with
//! such requests therefore serves one application at a time. The first application uses the existing connection. Each
//! further one gets its own, up to the setting `max_connections`. A connection is reused when its application has gone,
//! or has been idle with nothing unfinished. Servers of 2026-07-28 put input requests into their results, so all
//! applications with the same capabilities share a connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hospes_model::Task;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::application::ApplicationIdentity;
use super::line::SupervisedConnection;
use crate::server::CapabilitySet;

/// Idle time after which the connection of an application with nothing unfinished may be given to another.
const REUSE_AFTER: Duration = Duration::from_secs(60);
/// Time for which a task keeps its connection if its server gives no TTL, counted from the last request for it.
const TASK_HOLD: Duration = Duration::from_secs(60 * 60);
/// Maximum time for which a task keeps its connection, regardless of its server.
const MAX_TASK_HOLD: Duration = Duration::from_secs(24 * 60 * 60);
/// The most tasks that keep one connection; those beyond it do not.
const MAX_OPEN_TASKS: usize = 1000;

/// All connections of one server. The first is the primary one, which is permanent.
#[derive(Debug)]
pub(super) struct ConnectionPool {
    all: Vec<PooledConnection>,
}

#[derive(Debug)]
struct PooledConnection {
    line: Arc<SupervisedConnection>,
    /// True if lists are read from the connection, for all applications with its abilities.
    is_common: bool,
    /// Application that answers the server's requests on this connection.
    holder: Option<ApplicationIdentity>,
    usage: Arc<ConnectionUsage>,
}

#[derive(Debug)]
struct ConnectionUsage {
    users: AtomicUsize,
    /// Number of these calls that wait until the server's era is known.
    waiting: AtomicUsize,
    used: Mutex<Instant>,
    /// Tasks running at the server whose result has not been fetched.
    tasks: Mutex<HashMap<String, OpenTask>>,
    /// True if a call was abandoned about which the server may still ask.
    unfinished: AtomicBool,
}

/// A task that keeps its connection.
#[derive(Debug)]
struct OpenTask {
    /// Last known state of the task.
    last: Task,
    /// Time until which the task keeps its connection.
    until: Instant,
    /// Time of the last request for the task.
    asked: Instant,
}

/// There are as many connections as there may be, and all are in use.
#[derive(Debug)]
pub(super) struct PoolExhaustedError {
    /// Number of connections that are only kept for tasks.
    pub(super) for_tasks: usize,
}

/// A connection while a call uses it. Dropped before [`ConnectionLease::finish`] it counts as a call that was given up.
#[derive(Debug)]
pub(crate) struct ConnectionLease {
    pub(crate) line: Arc<SupervisedConnection>,
    usage: Arc<ConnectionUsage>,
    begun: bool,
    finished: bool,
}

/// The tasks that keep a connection.
#[derive(Debug)]
pub(crate) struct TaskHold(Arc<ConnectionUsage>);

impl TaskHold {
    /// Updates the state of a task. The task keeps its connection until it ends or its time is over.
    pub(crate) fn note(&self, task: &Task) {
        if task.status.is_terminal() {
            return self.release(&task.task_id);
        }
        let now = Instant::now();
        let mut tasks = self.0.tasks.lock();
        let known = tasks.get(&task.task_id).map(|known| known.until);
        // The TTL counts from the creation of the task, so later states of it do not extend the time.
        let until = match (task.ttl_ms, known) {
            (Some(_), Some(known)) => known,
            (Some(ttl), None) => now + Duration::from_millis(ttl).min(MAX_TASK_HOLD),
            (None, _) => now + TASK_HOLD,
        };
        if known.is_none() && tasks.len() >= MAX_OPEN_TASKS {
            // Readers compare `until` themselves, so overdue entries have to go only when they take up room.
            tasks.retain(|_, task| task.until > now);
            if tasks.len() >= MAX_OPEN_TASKS {
                return;
            }
        }
        tasks.insert(task.task_id.clone(), OpenTask { last: task.clone(), until, asked: now });
    }

    /// Returns the last known state of a running task.
    pub(crate) fn last(&self, id: &str) -> Option<Task> {
        self.0.tasks.lock().get(id).map(|task| task.last.clone())
    }

    /// Records interest in a task. `says_so` is true if the application asked for it explicitly.
    pub(crate) fn keep(&self, id: &str, says_so: bool) {
        let now = Instant::now();
        if let Some(task) = self.0.tasks.lock().get_mut(id) {
            task.until = task.until.max(now + TASK_HOLD);
            if says_so {
                task.asked = now;
            }
        }
    }

    /// Releases a task that no application waits for.
    pub(crate) fn release(&self, id: &str) {
        self.0.tasks.lock().remove(id);
    }
}

impl ConnectionLease {
    /// Marks the call as sent.
    pub(crate) fn begin(&mut self) {
        // `Drop` comes here again, and the count must be lowered once only.
        if !self.begun {
            self.begun = true;
            self.usage.waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Returns the handle for the connection's tasks.
    pub(crate) fn tasks(&self) -> TaskHold {
        TaskHold(Arc::clone(&self.usage))
    }

    /// Marks the call as finished, or as one that the server cannot ask about.
    pub(crate) fn finish(&mut self) {
        self.finished = true;
    }
}

impl Drop for ConnectionLease {
    fn drop(&mut self) {
        // A call that ends before it went out has to leave the number of those that wait, too.
        self.begin();
        if !self.finished {
            self.usage.unfinished.store(true, Ordering::Release);
        }
        // Set before the user is counted off: a sweep in between would see no user and an old time, and close
        // the connection.
        *self.usage.used.lock() = Instant::now();
        self.usage.users.fetch_sub(1, Ordering::AcqRel);
    }
}

impl PooledConnection {
    fn new(line: Arc<SupervisedConnection>, is_common: bool, holder: Option<ApplicationIdentity>) -> Self {
        let usage = ConnectionUsage {
            users: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            tasks: Mutex::default(),
            unfinished: AtomicBool::new(false),
        };
        Self { line, is_common, holder, usage: Arc::new(usage) }
    }

    fn lease(&self) -> ConnectionLease {
        self.usage.users.fetch_add(1, Ordering::AcqRel);
        self.usage.waiting.fetch_add(1, Ordering::AcqRel);
        ConnectionLease {
            line: Arc::clone(&self.line),
            usage: Arc::clone(&self.usage),
            begun: false,
            finished: false,
        }
    }

    /// Returns true if a call is running or starting on the connection, waits for answers, or fetches a task's result.
    fn is_busy(&self) -> bool {
        self.usage.users.load(Ordering::Acquire) > 0 || self.has_parked()
    }

    fn has_parked(&self) -> bool {
        self.line.live().is_some_and(|live| (live.connection.parked)() > 0)
    }

    /// Returns true if the result of one of its tasks may still be requested. Closing the connection ends its process
    /// or session, and the tasks with it.
    fn has_tasks(&self) -> bool {
        let now = Instant::now();
        // Nobody can fetch the tasks of an application that is gone.
        !self.holder.as_ref().is_some_and(ApplicationIdentity::is_gone)
            && self.usage.tasks.lock().values().any(|task| task.until > now)
    }

    /// Returns true if a task or anything else was requested on the connection within that time.
    fn is_asked(&self, within: Duration) -> bool {
        self.idle() < within || self.usage.tasks.lock().values().any(|task| task.asked.elapsed() < within)
    }

    fn idle(&self) -> Duration {
        self.usage.used.lock().elapsed()
    }

    /// Returns true if another application may take over the connection.
    fn is_free(&self) -> bool {
        let Some(holder) = &self.holder else {
            // Calls of everybody's run on it if its server was a newer one when they began.
            let users = self.usage.users.load(Ordering::Acquire);
            // The users are read first: a lease that ends in between lowers `waiting`, which at worst keeps it.
            return users <= self.usage.waiting.load(Ordering::Acquire)
                && !self.has_parked()
                && !self.has_tasks();
        };
        !self.is_busy()
            && !self.usage.unfinished.load(Ordering::Acquire)
            && !self.has_tasks()
            && (holder.is_gone() || self.idle() >= REUSE_AFTER)
    }

    /// Returns true if the connection can be closed without loss.
    fn is_dispensable(&self) -> bool {
        !self.is_busy() && !self.has_tasks()
    }
}

impl ConnectionPool {
    pub(super) fn new(primary: Arc<SupervisedConnection>) -> Self {
        Self { all: vec![PooledConnection::new(primary, true, None)] }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn primary(&self) -> &Arc<SupervisedConnection> {
        &self.all[0].line
    }

    /// Returns the connection from which the lists for these capabilities are read.
    pub(super) fn common(
        &mut self,
        abilities: CapabilitySet,
        start: impl FnOnce() -> Arc<SupervisedConnection>,
    ) -> &Arc<SupervisedConnection> {
        let found = self.all.iter().position(|seat| seat.is_common && seat.line.abilities == abilities);
        let position = found.unwrap_or_else(|| {
            self.all.push(PooledConnection::new(start(), true, None));
            self.all.len() - 1
        });
        &self.all[position].line
    }

    /// Returns the application's own connection, if it has one.
    pub(super) fn own(
        &self,
        application: &ApplicationIdentity,
        abilities: CapabilitySet,
    ) -> Option<&Arc<SupervisedConnection>> {
        let mut own = self.all.iter().filter(|seat| !seat.is_common && seat.line.abilities == abilities);
        own.find(|seat| seat.holder.as_ref() == Some(application)).map(|seat| &seat.line)
    }

    /// Leases a shared connection.
    pub(super) fn lease_common(
        &mut self,
        abilities: CapabilitySet,
        start: impl FnOnce() -> Arc<SupervisedConnection>,
    ) -> ConnectionLease {
        let line = Arc::clone(self.common(abilities, start));
        let seat = self.all.iter().find(|seat| Arc::ptr_eq(&seat.line, &line));
        // `common` took the line from one of the seats, so the other value is never used.
        seat.unwrap_or(&self.all[0]).lease()
    }

    /// Leases a connection whose requests only this application answers. Also returns a connection that had to make
    /// room and must be stopped: an unused one, or one whose tasks were not requested within `idle`.
    pub(super) fn lease_own(
        &mut self,
        application: &ApplicationIdentity,
        abilities: CapabilitySet,
        (max, idle): (usize, Duration),
        start: impl FnOnce() -> Arc<SupervisedConnection>,
    ) -> Result<(ConnectionLease, Option<Arc<SupervisedConnection>>), PoolExhaustedError> {
        let fits = |seat: &PooledConnection| seat.line.abilities == abilities;
        let is_own = |seat: &&PooledConnection| fits(seat) && seat.holder.as_ref() == Some(application);
        // However many calls run on it: what is asked there is asked of the same application.
        if let Some(own) = self.all.iter().find(is_own) {
            return Ok((own.lease(), None));
        }
        if let Some(free) = self.all.iter_mut().find(|seat| fits(seat) && seat.is_free()) {
            free.holder = Some(application.clone());
            free.usage.unfinished.store(false, Ordering::Release);
            return Ok((free.lease(), None));
        }
        let mut gone = None;
        if self.all.len() >= max {
            let own = self.all.iter().enumerate().filter(|(_, seat)| !seat.is_common && !seat.is_busy());
            let may_go = own.filter(|(_, seat)| !seat.has_tasks() || !seat.is_asked(idle));
            // Connections without tasks go first, however briefly they were idle: nothing is lost with them.
            let oldest = may_go.max_by_key(|(_, seat)| (!seat.has_tasks(), seat.idle()));
            let for_tasks = || self.all.iter().filter(|seat| !seat.is_busy() && seat.has_tasks()).count();
            let oldest = oldest
                .map(|(position, _)| position)
                .ok_or_else(|| PoolExhaustedError { for_tasks: for_tasks() })?;
            gone = Some(self.all.remove(oldest).line);
        }
        let seat = PooledConnection::new(start(), false, Some(application.clone()));
        let lease = seat.lease();
        self.all.push(seat);
        Ok((lease, gone))
    }

    /// Returns true if all connections can be closed without loss.
    pub(super) fn is_idle(&self) -> bool {
        self.all.iter().all(PooledConnection::is_dispensable)
    }

    /// Removes common connections whose lists are no longer read, except the primary one.
    pub(super) fn release(
        &mut self,
        is_wanted: &impl Fn(CapabilitySet) -> bool,
    ) -> Vec<Arc<SupervisedConnection>> {
        // `partition` visits the seats in order, and the first one is the primary connection.
        let mut position = 0;
        self.take(|seat| {
            position += 1;
            position > 1 && seat.is_common && !is_wanted(seat.line.abilities) && seat.is_dispensable()
        })
    }

    /// Removes connections of single applications that have gone or have been idle for this long.
    pub(super) fn sweep(&mut self, idle: Duration) -> Vec<Arc<SupervisedConnection>> {
        let is_over = |seat: &PooledConnection| {
            let holder = seat.holder.as_ref();
            seat.is_dispensable() && (holder.is_some_and(ApplicationIdentity::is_gone) || seat.idle() >= idle)
        };
        // Common connections stay for their lists when they are idle, so only their holder is forgotten.
        for seat in self.all.iter_mut().filter(|seat| seat.is_common) {
            if seat.holder.is_some() && seat.is_dispensable() && seat.idle() >= idle {
                seat.holder = None;
            }
        }
        self.take(|seat| !seat.is_common && is_over(seat))
    }

    fn take(&mut self, is_over: impl FnMut(&PooledConnection) -> bool) -> Vec<Arc<SupervisedConnection>> {
        let (over, stay) = std::mem::take(&mut self.all).into_iter().partition(is_over);
        self.all = stay;
        let over: Vec<PooledConnection> = over;
        over.into_iter().map(|seat| seat.line).collect()
    }

    /// Iterates over all connections.
    pub(super) fn lines(&self) -> impl Iterator<Item = &Arc<SupervisedConnection>> {
        self.all.iter().map(|seat| &seat.line)
    }

    /// Returns the application that holds the connection with this number, if any.
    pub(super) fn holder(&self, line: u64) -> Option<&ApplicationIdentity> {
        self.all.iter().find(|seat| seat.line.id == line)?.holder.as_ref()
    }

    /// Iterates over all connections but the primary one.
    pub(super) fn others(&self) -> impl Iterator<Item = &Arc<SupervisedConnection>> {
        self.all.iter().skip(1).map(|seat| &seat.line)
    }
}
