//! Progress bar for long calls, on a terminal.

use std::time::Duration;

use hospes::model::ProgressParams;
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use crate::output::{self, printable};

/// Delay before the bar is shown; most calls end earlier.
const SHOW_DELAY: Duration = Duration::from_millis(400);
/// Interval at which the bar is redrawn.
const TICK: Duration = Duration::from_millis(100);
/// Number of steps of a full bar.
const STEPS: u64 = 10_000;

/// The bar that is currently shown. It is hidden while the person is asked a question.
static ACTIVE_BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Runs `work` with the bar hidden.
pub(crate) fn without_bar<R>(work: impl FnOnce() -> R) -> R {
    // Cloned, so that the lock is not held while `work` waits for a person.
    let shown = ACTIVE_BAR.lock().clone();
    match shown {
        Some(bar) => bar.suspend(work),
        None => work(),
    }
}

/// Progress bar of one call, or nothing if messages are not shown.
#[derive(Debug)]
pub(crate) struct CallProgressBar(Option<ProgressBar>);

impl CallProgressBar {
    /// Creates a bar for a call of `what`. It becomes visible after [`SHOW_DELAY`].
    pub(crate) fn new(what: &str, quiet: bool) -> Self {
        if quiet || !output::is_seen() {
            return Self(None);
        }
        let bar = ProgressBar::no_length().with_message(printable(what));
        bar.set_style(spinner());
        *ACTIVE_BAR.lock() = Some(bar.clone());
        let later = bar.clone();
        tokio::spawn(async move {
            tokio::time::sleep(SHOW_DELAY).await;
            if !later.is_finished() {
                later.enable_steady_tick(TICK);
            }
        });
        Self(Some(bar))
    }

    /// Updates the bar from a progress notification.
    pub(crate) fn report(&self, progress: &ProgressParams) {
        let Some(bar) = &self.0 else { return };
        if let Some(total) = progress.total.filter(|total| *total > 0.0) {
            if bar.length().is_none() {
                bar.set_style(measured());
                bar.set_length(STEPS);
            }
            // Servers may report more progress than their total.
            let share = (progress.progress / total).clamp(0.0, 1.0) * 10_000.0;
            // Between 0 and the number of steps.
            bar.set_position(format!("{share:.0}").parse().unwrap_or(0));
        }
        if let Some(message) = &progress.message {
            bar.set_message(output::first_line(message, 60));
        }
        bar.tick();
    }

    /// Removes the bar.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn spinner() -> ProgressStyle {
    let style = ProgressStyle::with_template("{spinner:.cyan} {msg} {elapsed:.dim}");
    style.unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn measured() -> ProgressStyle {
    let style =
        ProgressStyle::with_template("{spinner:.cyan} {bar:28.cyan/dim} {percent:>3}% {msg} {elapsed:.dim}");
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━━─")
}
