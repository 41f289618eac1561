//! Texts of denials.

use hospes_policy::{DecisionReason, PolicyVerdict};
use hospes_store::{AuditEntry, AuditOutcome};

/// Reason for refusing a call whose result cannot be reviewed.
pub(super) const UNREVIEWED: &str =
    "its result has to be reviewed before delivery, and no reviewer is available";

/// Reason for refusing a request that would need an approval but cannot be approved.
pub(super) const UNASKED: &str =
    "the item it belongs to requires approval each time, and this request cannot be approved";

/// Reason for refusing a call that only the console may approve, while there is none.
pub(super) const NO_CONSOLE: &str =
    "it requires an approval that an application cannot give, and no console is available";

/// Reason for refusing a call that nobody can be asked about.
pub(super) const NO_FORM: &str = "it requires an approval, and this application cannot ask for one";

/// End of the reason for refusing a call that the guard asks about while nobody can be asked.
pub(super) const NOBODY: &str = "a person has to decide, and nobody can be asked";

/// Returns true if an entry records a call that was refused because nobody was there to decide about it.
#[must_use]
pub fn is_unattended(entry: &AuditEntry) -> bool {
    if entry.ending != Some(AuditOutcome::Refused) {
        return false;
    }
    let by = entry.by.as_deref().unwrap_or_default();
    entry.decision.as_deref() == Some("expired")
        || [UNREVIEWED, NO_CONSOLE, NO_FORM].contains(&by)
        || by.ends_with(NOBODY)
}

/// Returns the text of a denial: the reason given in the rule, which is meant for the caller.
pub(super) fn denial(verdict: &PolicyVerdict) -> String {
    match &verdict.because {
        DecisionReason::Rule { reason: Some(reason), .. } => format!("it is not allowed here: {reason}"),
        _ => "it is not allowed here".to_owned(),
    }
}
