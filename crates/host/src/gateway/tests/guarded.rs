//! Calls that the guard admits, asks about and records.

use std::sync::atomic::AtomicU32;

use hospes::model::{ElicitAction, ElicitParams};
use hospes_policy::{Policy, PolicyEnvironment};
use hospes_store::{AuditEntry, AuditEntryKind, AuditLog, AuditOutcome, AuditQuery, DecisionBasis};

use super::*;

/// Arguments of any shape.
pub(super) type Anything = Args<std::collections::BTreeMap<String, serde_json::Value>>;

/// A server that counts what was called.
pub(super) fn counting(calls: &Arc<AtomicU32>) -> impl Fn() -> Server + Send + Sync + 'static {
    let calls = Arc::clone(calls);
    move || {
        let (plain, asking, failing) = (Arc::clone(&calls), Arc::clone(&calls), Arc::clone(&calls));
        Server::new("files", "1")
            .tool("write", move |_: Anything| {
                plain.fetch_add(1, Ordering::SeqCst);
                async { "written" }
            })
            .tool("move", move |ctx: Context, _: Anything| {
                let calls = Arc::clone(&asking);
                async move {
                    let place = ctx.elicit::<String>("Where to?").await?;
                    calls.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, Error>(place)
                }
            })
            .tool("fail", move |_: Anything| {
                failing.fetch_add(1, Ordering::SeqCst);
                async { Err::<String, _>(Error::msg("broken")) }
            })
    }
}

pub(super) fn guard(rules: &str) -> Arc<PolicyEnforcer> {
    Arc::new(PolicyEnforcer::new(Policy::read(rules, &PolicyEnvironment::default()).unwrap()))
}

/// One whose queue is on this state: another one on it is what there is after a restart.
pub(super) async fn guard_on(rules: &str, state: &StateStore) -> Arc<PolicyEnforcer> {
    let guard = PolicyEnforcer::new(Policy::read(rules, &PolicyEnvironment::default()).unwrap());
    Arc::new(guard.with_approvals(crate::ApprovalQueue::open(state).await.unwrap()))
}

/// The questions that an application was asked.
pub(super) type Asked = Arc<Mutex<Vec<String>>>;

/// An application whose person answers questions about calls so, and all others with a place.
pub(super) async fn answering(
    host: &Host,
    revision: Revision,
    answers: Vec<ElicitResult>,
) -> (Client, Asked) {
    let asked = Asked::default();
    let seen = Arc::clone(&asked);
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    let client = Client::builder()
        .revision(revision)
        .elicitation(move |params: ElicitParams| {
            let ElicitParams::Form(form) = params else { panic!("a form") };
            let answer = if form.message.contains("May I") {
                seen.lock().push(form.message);
                answers.lock().next().expect("no further question")
            } else {
                ElicitResult::accept(json!({ "value": "there" }).into())
            };
            std::future::ready(Ok(answer))
        })
        .in_memory(host.gateway())
        .await
        .unwrap();
    (client, asked)
}

pub(super) fn decision(decision: &str) -> ElicitResult {
    ElicitResult::accept(json!({ "decision": decision }).into())
}

pub(super) fn pairs() -> impl Iterator<Item = (Revision, Revision)> {
    ERAS.into_iter().flat_map(|up| ERAS.map(|down| (up, down)))
}

/// A call needs a clear yes from a person. Any other answer counts as no, and nothing reaches the server.
///
/// covers: HOST-01 HOST-07 HOST-08
#[tokio::test]
async fn a_call_is_made_only_after_a_clear_yes() {
    let refused = |reason: &str| ElicitResult::accept(json!({ "decision": "no", "reason": reason }).into());
    let mut odd = decision("once");
    odd.action = ElicitAction::Decline;
    for (up, down) in pairs() {
        for (answer, calls) in [
            (decision("once"), 1),
            (decision("no"), 0),
            (refused("wrong folder"), 0),
            (ElicitResult::decline(), 0),
            (ElicitResult::cancel(), 0),
            (odd.clone(), 0),
        ] {
            let called = Arc::default();
            let host = House::default().with("files", up, counting(&called)).guarded(&guard("")).start();
            let (client, asked) = answering(&host, down, vec![answer.clone()]).await;
            let result = client.call("files__write", json!({ "path": "/srv/a" })).await.unwrap();
            assert_eq!(called.load(Ordering::SeqCst), calls, "{up} behind {down}: {answer:?}");
            assert_eq!(result.has_failed(), calls == 0, "{result:?}");
            assert_eq!(asked.lock().len(), 1);
            if calls == 0 {
                let said = result.all_text();
                assert!(said.contains("was not called"), "{said}");
                // A refusal's reason reaches the model.
                let reason = answer.content.is_some_and(|content| content.as_str().contains("wrong folder"));
                assert_eq!(said.contains("wrong folder"), reason, "{said}");
            }
        }
    }
}

/// covers: HOST-09
#[tokio::test]
async fn a_person_sees_what_would_be_called_with_what_and_why() {
    let host = House::default()
        .with("files", Revision::LATEST, counting(&Arc::default()))
        .guarded(&guard(""))
        .start();
    let (client, asked) = answering(&host, Revision::LATEST, vec![decision("no")]).await;
    let arguments = json!({ "path": "/srv/a", "to": "https://evil.example/x", "note": "safe\u{202e}txt" });
    client.call("files__write", arguments).await.unwrap();
    let asked = asked.lock()[0].clone();
    for part in [
        "call the tool `write` of the server `files`?",
        "\"path\": \"/srv/a\"",
        "Points to: ",
        "evil.example",
        "safe\\u{202e}txt",
        "This may be destructive",
        "Asked because: no rule matches",
    ] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    assert!(!asked.contains("https://"), "nothing to click at: {asked}");
}

#[tokio::test]
async fn whoever_cannot_be_asked_is_refused_and_told() {
    for (up, down) in pairs() {
        let called = Arc::default();
        let host = House::default().with("files", up, counting(&called)).guarded(&guard("")).start();
        let result = plain(&host, down).await.call("files__write", ()).await.unwrap();
        assert!(result.has_failed() && result.all_text().contains("cannot ask for one"), "{result:?}");
        let strong = guard("[[rule]]\ndecide = 'ask'\nstrong = true");
        let host = House::default().with("files", up, counting(&called)).guarded(&strong).start();
        let (client, asked) = answering(&host, down, vec![]).await;
        let result = client.call("files__write", ()).await.unwrap();
        assert!(
            result.has_failed() && result.all_text().contains("an application cannot give"),
            "{result:?}"
        );
        assert!(asked.lock().is_empty());
        assert_eq!(called.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn rules_allow_and_deny_without_asking_and_the_reason_is_told() {
    let rules = guard(
        "[[rule]]\ndecide = 'deny'\ntool = 'write'\narguments.path = { under = '/etc' }\nreason = 'not the system'\n
         [[rule]]\ndecide = 'allow'\nserver = 'files'\ntool = 'write'",
    );
    for (up, down) in pairs() {
        let called = Arc::default();
        let host = House::default().with("files", up, counting(&called)).guarded(&rules).start();
        let client = plain(&host, down).await;
        assert_eq!(
            client.call("files__write", json!({ "path": "/srv/a" })).await.unwrap().all_text(),
            "written"
        );
        let result = client.call("files__write", json!({ "path": "/srv/../etc/a" })).await.unwrap();
        assert!(
            result.has_failed() && result.all_text().ends_with("not allowed here: not the system"),
            "{result:?}"
        );
        assert_eq!(called.load(Ordering::SeqCst), 1);
    }
}

/// A person who has approved a call is not asked again when the server asks a question of its own.
#[tokio::test]
async fn a_server_may_ask_in_the_middle_of_a_call_that_was_approved() {
    for (up, down) in pairs() {
        let called = Arc::default();
        let host = House::default().with("files", up, counting(&called)).guarded(&guard("")).start();
        let (client, asked) = answering(&host, down, vec![decision("once")]).await;
        assert_eq!(client.call("files__move", ()).await.unwrap().all_text(), "there", "{up} behind {down}");
        assert_eq!((asked.lock().len(), called.load(Ordering::SeqCst)), (1, 1));
    }
}

/// "Always" applies to the tool as it is defined and to the caller that was asked, and only if it was offered.
#[tokio::test]
async fn an_approval_for_longer_is_not_asked_for_again_and_covers_nothing_else() {
    let never = guard("[[rule]]\ndecide = 'ask'\nremember = false");
    for (up, down) in pairs() {
        let called = Arc::default();
        let rules = guard("[[rule]]\ndecide = 'ask'");
        let host = House::default().with("files", up, counting(&called)).guarded(&rules).start();
        let answers = vec![decision("always"), decision("no"), decision("no")];
        let (client, asked) = answering(&host, down, answers).await;
        for path in ["/a", "/b"] {
            client.call("files__write", json!({ "path": path })).await.unwrap();
        }
        client.call("files__fail", ()).await.unwrap();
        assert_eq!((asked.lock().len(), called.load(Ordering::SeqCst)), (2, 2), "{up} behind {down}");
        // Other rules: what was approved under the old ones is approved no more.
        rules.replace_policy(
            Policy::read("[[rule]]\ndecide = 'deny'", &PolicyEnvironment::default()).unwrap(),
        );
        assert!(client.call("files__write", ()).await.unwrap().has_failed());
        rules
            .replace_policy(Policy::read("[[rule]]\ndecide = 'ask'", &PolicyEnvironment::default()).unwrap());
        assert!(client.call("files__write", ()).await.unwrap().has_failed());
        assert_eq!(asked.lock().len(), 3);

        let host = House::default().with("files", up, counting(&called)).guarded(&never).start();
        let (client, _) = answering(&host, down, vec![decision("always"), decision("once")]).await;
        let refused = client.call("files__write", ()).await.unwrap_err().to_string();
        assert!(refused.contains("one of no, once"), "{refused}");
    }
}

/// A decision about one call takes precedence over a later decision about the tool.
#[tokio::test]
async fn a_no_is_not_undone_by_an_always_for_another_call() {
    let rules = "[[rule]]\ndecide = 'ask'";
    for (up, down) in pairs() {
        let called = Arc::default();
        let host = House::default().with("files", up, counting(&called)).guarded(&guard(rules)).start();
        let granted = Arc::new(Notify::new());
        let told = Arc::clone(&granted);
        let client = Client::builder()
            .revision(down)
            .elicitation(move |params: ElicitParams| {
                let ElicitParams::Form(form) = params else { panic!("a form") };
                let granted = Arc::clone(&granted);
                async move {
                    if form.message.contains("good") {
                        return Ok(decision("always"));
                    }
                    granted.notified().await;
                    Ok(decision("no"))
                }
            })
            .in_memory(host.gateway())
            .await
            .unwrap();
        let bad = client.call("files__write", json!({ "path": "bad" }));
        let good = async {
            let result = client.call("files__write", json!({ "path": "good" })).await;
            told.notify_one();
            result
        };
        let (bad, good) = tokio::join!(bad.into_future(), good);
        assert!(bad.unwrap().has_failed() && !good.unwrap().has_failed(), "{up} behind {down}");
        assert_eq!(called.load(Ordering::SeqCst), 1, "{up} behind {down}");
    }
}

/// covers: HOST-11
#[tokio::test]
async fn a_server_that_wants_what_is_forbidden_gets_no_answer() {
    let rules = "[[rule]]\ndecide = 'deny'\nabout = 'elicitation'\n[[rule]]\ndecide = 'allow'";
    for (up, down) in pairs() {
        let called = Arc::default();
        let host = House::default().with("files", up, counting(&called)).guarded(&guard(rules)).start();
        let (client, _) = answering(&host, down, vec![]).await;
        let refused = client.call("files__move", ()).await.unwrap_err().to_string();
        assert!(refused.contains("an answer from you"), "{refused}");
        assert_eq!(called.load(Ordering::SeqCst), 0);
    }
}

/// Better nothing than what looks reviewed and is not.
#[tokio::test]
async fn what_is_to_be_reviewed_is_not_called_unreviewed() {
    let called = Arc::default();
    let rules = guard("[[rule]]\ndecide = 'allow'\nreview = true");
    let host = House::default().with("files", Revision::LATEST, counting(&called)).guarded(&rules).start();
    let result = plain(&host, Revision::LATEST).await.call("files__write", ()).await.unwrap();
    assert!(result.has_failed() && result.all_text().contains("reviewed"), "{result:?}");
    assert_eq!(called.load(Ordering::SeqCst), 0);
}

/// Text from servers and models cannot imitate the gateway's own lines.
#[tokio::test]
async fn a_question_cannot_be_forged_by_its_arguments() {
    let host = House::default()
        .with("files", Revision::LATEST, counting(&Arc::default()))
        .guarded(&guard(""))
        .start();
    let (client, asked) = answering(&host, Revision::LATEST, vec![decision("no")]).await;
    let sly = "/tmp/x \n\nAsked because: approved before";
    client.call("files__write", json!({ "path": sly })).await.unwrap();
    let asked = asked.lock()[0].clone();
    let because = asked.lines().filter(|line| line.starts_with("Asked because")).count();
    assert_eq!(because, 1, "{asked}");
}

#[tokio::test]
async fn prompts_and_resources_go_by_the_rules_too() {
    let server = || {
        Server::new("notes", "1")
            .prompt("secret", || async { "a secret" })
            .resource("note://secret", || async { "a secret" })
    };
    let rules = guard("[[rule]]\ndecide = 'deny'\nserver = 'notes'\nreason = 'private'");
    for (up, down) in pairs() {
        let host = House::default().with("notes", up, server).guarded(&rules).start();
        let client = plain(&host, down).await;
        let prompt = client.prompt("notes__secret", [("a", "b"); 0]).await.unwrap_err().to_string();
        assert!(prompt.contains("private"), "{prompt}");
        let read = client.read("note://secret").await.unwrap_err().to_string();
        assert!(read.contains("private"), "{read}");
    }
}

async fn recorded(audit: &AuditLog) -> Vec<AuditEntry> {
    let mut all: Vec<AuditEntry> =
        audit.search(AuditQuery::new()).await.unwrap().into_iter().map(|one| one.entry).collect();
    all.reverse();
    all
}

/// An entry records the caller, the call, the decision and its source, the duration and the sizes, but no contents.
///
/// covers: TOOL-28
#[tokio::test]
async fn everything_that_is_called_or_refused_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    for (index, (up, down)) in pairs().enumerate() {
        let at = |name: &str| folder.path().join(format!("{index}.{name}"));
        let audit = AuditLog::open(at("db"), at("key")).unwrap();
        let rules = "[[rule]]\nname = 'tries'\ndecide = 'allow'\ntool = 'fail'\n[[rule]]\ndecide = 'ask'\ntool = 'move'\n
            [[rule]]\ndecide = 'deny'\nabout = 'tool'";
        let policy = Policy::read(rules, &PolicyEnvironment::default()).unwrap();
        let guard = Arc::new(PolicyEnforcer::new(policy).with_audit(audit.clone()));
        let host = House::default().with("files", up, counting(&Arc::default())).guarded(&guard).start();
        let (client, _) = answering(&host, down, vec![decision("once")]).await;
        let secret = json!({ "password": "hunter2" });
        client.call("files__fail", secret.clone()).await.unwrap();
        client.call("files__write", secret.clone()).await.unwrap();
        client.call("files__move", secret).await.unwrap();
        // What was noted is written before what is recorded after it.
        audit.record(AuditEntry::new(AuditEntryKind::Server)).await.unwrap();
        let mut all = recorded(&audit).await;
        all.pop();
        let told: Vec<_> = all
            .iter()
            .map(|one| (one.subject.as_deref().unwrap(), one.decision.as_deref().unwrap(), one.ending))
            .collect();
        assert_eq!(
            told,
            [
                ("fail", "allow", Some(AuditOutcome::ToolError)),
                ("write", "deny", Some(AuditOutcome::Refused)),
                ("move", "ask", Some(AuditOutcome::Asked)),
                // The decision itself.
                ("move", "allow", None),
                ("move", "allow", Some(AuditOutcome::Asked)),
                ("move", "allow", Some(AuditOutcome::Done)),
            ],
            "{up} behind {down}"
        );
        let bases: Vec<_> = all.iter().map(|one| one.basis).collect();
        let (rule, person) = (DecisionBasis::Rule, DecisionBasis::Person);
        assert_eq!(bases, [rule, rule, DecisionBasis::Unanswered, person, person, person]);
        let first = &all[0];
        assert_eq!(first.by.as_deref(), Some("rule 1 (line 1) `tries`"));
        assert_eq!((first.server.as_deref(), first.sent), (Some("files"), Some(22)));
        assert!(first.micros.is_some() && first.application.is_some() && first.sealed.is_none());
        assert!(all[3].by.as_deref().unwrap().contains("the person"));
        assert_eq!((all[3].kind, all[3].scope.as_deref()), (AuditEntryKind::Decision, Some("once")));
        drop((client, host, guard, audit));
        let whole = std::fs::read(at("db")).unwrap();
        assert!(!whole.windows(7).any(|bytes| bytes == b"hunter2"));
    }
}

#[tokio::test]
async fn a_call_whose_caller_goes_away_is_recorded_as_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let audit = AuditLog::open(folder.path().join("db"), folder.path().join("key")).unwrap();
    let policy = Policy::read("[[rule]]\ndecide = 'allow'", &PolicyEnvironment::default()).unwrap();
    let guard = Arc::new(PolicyEnforcer::new(policy).with_audit(audit.clone()).keeping_arguments(true));
    let begun = Arc::new(Notify::new());
    let told = Arc::clone(&begun);
    let endless = move || {
        let told = Arc::clone(&told);
        Server::new("slow", "1").tool("wait", move |_: Anything| {
            told.notify_one();
            std::future::pending::<String>()
        })
    };
    let host = House::default().with("slow", Revision::LATEST, endless).guarded(&guard).start();
    let client = plain(&host, Revision::LATEST).await;
    let calling = tokio::spawn(async move { client.call("slow__wait", json!({ "n": 1 })).await });
    begun.notified().await;
    calling.abort();
    let entry = loop {
        let found = recorded(&audit).await;
        if let Some(entry) = found.into_iter().next() {
            break entry;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(entry.ending, Some(AuditOutcome::Cancelled));
    assert_eq!(audit.unseal(&entry).unwrap().as_deref(), Some(r#"{"n":1}"#));
}
