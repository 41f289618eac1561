//! Calls that a person decides about somewhere else than in the application.

use std::sync::atomic::AtomicU32;

use hospes::model::ElicitParams;
use hospes_policy::{Policy, PolicyEnvironment};
use hospes_store::{AuditEntry, AuditEntryKind, AuditLog, DecisionBasis};

use super::guarded::{answering, counting, guard, pairs};
use super::*;
use crate::approvals::{
    Approval, ApprovalCard, ApprovalDecision, ApprovalQueue, ApprovalScope, DecisionAuthor,
};

/// Somebody at the console who decides about each approval so, and says what they saw.
pub(super) async fn at_console(queue: &ApprovalQueue, decisions: Vec<ApprovalDecision>) -> Vec<Approval> {
    decided_by(queue, decisions, DecisionAuthor::person("the person at the console")).await
}

async fn decided_by(
    queue: &ApprovalQueue,
    decisions: Vec<ApprovalDecision>,
    by: DecisionAuthor,
) -> Vec<Approval> {
    let mut seen = Vec::new();
    let mut changes = queue.subscribe();
    for decision in decisions {
        let approval = loop {
            changes.mark_unchanged();
            if let Some(approval) = queue.pending().into_iter().next() {
                break approval;
            }
            changes.changed().await.unwrap();
        };
        queue.decide(&approval.id, decision, by.clone()).await.unwrap();
        seen.push(approval);
    }
    seen
}

/// A call waits for the console if the application cannot ask, or may not report its person's decision.
///
/// covers: HOST-01 HOST-07 HOST-08
#[tokio::test]
async fn a_call_waits_for_the_console() {
    for (up, down) in pairs() {
        for rules in ["", "[[rule]]\ndecide = 'ask'\nstrong = true"] {
            let called = Arc::default();
            let rules = guard(rules);
            let host = House::default().with("files", up, counting(&called)).guarded(&rules).start();
            let attendance = rules.approvals().register_viewer(None);
            let client = plain(&host, down).await;
            let call = |path: &str| client.call("files__write", json!({ "path": path })).into_future();
            let decisions = vec![ApprovalDecision::allow(), ApprovalDecision::deny_because("wrong folder")];
            let (results, seen) = tokio::join!(
                async { (call("/a").await.unwrap(), call("/b").await.unwrap()) },
                at_console(rules.approvals(), decisions)
            );
            assert_eq!(results.0.all_text(), "written", "{up} behind {down}");
            assert!(
                results.1.has_failed() && results.1.all_text().contains("the user denied it: wrong folder")
            );
            assert_eq!(called.load(Ordering::SeqCst), 1);
            let ApprovalCard::Call(card) = &seen[1].card else { panic!("a call") };
            assert_eq!((seen[1].server.as_str(), card.name.as_str()), ("files", "write"));
            assert_eq!(card.arguments.as_str(), r#"{"path":"/b"}"#);
            assert_eq!(card.last_arguments.as_ref().map(|last| last.as_str()), Some(r#"{"path":"/a"}"#));
            drop(attendance);
        }
    }
}

/// A permission for a session does not apply to another session of the same name, and ends with the session.
#[tokio::test]
async fn a_permission_for_a_session_is_for_no_other_session_of_the_same_name() {
    const SOON: Duration = Duration::from_secs(20);
    for (up, down) in pairs() {
        let called = Arc::default();
        let rules = guard("[[rule]]\ndecide = 'ask'");
        let host = House::default().with("files", up, counting(&called)).guarded(&rules).start();
        let _attendance = rules.approvals().register_viewer(None);
        let peer = |process: u32| {
            let info = hospes::model::Implementation::new("app", "1");
            let mut peer = hospes::Peer::new(down, Some(info), Default::default());
            peer.caller = Some(format!("node, process {process} of user 1000").into());
            Arc::new(peer)
        };
        let call = async |peer: &Arc<hospes::Peer>| {
            let params = json!({ "name": "files__write", "arguments": { "path": "/a" } });
            host.gateway()
                .call(Call::new(Method::ToolsCall, params.into(), Context::new(Arc::clone(peer))))
                .await
        };
        let asked = async |peer: &Arc<hospes::Peer>, decision| {
            let both = async { tokio::join!(call(peer), at_console(rules.approvals(), vec![decision])) };
            let (_, mut seen) = tokio::time::timeout(SOON, both).await.expect("the person is asked");
            seen.remove(0)
        };
        let first = peer(4711);
        let session = ApprovalDecision::Allow { edited: None, scope: ApprovalScope::Session };
        let seen = asked(&first, session).await;
        let words = if down.is_legacy() {
            "this connection of the application, until it ends"
        } else {
            "node, process 4711 of user 1000, for one hour"
        };
        assert_eq!(seen.session.as_deref(), Some(words), "the card says for whom and until when: {down}");
        call(&first).await;
        assert_eq!(
            called.load(Ordering::SeqCst),
            2,
            "not asked about in the same session: {up} behind {down}"
        );
        asked(&peer(4712), ApprovalDecision::deny()).await;
        if down.is_legacy() {
            asked(&peer(4711), ApprovalDecision::deny()).await;
        }
        assert_eq!(called.load(Ordering::SeqCst), 2, "{up} behind {down}");
        let grant = rules.approvals().grants().remove(0);
        assert_eq!((grant.session.as_deref(), grant.until.is_some()), (Some(words), !down.is_legacy()));
        let lasts = grant.until.map(|until| until.duration_since(grant.given_at));
        assert!(lasts.is_none_or(|lasts| lasts == crate::approvals::SESSION_LIFETIME));
        drop(first);
        assert_eq!(rules.approvals().grants().is_empty(), down.is_legacy(), "{up} behind {down}");
    }
}

/// The words of a permission name the person who has given it. Calls under it are recorded as such all the same, and
/// so are calls that a program decides.
#[tokio::test]
async fn calls_under_a_permission_are_not_recorded_as_decisions_of_the_person() {
    let folder = tempfile::tempdir().unwrap();
    for (index, (up, down)) in pairs().enumerate() {
        let at = |name: &str| folder.path().join(format!("{index}.{name}"));
        let audit = AuditLog::open(at("db"), at("key")).unwrap();
        let policy = Policy::read("[[rule]]\ndecide = 'ask'", &PolicyEnvironment::default()).unwrap();
        let rules = Arc::new(PolicyEnforcer::new(policy).with_audit(audit.clone()));
        let host = House::default().with("files", up, counting(&Arc::default())).guarded(&rules).start();
        let _attendance = rules.approvals().register_viewer(None);
        let client = plain(&host, down).await;
        let call = async |path: &str| client.call("files__write", json!({ "path": path })).await.unwrap();
        let queue = rules.approvals();
        let program = DecisionAuthor::program("a program with the token person");
        tokio::join!(call("/a"), decided_by(queue, vec![ApprovalDecision::allow()], program));
        let session = ApprovalDecision::Allow { edited: None, scope: ApprovalScope::Session };
        tokio::join!(call("/a"), at_console(queue, vec![session]));
        call("/a").await;
        call("/a").await;
        // What was noted is written before what is recorded after it.
        audit.record(AuditEntry::new(AuditEntryKind::Server)).await.unwrap();
        let query = hospes_store::AuditQuery::new().with_kind(AuditEntryKind::Call);
        let found = audit.search(query).await.unwrap();
        let bases: Vec<_> = found.iter().rev().map(|one| one.entry.basis).collect();
        let grant = DecisionBasis::Grant;
        assert_eq!(
            bases,
            [DecisionBasis::Program, DecisionBasis::Person, grant, grant],
            "{up} behind {down}"
        );
        let words = found[0].entry.by.as_deref().unwrap();
        assert!(words.contains("the person"), "the decider is still named: {words}");
    }
}

/// A call waits even if no console is open yet. A person who opens one in time decides.
#[tokio::test]
async fn a_call_waits_where_a_console_is_served_though_nobody_has_it_open() {
    for (up, down) in pairs() {
        let called = Arc::default();
        let rules = guard("");
        let host = House::default().with("files", up, counting(&called)).guarded(&rules).start();
        let client = plain(&host, down).await;
        let call = || client.call("files__write", json!({ "path": "/a" })).into_future();
        let refused = call().await.unwrap();
        assert!(refused.has_failed(), "without a console nobody can decide: {up} behind {down}");
        let registration = rules.approvals().register_console();
        let (result, _) =
            tokio::join!(call(), at_console(rules.approvals(), vec![ApprovalDecision::allow()]));
        assert_eq!(result.unwrap().all_text(), "written", "{up} behind {down}");
        drop(registration);
        assert!(call().await.unwrap().has_failed());
    }
}

/// The application receives progress notifications while it waits.
#[tokio::test(start_paused = true)]
async fn who_waits_for_the_console_is_told_so_and_silence_is_a_no() {
    for (up, down) in pairs() {
        let called = Arc::default();
        let rules = guard("");
        let host = House::default().with("files", up, counting(&called)).guarded(&rules).start();
        let _attendance = rules.approvals().register_viewer(None);
        let told = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&told);
        let client = plain(&host, down).await;
        let result = client
            .call("files__write", json!({ "path": "/a" }))
            .on_progress(move |_| {
                count.fetch_add(1, Ordering::SeqCst);
            })
            .await
            .unwrap();
        assert!(result.has_failed() && result.all_text().contains("approval_timeout"), "{result:?}");
        assert!(told.load(Ordering::SeqCst) > 20, "{up} behind {down}: {told:?}");
        assert_eq!(called.load(Ordering::SeqCst), 0);
    }
}

/// An edited call is sent as edited in every round, and only if the rules allow it.
///
/// covers: HOST-09
#[tokio::test]
async fn a_call_may_be_changed_before_it_is_approved() {
    let rules =
        "[[rule]]\ndecide = 'deny'\ntool = 'say'\narguments.path = { under = '/etc' }\nreason = 'not there'";
    let server = || {
        let said = |path: String| async move { path };
        Server::new("files", "1").tool("say", move |Args(args): Args<Place>| said(args.path)).tool(
            "ask",
            |ctx: Context, Args(args): Args<Place>| async move {
                let place = ctx.elicit::<String>("Where to?").await?;
                Ok::<_, Error>(format!("{} {place}", args.path))
            },
        )
    };
    let edited = |path: &str| ApprovalDecision::Allow {
        edited: Some(json!({ "path": path }).into()),
        scope: ApprovalScope::Once,
    };
    for (up, down) in pairs() {
        let strong = format!("{rules}\n[[rule]]\ndecide = 'ask'\nabout = 'tool'\nstrong = true");
        let rules = guard(&strong);
        let host = House::default().with("files", up, server).guarded(&rules).start();
        let _attendance = rules.approvals().register_viewer(None);
        let (client, _) = answering(&host, down, vec![]).await;
        for (tool, expected) in [("files__say", "/srv/b"), ("files__ask", "/srv/b there")] {
            let (result, _) = tokio::join!(
                client.call(tool, json!({ "path": "/srv/a" })).into_future(),
                at_console(rules.approvals(), vec![edited("/srv/b")])
            );
            assert_eq!(result.unwrap().all_text(), expected, "{up} behind {down}");
        }
        let calling = client.call("files__say", json!({ "path": "/srv/a" })).into_future();
        let deciding = async {
            let queue = rules.approvals();
            let mut changes = queue.subscribe();
            let id = changes
                .wait_for(|_| !queue.pending().is_empty())
                .await
                .map(|_| queue.pending()[0].id.clone());
            let id = id.unwrap();
            for (wrong, why) in [
                (json!({ "path": "/etc/passwd" }), "not there"),
                (json!({ "path": 3 }), "path"),
                (json!({}), "path"),
                (json!([]), "object"),
            ] {
                let decision =
                    ApprovalDecision::Allow { edited: Some(wrong.into()), scope: ApprovalScope::Once };
                let refused = queue.decide(&id, decision, "me").await.unwrap_err().to_string();
                assert!(refused.contains(why), "{refused}");
            }
            queue.decide(&id, ApprovalDecision::deny(), "me").await.unwrap();
        };
        assert!(tokio::join!(calling, deciding).0.unwrap().has_failed());
    }
}

/// An edited call goes by the rules for its new arguments: its result is reviewed, also in a later round.
#[tokio::test]
async fn what_comes_of_edited_arguments_is_reviewed_where_a_rule_says_so() {
    let rules = "[[rule]]\ndecide = 'ask'\narguments.path = { under = '/private' }\nreview = true
        [[rule]]\ndecide = 'ask'\nabout = 'tool'";
    for (up, down) in pairs() {
        for tool in ["files__write", "files__move"] {
            let called = Arc::default();
            let strong = guard(&rules.replace("'ask'", "'ask'\nstrong = true"));
            let host = House::default().with("files", up, counting(&called)).guarded(&strong).start();
            let _attendance = strong.approvals().register_viewer(None);
            let (client, _) = answering(&host, down, vec![]).await;
            let edited = ApprovalDecision::Allow {
                edited: Some(json!({ "path": "/private/a" }).into()),
                scope: ApprovalScope::Once,
            };
            let (result, seen) = tokio::join!(
                client.call(tool, json!({ "path": "/srv/a" })).into_future(),
                at_console(strong.approvals(), vec![edited, ApprovalDecision::deny_because("too much")])
            );
            let said = result.unwrap().all_text();
            assert!(said.ends_with("the user withheld it: too much"), "{up} behind {down}: {said}");
            let ApprovalCard::Result(card) = &seen[1].card else { panic!("a result: {seen:?}") };
            assert!(card.arguments.as_str().contains("/private/a"), "{card:?}");
            assert_eq!(called.load(Ordering::SeqCst), 1);
        }
    }
}

#[derive(serde::Deserialize, hospes::schemars::JsonSchema)]
#[schemars(crate = "hospes::schemars")]
struct Place {
    path: String,
}

/// An application that can show URLs is sent to the console. The call continues once the person has decided there. The
/// application's own answer is not an approval.
#[tokio::test]
async fn an_application_that_shows_urls_sends_its_person_to_the_console() {
    for (up, down) in pairs().filter(|(_, down)| *down >= Revision::V2025_11_25) {
        for (decision, calls) in [(ApprovalDecision::allow(), 1), (ApprovalDecision::deny(), 0)] {
            let called = Arc::default();
            let rules = guard("[[rule]]\ndecide = 'ask'\nstrong = true");
            let host = House::default().with("files", up, counting(&called)).guarded(&rules).start();
            let _attendance = rules.approvals().register_viewer(Some("http://127.0.0.1:7338"));
            let queue = rules.approvals().clone();
            let sent = Arc::new(Mutex::new(Vec::new()));
            let seen = Arc::clone(&sent);
            let client = Client::builder()
                .revision(down)
                .elicitation(move |params: ElicitParams| {
                    let ElicitParams::Url(params) = params else { panic!("a URL") };
                    seen.lock().push(params.url);
                    // A form that nobody put: it approves nothing.
                    std::future::ready(Ok(ElicitResult::accept(json!({ "decision": "once" }).into())))
                })
                .elicitation_urls()
                .in_memory(host.gateway())
                .await
                .unwrap();
            let (result, approvals) = tokio::join!(
                client.call("files__write", json!({ "path": "/a" })).into_future(),
                at_console(&queue, vec![decision])
            );
            assert_eq!(result.unwrap().has_failed(), calls == 0, "{up} behind {down}");
            assert_eq!(called.load(Ordering::SeqCst), calls);
            let expected = format!("http://127.0.0.1:7338/approvals/{}", approvals[0].id);
            assert_eq!(*sent.lock(), [expected]);
        }
    }
}

#[tokio::test]
async fn a_result_that_is_to_be_reviewed_is_what_the_person_lets_through() {
    let rules = "[[rule]]\ndecide = 'allow'\nreview = true";
    let other = json!({ "content": [{ "type": "text", "text": "less" }] });
    for (up, down) in pairs() {
        let called = Arc::default();
        let rules = guard(rules);
        let host = House::default().with("files", up, counting(&called)).guarded(&rules).start();
        let _attendance = rules.approvals().register_viewer(None);
        let client = plain(&host, down).await;
        let edited =
            ApprovalDecision::Allow { edited: Some(other.clone().into()), scope: ApprovalScope::Once };
        for (decision, text) in [
            (ApprovalDecision::allow(), "written"),
            (edited, "less"),
            (
                ApprovalDecision::deny_because("private"),
                "its result is not shown: the user withheld it: private",
            ),
        ] {
            let (result, seen) = tokio::join!(
                client.call("files__write", json!({ "path": "/a" })).into_future(),
                at_console(rules.approvals(), vec![decision])
            );
            let said = result.unwrap().all_text();
            assert!(said.ends_with(text), "{up} behind {down}: {said}");
            let ApprovalCard::Result(card) = &seen[0].card else { panic!("a result") };
            assert!(card.result.as_str().contains("written"), "{card:?}");
        }
        assert_eq!(called.load(Ordering::SeqCst), 3);
    }
}

/// An answer from the application does not satisfy a rule that requires the console.
#[tokio::test]
async fn a_strong_approval_is_wanted_whatever_an_application_was_allowed() {
    let rules = "[[rule]]\ndecide = 'ask'\narguments.path = { under = '/etc' }\nstrong = true\n[[rule]]\ndecide = 'ask'\nabout = 'tool'";
    for (up, down) in pairs() {
        let called = Arc::default();
        let rules = guard(rules);
        let host = House::default().with("files", up, counting(&called)).guarded(&rules).start();
        let _attendance = rules.approvals().register_viewer(None);
        let always = ElicitResult::accept(json!({ "decision": "always" }).into());
        let (client, _) = answering(&host, down, vec![always]).await;
        for path in ["/tmp/a", "/tmp/b"] {
            let result = client.call("files__write", json!({ "path": path })).await.unwrap();
            assert_eq!(result.all_text(), "written", "{up} behind {down}");
        }
        let (result, seen) = tokio::join!(
            client.call("files__write", json!({ "path": "/etc/a" })).into_future(),
            at_console(rules.approvals(), vec![ApprovalDecision::deny()])
        );
        assert!(result.unwrap().has_failed() && seen.len() == 1);
        assert_eq!(called.load(Ordering::SeqCst), 2);
    }
}

/// A call that waited goes by the rules as they are when it is decided about.
#[tokio::test]
async fn what_was_asked_under_other_rules_is_not_called() {
    for (up, down) in pairs() {
        let called = Arc::default();
        let rules = guard("");
        let host = House::default().with("files", up, counting(&called)).guarded(&rules).start();
        let _attendance = rules.approvals().register_viewer(None);
        let client = plain(&host, down).await;
        let deciding = async {
            let queue = rules.approvals();
            queue.subscribe().wait_for(|_| !queue.pending().is_empty()).await.unwrap();
            let denied = hospes_policy::Policy::read("[[rule]]\ndecide = 'deny'", &Default::default());
            rules.replace_policy(denied.unwrap());
            // It may be gone with the rules it was asked under, or be decided about and not called.
            let _ = queue.decide(&queue.pending()[0].id, ApprovalDecision::allow(), "me").await;
        };
        let (result, ()) =
            tokio::join!(client.call("files__write", json!({ "path": "/a" })).into_future(), deciding);
        assert!(result.unwrap().has_failed(), "{up} behind {down}");
        assert_eq!(called.load(Ordering::SeqCst), 0);
    }
}

/// Arguments that are too long to be read are refused without asking.
#[tokio::test]
async fn what_is_too_long_to_be_read_is_refused() {
    let called = Arc::default();
    let rules = guard("");
    let host = House::default().with("files", Revision::LATEST, counting(&called)).guarded(&rules).start();
    let _attendance = rules.approvals().register_viewer(None);
    let client = plain(&host, Revision::LATEST).await;
    let long = json!({ "path": "x".repeat(300 * 1024) });
    let result = client.call("files__write", long).await.unwrap();
    assert!(result.has_failed() && result.all_text().contains("262144"), "{result:?}");
    assert_eq!(called.load(Ordering::SeqCst), 0);
}
