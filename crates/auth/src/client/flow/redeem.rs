//! What was granted becomes tokens.

use secrecy::{ExposeSecret as _, SecretString};

use super::authorize::order;
use super::register::given_client;
use super::server::Found;
use super::{Effect, Facts, Next, State, usable, vouch};
use crate::Response;
use crate::client::credentials::ClientAuth;
use crate::client::error::FlowError;
use crate::client::settings::Grant;
use crate::client::token_request::{self, Order, nonce_wanted};
use crate::client::workload::WorkloadToken;
use crate::egress::FetchError;

pub(super) const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// The token endpoint was asked. Whatever it answers is the end, but that it wants to see a nonce.
#[derive(Debug)]
pub(super) struct Redeem {
    order: Order,
    grant: &'static str,
    fields: Vec<(&'static str, SecretString)>,
    again: bool,
}

impl Redeem {
    pub(super) fn order(&self) -> &Order {
        &self.order
    }

    pub(super) fn begin(
        facts: &mut Facts,
        order: Order,
        grant: &'static str,
        fields: Vec<(&'static str, SecretString)>,
    ) -> Next {
        Self { order, grant, fields, again: false }.ask(facts, None)
    }

    fn ask(self, facts: &mut Facts, nonce: Option<&str>) -> Next {
        let fields: Vec<_> = self.fields.iter().map(|(name, value)| (*name, value.expose_secret())).collect();
        let request = self.order.request(self.grant, &fields, nonce, &mut facts.seed, facts.now)?;
        Ok((State::Redeem(Box::new(self)), Effect::Fetch(request)))
    }

    pub(super) fn handle(mut self, facts: &mut Facts, response: Result<Response, FetchError>) -> Next {
        let response = usable(token_request::WHAT, &self.order.token_endpoint, response)?;
        if !self.again
            && let Some(nonce) = nonce_wanted(&response)
        {
            self.again = true;
            return self.ask(facts, Some(&nonce));
        }
        let tokens = self.order.read(&response, None, facts.now)?;
        Ok((State::Over, Effect::Done(Box::new(tokens))))
    }
}

/// Whatever asks nobody here.
pub(super) fn unattended(facts: &mut Facts, found: Found) -> Next {
    match facts.settings.grant.clone() {
        Grant::Code | Grant::Device => Err(FlowError::OutOfOrder),
        Grant::ClientCredentials => client_credentials(facts, &found),
        Grant::Enterprise(provider) => vouch::begin(facts, found, provider),
        Grant::Workload(WorkloadToken::Given(token)) => assertion(facts, &found, &token),
        // Whoever runs the flow reads it first: nothing is read here.
        Grant::Workload(_) => Err(FlowError::OutOfOrder),
    }
}

/// The client asks for itself, by the credentials it was given and nothing else.
fn client_credentials(facts: &mut Facts, found: &Found) -> Next {
    let order = given_order(facts, found)?;
    if matches!(order.client.auth, ClientAuth::None) {
        let why = "it has neither a secret nor a key".into();
        return Err(FlowError::ClientAuth { issuer: order.issuer, why });
    }
    let scope = scope_of(&order);
    Redeem::begin(facts, order, "client_credentials", scope)
}

/// Somebody else vouches for the client, or for the person.
pub(super) fn assertion(facts: &mut Facts, found: &Found, assertion: &SecretString) -> Next {
    let order = given_order(facts, found)?;
    let mut fields = vec![("assertion", assertion.clone())];
    fields.extend(scope_of(&order));
    Redeem::begin(facts, order, JWT_BEARER, fields)
}

pub(super) fn given_order(facts: &Facts, found: &Found) -> Result<Order, FlowError> {
    let given = facts.settings.given.as_ref();
    let given = given.ok_or_else(|| FlowError::NeedsClientId(found.server.issuer.clone()))?;
    let client = given_client(given, facts.cause.bound.as_ref(), found)?;
    order(facts, found, client)
}

pub(super) fn scope_of(order: &Order) -> Vec<(&'static str, SecretString)> {
    let scopes = &order.scopes;
    if scopes.is_empty() { Vec::new() } else { vec![("scope", scopes.to_string().into())] }
}
