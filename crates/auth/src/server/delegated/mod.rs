//! Users who sign in at somebody else's: this server is authorization server to its clients, and a client of the other.
//!
//! What the other gives us it gives to nobody else: its tokens are kept sealed, under a key that is not in the store, and
//! what our clients get is good only as long as they are.

mod asked;
mod away;
mod rests;

use std::fmt;
use std::sync::{Arc, Mutex};

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::SecretString;

use super::AuthServer;
use super::store::StoreError;
use super::tokens::encode;
use crate::{ClientId, Issuer, Scopes, Seed};
use asked::Found;

/// Somebody else's authorization server, at which users sign in.
pub struct Provider {
    issuer: Issuer,
    client: ClientId,
    secret: Option<SecretString>,
    scopes: Scopes,
    seal: RandomizedNonceKey,
    sign: hmac::Key,
    found: Mutex<Option<Arc<Found>>>,
}
/// Why a provider cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key cannot seal anything")]
#[non_exhaustive]
pub struct UnusableKey;

impl Provider {
    /// The provider that calls itself `issuer` and knows us as `client`. Its tokens are sealed under `key`, which must
    /// be the same at every node and after every start, and must not be where the store is.
    ///
    /// # Errors
    /// When the key cannot be used.
    pub fn new(issuer: Issuer, client: ClientId, key: &[u8; 32]) -> Result<Self, UnusableKey> {
        let mut seed = Seed::new(key);
        let seal = RandomizedNonceKey::new(&AES_256_GCM, &seed.draw()).map_err(|_| UnusableKey)?;
        let sign = hmac::Key::new(hmac::HMAC_SHA256, &seed.draw());
        let scopes = Scopes::parse("openid");
        Ok(Self { issuer, client, secret: None, scopes, seal, sign, found: Mutex::default() })
    }

    /// With the secret that it gave us.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(secret.into().into());
        self
    }

    /// Asks for these scopes there; `openid` unless told. Never for what one of our clients asks.
    #[must_use]
    pub fn scopes(mut self, scopes: Scopes) -> Self {
        self.scopes = scopes;
        self
    }

    /// What it is called on the consent page.
    pub(super) fn name(&self) -> String {
        let url = self.issuer.url();
        url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_else(|| self.issuer.to_string())
    }

    fn seal(&self, grant: &str, text: &str) -> Option<String> {
        let mut sealed = text.as_bytes().to_vec();
        let nonce = self.seal.seal_in_place_append_tag(Aad::from(grant), &mut sealed).ok()?;
        let mut all = nonce.as_ref().to_vec();
        all.append(&mut sealed);
        Some(URL_SAFE_NO_PAD.encode(all))
    }

    fn open(&self, grant: &str, sealed: &str) -> Option<SecretString> {
        let all = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, rest) = all.split_at_checked(12)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut rest = rest.to_vec();
        let plain = self.seal.open_in_place(nonce, Aad::from(grant), &mut rest).ok()?;
        Some(std::str::from_utf8(plain).ok()?.to_owned().into())
    }

    /// What the browser has to bring back with the answer: signed, and good for this state and this client alone.
    fn mark(&self, state: &str, client: &ClientId) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.sign, encode(&(state, client)).as_bytes()))
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}
/// Why nothing came of it. What exactly is for the log alone.
enum Failed {
    /// It said no: for good.
    Refused(&'static str),
    /// It cannot be asked now.
    Unreachable(String),
    Store(StoreError),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
impl AuthServer {
    /// Has users sign in at `provider`. What [`SignIn`](super::SignIn) says does not count then.
    #[must_use]
    pub fn delegating(self, provider: Provider) -> Self {
        self.with(|inner| inner.provider = Some(provider))
    }

    pub(super) fn provider(&self) -> Option<&Provider> {
        self.0.provider.as_ref()
    }
}
