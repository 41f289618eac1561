//! Redemption of a grant at the token endpoint.

use hospes_auth::FetchResponse;
use hospes_auth::egress::FetchError;
use secrecy::{ExposeSecret as _, SecretString};

use super::discovered_server::DiscoveredServer;
use super::effect::FlowEffect;
use super::grant_types;
use super::step::{FlowContext, FlowStep, check_response, into_state};
use crate::token_request::{self, TokenRequest, nonce_wanted};

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
    ) -> FlowStep<Box<Self>> {
        Self { order, grant, fields, again: false }.ask(facts, None)
    }

    /// Redeems an assertion of a third party about the client or the user.
    pub(super) fn begin_with_assertion(
        facts: &mut FlowContext,
        found: &DiscoveredServer,
        assertion: &SecretString,
    ) -> FlowStep<Box<Self>> {
        let order = found.token_request_of_given(facts)?;
        let mut fields = vec![("assertion", assertion.clone())];
        fields.extend(order.scope_fields());
        Self::begin(facts, order, grant_types::JWT_BEARER, fields)
    }

    fn ask(self, facts: &mut FlowContext, nonce: Option<&str>) -> FlowStep<Box<Self>> {
        let fields: Vec<_> = self.fields.iter().map(|(name, value)| (*name, value.expose_secret())).collect();
        let request = self.order.request(self.grant, &fields, nonce, &mut facts.seed, facts.now)?;
        Ok((Box::new(self), FlowEffect::Fetch(request)))
    }

    /// Handles the response. No state is left once there are tokens.
    pub(super) fn handle(
        mut self,
        facts: &mut FlowContext,
        response: Result<FetchResponse, FetchError>,
    ) -> FlowStep<Option<Box<Self>>> {
        // A lost answer is no reason to try again: a code that is shown twice costs the tokens it was
        // exchanged for (RFC 6749, section 4.1.2).
        let response =
            check_response(token_request::TOKEN_ENDPOINT_NAME, &self.order.token_endpoint, response)?;
        if !self.again
            && let Some(nonce) = nonce_wanted(&response)
        {
            self.again = true;
            return self.ask(facts, Some(&nonce)).map(into_state);
        }
        let tokens = self.order.read(&response, None, facts.now)?;
        Ok((None, FlowEffect::Done(Box::new(tokens))))
    }
}
