//! Renewal of tokens with their refresh token.

use hospes_auth::{ErrorCode, FetchRequest, FetchResponse, Seed};
use secrecy::ExposeSecret as _;

use super::error::FlowError;
use super::token_request::{TokenRequest, nonce_wanted};
use super::tokens::TokenSet;

/// Renewal of tokens without I/O: a request, and the processing of its response.
#[derive(Debug)]
pub struct TokenRefresh {
    order: TokenRequest,
    before: TokenSet,
    again: bool,
}

/// Result of a renewal response.
#[derive(Debug)]
#[non_exhaustive]
pub enum TokenRefreshStep {
    /// New tokens, in the place of the old.
    Tokens(Box<TokenSet>),
    /// Send this request, which has the nonce that the server required.
    Again(FetchRequest),
    /// The refresh token is no longer valid: a user has to sign in again, and the tokens must be deleted.
    Lost,
    /// The renewal failed; the old tokens stay unchanged.
    Failed(FlowError),
}

impl TokenRefresh {
    /// Creates the renewal of `tokens` and its request; `None` without a refresh token. `audience` is the audience of
    /// client assertions, if it is not the issuer.
    ///
    /// # Errors
    /// If the request cannot be created.
    pub fn begin(
        tokens: &TokenSet,
        audience: Option<&str>,
        seed: &mut Seed,
        now: u64,
    ) -> Result<Option<(Self, FetchRequest)>, FlowError> {
        if tokens.refresh.is_none() {
            return Ok(None);
        }
        let this =
            Self { order: TokenRequest::renewal(tokens, audience), before: tokens.clone(), again: false };
        let request = this.request(None, seed, now)?;
        Ok(Some((this, request)))
    }

    fn request(&self, nonce: Option<&str>, seed: &mut Seed, now: u64) -> Result<FetchRequest, FlowError> {
        let refresh = self.before.refresh.as_ref().map(|refresh| refresh.expose_secret()).unwrap_or_default();
        self.order.request("refresh_token", &[("refresh_token", refresh)], nonce, seed, now)
    }

    /// Handles the response.
    pub fn handle(&mut self, response: &FetchResponse, seed: &mut Seed, now: u64) -> TokenRefreshStep {
        // Only once: a server that answers every proof with a new nonce would be asked without end.
        if !self.again
            && let Some(nonce) = nonce_wanted(response)
        {
            self.again = true;
            return match self.request(Some(&nonce), seed, now) {
                Ok(request) => TokenRefreshStep::Again(request),
                Err(error) => TokenRefreshStep::Failed(error),
            };
        }
        match self.order.read(response, Some(&self.before), now) {
            Ok(tokens) => TokenRefreshStep::Tokens(Box::new(tokens)),
            // Only this code is about the refresh token itself (RFC 6749, section 5.2). Others may pass,
            // and the token is kept.
            Err(FlowError::Refused(body)) if body.error == ErrorCode::InvalidGrant => TokenRefreshStep::Lost,
            Err(error) => TokenRefreshStep::Failed(error),
        }
    }
}
