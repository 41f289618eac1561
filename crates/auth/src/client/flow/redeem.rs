//! Redemption of a grant at the token endpoint.

use secrecy::{ExposeSecret as _, SecretString};

use super::authorize::build_token_request;
use super::register::given_client;
use super::server::DiscoveredServer;
use super::{FlowContext, FlowEffect, FlowState, FlowStep, check_response, token_exchange};
use crate::FetchResponse;
use crate::client::credentials::ClientAuth;
use crate::client::error::FlowError;
use crate::client::settings::GrantType;
use crate::client::token_request::{self, TokenRequest, nonce_wanted};
use crate::client::workload::WorkloadToken;
use crate::egress::FetchError;

pub(super) const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// State after the token request. Any response ends the flow, except a demand for a DPoP nonce.
#[derive(Debug)]
pub(super) struct RedeemGrant {
    order: TokenRequest,
    grant: &'static str,
    fields: Vec<(&'static str, SecretString)>,
    again: bool,
}

impl RedeemGrant {
    pub(super) fn order(&self) -> &TokenRequest {
        &self.order
    }

    pub(super) fn begin(
        facts: &mut FlowContext,
        order: TokenRequest,
        grant: &'static str,
        fields: Vec<(&'static str, SecretString)>,
    ) -> FlowStep {
        Self { order, grant, fields, again: false }.ask(facts, None)
    }

    fn ask(self, facts: &mut FlowContext, nonce: Option<&str>) -> FlowStep {
        let fields: Vec<_> = self.fields.iter().map(|(name, value)| (*name, value.expose_secret())).collect();
        let request = self.order.request(self.grant, &fields, nonce, &mut facts.seed, facts.now)?;
        Ok((FlowState::Redeem(Box::new(self)), FlowEffect::Fetch(request)))
    }

    pub(super) fn handle(
        mut self,
        facts: &mut FlowContext,
        response: Result<FetchResponse, FetchError>,
    ) -> FlowStep {
        // A lost answer is no reason to try again: a code that is shown twice costs the tokens it was
        // exchanged for (RFC 6749, section 4.1.2).
        let response =
            check_response(token_request::TOKEN_ENDPOINT_NAME, &self.order.token_endpoint, response)?;
        if !self.again
            && let Some(nonce) = nonce_wanted(&response)
        {
            self.again = true;
            return self.ask(facts, Some(&nonce));
        }
        let tokens = self.order.read(&response, None, facts.now)?;
        Ok((FlowState::Over, FlowEffect::Done(Box::new(tokens))))
    }
}

/// Starts the grants that need no user.
pub(super) fn begin_unattended(facts: &mut FlowContext, found: DiscoveredServer) -> FlowStep {
    match facts.settings.grant.clone() {
        GrantType::Code | GrantType::Device => Err(FlowError::OutOfOrder),
        GrantType::ClientCredentials => client_credentials(facts, &found),
        GrantType::Enterprise(provider) => token_exchange::begin(facts, found, provider),
        GrantType::Workload(WorkloadToken::Given(token)) => redeem_assertion(facts, &found, &token),
        // Whoever runs the flow reads it first: nothing is read here.
        GrantType::Workload(_) => Err(FlowError::OutOfOrder),
    }
}

/// The client asks for itself, by the credentials it was given and nothing else.
fn client_credentials(facts: &mut FlowContext, found: &DiscoveredServer) -> FlowStep {
    let order = given_order(facts, found)?;
    // This grant is for confidential clients only (RFC 6749, section 4.4).
    if matches!(order.client.auth, ClientAuth::None) {
        let why = "the client has neither a secret nor a key".into();
        return Err(FlowError::ClientAuth { issuer: order.issuer, why });
    }
    let scope = scope_of(&order);
    RedeemGrant::begin(facts, order, "client_credentials", scope)
}

/// Somebody else vouches for the client, or for the person.
pub(super) fn redeem_assertion(
    facts: &mut FlowContext,
    found: &DiscoveredServer,
    assertion: &SecretString,
) -> FlowStep {
    let order = given_order(facts, found)?;
    let mut fields = vec![("assertion", assertion.clone())];
    fields.extend(scope_of(&order));
    RedeemGrant::begin(facts, order, JWT_BEARER, fields)
}

pub(super) fn given_order(facts: &FlowContext, found: &DiscoveredServer) -> Result<TokenRequest, FlowError> {
    let given = facts.settings.given.as_ref();
    let given = given.ok_or_else(|| FlowError::NeedsClientId(found.server.issuer.clone()))?;
    let client = given_client(given, facts.cause.bound.as_ref(), found)?;
    build_token_request(facts, found, client)
}

pub(super) fn scope_of(order: &TokenRequest) -> Vec<(&'static str, SecretString)> {
    let scopes = &order.scopes;
    if scopes.is_empty() { Vec::new() } else { vec![("scope", scopes.to_string().into())] }
}
