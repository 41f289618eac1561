//! Renewal of tokens by their refresh token.

use secrecy::ExposeSecret as _;

use super::error::FlowError;
use super::token_request::{Order, nonce_wanted};
use super::tokens::Tokens;
use crate::{ErrorCode, Request, Response, Seed};

/// One renewal of tokens, without I/O: a request, and what its response makes of them.
#[derive(Debug)]
pub struct Renewal {
    order: Order,
    before: Tokens,
    again: bool,
}

/// What a response made of a renewal.
#[derive(Debug)]
#[non_exhaustive]
pub enum Renewed {
    /// New tokens, in the place of the old.
    Tokens(Box<Tokens>),
    /// Once more, with what the server wants to see in the proof.
    Again(Request),
    /// The refresh token is no longer good: somebody has to agree again, and nothing is to be kept of it.
    Lost,
    /// It came to nothing this time; the old tokens stay what they were.
    Failed(FlowError),
}

impl Renewal {
    /// The renewal of `tokens` and its request; none if there is nothing to renew them by. `audience` is whom
    /// assertions are made out to, where that is not the issuer.
    ///
    /// # Errors
    /// When the request cannot be made.
    pub fn begin(
        tokens: &Tokens,
        audience: Option<&str>,
        seed: &mut Seed,
        now: u64,
    ) -> Result<Option<(Self, Request)>, FlowError> {
        if tokens.refresh.is_none() {
            return Ok(None);
        }
        let this = Self { order: Order::renewal(tokens, audience), before: tokens.clone(), again: false };
        let request = this.request(None, seed, now)?;
        Ok(Some((this, request)))
    }

    fn request(&self, nonce: Option<&str>, seed: &mut Seed, now: u64) -> Result<Request, FlowError> {
        let refresh = self.before.refresh.as_ref().map(|refresh| refresh.expose_secret()).unwrap_or_default();
        self.order.request("refresh_token", &[("refresh_token", refresh)], nonce, seed, now)
    }

    /// What the response makes of it.
    pub fn handle(&mut self, response: &Response, seed: &mut Seed, now: u64) -> Renewed {
        if !self.again
            && let Some(nonce) = nonce_wanted(response)
        {
            self.again = true;
            return match self.request(Some(&nonce), seed, now) {
                Ok(request) => Renewed::Again(request),
                Err(error) => Renewed::Failed(error),
            };
        }
        match self.order.read(response, Some(&self.before), now) {
            Ok(tokens) => Renewed::Tokens(Box::new(tokens)),
            Err(FlowError::Refused(body)) if body.error == ErrorCode::InvalidGrant => Renewed::Lost,
            Err(error) => Renewed::Failed(error),
        }
    }
}
