//! Browsers: which one asks, and who is signed in with it.

use http::HeaderMap;
use http::header::COOKIE;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::store::{Kind, Record, StoreError};
use super::tokens::encode;
use super::{AuthServer, hash, random_text};

/// A browser, by the secret in its cookie.
#[derive(Clone)]
pub(super) struct Browser {
    secret: String,
    /// Who is signed in with it.
    pub(super) user: Option<String>,
    /// Who has signed in elsewhere for one page of ours.
    pub(super) visitor: Option<Visitor>,
    /// Whether it has to be told its secret.
    fresh: bool,
}

/// Somebody who has signed in at a provider for one page of ours, and is nobody on any other.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Visitor {
    /// Which page, by the last part of its path.
    pub(super) page: String,
    /// Who it is, as [`Principal::name`](crate::resource::Principal::name) says it.
    pub(super) principal: String,
    /// What people call them.
    pub(super) shown: String,
}

#[derive(Serialize, Deserialize)]
struct BrowserRecord {
    user: String,
    /// As they signed in then.
    mark: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    visitor: Option<Visitor>,
}

impl Browser {
    fn new(user: Option<String>) -> Self {
        Self { secret: random_text(), user, visitor: None, fresh: true }
    }

    /// What stands for it in records.
    pub(super) fn mark(&self) -> String {
        hash(&self.secret)
    }

    /// What a form for this request has to carry: only a page of ours in this browser knows it.
    pub(super) fn csrf(&self, request: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes());
        URL_SAFE_NO_PAD.encode(hmac::sign(&key, request.as_bytes()))
    }

    pub(super) fn checks(&self, request: &str, shown: &str) -> bool {
        bool::from(self.csrf(request).as_bytes().ct_eq(shown.as_bytes()))
    }
}

impl AuthServer {
    fn cookie_name(&self) -> String {
        self.named_cookie("hospes")
    }

    /// `__Host-` binds a cookie to this host and to https; browsers refuse it over plain http, which only loopback has.
    /// There all ports share their cookies, so that each has names of its own.
    pub(super) fn named_cookie(&self, name: &str) -> String {
        if self.is_https() {
            return format!("__Host-{name}");
        }
        let port = self.settings().issuer.url().and_then(|url| url.port_or_known_default());
        format!("{name}-{}", port.unwrap_or_default())
    }

    /// The browser that sends a request; a new one if it is not known.
    pub(super) async fn browser(&self, headers: &HeaderMap) -> Result<Browser, StoreError> {
        let Some(secret) = cookie(headers, &self.cookie_name()) else { return Ok(Browser::new(None)) };
        let record = self.store().get(Kind::Browser, &hash(&secret), self.now()).await?;
        let known = record.and_then(|record| serde_json::from_str::<BrowserRecord>(&record.value).ok());
        let still = |record: &BrowserRecord| {
            let mark = match (self.provider(), &record.visitor) {
                (Some(provider), Some(_)) => Some(provider.mark_of_users()),
                (None, None) => self.0.sign_in.mark(&record.user),
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
        Ok(Browser { secret, user, visitor, fresh: false })
    }

    /// Remembers who has signed in at the provider for one page, for as long as that takes, under a new secret.
    pub(super) async fn visited(
        &self,
        provider: &super::Provider,
        before: &Browser,
        visitor: Visitor,
    ) -> Result<Browser, StoreError> {
        let browser = Browser { visitor: Some(visitor.clone()), ..Browser::new(None) };
        // To decide, and to sign in at the other's.
        let until = self.now() + 2 * self.settings().lifetimes.pending.as_secs();
        let value = encode(&BrowserRecord {
            user: visitor.principal.clone(),
            mark: Some(provider.mark_of_users()),
            visitor: Some(visitor),
        });
        self.store().put(Record::new(Kind::Browser, browser.mark(), value, until)).await?;
        self.store().forget(Kind::Browser, &before.mark()).await?;
        Ok(browser)
    }

    /// Signs somebody in: under a new secret, so that one that was planted before is worth nothing.
    pub(super) async fn signed_in(&self, before: &Browser, user: &str) -> Result<Browser, StoreError> {
        let browser = Browser::new(Some(user.to_owned()));
        let until = self.now() + self.settings().lifetimes.browser.as_secs();
        let mark = self.0.sign_in.mark(user);
        let value = encode(&BrowserRecord { user: user.to_owned(), mark, visitor: None });
        self.store().put(Record::new(Kind::Browser, browser.mark(), value, until)).await?;
        self.store().forget(Kind::Browser, &before.mark()).await?;
        tracing::info!(user, "somebody has signed in");
        Ok(browser)
    }

    /// The cookie that tells a browser its secret, if it does not know it yet.
    pub(super) fn cookie_for(&self, browser: &Browser) -> Option<String> {
        let secure = if self.is_https() { "; Secure" } else { "" };
        let name = self.cookie_name();
        // Lax: the browser comes to us from the application's page, and has to be known then.
        browser.fresh.then(|| format!("{name}={}; Path=/; HttpOnly; SameSite=Lax{secure}", browser.secret))
    }
}

/// What a browser brings back under this name. Of two of the same name nobody knows which is ours, so neither is: somebody
/// may have planted the other.
pub(super) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let cookies = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut ours = cookies.filter(|(known, _)| *known == name);
    let (_, value) = ours.next()?;
    if ours.next().is_some() {
        tracing::warn!(name, "a browser brought two cookies of one name, of which neither counts");
        return None;
    }
    let well_formed =
        value.len() == 43 && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    well_formed.then(|| value.to_owned())
}
