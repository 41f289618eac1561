//! One-time links, and the sessions of browsers.
//!
//! Sessions are not persisted: they end with the host.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

/// Maximum number of unopened links; a further one removes the oldest.
const MAX_LINKS: usize = 16;
/// Maximum number of sessions; a further one ends the least recently used session.
const MAX_SESSIONS: usize = 32;
/// Maximum length of a browser's name (`User-Agent`), in characters.
pub(crate) const MAX_BROWSER: usize = 200;

/// Lifetimes of links and sessions.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SessionLifetimes {
    /// Lifetime of an unopened link: 10 minutes by default.
    pub link: Duration,
    /// Lifetime of an unused session: 12 hours by default.
    pub idle: Duration,
    /// Maximum lifetime of a session: 7 days by default.
    pub session: Duration,
}

impl Default for SessionLifetimes {
    fn default() -> Self {
        let hour = Duration::from_secs(60 * 60);
        Self { link: Duration::from_secs(600), idle: 12 * hour, session: 7 * 24 * hour }
    }
}

/// A URL that signs in one browser, once, for a short time.
///
/// The token follows the `#`. Browsers do not send that part of a URL, so it appears in no log.
#[derive(Clone)]
pub struct ConsoleLink {
    url: String,
    /// Time for which the link is valid.
    pub lifetime: Duration,
}

impl ConsoleLink {
    pub(crate) fn new(origin: &str, token: &str, lifetime: Duration) -> Self {
        Self { url: format!("{origin}/open#{token}"), lifetime }
    }

    /// Creates a link to the page at which people sign in.
    pub(crate) fn to_sign_in(origin: &str) -> Self {
        Self { url: format!("{origin}/"), lifetime: Duration::MAX }
    }

    /// Returns the URL. It grants access to the console: show it only to the person at this machine.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl fmt::Debug for ConsoleLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleLink").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

/// All links and sessions. Secrets are stored as hashes only.
pub(crate) struct BrowserSessions {
    lifetimes: SessionLifetimes,
    state: Mutex<BrowserSessionsState>,
}

#[derive(Default)]
struct BrowserSessionsState {
    links: Vec<(SecretHash, Instant)>,
    sessions: Vec<BrowserSession>,
}

type SecretHash = [u8; 32];

struct BrowserSession {
    id: String,
    secret: SecretHash,
    /// Hash of the key that the console's pages send and a browser does not send by itself.
    key: SecretHash,
    browser: String,
    since: Instant,
    used: Instant,
    opened: Timestamp,
    seen: Timestamp,
}

/// Secrets of a new session, for the browser.
pub(crate) struct OpenedSession {
    /// Id of the session, which is not secret.
    pub(crate) id: String,
    /// Secret for the cookie.
    pub(crate) secret: String,
    /// Key for the pages.
    pub(crate) key: String,
}

/// A session, for display.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionSummary {
    pub(crate) id: String,
    /// Name of the browser (`User-Agent`).
    pub(crate) browser: String,
    pub(crate) opened: Timestamp,
    pub(crate) seen: Timestamp,
    /// Time at which the session expires if it is not used before.
    pub(crate) ends: Timestamp,
}

impl BrowserSessions {
    pub(crate) fn new(lifetimes: SessionLifetimes) -> Self {
        Self { lifetimes, state: Mutex::default() }
    }

    /// Creates a link. Returns its token and its lifetime.
    pub(crate) fn create_link(&self) -> (String, Duration) {
        let token = random_text();
        let until = Instant::now() + self.lifetimes.link;
        let mut state = self.lock_state();
        if state.links.len() >= MAX_LINKS {
            state.links.remove(0);
        }
        state.links.push((hash_secret(&token), until));
        (token, self.lifetimes.link)
    }

    /// Redeems a link. Returns `None` if the link does not exist or has expired.
    pub(crate) fn redeem_link(&self, token: &str, browser: &str) -> Option<OpenedSession> {
        let mut state = self.lock_state();
        // Hashes are compared, in constant time, so that the duration reveals nothing about a secret.
        let shown = hash_secret(token);
        let found = state.links.iter().position(|(link, _)| bool::from(link.ct_eq(&shown)))?;
        // Removed under the same lock that found it, so that only one of two browsers gets in.
        let _used = state.links.remove(found);
        if state.sessions.len() >= MAX_SESSIONS {
            let oldest = state.sessions.iter().enumerate().min_by_key(|(_, session)| session.used);
            let oldest = oldest.map_or(0, |(position, _)| position);
            state.sessions.remove(oldest);
        }
        let (secret, key) = (random_text(), random_text());
        let (now, moment) = (Instant::now(), Timestamp::now());
        // Drawn separately, because the id is shown to people and must not be part of a secret.
        let id = random_text()[..12].to_owned();
        state.sessions.push(BrowserSession {
            id: id.clone(),
            secret: hash_secret(&secret),
            key: hash_secret(&key),
            browser: browser.chars().take(MAX_BROWSER).collect(),
            since: now,
            used: now,
            opened: moment,
            seen: moment,
        });
        Some(OpenedSession { id, secret, key })
    }

    /// Returns the id of the session with this cookie and marks it as used. If a key is given, it has to match.
    pub(crate) fn authenticate(&self, secret: &str, key: Option<&str>) -> Option<String> {
        let mut state = self.lock_state();
        let shown = hash_secret(secret);
        let session = state.sessions.iter_mut().find(|session| bool::from(session.secret.ct_eq(&shown)))?;
        // Before the session counts as used, so that a wrong key does not keep it alive.
        if key.is_some_and(|key| !bool::from(session.key.ct_eq(&hash_secret(key)))) {
            return None;
        }
        (session.used, session.seen) = (Instant::now(), Timestamp::now());
        Some(session.id.clone())
    }

    /// Returns true if the session exists and has not expired.
    pub(crate) fn is_active(&self, id: &str) -> bool {
        self.lock_state().sessions.iter().any(|session| session.id == id)
    }

    /// Returns all sessions, newest first.
    pub(crate) fn list(&self) -> Vec<SessionSummary> {
        let state = self.lock_state();
        let shown = |session: &BrowserSession| {
            let left = (self.lifetimes.idle.saturating_sub(session.used.elapsed()))
                .min(self.lifetimes.session.saturating_sub(session.since.elapsed()));
            SessionSummary {
                id: session.id.clone(),
                browser: session.browser.clone(),
                opened: session.opened,
                seen: session.seen,
                ends: Timestamp::now().saturating_add(left).unwrap_or(Timestamp::MAX),
            }
        };
        state.sessions.iter().rev().map(shown).collect()
    }

    /// Ends a session. Returns true if it existed.
    pub(crate) fn end(&self, id: &str) -> bool {
        let mut state = self.lock_state();
        let before = state.sessions.len();
        state.sessions.retain(|session| session.id != id);
        state.sessions.len() < before
    }

    /// Locks the state and removes expired entries.
    fn lock_state(&self) -> MutexGuard<'_, BrowserSessionsState> {
        let mut state = self.state.lock();
        let now = Instant::now();
        let SessionLifetimes { idle, session: whole, .. } = self.lifetimes;
        state.links.retain(|(_, until)| *until > now);
        state.sessions.retain(|session| now - session.used < idle && now - session.since < whole);
        state
    }
}

fn hash_secret(secret: &str) -> SecretHash {
    let mut hash = SecretHash::default();
    hash.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
    hash
}

/// Returns the hash of a secret as text, in the form that is stored.
pub(crate) fn hash_text(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(hash_secret(secret))
}

/// Returns 256 random bits as 43 characters.
pub(crate) fn random_text() -> String {
    let mut bytes = [0; 32];
    // Without random bytes there are no secrets, so the program cannot continue.
    getrandom::fill(&mut bytes).expect("the operating system has randomness");
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions() -> BrowserSessions {
        BrowserSessions::new(SessionLifetimes::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_is_good_once_and_not_for_long() {
        let sessions = sessions();
        let (token, lifetime) = sessions.create_link();
        assert!(sessions.redeem_link("another", "x").is_none());
        assert!(sessions.redeem_link(&token, "x").is_some());
        assert!(sessions.redeem_link(&token, "x").is_none(), "a second time");
        let (late, _) = sessions.create_link();
        tokio::time::advance(lifetime).await;
        assert!(sessions.redeem_link(&late, "x").is_none(), "too late");
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_when_it_is_not_used_and_at_last_anyway() {
        let sessions = sessions();
        let open = || {
            let (token, _) = sessions.create_link();
            sessions.redeem_link(&token, "x").unwrap()
        };
        let (idle, used) = (open(), open());
        let SessionLifetimes { idle: limit, session: last, .. } = sessions.lifetimes;
        tokio::time::advance(limit / 2).await;
        assert!(sessions.authenticate(&used.secret, Some(&used.key)).is_some());
        tokio::time::advance(limit / 2).await;
        assert!(sessions.authenticate(&idle.secret, Some(&idle.key)).is_none());
        for _ in 0..last.as_secs() / (limit / 2).as_secs() {
            tokio::time::advance(limit / 2).await;
            sessions.authenticate(&used.secret, Some(&used.key));
        }
        assert!(!sessions.is_active(&used.id), "it was used all the time, and is over all the same");
    }

    #[test]
    fn the_cookie_and_the_key_belong_together() {
        let sessions = sessions();
        let open = || {
            let (token, _) = sessions.create_link();
            sessions.redeem_link(&token, "x").unwrap()
        };
        let (one, other) = (open(), open());
        assert!(sessions.authenticate(&one.secret, Some(&one.key)).is_some());
        assert!(sessions.authenticate(&one.secret, Some(&other.key)).is_none());
        assert!(sessions.authenticate(&one.key, Some(&one.key)).is_none());
        assert!(sessions.end(&one.id) && !sessions.end(&one.id));
        assert!(sessions.authenticate(&one.secret, Some(&one.key)).is_none());
    }

    #[test]
    fn there_is_a_most_of_links_and_sessions() {
        let sessions = sessions();
        let first = sessions.create_link().0;
        for _ in 0..MAX_LINKS {
            sessions.create_link();
        }
        assert!(sessions.redeem_link(&first, "x").is_none());
        for _ in 0..=MAX_SESSIONS {
            let (token, _) = sessions.create_link();
            sessions.redeem_link(&token, &"x".repeat(10_000)).unwrap();
        }
        assert_eq!(sessions.list().len(), MAX_SESSIONS);
        assert!(sessions.list().iter().all(|session| session.browser.len() == MAX_BROWSER));
    }
}
