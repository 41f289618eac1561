//! The terminal while it is ours, and the two halves that keep it going: one that draws and reads keys, one that talks to
//! the host.

use std::io::{self, Stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, Event as Input, KeyEventKind, poll, read,
};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute};
use hospes_console::{ClientError, LocalConsole};
use hospes_host::approvals::{Approval, ApprovalDecision};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use tokio::sync::{mpsc, watch};

use super::draw::draw;
use super::editor;
use super::state::{QueueSnapshot, ScreenEffect, ScreenEvent, ScreenState};
use super::{console_requests, fetch_queue};
use crate::commands::InterruptListener;
use crate::exit::{CliError, CliResult};

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

/// Something decided, on its way to the host.
struct QueuedDecision {
    id: String,
    decision: ApprovalDecision,
    words: String,
}

/// Shows the approval queue until the person has had enough, or the program is asked to end.
pub(super) async fn run(console: LocalConsole) -> CliResult {
    let mut ending = InterruptListener::new()?;
    // A watch for the queue, of which only the newest state is drawn. Channels for decisions and their
    // answers, of which none may be lost.
    let (tell, news) = watch::channel(QueueUpdate::None);
    let (post, posts) = mpsc::channel(CHANNEL_CAPACITY);
    let (answer, answers) = mpsc::channel(CHANNEL_CAPACITY);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut drawing = {
        let is_over = Arc::clone(&is_over);
        // Reading a terminal blocks.
        tokio::task::spawn_blocking(move || ScreenLoop { news, post, answers, is_over }.run())
    };
    let talking = sync_with_host(console, &tell, posts, &answer);
    // `talking` never ends by itself; it is dropped as soon as the screen is left.
    let drawn = tokio::select! {
        drawn = ending.unless(&mut drawing) => drawn,
        never = talking => match never {},
    };
    let drawn = match drawn {
        Some(drawn) => drawn,
        None => {
            // Relaxed is enough for a flag that guards no other data. The thread is awaited afterwards,
            // because it gives the terminal back.
            is_over.store(true, Ordering::Relaxed);
            drawing.await
        }
    };
    let drawn = drawn.map_err(|error| CliError::usage("the approval screen failed").with_cause(&error))?;
    drawn.map_err(|error| CliError::usage("cannot use this terminal").with_cause(&error))
}

/// Follows the approval queue and tells the host what was decided, for as long as anybody looks.
async fn sync_with_host(
    mut console: LocalConsole,
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
                // Both futures keep what has arrived, so that dropping one loses nothing. The decision is
                // sent in the body of its branch, which is not dropped.
                let heard = tokio::select! {
                    heard = news.next() => heard,
                    Some(QueuedDecision { id, decision, words }) = posts.recv() => {
                        let done: Result<Approval, ClientError> =
                            console.post(&format!("approvals/{id}"), &decision).await;
                        let done = done.map(|_| words).map_err(|error| match error {
                            ClientError::Refused { code, message } => (code, message),
                            other => ("unreachable".to_owned(), other.to_string()),
                        });
                        // Whoever wanted to know may have gone away.
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
        // Another one may run by now.
        if let Ok((other, _)) = console_requests::find_host().await {
            console = other;
        }
    }
}

/// The half that draws.
struct ScreenLoop {
    news: watch::Receiver<QueueUpdate>,
    post: mpsc::Sender<QueuedDecision>,
    answers: mpsc::Receiver<ScreenEvent>,
    is_over: Arc<AtomicBool>,
}

impl ScreenLoop {
    fn run(mut self) -> io::Result<()> {
        let begun = Instant::now();
        let mut state = ScreenState::default();
        let mut screen = TerminalScreen::enter()?;
        let mut drawn_at: Option<Instant> = None;
        while !self.is_over.load(Ordering::Relaxed) {
            let mut events = Vec::new();
            // Answers first: what was done here is no news.
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
            // The keyboard is polled with a time limit, because nothing else would wake this thread for news.
            if events.is_empty() && poll(KEY_POLL_INTERVAL)? {
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
                        // The other half is there for as long as this one is.
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

/// The terminal while it is ours. It is given back when this is dropped, and when anything panics.
struct TerminalScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl TerminalScreen {
    fn enter() -> io::Result<Self> {
        // What a panic says has to be seen, so the terminal is given back before it speaks.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave_screen();
            before(panic);
        }));
        enter_screen()?;
        // From here on it is given back whatever happens.
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()));
        terminal.map(|terminal| Self { terminal }).inspect_err(|_| leave_screen())
    }

    /// Does something with the terminal as it was before.
    fn aside<T>(&mut self, work: impl FnOnce() -> T) -> io::Result<T> {
        leave_screen();
        let done = work();
        enter_screen()?;
        // What was typed meanwhile was meant for what had the terminal.
        while poll(Duration::ZERO)? {
            read()?;
        }
        // What is known of the screen is not so any more.
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(done)
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        leave_screen();
    }
}

fn enter_screen() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, cursor::Hide)
        .inspect_err(|_| leave_screen())
}

fn leave_screen() {
    // Ignored, because the terminal may be gone and this also runs on drop and in a panic.
    let _gone = execute!(io::stdout(), DisableBracketedPaste, LeaveAlternateScreen, cursor::Show);
    let _gone = disable_raw_mode();
}
