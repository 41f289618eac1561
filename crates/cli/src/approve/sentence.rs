//! The sentence about a pending approval on one line of the screen.

use hospes_host::approvals::{Approval, ApprovalSentence};

use super::text;

/// Maximum width of a part that others chose, in columns.
const PART_WIDTH: usize = 60;

/// Returns the sentence, on one line. Hidden characters of names and targets are escaped.
pub(crate) fn sentence(approval: &Approval) -> String {
    ApprovalSentence::of(approval).render(|part| text::line(part, PART_WIDTH))
}
