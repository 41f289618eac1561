//! Binding of approvals to calls.

use hospes_policy::{CallArguments, Policy, PolicyAction, PolicyEnvironment, PolicyRequest, ToolEffectSet};
use hospes_store::DecisionBasis;

use super::approval_binding::ApprovalBinding;
use super::approved_rounds::{ApprovedCall, ApprovedRounds};
use super::{CallTarget, TargetItem};
use crate::approvals::ApprovalQueueError;

fn bond(server: &str, tool: &str, json: &str, principal: Option<&str>, policy: &str) -> ApprovalBinding {
    bond_at("stdio /bin/serve", server, tool, json, principal, policy)
}

fn bond_at(
    target: &str,
    server: &str,
    tool: &str,
    json: &str,
    principal: Option<&str>,
    policy: &str,
) -> ApprovalBinding {
    let arguments = CallArguments::read(json).unwrap();
    let policy = Policy::read(policy, &PolicyEnvironment::default()).unwrap();
    let asked = PolicyRequest::new(server, PolicyAction::tool(tool, ToolEffectSet::unknown(), &arguments))
        .with_principal(principal);
    ApprovalBinding::new(
        &policy,
        &asked,
        &CallTarget::unknown(server, target, TargetItem::Tool(tool, None)),
        Some("d"),
        json,
    )
}

/// The limit of open questions per user does not depend on the name an application gives itself.
#[test]
fn whoever_asks_is_who_is_signed_in() {
    let policy = Policy::without_rules();
    let asker = |principal, application| {
        let arguments = CallArguments::none();
        let asked =
            PolicyRequest::new("files", PolicyAction::tool("write", ToolEffectSet::unknown(), &arguments))
                .with_principal(principal)
                .with_application(application);
        let going = CallTarget::unknown("files", "t", TargetItem::Tool("write", None));
        ApprovalBinding::new(&policy, &asked, &going, None, "{}").asker
    };
    assert_eq!(asker(Some("ann"), Some("a")), asker(Some("ann"), Some("b")));
    assert_eq!(asker(None, Some("a")), asker(None, None));
    assert_ne!(asker(Some("ann"), Some("a")), asker(Some("bob"), Some("a")));
    assert_ne!(asker(Some(""), None), asker(None, None));
}

/// Everything that an approval is bound to: what differs in one of them is another call.
#[tokio::test]
async fn what_differs_in_anything_is_another_call() {
    let given = || bond("files", "write", r#"{"a":1,"b":[2]}"#, Some("alice"), "");
    let running = ApprovedRounds::default();
    let approved = || ApprovedCall {
        bond: given(),
        edited: None,
        flow: false,
        basis: DecisionBasis::Person,
        step: None,
    };
    let redeem = |id: &str, bond: &_| running.redeem_token(id, bond).map(|approved| approved.bond);
    for other in [
        bond("files2", "write", r#"{"a":1,"b":[2]}"#, Some("alice"), ""),
        bond_at("stdio /tmp/serve", "files", "write", r#"{"a":1,"b":[2]}"#, Some("alice"), ""),
        bond("files", "write2", r#"{"a":1,"b":[2]}"#, Some("alice"), ""),
        bond("files", "write", r#"{"a":1,"b":[3]}"#, Some("alice"), ""),
        bond("files", "write", r#"{"a":1,"b":[2]}"#, Some("bob"), ""),
        bond("files", "write", r#"{"a":1,"b":[2]}"#, None, ""),
        // Two numbers to some, and one to others.
        bond("files", "write", r#"{"a":1.0,"b":[2]}"#, Some("alice"), ""),
        bond("files", "write", r#"{"a":1,"b":[2]}"#, Some("alice"), "# other rules"),
    ] {
        assert_ne!(given().call, other.call);
        let token = running.issue_token(approved()).unwrap();
        assert_eq!(redeem(&token, &other), Err(ApprovalQueueError::Changed));
        assert_eq!(redeem(&token, &given()), Err(ApprovalQueueError::Expired), "the try used it up");
    }
    let policy = Policy::without_rules();
    let arguments = CallArguments::none();
    let of = |profile| {
        let what = TargetItem::Tool("write", None);
        let asked =
            PolicyRequest::new("files", PolicyAction::tool("write", ToolEffectSet::unknown(), &arguments));
        let going = CallTarget { own_profile: profile, ..CallTarget::unknown("files", "t", what) };
        ApprovalBinding::new(&policy, &asked, &going, None, "{}").call
    };
    assert!(of(None) != of(Some("work")) && of(Some("work")) != of(Some("home")), "another account");
    let token = running.issue_token(approved()).unwrap();
    assert_eq!(redeem(&token, &given()), Ok(given()));
    assert_eq!(redeem(&token, &given()), Err(ApprovalQueueError::Expired), "used");
    assert_eq!(redeem("forged", &given()), Err(ApprovalQueueError::Expired));
}
