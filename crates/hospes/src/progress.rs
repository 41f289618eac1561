//! Rate limiting of progress reports: a flood of reports is thinned out to a readable rate.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context as TaskContext, Waker};

use hospes_model::ProgressParams;
use tokio::time::Sleep;

use crate::rate::{Rate, RateBucket};

/// Default rate of progress reports of one call (the setting `progress_rate`). Beyond it only the latest report is
/// kept, and sent when the rate allows or at the end.
pub const DEFAULT_PROGRESS_RATE: Rate = Rate::per_second(20).burst(100);

/// Rate limiter of the progress reports of one call.
#[derive(Debug)]
pub(crate) struct ProgressLimiter {
    rate: Rate,
    sent: RateBucket,
    /// The newest report, of those that were too many.
    held: Option<ProgressParams>,
    due: Option<Pin<Box<Sleep>>>,
}

impl ProgressLimiter {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, sent: RateBucket::new(), held: None, due: None }
    }

    /// Returns the report if it may be sent now. Otherwise holds it in place of the previous one.
    pub(crate) fn admit(&mut self, report: ProgressParams) -> Option<ProgressParams> {
        match self.sent.take(self.rate) {
            Ok(()) => {
                // What was held is older than this report, and must not follow it (PROG-05).
                (self.held, self.due) = (None, None);
                Some(report)
            }
            Err(wait) => {
                self.held = Some(report);
                // Without a runtime there is no timer, and the report goes out with the end of the call.
                if self.due.is_none() && tokio::runtime::Handle::try_current().is_ok() {
                    self.due = Some(Box::pin(tokio::time::sleep(wait)));
                }
                None
            }
        }
    }

    /// The report that is held, once it may go out; registers `waker` until then.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Option<ProgressParams> {
        let due = self.due.as_mut()?;
        if due.as_mut().poll(&mut TaskContext::from_waker(waker)).is_pending() {
            return None;
        }
        self.due = None;
        let held = self.held.take()?;
        self.admit(held)
    }

    /// The report that is held: nothing comes after it.
    pub(crate) fn take_held(&mut self) -> Option<ProgressParams> {
        self.due = None;
        self.held.take()
    }
}
