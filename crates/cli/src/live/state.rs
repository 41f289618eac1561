//! Selection and view, and the meaning of keys. Without a terminal, a clock or a host.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::data::{LiveData, ServerRow};
use super::detail;
use super::draw::log_rows;

/// Time for which a message is shown.
const MESSAGE_TIME: Duration = Duration::from_secs(8);
/// Maximum length of the filter, in characters.
const MAX_FILTER: usize = 60;

/// State of the screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveState {
    pub(crate) view: LiveView,
    pub(crate) focus: LiveFocus,
    /// Name of the selected server.
    pub(crate) server: Option<String>,
    /// Number of the selected call.
    pub(crate) call: Option<u64>,
    /// Lines or rows that are scrolled up from the end of a text.
    pub(crate) scroll: usize,
    pub(crate) filter: String,
    pub(crate) mode: LiveMode,
    pub(crate) is_paused: bool,
    pub(crate) message: Option<String>,
    pub(crate) message_until: Duration,
    /// Number of rows and of columns of the screen at the last draw.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// View that fills the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LiveView {
    #[default]
    Overview,
    /// The selected row in full.
    Detail,
    /// The log of the selected server.
    ServerLog,
    /// Everything that was printed.
    Log,
    /// Problem of the selected server, and its remedy.
    Doctor,
    Keys,
}

/// The list that the arrow keys move in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LiveFocus {
    #[default]
    Servers,
    Calls,
}

/// Meaning of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LiveMode {
    #[default]
    Watching,
    /// The filter is being typed.
    Filtering,
    /// The person is asked whether to stop although calls run or wait.
    Stopping,
}

/// Action that the event loop performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiveEffect {
    OpenConsole,
    Approve,
    Stop,
    Suspend,
}

impl LiveState {
    /// Handles a key. `data` is what the screen shows.
    pub(crate) fn key(&mut self, key: KeyEvent, data: &LiveData, now: Duration) -> Option<LiveEffect> {
        // It is about an earlier key, and hides what the keys do.
        self.message = None;
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return Some(LiveEffect::Stop),
            KeyCode::Char('z') if is_control => return Some(LiveEffect::Suspend),
            // Other combinations belong to the terminal.
            KeyCode::Char(_) if is_control || key.modifiers.contains(KeyModifiers::ALT) => return None,
            _ => {}
        }
        match self.mode {
            LiveMode::Filtering => {
                self.filter_key(key.code);
                self.select_shown(data);
            }
            LiveMode::Stopping => {
                self.mode = LiveMode::Watching;
                if matches!(key.code, KeyCode::Char('q' | 'y')) {
                    return Some(LiveEffect::Stop);
                }
            }
            LiveMode::Watching => return self.watching_key(key.code, data, now),
        }
        None
    }

    /// Handles pasted text. It is no keys: only a filter that is being typed takes it.
    pub(crate) fn paste(&mut self, text: &str) {
        if self.mode == LiveMode::Filtering {
            text.chars().for_each(|letter| self.type_letter(letter));
        }
    }

    /// Shows a message for a while, or until the next key.
    pub(crate) fn say(&mut self, message: impl Into<String>, now: Duration) {
        (self.message, self.message_until) = (Some(message.into()), now + MESSAGE_TIME);
    }

    /// Drops a message that has been shown long enough, and corrects the selection.
    pub(crate) fn tick(&mut self, data: &LiveData, now: Duration) {
        if now >= self.message_until {
            self.message = None;
        }
        if self.focus == LiveFocus::Calls && self.call.is_none() {
            let first = self.calls(data).next().map(|call| call.number);
            self.call = first;
        }
        self.select_shown(data);
    }

    fn watching_key(&mut self, key: KeyCode, data: &LiveData, now: Duration) -> Option<LiveEffect> {
        match key {
            KeyCode::Char('q') => {
                if data.calls.running.is_empty() && data.waiting.is_empty() {
                    return Some(LiveEffect::Stop);
                }
                self.mode = LiveMode::Stopping;
            }
            KeyCode::Char('c') => return Some(LiveEffect::OpenConsole),
            KeyCode::Char('a') if data.waiting.is_empty() => self.say("nothing waits for a decision", now),
            KeyCode::Char('a') => return Some(LiveEffect::Approve),
            KeyCode::Char('s') => self.show(LiveView::Overview, LiveFocus::Servers),
            KeyCode::Tab => {
                let focus = match self.focus {
                    LiveFocus::Servers => LiveFocus::Calls,
                    LiveFocus::Calls => LiveFocus::Servers,
                };
                self.show(LiveView::Overview, focus);
            }
            KeyCode::Char('l') => self.toggle(LiveView::ServerLog),
            KeyCode::Char('L') => self.toggle(LiveView::Log),
            KeyCode::Char('d') => self.toggle(LiveView::Doctor),
            KeyCode::Char('?') => self.toggle(LiveView::Keys),
            KeyCode::Enter => self.toggle(LiveView::Detail),
            KeyCode::Char('/') => {
                self.view = LiveView::Overview;
                self.mode = LiveMode::Filtering;
            }
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Esc if self.view != LiveView::Overview => self.toggle(self.view),
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Down | KeyCode::Char('j') => self.step(1, data),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1, data),
            KeyCode::PageDown => self.step(10, data),
            KeyCode::PageUp => self.step(-10, data),
            KeyCode::End => self.scroll = 0,
            KeyCode::Home => self.scroll = self.max_scroll(data),
            _ => {}
        }
        None
    }

    fn filter_key(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.mode = LiveMode::Watching,
            KeyCode::Esc => {
                self.mode = LiveMode::Watching;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.type_letter(letter),
            _ => {}
        }
        self.call = None;
    }

    /// Selects the first server if the selected one is gone or the filter hides it: keys are about what is seen.
    fn select_shown(&mut self, data: &LiveData) {
        let is_shown = self.servers(data).any(|row| Some(row.name()) == self.server.as_deref());
        if !is_shown {
            let first = self.servers(data).next().map(|row| row.name().to_owned());
            self.server = first;
        }
    }

    fn type_letter(&mut self, letter: char) {
        if !letter.is_control() && self.filter.chars().count() < MAX_FILTER {
            self.filter.push(letter);
        }
    }

    fn show(&mut self, view: LiveView, focus: LiveFocus) {
        (self.view, self.focus, self.scroll) = (view, focus, 0);
    }

    /// Shows a view, or the overview if it is shown already.
    fn toggle(&mut self, view: LiveView) {
        let next = if self.view == view { LiveView::Overview } else { view };
        self.show(next, self.focus);
    }

    fn step(&mut self, by: isize, data: &LiveData) {
        if matches!(self.view, LiveView::ServerLog | LiveView::Log | LiveView::Doctor | LiveView::Keys) {
            // Texts are scrolled from their end, where the newest lines are.
            let most = self.max_scroll(data);
            self.scroll = self.scroll.min(most).saturating_add_signed(-by).min(most);
            return;
        }
        match self.focus {
            LiveFocus::Servers => {
                let names: Vec<&str> = self.servers(data).map(ServerRow::name).collect();
                let at = names.iter().position(|name| Some(*name) == self.server.as_deref());
                self.server = moved(at, by, &names).map(|name| (*name).to_owned());
            }
            LiveFocus::Calls => {
                let numbers: Vec<u64> = self.calls(data).map(|call| call.number).collect();
                let at = numbers.iter().position(|number| Some(*number) == self.call);
                self.call = moved(at, by, &numbers).copied();
            }
        }
    }

    /// Returns the number of lines that a log can be scrolled up.
    fn max_scroll(&self, data: &LiveData) -> usize {
        let count = match self.view {
            LiveView::ServerLog => detail::wrapped_log(&data.server_log, self.columns).len(),
            LiveView::Log => detail::wrapped_log(&data.log, self.columns).len(),
            _ => 0,
        };
        count.saturating_sub(log_rows(data, self))
    }

    /// Returns the servers that pass the filter.
    pub(crate) fn servers<'a>(&'a self, data: &'a LiveData) -> impl Iterator<Item = ServerRow<'a>> {
        let wanted = self.filter.to_lowercase();
        let is_wanted = move |row: &ServerRow<'_>| row.name().to_lowercase().contains(&wanted);
        // A filter for calls must not empty the list of servers.
        let has_any = data.server_rows().any(|row| is_wanted(&row));
        data.server_rows().filter(move |row| !has_any || is_wanted(row))
    }

    /// Returns the calls that pass the filter: the running ones, then the ended ones, the newest first.
    pub(crate) fn calls<'a>(
        &'a self,
        data: &'a LiveData,
    ) -> impl Iterator<Item = &'a hospes_host::ObservedCall> {
        let wanted = self.filter.to_lowercase();
        data.calls.running.iter().chain(&data.calls.ended).filter(move |call| {
            let parts = [Some(&call.server), Some(&call.subject), call.application.as_ref()];
            parts.into_iter().flatten().any(|part| part.to_lowercase().contains(&wanted))
        })
    }
}

/// Returns the item `by` places after the one at `at`. Without a place it is the first.
fn moved<T>(at: Option<usize>, by: isize, items: &[T]) -> Option<&T> {
    let next = at.map_or(0, |at| at.saturating_add_signed(by).min(items.len().saturating_sub(1)));
    items.get(next)
}
