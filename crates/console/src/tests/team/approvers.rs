//! Approvals by members of groups, in place of the person whose call it is.

use super::*;

const FINANCE: &str = "[[rule]]\ndecide = 'ask'\nserver = 'notes'\napprover = ['finance']\n";

async fn decided(team: &Team, node: usize, person: &Person, id: &str, decision: &str) -> (u16, String) {
    let answer =
        team.post(node, person, &format!("/api/approvals/{id}"), json!({ "decision": decision })).await;
    (answer.status, if answer.status == 200 { String::new() } else { answer.code() })
}

/// Ann calls, and members of finance decide, at any node. Others do not know of it.
#[tokio::test]
async fn members_of_a_named_group_decide_at_any_node() {
    let team = Team::with_rules(FINANCE).await;
    let (ann, bob) = (team.sign_in("ann").await, team.sign_in("bob").await);
    let (fay, fred) = (team.sign_in("fay").await, team.sign_in("fred").await);
    let (root, aud) = (team.sign_in("root").await, team.sign_in("aud").await);
    let (id, call) = team.call(0, Some("ann")).await;
    // The one who waits sees for whom.
    for node in [0, 1] {
        assert_eq!(team.sees(node, &ann, 1).await, [id.as_str()]);
    }
    let path = format!("/api/approvals/{id}");
    let own = team.get(1, &ann, &path).await.json();
    let seen = |view: &Value| (view["is_own"].clone(), view["may_allow"].clone(), view["waits_for"].clone());
    assert_eq!(seen(&own), (json!(true), json!(false), json!("`finance`")));
    assert!(!own["offers"].as_object().unwrap().values().any(|offer| *offer == json!(true)), "{own}");
    // An approver sees whose call it is: by name, principal and groups.
    for (approver, node) in [(&fay, 0), (&fred, 1)] {
        assert_eq!(team.sees(node, approver, 1).await, [id.as_str()]);
        let view = team.get(node, approver, &path).await.json();
        assert_eq!(seen(&view), (json!(false), json!(true), json!("`finance`")));
        assert_eq!(
            (&view["principal"], &view["groups"]),
            (&json!("https://login.example user ann"), &json!(["staff", "sales"]))
        );
        assert_eq!(view["requester_name"], "The Same Name");
        assert_eq!(view["card"]["last_arguments"], Value::Null);
        assert_eq!(team.get(node, approver, &format!("{path}/signs")).await.status, 200);
    }
    for other in [&bob, &root] {
        assert!(team.sees(1, other, 0).await.is_empty());
        for path in ["", "/signs", "/repeated"].map(|end| format!("{path}{end}")) {
            let answer = team.get(1, other, &path).await;
            assert_eq!((answer.status, answer.code().as_str()), (404, "nothing"), "{path}");
        }
        for decision in ["allow", "deny"] {
            assert_eq!(decided(&team, 1, other, &id, decision).await, (404, "nothing".to_owned()));
        }
    }
    // A group without a role that decides is no entrance.
    assert_eq!(team.get(0, &aud, "/api/approvals").await.status, 403);
    assert_eq!(decided(&team, 0, &aud, &id, "allow").await, (403, "role".to_owned()));
    for node in [0, 1] {
        assert_eq!(decided(&team, node, &ann, &id, "allow").await, (403, "approver".to_owned()), "forged");
    }
    let always = json!({ "decision": "allow", "scope": { "always": {} } });
    assert_eq!(team.post(1, &fay, &path, always).await.code(), "not-offered");
    let edited = json!({ "decision": "allow", "edited": { "path": "/b", "text": "x" } });
    assert_eq!(team.post(1, &fay, &path, edited).await.code(), "not-offered");

    let allowed = team.post(1, &fay, &path, json!({ "decision": "allow" })).await;
    assert_eq!(allowed.status, 200, "{allowed:?}");
    let decision = &allowed.json()["decided"];
    let by = decision["by"].as_str().unwrap();
    assert!(by.starts_with("https://login.example user fay, at the console, browser session "), "{by}");
    assert!(by.ends_with(", as a member of finance"), "{by}");
    assert_eq!(
        decision["approver"],
        json!({ "principal": "https://login.example user fay", "groups": ["finance"] })
    );
    let said = tokio::time::timeout(LIMIT, call).await.unwrap().unwrap();
    assert_eq!(said, "1 bytes are in /a");
    assert_eq!(decided(&team, 1, &fred, &id, "allow").await.0, 409, "once");
    // Nothing lasts: the same call is asked about again.
    assert_eq!(team.get(0, &ann, "/api/grants").await.json(), json!({ "grants": [] }));
    let (again, call) = team.call(0, Some("ann")).await;
    assert_ne!(again, id);
    call.abort();
    // The record of the call has both: whose it was, and who has approved it.
    let entries = team.get(0, &ann, "/api/activity?kind=call").await.json();
    let is_approved = |one: &&Value| one["entry"]["by"].as_str().is_some_and(|by| by.contains("user fay"));
    let entry = entries["entries"].as_array().unwrap().iter().find(is_approved);
    let entry = entry.unwrap_or_else(|| panic!("{entries}"));
    assert_eq!(entry["entry"]["principal"], "https://login.example user ann");
    // The approver reads approvals, and not the record of others.
    let entries = team.get(0, &fay, "/api/activity?kind=call").await.json();
    assert!(entries["entries"].as_array().unwrap().is_empty(), "{entries}");
}

#[tokio::test]
async fn a_member_does_not_decide_their_own_call_with_not_self() {
    let team = Team::with_rules(&format!("{FINANCE}not_self = true\n")).await;
    let (fay, fred) = (team.sign_in("fay").await, team.sign_in("fred").await);
    let (id, call) = team.call(0, Some("fred")).await;
    for node in [0, 1] {
        assert_eq!(team.sees(node, &fred, 1).await, [id.as_str()]);
        assert_eq!(decided(&team, node, &fred, &id, "allow").await, (403, "approver".to_owned()));
    }
    assert_eq!(decided(&team, 1, &fay, &id, "allow").await.0, 200);
    assert_eq!(tokio::time::timeout(LIMIT, call).await.unwrap().unwrap(), "1 bytes are in /a");
    // The caller withdraws by a denial.
    let (id, call) = team.call(0, Some("fred")).await;
    assert_eq!(team.sees(1, &fred, 1).await, [id.as_str()]);
    assert_eq!(decided(&team, 1, &fred, &id, "deny").await.0, 200);
    assert!(tokio::time::timeout(LIMIT, call).await.unwrap().unwrap().contains("a person denied it"));
}

/// Groups count as they are when somebody decides.
#[tokio::test]
async fn an_approver_who_has_left_the_group_decides_no_more() {
    let team = Team::with_rules(FINANCE).await;
    let fay = team.sign_in("fay").await;
    let (id, call) = team.call(0, Some("ann")).await;
    assert_eq!(team.sees(1, &fay, 1).await, [id.as_str()]);
    team.provider.groups.lock().insert("fay".to_owned(), json!(["reviewers"]));
    // The claims are read again at a sign-in, and each hour.
    let fay = team.sign_in("fay").await;
    assert!(team.sees(1, &fay, 0).await.is_empty());
    assert_eq!(decided(&team, 1, &fay, &id, "allow").await, (404, "nothing".to_owned()));
    call.abort();
}
