//! Renewal of the current tokens.

use std::sync::Arc;

use hospes_auth::ErrorCode;
use secrecy::ExposeSecret as _;

use super::{AuthorizationLock, OAuthClient, seed};
use crate::error::FlowError;
use crate::token_refresh::{TokenRefresh, TokenRefreshStep};
use crate::tokens::TokenSet;

/// Result of a renewal.
pub(super) enum RefreshResult {
    Renewed(Arc<TokenSet>),
    /// There is no refresh token.
    Impossible,
}

impl OAuthClient {
    /// Runs work to completion even if the caller is dropped. A single-use refresh token is spent once sent, and the
    /// response would otherwise be lost.
    pub(super) async fn run_to_completion<T: Send + 'static>(
        turn: &AuthorizationLock,
        work: impl Future<Output = Result<T, FlowError>> + Send + 'static,
    ) -> Result<T, FlowError> {
        let turn = Arc::clone(turn);
        let working = tokio::spawn(async move {
            // Held to the end of the work even if the caller is gone, so that the next renewal sees its
            // result.
            let _turn = turn;
            work.await
        });
        // The task is never aborted: only a panic or the end of the runtime gets here.
        working.await.unwrap_or(Err(FlowError::OutOfOrder))
    }

    /// Renews the tokens, if they are still these and can be renewed.
    pub(super) async fn refresh_tokens(
        &self,
        turn: &AuthorizationLock,
        tokens: &Arc<TokenSet>,
    ) -> Result<RefreshResult, FlowError> {
        let (this, tokens) = (self.clone(), Arc::clone(tokens));
        Self::run_to_completion(turn, async move { this.refresh_now(&tokens).await }).await
    }

    pub(super) async fn refresh_now(&self, tokens: &Arc<TokenSet>) -> Result<RefreshResult, FlowError> {
        // The lock of the store is only taken inside of a turn, never the other way round.
        let lock = self.lock_tokens().await?;
        // Another process may have been faster; its refresh token is the only one that is still good.
        let is_unsaved = self.held().is_unsaved;
        match self.read_stored_document().await? {
            Some(document) => {
                let newer = self.read_tokens(&document).filter(|kept| {
                    // A different record of the same second is the newer one, unless the tokens at hand
                    // never reached the store.
                    let is_later = if is_unsaved {
                        kept.issued_at > tokens.issued_at
                    } else {
                        kept.issued_at >= tokens.issued_at
                    };
                    is_later && kept.access.expose_secret() != tokens.access.expose_secret()
                });
                if let Some(kept) = newer.map(Arc::new) {
                    // The block ends the guard: `held` is locked again below, and the mutex is not
                    // reentrant.
                    {
                        let mut held = self.held();
                        held.tokens = Some(Arc::clone(&kept));
                        held.is_unsaved = false;
                    }
                    // A stale one is renewed below, by its own refresh token.
                    if !kept.is_stale(self.0.clock.now()) {
                        return Ok(RefreshResult::Renewed(kept));
                    }
                }
            }
            None if is_unsaved => {}
            // Another process has signed out.
            None => {
                let mut held = self.held();
                held.tokens = None;
                held.is_new = false;
                return Ok(RefreshResult::Impossible);
            }
        }
        let current = self.held().tokens.clone().unwrap_or_else(|| Arc::clone(tokens));
        let mut seed = seed()?;
        let audience = self.0.settings.assertion_audience.as_deref();
        let begun = TokenRefresh::begin(&current, audience, &mut seed, self.0.clock.now())?;
        let Some((mut renewal, mut request)) = begun else { return Ok(RefreshResult::Impossible) };
        loop {
            let url = hospes_auth::without_query(&request.url);
            let response = self.0.http.fetch(request).await;
            let response =
                response.map_err(|why| FlowError::Fetch { what: "the token endpoint", url, why })?;
            match renewal.handle(&response, &mut seed, self.0.clock.now()) {
                TokenRefreshStep::Tokens(tokens) => {
                    let stored = self.store_refreshed_tokens(*tokens, &current, lock).await?;
                    return Ok(stored.map_or(RefreshResult::Impossible, RefreshResult::Renewed));
                }
                TokenRefreshStep::Again(again) => request = again,
                TokenRefreshStep::Lost => {
                    // A server takes such a token once. If the program that showed it last had ended before it kept the
                    // answer, nobody has what came back.
                    tracing::warn!(
                        resource = %current.resource,
                        issuer = %current.issuer,
                        "refresh token rejected: it was revoked, or the response to its last use was lost"
                    );
                    self.forget().await?;
                    return Ok(RefreshResult::Impossible);
                }
                TokenRefreshStep::Failed(error) => {
                    // Whoever is asked next would be sent there with an id that is good for nothing.
                    if matches!(&error, FlowError::Refused(body) if body.error == ErrorCode::InvalidClient) {
                        // The store locks one document at a time.
                        drop(lock);
                        self.lock_and_forget_registration(&current).await?;
                    }
                    return Err(error);
                }
            }
        }
    }
}
