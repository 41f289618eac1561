//! Binding of approvals to calls.

use hospes_policy::{Action, Arguments, Asked, Effects, Policy, Reading};

use super::bond::Bond;
use super::running::{Approved, Running};
use super::{Going, What};
use crate::desk::Refused;

fn bond(server: &str, tool: &str, json: &str, principal: Option<&str>, policy: &str) -> Bond {
    bond_at("stdio /bin/serve", server, tool, json, principal, policy)
}

fn bond_at(
    target: &str,
    server: &str,
    tool: &str,
    json: &str,
    principal: Option<&str>,
    policy: &str,
) -> Bond {
    let arguments = Arguments::read(json).unwrap();
    let policy = Policy::read(policy, &Reading::default()).unwrap();
    let asked =
        Asked::new(server, Action::tool(tool, Effects::unknown(), &arguments)).with_principal(principal);
    Bond::new(
        &policy,
        &asked,
        &Going { server, target, known: None, what: What::Tool(tool, None) },
        Some("d"),
        json,
    )
}

/// The limit of open questions per user does not depend on the name an application gives itself.
#[test]
fn whoever_asks_is_who_is_signed_in() {
    let policy = Policy::ordinary();
    let asker = |principal, application| {
        let arguments = Arguments::none();
        let asked = Asked::new("files", Action::tool("write", Effects::unknown(), &arguments))
            .with_principal(principal)
            .with_application(application);
        let going = Going { server: "files", target: "t", known: None, what: What::Tool("write", None) };
        Bond::new(&policy, &asked, &going, None, "{}").asker
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
    let running = Running::default();
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
        let token = running.go_on(Approved { bond: given(), edited: None, flow: false }).unwrap();
        assert_eq!(running.resume(&token, &other), Err(Refused::Changed));
        assert_eq!(running.resume(&token, &given()), Err(Refused::Expired), "the try used it up");
    }
    let token = running.go_on(Approved { bond: given(), edited: None, flow: false }).unwrap();
    let approved = Approved { bond: given(), edited: None, flow: false };
    assert_eq!(running.resume(&token, &given()), Ok(approved));
    assert_eq!(running.resume(&token, &given()), Err(Refused::Expired), "used");
    assert_eq!(running.resume("forged", &given()), Err(Refused::Expired));
}
