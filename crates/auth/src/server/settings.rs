//! What an authorization server may be told.

use std::time::Duration;

use super::clients::Client;
use super::redirects;
use crate::{Issuer, RedirectUri, Resource, Scopes};

/// How long things last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lifetimes {
    /// A code, from the user's consent to its redemption: 60 seconds.
    pub code: Duration,
    /// An access token: 10 minutes; an hour at most.
    pub access: Duration,
    /// A refresh token that nobody uses: 14 days.
    pub refresh: Duration,
    /// All refresh tokens of one consent: 90 days.
    pub grant: Duration,
    /// How long the user may take to sign in and agree: 10 minutes.
    pub pending: Duration,
    /// How long a browser stays signed in: 12 hours.
    pub browser: Duration,
    /// A registration that nobody uses: 30 days.
    pub registration: Duration,
    /// How long an answer to a refresh may be asked for once more, in case it was lost: 10 seconds.
    pub replay: Duration,
    /// How long a consent is remembered: 90 days.
    pub consent: Duration,
    /// How long a key signs access tokens: 30 days.
    pub key: Duration,
}

/// The longest life of an access token.
pub const MAX_ACCESS_LIFETIME: Duration = Duration::from_secs(3600);

impl Default for Lifetimes {
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

/// What access tokens are like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessTokens {
    /// Random: whoever checks one looks it up here, or asks. Taken back, it is good nowhere.
    #[default]
    Opaque,
    /// Signed, and readable with the keys that are published (RFC 9068): for resources that are somewhere else. Taken
    /// back, it is good at no resource that looks it up here, and at the others until it runs out.
    Jwt,
}

/// Whose metadata documents name clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrustedDocuments {
    /// Anybody's: the user decides, who is shown where answers go.
    #[default]
    Any,
    /// Those of these hosts.
    Hosts(Vec<String>),
    /// Nobody's.
    None,
}

/// What an authorization server is told.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerSettings {
    /// Who it is: the public URL that its endpoints are below.
    pub issuer: Issuer,
    /// What it makes out tokens for. Clients that name none mean the first, if [`Self::first_if_unnamed`] says so or
    /// there is no other.
    pub resources: Vec<Resource>,
    /// Whether clients that name no resource mean the first of several: right where all are one endpoint.
    pub first_if_unnamed: bool,
    /// The scopes it knows, and what they mean in words.
    pub scopes: Vec<(String, String)>,
    /// What a client gets that asks for no scope.
    pub default_scopes: Scopes,
    /// The clients that the configuration names.
    pub clients: Vec<Client>,
    /// Whose metadata documents name clients.
    pub documents: TrustedDocuments,
    /// Whether clients may register themselves. Off unless told otherwise.
    pub registration: bool,
    /// Whether redirects to the private schemes of installed applications may be registered. Off unless told otherwise.
    pub private_schemes: bool,
    /// Further redirects that clients may register, as these exact strings: those to private-use schemes of applications that
    /// are not well known. None unless told otherwise.
    pub redirect_uris: Vec<RedirectUri>,
    /// What access tokens are like. Opaque unless told otherwise.
    pub access_tokens: AccessTokens,
    /// Whether tokens are made out only to who proves a key, to which they are bound (RFC 9449). Off unless told otherwise:
    /// then they are bound for who proves one.
    pub require_proofs: bool,
    /// Whether proofs of keys have to carry what this server has said a moment ago (RFC 9449, section 8), or another on the
    /// same store. Off unless told otherwise.
    pub proof_nonces: bool,
    /// How long things last.
    pub lifetimes: Lifetimes,
    /// How many requests one address may send to the token endpoint in a minute: 600.
    pub token_requests_per_minute: u32,
    /// How many times one address may begin to authorize a client in a minute: 120. Of IPv6, here and below, a /64 is one
    /// address.
    pub authorizations_per_minute: u32,
    /// How many clients one address may register in a minute: 10.
    pub registrations_per_minute: u32,
    /// Number of failed sign-ins in a minute with one name from one address: 10. Ten times as many may fail from one address
    /// with any names, and with one name from addresses from which its user has not signed in since the start.
    pub sign_ins_per_minute: u32,
}

impl ServerSettings {
    /// Those of a server that makes out tokens for one resource.
    #[must_use]
    pub fn new(issuer: Issuer, resource: Resource) -> Self {
        Self { resources: vec![resource], ..Self::of(issuer) }
    }

    /// Those of a server that makes out none.
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
            access_tokens: AccessTokens::default(),
            require_proofs: false,
            proof_nonces: false,
            lifetimes: Lifetimes::default(),
            token_requests_per_minute: 600,
            authorizations_per_minute: 120,
            registrations_per_minute: 10,
            sign_ins_per_minute: 10,
        }
    }

    /// Knows one more scope, which every client gets that asks for none.
    #[must_use]
    pub fn scope(mut self, name: &str, words: &str) -> Self {
        self.default_scopes = self.default_scopes.union(&Scopes::parse(name));
        self.scopes.push((name.to_owned(), words.to_owned()));
        self
    }

    /// Whether a client that introduces itself may have this redirect.
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

/// The scope by which some clients ask for a refresh token. It says nothing about the resource.
pub(super) const OFFLINE: &str = "offline_access";
