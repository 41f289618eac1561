//! Notices about pending approvals on the terminal of a running host.

use std::collections::HashMap;
use std::convert::Infallible;

use hospes_host::Host;
use hospes_host::approvals::{Approval, ApprovalState};

use serde_json::{Value, json};

use super::up::EventWriter;
use crate::approve::{key_argument, title};
use crate::output::{BOLD, DIM, YELLOW, paint, printable};

/// Width of the argument in a line, in columns.
const ARGUMENT_WIDTH: usize = 60;

/// Prints pending approvals as they arrive, and those that were not decided in time. Never returns.
pub(super) async fn report(host: &Host, events: EventWriter) -> Infallible {
    let Some(queue) = host.guard().map(|guard| guard.approvals().clone()) else {
        return std::future::pending().await;
    };
    let mut changes = queue.subscribe();
    let mut known: HashMap<String, ApprovalState> = HashMap::new();
    loop {
        // Before reading the queue, so that every later change ends the wait below.
        changes.mark_unchanged();
        let (open, recent) = (queue.pending(), queue.recent());
        let next = open.iter().map(|approval| approval.expires_at).min();
        for approval in &open {
            if known.insert(approval.id.clone(), ApprovalState::Open).is_none() {
                events.event("asked", &fields(approval), || asked(approval));
            }
        }
        for approval in &recent {
            if known.remove(&approval.id) != Some(ApprovalState::Open) {
                continue;
            }
            match approval.state {
                ApprovalState::Expired => events.event("expired", &fields(approval), || missed(approval)),
                // Whoever decided knows it, so in words nothing is said.
                _ if events.is_for_people() => {}
                state => {
                    let mut fields = fields(approval);
                    fields.push(("decision", json!(state)));
                    fields.push(("by", json!(approval.decided.as_ref().map(|record| &record.by))));
                    events.event("decided", &fields, String::new);
                }
            }
        }
        known.retain(|id, _| open.iter().any(|approval| approval.id == *id));
        // Expiry causes no change by itself: the queue notices it when it is read.
        let until_next = async {
            match next.map(|at| at.duration_since(jiff::Timestamp::now())) {
                Some(left) => {
                    let left = left.unsigned_abs().min(std::time::Duration::from_secs(3600));
                    // Slightly later than the deadline, so that it has passed when the queue is read.
                    tokio::time::sleep(left + std::time::Duration::from_millis(50)).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return std::future::pending().await },
            () = until_next => {}
        }
    }
}

/// Returns the fields of an event about an approval. Arguments are not among them, because logs are kept.
fn fields(approval: &Approval) -> Vec<(&'static str, Value)> {
    let (what, server) = title(approval);
    vec![
        ("id", json!(approval.id.get(..8).unwrap_or(&approval.id))),
        ("server", json!(server)),
        ("what", json!(what)),
        ("application", json!(approval.application)),
    ]
}

/// Formats the line about a new pending approval.
fn asked(approval: &Approval) -> String {
    let (sign, hint) = (paint(YELLOW, "?"), paint(DIM, "decide in the console or with `hospes approve`"));
    format!("  {sign} {} {}  {hint}", paint(BOLD, "pending approval:"), about(approval))
}

/// Formats the line about an approval that was missed.
fn missed(approval: &Approval) -> String {
    format!("  {} {} {}", paint(YELLOW, "✗"), paint(BOLD, "expired without decision:"), about(approval))
}

fn about(approval: &Approval) -> String {
    let (what, server) = title(approval);
    let who = approval.application.as_deref().map(|name| format!(", asked by {}", printable(name)));
    let gist = key_argument(approval, ARGUMENT_WIDTH).map(|gist| format!(" ({gist})"));
    format!("{what} of {server}{}{}", gist.unwrap_or_default(), who.unwrap_or_default())
}
