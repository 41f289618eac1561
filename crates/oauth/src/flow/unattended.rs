//! Grants without a user.

use super::discovered_server::DiscoveredServer;
use super::grant_types;
use super::redeem::RedeemGrant;
use super::step::{FlowContext, FlowStep, into_state};
use super::token_exchange::{self, TokenExchange};
use crate::credentials::ClientAuth;
use crate::error::FlowError;
use crate::settings::GrantType;
use crate::workload::WorkloadToken;

/// State of a grant without a user.
pub(super) enum UnattendedState {
    Vouch(Box<TokenExchange>),
    Redeem(Box<RedeemGrant>),
}

impl From<Box<TokenExchange>> for UnattendedState {
    fn from(state: Box<TokenExchange>) -> Self {
        Self::Vouch(state)
    }
}

impl From<Box<RedeemGrant>> for UnattendedState {
    fn from(state: Box<RedeemGrant>) -> Self {
        Self::Redeem(state)
    }
}

/// Starts the grant of the settings, which needs no user.
pub(super) fn begin(facts: &mut FlowContext, found: DiscoveredServer) -> FlowStep<UnattendedState> {
    match facts.settings.grant.clone() {
        GrantType::Code | GrantType::Device => Err(FlowError::OutOfOrder),
        GrantType::ClientCredentials => client_credentials(facts, &found).map(into_state),
        GrantType::Enterprise(provider) => token_exchange::begin(facts, found, provider).map(into_state),
        GrantType::Workload(WorkloadToken::Given(token)) => {
            RedeemGrant::begin_with_assertion(facts, &found, &token).map(into_state)
        }
        // Whoever runs the flow reads it first: nothing is read here.
        GrantType::Workload(_) => Err(FlowError::OutOfOrder),
    }
}

/// Starts a client-credentials grant, which uses only the client's own credentials.
fn client_credentials(facts: &mut FlowContext, found: &DiscoveredServer) -> FlowStep<Box<RedeemGrant>> {
    let order = found.token_request_of_given(facts)?;
    // This grant is for confidential clients only (RFC 6749, section 4.4).
    if matches!(order.client.auth, ClientAuth::None) {
        let why = "the client has neither a secret nor a key".into();
        return Err(FlowError::ClientAuth { issuer: order.issuer, why });
    }
    let scope = order.scope_fields();
    RedeemGrant::begin(facts, order, grant_types::CLIENT_CREDENTIALS, scope)
}
