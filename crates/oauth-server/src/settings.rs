//! Settings of an authorization server.

use std::time::Duration;

use hospes_auth::{Issuer, RedirectUri, Resource, Scopes};

use super::clients::RegisteredClient;
use super::redirects;

/// Lifetimes of codes, tokens, sessions, consents and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrantLifetimes {
    /// A code, from the user's consent to its redemption: 60 seconds.
    pub code: Duration,
    /// An access token: 10 minutes; an hour at most.
    pub access: Duration,
    /// An unused refresh token: 14 days.
    pub refresh: Duration,
    /// All refresh tokens of one consent: 90 days.
    pub grant: Duration,
    /// Time for the user to sign in and consent: 10 minutes.
    pub pending: Duration,
    /// Session of a browser: 12 hours.
    pub browser: Duration,
    /// An unused registration: 30 days.
    pub registration: Duration,
    /// Time in which a refresh may be repeated, in case its response was lost: 10 seconds.
    pub replay: Duration,
    /// A remembered consent: 90 days.
    pub consent: Duration,
    /// Time for which a key signs access tokens: 30 days.
    pub key: Duration,
}

/// The longest life of an access token.
pub const MAX_ACCESS_LIFETIME: Duration = Duration::from_secs(3600);

impl Default for GrantLifetimes {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        Self {
            code: Duration::from_secs(60),
            access: Duration::from_secs(600),
            refresh: DAY * 14,
            grant: DAY * 90,
            pending: Duration::from_secs(600),
            browser: DAY / 2,
            registration: DAY * 30,
            replay: Duration::from_secs(10),
            consent: DAY * 90,
            key: DAY * 30,
        }
    }
}

/// Format of access tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessTokenFormat {
    /// Random: verified by lookup in this server or by introspection. Once revoked, it is invalid everywhere.
    #[default]
    Opaque,
    /// JWTs, verified with the published keys (RFC 9068), for resources elsewhere. After revocation a token is rejected
    /// by resources that look it up here, but stays valid at others until it expires.
    Jwt,
}

/// Hosts whose metadata documents identify clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrustedDocuments {
    /// Any host: the user decides, and is shown the redirect host.
    #[default]
    Any,
    /// Only these hosts.
    Hosts(Vec<String>),
    /// No metadata documents.
    None,
}

/// Settings of an authorization server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuthServerSettings {
    /// Issuer: the public URL that its endpoints are below.
    pub issuer: Issuer,
    /// Resources that it issues tokens for. Clients that name none mean the first, if [`Self::first_if_unnamed`] is set
    /// or there is no other.
    pub resources: Vec<Resource>,
    /// Makes clients that name no resource mean the first of several. Use it if all resources are one endpoint.
    pub first_if_unnamed: bool,
    /// Supported scopes, and their descriptions.
    pub scopes: Vec<(String, String)>,
    /// Scopes of a client that requests none.
    pub default_scopes: Scopes,
    /// The clients that the configuration names.
    pub clients: Vec<RegisteredClient>,
    /// Hosts whose metadata documents identify clients.
    pub documents: TrustedDocuments,
    /// Allows clients to register themselves. Default: false.
    pub registration: bool,
    /// Allows registering redirects to private schemes of installed applications. Default: false.
    pub private_schemes: bool,
    /// Further redirects that clients may register, as these exact strings: those to private-use schemes of
    /// applications that are not well known. Empty by default.
    pub redirect_uris: Vec<RedirectUri>,
    /// Format of access tokens. Default: opaque.
    pub access_tokens: AccessTokenFormat,
    /// Issues tokens only to clients that prove a key, to which the tokens are bound (RFC 9449). Default: false; then
    /// tokens are bound only for clients that prove a key.
    pub require_proofs: bool,
    /// Requires proofs to carry a recent nonce of this server, or of another on the same store (RFC 9449, section 8).
    /// Default: false.
    pub proof_nonces: bool,
    /// Lifetimes.
    pub lifetimes: GrantLifetimes,
    /// Maximum number of token requests from one address per minute: 600.
    pub token_requests_per_minute: u32,
    /// Maximum number of authorization requests from one address per minute: 120. Of IPv6, here and below, a /64 is one
    /// address.
    pub authorizations_per_minute: u32,
    /// Maximum number of registrations from one address per minute: 10.
    pub registrations_per_minute: u32,
    /// Number of failed sign-ins in a minute with one name from one address: 10. Ten times as many may fail from one address
    /// with any names, and with one name from addresses from which its user has not signed in since the start.
    pub sign_ins_per_minute: u32,
}

impl AuthServerSettings {
    /// Creates the settings of a server that issues tokens for one resource.
    #[must_use]
    pub fn new(issuer: Issuer, resource: Resource) -> Self {
        Self { resources: vec![resource], ..Self::of(issuer) }
    }

    /// Creates the settings of a server that issues no tokens.
    pub(super) fn of(issuer: Issuer) -> Self {
        Self {
            issuer,
            resources: Vec::new(),
            first_if_unnamed: false,
            scopes: Vec::new(),
            default_scopes: Scopes::none(),
            clients: Vec::new(),
            documents: TrustedDocuments::Any,
            registration: false,
            private_schemes: false,
            redirect_uris: Vec::new(),
            access_tokens: AccessTokenFormat::default(),
            require_proofs: false,
            proof_nonces: false,
            lifetimes: GrantLifetimes::default(),
            token_requests_per_minute: 600,
            authorizations_per_minute: 120,
            registrations_per_minute: 10,
            sign_ins_per_minute: 10,
        }
    }

    /// Adds a scope, which every client that requests none gets.
    #[must_use]
    pub fn scope(mut self, name: &str, words: &str) -> Self {
        self.default_scopes = self.default_scopes.union(&Scopes::parse(name));
        self.scopes.push((name.to_owned(), words.to_owned()));
        self
    }

    /// Returns true if a client that registers itself may have this redirect.
    pub(super) fn accepts_redirect(&self, uri: &RedirectUri) -> bool {
        redirects::may_register(uri, self.private_schemes) || self.redirect_uris.contains(uri)
    }

    pub(super) fn knows(&self, scope: &str) -> bool {
        scope == OFFLINE || self.scopes.iter().any(|(known, _)| known == scope)
    }

    pub(super) fn access_seconds(&self) -> u64 {
        self.lifetimes.access.min(MAX_ACCESS_LIFETIME).as_secs()
    }
}

/// Scope with which some clients request a refresh token. It has no meaning for the resource.
pub(super) const OFFLINE: &str = "offline_access";
