//! Token exchange with an enterprise identity provider: the user's ID token becomes a grant at the MCP server's
//! authorization server.

use hospes_auth::egress::FetchError;
use hospes_auth::{FetchResponse, Issuer, without_query};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use url::Url;

use super::discovered_server::DiscoveredServer;
use super::effect::FlowEffect;
use super::grant_types;
use super::redeem::RedeemGrant;
use super::step::{FlowContext, FlowStep, check_response};
use crate::error::FlowError;
use crate::settings::IdentityProvider;
use crate::token_request::{TOKEN_ENDPOINT_NAME, TokenRequestForm, read_success};

const ID_JAG_TYPE: &str = "urn:ietf:params:oauth:token-type:id-jag";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";

/// The identity provider was asked.
#[derive(Debug)]
pub(super) struct TokenExchange {
    found: DiscoveredServer,
    url: Url,
}

#[derive(Deserialize)]
struct TokenExchangeResponse {
    access_token: SecretString,
    issued_token_type: String,
}

/// Asks it to vouch, to this server and for this resource (RFC 8693).
pub(super) fn begin(
    facts: &mut FlowContext,
    found: DiscoveredServer,
    provider: IdentityProvider,
) -> FlowStep<Box<TokenExchange>> {
    let url = provider.token_endpoint;
    let order = found.token_request_of_given(facts)?;
    let scopes = order.scope_fields();
    let mut fields = vec![
        ("requested_token_type", ID_JAG_TYPE),
        ("audience", order.issuer.as_str()),
        ("resource", order.resource.as_str()),
        ("subject_token", provider.id_token.expose_secret()),
        ("subject_token_type", ID_TOKEN),
    ];
    fields.extend(scopes.iter().map(|(name, value)| (*name, value.expose_secret())));
    // Whom an assertion would be made out to, were that how the provider knows us.
    let issuer = Issuer::new(url.origin().ascii_serialization()).unwrap_or_else(|_| order.issuer.clone());
    let form = TokenRequestForm::new(grant_types::TOKEN_EXCHANGE, &fields);
    let request = form.send(&url, &provider.client, &issuer, url.as_str(), &mut facts.seed, facts.now)?;
    Ok((Box::new(TokenExchange { found, url }), FlowEffect::Fetch(request)))
}

impl TokenExchange {
    pub(super) fn server(&self) -> Option<(&Issuer, Url)> {
        self.found.issuer_and_token_endpoint()
    }

    pub(super) fn handle(
        self,
        facts: &mut FlowContext,
        response: Result<FetchResponse, FetchError>,
    ) -> FlowStep<Box<RedeemGrant>> {
        let response = check_response(TOKEN_ENDPOINT_NAME, &self.url, response)?;
        let exchanged: TokenExchangeResponse = read_success(TOKEN_ENDPOINT_NAME, &response, &self.url)?;
        if exchanged.issued_token_type != ID_JAG_TYPE {
            let why = "response has an unexpected `issued_token_type`".to_owned();
            return Err(FlowError::Malformed {
                what: TOKEN_ENDPOINT_NAME,
                url: without_query(&self.url),
                why,
            });
        }
        RedeemGrant::begin_with_assertion(facts, &self.found, &exchanged.access_token)
    }
}
