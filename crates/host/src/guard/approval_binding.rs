//! Binding of a person's decision to one call.

use hospes_policy::{Policy, PolicyRequest, RequiredApprovers};
use sha2::{Digest as _, Sha256};

use super::call_target::CallTarget;
use super::canonical_json::canonical_json;
use crate::approvals::BindingDigest;

/// Digests of everything that an approval is bound to: the caller, the application, the server (name, profile whose
/// secrets it has, and command line or URL), the tool's definition, the final arguments, and the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ApprovalBinding {
    pub(super) call: BindingDigest,
    /// Digest of the caller's identity.
    pub(super) asker: BindingDigest,
}

impl ApprovalBinding {
    /// Creates a binding to `arguments` as they would be sent; numbers with different spellings are different calls.
    /// `definition` is the hash of the tool's definition.
    pub(super) fn new(
        policy: &Policy,
        asked: &PolicyRequest<'_>,
        going: &CallTarget<'_>,
        definition: Option<&str>,
        arguments: &str,
    ) -> Self {
        let mut bound = bind_caller(policy, (asked.principal, asked.application));
        bind(&mut bound, going.server.as_bytes());
        // Tells the server for everybody from that of a profile, which uses another account.
        bind(&mut bound, &[u8::from(going.own_profile.is_some())]);
        bind(&mut bound, going.own_profile.unwrap_or_default().as_bytes());
        bind(&mut bound, going.target.as_bytes());
        bind(&mut bound, going.kind().as_str().as_bytes());
        bind(&mut bound, going.subject().as_bytes());
        bind(&mut bound, definition.unwrap_or_default().as_bytes());
        bind(&mut bound, arguments.as_bytes());
        Self { call: bound.finalize().into(), asker: asker_digest(asked.principal) }
    }

    /// Binds it to the people who decide in place of the caller, so that no decision of somebody else can be used.
    pub(super) fn with_approvers(mut self, approvers: Option<&RequiredApprovers>) -> Self {
        if let Some(approvers) = approvers {
            let mut bound = Sha256::new();
            bind(&mut bound, &self.call);
            bind(&mut bound, b"approvers");
            bind(&mut bound, approvers.to_string().as_bytes());
            bind(&mut bound, &[u8::from(approvers.excludes_requester())]);
            self.call = bound.finalize().into();
        }
        self
    }

    /// Creates the binding of a call to its place in a plan. Of arguments that mean the same, each spelling has the same
    /// binding. `None` if the arguments cannot be read.
    pub(super) fn of_planned(
        policy: &Policy,
        asked: &PolicyRequest<'_>,
        going: &CallTarget<'_>,
        definition: Option<&str>,
        arguments: &str,
    ) -> Option<BindingDigest> {
        let arguments = canonical_json(arguments)?;
        Some(Self::new(policy, asked, going, definition, &arguments).call)
    }

    /// Creates the binding of an approval to all calls of a plan in their order.
    pub(super) fn of_plan(policy: &Policy, caller: Caller<'_>, calls: &[BindingDigest]) -> Self {
        let mut bound = bind_caller(policy, caller);
        bind(&mut bound, b"plan");
        for call in calls {
            bind(&mut bound, call);
        }
        Self { call: bound.finalize().into(), asker: asker_digest(caller.0) }
    }
}

/// Principal and application of a caller.
type Caller<'a> = (Option<&'a str>, Option<&'a str>);

/// Begins a digest with the caller and the policy.
fn bind_caller(policy: &Policy, (principal, application): Caller<'_>) -> Sha256 {
    let mut bound = Sha256::new();
    // Tells nobody from somebody whose name is empty.
    bind(&mut bound, &[u8::from(principal.is_some())]);
    bind(&mut bound, principal.unwrap_or_default().as_bytes());
    bind(&mut bound, &[u8::from(application.is_some())]);
    bind(&mut bound, application.unwrap_or_default().as_bytes());
    bind(&mut bound, policy.version());
    bound
}

/// Returns the digest of the caller's identity. The application's name is not part of it, because an application can
/// choose any name.
pub(super) fn asker_digest(principal: Option<&str>) -> BindingDigest {
    let mut bound = Sha256::new();
    bind(&mut bound, &[u8::from(principal.is_some())]);
    bind(&mut bound, principal.unwrap_or_default().as_bytes());
    bound.finalize().into()
}

/// Adds a part, preceded by its length, so that no bytes can be moved from one part to the next.
fn bind(bound: &mut Sha256, part: &[u8]) {
    bound.update((part.len() as u64).to_be_bytes());
    bound.update(part);
}
