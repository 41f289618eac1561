//! Many sessions, each with an open stream for what the server has to say.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};

use crate::call_load::{CallTarget, LEGACY_REVISION};
use crate::kept_connection::KeptConnection;

/// Sessions that are opened at once.
const OPENERS: usize = 32;

/// Time for one session with its stream.
const OPEN_LIMIT: Duration = Duration::from_secs(30);

/// Number of sessions that may fail before the rest is given up.
const MAX_FAILURES: usize = 100;

/// Method of the notification that is waited for.
const NOTIFICATION: &[u8] = b"notifications/tools/list_changed";

/// Observations of a stream.
#[derive(Debug)]
enum StreamNews {
    Notified(Instant),
    Ended(String),
}

/// Sessions with open streams. The streams end when it is dropped.
#[derive(Debug)]
pub(crate) struct StreamCrowd {
    /// Ids of the sessions that were opened.
    pub(crate) sessions: Vec<String>,
    pub(crate) open_time: Duration,
    /// Sessions that could not be opened, and streams that ended.
    pub(crate) failures: Vec<String>,
    news: mpsc::UnboundedReceiver<(usize, StreamNews)>,
    _streams: JoinSet<()>,
}

/// Times of a notification of all streams.
#[derive(Debug)]
pub(crate) struct NotificationRound {
    /// Nanoseconds until each stream had it, sorted.
    pub(crate) times: Vec<u64>,
    /// Notifications that streams got besides their first.
    pub(crate) repeats: usize,
}

impl StreamCrowd {
    /// Opens sessions at the targets in turn, until there are so many, or the time is up.
    pub(crate) async fn open(targets: &[CallTarget], count: usize, limit: Duration) -> Self {
        let start = Instant::now();
        let (told, news) = mpsc::unbounded_channel();
        let (mut sessions, mut failures) = (Vec::new(), Vec::new());
        let (mut opening, mut streams) = (JoinSet::new(), JoinSet::new());
        let mut begun = 0;
        while sessions.len() + failures.len() < count {
            while begun < count && opening.len() < OPENERS {
                let target = targets[begun % targets.len()].clone();
                begun += 1;
                opening.spawn(async move {
                    timeout(OPEN_LIMIT, open_stream(&target)).await.context("not open in time")?
                });
            }
            let Ok(Some(opened)) = timeout_at((start + limit).into(), opening.join_next()).await else {
                failures.push(format!("not all were open after {} s", limit.as_secs()));
                break;
            };
            match opened.map_err(anyhow::Error::from).and_then(|opened| opened) {
                Ok((session, connection)) => {
                    streams.spawn(follow(sessions.len(), connection, told.clone()));
                    sessions.push(session);
                }
                Err(error) => failures.push(format!("{error:#}")),
            }
            if failures.len() >= MAX_FAILURES {
                failures.push(format!("given up after {MAX_FAILURES} failures"));
                break;
            }
        }
        Self { sessions, open_time: start.elapsed(), failures, news, _streams: streams }
    }

    /// Waits until all streams have had a notification since a moment, at most for a time.
    pub(crate) async fn wait_for_notification(
        &mut self,
        since: Instant,
        limit: Duration,
    ) -> NotificationRound {
        let (mut first, mut repeats) = (HashMap::new(), 0);
        while first.len() < self.sessions.len() {
            let Ok(Some((stream, news))) = timeout_at((since + limit).into(), self.news.recv()).await else {
                break;
            };
            match news {
                StreamNews::Notified(_) if first.contains_key(&stream) => repeats += 1,
                StreamNews::Notified(at) => {
                    first.insert(stream, at.saturating_duration_since(since));
                }
                StreamNews::Ended(why) => self.failures.push(why),
            }
        }
        let nanos = first.into_values().map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let mut times: Vec<u64> = nanos.collect();
        times.sort_unstable();
        NotificationRound { times, repeats }
    }

    /// Returns the number of notifications that have come meanwhile, and notes streams that have ended.
    pub(crate) fn drain(&mut self) -> usize {
        let mut notified = 0;
        while let Ok((_, news)) = self.news.try_recv() {
            match news {
                StreamNews::Notified(_) => notified += 1,
                StreamNews::Ended(why) => self.failures.push(why),
            }
        }
        notified
    }
}

/// Opens a session, and returns its id.
pub(crate) async fn open_session(target: &CallTarget, connection: &mut KeptConnection) -> Result<String> {
    let content = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": LEGACY_REVISION, "capabilities": {}, "clientInfo": { "name": "load", "version": "1" },
    }});
    let mut body = Vec::new();
    let head =
        connection.post(&target.legacy_head("POST", None), content.to_string().as_bytes(), &mut body).await?;
    let answer = || String::from_utf8_lossy(&body).chars().take(300).collect::<String>();
    ensure!(head.status == 200, "initialize: {} {}", head.status, answer());
    let session = head.session.with_context(|| format!("initialize gave no session: {}", answer()))?;
    let content = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    let told = target.legacy_head("POST", Some(&session));
    let head = connection.post(&told, content.as_bytes(), &mut body).await?;
    ensure!(head.status < 300, "initialized: {}", head.status);
    Ok(session)
}

async fn open_stream(target: &CallTarget) -> Result<(String, KeptConnection)> {
    let mut connection = KeptConnection::open(target.port).await?;
    let session = open_session(target, &mut connection).await?;
    let head = connection.start_stream(&target.legacy_head("GET", Some(&session))).await?;
    if head.status != 200 {
        bail!("the stream was answered with {}", head.status);
    }
    Ok((session, connection))
}

/// Reads a stream to its end.
async fn follow(
    stream: usize,
    mut connection: KeptConnection,
    told: mpsc::UnboundedSender<(usize, StreamNews)>,
) {
    let mut received = Vec::new();
    let why = loop {
        match connection.read_chunk(&mut received).await {
            Ok(true) => {
                if !(received.ends_with(b"\n\n") || received.ends_with(b"\r\n\r\n")) {
                    continue;
                }
                let found = received.windows(NOTIFICATION.len()).any(|window| window == NOTIFICATION);
                if found && told.send((stream, StreamNews::Notified(Instant::now()))).is_err() {
                    return;
                }
                received = Vec::new();
            }
            Ok(false) => break "a stream ended".to_owned(),
            Err(error) => break format!("a stream broke: {error:#}"),
        }
    };
    // Nobody listens any more at the end of a run.
    let _ = told.send((stream, StreamNews::Ended(why)));
}
