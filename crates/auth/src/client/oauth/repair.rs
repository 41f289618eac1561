//! Putting right what is held, when nobody knows what is wrong with it.

use std::fmt;
use std::sync::Arc;

use super::renewing::Outcome;
use super::{Got, OAuthClient};
use crate::client::error::FlowError;
use crate::client::tokens::Tokens;
use crate::{Issuer, Scopes};

/// Something that was done to put it right.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// The MCP server names another authorization server than the one the tokens are from: those were forgotten.
    ServerChanged {
        /// Whose they were.
        from: Issuer,
        /// Who it is now.
        to: Issuer,
    },
    /// The tokens could not be renewed, for this reason.
    NotRenewed(String),
    /// The registration with this authorization server was forgotten, to be made anew.
    RegistrationForgotten(Issuer),
    /// The tokens were renewed.
    Renewed,
    /// Somebody signed in, or the client did for itself.
    SignedIn,
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServerChanged { from, to } => {
                write!(f, "tokens are now made out by {to}; those of {from} are forgotten")
            }
            Self::NotRenewed(why) => write!(f, "the tokens could not be renewed: {why}"),
            Self::RegistrationForgotten(issuer) => {
                write!(f, "the registration with {issuer} is forgotten, and made anew")
            }
            Self::Renewed => f.write_str("the tokens were renewed"),
            Self::SignedIn => f.write_str("the sign-in was done anew"),
        }
    }
}

/// What a repair came to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Repaired {
    /// What is held now.
    pub tokens: Arc<Tokens>,
    /// What was done, in order.
    pub did: Vec<Repair>,
}

impl OAuthClient {
    /// Puts right what is held: asks the MCP server anew who makes out its tokens, renews those that are held if they
    /// are from there, and else signs in again, registering anew where that was done here.
    ///
    /// # Errors
    /// Why it came to nothing; [`FlowError::Visit`] where somebody has to go to a page and whoever asked comes again.
    /// Tokens that were held are then held still, unless they were another server's, or their server says that they can
    /// be renewed no more.
    pub async fn repair(&self) -> Result<Repaired, FlowError> {
        let turn = self.turn().await;
        self.load().await?;
        let mut did = Vec::new();
        let held = self.held().tokens.clone();
        if let Some(tokens) = held {
            let (issuer, token_endpoint) = self.discover().await?;
            if issuer == tokens.issuer {
                let mut current = (*tokens).clone();
                current.token_endpoint = token_endpoint;
                let current = Arc::new(current);
                self.held().tokens = Some(Arc::clone(&current));
                let why = match self.renew(&turn, &current).await {
                    Ok(Outcome::Renewed(tokens)) => {
                        did.push(Repair::Renewed);
                        return Ok(Repaired { tokens, did });
                    }
                    Ok(Outcome::Impossible) => "there is no refresh token that is still good".to_owned(),
                    // They may be as good as ever.
                    Err(
                        error @ (FlowError::Fetch { .. } | FlowError::Status { .. } | FlowError::Store(_)),
                    ) => {
                        return Err(error);
                    }
                    Err(error) => error.to_string(),
                };
                did.push(Repair::NotRenewed(why));
                if self.forget_registration_alone(&tokens).await? {
                    did.push(Repair::RegistrationForgotten(issuer));
                }
            } else {
                let is_done = self.forget_all_but(&issuer).await?;
                did.push(Repair::ServerChanged { from: tokens.issuer.clone(), to: issuer });
                // Another process was faster.
                if let Some(tokens) = self.held().tokens.clone().filter(|_| is_done) {
                    return Ok(Repaired { tokens, did });
                }
            }
        }
        {
            let mut held = self.held();
            held.steps.clear();
            held.denied = None;
        }
        match self.authorize(&turn, None, Scopes::none()).await? {
            Got::Tokens(tokens) => {
                did.push(Repair::SignedIn);
                Ok(Repaired { tokens, did })
            }
            Got::Later(url) => Err(FlowError::Visit(url)),
        }
    }
}
