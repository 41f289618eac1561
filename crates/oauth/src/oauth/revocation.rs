//! Sign-out: deletion of the stored tokens and their revocation at the authorization server (RFC 7009).

use hospes_auth::metadata::{AuthorizationServerMetadata, is_secure, server_metadata_urls};
use hospes_auth::{ErrorBody, ErrorCode, FetchRequest, MAX_METADATA_BYTES, without_query};
use http::StatusCode;
use secrecy::ExposeSecret as _;
use url::Url;

use super::{OAuthClient, seed};
use crate::error::FlowError;
use crate::token_request::TokenRequestForm;
use crate::tokens::TokenSet;

const REVOCATION_ENDPOINT_NAME: &str = "the revocation endpoint";
const SERVER_METADATA_NAME: &str = "the authorization server metadata";

/// Result of a revocation. The local tokens are deleted in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RevocationResult {
    /// There were no tokens.
    Nothing,
    /// The authorization server has revoked the tokens.
    Revoked,
    /// The authorization server does not support revocation; the tokens stay valid until they expire.
    NotOffered,
    /// Revocation failed.
    Failed(FlowError),
}

impl OAuthClient {
    /// Deletes the tokens and revokes them at the authorization server. A renewal by another program is waited for.
    /// Once begun, the revocation runs to completion.
    ///
    /// # Errors
    /// If the store fails. The tokens are then still stored, but no longer used here, and have been revoked if
    /// possible.
    pub async fn revoke(&self) -> Result<RevocationResult, FlowError> {
        let turn = self.lock_authorization().await;
        self.load().await?;
        let this = self.clone();
        let revoking = async move {
            // What another program has renewed meanwhile is what is good there.
            let (last, forgotten) = this.take_for_sign_out().await;
            let mut revoked = RevocationResult::Nothing;
            for tokens in &last {
                let taken = this.revoke_tokens(tokens).await.unwrap_or_else(RevocationResult::Failed);
                // One that was not taken back is what there is to say.
                if !matches!(revoked, RevocationResult::Failed(_)) {
                    revoked = taken;
                }
            }
            forgotten.map(|()| revoked)
        };
        Self::run_to_completion(&turn, revoking).await
    }

    async fn revoke_tokens(&self, tokens: &TokenSet) -> Result<RevocationResult, FlowError> {
        let Some(endpoint) = self.revocation_endpoint(tokens).await? else {
            return Ok(RevocationResult::NotOffered);
        };
        // The first ends the grant, and with it the other at most servers, though not at all.
        if let Some(refresh) = &tokens.refresh {
            self.revoke_token(tokens, &endpoint, refresh.expose_secret(), "refresh_token").await?;
        }
        match self.revoke_token(tokens, &endpoint, tokens.access.expose_secret(), "access_token").await {
            // RFC 7009, section 2.2.1: it takes back no access tokens. They follow what they came of.
            Err(FlowError::Refused(body))
                if body.error == ErrorCode::UnsupportedTokenType && tokens.refresh.is_some() =>
            {
                Ok(RevocationResult::Revoked)
            }
            taken => taken.map(|()| RevocationResult::Revoked),
        }
    }

    /// Returns the revocation endpoint. It is discovered anew, because it is not stored.
    async fn revocation_endpoint(&self, tokens: &TokenSet) -> Result<Option<Url>, FlowError> {
        for url in server_metadata_urls(&tokens.issuer) {
            let shown = without_query(&url);
            let fetched = self.0.http.fetch(FetchRequest::get(url, MAX_METADATA_BYTES)).await;
            let response = fetched.map_err(|why| FlowError::Fetch {
                what: SERVER_METADATA_NAME,
                url: shown.clone(),
                why,
            })?;
            if response.status.is_server_error() {
                return Err(FlowError::Status {
                    what: SERVER_METADATA_NAME,
                    url: shown,
                    status: response.status,
                });
            }
            if response.status != StatusCode::OK {
                continue;
            }
            let server: AuthorizationServerMetadata = response.decode().map_err(|error| {
                FlowError::Malformed { what: SERVER_METADATA_NAME, url: shown, why: error.to_string() }
            })?;
            server.check_issuer(&tokens.issuer, self.0.settings.strict_issuer)?;
            let endpoint = server.revocation_endpoint.as_deref().and_then(|text| Url::parse(text).ok());
            // A token goes nowhere in the open.
            return Ok(endpoint.filter(is_secure));
        }
        Ok(None)
    }

    async fn revoke_token(
        &self,
        tokens: &TokenSet,
        endpoint: &Url,
        token: &str,
        kind: &str,
    ) -> Result<(), FlowError> {
        let audience = self.0.settings.assertion_audience.as_deref();
        let audience = audience.unwrap_or_else(|| tokens.issuer.as_str());
        let form = TokenRequestForm::of(&[("token", token), ("token_type_hint", kind)]);
        let (client, issuer, now) = (&tokens.client, &tokens.issuer, self.0.clock.now());
        let request = form.send(endpoint, client, issuer, audience, &mut seed()?, now)?;
        let fetched = self.0.http.fetch(request).await;
        let url = without_query(endpoint);
        let response = fetched.map_err(|why| FlowError::Fetch {
            what: REVOCATION_ENDPOINT_NAME,
            url: url.clone(),
            why,
        })?;
        // Also the answer for a token that is not valid any more (RFC 7009, section 2.2).
        if response.status == StatusCode::OK {
            return Ok(());
        }
        match response.decode::<ErrorBody>() {
            Ok(body) if response.status.is_client_error() => Err(FlowError::Refused(body)),
            _ => Err(FlowError::Status { what: REVOCATION_ENDPOINT_NAME, url, status: response.status }),
        }
    }
}
