//! Authorization of an MCP client's requests.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hospes::client::{
    Authorizer, AuthorizerError, AuthorizerFuture, OutboundRequest, RejectedRequest, RetryDecision,
};
use hospes_auth::dpop::{DPOP, DPOP_NONCE};
use hospes_auth::metadata::{ResourceMetadataError, covers, is_secure};
use hospes_auth::{Challenge, Scopes};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use secrecy::ExposeSecret as _;
use serde_json::Value;

use super::refreshing::RefreshResult;
use super::{AuthorizationLock, AuthorizeResult, COOL_DOWN_SECONDS, OAuthClient, seed};
use crate::error::FlowError;
use crate::tokens::{AccessTokenType, TokenSet};

/// Time until a failed renewal is tried again while the token is still valid, in seconds. An unresponsive server would
/// otherwise delay every call.
const RETRY_SECONDS: u64 = 30;
/// Maximum number of step-up authorizations for one operation: with the first, three authorization requests.
const MAX_STEP_UPS: u32 = 2;
/// Time for which failed step-up authorizations of an operation are remembered, in seconds.
const STEP_UP_MEMORY_SECONDS: u64 = 3600;
/// Maximum number of operations that are remembered for step-up authorization.
const MAX_OPERATIONS: usize = 1024;

/// The hint of [`AuthorizerError`] where the metadata of a resource names another than was reached: signing in does not help.
pub const RESOURCE_MISMATCH_HINT: &str = "connect to the URL that the metadata names; if it is wrong, \
     the server's operator must correct `resource` in the metadata, or the public URL of the reverse proxy";

/// The hint of [`AuthorizerError`] where a server requires authorization and offers no sign-in.
pub const NO_SIGN_IN_HINT: &str = "it offers no sign-in: set an Authorization header with a token of yours";

impl Authorizer for OAuthClient {
    fn headers<'a>(&'a self, request: OutboundRequest<'a>) -> AuthorizerFuture<'a, HeaderMap> {
        Box::pin(
            async move { self.request_headers(request).await.map_err(|error| self.not_authorized(error)) },
        )
    }

    fn handle_rejection<'a>(&'a self, refusal: RejectedRequest<'a>) -> AuthorizerFuture<'a, RetryDecision> {
        Box::pin(async move {
            let challenge = Challenge::for_tokens(refusal.headers);
            match refusal.status {
                StatusCode::UNAUTHORIZED => self.handle_unauthorized(&refusal, challenge).await,
                StatusCode::FORBIDDEN => match challenge {
                    // Some servers refuse whoever shows no token with 403, and say where tokens are to be had.
                    Some(challenge) if asks_for_token(&refusal, &challenge) => {
                        self.handle_unauthorized(&refusal, Some(challenge)).await
                    }
                    Some(challenge) if challenge.wants_more_scopes() => {
                        self.step_up(&refusal, challenge).await
                    }
                    // It is known who we are, and that is that.
                    _ => Ok(RetryDecision::Refuse),
                },
                _ => Ok(RetryDecision::Refuse),
            }
        })
    }

    fn record_success(&self, operation: &str) {
        self.held().steps.remove(operation);
    }
}

/// Step-up authorizations of one operation without success.
pub(super) struct StepUpAttempts {
    count: u32,
    /// Time of the first one, in seconds since 1970.
    since: u64,
}

impl OAuthClient {
    async fn request_headers(&self, request: OutboundRequest<'_>) -> Result<HeaderMap, FlowError> {
        // Whether a token is wanted at all the server will say; then what is wrong with the store is said too.
        if let Err(error) = self.load().await {
            tracing::warn!(%error, "cannot load credentials; sending the request without a token");
            return Ok(HeaderMap::new());
        }
        let Some(mut tokens) = self.held().tokens.clone() else { return Ok(HeaderMap::new()) };
        if !may_present_to(&tokens, request) {
            return Ok(HeaderMap::new());
        }
        // Whoever leaves needs no new token.
        if request.method != Method::DELETE && self.needs_refresh(&tokens) {
            let turn = self.lock_authorization().await;
            // Another request may have renewed them, or lost them, while this one waited for its turn.
            let Some(current) = self.held().tokens.clone() else { return Ok(HeaderMap::new()) };
            tokens = current;
            if self.needs_refresh(&tokens) {
                match self.refresh_tokens(&turn, &tokens).await {
                    Ok(RefreshResult::Renewed(renewed)) => tokens = renewed,
                    Ok(RefreshResult::Impossible) => return Ok(HeaderMap::new()),
                    // It is still good for a while, and what failed may have passed by then.
                    Err(error) => {
                        tracing::warn!(%error, "token refresh failed");
                        self.held().not_before = self.0.clock.now().saturating_add(RETRY_SECONDS);
                    }
                }
            }
        }
        self.present_tokens(&tokens, request)
    }

    fn needs_refresh(&self, tokens: &TokenSet) -> bool {
        let now = self.0.clock.now();
        let is_due = tokens.is_expired(now) || now >= self.held().not_before;
        tokens.is_stale(now) && tokens.refresh.is_some() && is_due
    }

    fn present_tokens(
        &self,
        tokens: &TokenSet,
        request: OutboundRequest<'_>,
    ) -> Result<HeaderMap, FlowError> {
        let mut headers = HeaderMap::new();
        let token = tokens.access.expose_secret();
        let scheme = match (&tokens.kind, &tokens.proof_key) {
            (AccessTokenType::Dpop, Some(key)) => {
                let nonce = self.held().nonce.clone();
                let id = seed()?.draw_text();
                let now = self.0.clock.now();
                let proof = key.prove(request.method, request.url, Some(token), nonce.as_deref(), id, now)?;
                headers.insert(DPOP, proof);
                "DPoP"
            }
            _ => "Bearer",
        };
        let value = HeaderValue::from_str(&format!("{scheme} {token}"));
        let mut value = value.map_err(|_| FlowError::TokenType("not valid in an HTTP header".into()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
        Ok(headers)
    }

    /// Handles 401: the server requires a valid token.
    async fn handle_unauthorized(
        &self,
        refusal: &RejectedRequest<'_>,
        challenge: Option<Challenge>,
    ) -> Result<RetryDecision, AuthorizerError> {
        if let Some(nonce) = wanted_nonce(refusal, challenge.as_ref()) {
            let verdict = verdict_after_nonce(refusal.sent, &nonce);
            self.held().nonce = Some(nonce);
            return Ok(verdict);
        }
        self.load().await.map_err(|error| self.not_authorized(error))?;
        let turn = self.lock_authorization().await;
        // A statement of its own: as the scrutinee of the `if let`, the guard would be held across the
        // awaits in it.
        let tokens = self.held().tokens.clone();
        if let Some(tokens) = tokens {
            if !may_present_to(&tokens, refusal.request) {
                let there = hospes_auth::without_query(refusal.request.url);
                return Err(self.not_authorized(FlowError::Moved(there)));
            }
            if !was_presented(&tokens, refusal) {
                // Somebody was faster.
                return Ok(RetryDecision::Retry);
            }
            // Tokens that were made for this server just now and are refused: another sign-in would bring
            // the same.
            if refusal.attempt > 0 && self.held().is_new {
                return Err(self.not_authorized(FlowError::TokenRefused));
            }
            // A renewed one that is refused as well will not get better.
            if refusal.attempt == 0 {
                match self.refresh_tokens(&turn, &tokens).await {
                    Ok(RefreshResult::Renewed(_)) => return Ok(RetryDecision::Retry),
                    Ok(RefreshResult::Impossible) => {}
                    Err(error) => tracing::info!(%error, "token refresh failed"),
                }
            }
        }
        // Nobody may be asked to sign in for a request that no caller waits for.
        if refusal.request.background && !self.is_unattended() {
            return Ok(RetryDecision::Refuse);
        }
        self.authorized(&turn, challenge, Scopes::none()).await?;
        Ok(RetryDecision::Retry)
    }

    /// Handles 403 with insufficient scope.
    async fn step_up(
        &self,
        refusal: &RejectedRequest<'_>,
        challenge: Challenge,
    ) -> Result<RetryDecision, AuthorizerError> {
        // A client that acts for itself may give up here (AUTC-43); for a background request nobody may be
        // asked.
        if self.is_unattended() || refusal.request.background {
            return Ok(RetryDecision::Refuse);
        }
        let wanted = challenge.scopes().unwrap_or_default();
        let turn = self.lock_authorization().await;
        let Some(tokens) = self.held().tokens.clone() else { return Ok(RetryDecision::Refuse) };
        if !was_presented(&tokens, refusal) {
            return Ok(RetryDecision::Retry);
        }
        if !self.count_step_up(refusal.operation) {
            tracing::info!(operation = refusal.operation, %wanted, "step-up authorization limit reached");
            return Ok(RetryDecision::Refuse);
        }
        let granted = self.authorized(&turn, Some(challenge), tokens.requested.clone()).await?;
        // To be refused for the same again is of no use to anybody.
        Ok(if granted.granted.contains_all(&wanted) { RetryDecision::Retry } else { RetryDecision::Refuse })
    }

    fn count_step_up(&self, operation: &str) -> bool {
        let now = self.0.clock.now();
        let mut held = self.held();
        held.steps.retain(|_, steps| now.saturating_sub(steps.since) < STEP_UP_MEMORY_SECONDS);
        // At the cap no count is evicted, because it would start again at zero.
        if held.steps.len() >= MAX_OPERATIONS && !held.steps.contains_key(operation) {
            return false;
        }
        let steps = held.steps.entry(operation.to_owned()).or_insert(StepUpAttempts { count: 0, since: now });
        steps.count += 1;
        steps.count <= MAX_STEP_UPS
    }

    async fn authorized(
        &self,
        turn: &AuthorizationLock,
        challenge: Option<Challenge>,
        before: Scopes,
    ) -> Result<Arc<TokenSet>, AuthorizerError> {
        // A clock that was set back yields no difference, and with that no cool-down.
        let denied = self.held().denied.clone();
        if let Some((at, error)) = denied
            && self.0.clock.now().checked_sub(at).is_some_and(|since| since < COOL_DOWN_SECONDS)
        {
            return Err(self.not_authorized(error));
        }
        match self.authorize(turn, challenge, before).await {
            Ok(AuthorizeResult::Tokens(tokens)) => Ok(tokens),
            Ok(AuthorizeResult::Later(url)) => {
                Err(AuthorizerError::new("the server requires you to sign in").sign_in(String::from(url)))
            }
            Err(error) => Err(self.not_authorized(error)),
        }
    }

    fn not_authorized(&self, error: FlowError) -> AuthorizerError {
        let hint = match &error {
            FlowError::NobodyToAsk | FlowError::SignIn(_) => "sign in first",
            FlowError::NeedsClientId(_) => {
                "register a client with the authorization server and configure its id"
            }
            FlowError::NoMetadata => NO_SIGN_IN_HINT,
            FlowError::Store(_) => "repair the credential store",
            FlowError::Resource(ResourceMetadataError::Other { .. }) => RESOURCE_MISMATCH_HINT,
            _ => {
                return AuthorizerError::new(format!("the server requires authorization: {error}"))
                    .because(error);
            }
        };
        // Only found out after the authorization server: a sign-in can be begun there.
        let needs_sign_in = matches!(error, FlowError::NobodyToAsk);
        let refusal = AuthorizerError::new(format!("the server requires authorization: {error}"));
        let refusal = refusal.hint(hint).because(error);
        if needs_sign_in { refusal.needing_sign_in() } else { refusal }
    }
}

/// Returns true if the tokens may be sent with a request. They are valid for their resource and for paths below it. For
/// a server of 2024-11-05 they are also valid for the announced message URL within its origin.
fn may_present_to(tokens: &TokenSet, request: OutboundRequest<'_>) -> bool {
    let Some(resource) = tokens.resource.url().filter(|_| is_secure(request.url)) else { return false };
    covers(&resource, request.url, false) || (request.announced && resource.origin() == request.url.origin())
}

/// Returns true if a request without a token was refused and the challenge names the resource's metadata.
fn asks_for_token(refusal: &RejectedRequest<'_>, challenge: &Challenge) -> bool {
    !refusal.sent.contains_key(AUTHORIZATION) && challenge.get("resource_metadata").is_some()
}

/// Returns true if the refused request carried these tokens.
fn was_presented(tokens: &TokenSet, refusal: &RejectedRequest<'_>) -> bool {
    let shown = refusal.sent.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.split_once(' ')).map(|(_, token)| token);
    shown == Some(tokens.access.expose_secret())
}

/// Decides about a request whose proof lacked this nonce. Only the nonce of that request counts, because a concurrent
/// request may already have brought the same one.
fn verdict_after_nonce(sent: &HeaderMap, wanted: &str) -> RetryDecision {
    if sent_nonce(sent).as_deref() == Some(wanted) { RetryDecision::Refuse } else { RetryDecision::Retry }
}

/// Returns the nonce in the proof among these headers.
fn sent_nonce(sent: &HeaderMap) -> Option<String> {
    // The proof is one that was made here, so it is read without being verified.
    let claims = sent.get(DPOP)?.to_str().ok()?.split('.').nth(1)?;
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    claims.get("nonce")?.as_str().map(str::to_owned)
}

/// Returns the nonce that the proof must carry, if its absence is the only defect (RFC 9449, section 9).
fn wanted_nonce(refusal: &RejectedRequest<'_>, challenge: Option<&Challenge>) -> Option<String> {
    let wants = challenge.is_some_and(|challenge| challenge.get("error") == Some("use_dpop_nonce"));
    let nonce = refusal.headers.get(DPOP_NONCE)?.to_str().ok()?;
    (wants && refusal.sent.contains_key(DPOP)).then(|| nonce.to_owned())
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;
    use crate::ProofKey;

    #[test]
    fn of_many_that_sent_an_old_nonce_all_are_sent_again() {
        let key = ProofKey::generate().unwrap();
        let url = Url::parse("https://m.example/mcp").unwrap();
        let sent = |nonce: Option<&str>| {
            let proof = key.prove(&Method::POST, &url, Some("token"), nonce, "id".into(), 7).unwrap();
            HeaderMap::from_iter([(DPOP, proof)])
        };
        for old in [None, Some("old")] {
            let (one, other) = (sent(old), sent(old));
            assert_eq!(verdict_after_nonce(&one, "new"), RetryDecision::Retry);
            assert_eq!(
                verdict_after_nonce(&other, "new"),
                RetryDecision::Retry,
                "the first has brought the nonce already"
            );
        }
        assert_eq!(
            verdict_after_nonce(&sent(Some("new")), "new"),
            RetryDecision::Refuse,
            "it had what is wanted"
        );
    }
}
