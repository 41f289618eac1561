//! Authorization code flow with the provider: the request that the browser carries, and the code that it brings back.

use hospes_auth::pkce::CodeVerifier;
use url::form_urlencoded::Serializer;

use super::{ProviderError, ProviderMetadata, ProviderTokens, SignInProvider};
use crate::settings::OFFLINE;

/// Values of one authorization request, apart from those of the provider.
pub(crate) struct ProviderRequest<'a> {
    pub(crate) redirect_uri: &'a str,
    pub(crate) state: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) verifier: &'a CodeVerifier,
    /// True if a refresh token may be requested.
    pub(crate) is_lasting: bool,
}

/// Authorization response of the provider, as the browser has brought it.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ProviderResponse<'a> {
    /// Parameter `iss` (RFC 9207).
    pub iss: Option<&'a str>,
    /// Parameter `error`.
    pub error: Option<&'a str>,
    /// Parameter `code`.
    pub code: Option<&'a str>,
}

impl<'a> ProviderResponse<'a> {
    /// Creates a response from its parameters, each of which may occur once.
    #[must_use]
    pub fn new(iss: Option<&'a str>, error: Option<&'a str>, code: Option<&'a str>) -> Self {
        Self { iss, error, code }
    }
}

impl SignInProvider {
    /// Returns the URL of an authorization request. `None` if the provider has no endpoint for it.
    pub(crate) fn authorization_url(
        &self,
        found: &ProviderMetadata,
        request: &ProviderRequest<'_>,
    ) -> Option<String> {
        let to = found.server.authorization_url().ok()?;
        let wanted = |scope: &&str| request.is_lasting || *scope != OFFLINE;
        let scopes: Vec<&str> = self.scopes.iter().filter(wanted).collect();
        let mut query = Serializer::new(String::new());
        query.extend_pairs([
            ("response_type", "code"),
            ("client_id", self.client.as_str()),
            ("redirect_uri", request.redirect_uri),
            ("state", request.state),
            ("nonce", request.nonce),
            ("code_challenge", &request.verifier.challenge()),
            ("code_challenge_method", "S256"),
            ("scope", &scopes.join(" ")),
        ]);
        query.extend_pairs(&self.parameters);
        // OpenID Connect Core, section 11: without this providers leave the scope out of what they grant.
        let lasting = scopes.contains(&OFFLINE);
        if lasting && !self.parameters.iter().any(|(name, _)| name == "prompt") {
            query.append_pair("prompt", "consent");
        }
        let sign = if to.query().is_some() { '&' } else { '?' };
        Some(format!("{to}{sign}{}", query.finish()))
    }

    /// Checks an authorization response and returns its code.
    pub(crate) fn check_response<'a>(
        &self,
        found: &ProviderMetadata,
        response: ProviderResponse<'a>,
    ) -> Result<&'a str, ProviderError> {
        // The issuer comes first (RFC 9207): before that, nothing in the answer is believed.
        let demanded = found.server.authorization_response_iss_parameter_supported == Some(true);
        match response.iss {
            Some(iss) if iss != self.issuer.as_str() => {
                return Err(ProviderError::Refused("issuer mismatch (`iss`)"));
            }
            None if demanded => return Err(ProviderError::Refused("`iss` is missing")),
            _ => {}
        }
        match (response.error, response.code) {
            (Some("access_denied"), _) => Err(ProviderError::Denied),
            (None, Some(code)) => Ok(code),
            _ => Err(ProviderError::Refused("the provider returned an error")),
        }
    }

    /// Redeems a code for tokens.
    pub(crate) async fn redeem_code(
        &self,
        found: &ProviderMetadata,
        code: &str,
        redirect_uri: &str,
        verifier: &str,
    ) -> Result<ProviderTokens, ProviderError> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_uri),
            ("code_verifier", verifier),
        ];
        self.request_tokens(found, &fields).await
    }
}
