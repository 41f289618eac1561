//! Provider at which users sign in: its settings, the requests to it, and the admission of its users.

mod admission;
mod code_flow;
mod groups;
mod provider_client;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hospes_auth::{ClientId, GroupsClaim, HttpFetch, Issuer, Scopes, Seed};
use parking_lot::Mutex;
use secrecy::SecretString;

use super::store::secrets::hash;
use super::store::server_keys::{InvalidSealKey, RecordSeal};
use super::store::{AuthStoreError, encode};
pub use admission::UserAdmissionRules;
pub(crate) use code_flow::ProviderRequest;
pub use code_flow::ProviderResponse;
pub(crate) use provider_client::{ProviderMetadata, ProviderTokens, ProviderUser};

/// Somebody else's authorization server, at which users sign in.
pub struct SignInProvider {
    pub(crate) issuer: Issuer,
    pub(crate) client: ClientId,
    secret: Option<SecretString>,
    pub(crate) scopes: Scopes,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) admission: UserAdmissionRules,
    /// Claims that userinfo is asked for where the ID token lacks them.
    pub(crate) required_claims: Vec<String>,
    /// Claim that has the groups of users. `None` if they are not read.
    pub(crate) groups: Option<GroupsClaim>,
    fetch: Arc<dyn HttpFetch>,
    seal: RecordSeal,
    sign: hmac::Key,
    found: Mutex<Option<Arc<ProviderMetadata>>>,
    /// True if the provider has refused introspection; logged once.
    mute: AtomicBool,
}

/// Authorization parameters that the flow itself sends.
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

impl SignInProvider {
    /// Creates a provider with this `issuer`, which knows this server as `client`. Its tokens are encrypted with `key`,
    /// which must be the same at every node and after every start, and must not be stored beside the store. Requests
    /// use `fetch`, which may reach private networks, because the operator has configured the provider.
    ///
    /// # Errors
    /// If the key cannot be used.
    pub fn new(
        issuer: Issuer,
        client: ClientId,
        key: &[u8; 32],
        fetch: impl HttpFetch,
    ) -> Result<Self, InvalidSealKey> {
        // Two keys are derived, because the seal and the signature must not share one.
        let mut seed = Seed::new(key);
        let seal = RecordSeal::new(&seed.draw())?;
        let sign = hmac::Key::new(hmac::HMAC_SHA256, &seed.draw());
        let scopes = Scopes::parse("openid");
        Ok(Self {
            issuer,
            client,
            secret: None,
            scopes,
            parameters: Vec::new(),
            admission: UserAdmissionRules::everybody(),
            required_claims: Vec::new(),
            groups: None,
            fetch: Arc::new(fetch),
            seal,
            sign,
            found: Mutex::default(),
            mute: AtomicBool::new(false),
        })
    }

    /// Sets the client secret.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(secret.into().into());
        self
    }

    /// Sets the scopes requested at the provider; `openid` by default. They never depend on the clients of this server.
    #[must_use]
    pub fn scopes(mut self, scopes: Scopes) -> Self {
        self.scopes = scopes;
        self
    }

    /// Adds a parameter to authorization requests, which some providers use instead of scopes. It cannot replace a
    /// parameter of the flow itself.
    #[must_use]
    pub fn parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        if !OWN_PARAMETERS.contains(&name.as_str()) {
            self.parameters.push((name, value.into()));
        }
        self
    }

    /// Admits only users who match these rules. After a change of the rules, everybody has to sign in again.
    #[must_use]
    pub fn admitting(mut self, admission: UserAdmissionRules) -> Self {
        self.admission = admission;
        self
    }

    /// Returns its name on the consent page.
    pub(crate) fn name(&self) -> String {
        let url = self.issuer.url();
        url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_else(|| self.issuer.to_string())
    }

    pub(crate) fn fetcher(&self) -> Arc<dyn HttpFetch> {
        Arc::clone(&self.fetch)
    }

    pub(crate) fn seal(&self, grant: &str, text: &str) -> Option<String> {
        self.seal.seal(grant, text.as_bytes())
    }

    pub(crate) fn open(&self, grant: &str, sealed: &str) -> Option<SecretString> {
        let plain = self.seal.open(grant, sealed)?;
        Some(std::str::from_utf8(&plain).ok()?.to_owned().into())
    }

    /// Returns the signature of a text, which only the nodes with the key of this provider can create.
    pub(crate) fn sign(&self, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.sign, text.as_bytes()))
    }

    /// Returns a digest of the sign-in configuration, which changes with it.
    pub(crate) fn sign_in_digest(&self) -> String {
        hash(&encode(&(&self.issuer, &self.client, self.admission.rules_digest())))
    }
}

impl fmt::Debug for SignInProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignInProvider").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// Reasons a provider operation failed. The details are for the log only.
pub(crate) enum ProviderError {
    /// The user denied the request at the provider.
    Denied,
    /// The user is not admitted.
    NotAdmitted,
    /// The provider does not send the groups of the user, because they are too many.
    UnknownGroups,
    /// The provider refused permanently.
    Refused(&'static str),
    /// It cannot be asked now.
    Unreachable(String),
    Store(AuthStoreError),
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied => f.write_str("the user denied the request at the provider"),
            Self::NotAdmitted => f.write_str("the user is not allowed to sign in"),
            Self::UnknownGroups => f.write_str("the user is in too many groups"),
            Self::Refused(why) => f.write_str(why),
            Self::Unreachable(why) => f.write_str(why),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl From<AuthStoreError> for ProviderError {
    fn from(error: AuthStoreError) -> Self {
        Self::Store(error)
    }
}
