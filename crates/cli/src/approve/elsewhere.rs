//! Decisions that are made elsewhere about a call that this program asks about, too.

use std::future::pending;
use std::time::Duration;

use hospes_host::approvals::{Approval, ApprovalCard, ApprovalState};

use super::console_requests::{fetch_queue, find_host};

/// Interval at which the queue of the running host is read while a question is open.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// Waits until the approval that a host asks about with this message is decided elsewhere. Never returns if the running
/// host of this user has no such approval, or several: a decision about another call must not end the question.
pub(crate) async fn decision_elsewhere(message: &str) -> ApprovalState {
    match follow(message).await {
        Some(state) => state,
        None => pending().await,
    }
}

async fn follow(message: &str) -> Option<ApprovalState> {
    let (console, _) = find_host().await.ok()?;
    let mut known: Option<String> = None;
    loop {
        let queue = fetch_queue(&console).await.ok()?;
        match &known {
            // The question may be asked before the queue has the approval.
            None => known = only_fitting(&queue.open, message),
            Some(id) if queue.open.iter().all(|approval| approval.id != *id) => {
                return queue
                    .recent
                    .iter()
                    .find(|approval| approval.id == *id)
                    .map(|approval| approval.state);
            }
            Some(_) => {}
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn only_fitting(open: &[Approval], message: &str) -> Option<String> {
    let mut fitting = open.iter().filter(|approval| is_about(approval, message));
    let id = fitting.next()?.id.clone();
    fitting.next().is_none().then_some(id)
}

fn is_about(approval: &Approval, message: &str) -> bool {
    let ApprovalCard::Call(card) = &approval.card else { return false };
    message.contains(&format!("`{}` of the server `{}`?", card.name, approval.server_label()))
}
