//! Browser sessions and their signed-in users.

use http::HeaderMap;
use http::header::COOKIE;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::auth_server::AuthServer;
use super::provider::SignInProvider;
use super::store::secrets::{hash, random_text};
use super::store::{AuthRecord, AuthStoreError, RecordKind, encode};

/// A browser, by the secret in its cookie.
#[derive(Clone)]
pub(super) struct AuthBrowserSession {
    secret: String,
    /// User who is signed in.
    pub(super) user: Option<String>,
    /// User who has signed in at the provider for one page.
    pub(super) visitor: Option<PageVisitor>,
    /// True if the cookie has to be set.
    fresh: bool,
}

/// User who has signed in at a provider for one page, and is unknown on every other page.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct PageVisitor {
    /// The page, by the last part of its path.
    pub(super) page: String,
    /// Name of the principal, as from [`TokenPrincipal::name`](hospes_oauth_resource::TokenPrincipal::name).
    pub(super) principal: String,
    /// Display name.
    pub(super) shown: String,
}

#[derive(Serialize, Deserialize)]
struct BrowserRecord {
    user: String,
    /// Digest of the user's credentials at sign-in.
    mark: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    visitor: Option<PageVisitor>,
}

impl AuthBrowserSession {
    fn new(user: Option<String>) -> Self {
        Self { secret: random_text(), user, visitor: None, fresh: true }
    }

    /// Returns the key of the session in records: the hash of its secret.
    pub(super) fn session_key(&self) -> String {
        hash(&self.secret)
    }

    /// Returns the CSRF token of a form for this request. Only pages of this server in this browser know it.
    pub(super) fn csrf(&self, request: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes());
        URL_SAFE_NO_PAD.encode(hmac::sign(&key, request.as_bytes()))
    }

    pub(super) fn verify_csrf(&self, request: &str, shown: &str) -> bool {
        bool::from(self.csrf(request).as_bytes().ct_eq(shown.as_bytes()))
    }
}

impl AuthServer {
    fn cookie_name(&self) -> String {
        self.named_cookie("hospes")
    }

    /// Returns the full name of a cookie. `__Host-` binds it to this host and to https; browsers reject it over plain
    /// http, which only loopback uses. Loopback shares cookies among all ports, so the name includes the port.
    pub(super) fn named_cookie(&self, name: &str) -> String {
        if self.is_https() {
            return format!("__Host-{name}");
        }
        let port = self.settings().issuer.url().and_then(|url| url.port_or_known_default());
        format!("{name}-{}", port.unwrap_or_default())
    }

    /// Returns the session of the browser that sends a request, or a new one.
    pub(super) async fn browser(&self, headers: &HeaderMap) -> Result<AuthBrowserSession, AuthStoreError> {
        let Some(secret) = cookie(headers, &self.cookie_name()) else {
            return Ok(AuthBrowserSession::new(None));
        };
        // Only the hash is stored, so that whoever reads the store cannot take a session over.
        let record = self.store().get(RecordKind::Browser, &hash(&secret), self.now()).await?;
        let known = record.and_then(|record| serde_json::from_str::<BrowserRecord>(&record.value).ok());
        let still = |record: &BrowserRecord| {
            let mark = match (self.provider(), &record.visitor) {
                (Some(provider), Some(_)) => Some(provider.sign_in_digest()),
                (None, None) => self.0.sign_in.credential_digest(&record.user),
                // Users sign in in another way by now.
                _ => None,
            };
            mark.is_some() && record.mark == mark
        };
        let (user, visitor) = match known.filter(still) {
            Some(BrowserRecord { visitor: Some(visitor), .. }) => (None, Some(visitor)),
            Some(BrowserRecord { user, .. }) => (Some(user), None),
            None => (None, None),
        };
        Ok(AuthBrowserSession { secret, user, visitor, fresh: false })
    }

    /// Stores a user who has signed in at the provider for one page, for the lifetime of that page, under a new secret.
    pub(super) async fn remember_visitor(
        &self,
        provider: &SignInProvider,
        before: &AuthBrowserSession,
        visitor: PageVisitor,
    ) -> Result<AuthBrowserSession, AuthStoreError> {
        let browser = AuthBrowserSession { visitor: Some(visitor.clone()), ..AuthBrowserSession::new(None) };
        // To decide, and to sign in at the other's.
        let until = self.now() + 2 * self.settings().lifetimes.pending.as_secs();
        let value = encode(&BrowserRecord {
            user: visitor.principal.clone(),
            mark: Some(provider.sign_in_digest()),
            visitor: Some(visitor),
        });
        self.store().put(AuthRecord::new(RecordKind::Browser, browser.session_key(), value, until)).await?;
        self.store().forget(RecordKind::Browser, &before.session_key()).await?;
        Ok(browser)
    }

    /// Signs a user in under a new secret, so that a secret planted before (session fixation) is useless.
    pub(super) async fn start_session(
        &self,
        before: &AuthBrowserSession,
        user: &str,
    ) -> Result<AuthBrowserSession, AuthStoreError> {
        let browser = AuthBrowserSession::new(Some(user.to_owned()));
        let until = self.now() + self.settings().lifetimes.browser.as_secs();
        let mark = self.0.sign_in.credential_digest(user);
        let value = encode(&BrowserRecord { user: user.to_owned(), mark, visitor: None });
        self.store().put(AuthRecord::new(RecordKind::Browser, browser.session_key(), value, until)).await?;
        self.store().forget(RecordKind::Browser, &before.session_key()).await?;
        tracing::info!(user, "user signed in");
        Ok(browser)
    }

    /// Returns the cookie with the session's secret, if the browser does not have it yet.
    pub(super) fn cookie_for(&self, browser: &AuthBrowserSession) -> Option<String> {
        let secure = if self.is_https() { "; Secure" } else { "" };
        let name = self.cookie_name();
        // Lax: the browser comes to us from the application's page, and has to be known then.
        browser.fresh.then(|| format!("{name}={}; Path=/; HttpOnly; SameSite=Lax{secure}", browser.secret))
    }
}

/// Returns the value of a cookie. If two cookies have the same name, neither is used, because an attacker may have
/// planted one.
pub(super) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let cookies = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut ours = cookies.filter(|(known, _)| *known == name);
    let (_, value) = ours.next()?;
    if ours.next().is_some() {
        tracing::warn!(name, "ignored duplicate session cookies");
        return None;
    }
    let well_formed =
        value.len() == 43 && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    well_formed.then(|| value.to_owned())
}
