//! The authorization request, and the state kept until its response.

use hospes_auth::RedirectUri;
use hospes_auth::pkce::CodeVerifier;
use secrecy::SecretString;

use super::discovered_server::DiscoveredServer;
use super::effect::{AuthorizationPrompt, FlowEffect};
use super::grant_types;
use super::redeem::RedeemGrant;
use super::redirect::{self, ExpectedResponse};
use super::step::{FlowContext, FlowStep};
use crate::credentials::ClientIdentity;
use crate::token_request::TokenRequest;

/// Everything the answer is judged by. Made before the browser opens, consumed by the first answer.
#[derive(Debug)]
pub(super) struct PendingAuthorization {
    pub(super) state: SecretString,
    pub(super) verifier: CodeVerifier,
    pub(super) order: TokenRequest,
    /// True if the server declares that its responses always have `iss`.
    pub(super) iss_required: bool,
    pub(super) redirect_uri: RedirectUri,
    pub(super) created_at: u64,
}

impl PendingAuthorization {
    pub(super) fn begin(
        facts: &mut FlowContext,
        found: &DiscoveredServer,
        client: ClientIdentity,
        redirect_uri: RedirectUri,
    ) -> FlowStep<Box<Self>> {
        let mut url = found.server.authorization_url()?;
        let state = facts.seed.draw_text();
        let verifier = CodeVerifier::new(&facts.seed.draw());
        let order = found.token_request(facts, client)?;
        {
            let mut query = url.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", order.client.id.as_str())
                .append_pair("redirect_uri", redirect_uri.as_str())
                .append_pair("state", &state)
                .append_pair("code_challenge", &verifier.challenge())
                .append_pair("code_challenge_method", "S256")
                // Sent whether or not the server knows the parameter (AUTC-28).
                .append_pair("resource", order.resource.as_str());
            if !order.scopes.is_empty() {
                query.append_pair("scope", &order.scopes.to_string());
            }
        }
        let visit = AuthorizationPrompt {
            url,
            redirect_uri: redirect_uri.clone(),
            state: state.clone(),
            issuer: order.issuer.clone(),
            scopes: order.scopes.clone(),
        };
        let pending = Self {
            state: state.into(),
            verifier,
            order,
            iss_required: found.server.authorization_response_iss_parameter_supported == Some(true),
            redirect_uri,
            created_at: facts.now,
        };
        Ok((Box::new(pending), FlowEffect::Visit(visit)))
    }

    pub(super) fn handle(self, facts: &mut FlowContext, url: &str) -> FlowStep<Box<RedeemGrant>> {
        let expected = ExpectedResponse {
            state: &self.state,
            issuer: &self.order.issuer,
            iss_required: self.iss_required,
            created_at: self.created_at,
        };
        let code = redirect::read(&expected, url, facts.now)?;
        // The redirect URI is repeated for servers of RFC 6749 (section 4.1.3); OAuth 2.1 no longer asks
        // for it.
        let fields = vec![
            ("code", code),
            ("redirect_uri", self.redirect_uri.as_str().to_owned().into()),
            ("code_verifier", self.verifier.expose().to_owned().into()),
        ];
        RedeemGrant::begin(facts, self.order, grant_types::AUTHORIZATION_CODE, fields)
    }
}
