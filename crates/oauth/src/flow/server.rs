//! Discovery of the authorization server (RFC 8414, OpenID Connect discovery; for 2025-03-26 the MCP server's own
//! origin).

use std::collections::VecDeque;

use hospes_auth::egress::FetchError;
use hospes_auth::metadata::{AuthorizationServerMetadata, ProtectedResourceMetadata, server_metadata_urls};
use hospes_auth::{
    DecodeDocumentError, FetchRequest, FetchResponse, Issuer, MAX_METADATA_BYTES, Resource, Scopes,
    without_query,
};
use http::{HeaderName, HeaderValue, StatusCode};
use url::Url;

use super::discovered_server::DiscoveredServer;
use super::effect::FlowEffect;
use super::register::{RegisterClient, RegisterState};
use super::step::{FlowContext, FlowStep, check_response, into_state};
use crate::error::FlowError;
use crate::settings::{GrantType, LegacyDiscovery};

const SERVER_METADATA_NAME: &str = "the authorization server metadata";
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Asks for the server's metadata, at each place where it may be.
#[derive(Debug)]
pub(super) struct FindServer {
    issuer: Issuer,
    url: Url,
    rest: VecDeque<Url>,
    resource: Resource,
    scopes: Option<Scopes>,
    /// True if the resource has no metadata, as in 2025-03-26.
    legacy: bool,
    /// It takes only tokens that are bound to a key.
    bound: bool,
}

/// State of the discovery, or of what follows.
pub(super) enum ServerState {
    Server(Box<FindServer>),
    Register(RegisterState),
}

impl From<RegisterState> for ServerState {
    fn from(state: RegisterState) -> Self {
        Self::Register(state)
    }
}

impl FindServer {
    pub(super) fn begin(facts: &FlowContext, metadata: ProtectedResourceMetadata) -> FlowStep<ServerState> {
        let scopes = metadata.scopes();
        let bound = metadata.dpop_bound_access_tokens_required == Some(true);
        let issuer = choose_issuer(facts, &metadata.authorization_servers).ok_or(FlowError::NoMetadata)?;
        let mut urls: VecDeque<Url> = server_metadata_urls(&issuer).into();
        let Some(url) = urls.pop_front() else { return Err(FlowError::NoServerMetadata(issuer)) };
        Ok(Self { issuer, url, rest: urls, resource: metadata.resource, scopes, legacy: false, bound }.ask())
    }

    pub(super) fn begin_legacy(facts: &FlowContext) -> FlowStep<ServerState> {
        let endpoint = &facts.cause.endpoint;
        // For 2025-03-26 the path of the endpoint is dropped (AUTC-05).
        let issuer =
            Issuer::new(endpoint.origin().ascii_serialization()).map_err(|_| FlowError::NoMetadata)?;
        let resource = Resource::new(canonical_resource(endpoint)).map_err(|_| FlowError::NoMetadata)?;
        // Only the first: that revision knows no other.
        let Some(url) = server_metadata_urls(&issuer).into_iter().next() else {
            return Err(FlowError::NoMetadata);
        };
        Ok(Self { issuer, url, rest: VecDeque::new(), resource, scopes: None, legacy: true, bound: false }
            .ask())
    }

    fn ask(self) -> (ServerState, FlowEffect) {
        let mut request = FetchRequest::get(self.url.clone(), MAX_METADATA_BYTES);
        if self.legacy {
            // Servers of 2025-03-26 may choose the document by this header (AUTC-04).
            request = request.header(VERSION, HeaderValue::from_static("2025-03-26"));
        }
        (ServerState::Server(Box::new(self)), FlowEffect::Fetch(request))
    }

    pub(super) fn handle(
        mut self,
        facts: &mut FlowContext,
        response: Result<FetchResponse, FetchError>,
    ) -> FlowStep<ServerState> {
        let response = check_response(SERVER_METADATA_NAME, &self.url, response)?;
        if response.status == StatusCode::OK {
            match response.decode_marked::<AuthorizationServerMetadata>(&["issuer"]) {
                Ok(server) => {
                    // Whoever lies about who they are is not asked again elsewhere.
                    server.check_issuer(&self.issuer, facts.settings.strict_issuer)?;
                    return self.found(facts, server, true);
                }
                Err(DecodeDocumentError::Malformed(why)) => {
                    return Err(FlowError::Malformed {
                        what: SERVER_METADATA_NAME,
                        url: without_query(&self.url),
                        why,
                    });
                }
                Err(DecodeDocumentError::Other(_)) => {}
            }
        }
        if let Some(url) = self.rest.pop_front() {
            self.url = url;
            return Ok(self.ask());
        }
        if self.legacy && facts.settings.legacy_discovery == LegacyDiscovery::Allow {
            // Only after the metadata was looked for in vain (AUTC-07, AUTC-08).
            let server = default_endpoints(&self.issuer);
            facts.assumed =
                server.authorization_endpoint.as_deref().and_then(|endpoint| Url::parse(endpoint).ok());
            return self.found(facts, server, false);
        }
        // Nobody has named this issuer: it was assumed.
        Err(if self.legacy { FlowError::NoMetadata } else { FlowError::NoServerMetadata(self.issuer) })
    }

    fn found(
        self,
        facts: &mut FlowContext,
        server: AuthorizationServerMetadata,
        documented: bool,
    ) -> FlowStep<ServerState> {
        server.check_not_loopback(&facts.cause.endpoint)?;
        let scopes = scopes(facts, self.scopes.as_ref(), &server);
        let algorithms = server.dpop_signing_alg_values_supported.as_deref();
        let challenged = facts.cause.challenge.as_ref().is_some_and(|challenge| challenge.has_scheme("DPoP"));
        // A server that takes proofs and does not say which, takes this one.
        let wants_proof = (self.bound || challenged)
            && algorithms.is_none_or(|algorithms| algorithms.iter().any(|algorithm| algorithm == "ES256"));
        let found = DiscoveredServer { server, resource: self.resource, scopes, wants_proof };
        match &facts.settings.grant {
            GrantType::Code => {
                // AUTC-32 judges metadata. The default paths of 2025-03-26 come without any that could
                // speak of PKCE.
                if documented {
                    found.server.check_code_flow()?;
                }
                RegisterClient::begin(facts, found).map(into_state)
            }
            GrantType::Device => {
                found.server.token_url()?;
                // Asked for before the registration, which would be in vain without these endpoints.
                found.server.device_authorization_url()?;
                RegisterClient::begin(facts, found).map(into_state)
            }
            _ => RegisterClient::begin_unattended(facts, found).map(into_state),
        }
    }
}

/// Returns the server that the preregistered client belongs to, else one with a known registration, else the first.
fn choose_issuer(facts: &FlowContext, servers: &[Issuer]) -> Option<Issuer> {
    let given = facts.settings.given.as_ref();
    let given = given.and_then(|given| given.issuer.as_ref().or(facts.cause.bound.as_ref()));
    let known = |issuer: &&Issuer| facts.cause.known.contains(issuer);
    let chosen = servers
        .iter()
        .find(|issuer| given == Some(issuer))
        .or_else(|| servers.iter().find(known))
        .or_else(|| servers.first());
    chosen.cloned()
}

/// Returns the scopes to request: those of the challenge, else all that the resource lists, else none. For step-up
/// authorization the scopes of the earlier request are added.
fn scopes(facts: &FlowContext, listed: Option<&Scopes>, server: &AuthorizationServerMetadata) -> Scopes {
    let challenged = facts.cause.challenge.as_ref().and_then(hospes_auth::Challenge::scopes);
    let wanted = challenged.as_ref().or(listed).cloned().unwrap_or_default();
    let wanted = facts.cause.requested_before.union(&wanted).union(&facts.settings.scopes);
    let lists = |scope: &str| server.scopes_supported.iter().flatten().any(|known| known == scope);
    // Alone it would take the place of what the server gives when nothing is asked for.
    if facts.settings.offline_access
        && facts.settings.grant.needs_user()
        && !wanted.is_empty()
        && lists("offline_access")
    {
        return wanted.union(&Scopes::parse("offline_access"));
    }
    wanted
}

/// Returns the default endpoints of 2025-03-26 for servers without metadata.
fn default_endpoints(base: &Issuer) -> AuthorizationServerMetadata {
    let mut server = AuthorizationServerMetadata::new(base.clone());
    let at = |path: &str| Some(format!("{base}{path}"));
    server.authorization_endpoint = at("/authorize");
    server.token_endpoint = at("/token");
    server.registration_endpoint = at("/register");
    server
}

/// Returns the resource identifier of an endpoint without metadata: its URL without a trailing slash and without the
/// query, which may contain a secret.
fn canonical_resource(endpoint: &Url) -> String {
    let mut url = endpoint.clone();
    url.set_fragment(None);
    url.set_query(None);
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.as_str().trim_end_matches('/').to_owned()
}
