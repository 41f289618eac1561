//! Builder of the bearer-token middleware.

use std::fmt;
use std::sync::Arc;

use hospes_auth::dpop::{ProofNonces, ProofReplayCache, algorithm_names};
use hospes_auth::metadata::{ProtectedResourceMetadata, resource_metadata_urls};
use hospes_auth::{Issuer, Resource, Scopes, UnixClock};
use url::Url;

use super::{BearerAuth, BearerAuthInner, ResourceAddress};
use crate::bearer_error::AcceptedSchemes;
use crate::principal::TokenPrincipal;
use crate::scope_rules::ScopeRules;
use crate::token_verifier::TokenVerifier;

/// Builder of a [`BearerAuth`].
pub struct BearerAuthBuilder {
    metadata: ProtectedResourceMetadata,
    more: Vec<Resource>,
    verify: Box<dyn TokenVerifier>,
    rules: ScopeRules,
    scopes: Option<Scopes>,
    clock: UnixClock,
    alone: bool,
    schemes: AcceptedSchemes,
    exempt: Option<String>,
    nonces: Option<ProofNonces>,
    used: ProofReplayCache,
}

impl BearerAuth {
    /// Creates a builder for `resource`, the configured public URL of the endpoint, for which `issuers` issue tokens
    /// that `verify` checks.
    pub fn builder(
        resource: Resource,
        issuers: Vec<Issuer>,
        verify: impl TokenVerifier,
    ) -> BearerAuthBuilder {
        let mut metadata = ProtectedResourceMetadata::new(resource, issuers);
        metadata.bearer_methods_supported = Some(vec!["header".to_owned()]);
        BearerAuthBuilder {
            metadata,
            more: Vec::new(),
            verify: Box::new(verify),
            rules: ScopeRules::default(),
            scopes: None,
            clock: UnixClock::system(),
            alone: true,
            schemes: AcceptedSchemes::Bearer,
            exempt: None,
            nonces: None,
            used: ProofReplayCache::in_process(),
        }
    }
}

impl BearerAuthBuilder {
    /// Sets the scopes that a call needs. Default: none.
    #[must_use]
    pub fn rules(mut self, rules: ScopeRules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets the scopes to request first, as the challenge and the metadata name them. Default: the scopes that every
    /// call needs. `offline_access` is left out, because it says nothing about the resource.
    #[must_use]
    pub fn scopes(mut self, scopes: &Scopes) -> Self {
        self.scopes = Some(scopes.iter().filter(|scope| *scope != "offline_access").collect());
        self
    }

    /// Adds another address of the same endpoint for which tokens may be issued, such as that of its older transport.
    #[must_use]
    pub fn also(mut self, resource: Resource) -> Self {
        self.more.push(resource);
        self
    }

    /// Sets the name for display.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.metadata.resource_name = Some(name.into());
        self
    }

    /// Sets the URL of a page about the resource.
    #[must_use]
    pub fn documentation(mut self, url: impl Into<String>) -> Self {
        self.metadata.resource_documentation = Some(url.into());
        self
    }

    /// Announces that tokens may be bound to a key of the client (RFC 9449). A bound token is always checked for its
    /// key.
    #[must_use]
    pub fn offer_proofs(mut self) -> Self {
        if self.schemes == AcceptedSchemes::Bearer {
            self.schemes = AcceptedSchemes::Both;
        }
        self.metadata.dpop_signing_alg_values_supported = Some(algorithm_names());
        self
    }

    /// Accepts only tokens that are bound to a key of the client.
    #[must_use]
    pub fn require_proofs(mut self) -> Self {
        self.schemes = AcceptedSchemes::Dpop;
        self.metadata.dpop_bound_access_tokens_required = Some(true);
        self.offer_proofs()
    }

    /// Accepts unbound tokens of this principal, where all others need bound tokens. Use it for a principal whose token
    /// is stored where no other user can read it.
    #[must_use]
    pub fn exempt(mut self, principal: &TokenPrincipal) -> Self {
        self.exempt = Some(principal.name());
        self
    }

    /// Requires proofs to carry one of these recent nonces, so that proofs cannot be made in advance. A client without
    /// a valid nonce receives one and retries.
    #[must_use]
    pub fn proof_nonces(mut self, nonces: ProofNonces) -> Self {
        self.nonces = Some(nonces);
        self
    }

    /// Sets the cache of used proofs, so that none is accepted twice. Use a shared one if several processes serve one
    /// address. Default: in this process.
    #[must_use]
    pub fn used_proofs(mut self, used: ProofReplayCache) -> Self {
        self.used = used;
        self
    }

    /// Sets whether it is the only resource of its origin; the metadata is then also served at the root. Default: true.
    #[must_use]
    pub fn alone(mut self, alone: bool) -> Self {
        self.alone = alone;
        self
    }

    /// Sets the clock. Default: the system clock.
    #[must_use]
    pub fn clock(mut self, clock: UnixClock) -> Self {
        self.clock = clock;
        self
    }

    /// Builds the middleware.
    #[must_use]
    pub fn build(mut self) -> BearerAuth {
        let scopes = self.scopes.unwrap_or_else(|| self.rules.always_required().clone());
        if !scopes.is_empty() {
            self.metadata.scopes_supported = Some(scopes.iter().map(str::to_owned).collect());
        }
        let mut doors = vec![resource_address(&self.metadata, self.alone)];
        for resource in self.more {
            self.metadata.resource = resource;
            // The root of the origin can describe one resource only, and that is the first address.
            doors.push(resource_address(&self.metadata, false));
        }
        BearerAuth(Arc::new(BearerAuthInner {
            verify: self.verify,
            rules: self.rules,
            clock: self.clock,
            doors,
            scopes,
            schemes: self.schemes,
            exempt: self.exempt,
            nonces: self.nonces,
            used: self.used,
        }))
    }
}

fn resource_address(metadata: &ProtectedResourceMetadata, alone: bool) -> ResourceAddress {
    let url = metadata.resource.url();
    let urls = url.as_ref().map(resource_metadata_urls).unwrap_or_default();
    let served = if alone { urls.len() } else { 1 };
    ResourceAddress {
        path: url.as_ref().map(|url| url.path().to_owned()).unwrap_or_default(),
        location: urls.first().map(Url::to_string).unwrap_or_default(),
        served: urls.iter().take(served).map(|url| url.path().to_owned()).collect(),
        metadata: serde_json::to_vec(metadata).unwrap_or_default().into(),
        url,
    }
}

impl fmt::Debug for BearerAuthBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerAuthBuilder").field("resource", &self.metadata.resource).finish_non_exhaustive()
    }
}
