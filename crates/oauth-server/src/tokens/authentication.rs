//! Client authentication and DPoP proofs at the token endpoint.

use hospes_auth::dpop::{PROOF_TOLERANCE_SECONDS, read_proof};
use hospes_auth::{ErrorBody, ErrorCode};
use http::request::Parts;

use super::errors::{TokenRequestError, refuse};
use crate::auth_server::AuthServer;
use crate::clients::{ClientAuthMethod, ClientCredentialsError, PresentedCredentials, RegisteredClient};
use crate::documents::ClientLookup;
use crate::form::RequestForm;

/// Authenticated client of a token request, and its proven key.
pub(crate) struct TokenRequester {
    pub(super) client: RegisteredClient,
    /// The key that they have proven, by its thumbprint.
    pub(super) key: Option<String>,
}

impl AuthServer {
    /// Returns the key that a request proves, to which its token is bound (RFC 9449, section 5).
    pub(super) async fn proven_key(&self, parts: &Parts) -> Result<Option<String>, TokenRequestError> {
        let now = self.now();
        let bad = |why: &str| refuse(ErrorCode::InvalidDpopProof, why);
        // The public URL is what the client has signed; behind a proxy the request names another one.
        let Ok(url) = self.endpoint("token").parse() else {
            return bad("the URL of the token endpoint is invalid");
        };
        let proof = match read_proof(&parts.headers, &parts.method, &url, None, now) {
            Ok(Some(proof)) => proof,
            Ok(None) => return Ok(None),
            Err(why) => return bad(why),
        };
        if self.settings().proof_nonces && !self.0.nonces.check(&proof, now).await? {
            return Err(TokenRequestError::Nonce(self.0.nonces.issue(now).await?));
        }
        let key = format!("proof {}", proof.once);
        if !self.store().claim(&key, "", now + 2 * PROOF_TOLERANCE_SECONDS, now).await? {
            tracing::warn!(key = proof.key, "DPoP proof reused: possible replay attack");
            return bad("the DPoP proof was already used");
        }
        Ok(Some(proof.key))
    }

    /// Authenticates the client of a request.
    pub(crate) async fn authenticate(
        &self,
        parts: &Parts,
        form: &RequestForm,
    ) -> Result<RegisteredClient, TokenRequestError> {
        check_repeated(form)?;
        let credentials = match PresentedCredentials::read(&parts.headers, form) {
            Ok(credentials) => credentials,
            Err(ClientCredentialsError::Malformed(why)) => return refuse(ErrorCode::InvalidRequest, why),
            Err(ClientCredentialsError::Missing) => {
                return refuse(ErrorCode::InvalidClient, "client_id is missing");
            }
        };
        match self.client(&credentials.id).await? {
            ClientLookup::Client(client) => {
                let itself = match &credentials.assertion {
                    Some(assertion) => self.verify_client_assertion(&client, assertion).await?,
                    None => credentials.belong_to(&client),
                };
                if itself {
                    return Ok(*client);
                }
            }
            ClientLookup::Nobody => {}
            ClientLookup::Unavailable => return Err(TokenRequestError::Later),
        }
        tracing::info!(client = %credentials.id, "client authentication failed");
        let body = ErrorBody::new(ErrorCode::InvalidClient, "unknown client or failed client authentication");
        Err(match credentials.method {
            ClientAuthMethod::ClientSecretBasic => TokenRequestError::Basic(body),
            _ => TokenRequestError::Refused(body),
        })
    }
}

/// Rejects repeated parameters, because their meaning is ambiguous (OAuth 2.1, section 3.2).
pub(super) fn check_repeated(form: &RequestForm) -> Result<(), TokenRequestError> {
    let Some(name) = form.repeated() else { return Ok(()) };
    let why = format!("the parameter {} occurs more than once", hospes_auth::shown(name));
    refuse(ErrorCode::InvalidRequest, &why)
}
