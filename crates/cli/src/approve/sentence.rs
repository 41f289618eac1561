//! One sentence about a pending approval: who wants to do what to which thing.

use hospes_host::approvals::{Approval, ApprovalCard, CallSummary};
use hospes_policy::visible_line;

use super::card::title;
use super::key_argument::key_argument;
use super::text;

/// Maximum width of a part that others chose, in columns.
const PART_WIDTH: usize = 60;

/// Returns the sentence, on one line. Its words are ours, except for names and targets, in which hidden characters are
/// escaped.
pub(crate) fn sentence(approval: &Approval) -> String {
    let who = approval.application.as_deref().unwrap_or("an application");
    let who = text::line(who, PART_WIDTH);
    let (what, server) = title(approval);
    match &approval.card {
        ApprovalCard::Call(card) if !card.summary.verb.is_empty() => {
            format!("{who} wants to {} ({what} of {server})", deed(&card.summary))
        }
        ApprovalCard::Call(_) => {
            let gist = key_argument(approval, PART_WIDTH).map(|gist| format!(" ({gist})"));
            format!("{who} wants to call {what} of {server}{}", gist.unwrap_or_default())
        }
        ApprovalCard::Plan(_) => format!("{who} proposes a plan: {what}"),
        ApprovalCard::Result(_) => format!("{who} is to get the {what} of {server}"),
        ApprovalCard::Form(_) | ApprovalCard::Url(_) => format!("{server} asks you to {what}"),
        _ => format!("{server}: {what}"),
    }
}

/// Returns what a call does, in the words of its card: "write /srv/notes.txt".
fn deed(summary: &CallSummary) -> String {
    // Verbs are ours and begin with one capital letter, unless they begin with an abbreviation.
    let mut letters = summary.verb.chars();
    let verb: String =
        letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default();
    if summary.targets.is_empty() {
        return verb;
    }
    let between =
        if summary.preposition.is_empty() { String::new() } else { format!("{} ", summary.preposition) };
    format!("{verb} {between}{}", text::line(&summary.listed_targets(visible_line), PART_WIDTH))
}
