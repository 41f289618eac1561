//! Caller of a call, as rules see it.

use hospes::Context;
use hospes::transport::http_server::PrincipalGroups;
use hospes_policy::PolicyCaller;

/// Returns the groups of the request's token, if there are any.
pub(super) fn caller_groups(context: &Context) -> Option<&PrincipalGroups> {
    context.extension()
}

/// Returns the caller: the application of the session, the principal, and the groups of the request's token.
pub(super) fn policy_caller(context: &Context) -> PolicyCaller<'_> {
    let application = context.peer().info.as_ref().map(|info| info.name.as_str());
    let groups = caller_groups(context).map(PrincipalGroups::names).unwrap_or_default();
    PolicyCaller::new(application, context.principal(), groups)
}
