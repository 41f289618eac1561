//! An approval in the queue, and the validation of decisions on it.

use hospes_inspect::provenance::normal::normal_form;
use hospes_model::RawJson;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::time::{Duration, Instant};

use super::approval::{
    Approval, ApprovalCallKind, ApprovalCard, ApprovalState, DecisionOptions, GuardCard, GuardFinding,
    GuardValue,
};
use super::decision::{ApprovalDecision, ApprovalOutcome, DecideError, DecisionRecord, MAX_REASON_BYTES};
use super::grant::{ApprovalGrant, ApprovalScope, GrantEffect, LastingPermission};
use super::grants::GrantTable;
use super::queue_error::ApprovalQueueError;
use super::session::GrantSession;

/// Maximum wait, in effect unlimited.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(366 * 24 * 3600);

/// A digest of everything that a decision is bound to.
pub(crate) type BindingDigest = [u8; 32];

/// Looks whether an edit can be done.
pub(crate) type EditCheck = Box<dyn Fn(&RawJson) -> Result<(), String> + Send + Sync>;

/// Looks whether an edit of an approval can be done that was asked before a restart, by a caller with these groups.
pub(crate) type StoredEditCheck =
    Box<dyn Fn(&Approval, &[String], &RawJson) -> Result<(), String> + Send + Sync>;

/// Persistence of an approval in the host's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PersistenceState {
    /// The approval is not persisted; the asker waits for it.
    No,
    /// The approval is being written, and is not shown yet.
    Writing,
    /// The approval is stored and shown.
    Yes,
    /// The approval is being removed, to be used.
    Taking,
}

/// Node of a fleet at which the call of an approval waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApprovalHolding {
    /// The requester comes back for the decision, or there is no fleet.
    None,
    /// This node. The approval is stored, and its use is marked there.
    Here,
    /// Another node, or one that has ended.
    Elsewhere,
}

/// An approval in the queue: pending, or decided and not yet used.
pub(super) struct QueuedApproval {
    pub(super) approval: Approval,
    /// Size of the shown content, in bytes.
    pub(super) size: usize,
    /// In which order it was asked.
    pub(super) number: u64,
    pub(super) until: Instant,
    pub(super) bond: BindingDigest,
    pub(super) asker: BindingDigest,
    /// The program of the asker.
    pub(super) share: BindingDigest,
    /// True if the application may report its person's decision.
    pub(super) is_weak: bool,
    pub(super) timeout: Duration,
    /// Hash of the definition to which a lasting decision is bound, besides the approval's own fields.
    pub(super) definition: Option<String>,
    pub(super) target: String,
    pub(super) check: Option<EditCheck>,
    /// Groups of the principal when the approval was submitted.
    pub(super) groups: Vec<String>,
    pub(super) keeping: PersistenceState,
    pub(super) holding: ApprovalHolding,
    /// Id of the one use of an approval that is held here. It stays the same when a use is repeated.
    pub(super) attempt: Option<String>,
    /// The session that asks, where a permission for it is offered.
    pub(super) session: Option<GrantSession>,
}

/// Computes a key that distinguishes the programs of one asker: from the transport's identification, or else from the
/// application's name.
pub(super) fn program_share_key(caller: Option<&str>, application: Option<&str>) -> BindingDigest {
    let mut text = Sha256::new();
    // Keeps a program apart from an application whose name is spelled like it.
    text.update([u8::from(caller.is_some()), u8::from(application.is_some())]);
    text.update(caller.or(application).unwrap_or_default());
    text.finalize().into()
}

/// Generates a random id that cannot be guessed.
pub(crate) fn generate_id() -> Result<String, ApprovalQueueError> {
    let mut random = [0_u8; 16];
    aws_lc_rs::rand::fill(&mut random).map_err(|_| ApprovalQueueError::NoId)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl QueuedApproval {
    pub(super) fn is_open(&self) -> bool {
        self.approval.state == ApprovalState::Open && self.is_shown()
    }

    /// Returns true if a person can see it. An approval that is to be persisted is hidden until that has happened.
    pub(super) fn is_shown(&self) -> bool {
        self.keeping != PersistenceState::Writing
    }

    /// Returns true if only the node that holds the approval can check an edit of it.
    fn is_checked_by_holder(&self) -> bool {
        self.holding == ApprovalHolding::Elsewhere && !matches!(self.approval.card, ApprovalCard::Call(_))
    }

    /// Checks that this decision can be made, and returns its lasting part, if any. `checker` validates an edit if the
    /// approval has no check.
    pub(super) fn validate_decision(
        &self,
        decision: &ApprovalDecision,
        checker: Option<&StoredEditCheck>,
        now: Timestamp,
    ) -> Result<Option<LastingDecision>, DecideError> {
        let DecisionOptions { edit, session, always, block, targets, values } = self.approval.offers;
        if !self.is_open() {
            return Err(DecideError::Over);
        }
        match decision {
            ApprovalDecision::Deny { reason: Some(reason), .. } if reason.len() > MAX_REASON_BYTES => {
                Err(DecideError::LongReason)
            }
            ApprovalDecision::Deny { block: true, .. } if !block => Err(DecideError::NotOffered("blocking")),
            ApprovalDecision::Deny { block: true, .. } => Ok(Some(LastingDecision::Denied)),
            ApprovalDecision::Deny { .. } => Ok(None),
            ApprovalDecision::Allow { edited, scope } => {
                match edited {
                    Some(_) if !edit => return Err(DecideError::NotOffered("editing")),
                    Some(edited) => {
                        match (&self.check, checker) {
                            (Some(check), _) => check(edited),
                            (None, Some(checker)) if !self.is_checked_by_holder() => {
                                checker(&self.approval, &self.groups, edited)
                            }
                            // Its holder checks the edit.
                            (None, _) if self.is_checked_by_holder() => Ok(()),
                            (None, _) => Err("edits cannot be checked here".to_owned()),
                        }
                        .map_err(DecideError::Edit)?;
                    }
                    None if matches!(self.approval.card, ApprovalCard::Form(_)) => {
                        return Err(DecideError::Edit("the form has to be filled in".to_owned()));
                    }
                    None => (),
                }
                match scope {
                    ApprovalScope::Once => Ok(None),
                    ApprovalScope::Session if !session || self.session.is_none() => {
                        Err(DecideError::NotOffered("a permission for the session"))
                    }
                    ApprovalScope::Session => Ok(Some(LastingDecision::Session)),
                    // What was edited is not what the guard looked at.
                    ApprovalScope::Targets if !targets || edited.is_some() => {
                        Err(DecideError::NotOffered("remembering the targets"))
                    }
                    ApprovalScope::Targets => Ok(Some(LastingDecision::Targets)),
                    ApprovalScope::Values if !values || edited.is_some() || self.session.is_none() => {
                        Err(DecideError::NotOffered("trusting the values"))
                    }
                    ApprovalScope::Values => Ok(Some(LastingDecision::Values)),
                    ApprovalScope::Always(_) if !always => {
                        Err(DecideError::NotOffered("a lasting permission"))
                    }
                    ApprovalScope::Always(permission) => {
                        let until = GrantTable::check(permission, now)?;
                        Ok(Some(LastingDecision::Until(until, permission.clone())))
                    }
                }
            }
        }
    }

    pub(super) fn settle(&mut self, decided: DecisionRecord) -> Approval {
        self.approval.state = decided.decision.state();
        // Whoever asked has as long to come back for it.
        let now = Instant::now();
        self.until = now.checked_add(self.timeout).unwrap_or(now + MAX_WAIT);
        self.approval.decided = Some(decided);
        self.approval.clone()
    }

    pub(super) fn settled(&self) -> Option<ApprovalOutcome> {
        let Approval { approvers, principal, decided, .. } = &self.approval;
        decided.clone().map(|decided| decided.outcome(approvers.as_ref(), principal.as_deref()))
    }

    /// Returns the session that a grant of this approval is bound to, if any.
    pub(super) fn session_of(&self, grant: &ApprovalGrant) -> Option<GrantSession> {
        self.session.clone().filter(|_| grant.session.is_some())
    }

    pub(super) fn grant(&self, lasting: LastingDecision, (given_at, by): (Timestamp, &str)) -> ApprovalGrant {
        let approval = &self.approval;
        let (what, name) = match &approval.card {
            ApprovalCard::Call(card) => (card.what, card.name.clone()),
            ApprovalCard::Result(card) => (card.what, card.name.clone()),
            ApprovalCard::Plan(card) => (ApprovalCallKind::Tool, card.heading.clone()),
            // Nothing else offers anything that lasts.
            _ => (ApprovalCallKind::Tool, String::new()),
        };
        let mut grant = ApprovalGrant {
            // The approval's id is as hard to guess, and the approval is over with this decision.
            id: generate_id().unwrap_or_else(|_| approval.id.clone()),
            given_at,
            by: by.to_owned(),
            until: None,
            session: None,
            effect: GrantEffect::Allow,
            any_application: false,
            weak: false,
            principal: approval.principal.clone(),
            application: approval.application.clone(),
            server: approval.server.clone(),
            target: Some(self.target.clone()),
            what,
            name,
            definition: self.definition.clone(),
            arguments: Default::default(),
            other_arguments: None,
            destinations: Vec::new(),
            values: Vec::new(),
            used_at: None,
            uses: 0,
        };
        match lasting {
            LastingDecision::Session => {
                let session = self.session.as_ref();
                grant.until = session.and_then(|session| session.end(grant.given_at));
                grant.session = session.map(GrantSession::describe);
            }
            LastingDecision::Targets => {
                grant.effect = GrantEffect::Known;
                grant.until = LastingPermission::default().end(grant.given_at).ok();
                grant.values = match &approval.card {
                    ApprovalCard::Plan(card) => {
                        card.targets().iter().map(|value| normal_form(value)).collect()
                    }
                    _ => self.guard_values(|guard| guard.targets.clone()),
                };
                (grant.definition, grant.target) = (None, None);
            }
            LastingDecision::Values => {
                let session = self.session.as_ref();
                grant.effect = GrantEffect::Known;
                grant.until = session.and_then(|session| session.end(grant.given_at));
                grant.session = session.map(GrantSession::describe);
                grant.values = self.guard_values(|guard| {
                    let of_others = |value: &&GuardValue| value.finding == GuardFinding::Untrusted;
                    guard.values.iter().filter(of_others).map(|value| value.value.clone()).collect()
                });
                (grant.definition, grant.target) = (None, None);
            }
            LastingDecision::Until(until, permission) => {
                grant.until = Some(until);
                grant.arguments = permission.arguments;
                grant.other_arguments = permission.other_arguments;
                grant.destinations = permission.destinations;
                grant.any_application = permission.any_application;
            }
            // Whoever asks, and whatever the server makes of the tool.
            LastingDecision::Denied => {
                grant.effect = GrantEffect::Deny;
                (grant.any_application, grant.definition, grant.target) = (true, None, None);
            }
        }
        grant
    }
}

impl QueuedApproval {
    /// Returns values that the guard has shown, in their normal form.
    fn guard_values(&self, values: impl Fn(&GuardCard) -> Vec<String>) -> Vec<String> {
        let ApprovalCard::Call(card) = &self.approval.card else { return Vec::new() };
        let values = card.guard.as_ref().map(values).unwrap_or_default();
        values.iter().map(|value| normal_form(value)).collect()
    }
}

/// The part of a decision that lasts.
#[derive(Clone, Debug)]
pub(super) enum LastingDecision {
    Session,
    Targets,
    Values,
    Until(Timestamp, LastingPermission),
    Denied,
}
