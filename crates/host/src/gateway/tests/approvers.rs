//! Calls that members of groups approve in place of the person whose call it is.

use std::sync::atomic::AtomicU32;

use hospes_policy::{Policy, PolicyEnvironment};

use super::deny_paths::peer;
use super::guarded::{answering, counting, decision, guard, pairs};
use super::sampled::{curious, models};
use super::*;
use crate::approvals::{Approval, ApprovalDecision, ApprovalQueue, ApprovalScope, DecideError};
use crate::deciders::{DecisionAuthor, TeamDecider};
use crate::guard::UnattendedMode;

const FINANCE: &str = "[[rule]]\ndecide = 'ask'\napprover = ['finance']\n";

fn author(name: &str, group: &str) -> DecisionAuthor {
    DecisionAuthor::team_person(name, TeamDecider::new(name, vec![group.to_owned()], true))
}

async fn asked(queue: &ApprovalQueue) -> Approval {
    let mut changes = queue.subscribe();
    let there = changes.wait_for(|_| !queue.pending().is_empty());
    tokio::time::timeout(Duration::from_secs(60), there).await.expect("nothing is asked").unwrap();
    queue.pending().remove(0)
}

/// Calls `files__write` for ann.
async fn write(host: &Host, path: &str) -> Outcome {
    let params = json!({ "name": "files__write", "arguments": { "path": path } });
    let context = Context::new(Arc::new(peer("editor", Some("ann"), true)));
    host.gateway().call(Call::new(Method::ToolsCall, params.into(), context)).await
}

fn said(outcome: Outcome) -> String {
    match outcome {
        Outcome::Complete(reply) => match crate::server::decoded(&Method::ToolsCall, reply) {
            Ok(Reply::CallTool(result)) => result.all_text(),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    }
}

/// An application that shows forms is not asked: its person is not who decides.
#[tokio::test]
async fn the_application_is_not_asked_and_the_call_waits_for_an_approver() {
    let called: Arc<AtomicU32> = Arc::default();
    let rules = guard(FINANCE);
    let host = House::default().with("files", Revision::LATEST, counting(&called)).guarded(&rules).start();
    let queue = rules.approvals();
    let _console = queue.register_team_console();
    for attempt in 1..=2 {
        let calling = write(&host, "/a");
        let deciding = async {
            let approval = asked(queue).await;
            assert_eq!((approval.offers, approval.approvers.is_some()), (Default::default(), true));
            for other in [author("ann", "staff"), DecisionAuthor::person("the person at the terminal")] {
                let allowed = queue.decide(&approval.id, ApprovalDecision::allow(), other).await;
                assert!(matches!(allowed, Err(DecideError::NotApprover(_))), "{allowed:?}");
            }
            queue.decide(&approval.id, ApprovalDecision::allow(), author("bob", "finance")).await.unwrap();
        };
        let (outcome, ()) = tokio::join!(calling, deciding);
        assert_eq!(said(outcome), "written");
        assert_eq!(called.load(Ordering::SeqCst), attempt, "each call is approved by itself");
    }
    let deciding = async {
        let id = asked(queue).await.id;
        queue
            .decide(&id, ApprovalDecision::deny_because("too much"), author("bob", "finance"))
            .await
            .unwrap();
    };
    let (outcome, ()) = tokio::join!(write(&host, "/a"), deciding);
    assert!(said(outcome).contains("a person denied it: too much"));
    assert_eq!(called.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_call_that_nobody_can_approve_is_refused_with_the_reason() {
    for (up, down) in pairs() {
        let called: Arc<AtomicU32> = Arc::default();
        let rules = guard(FINANCE);
        let host = House::default().with("files", up, counting(&called)).guarded(&rules).start();
        // The console of one person has no groups.
        let (_viewer, _console) =
            (rules.approvals().register_viewer(None), rules.approvals().register_console());
        let (client, questions) = answering(&host, down, vec![decision("once")]).await;
        let result = client.call("files__write", json!({ "path": "/a" })).await.unwrap();
        let text = result.all_text();
        assert!(
            text.contains("a member of `finance` has to approve it") && text.contains("[console.team]"),
            "{text}"
        );
        assert!(questions.lock().is_empty() && called.load(Ordering::SeqCst) == 0);
    }
    // Nobody can say that the caller is somebody else.
    let called: Arc<AtomicU32> = Arc::default();
    let rules = guard(&format!("{FINANCE}not_self = true"));
    let host = House::default().with("files", Revision::LATEST, counting(&called)).guarded(&rules).start();
    let _console = rules.approvals().register_team_console();
    let client = plain(&host, Revision::LATEST).await;
    let text = client.call("files__write", json!({ "path": "/a" })).await.unwrap().all_text();
    assert!(text.contains("nobody is signed in"), "{text}");
    assert_eq!(called.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_no_approver_decides_in_time_says_who_could_have() {
    let policy = Policy::read(FINANCE, &PolicyEnvironment::default()).unwrap();
    let rules = PolicyEnforcer::new(policy).with_approval_timeout(Duration::from_secs(90));
    let rules = Arc::new(rules.when_unattended(UnattendedMode::Queue));
    let called: Arc<AtomicU32> = Arc::default();
    let host = House::default().with("files", Revision::LATEST, counting(&called)).guarded(&rules).start();
    let text = said(write(&host, "/a").await);
    assert!(
        text.contains("a member of `finance` has to approve it") && text.contains("approval_timeout"),
        "{text}"
    );
    assert_eq!(called.load(Ordering::SeqCst), 0);
}

/// The caller cannot have a small call approved by themselves, and make it the one that needs an approver.
#[tokio::test]
async fn an_edit_does_not_lead_around_the_approver() {
    let called: Arc<AtomicU32> = Arc::default();
    let rules =
        guard(&format!("{FINANCE}arguments.path = '/secret'\n[[rule]]\ndecide = 'ask'\nstrong = true\n"));
    let host = House::default().with("files", Revision::LATEST, counting(&called)).guarded(&rules).start();
    let queue = rules.approvals();
    let _console = queue.register_team_console();
    let ann = || author("ann", "staff");
    let deciding = async {
        let id = asked(queue).await.id;
        let edited = |path: &str| ApprovalDecision::Allow {
            edited: Some(json!({ "path": path }).into()),
            scope: ApprovalScope::Once,
        };
        let secret = queue.decide(&id, edited("/secret"), ann()).await;
        assert!(
            matches!(&secret, Err(DecideError::Edit(why)) if why.contains("a member of `finance`")),
            "{secret:?}"
        );
        queue.decide(&id, edited("/b"), ann()).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(write(&host, "/a"), deciding);
    assert_eq!(said(outcome), "written");
    // A permission for all calls of the tool is none for this one.
    let deciding = async {
        let id = asked(queue).await.id;
        let always = ApprovalScope::Always(Default::default());
        let always = ApprovalDecision::Allow { edited: None, scope: always };
        queue.decide(&id, always, ann()).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(write(&host, "/a"), deciding);
    assert_eq!((said(outcome).as_str(), said(write(&host, "/c").await).as_str()), ("written", "written"));
    let deciding = async {
        let approval = asked(queue).await;
        assert!(approval.approvers.is_some());
        queue.decide(&approval.id, ApprovalDecision::deny(), ann()).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(write(&host, "/secret"), deciding);
    assert!(said(outcome).contains("a person denied it"));
}

/// A plan is the approval of its caller, and so has no call of an approver.
#[tokio::test]
async fn a_call_for_an_approver_is_no_part_of_a_plan() {
    let called: Arc<AtomicU32> = Arc::default();
    let rules = guard(&format!(
        "preset = 'cautious'\nplans = true\n{FINANCE}server = 'files'\narguments.path = '/secret'\n"
    ));
    let host = House::default().with("files", Revision::LATEST, counting(&called)).guarded(&rules).start();
    let _console = rules.approvals().register_team_console();
    let client = plain(&host, Revision::LATEST).await;
    let call = |path: &str| json!({ "name": "files__write", "arguments": { "path": path } });
    let plan = json!({ "calls": [call("/a"), call("/secret")] });
    let text = client.call("hospes__propose_plan", plan).await.unwrap().all_text();
    assert!(text.contains("call 2") && text.contains("a member of `finance` has to approve it"), "{text}");
}

/// Approvers decide about calls. The model of the caller is not asked in the meantime.
#[tokio::test]
async fn sampling_that_a_rule_with_an_approver_matches_is_refused() {
    let rules = format!("[[rule]]\ndecide = 'allow'\nabout = 'tool'\n{FINANCE}");
    for (up, down) in pairs() {
        let (models, rules) = (models(None), guard(&rules));
        let house = House::default().with("curious", up, curious).guarded(&rules).sampling(&models.sampler);
        let host = house.start();
        let (_viewer, _console) =
            (rules.approvals().register_viewer(None), rules.approvals().register_team_console());
        for client in [plain(&host, down).await, application(&host, down).await] {
            let result = client.call("curious__ask_model", ()).await;
            assert!(result.as_ref().is_ok_and(|result| result.has_failed()) || result.is_err(), "{result:?}");
        }
        assert_eq!(models.asked(), 0, "{up} behind {down}");
    }
}
