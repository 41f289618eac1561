//! Users who sign in at somebody else's: this server is authorization server to its clients, and a client of the other.
//!
//! What the other gives us it gives to nobody else: its tokens are kept sealed, under a key that is not in the store, and
//! what our clients get is good only as long as they are.

mod admission;
mod asked;
mod away;
mod rests;
mod visits;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::SecretString;

use super::consent::Errand;
use super::keeper::Seal;
use super::store::StoreError;
use super::tokens::encode;
use super::{AuthServer, hash};
use crate::fetch::Fetch;
use crate::{ClientId, Issuer, Scopes, Seed};
pub use admission::Admission;
use asked::Found;

/// Somebody else's authorization server, at which users sign in.
pub struct Provider {
    issuer: Issuer,
    client: ClientId,
    secret: Option<SecretString>,
    scopes: Scopes,
    parameters: Vec<(String, String)>,
    admission: Admission,
    fetch: Arc<dyn Fetch>,
    seal: Seal,
    sign: hmac::Key,
    found: Mutex<Option<Arc<Found>>>,
    /// Whether it has refused to say if a token holds, which is told once.
    mute: AtomicBool,
}
/// What the flow itself sends with a user.
pub const OWN_PARAMETERS: [&str; 9] = [
    "response_type",
    "response_mode",
    "client_id",
    "redirect_uri",
    "state",
    "nonce",
    "code_challenge",
    "code_challenge_method",
    "scope",
];

/// Why a key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key cannot seal anything")]
#[non_exhaustive]
pub struct UnusableKey;

impl Provider {
    /// The provider that calls itself `issuer` and knows us as `client`. Its tokens are sealed under `key`, which must
    /// be the same at every node and after every start, and must not be where the store is. It is asked through `fetch`,
    /// which may go where clients' documents are not fetched from: the operator has named it.
    ///
    /// # Errors
    /// When the key cannot be used.
    pub fn new(
        issuer: Issuer,
        client: ClientId,
        key: &[u8; 32],
        fetch: impl Fetch,
    ) -> Result<Self, UnusableKey> {
        let mut seed = Seed::new(key);
        let seal = Seal::new(&seed.draw())?;
        let sign = hmac::Key::new(hmac::HMAC_SHA256, &seed.draw());
        let scopes = Scopes::parse("openid");
        Ok(Self {
            issuer,
            client,
            secret: None,
            scopes,
            parameters: Vec::new(),
            admission: Admission::everybody(),
            fetch: Arc::new(fetch),
            seal,
            sign,
            found: Mutex::default(),
            mute: AtomicBool::new(false),
        })
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

    /// Sends one more parameter with its users, as some providers want for what others have scopes for. It replaces none
    /// of those that the flow itself sends.
    #[must_use]
    pub fn parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        if !OWN_PARAMETERS.contains(&name.as_str()) {
            self.parameters.push((name, value.into()));
        }
        self
    }

    /// Lets these in, and not everybody who can sign in there. Under other rules everybody has to sign in again.
    #[must_use]
    pub fn admitting(mut self, admission: Admission) -> Self {
        self.admission = admission;
        self
    }

    /// What it is called on the consent page.
    pub(super) fn name(&self) -> String {
        let url = self.issuer.url();
        url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_else(|| self.issuer.to_string())
    }

    fn seal(&self, grant: &str, text: &str) -> Option<String> {
        self.seal.seal(grant, text.as_bytes())
    }

    fn open(&self, grant: &str, sealed: &str) -> Option<SecretString> {
        let plain = self.seal.open(grant, sealed)?;
        Some(std::str::from_utf8(&plain).ok()?.to_owned().into())
    }

    /// What the browser has to bring back with the answer: signed, and good for this state and this errand alone.
    fn mark(&self, state: &str, errand: &Errand) -> String {
        let errand = match errand {
            Errand::Authorization(asked) => ("client", asked.client.id.as_str()),
            Errand::Connection(page) => ("page", page.as_str()),
        };
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.sign, encode(&(state, errand)).as_bytes()))
    }

    /// What stands for how users sign in, and changes when that does.
    pub(super) fn mark_of_users(&self) -> String {
        hash(&encode(&(&self.issuer, &self.client, self.admission.mark())))
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}
/// Why nothing came of it. What exactly is for the log alone.
enum Failed {
    /// The user said no there.
    Denied,
    /// The user is none of those who are let in.
    NotAdmitted,
    /// It said no: for good.
    Refused(&'static str),
    /// It cannot be asked now.
    Unreachable(String),
    Store(StoreError),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied => f.write_str("the user said no there"),
            Self::NotAdmitted => f.write_str("the user is none of those who are let in"),
            Self::Refused(why) => f.write_str(why),
            Self::Unreachable(why) => f.write_str(why),
            Self::Store(error) => error.fmt(f),
        }
    }
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
