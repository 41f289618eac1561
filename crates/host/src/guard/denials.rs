//! Texts of denials.

use hospes_policy::{DecisionReason, PolicyVerdict};
use hospes_store::{AuditEntry, AuditOutcome, DecisionBasis};

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

/// Reason for refusing a call without a person that somebody else has to approve.
pub(super) const NO_REQUESTER: &str = "somebody else than the person whose call it is has to approve it, and nobody is signed in to make the call";

/// End of the reason for refusing a call that the guard asks about while nobody can be asked.
pub(super) const NOBODY: &str = "a person has to decide, and nobody can be asked";

/// Returns true if an entry records a call that was refused because nobody was there to decide about it.
#[must_use]
pub fn is_unattended(entry: &AuditEntry) -> bool {
    let is_unanswered =
        entry.basis == DecisionBasis::Unanswered || entry.decision.as_deref() == Some("expired");
    is_unanswered && entry.ending == Some(AuditOutcome::Refused)
}

/// Returns the basis of a verdict of the rules.
pub(crate) fn basis_of(because: &DecisionReason) -> DecisionBasis {
    match because {
        DecisionReason::Rule { .. } | DecisionReason::Unclear { .. } => DecisionBasis::Rule,
        DecisionReason::Flow(before) => basis_of(before),
        DecisionReason::Unreadable(_) | DecisionReason::Check(_) => DecisionBasis::Host,
        _ => DecisionBasis::Default,
    }
}

/// Returns the text of a denial: the reason given in the rule, which is meant for the caller.
pub(super) fn denial(verdict: &PolicyVerdict) -> String {
    match &verdict.because {
        DecisionReason::Rule { reason: Some(reason), .. } => format!("it is not allowed here: {reason}"),
        _ => "it is not allowed here".to_owned(),
    }
}
