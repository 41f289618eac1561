//! Notifications that something has changed, without the change itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// Maximum number of windows whose focus is remembered.
const MAX_WINDOWS: usize = 64;

/// Time for which a report of the focus counts. Pages repeat it every 20 seconds, so that a window that ended without a
/// word is forgotten.
const FOCUS_LIFETIME: Duration = Duration::from_secs(60);

/// Subject of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventTopic {
    Approvals,
    Grants,
    Definitions,
    Models,
    Servers,
    Activity,
    Calls,
    Sessions,
}

impl EventTopic {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Approvals => "approvals",
            Self::Grants => "grants",
            Self::Definitions => "definitions",
            Self::Models => "models",
            Self::Servers => "servers",
            Self::Activity => "activity",
            Self::Calls => "calls",
            Self::Sessions => "sessions",
        }
    }
}

/// Counters of changes that the console itself makes.
#[derive(Debug)]
pub(crate) struct ConsoleEvents {
    sessions: watch::Sender<u64>,
    focus: Arc<PageFocus>,
}

/// Windows of browsers in which a page of the console has the focus.
#[derive(Debug)]
pub(crate) struct PageFocus {
    pages: Mutex<FocusedPages>,
    is_any: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct FocusedPages {
    /// Windows with the focus, and the time of their last report.
    windows: HashMap<String, Instant>,
    /// Number of open streams of browsers.
    streams: usize,
}

impl Default for PageFocus {
    fn default() -> Self {
        Self { pages: Mutex::default(), is_any: watch::Sender::new(false) }
    }
}

impl PageFocus {
    /// Remembers that a window has the focus, or lost it.
    pub(crate) fn set(&self, window: String, is_focused: bool) {
        let mut pages = self.pages.lock();
        if !is_focused {
            pages.windows.remove(&window);
        } else if pages.streams > 0
            && (pages.windows.len() < MAX_WINDOWS || pages.windows.contains_key(&window))
        {
            // Without a stream nobody would notice that the window is gone.
            pages.windows.insert(window, Instant::now());
        }
        self.publish(&pages);
    }

    /// Forgets the windows that have not reported for [`FOCUS_LIFETIME`]. Each stream calls it once a second.
    pub(crate) fn forget_silent(&self) {
        let mut pages = self.pages.lock();
        pages.windows.retain(|_, reported_at| reported_at.elapsed() < FOCUS_LIFETIME);
        self.publish(&pages);
    }

    /// Counts a stream of a browser until the returned value is dropped. With the last one, no window is left.
    pub(crate) fn open_stream(self: &Arc<Self>) -> PageStream {
        self.pages.lock().streams += 1;
        PageStream(Arc::clone(self))
    }

    fn publish(&self, pages: &FocusedPages) {
        let is_any = !pages.windows.is_empty();
        self.is_any.send_if_modified(|known| std::mem::replace(known, is_any) != is_any);
    }
}

/// An open stream of a browser.
pub(crate) struct PageStream(Arc<PageFocus>);

impl Drop for PageStream {
    fn drop(&mut self) {
        let mut pages = self.0.pages.lock();
        pages.streams -= 1;
        if pages.streams == 0 {
            pages.windows.clear();
        }
        self.0.publish(&pages);
    }
}

impl Default for ConsoleEvents {
    fn default() -> Self {
        Self { sessions: watch::Sender::new(0), focus: Arc::default() }
    }
}

impl ConsoleEvents {
    pub(crate) fn sessions_changed(&self) {
        self.sessions.send_modify(|times| *times += 1);
    }

    pub(crate) fn sessions(&self) -> watch::Receiver<u64> {
        self.sessions.subscribe()
    }

    /// Returns the focus of the pages.
    pub(crate) fn focus(&self) -> &Arc<PageFocus> {
        &self.focus
    }

    /// Returns whether a page has the focus, as it changes.
    pub(crate) fn is_focused(&self) -> watch::Receiver<bool> {
        self.focus.is_any.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_window_that_ends_without_a_word_is_forgotten() {
        let events = ConsoleEvents::default();
        let seen = events.is_focused();
        let _stream_of_both = events.focus().open_stream();
        let wait = async |seconds| {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            events.focus().forget_silent();
            *seen.borrow()
        };
        events.focus().set("crashed".to_owned(), true);
        events.focus().set("alive".to_owned(), true);
        for _ in 0..5 {
            assert!(wait(20).await, "the window that reports has it");
            events.focus().set("alive".to_owned(), true);
        }
        assert_eq!(events.focus().pages.lock().windows.len(), 1);
        assert!(wait(59).await);
        assert!(!wait(1).await, "nobody looks");
    }

    #[test]
    fn the_focus_of_pages_ends_with_their_windows_and_with_their_stream() {
        let events = ConsoleEvents::default();
        let seen = events.is_focused();
        let is_focused = || *seen.borrow();
        events.focus().set("early".to_owned(), true);
        assert!(!is_focused(), "without a stream the window may be gone");
        let (one, two) = (events.focus().open_stream(), events.focus().open_stream());
        events.focus().set("a".to_owned(), true);
        events.focus().set("b".to_owned(), true);
        events.focus().set("a".to_owned(), false);
        assert!(is_focused(), "the other window has it");
        drop(one);
        assert!(is_focused());
        drop(two);
        assert!(!is_focused());
        let _stream = events.focus().open_stream();
        for window in 0..MAX_WINDOWS + 5 {
            events.focus().set(window.to_string(), true);
        }
        assert_eq!(events.focus().pages.lock().windows.len(), MAX_WINDOWS);
    }
}
