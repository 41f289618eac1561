//! Sign-in of people at the provider for pages that are not those of the authorization server, such as a console.

use std::fmt;

use hospes_auth::pkce::CodeVerifier;
use hospes_auth::{ClientId, Issuer, JwksLocation, PublishedKeys, Seed, UnixClock};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use crate::provider::{
    ProviderError, ProviderMetadata, ProviderRequest, ProviderResponse, ProviderTokens, ProviderUser,
    SignInProvider,
};
use crate::store::secrets::random_text;

/// Signs people in at a provider, by authorization code with PKCE. It stores nothing: the caller keeps a
/// [`BegunSignIn`] until the browser comes back, for one use, and bound to that browser.
pub struct PersonSignIn {
    provider: SignInProvider,
    clock: UnixClock,
    /// Keys with which the provider signs logout tokens.
    keys: PublishedKeys,
}

/// A sign-in that has begun.
#[derive(Clone)]
#[non_exhaustive]
pub struct BegunSignIn {
    /// URL to which the browser goes.
    pub url: String,
    /// Parameter `state`, which the browser brings back.
    pub state: String,
    /// Nonce of the ID token.
    pub nonce: String,
    /// Secret code verifier.
    pub verifier: SecretString,
}

impl fmt::Debug for PersonSignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersonSignIn").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl fmt::Debug for BegunSignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BegunSignIn(…)")
    }
}

/// A person who has signed in, with the claims of the provider.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SignedInPerson {
    /// Issuer of the claims.
    pub issuer: Issuer,
    /// Subject, which the issuer never gives to another person.
    pub subject: String,
    /// Claims of the ID token and of the userinfo response.
    pub claims: Map<String, Value>,
    /// Token with which the claims can be read again. `None` if the provider has given none.
    pub refresh_token: Option<SecretString>,
}

/// Reasons that a sign-in failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PersonSignInError {
    /// The person denied the sign-in at the provider.
    #[error("the sign-in was denied at the provider")]
    Denied,
    /// The provider has refused, or its response is not valid.
    #[error("{0}")]
    Refused(String),
    /// The provider cannot be reached now.
    #[error("the sign-in provider cannot be used: {0}")]
    Unreachable(String),
}

impl From<ProviderError> for PersonSignInError {
    fn from(error: ProviderError) -> Self {
        match error {
            ProviderError::Denied => Self::Denied,
            ProviderError::NotAdmitted | ProviderError::UnknownGroups | ProviderError::Refused(_) => {
                Self::Refused(error.to_string())
            }
            ProviderError::Unreachable(_) | ProviderError::Store(_) => Self::Unreachable(error.to_string()),
        }
    }
}

impl PersonSignIn {
    /// Creates the sign-in at a provider.
    #[must_use]
    pub fn new(provider: SignInProvider) -> Self {
        let keys = PublishedKeys::new(JwksLocation::Of(provider.issuer.clone()), provider.fetcher());
        Self { provider, clock: UnixClock::system(), keys }
    }

    /// Goes by this clock.
    #[must_use]
    pub fn clock(mut self, clock: UnixClock) -> Self {
        self.clock = clock;
        self
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    pub(crate) fn published_keys(&self) -> &PublishedKeys {
        &self.keys
    }

    /// Returns the issuer of the provider, and the client id there.
    pub(crate) fn issuer_and_client(&self) -> (&Issuer, &ClientId) {
        (&self.provider.issuer, &self.provider.client)
    }

    /// Begins a sign-in that ends at `redirect_uri`.
    ///
    /// # Errors
    /// If the provider's metadata cannot be read, or there are no random numbers.
    pub async fn begin(&self, redirect_uri: &str) -> Result<BegunSignIn, PersonSignInError> {
        let found = self.provider.load_metadata(self.clock.now()).await?;
        let (state, nonce) = (random_text(), random_text());
        let seed = Seed::from_system().map_err(|error| PersonSignInError::Unreachable(error.to_string()));
        let verifier = CodeVerifier::new(&seed?.draw());
        let request = ProviderRequest {
            redirect_uri,
            state: &state,
            nonce: &nonce,
            verifier: &verifier,
            is_lasting: true,
        };
        let url = self.provider.authorization_url(&found, &request).ok_or_else(|| {
            PersonSignInError::Unreachable("its metadata has no authorization endpoint".to_owned())
        })?;
        Ok(BegunSignIn { url, state, nonce, verifier: verifier.expose().to_owned().into() })
    }

    /// Ends a sign-in: checks the response, redeems its code and identifies the person.
    ///
    /// # Errors
    /// If the response is not valid, or the provider refuses or cannot be reached.
    pub async fn finish(
        &self,
        response: ProviderResponse<'_>,
        redirect_uri: &str,
        nonce: &str,
        verifier: &SecretString,
    ) -> Result<SignedInPerson, PersonSignInError> {
        let now = self.clock.now();
        let found = self.provider.load_metadata(now).await?;
        let code = self.provider.check_response(&found, response)?;
        let verifier = verifier.expose_secret();
        let tokens = self.provider.redeem_code(&found, code, redirect_uri, verifier).await?;
        let user = self.provider.identify_user(&found, &tokens, nonce, now).await?;
        Ok(self.person(user, tokens))
    }

    /// Reads the claims of a person again.
    ///
    /// # Errors
    /// [`PersonSignInError::Refused`] if the provider no longer accepts the token, or it is now of another person.
    pub async fn read_again(
        &self,
        refresh_token: &SecretString,
        subject: &str,
    ) -> Result<SignedInPerson, PersonSignInError> {
        let found = self.provider.load_metadata(self.clock.now()).await?;
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh_token.expose_secret())];
        let tokens = self.provider.request_tokens(&found, &fields).await?;
        let user = self.provider.read_userinfo(&found, &tokens).await?;
        if user.subject != subject {
            return Err(PersonSignInError::Refused("the subject of the tokens has changed".to_owned()));
        }
        let mut person = self.person(user, tokens);
        // A provider that does not rotate the token need not send it again (RFC 6749, section 6).
        person.refresh_token = person.refresh_token.or_else(|| Some(refresh_token.clone()));
        Ok(person)
    }

    /// Gives a refresh token back, where the provider takes it.
    pub async fn revoke(&self, refresh_token: &SecretString) {
        if let Ok(found) = self.provider.load_metadata(self.clock.now()).await {
            self.provider.revoke_token(&found, refresh_token).await;
        }
    }

    fn person(&self, user: ProviderUser, tokens: ProviderTokens) -> SignedInPerson {
        SignedInPerson {
            issuer: self.provider.issuer.clone(),
            subject: user.subject,
            claims: user.claims,
            refresh_token: tokens.refresh_token,
        }
    }
}

impl SignInProvider {
    /// Requires this claim: where the ID token has none, userinfo is asked.
    #[must_use]
    pub fn requiring_claim(mut self, name: impl Into<String>) -> Self {
        self.required_claims.push(name.into());
        self
    }

    /// Returns the user of an access token, as userinfo describes it.
    async fn read_userinfo(
        &self,
        found: &ProviderMetadata,
        tokens: &ProviderTokens,
    ) -> Result<ProviderUser, ProviderError> {
        let claims = self.fetch_userinfo(found, tokens).await?;
        let claims =
            claims.ok_or_else(|| ProviderError::Unreachable("it has no userinfo endpoint".to_owned()))?;
        ProviderUser::of(claims)
    }
}
