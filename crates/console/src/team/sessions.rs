//! Sessions of people, in the state that all nodes share.

use std::sync::Arc;

use hospes_store::StoreError;
use hospes_store::console_sessions::ConsoleSession;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::logout::provider_session;
use super::person::TeamPerson;
use super::sign_in::{ClaimedPerson, FinishError, TeamSignInError};
use super::{TeamConsole, TeamRole};
use crate::sessions::{MAX_BROWSER, SessionSummary, hash_text, random_text};

/// Lifetime of an unused session.
const IDLE_LIFETIME: SignedDuration = SignedDuration::from_hours(12);
/// Lifetime of a session whose claims can be read again.
const LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Lifetime of a session whose claims cannot be read again.
const LIFETIME_WITHOUT_REFRESH: SignedDuration = SignedDuration::from_hours(12);
/// Interval at which the claims are read again.
const CLAIMS_INTERVAL: SignedDuration = SignedDuration::from_hours(1);
/// Longest time for which claims that cannot be read again still count, while the provider does not answer.
const CLAIMS_LIFETIME: SignedDuration = SignedDuration::from_hours(4);
/// Interval at which the use of a session is recorded. Each record is a change that all nodes notice.
const USE_INTERVAL: SignedDuration = SignedDuration::from_mins(5);
/// Maximum length of a display name, in characters.
const MAX_NAME: usize = 120;

/// A session that was opened, for its browser.
pub(crate) struct OpenedTeamSession {
    /// Secret for the cookie.
    pub(crate) secret: String,
    pub(crate) person: TeamPerson,
}

/// Stored contents of a session, besides its times.
#[derive(Clone, Serialize, Deserialize)]
struct SessionBody {
    subject: String,
    name: String,
    /// Groups of the person.
    groups: Vec<String>,
    browser: String,
    refresh_token: Option<String>,
    /// Time at which the provider has confirmed the claims.
    confirmed: Timestamp,
}

/// A session of a person, for display.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TeamSessionSummary {
    #[serde(flatten)]
    pub(crate) session: SessionSummary,
    /// Display name of the person.
    pub(crate) name: String,
    /// Principal of the person.
    pub(crate) person: String,
}

impl TeamConsole {
    /// Opens a session for a person who has a role.
    pub(super) async fn open_session(
        &self,
        person: ClaimedPerson,
        browser: &str,
    ) -> Result<OpenedTeamSession, FinishError> {
        let ClaimedPerson { issuer, subject, claims, refresh_token } = person;
        let name = display_name(&claims, &subject);
        let groups = match self.roles.known_groups(&claims) {
            Ok(groups) => groups,
            Err(why) => {
                tracing::warn!(issuer, subject, ?why, "console sign-in refused: no role");
                refresh_token.into_iter().for_each(|token| self.sign_in.revoke(token));
                return Err(FinishError::NoRole(why, name));
            }
        };
        let principal = (self.principal)(&issuer, &subject);
        let now = Timestamp::now();
        let lifetime = if refresh_token.is_some() { LIFETIME } else { LIFETIME_WITHOUT_REFRESH };
        let roles = self.roles.of(&groups);
        let session = claims.get("sid").and_then(|sid| sid.as_str()).filter(|sid| !sid.is_empty());
        let provider_session = session.map(|sid| provider_session(&issuer, sid)).unwrap_or_default();
        let body = SessionBody {
            subject,
            name: name.clone(),
            groups: groups.clone(),
            browser: browser.chars().take(MAX_BROWSER).collect(),
            refresh_token,
            confirmed: now,
        };
        let secret = random_text();
        let (key, id) = (hash_text(&secret), random_text()[..12].to_owned());
        let session = ConsoleSession {
            key: key.clone(),
            id: id.clone(),
            person: principal.clone(),
            opened: now,
            seen: now,
            until: now.saturating_add(lifetime).unwrap_or(Timestamp::MAX),
            checked: now,
            provider_session,
            body: encode(&body),
        };
        if !self.records.insert(session).await? {
            return Err(FinishError::TooMany);
        }
        Ok(OpenedTeamSession {
            secret,
            person: TeamPerson { session: id, session_key: key, principal, name, roles, groups },
        })
    }

    /// Returns the person whose session has this secret, and marks the session as used.
    pub(crate) async fn authenticate(&self, secret: &str) -> Result<Option<Arc<TeamPerson>>, StoreError> {
        let now = Timestamp::now();
        let found = self.records.find(hash_text(secret), now, IDLE_LIFETIME).await?;
        let Some(session) = found else { return Ok(None) };
        let Ok(body) = serde_json::from_str::<SessionBody>(&session.body) else { return Ok(None) };
        let Some(body) = self.confirm_claims(&session, body, now).await? else {
            self.records.end(session.id, None).await?;
            return Ok(None);
        };
        let roles = self.roles.of(&body.groups);
        // A group may have lost its role meanwhile.
        if roles.is_empty() {
            return Ok(None);
        }
        if now.duration_since(session.seen) >= USE_INTERVAL {
            self.records.record_use(session.key.clone(), now).await?;
        }
        let ConsoleSession { key, id, person, .. } = session;
        let (session_key, principal) = (key, person);
        let SessionBody { name, groups, .. } = body;
        Ok(Some(Arc::new(TeamPerson { session: id, session_key, principal, name, roles, groups })))
    }

    /// Returns true if a session has not ended.
    pub(crate) async fn is_active(&self, person: &TeamPerson) -> Result<bool, StoreError> {
        let found = self.records.find(person.session_key.clone(), Timestamp::now(), IDLE_LIFETIME).await?;
        Ok(found.is_some())
    }

    /// Reads the claims of a session again if they are an hour old. Returns `None` if the session has to end.
    async fn confirm_claims(
        &self,
        session: &ConsoleSession,
        mut body: SessionBody,
        now: Timestamp,
    ) -> Result<Option<SessionBody>, StoreError> {
        // Without a token the session ends by itself.
        let Some(token) = body.refresh_token.clone() else { return Ok(Some(body)) };
        if now.duration_since(session.checked) < CLAIMS_INTERVAL {
            return Ok(Some(body));
        }
        // A token may be good once only, so one node asks, and the others go by the claims of before.
        if !self.records.claim_check(session.key.clone(), session.checked, now).await? {
            return Ok(Some(body));
        }
        match self.sign_in.read_again(&token, &body.subject).await {
            Ok(person) => {
                let Ok(groups) = self.roles.known_groups(&person.claims) else { return Ok(None) };
                (body.groups, body.refresh_token, body.confirmed) = (groups, person.refresh_token, now);
                self.records.set_body(session.key.clone(), &encode(&body)).await?;
                Ok(Some(body))
            }
            Err(why @ (TeamSignInError::Refused(_) | TeamSignInError::Denied)) => {
                tracing::info!(session = session.id, %why, "console session ended: the provider refuses to renew it");
                Ok(None)
            }
            Err(why) => {
                tracing::warn!(%why, "the groups of a person cannot be read again");
                Ok((now.duration_since(body.confirmed) < CLAIMS_LIFETIME).then_some(body))
            }
        }
    }

    /// Returns the sessions that a person may see, the newest first.
    pub(crate) async fn list_sessions(
        &self,
        person: &TeamPerson,
    ) -> Result<Vec<TeamSessionSummary>, StoreError> {
        let whose = (!person.has(TeamRole::Admin)).then(|| person.principal.clone());
        let found = self.records.list(whose, Timestamp::now(), IDLE_LIFETIME).await?;
        let shown = |session: ConsoleSession| {
            let body: SessionBody = serde_json::from_str(&session.body).ok()?;
            let idle = session.seen.saturating_add(IDLE_LIFETIME).unwrap_or(Timestamp::MAX);
            let ConsoleSession { id, opened, seen, until, person, .. } = session;
            let session = SessionSummary { id, browser: body.browser, opened, seen, ends: until.min(idle) };
            Some(TeamSessionSummary { session, name: body.name, person })
        };
        Ok(found.into_iter().filter_map(shown).collect())
    }

    /// Returns the display name of a person who is signed in to the console. `None` if the person is not, or if the state
    /// does not answer: it identifies nobody.
    pub(crate) async fn name_of(&self, principal: &str) -> Option<String> {
        let found = self.records.list(Some(principal.to_owned()), Timestamp::now(), IDLE_LIFETIME).await;
        let found = found.inspect_err(|error| tracing::warn!(%error, "names of people cannot be read"));
        let latest = found.ok()?.into_iter().next()?;
        serde_json::from_str::<SessionBody>(&latest.body).ok().map(|body| body.name)
    }

    /// Ends a session that a person may end: one of their own, or any for an administrator.
    pub(crate) async fn end_session(&self, id: &str, person: &TeamPerson) -> Result<bool, StoreError> {
        let whose = (!person.has(TeamRole::Admin)).then(|| person.principal.clone());
        self.records.end(id.to_owned(), whose).await
    }
}

fn encode(body: &SessionBody) -> String {
    serde_json::to_string(body).unwrap_or_default()
}

/// Returns the name that the page shows. Only issuer and subject identify a person.
fn display_name(claims: &serde_json::Map<String, serde_json::Value>, subject: &str) -> String {
    let text = |name: &&str| claims.get(*name).and_then(|said| said.as_str()).filter(|said| !said.is_empty());
    let name = ["name", "preferred_username", "email"].iter().find_map(text).unwrap_or(subject);
    hospes_policy::visible_line(name).chars().take(MAX_NAME).collect()
}
