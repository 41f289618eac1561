//! The approval in the queue of a host about which this program asks, too: until when it holds, and its decision if that
//! is made elsewhere.

use std::future::pending;
use std::time::Duration;

use hospes_console::LocalConsole;
use hospes_host::approvals::{Approval, ApprovalCard, ApprovalState};
use jiff::Timestamp;

use super::console_requests::{fetch_queue, find_host};

/// Interval at which the queue of the running host is read while a question is open.
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Maximum time to look for the approval before its question is asked.
const FIND_TIME: Duration = Duration::from_secs(1);

/// An approval that is open in the queue of the running host of this user.
#[derive(Debug)]
pub(crate) struct QueuedApproval {
    console: LocalConsole,
    id: String,
    pub(crate) expires_at: Timestamp,
}

impl QueuedApproval {
    /// Finds the approval that a host asks about with this message. `None` if the running host of this user has no such
    /// approval, or several: a decision about another call must not end the question.
    pub(crate) async fn find(message: &str) -> Option<Self> {
        tokio::time::timeout(FIND_TIME, Self::look_for(message)).await.ok().flatten()
    }

    async fn look_for(message: &str) -> Option<Self> {
        let (console, _) = find_host().await.ok()?;
        loop {
            let queue = fetch_queue(&console).await.ok()?;
            // The question may be asked before the queue has the approval.
            if let Some(approval) = only_fitting(&queue.open, message) {
                let (id, expires_at) = (approval.id.clone(), approval.expires_at);
                return Some(Self { console, id, expires_at });
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until the approval is no longer open. Never returns if the host cannot be asked any more.
    pub(crate) async fn decision(&self) -> ApprovalState {
        match self.follow().await {
            Some(state) => state,
            None => pending().await,
        }
    }

    async fn follow(&self) -> Option<ApprovalState> {
        loop {
            let queue = fetch_queue(&self.console).await.ok()?;
            if queue.open.iter().all(|approval| approval.id != self.id) {
                return queue
                    .recent
                    .iter()
                    .find(|approval| approval.id == self.id)
                    .map(|approval| approval.state);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

fn only_fitting<'a>(open: &'a [Approval], message: &str) -> Option<&'a Approval> {
    let mut fitting = open.iter().filter(|approval| is_about(approval, message));
    let found = fitting.next()?;
    fitting.next().is_none().then_some(found)
}

fn is_about(approval: &Approval, message: &str) -> bool {
    match &approval.card {
        ApprovalCard::Call(card) => {
            message.contains(&format!("`{}` of the server `{}`?", card.name, approval.server_label()))
        }
        ApprovalCard::Plan(card) => message.starts_with(&card.heading.to_uppercase()),
        _ => false,
    }
}
