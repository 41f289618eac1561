//! Errors of the token, revocation and introspection endpoints.

use hospes_auth::dpop::ProofStoreError;
use hospes_auth::{ErrorBody, ErrorCode};
use serde::Deserialize;

use crate::store::{AuthRecord, AuthStoreError};

/// Reasons no token is issued.
#[derive(Debug)]
pub(crate) enum TokenRequestError {
    /// The request is refused.
    Refused(ErrorBody),
    /// The client did not show that it is itself; it tried HTTP Basic.
    Basic(ErrorBody),
    /// The client or the user cannot be verified now.
    Later,
    /// The proof of a key has to carry this.
    Nonce(String),
    /// The store does not answer.
    Store(AuthStoreError),
}

impl From<ProofStoreError> for TokenRequestError {
    fn from(error: ProofStoreError) -> Self {
        AuthStoreError::from(error).into()
    }
}

impl From<AuthStoreError> for TokenRequestError {
    fn from(error: AuthStoreError) -> Self {
        Self::Store(error)
    }
}

pub(super) fn refuse<T>(code: ErrorCode, why: &str) -> Result<T, TokenRequestError> {
    Err(TokenRequestError::Refused(ErrorBody::new(code, why)))
}

pub(super) fn decode<T: for<'de> Deserialize<'de>>(record: &AuthRecord) -> Result<T, TokenRequestError> {
    serde_json::from_str(&record.value)
        .map_err(|_| AuthStoreError("a stored record is malformed".into()).into())
}
