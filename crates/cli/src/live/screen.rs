//! The loop that draws and reads keys on a thread of its own, and the task that acts on what the person asks for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{Event as Input, KeyEventKind, read};
use hospes_console::{ConsoleServer, LocalConsole};
use hospes_host::Host;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::cells::ScreenLook;
use super::data::{LiveData, LiveSources};
use super::draw::draw;
use super::screen_focus::ScreenFocus;
use super::state::{LiveEffect, LiveState};
use crate::commands::console::open_in_browser;
use crate::commands::request_end;
use crate::output::is_interactive;
use crate::platform::{FOREGROUND_INTERVAL, JobSignals, is_in_foreground, poll_input, suspend_process};
use crate::terminal_screen::{self, TerminalScreen};
use crate::{approve, paths, screen_log};

/// Time to wait for a key before other events are checked.
const KEY_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Minimum time between two redraws because something has happened.
const MIN_REDRAW_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which times are redrawn if nothing happens.
const IDLE_REDRAW_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time that the thread may take to end.
const CLOSE_TIME: Duration = Duration::from_secs(3);
/// Time that another screen on the same terminal has to end.
const OTHER_SCREEN_TIME: Duration = Duration::from_millis(500);
/// Maximum number of effects and messages in transit.
const CHANNEL_CAPACITY: usize = 8;

/// Flags from the task to the thread. Relaxed order is enough, because none of them guards other data.
#[derive(Debug, Default)]
struct ScreenFlags {
    is_over: AtomicBool,
    servers_changed: AtomicBool,
    /// The program is to be suspended, as by Ctrl-Z.
    suspend: AtomicBool,
    /// The program was continued, and the terminal may have been used by others.
    continued: AtomicBool,
}

/// Message from the task to the thread.
enum ScreenNews {
    /// The terminal is free again.
    Resume,
    /// Something to say to the person.
    Message(String),
}

/// The live screen. Dropping it ends its thread soon; [`LiveScreen::close`] waits for it.
pub(crate) struct LiveScreen {
    flags: Arc<ScreenFlags>,
    effects: tokio::sync::Mutex<mpsc::Receiver<LiveEffect>>,
    news: mpsc::Sender<ScreenNews>,
    thread: tokio::sync::Mutex<Option<JoinHandle<io::Result<()>>>>,
    signals: tokio::sync::Mutex<Option<JobSignals>>,
    focus: watch::Receiver<bool>,
}

impl LiveScreen {
    /// Shows the screen. From now on, what is printed goes to its log.
    pub(crate) fn open(sources: LiveSources, is_ascii: bool) -> Self {
        let flags = Arc::new(ScreenFlags::default());
        let (effect, effects) = mpsc::channel(CHANNEL_CAPACITY);
        let (news, received) = mpsc::channel(CHANNEL_CAPACITY);
        let signals = JobSignals::register();
        if let Err(error) = &signals {
            tracing::warn!(%error, "the screen cannot be suspended");
        }
        screen_log::show(true);
        let (is_focused, focus) = watch::channel(false);
        let screen = ScreenLoop {
            sources,
            effect,
            news: received,
            flags: Arc::clone(&flags),
            look: ScreenLook::current(is_ascii),
            focus: ScreenFocus::new(is_focused),
            state: LiveState::default(),
            data: LiveData::default(),
            begun: Instant::now(),
            is_stale: true,
        };
        // Terminal input is read with blocking calls.
        let thread = tokio::task::spawn_blocking(move || {
            let ended = screen.run();
            // Whatever the reason is, from here on text is printed again.
            screen_log::show(false);
            ended
        });
        Self {
            flags,
            effects: tokio::sync::Mutex::new(effects),
            news,
            thread: tokio::sync::Mutex::new(Some(thread)),
            signals: tokio::sync::Mutex::new(signals.ok()),
            focus,
        }
    }

    /// Returns whether the terminal has the focus, as it changes.
    pub(crate) fn is_focused(&self) -> watch::Receiver<bool> {
        self.focus.clone()
    }

    /// Acts on what the person asks for, until the screen ends. Never returns.
    pub(crate) async fn run(&self, host: &Host, console: Option<&ConsoleServer>) -> std::convert::Infallible {
        let mut effects = self.effects.lock().await;
        let mut signals = self.signals.lock().await;
        let next_signal = async |signals: &mut Option<JobSignals>| match signals {
            Some(signals) => match signals.next().await {
                true => self.flags.suspend.store(true, Ordering::Relaxed),
                false => self.flags.continued.store(true, Ordering::Relaxed),
            },
            None => std::future::pending().await,
        };
        let mut seen = 0;
        loop {
            tokio::select! {
                effect = effects.recv() => match effect {
                    Some(effect) => self.act(effect, console).await,
                    // The thread has ended.
                    None => return std::future::pending().await,
                },
                now = host.changed(seen) => {
                    seen = now;
                    self.flags.servers_changed.store(true, Ordering::Relaxed);
                    // Starting servers change their state often.
                    tokio::time::sleep(MIN_REDRAW_INTERVAL).await;
                }
                // A signal is kept until it is received, so that dropping the future loses none.
                () = next_signal(&mut signals) => {}
            }
        }
    }

    async fn act(&self, effect: LiveEffect, console: Option<&ConsoleServer>) {
        match effect {
            LiveEffect::OpenConsole => {
                let Some(console) = console else {
                    return self.say("the console is off: `--console off`, or the configuration").await;
                };
                let link = console.link().url().to_owned();
                let news = self.news.clone();
                self.say("opening the console in the browser …; otherwise: `hospes console`").await;
                // In a task of its own, because the page stays for some seconds.
                tokio::spawn(async move {
                    if !open_in_browser(&link).await {
                        // The line has no room for a link.
                        let text = "no browser could be opened; `hospes console` shows a link";
                        let _closed = news.send(ScreenNews::Message(text.to_owned())).await;
                    }
                });
            }
            LiveEffect::Approve => {
                let socket = paths::socket(std::process::id());
                // A pipe of Windows is no file.
                let socket = socket.filter(|socket| cfg!(windows) || socket.exists());
                let shown = match socket {
                    Some(socket) => {
                        let console = LocalConsole::at(socket).at_terminal(is_interactive());
                        approve::show_own(console).await.map_err(|why| why.message)
                    }
                    None => Err("approvals are decided through the console, which is off".to_owned()),
                };
                let _closed = self.news.send(ScreenNews::Resume).await;
                if let Err(why) = shown {
                    self.say(&why).await;
                }
            }
            // The thread does these itself.
            LiveEffect::Stop | LiveEffect::Suspend => {}
        }
    }

    async fn say(&self, text: &str) {
        let _closed = self.news.send(ScreenNews::Message(text.to_owned())).await;
    }

    /// Ends the screen, and waits until the terminal is restored. Returns false if it had ended before.
    pub(crate) async fn close(&self) -> bool {
        self.flags.is_over.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.lock().await.take() else { return false };
        let ended = tokio::select! {
            ended = tokio::time::timeout(CLOSE_TIME, thread) => ended,
            // The other screen ends by the same request. If nobody runs its task any more, nobody else says so.
            never = self.wake_thread() => match never {},
        };
        match ended {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!(%error, "the live screen ended"),
            Ok(Err(error)) => tracing::error!(%error, "the live screen failed"),
            // Reading from a terminal that is gone may never end, and must not keep the host running.
            Err(_) => {
                terminal_screen::leave();
                screen_log::show(false);
                tracing::warn!("the live screen did not end in time");
            }
        }
        true
    }

    /// Wakes the thread from waiting for another screen, after the time that this one has to end. Never returns.
    async fn wake_thread(&self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(OTHER_SCREEN_TIME).await;
            let _closed = self.news.try_send(ScreenNews::Resume);
        }
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        self.flags.is_over.store(true, Ordering::Relaxed);
    }
}

/// The thread that draws and reads keys.
struct ScreenLoop {
    sources: LiveSources,
    effect: mpsc::Sender<LiveEffect>,
    news: mpsc::Receiver<ScreenNews>,
    flags: Arc<ScreenFlags>,
    look: ScreenLook,
    focus: ScreenFocus,
    state: LiveState,
    data: LiveData,
    begun: Instant,
    /// True if there may be something new since the last draw.
    is_stale: bool,
}

impl ScreenLoop {
    fn run(mut self) -> io::Result<()> {
        let mut screen = TerminalScreen::enter()?;
        let mut drawn_at: Option<Instant> = None;
        while !self.flags.is_over.load(Ordering::Relaxed) {
            let mut is_typed = self.receive();
            // The keyboard is polled with a time limit, because nothing else would wake this thread.
            if terminal_screen::in_turn(|| poll_input(KEY_POLL_INTERVAL))? {
                is_typed = true;
                let effect = self.input(read()?);
                if let Some(effect) = effect
                    && self.act(effect, &mut screen)?
                {
                    return Ok(());
                }
            }
            if self.flags.suspend.swap(false, Ordering::Relaxed) {
                self.suspend(&mut screen)?;
                is_typed = true;
            }
            let is_continued = self.flags.continued.swap(false, Ordering::Relaxed);
            if terminal_screen::was_interrupted() || is_continued {
                screen.resume()?;
                is_typed = true;
            }
            self.focus.tick(Instant::now());
            self.is_stale |= self.sources.has_changed();
            self.is_stale |= self.flags.servers_changed.swap(false, Ordering::Relaxed);
            let elapsed = drawn_at.map(|at| at.elapsed());
            let is_due = elapsed.is_none_or(|elapsed| {
                elapsed >= IDLE_REDRAW_INTERVAL || self.is_stale && elapsed >= MIN_REDRAW_INTERVAL
            });
            if is_typed || is_due {
                self.draw(&mut screen)?;
                drawn_at = Some(Instant::now());
            }
        }
        Ok(())
    }

    /// Takes messages of the task. Returns true if there were any.
    fn receive(&mut self) -> bool {
        let mut is_any = false;
        while let Ok(news) = self.news.try_recv() {
            if let ScreenNews::Message(text) = news {
                self.state.say(text, self.begun.elapsed());
                is_any = true;
            }
        }
        is_any
    }

    fn input(&mut self, input: Input) -> Option<LiveEffect> {
        match input {
            // Some terminals report the release of a key, too, which would count as a second press.
            Input::Key(key) if key.kind != KeyEventKind::Release => {
                self.focus.key(Instant::now());
                self.state.key(key, &self.data, self.begun.elapsed())
            }
            Input::Paste(text) => {
                self.state.paste(&text);
                None
            }
            Input::FocusGained => {
                self.focus.report(true);
                None
            }
            Input::FocusLost => {
                self.focus.report(false);
                None
            }
            // The terminal is asked for its size on each draw.
            _ => None,
        }
    }

    /// Performs an effect. Returns true if the screen ends.
    fn act(&mut self, effect: LiveEffect, screen: &mut TerminalScreen) -> io::Result<bool> {
        match effect {
            LiveEffect::Stop => {
                request_end();
                return Ok(true);
            }
            LiveEffect::Suspend => self.suspend(screen)?,
            LiveEffect::OpenConsole => {
                let _closed = self.effect.try_send(effect);
            }
            LiveEffect::Approve => {
                terminal_screen::leave();
                if self.effect.blocking_send(effect).is_err() {
                    return Ok(true);
                }
                // The other screen has the terminal until the task says otherwise. Messages in between are dropped.
                loop {
                    match self.news.blocking_recv() {
                        Some(ScreenNews::Resume) => break,
                        Some(ScreenNews::Message(_)) => {}
                        None => return Ok(true),
                    }
                }
                if self.flags.is_over.load(Ordering::Relaxed) {
                    return Ok(true);
                }
                screen.resume()?;
            }
        }
        Ok(false)
    }

    fn draw(&mut self, screen: &mut TerminalScreen) -> io::Result<()> {
        if !self.state.is_paused || self.data.version.is_empty() {
            self.data = self.sources.gather(self.state.server.as_deref());
            self.is_stale = false;
        }
        self.state.tick(&self.data, self.begun.elapsed());
        let (data, state, look) = (&self.data, &self.state, self.look);
        let drawn = terminal_screen::in_turn(|| {
            screen.terminal.draw(|frame| draw(frame, data, state, look)).map(|drawn| drawn.area)
        })?;
        (self.state.rows, self.state.columns) = (drawn.height.into(), drawn.width.into());
        Ok(())
    }

    /// Suspends the program, as the shell expects, and shows the screen again once it is in the foreground.
    fn suspend(&mut self, screen: &mut TerminalScreen) -> io::Result<()> {
        terminal_screen::leave();
        screen_log::show(false);
        self.focus.leave();
        self.flags.continued.store(false, Ordering::Relaxed);
        let is_suspended = suspend_process()?;
        // This thread may go on for a moment before the signal takes effect. In the background the terminal belongs to
        // another program.
        while is_suspended && (!self.flags.continued.load(Ordering::Relaxed) || !is_in_foreground()) {
            if self.flags.is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            std::thread::sleep(FOREGROUND_INTERVAL);
        }
        self.flags.continued.store(false, Ordering::Relaxed);
        screen_log::show(true);
        if !is_suspended {
            self.state.say("this system has no job control", self.begun.elapsed());
        }
        screen.resume()
    }
}
