//! The event stream, which reports changes to browsers and programs.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::{Extension, Json};
use futures::Stream;
use hospes_host::approvals::ViewerRegistration;
use hospes_host::{ApprovalQueue, PinManager, PolicyEnforcer, Sampler};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::body::JsonBody;
use crate::api_error::{ApiError, ApiResult};
use crate::browser_auth::ConsoleCaller;
use crate::client_quota::QuotaPermit;
use crate::console::Console;
use crate::events::{EventTopic, PageStream};
use crate::team::{TeamConsole, TeamRole};

/// Maximum length of the name of a window, in bytes.
const MAX_WINDOW_NAME: usize = 64;
/// Interval at which the audit log and the session are checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which the session of a person is looked up in the state that all nodes share.
const SESSION_INTERVAL: Duration = Duration::from_secs(3);
/// Minimum time between two events about running calls, because there may be thousands of them in a second.
const CALLS_INTERVAL: Duration = Duration::from_millis(400);
/// Interval at which a keep-alive comment is sent without events.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Minimum time between two events, because starting servers change their state often.
const MIN_EVENT_INTERVAL: Duration = Duration::from_millis(100);

pub(super) async fn stream(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    // Each stream holds a connection and reads the audit log once a second.
    let permit = console.streams().take(caller.client())?;
    // Subscribed before `hello` is sent, so that every later change is reported.
    let sessions = console.news().sessions();
    let queue = console.queue().map(ApprovalQueue::subscribe);
    let pins = console.pins().map(PinManager::changes);
    let models = console.sampler().map(Sampler::changes);
    // Only pages show running calls, which are everybody's. They are collected from now on.
    let is_shown = |_: &&PolicyEnforcer| match &caller {
        ConsoleCaller::Browser(_) => true,
        ConsoleCaller::Person(person) => person.has(TeamRole::Admin),
        ConsoleCaller::Program(_) => false,
    };
    let calls = console.guard().filter(is_shown).map(|guard| guard.activity().watch());
    // A program that follows the events can decide, and so can a person of a team. Browsers of this machine are reported
    // as present elsewhere, once for all of them.
    let attendance = match &caller {
        ConsoleCaller::Browser(_) => None,
        ConsoleCaller::Program(_) => console.queue().map(|queue| queue.register_viewer(None)),
        ConsoleCaller::Person(_) => {
            console.queue().map(|queue| queue.register_viewer(console.team().map(TeamConsole::origin)))
        }
    };
    let is_here = matches!(caller, ConsoleCaller::Browser(_));
    let page = is_here.then(|| console.news().focus().open_stream());
    let follower = EventFollower {
        console,
        caller,
        sessions,
        queue,
        pins,
        models,
        calls,
        calls_at: Instant::now(),
        polled: Instant::now(),
        servers: None,
        recorded: None,
        expiry: None,
        grants: 0,
        session_checked: Instant::now(),
        is_active: true,
        _attendance: attendance,
        _page: page,
        _permit: permit,
    };
    let events = futures::stream::unfold((follower, true), async |(mut follower, is_first)| {
        let name = if is_first { follower.begin().await } else { follower.next().await?.as_str() };
        // Browsers do not dispatch an event without data.
        Some((Ok(Event::default().event(name).data("{}")), (follower, false)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FocusBody {
    /// Random name of the window.
    window: String,
    focused: bool,
}

/// Remembers that a window of a browser has the focus, so that the person is not notified of what they see.
pub(super) async fn focus(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    JsonBody(FocusBody { window, focused }): JsonBody<FocusBody>,
) -> ApiResult<Value> {
    // Programs have no window, and those of a team are on other machines than the notices.
    if matches!(caller, ConsoleCaller::Browser(_)) && window.len() <= MAX_WINDOW_NAME {
        console.news().focus().set(window, focused);
    }
    Ok(Json(json!({})))
}

/// A subscriber of the event stream.
struct EventFollower {
    console: Console,
    caller: ConsoleCaller,
    sessions: watch::Receiver<u64>,
    queue: Option<watch::Receiver<u64>>,
    pins: Option<watch::Receiver<u64>>,
    models: Option<watch::Receiver<u64>>,
    calls: Option<watch::Receiver<u64>>,
    /// Time of the last event about running calls.
    calls_at: Instant,
    /// Time at which the audit log was read last.
    polled: Instant,
    servers: Option<u64>,
    recorded: Option<u64>,
    /// Time at which the next approval expires if there is no decision.
    expiry: Option<Timestamp>,
    grants: usize,
    /// Time at which the state was asked about the session of a person, and what it said.
    session_checked: Instant,
    is_active: bool,
    _attendance: Option<ViewerRegistration>,
    _page: Option<PageStream>,
    _permit: QuotaPermit,
}

impl EventFollower {
    async fn begin(&mut self) -> &'static str {
        self.recorded = self.last_recorded().await;
        self.poll_approvals();
        "hello"
    }

    /// Waits for the next event. Returns `None` once the session is over.
    async fn next(&mut self) -> Option<EventTopic> {
        tokio::time::sleep(MIN_EVENT_INTERVAL).await;
        loop {
            if !self.is_session_active().await {
                return None;
            }
            // `MAX` before the first change, when no previous state is known.
            let seen = self.servers.unwrap_or(u64::MAX);
            // All of these only wait for a change, and dropped ones notice it the next time.
            tokio::select! {
                now = self.console.servers().changed(seen) => {
                    let is_news = self.servers.replace(now).is_some();
                    if is_news {
                        return Some(EventTopic::Servers);
                    }
                }
                changed = self.sessions.changed() => {
                    changed.ok()?;
                    // Checked first, because it may have been this session that ended.
                    if self.is_session_active().await {
                        return Some(EventTopic::Sessions);
                    }
                }
                () = wait_for_change(&mut self.queue) => {
                    let is_granted = self.poll_approvals();
                    return Some(if is_granted { EventTopic::Grants } else { EventTopic::Approvals });
                }
                () = wait_for_change(&mut self.pins) => return Some(EventTopic::Definitions),
                () = wait_for_change(&mut self.models) => return Some(EventTopic::Models),
                () = wait_for_calls(&mut self.calls, self.calls_at) => {
                    self.calls_at = Instant::now();
                    return Some(EventTopic::Calls);
                }
                // Until a fixed time, because other events would put it off for ever.
                () = tokio::time::sleep_until(self.polled + POLL_INTERVAL) => {
                    self.polled = Instant::now();
                    self.console.news().focus().forget_silent();
                    // Expiry takes effect only when the queue is read.
                    if self.expiry.is_some_and(|expiry| expiry <= Timestamp::now()) {
                        self.poll_approvals();
                        continue;
                    }
                    let last = self.last_recorded().await;
                    if last != self.recorded {
                        self.recorded = last;
                        return Some(EventTopic::Activity);
                    }
                }
            }
        }
    }

    /// Returns true if the caller has no session, or it has not ended.
    async fn is_session_active(&mut self) -> bool {
        match (&self.caller, self.console.team()) {
            (ConsoleCaller::Program(_), _) => true,
            (ConsoleCaller::Browser(id), _) => self.console.sessions().is_active(id),
            (ConsoleCaller::Person(_), None) => false,
            (ConsoleCaller::Person(person), Some(team)) => {
                if self.session_checked.elapsed() >= SESSION_INTERVAL {
                    self.session_checked = Instant::now();
                    // While the state does not answer, nothing can be read with the session either.
                    self.is_active = team.is_active(person).await.unwrap_or(true);
                }
                self.is_active
            }
        }
    }

    /// Records when the next approval expires. Returns true if lasting permissions have changed.
    fn poll_approvals(&mut self) -> bool {
        let Some(queue) = self.console.queue() else { return false };
        self.expiry = queue.pending().iter().map(|approval| approval.expires_at).min();
        let grants = queue.grants().len();
        std::mem::replace(&mut self.grants, grants) != grants
    }

    async fn last_recorded(&self) -> Option<u64> {
        let reader = self.console.audit_reader()?;
        // While the database of a fleet is away, other events do not wait for it.
        match tokio::time::timeout(POLL_INTERVAL, reader.last_number()).await {
            Ok(last) => last.ok(),
            Err(_) => self.recorded,
        }
    }
}

/// Waits for a change of the running calls, at least [`CALLS_INTERVAL`] after the last event about them.
async fn wait_for_calls(calls: &mut Option<watch::Receiver<u64>>, last: Instant) {
    tokio::time::sleep_until(last + CALLS_INTERVAL).await;
    wait_for_change(calls).await;
}

/// Waits for a change of the source.
async fn wait_for_change(changes: &mut Option<watch::Receiver<u64>>) {
    if let Some(changes) = changes
        && changes.changed().await.is_ok()
    {
        return;
    }
    // A source that is missing or has ended must not end the stream.
    std::future::pending().await
}
