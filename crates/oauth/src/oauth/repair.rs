//! Repair of tokens and registrations of unknown state.

use std::fmt;
use std::sync::Arc;

use hospes_auth::{Issuer, Scopes};

use super::refreshing::RefreshResult;
use super::{AuthorizeResult, OAuthClient};
use crate::error::FlowError;
use crate::tokens::TokenSet;

/// Step of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairStep {
    /// The MCP server names another authorization server than the one the tokens are from: those were forgotten.
    ServerChanged {
        /// Issuer of the tokens.
        from: Issuer,
        /// Current issuer.
        to: Issuer,
    },
    /// The tokens could not be renewed, for this reason.
    NotRenewed(String),
    /// The registration with this authorization server was deleted, to register again.
    RegistrationForgotten(Issuer),
    /// The tokens were renewed.
    Renewed,
    /// Somebody signed in, or the client did for itself.
    SignedIn,
}

impl fmt::Display for RepairStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServerChanged { from, to } => {
                write!(
                    f,
                    "the server now uses the authorization server {to}; deleted the tokens issued by {from}"
                )
            }
            Self::NotRenewed(why) => write!(f, "token refresh failed: {why}"),
            Self::RegistrationForgotten(issuer) => {
                write!(f, "replaced the client registration with {issuer}")
            }
            Self::Renewed => f.write_str("refreshed the tokens"),
            Self::SignedIn => f.write_str("signed in again"),
        }
    }
}

/// Result of a repair.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairReport {
    /// Tokens that are held now.
    pub tokens: Arc<TokenSet>,
    /// Steps that were taken, in order.
    pub did: Vec<RepairStep>,
}

impl OAuthClient {
    /// Repairs tokens and registration: rediscovers the authorization server of the MCP server, renews the tokens if
    /// they are from that server, and signs in again otherwise, with a new registration if the old one was dynamic.
    ///
    /// # Errors
    /// The cause of the failure; [`FlowError::Visit`] if the user has to visit a page and the caller tries again
    /// afterwards. Existing tokens are kept, unless they are from another server or their server rejects the renewal
    /// permanently.
    pub async fn repair(&self) -> Result<RepairReport, FlowError> {
        let turn = self.lock_authorization().await;
        self.load().await?;
        let mut did = Vec::new();
        // A statement of its own, so that the guard is not held across the awaits in the `if let`.
        let held = self.held().tokens.clone();
        if let Some(tokens) = held {
            let (issuer, token_endpoint) = self.discover().await?;
            if issuer == tokens.issuer {
                // The token endpoint may have moved since the tokens were issued.
                let mut current = (*tokens).clone();
                current.token_endpoint = token_endpoint;
                let current = Arc::new(current);
                self.held().tokens = Some(Arc::clone(&current));
                let why = match self.refresh_tokens(&turn, &current).await {
                    Ok(RefreshResult::Renewed(tokens)) => {
                        did.push(RepairStep::Renewed);
                        return Ok(RepairReport { tokens, did });
                    }
                    Ok(RefreshResult::Impossible) => "no valid refresh token".to_owned(),
                    // They may be as good as ever.
                    Err(
                        error @ (FlowError::Fetch { .. } | FlowError::Status { .. } | FlowError::Store(_)),
                    ) => {
                        return Err(error);
                    }
                    Err(error) => error.to_string(),
                };
                did.push(RepairStep::NotRenewed(why));
                if self.lock_and_forget_registration(&tokens).await? {
                    did.push(RepairStep::RegistrationForgotten(issuer));
                }
            } else {
                let is_done = self.forget_all_but(&issuer).await?;
                did.push(RepairStep::ServerChanged { from: tokens.issuer.clone(), to: issuer });
                // Another process was faster.
                if let Some(tokens) = self.held().tokens.clone().filter(|_| is_done) {
                    return Ok(RepairReport { tokens, did });
                }
            }
        }
        {
            // Whoever asks for a repair is asked again, whatever was refused a moment ago.
            let mut held = self.held();
            held.steps.clear();
            held.denied = None;
        }
        match self.authorize(&turn, None, Scopes::none()).await? {
            AuthorizeResult::Tokens(tokens) => {
                did.push(RepairStep::SignedIn);
                Ok(RepairReport { tokens, did })
            }
            AuthorizeResult::Later(url) => Err(FlowError::Visit(url)),
        }
    }
}
