//! Grants without a user.

use super::discovered_server::DiscoveredServer;
use super::redeem::RedeemGrant;
use super::{FlowContext, FlowStep, grant_types, token_exchange};
use crate::credentials::ClientAuth;
use crate::error::FlowError;
use crate::settings::GrantType;
use crate::workload::WorkloadToken;

/// Starts the grant of the settings, which needs no user.
pub(super) fn begin(facts: &mut FlowContext, found: DiscoveredServer) -> FlowStep {
    match facts.settings.grant.clone() {
        GrantType::Code | GrantType::Device => Err(FlowError::OutOfOrder),
        GrantType::ClientCredentials => client_credentials(facts, &found),
        GrantType::Enterprise(provider) => token_exchange::begin(facts, found, provider),
        GrantType::Workload(WorkloadToken::Given(token)) => {
            RedeemGrant::begin_with_assertion(facts, &found, &token)
        }
        // Whoever runs the flow reads it first: nothing is read here.
        GrantType::Workload(_) => Err(FlowError::OutOfOrder),
    }
}

/// Starts a client-credentials grant, which uses only the client's own credentials.
fn client_credentials(facts: &mut FlowContext, found: &DiscoveredServer) -> FlowStep {
    let order = found.token_request_of_given(facts)?;
    // This grant is for confidential clients only (RFC 6749, section 4.4).
    if matches!(order.client.auth, ClientAuth::None) {
        let why = "the client has neither a secret nor a key".into();
        return Err(FlowError::ClientAuth { issuer: order.issuer, why });
    }
    let scope = order.scope_fields();
    RedeemGrant::begin(facts, order, grant_types::CLIENT_CREDENTIALS, scope)
}
