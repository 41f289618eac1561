//! Lasting decisions of a person, in memory.

use std::collections::HashMap;
use std::sync::Arc;

use hospes::Peer;
use hospes_policy::PolicyRequest;
use hospes_store::StateClock;
use hospes_store::grants::StoredGrant;
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};

use super::approval::ApprovalCallKind;
use super::decision::DecideError;
use super::grant::{ApprovalGrant, GrantConditions, GrantEffect, LastingPermission};
use super::session::GrantSession;

/// Maximum number of lasting decisions.
pub const MAX_GRANTS: usize = 4096;

/// Properties of a call that are compared with grants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantQuery<'a> {
    pub(crate) asked: &'a PolicyRequest<'a>,
    /// The hash of the server's command line or URL.
    pub(crate) target: &'a str,
    pub(crate) what: ApprovalCallKind,
    pub(crate) name: &'a str,
    /// The hash of the tool's definition.
    pub(crate) definition: Option<&'a str>,
    /// True if decisions that an application reported for its person do not count.
    pub(crate) strong: bool,
    /// Peer that calls. Permissions that are bound to a session match only if it is given.
    pub(crate) peer: Option<&'a Arc<Peer>>,
}

#[derive(Debug, Default)]
pub(super) struct GrantTable {
    all: RwLock<HashMap<String, ActiveGrant>>,
    /// Grants of the effect [`GrantEffect::Known`], by value.
    known: RwLock<HashMap<String, Vec<String>>>,
    /// Uses since the last write to the store.
    used: Mutex<HashMap<String, (Timestamp, u64)>>,
    clock: StateClock,
}

#[derive(Debug)]
struct ActiveGrant {
    grant: ApprovalGrant,
    /// The grant as decider of a call, for the audit log. Made once, because many calls match the same grant.
    decider: Arc<str>,
    conditions: GrantConditions,
    /// The session that it ends with.
    session: Option<GrantSession>,
}

impl GrantTable {
    /// Creates an empty table whose grants expire by this clock.
    pub(super) fn new(clock: StateClock) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Replaces the persisted grants by the current ones. Grants bound to a session stay.
    pub(super) fn replace(&self, kept: Vec<StoredGrant>) {
        let read = |kept: StoredGrant| {
            let mut grant: ApprovalGrant =
                serde_json::from_str(&kept.body).map_err(|error| error.to_string())?;
            let conditions = GrantConditions::of(&grant)?;
            if grant.effect == GrantEffect::Allow && grant.target.is_none() {
                return Err("it does not name the command line or URL of its server".to_owned());
            }
            (grant.used_at, grant.uses) = (kept.used_at, kept.uses);
            Ok::<_, String>(ActiveGrant::new(grant, conditions, None))
        };
        // Held until all are back: a call in between would find no denial.
        let mut all = self.all.write();
        let before = std::mem::take(&mut *all);
        for kept in kept {
            let id = kept.id.clone();
            match read(kept) {
                Ok(mut given) => {
                    // What was used here meanwhile is not written down yet.
                    if let Some(known) = before.get(&id).filter(|known| known.grant.uses > given.grant.uses) {
                        (given.grant.used_at, given.grant.uses) = (known.grant.used_at, known.grant.uses);
                    }
                    all.insert(id, given);
                }
                // Nothing is allowed by what cannot be read; the person is asked again.
                Err(error) => {
                    tracing::warn!(%id, error, "lasting decision cannot be read and is ignored")
                }
            }
        }
        all.extend(before.into_iter().filter(|(_, given)| !given.grant.is_kept()));
        self.index_known(&all);
    }

    /// Indexes the known values of all grants.
    fn index_known(&self, all: &HashMap<String, ActiveGrant>) {
        let mut known: HashMap<String, Vec<String>> = HashMap::new();
        for (id, given) in all {
            for value in &given.grant.values {
                known.entry(value.clone()).or_default().push(id.clone());
            }
        }
        *self.known.write() = known;
    }

    /// Returns true if a value in normal form is known to an application of this user.
    pub(super) fn is_known(
        &self,
        value: &str,
        (principal, application): (Option<&str>, Option<&str>),
        peer: &Arc<Peer>,
    ) -> bool {
        let ids = {
            let known = self.known.read();
            // Nearly always there are none.
            let Some(ids) = known.get(value) else { return false };
            ids.clone()
        };
        let now = self.clock.now();
        let mut all = self.all.write();
        for id in ids {
            let Some(given) = all.get_mut(&id) else { continue };
            let grant = &mut given.grant;
            let is_for_caller = grant.principal.as_deref() == principal
                && (grant.any_application || grant.application.as_deref() == application)
                && given.session.as_ref().is_none_or(|session| session.includes(peer));
            if !is_for_caller || grant.is_over(now) {
                continue;
            }
            (grant.used_at, grant.uses) = (Some(now), grant.uses.saturating_add(1));
            if grant.is_kept() {
                self.used.lock().insert(id, (now, grant.uses));
            }
            return true;
        }
        false
    }

    /// Suspends all persisted grants until they are read again.
    pub(super) fn suspend(&self) {
        self.all.write().retain(|_, given| {
            let grant = &given.grant;
            // Denials stay: without them more would be allowed.
            !grant.is_kept() || grant.effect == GrantEffect::Deny
        });
        self.index_known(&self.all.read());
    }

    /// Returns the uses since the previous call of this function.
    pub(super) fn take_used(&self) -> Vec<(String, Timestamp, u64)> {
        let used = std::mem::take(&mut *self.used.lock());
        used.into_iter().map(|(id, (at, uses))| (id, at, uses)).collect()
    }

    /// Checks that a grant can be added.
    ///
    /// # Errors
    /// [`DecideError::Rule`] if the limit is reached, or its conditions are invalid.
    pub(super) fn check_new(&self, grant: &ApprovalGrant) -> Result<(), DecideError> {
        GrantConditions::of(grant).map_err(DecideError::Rule)?;
        make_room(&mut self.all.write(), self.clock.now())
    }

    /// Adds a grant.
    ///
    /// # Errors
    /// [`DecideError::Rule`] if the limit is reached, or its conditions are invalid.
    pub(super) fn insert(
        &self,
        grant: ApprovalGrant,
        session: Option<GrantSession>,
    ) -> Result<(), DecideError> {
        let conditions = GrantConditions::of(&grant).map_err(DecideError::Rule)?;
        let mut all = self.all.write();
        make_room(&mut all, self.clock.now())?;
        let is_known = grant.effect == GrantEffect::Known;
        all.insert(grant.id.clone(), ActiveGrant::new(grant, conditions, session));
        if is_known {
            self.index_known(&all);
        }
        Ok(())
    }

    /// Validates a lasting permission.
    ///
    /// # Errors
    /// If the condition on the arguments is invalid.
    pub(super) fn check(permission: &LastingPermission, now: Timestamp) -> Result<Timestamp, DecideError> {
        let until = permission.end(now).map_err(DecideError::Rule)?;
        let others = permission.other_arguments.as_deref();
        GrantConditions::new(&permission.arguments, others, &permission.destinations)
            .map_err(DecideError::Rule)?;
        Ok(until)
    }

    pub(super) fn revoke(&self, id: &str) -> Option<ApprovalGrant> {
        let mut all = self.all.write();
        let revoked = all.remove(id).map(|given| given.grant);
        self.index_known(&all);
        revoked
    }

    /// Returns true if there is such a plan, and it is not over.
    pub(super) fn is_plan_open(&self, id: &str) -> bool {
        let all = self.all.read();
        let open = all.get(id).filter(|given| given.grant.effect == GrantEffect::Plan);
        open.is_some_and(|given| !given.is_over(self.clock.now()))
    }

    /// Counts a use of a plan. Returns false if there is no such plan, or if it is over.
    pub(super) fn use_plan(&self, id: &str) -> bool {
        let now = self.clock.now();
        let mut all = self.all.write();
        let open = all.get_mut(id).filter(|given| given.grant.effect == GrantEffect::Plan);
        let Some(given) = open.filter(|given| !given.is_over(now)) else { return false };
        let grant = &mut given.grant;
        (grant.used_at, grant.uses) = (Some(now), grant.uses.saturating_add(1));
        true
    }

    /// Returns the valid grants, newest first.
    pub(super) fn list(&self) -> Vec<ApprovalGrant> {
        let now = self.clock.now();
        let all = self.all.read();
        let held = all.values().filter(|given| !given.is_over(now));
        let mut grants: Vec<ApprovalGrant> = held.map(|given| given.grant.clone()).collect();
        // The id decides between equal times, since the order of the map changes.
        grants.sort_by(|one, other| other.given_at.cmp(&one.given_at).then_with(|| one.id.cmp(&other.id)));
        grants
    }

    /// Removes all grants that are bound to a session.
    pub(super) fn end_sessions(&self) {
        let mut all = self.all.write();
        all.retain(|_, given| given.session.is_none());
        self.index_known(&all);
    }

    /// Counts a use of the first matching grant and returns the grant as decider, for the audit log.
    pub(super) fn find(&self, subject: &GrantQuery<'_>, effect: GrantEffect) -> Option<Arc<str>> {
        let now = self.clock.now();
        // For reading first: few calls have a grant, and the conditions may look at links on the disk.
        let all = self.all.read();
        let found = all.values().find(|given| given.grant.effect == effect && given.fits(subject, now))?;
        let (id, decider) = (found.grant.id.clone(), Arc::clone(&found.decider));
        drop(all);
        // It may have been revoked between the two locks; the call was looked at before that.
        if let Some(ActiveGrant { grant, .. }) = self.all.write().get_mut(&id) {
            grant.used_at = Some(now);
            grant.uses = grant.uses.saturating_add(1);
            if grant.is_kept() {
                self.used.lock().insert(id, (now, grant.uses));
            }
        }
        Some(decider)
    }
}

/// Removes expired grants if the limit is reached.
fn make_room(all: &mut HashMap<String, ActiveGrant>, now: Timestamp) -> Result<(), DecideError> {
    if all.len() >= MAX_GRANTS {
        all.retain(|_, given| !given.is_over(now));
    }
    if all.len() >= MAX_GRANTS {
        return Err(DecideError::Rule(format!("the limit of {MAX_GRANTS} grants is reached; revoke some")));
    }
    Ok(())
}

impl ActiveGrant {
    fn new(grant: ApprovalGrant, conditions: GrantConditions, session: Option<GrantSession>) -> Self {
        let by = &grant.by;
        let decider = match (grant.effect, grant.until) {
            (GrantEffect::Deny, _) => format!("blocked by {by}"),
            (GrantEffect::Known, _) => format!("made known by {by}"),
            (GrantEffect::Plan, _) => format!("approved as a plan by {by}"),
            (GrantEffect::Allow, Some(until)) => format!("granted until {until} by {by}"),
            (GrantEffect::Allow, None) => format!("granted until the session ends by {by}"),
        };
        Self { decider: decider.into(), grant, conditions, session }
    }

    fn is_over(&self, now: Timestamp) -> bool {
        self.grant.is_over(now) || self.session.as_ref().is_some_and(GrantSession::is_over)
    }

    fn fits(&self, subject: &GrantQuery<'_>, now: Timestamp) -> bool {
        let GrantQuery { asked, target, what, name, definition, strong, peer } = *subject;
        let grant = &self.grant;
        let is_same = grant.server == asked.server
            && grant.what == what
            && grant.name == name
            && grant.principal.as_deref() == asked.principal
            // A denial holds for whatever has the name.
            && (grant.effect == GrantEffect::Deny || grant.target.as_deref() == Some(target));
        is_same
            && (grant.any_application || grant.application.as_deref() == asked.application)
            && !(grant.weak && strong)
            && grant.definition.as_deref().is_none_or(|wanted| definition == Some(wanted))
            && !self.is_over(now)
            && self.session.as_ref().is_none_or(|session| peer.is_some_and(|peer| session.includes(peer)))
            // Last, since it may look at the disk.
            && self.conditions.fit(asked, now)
    }
}
