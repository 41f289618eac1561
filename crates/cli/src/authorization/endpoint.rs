//! Parts of an endpoint's authorization.

use hospes::transport::http_server::HttpMiddleware;
use hospes_auth::dpop::ProofNonces;
use hospes_auth::{Issuer, Resource, TrustedProxies, UnixClock};
use hospes_host::UpstreamAccounts;
use hospes_host::config::{AuthConfig, AuthSignIn, DpopRequirement};
use hospes_oauth_resource::{BearerAuth, BearerAuthBuilder, StaticTokenVerifier, TokenPrincipal};

use crate::fleet::NodeRateLimits;
use crate::output::CliOutput;

/// Scope that grants use of the endpoint.
pub(super) const SCOPE: &str = "mcp";

/// Authorization of an endpoint, with the values that other parts of the program need.
pub(crate) struct EndpointAuthorization {
    pub(crate) front: Box<dyn HttpMiddleware>,
    /// Public URL of the endpoint.
    pub(crate) url: String,
    /// Host name in the public URL.
    pub(crate) host: String,
    /// Description of the issuer of the tokens.
    pub(crate) by: String,
    /// Users' accounts at upstream servers.
    pub(crate) accounts: Option<UpstreamAccounts>,
    /// Token for programs of the user who runs this host.
    pub(crate) token: String,
}

/// Parts from which the middleware of an endpoint is built.
pub(super) struct EndpointParts<'a> {
    pub(super) config: &'a AuthConfig,
    pub(super) urls: EndpointUrls,
    /// Principal of programs of the user who runs this host.
    pub(super) machine: TokenPrincipal,
    /// Tokens of the configuration and of this machine.
    pub(super) tokens: StaticTokenVerifier,
    pub(super) accounts: Option<UpstreamAccounts>,
    pub(super) proxies: TrustedProxies,
    /// Clock of tokens and proofs.
    pub(super) clock: UnixClock,
    /// Rate limits of all nodes of a fleet.
    pub(super) rate_limits: Option<NodeRateLimits>,
    #[cfg_attr(
        not(feature = "authorization-server"),
        expect(dead_code, reason = "only the server reports on it")
    )]
    pub(super) output: CliOutput,
}

/// Identifiers of an endpoint.
pub(super) struct EndpointUrls {
    /// This host as an issuer.
    pub(super) own: Issuer,
    /// The endpoint as a protected resource.
    pub(super) main: Resource,
    /// The address of HTTP+SSE (2024-11-05) beside the endpoint, which is a valid audience too.
    pub(super) older: Resource,
    /// Host name and port.
    pub(super) host: String,
}

/// Pages on which users of an external issuer connect their accounts at upstream servers.
#[cfg_attr(not(feature = "authorization-server"), expect(dead_code, reason = "only the server has pages"))]
pub(super) struct AccountPages<'a> {
    /// This host as an issuer, below which the pages are.
    pub(super) own: Issuer,
    /// The issuer at which the users sign in.
    pub(super) issuer: Issuer,
    pub(super) sign_in: &'a AuthSignIn,
    pub(super) accounts: UpstreamAccounts,
    pub(super) proxies: TrustedProxies,
    pub(super) clock: UnixClock,
    pub(super) rate_limits: Option<NodeRateLimits>,
}

/// Middleware of an endpoint, and the description of the issuer of its tokens.
pub(super) type IssuedMiddleware = (Box<dyn HttpMiddleware>, String);

/// Builds the bearer-token middleware with the configured DPoP requirements.
pub(super) fn bound(
    guard: BearerAuthBuilder,
    config: &AuthConfig,
    machine: &TokenPrincipal,
    nonces: ProofNonces,
) -> BearerAuth {
    let guard = match config.dpop {
        None => guard,
        Some(DpopRequirement::Allowed) => guard.offer_proofs(),
        // Tokens of programs on this machine never leave it, so they need no proof.
        Some(_) => guard.require_proofs().exempt(machine),
    };
    let guard = if config.dpop_nonces { guard.proof_nonces(nonces) } else { guard };
    guard.name("hospes").build()
}
