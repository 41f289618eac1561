//! Progress bars for long work, on a terminal: of calls, and of steps such as a download.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hospes::model::ProgressParams;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

use crate::output::{self, CliOutput, printable};

/// Delay before the bar is shown; most calls end earlier.
const SHOW_DELAY: Duration = Duration::from_millis(400);
/// Interval at which the bar is redrawn.
const TICK: Duration = Duration::from_millis(100);
/// Maximum length of the text of a step, in characters.
const MAX_STEP_TEXT: usize = 40;
/// Maximum length of the details of a step that a listener is told, in characters.
const MAX_DETAIL_TEXT: usize = 120;
/// Number of steps of a full bar.
const STEPS: u64 = 10_000;

/// The bar that is currently shown. It is hidden while the person is asked a question.
static ACTIVE_BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Runs `work` with the bar hidden.
pub(crate) fn without_bar<R>(work: impl FnOnce() -> R) -> R {
    // Cloned, so that the lock is not held while `work` waits for a person.
    let shown = ACTIVE_BAR.lock().clone();
    match shown {
        // Not `suspend`, which holds a lock of the bar: whoever reports progress meanwhile would block a thread of the
        // runtime until the person has answered.
        Some(bar) if !bar.is_hidden() && !bar.is_finished() => {
            bar.set_draw_target(ProgressDrawTarget::hidden());
            output::clear_message_line();
            let done = work();
            bar.set_draw_target(ProgressDrawTarget::stderr());
            done
        }
        _ => work(),
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
///
/// Within [`StepListener::listen`], the steps are reported to the listener instead.
#[derive(Debug)]
pub(crate) struct StepBar(StepOutput);

#[derive(Debug)]
enum StepOutput {
    None,
    Bar(ProgressBar),
    Listener { listener: StepListener, total: Option<u64>, text: String },
}

/// Receiver of the steps of a task that has no terminal.
#[derive(Clone)]
pub(crate) struct StepListener(Arc<dyn Fn(StepReport<'_>) + Send + Sync>);

/// A step, as a listener is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepReport<'a> {
    /// What is done now.
    Text(&'a str),
    /// Bytes that are done, and all of them if that is known.
    Bytes(u64, Option<u64>),
}

tokio::task_local! {
    // In place of a parameter of every function that installs or downloads: a bar is global to the terminal, too.
    static LISTENER: StepListener;
}

impl StepListener {
    /// Creates a listener.
    pub(crate) fn new(listener: impl Fn(StepReport<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listener))
    }

    /// Runs `work`, whose steps are reported to this listener.
    pub(crate) async fn listen<T>(self, work: impl Future<Output = T>) -> T {
        LISTENER.scope(self, work).await
    }
}

impl fmt::Debug for StepListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepListener").finish_non_exhaustive()
    }
}

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
        if let Ok(listener) = LISTENER.try_with(StepListener::clone) {
            (listener.0)(StepReport::Text(text));
            let total = new().0.length();
            return Self(StepOutput::Listener { listener, total, text: text.to_owned() });
        }
        if output.quiet || output.json || !output::is_screen_for_messages() {
            return Self(StepOutput::None);
        }
        let (bar, style) = new();
        bar.set_style(style);
        bar.set_message(output::first_line(text, MAX_STEP_TEXT));
        bar.enable_steady_tick(TICK);
        *ACTIVE_BAR.lock() = Some(bar.clone());
        Self(StepOutput::Bar(bar))
    }

    /// Sets the text.
    pub(crate) fn set_text(&self, text: &str) {
        match &self.0 {
            StepOutput::None => {}
            StepOutput::Bar(bar) => bar.set_message(output::first_line(text, MAX_STEP_TEXT)),
            StepOutput::Listener { listener, text: step, .. } => {
                let text = format!("{step}: {}", output::first_line(text, MAX_DETAIL_TEXT));
                (listener.0)(StepReport::Text(&text));
            }
        }
    }

    /// Sets the number of bytes that are done. More than the total is drawn as the total.
    pub(crate) fn set_bytes(&self, done: u64) {
        match &self.0 {
            StepOutput::None => {}
            StepOutput::Bar(bar) => bar.set_position(bar.length().map_or(done, |total| done.min(total))),
            StepOutput::Listener { listener, total, .. } => (listener.0)(StepReport::Bytes(done, *total)),
        }
    }
}

impl Drop for StepBar {
    fn drop(&mut self) {
        if let StepOutput::Bar(bar) = &self.0 {
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
        assert!(matches!(bar.0, StepOutput::None));
    }

    #[tokio::test]
    async fn a_listener_is_told_of_steps_and_bytes() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = StepListener::new({
            let heard = Arc::clone(&heard);
            move |report| heard.lock().push(format!("{report:?}"))
        });
        let output = CliOutput { json: true, quiet: true };
        let work = async {
            let bar = StepBar::bytes("archive", Some(10), output);
            bar.set_bytes(4);
            bar.set_text("more");
        };
        listener.listen(work).await;
        drop(StepBar::spinner("later", output));
        let expected = ["Text(\"archive\")", "Bytes(4, Some(10))", "Text(\"archive: more\")"];
        assert_eq!(*heard.lock(), expected);
    }
}
