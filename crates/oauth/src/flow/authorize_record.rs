//! The stored form of an authorization request whose response is waited for: another process can handle the response.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hospes_auth::pkce::CodeVerifier;
use hospes_auth::{Issuer, RedirectUri, Resource, Scopes};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;
use zeroize::Zeroizing;

use super::authorize::PendingAuthorization;
use crate::proof_key::ProofKey;
use crate::settings::OAuthClientSettings;
use crate::store::{ClientRecord, expose, expose_always};
use crate::token_request::TokenRequest;

#[derive(Serialize, Deserialize)]
pub(super) struct AuthorizationRecord {
    #[serde(serialize_with = "expose_always")]
    state: SecretString,
    #[serde(serialize_with = "expose_always")]
    verifier: SecretString,
    issuer: Issuer,
    resource: Resource,
    client: ClientRecord,
    token_endpoint: String,
    scopes: Scopes,
    audience: String,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "expose")]
    proof_key: Option<SecretString>,
    iss_required: bool,
    redirect_uri: RedirectUri,
    created_at: u64,
}

impl AuthorizationRecord {
    pub(super) fn of(pending: &PendingAuthorization) -> Self {
        let order = &pending.order;
        Self {
            state: pending.state.clone(),
            verifier: pending.verifier.expose().to_owned().into(),
            issuer: order.issuer.clone(),
            resource: order.resource.clone(),
            client: ClientRecord::of(&order.client),
            token_endpoint: order.token_endpoint.as_str().to_owned(),
            scopes: order.scopes.clone(),
            audience: order.audience.clone(),
            proof_key: order.proof_key.as_ref().map(|key| STANDARD.encode(key.document()).into()),
            iss_required: pending.iss_required,
            redirect_uri: pending.redirect_uri.clone(),
            created_at: pending.created_at,
        }
    }

    /// Returns the request. `None` if the settings do not have the key of its client any more, or a value is invalid.
    pub(super) fn pending(self, settings: &OAuthClientSettings) -> Option<PendingAuthorization> {
        let proof_key = match &self.proof_key {
            Some(text) => {
                let document = Zeroizing::new(STANDARD.decode(text.expose_secret()).ok()?);
                Some(Arc::new(ProofKey::from_document(&document).ok()?))
            }
            None => None,
        };
        let order = TokenRequest {
            issuer: self.issuer,
            resource: self.resource,
            client: self.client.client(Some(settings))?,
            token_endpoint: Url::parse(&self.token_endpoint).ok()?,
            scopes: self.scopes,
            audience: self.audience,
            proof_key,
        };
        Some(PendingAuthorization {
            state: self.state,
            verifier: CodeVerifier::from_text(self.verifier),
            order,
            iss_required: self.iss_required,
            redirect_uri: self.redirect_uri,
            created_at: self.created_at,
        })
    }
}
