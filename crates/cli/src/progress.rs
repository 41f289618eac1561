//! Progress bars for long work, on a terminal: of calls, and of steps such as a download.

use std::time::Duration;

use hospes::model::ProgressParams;
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use crate::output::{self, CliOutput, printable};

/// Delay before the bar is shown; most calls end earlier.
const SHOW_DELAY: Duration = Duration::from_millis(400);
/// Interval at which the bar is redrawn.
const TICK: Duration = Duration::from_millis(100);
/// Maximum length of the text of a step, in characters.
const MAX_STEP_TEXT: usize = 40;
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
        bar.set_style(style(SPINNER));
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
                bar.set_style(style(MEASURED));
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

/// Bar of one step of a command: a spinner with a text, or bytes of a known total with the time left.
///
/// It is drawn on standard error and removed on drop. Nothing is drawn without a terminal, or if messages are
/// suppressed.
#[derive(Debug)]
#[allow(dead_code, reason = "used by commands that download")]
pub(crate) struct StepBar(Option<ProgressBar>);

#[allow(dead_code, reason = "used by commands that download")]
impl StepBar {
    /// Creates a spinner with a text, for a step of unknown length.
    pub(crate) fn spinner(text: &str, output: CliOutput) -> Self {
        Self::show(text, output, || (ProgressBar::no_length(), style(SPINNER)))
    }

    /// Creates a bar for `total` bytes. A total of 0 or `None` is unknown, and only the bytes so far are shown.
    pub(crate) fn bytes(text: &str, total: Option<u64>, output: CliOutput) -> Self {
        Self::show(text, output, || match total.filter(|total| *total > 0) {
            Some(total) => (ProgressBar::new(total), style(BYTES_OF_TOTAL)),
            None => (ProgressBar::no_length(), style(BYTES_SO_FAR)),
        })
    }

    fn show(text: &str, output: CliOutput, new: impl FnOnce() -> (ProgressBar, ProgressStyle)) -> Self {
        if output.quiet || output.json || !output::is_screen_for_messages() {
            return Self(None);
        }
        let (bar, style) = new();
        bar.set_style(style);
        bar.set_message(output::first_line(text, MAX_STEP_TEXT));
        bar.enable_steady_tick(TICK);
        *ACTIVE_BAR.lock() = Some(bar.clone());
        Self(Some(bar))
    }

    /// Sets the text.
    pub(crate) fn set_text(&self, text: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(output::first_line(text, MAX_STEP_TEXT));
        }
    }

    /// Sets the number of bytes that are done. More than the total is drawn as the total.
    pub(crate) fn set_bytes(&self, done: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(bar.length().map_or(done, |total| done.min(total)));
        }
    }
}

impl Drop for StepBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Templates of the bars.
const SPINNER: &str = "{spinner:.cyan} {msg} {elapsed:.dim}";
const MEASURED: &str = "{spinner:.cyan} {bar:28.cyan/dim} {percent:>3}% {msg} {elapsed:.dim}";
const BYTES_OF_TOTAL: &str = "{spinner:.cyan} {msg} {bar:20.cyan/dim} {bytes} of {total_bytes}, {eta} left";
const BYTES_SO_FAR: &str = "{spinner:.cyan} {msg} {bytes} {elapsed:.dim}";

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_spinner()).progress_chars("━━─")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A template with a mistake would silently be replaced by a default.
    #[test]
    fn the_templates_are_valid() {
        for template in [SPINNER, MEASURED, BYTES_OF_TOTAL, BYTES_SO_FAR] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn nothing_is_drawn_for_programs() {
        let output = CliOutput { json: true, quiet: false };
        let bar = StepBar::bytes("archive", Some(10), output);
        bar.set_text("more");
        bar.set_bytes(20);
        assert!(bar.0.is_none());
    }
}
