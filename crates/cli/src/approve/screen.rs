//! The full-screen view of `hospes approve`. One half draws and reads keys, the other one communicates with the host.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{Event as Input, KeyEventKind, read};
use hospes_console::{ClientError, LocalConsole};
use hospes_host::approvals::{Approval, ApprovalDecision};
use tokio::sync::{mpsc, watch};

use super::draw::draw;
use super::editor;
use super::state::{QueueSnapshot, ScreenEffect, ScreenEvent, ScreenState};
use super::{console_requests, fetch_queue};
use crate::commands::InterruptListener;
use crate::exit::{CliError, CliResult};
use crate::platform::poll_input;
use crate::terminal_screen::TerminalScreen;

/// Time to wait for a key before other events are checked.
const KEY_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval at which remaining times are redrawn.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);
/// Delay before a lost connection to the host is retried.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of decisions, and of answers to them, in transit.
const CHANNEL_CAPACITY: usize = 8;

/// Last known state of the host: its approval queue, or the reason why that is unknown.
type QueueUpdate = Option<Result<QueueSnapshot, String>>;

/// A decision on its way to the host.
struct QueuedDecision {
    id: String,
    decision: ApprovalDecision,
    words: String,
}

/// Shows the approval queue until the person leaves it or the program is asked to end. If another screen
/// opened this one, keys decide nothing before the person has selected an approval.
pub(super) async fn run(console: LocalConsole, is_inner: bool) -> CliResult {
    let mut ending = InterruptListener::new()?;
    // The queue is sent through a watch channel, because only its newest state is drawn. Decisions and their answers go
    // through bounded channels, because none may be lost.
    let (tell, news) = watch::channel(QueueUpdate::None);
    let (post, posts) = mpsc::channel(CHANNEL_CAPACITY);
    let (answer, answers) = mpsc::channel(CHANNEL_CAPACITY);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut drawing = {
        let is_over = Arc::clone(&is_over);
        // Terminal input is read with blocking calls.
        tokio::task::spawn_blocking(move || ScreenLoop { news, post, answers, is_over, is_inner }.run())
    };
    let talking = sync_with_host((console, is_inner), &tell, posts, &answer);
    // `talking` never ends by itself; it is dropped when the screen is closed.
    let drawn = tokio::select! {
        drawn = ending.unless(&mut drawing) => drawn,
        never = talking => match never {},
    };
    let drawn = match drawn {
        Some(drawn) => drawn,
        None => {
            // Relaxed is enough for a flag that guards no other data. The thread is awaited afterwards, because it
            // restores the terminal.
            is_over.store(true, Ordering::Relaxed);
            drawing.await
        }
    };
    let drawn = drawn.map_err(|error| CliError::usage("the approval screen failed").with_cause(&error))?;
    drawn.map_err(|error| CliError::usage("cannot use this terminal").with_cause(&error))
}

/// Follows the approval queue and sends decisions to the host. Reconnects after failures and never returns.
async fn sync_with_host(
    (mut console, is_own_host): (LocalConsole, bool),
    tell: &watch::Sender<QueueUpdate>,
    mut posts: mpsc::Receiver<QueuedDecision>,
    answer: &mpsc::Sender<ScreenEvent>,
) -> std::convert::Infallible {
    let mut pins = None;
    loop {
        let lost = |error: &ClientError| tell.send_replace(Some(Err(error.to_string())));
        match console.follow().await {
            Err(error) => {
                lost(&error);
            }
            Ok(mut news) => loop {
                // Both futures keep what has been received, so that dropping one loses nothing. The decision is sent in
                // the body of its branch, which is not dropped.
                let heard = tokio::select! {
                    heard = news.next() => heard,
                    Some(QueuedDecision { id, decision, words }) = posts.recv() => {
                        let done: Result<Approval, ClientError> =
                            console.post(&format!("approvals/{id}"), &decision).await;
                        let done = done.map(|_| words).map_err(|error| match error {
                            ClientError::Refused { code, message } => (code, message),
                            other => ("unreachable".to_owned(), other.to_string()),
                        });
                        // The receiver is gone if the screen has been closed.
                        let _gone = answer.send(ScreenEvent::Decided { id, done }).await;
                        Some("approvals".to_owned())
                    }
                };
                let Some(heard) = heard else {
                    tell.send_replace(Some(Err("the host has stopped".to_owned())));
                    break;
                };
                if matches!(heard.as_str(), "hello" | "definitions" | "servers") {
                    pins = console_requests::fetch_pins(&console).await.ok().flatten();
                }
                if matches!(heard.as_str(), "hello" | "approvals" | "grants" | "definitions") {
                    match fetch_queue(&console).await {
                        Ok(queue) => {
                            tell.send_replace(Some(Ok(QueueSnapshot { pins: pins.clone(), ..queue })));
                        }
                        Err(error) => {
                            lost(&error);
                        }
                    }
                }
            },
        }
        tokio::time::sleep(RECONNECT_DELAY).await;
        // Another host may have been started in the meantime.
        if !is_own_host && let Ok((other, _)) = console_requests::find_host().await {
            console = other;
        }
    }
}

/// The half that draws and reads keys. It runs on a blocking thread.
struct ScreenLoop {
    news: watch::Receiver<QueueUpdate>,
    post: mpsc::Sender<QueuedDecision>,
    answers: mpsc::Receiver<ScreenEvent>,
    is_over: Arc<AtomicBool>,
    is_inner: bool,
}

impl ScreenLoop {
    fn run(mut self) -> io::Result<()> {
        let begun = Instant::now();
        let mut state = ScreenState::new(self.is_inner);
        let mut screen = TerminalScreen::enter()?;
        let mut drawn_at: Option<Instant> = None;
        while !self.is_over.load(Ordering::Relaxed) {
            let mut events = Vec::new();
            // Answers first, so that an approval decided here is not reported as decided elsewhere.
            while let Ok(event) = self.answers.try_recv() {
                events.push(event);
            }
            if self.news.has_changed().unwrap_or(false) {
                match self.news.borrow_and_update().clone() {
                    Some(Ok(seen)) => events.push(ScreenEvent::Seen(Box::new(seen))),
                    Some(Err(why)) => events.push(ScreenEvent::Lost(why)),
                    None => {}
                }
            }
            let mut is_resized = false;
            // The keyboard is polled with a time limit, because no event would wake this thread for queue updates.
            if events.is_empty() && poll_input(KEY_POLL_INTERVAL)? {
                match read()? {
                    // Some terminals report the release of a key, too, which would count as a second press.
                    Input::Key(key) if key.kind != KeyEventKind::Release => {
                        events.push(ScreenEvent::Key(key))
                    }
                    Input::Paste(text) => events.push(ScreenEvent::Paste(text)),
                    Input::Resize(..) => is_resized = true,
                    _ => {}
                }
            }
            let was_armed = state.is_armed();
            let is_idle = events.is_empty() && !is_resized;
            if is_idle {
                events.push(ScreenEvent::Tick);
            }
            for event in events {
                match state.handle_event(event, begun.elapsed()) {
                    None => {}
                    Some(ScreenEffect::Quit) => return Ok(()),
                    Some(ScreenEffect::Decide { id, decision, words }) => {
                        // The receiver lives as long as this loop.
                        let _gone = self.post.blocking_send(QueuedDecision { id, decision, words });
                    }
                    Some(ScreenEffect::Edit { id, text }) => {
                        // On this thread, because nothing may be drawn while the editor has the terminal.
                        let text = screen.aside(|| editor::edit(&text))?;
                        state.handle_event(ScreenEvent::Edited { id, text }, begun.elapsed());
                    }
                }
            }
            // Keys that allow are drawn differently once they are accepted, which no event announces.
            let is_new = !is_idle || was_armed != state.is_armed();
            if is_new || drawn_at.is_none_or(|at| at.elapsed() >= REDRAW_INTERVAL) {
                let mut room = state.room;
                screen.terminal.draw(|frame| room = draw(frame, &state))?;
                state.room = room;
                drawn_at = Some(Instant::now());
            }
        }
        Ok(())
    }
}
