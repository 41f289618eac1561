//! Reason for an authorization.

use std::fmt;
use std::sync::Arc;

use hospes_auth::{Challenge, Issuer, Scopes, without_query};
use url::Url;

use crate::proof_key::ProofKey;

/// Reason for an authorization, and the known facts.
#[derive(Clone)]
#[non_exhaustive]
pub struct AuthorizationCause {
    /// The MCP endpoint.
    pub endpoint: Url,
    /// Challenge of the refused request.
    pub challenge: Option<Challenge>,
    /// Scopes of the earlier request. They are requested again, so that step-up authorization adds scopes and replaces
    /// none.
    pub requested_before: Scopes,
    /// The authorization servers that know us.
    pub known: Vec<Issuer>,
    /// Key that tokens are bound to, if required.
    pub proof_key: Option<Arc<ProofKey>>,
    /// The authorization server to which the given client was bound when it was first used.
    pub bound: Option<Issuer>,
}

impl fmt::Debug for AuthorizationCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationCause")
            .field("endpoint", &without_query(&self.endpoint))
            .field("challenge", &self.challenge)
            .field("requested_before", &self.requested_before)
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

impl AuthorizationCause {
    /// Creates the cause for an endpoint that rejected a request.
    #[must_use]
    pub fn new(endpoint: Url, challenge: Option<Challenge>) -> Self {
        Self {
            endpoint,
            challenge,
            requested_before: Scopes::none(),
            known: Vec::new(),
            proof_key: None,
            bound: None,
        }
    }
}
