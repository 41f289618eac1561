//! What a guard is told.

use std::fmt;
use std::sync::Arc;

use url::Url;

use super::{Door, Guard, Inner};
use crate::clock::Clock;
use crate::metadata::{ProtectedResource, resource_metadata_urls};
use crate::nonces::ProofNonces;
use crate::proofs::{UsedProofs, algorithm_names};
use crate::resource::{Principal, Schemes, ScopeRules, Verify};
use crate::{Issuer, Resource, Scopes};

/// Makes a [`Guard`].
pub struct GuardBuilder {
    metadata: ProtectedResource,
    more: Vec<Resource>,
    verify: Box<dyn Verify>,
    rules: ScopeRules,
    scopes: Option<Scopes>,
    clock: Clock,
    alone: bool,
    schemes: Schemes,
    exempt: Option<String>,
    nonces: Option<ProofNonces>,
    used: UsedProofs,
}

impl Guard {
    /// Guards `resource`, the public URL of the endpoint as its configuration has it, for which `issuers` make out
    /// tokens that `verify` checks.
    pub fn builder(resource: Resource, issuers: Vec<Issuer>, verify: impl Verify) -> GuardBuilder {
        let mut metadata = ProtectedResource::new(resource, issuers);
        metadata.bearer_methods_supported = Some(vec!["header".to_owned()]);
        GuardBuilder {
            metadata,
            more: Vec::new(),
            verify: Box::new(verify),
            rules: ScopeRules::default(),
            scopes: None,
            clock: Clock::system(),
            alone: true,
            schemes: Schemes::Bearer,
            exempt: None,
            nonces: None,
            used: UsedProofs::of_this_process(),
        }
    }
}

impl GuardBuilder {
    /// Which scopes a call needs; none unless told.
    #[must_use]
    pub fn rules(mut self, rules: ScopeRules) -> Self {
        self.rules = rules;
        self
    }

    /// The scopes to ask for at first, as the challenge and the metadata name them; those that every call needs unless
    /// told otherwise. `offline_access` is none of them: it says nothing about the resource.
    #[must_use]
    pub fn scopes(mut self, scopes: &Scopes) -> Self {
        self.scopes = Some(scopes.iter().filter(|scope| *scope != "offline_access").collect());
        self
    }

    /// Another address of the same endpoint, for which tokens may be made out as well: that of its older transport.
    #[must_use]
    pub fn also(mut self, resource: Resource) -> Self {
        self.more.push(resource);
        self
    }

    /// Its name, for people.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.metadata.resource_name = Some(name.into());
        self
    }

    /// Where people read about it.
    #[must_use]
    pub fn documentation(mut self, url: impl Into<String>) -> Self {
        self.metadata.resource_documentation = Some(url.into());
        self
    }

    /// Says that tokens may be bound to a key of whoever shows them (RFC 9449). A token that is bound is always checked
    /// for it.
    #[must_use]
    pub fn offer_proofs(mut self) -> Self {
        if self.schemes == Schemes::Bearer {
            self.schemes = Schemes::Both;
        }
        self.metadata.dpop_signing_alg_values_supported = Some(algorithm_names());
        self
    }

    /// Takes only tokens that are bound to a key of whoever shows them.
    #[must_use]
    pub fn require_proofs(mut self) -> Self {
        self.schemes = Schemes::Dpop;
        self.metadata.dpop_bound_access_tokens_required = Some(true);
        self.offer_proofs()
    }

    /// Takes tokens of this one that are bound to no key, where those of all others have to be: of whoever reads theirs in
    /// a place that nobody else can read.
    #[must_use]
    pub fn exempt(mut self, principal: &Principal) -> Self {
        self.exempt = Some(principal.name());
        self
    }

    /// Has proofs carry one of these nonces, which the guard has said a moment ago, so that none can be made beforehand. A
    /// client that does not know it yet is told, and asks once more.
    #[must_use]
    pub fn proof_nonces(mut self, nonces: ProofNonces) -> Self {
        self.nonces = Some(nonces);
        self
    }

    /// Remembers here which proofs were used, so that none is good twice: with others behind one address, where all of them
    /// look. In this process unless told otherwise.
    #[must_use]
    pub fn used_proofs(mut self, used: UsedProofs) -> Self {
        self.used = used;
        self
    }

    /// Whether it is the only resource of its origin, so that the metadata is also served at the root. Yes unless told
    /// otherwise.
    #[must_use]
    pub fn alone(mut self, alone: bool) -> Self {
        self.alone = alone;
        self
    }

    /// What time it is; the system's clock unless told otherwise.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The guard.
    #[must_use]
    pub fn build(mut self) -> Guard {
        let scopes = self.scopes.unwrap_or_else(|| self.rules.for_all().clone());
        if !scopes.is_empty() {
            self.metadata.scopes_supported = Some(scopes.iter().map(str::to_owned).collect());
        }
        let mut doors = vec![door(&self.metadata, self.alone)];
        for resource in self.more {
            self.metadata.resource = resource;
            doors.push(door(&self.metadata, false));
        }
        Guard(Arc::new(Inner {
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

fn door(metadata: &ProtectedResource, alone: bool) -> Door {
    let url = metadata.resource.url();
    let urls = url.as_ref().map(resource_metadata_urls).unwrap_or_default();
    let served = if alone { urls.len() } else { 1 };
    Door {
        path: url.as_ref().map(|url| url.path().to_owned()).unwrap_or_default(),
        location: urls.first().map(Url::to_string).unwrap_or_default(),
        served: urls.iter().take(served).map(|url| url.path().to_owned()).collect(),
        metadata: serde_json::to_vec(metadata).unwrap_or_default().into(),
        url,
    }
}

impl fmt::Debug for GuardBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardBuilder").field("resource", &self.metadata.resource).finish_non_exhaustive()
    }
}
