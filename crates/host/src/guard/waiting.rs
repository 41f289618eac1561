//! Waiting for a person's decision.

use std::time::Duration;

use hospes::Call;
use hospes_telemetry::{AttributeKey, AttributeValue};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::approvals::{ApprovalOutcome, ApprovalQueueError, ApprovalWaiter};
use crate::metrics::{begin_step, excluded};

/// Interval of progress notifications to a caller that waits for a decision.
const REMINDER_INTERVAL: Duration = Duration::from_secs(5);

/// Waits for a decision and sends progress from time to time. Intermediaries between host and application may close a
/// silent call.
pub(crate) async fn wait_for_decision(
    call: &Call,
    waiting: &ApprovalWaiter,
) -> Result<ApprovalOutcome, ApprovalQueueError> {
    let mut reminders = interval_at(Instant::now(), REMINDER_INTERVAL);
    // After a stall the missed reminders are not made up for.
    reminders.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let waits_for = waiting.describe_wait();
    let mut span = begin_step("hospes.approval");
    let settled = excluded(waiting.wait_settled());
    tokio::pin!(settled);
    // So small that the server's own progress, which comes after it and must be more, is.
    let mut progress = 0.0;
    loop {
        // The decision first, so that nothing is sent any more for a call that is decided.
        tokio::select! {
            biased;
            settled = &mut settled => {
                if let Some(span) = &mut span {
                    let decision = AttributeValue::fixed(decision_text(&settled));
                    span.event("hospes.decision", AttributeKey::HospesDecision, decision.clone());
                    span.set(AttributeKey::HospesDecision, decision);
                }
                return settled;
            }
            _ = reminders.tick() => {
                progress += 1e-9;
                call.context.progress(progress, None, Some(&waits_for));
            }
        }
    }
}

/// Returns how the wait has ended, as spans show it.
fn decision_text(settled: &Result<ApprovalOutcome, ApprovalQueueError>) -> &'static str {
    match settled {
        Ok(ApprovalOutcome::Allowed { .. }) => "allowed",
        Ok(ApprovalOutcome::Denied { .. }) => "denied",
        // It expired, or was withdrawn.
        Err(_) => "none",
    }
}
