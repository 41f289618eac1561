//! The discovered authorization server, and the requests to it.

use hospes_auth::metadata::AuthorizationServerMetadata;
use hospes_auth::{Issuer, Resource, Scopes};
use url::Url;

use super::step::FlowContext;
use crate::credentials::{ClientAuth, ClientIdentity};
use crate::error::FlowError;
use crate::settings::PreregisteredOAuthClient;
use crate::token_request::TokenRequest;

/// A discovered authorization server, with the requested scopes.
#[derive(Debug)]
pub(super) struct DiscoveredServer {
    pub(super) server: AuthorizationServerMetadata,
    pub(super) resource: Resource,
    pub(super) scopes: Scopes,
    /// Tokens are to be bound to a key.
    pub(super) wants_proof: bool,
}

impl DiscoveredServer {
    /// Returns the issuer and the token endpoint.
    pub(super) fn issuer_and_token_endpoint(&self) -> Option<(&Issuer, Url)> {
        Some((&self.server.issuer, self.server.token_url().ok()?))
    }

    /// Creates the token request of `client` for this server and its resource.
    pub(super) fn token_request(
        &self,
        facts: &FlowContext,
        client: ClientIdentity,
    ) -> Result<TokenRequest, FlowError> {
        let issuer = self.server.issuer.clone();
        let audience = facts.settings.assertion_audience.clone();
        let audience = audience.unwrap_or_else(|| issuer.as_str().to_owned());
        Ok(TokenRequest {
            issuer,
            resource: self.resource.clone(),
            client,
            token_endpoint: self.server.token_url()?,
            scopes: self.scopes.clone(),
            audience,
            proof_key: facts.cause.proof_key.clone().filter(|_| self.wants_proof),
        })
    }

    /// Creates the token request of the client in the settings.
    pub(super) fn token_request_of_given(&self, facts: &FlowContext) -> Result<TokenRequest, FlowError> {
        let given = facts.settings.given.as_ref();
        let given = given.ok_or_else(|| FlowError::NeedsClientId(self.server.issuer.clone()))?;
        let client = self.given_client(given, facts.cause.bound.as_ref())?;
        self.token_request(facts, client)
    }

    /// Returns the preregistered client, if it belongs to this server, with its authentication.
    pub(super) fn given_client(
        &self,
        given: &PreregisteredOAuthClient,
        bound: Option<&Issuer>,
    ) -> Result<ClientIdentity, FlowError> {
        let now = &self.server.issuer;
        if let Some(registered) = given.issuer.as_ref().or(bound)
            && registered != now
        {
            return Err(FlowError::OtherIssuer { registered: registered.clone(), now: now.clone() });
        }
        let offered = self.server.token_endpoint_auth_methods_supported.as_deref();
        let auth = given.auth.clone().or_else(|| ClientAuth::choose(offered, given.secret.as_ref()));
        let auth = auth.ok_or_else(|| FlowError::ClientAuth {
            issuer: now.clone(),
            why: format!(
                "supported authentication methods: {}",
                hospes_auth::shown(&offered.unwrap_or_default().join(", "))
            ),
        })?;
        Ok(ClientIdentity::new(given.id.clone(), auth))
    }
}
