//! A host that is started again while a person decides: what they decide counts, for what it was about, once.

use std::sync::atomic::AtomicU32;

use hospes::model::{ElicitParams, Implementation, InputRequest};
use hospes::{PendingInput, Round};
use hospes_store::{AuditEntryKind, AuditLog, AuditQuery};

use super::guarded::{Anything, guard_on};
use super::*;
use crate::approvals::{Approval, ApprovalDecision, ApprovalScope, ApprovalState, ViewerRegistration};

const RULES: &str =
    "[[rule]]\ndecide = 'deny'\ntool = 'write'\narguments.path = { under = '/etc' }\nreason = 'not there'
    [[rule]]\ndecide = 'ask'\nstrong = true\n";

/// A machine: a state, and a server that notes what it was called with.
struct Machine {
    folder: tempfile::TempDir,
    up: Revision,
    called: Arc<Mutex<Vec<String>>>,
    is_other: Arc<AtomicU32>,
}

/// A host that runs on the machine, with a person at its console.
struct Runs {
    host: Host,
    guard: Arc<PolicyEnforcer>,
    _attendance: ViewerRegistration,
    /// True if the application can also show forms.
    has_forms: bool,
}

#[derive(serde::Deserialize, hospes::schemars::JsonSchema)]
#[schemars(crate = "hospes::schemars")]
struct Place {
    path: String,
}

impl Machine {
    fn new(up: Revision) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, up, called: Arc::default(), is_other: Arc::default() }
    }

    fn state(&self) -> StateStore {
        StateStore::open(self.folder.path().join("state.db")).unwrap()
    }

    async fn starts(&self, rules: &str) -> Runs {
        let guard = guard_on(rules, &self.state()).await;
        let (called, is_other) = (Arc::clone(&self.called), Arc::clone(&self.is_other));
        let server = move || {
            let called = Arc::clone(&called);
            let said = if is_other.load(Ordering::SeqCst) == 0 { "Writes." } else { "Another." };
            let tool = hospes::server::Tool::new("write").description(said);
            Server::new("files", "1").tool(tool, move |Args(args): Args<Place>| {
                called.lock().push(args.path);
                async { "written" }
            })
        };
        let host = House::default().with("files", self.up, server).guarded(&guard).start();
        let attendance = guard.approvals().register_viewer(Some("http://127.0.0.1:7338"));
        Runs { host, guard, _attendance: attendance, has_forms: false }
    }

    fn called(&self) -> Vec<String> {
        std::mem::take(&mut *self.called.lock())
    }
}

impl Runs {
    /// A call by an application that can show URLs.
    async fn call(&self, round: Round, path: &str) -> Outcome {
        self.call_of("files__write", round, path).await
    }

    async fn call_of(&self, name: &str, round: Round, path: &str) -> Outcome {
        let info = Implementation::new("editor", "1");
        let asks = if self.has_forms { json!({ "form": {}, "url": {} }) } else { json!({ "url": {} }) };
        let capabilities = serde_json::from_value(json!({ "elicitation": asks })).unwrap();
        let peer = hospes::Peer::new(Revision::LATEST, Some(info), capabilities);
        let context = Context::builder(Arc::new(peer)).round(round).build();
        let params = json!({ "name": name, "arguments": { "path": path } });
        self.host.gateway().call(Call::new(Method::ToolsCall, params.into(), context)).await
    }

    /// The question that a call leads to: the round to come back with once the person has been there, and the approval.
    async fn asks(&self, path: &str) -> (Round, Approval) {
        let Outcome::InputRequired(PendingInput { requests, mut round, .. }) =
            self.call(Round::default(), path).await
        else {
            panic!("a question")
        };
        let (key, InputRequest::Elicit(params)) = &requests[0] else { panic!("{requests:?}") };
        let ElicitParams::Url(params) = &**params else { panic!("{params:?}") };
        let approval = self.guard.approvals().pending().pop().unwrap();
        assert_eq!(params.url, format!("http://127.0.0.1:7338/approvals/{}", approval.id));
        round.record_answers([(key.clone(), json!({ "action": "accept" }).into())]);
        (round, approval)
    }

    async fn decides(&self, approval: &Approval, decision: ApprovalDecision) {
        self.guard.approvals().decide(&approval.id, decision, "me").await.unwrap();
    }
}

fn edited(path: &str) -> ApprovalDecision {
    ApprovalDecision::Allow { edited: Some(json!({ "path": path }).into()), scope: ApprovalScope::Once }
}

fn said(outcome: &Outcome) -> String {
    format!("{outcome:?}")
}

/// Decisions and events between the question and the next call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Allowed,
    Edited,
    Denied,
    Silence,
    RulesChanged,
    NowDenied,
    Blocked,
    AnotherTool,
    OtherArguments,
    Twice,
}

use Way::*;

const WAYS: [Way; 10] =
    [Allowed, Edited, Denied, Silence, RulesChanged, NowDenied, Blocked, AnotherTool, OtherArguments, Twice];

/// The host is started again before the person decides, after that, or both.
///
/// covers: HOST-07 HOST-08 HOST-09 HOST-13
#[tokio::test(start_paused = true)]
async fn a_decision_outlives_the_host_and_is_good_for_what_was_asked_and_once() {
    let mut wrong = Vec::new();
    for up in ERAS {
        for way in WAYS {
            for (before, after) in [(true, false), (false, true), (true, true)] {
                let machine = Machine::new(up);
                let mut runs = machine.starts(RULES).await;
                let (round, approval) = runs.asks("/srv/a").await;
                if before {
                    runs = machine.starts(RULES).await;
                }
                match way {
                    Silence => {}
                    Edited => {
                        let queue = runs.guard.approvals();
                        for (bad, why) in [("/etc/passwd", "not there"), ("", "")] {
                            let bad =
                                if bad.is_empty() { json!({ "path": 3 }) } else { json!({ "path": bad }) };
                            let bad = ApprovalDecision::Allow {
                                edited: Some(bad.into()),
                                scope: ApprovalScope::Once,
                            };
                            let refused =
                                queue.decide(&approval.id, bad, "me").await.unwrap_err().to_string();
                            assert!(refused.contains(why), "{refused}");
                        }
                        runs.decides(&approval, edited("/srv/b")).await;
                    }
                    Denied => runs.decides(&approval, ApprovalDecision::deny_because("wrong folder")).await,
                    Blocked => {
                        runs.decides(&approval, ApprovalDecision::allow()).await;
                        let (_, other) = runs.asks("/srv/c").await;
                        runs.decides(&other, ApprovalDecision::Deny { reason: None, block: true }).await;
                    }
                    _ => runs.decides(&approval, ApprovalDecision::allow()).await,
                }
                let rules = match way {
                    RulesChanged => format!("# by others\n{RULES}"),
                    NowDenied => "[[rule]]\ndecide = 'deny'".to_owned(),
                    _ => RULES.to_owned(),
                };
                if way == AnotherTool {
                    machine.is_other.store(1, Ordering::SeqCst);
                }
                if after {
                    runs = machine.starts(&rules).await;
                } else if way == AnotherTool {
                    continue;
                } else if rules != RULES {
                    runs.guard
                        .replace_policy(hospes_policy::Policy::read(&rules, &Default::default()).unwrap());
                }
                let path = if way == OtherArguments { "/srv/x" } else { "/srv/a" };
                let outcome = runs.call(round.clone(), path).await;
                let expected: &[&str] = match way {
                    Allowed | Twice => &["/srv/a"],
                    Edited => &["/srv/b"],
                    _ => &[],
                };
                let what = format!("{way:?}, {up}, {before}, {after}: {}", said(&outcome));
                if machine.called() != expected {
                    wrong.push(what.clone());
                }
                if way == Denied && !what.contains("the user denied it: wrong folder") {
                    wrong.push(what);
                }
                for queue in [runs, machine.starts(&rules).await] {
                    queue.call(round.clone(), "/srv/a").await;
                    if !machine.called().is_empty() {
                        wrong.push(format!("{way:?}, {up}: called again"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The reads of a session are lost with a restart, so the next host would not ask. The person's decision about the call
/// still counts.
#[tokio::test]
async fn what_was_asked_because_of_what_a_session_had_read_goes_by_its_decision_after_a_restart() {
    let rules = "[[rule]]\ndecide = 'allow'\n
        [[label]]\nserver = 'mail'\nprivate = true\nuntrusted = false\noutbound = false\n
        [[label]]\nserver = 'web'\noutbound = false\n";
    for (decision, sent) in
        [(Some(ApprovalDecision::deny()), 0), (None, 0), (Some(ApprovalDecision::allow()), 1)]
    {
        let machine = Machine::new(Revision::LATEST);
        let called = Arc::new(AtomicU32::new(0));
        let starts = async || {
            let guard = guard_on(rules, &machine.state()).await;
            let count = Arc::clone(&called);
            let house = ["mail", "web"].into_iter().fold(House::default(), |house, name| {
                house.with(name, Revision::LATEST, move || {
                    Server::new(name, "1").tool("read", |_: Anything| async { "text" })
                })
            });
            let house = house.with("post", Revision::LATEST, move || {
                let count = Arc::clone(&count);
                Server::new("post", "1").tool("send", move |_: Anything| {
                    count.fetch_add(1, Ordering::SeqCst);
                    async { "sent" }
                })
            });
            let host = house.guarded(&guard).start();
            let attendance = guard.approvals().register_viewer(Some("http://127.0.0.1:7338"));
            Runs { host, guard, _attendance: attendance, has_forms: false }
        };
        let runs = starts().await;
        for name in ["mail__read", "web__read"] {
            assert!(matches!(runs.call_of(name, Round::default(), "/a").await, Outcome::Complete(_)));
        }
        let asked = runs.call_of("post__send", Round::default(), "/a").await;
        let Outcome::InputRequired(PendingInput { requests, mut round, .. }) = asked else {
            panic!("{asked:?}")
        };
        round.record_answers([(requests[0].0.clone(), json!({ "action": "accept" }).into())]);
        let approval = runs.guard.approvals().pending().remove(0);
        let runs = starts().await;
        let calling = runs.call_of("post__send", round, "/a");
        match decision {
            Some(decision) => {
                runs.decides(&approval, decision).await;
                calling.await;
            }
            // It waits for the person.
            None => drop(tokio::time::timeout(Duration::from_millis(300), calling).await.unwrap_err()),
        }
        assert_eq!(called.load(Ordering::SeqCst), sent);
    }
}

/// Two hosts use one state database. The application asks one of them, and the person decides at the console of the
/// other. The call is made once, by the first host that is asked for it.
#[tokio::test]
async fn two_hosts_on_one_state_call_it_once_between_them() {
    for up in ERAS {
        let machine = Machine::new(up);
        let (one, other) = (machine.starts(RULES).await, machine.starts(RULES).await);
        for round in 0..5 {
            let (round, approval) = (one.asks(&format!("/srv/{round}")).await, round);
            let ((round, asked), path) = (round, format!("/srv/{approval}"));
            let seen = other.guard.approvals();
            seen.subscribe().wait_for(|_| seen.get(&asked.id).is_some()).await.unwrap();
            other.decides(&asked, ApprovalDecision::allow()).await;
            let mine = one.guard.approvals();
            let is_allowed =
                || mine.get(&asked.id).is_some_and(|approval| approval.state == ApprovalState::Allowed);
            mine.subscribe().wait_for(|_| is_allowed()).await.unwrap();
            let all = [&one, &other, &one, &other].map(|host| host.call(round.clone(), &path));
            let all = futures::future::join_all(all).await;
            assert_eq!(machine.called(), [path], "{all:?}");
            assert_eq!(all.iter().filter(|said_| said(said_).contains("\"written\"")).count(), 1);
        }
    }
}

/// Nothing is asked that cannot be stored, and no call is made whose approval cannot be used up.
#[tokio::test]
async fn without_the_state_nothing_is_asked_or_called() {
    let machine = Machine::new(Revision::LATEST);
    let runs = machine.starts(RULES).await;
    let (round, approval) = runs.asks("/srv/a").await;
    runs.decides(&approval, ApprovalDecision::allow()).await;
    let spoil = |sql: &str| {
        let file = machine.folder.path().join("state.db");
        rusqlite::Connection::open(file).unwrap().execute_batch(sql).unwrap();
    };
    spoil("ALTER TABLE matters RENAME TO away");
    for round in [Round::default(), round.clone()] {
        let outcome = said(&runs.call(round, "/srv/a").await);
        assert!(outcome.contains("cannot be written to the host's state"), "{outcome}");
    }
    assert!(machine.called().is_empty() && runs.guard.approvals().pending().is_empty());
    spoil("ALTER TABLE away RENAME TO matters");
    runs.call(round, "/srv/a").await;
    assert_eq!(machine.called(), ["/srv/a"]);
}

/// A call that needs no question reads and writes no state.
#[tokio::test]
async fn a_call_without_a_question_goes_without_the_state() {
    let machine = Machine::new(Revision::LATEST);
    let runs = machine.starts("[[rule]]\ndecide = 'allow'").await;
    let file = machine.folder.path().join("state.db");
    let held = rusqlite::Connection::open(file).unwrap();
    held.execute_batch("DROP TABLE matters; DROP TABLE grants; BEGIN EXCLUSIVE").unwrap();
    let outcome = tokio::time::timeout(Duration::from_secs(5), runs.call(Round::default(), "/srv/a")).await;
    assert!(said(&outcome.expect("it waits for the state")).contains("\"written\""));
}

/// The connection of an older application dies with the host, and so does what waits for it.
#[tokio::test]
async fn what_an_older_application_asked_is_withdrawn_when_the_host_ends() {
    for (elicits, ends_in_order) in [(true, true), (false, true), (true, false)] {
        let machine = Machine::new(Revision::LATEST);
        let files = ["audit.db", "audit.key"].map(|name| machine.folder.path().join(name));
        let audit = AuditLog::open(&files[0], &files[1]).unwrap();
        let policy = hospes_policy::Policy::read("", &Default::default()).unwrap();
        let queue = crate::ApprovalQueue::open(&machine.state()).await.unwrap();
        let _attendance = queue.register_viewer(None);
        let guard =
            Arc::new(PolicyEnforcer::new(policy).with_audit(audit.clone()).with_approvals(queue.clone()));
        let tool = || Server::new("files", "1").tool("write", |_: Anything| async { "written" });
        let host = House::default().with("files", Revision::LATEST, tool).guarded(&guard).start();
        let mut client = Client::builder().revision(Revision::LATEST_LEGACY);
        if elicits {
            client = client.elicitation(|_| std::future::pending());
        }
        let client = client.in_memory(host.gateway()).await.unwrap();
        let calling = tokio::spawn(async move { client.call("files__write", json!({ "path": "/a" })).await });
        queue.subscribe().wait_for(|_| !queue.pending().is_empty()).await.unwrap();
        let id = queue.pending()[0].id.clone();
        let next = crate::ApprovalQueue::open(&machine.state()).await.unwrap();
        assert!(next.pending().is_empty(), "nobody could come back for it");
        if ends_in_order {
            queue.shut_down().await;
            assert_eq!(queue.get(&id).unwrap().state, ApprovalState::Withdrawn);
            audit.record(hospes_store::AuditEntry::new(AuditEntryKind::Server)).await.unwrap();
            let found = audit.search(AuditQuery::new()).await.unwrap();
            let withdrawn =
                |one: &&hospes_store::RecordedEntry| one.entry.decision.as_deref() == Some("withdrawn");
            let entry = &found.iter().find(withdrawn).expect("the record says so").entry;
            assert_eq!(
                (entry.matter.as_deref(), entry.by.as_deref()),
                (Some(&*id), Some("the host, on shutdown"))
            );
        }
        calling.abort();
    }
}

/// A server whose tool asks something in the middle, and which could carry out what it reads.
async fn asking(machine: &Machine, rule: &str) -> Runs {
    let rules = format!(
        "data_flow = 'strong'\n[[rule]]\n{rule}\n[[rule]]\ndecide = 'allow'\n
        [[label]]\nserver = 'files'\nprivate = true\nuntrusted = true\noutbound = true\n"
    );
    let guard = guard_on(&rules, &machine.state()).await;
    let called = Arc::clone(&machine.called);
    let server = move || {
        let called = Arc::clone(&called);
        let read = hospes::server::Tool::new("read").read_only(true);
        let server = Server::new("files", "1").tool(read, |_: Anything| async { "private" });
        server.tool("write", move |ctx: Context, Args(args): Args<Place>| {
            let called = Arc::clone(&called);
            async move {
                let who: String = ctx.elicit("Who are you?").field("name").await?;
                called.lock().push(args.path);
                Ok::<_, Error>(who)
            }
        })
    };
    let host = House::default().with("files", machine.up, server).guarded(&guard).start();
    let attendance = guard.approvals().register_viewer(Some("http://127.0.0.1:7338"));
    Runs { host, guard, _attendance: attendance, has_forms: true }
}

impl Runs {
    async fn reads(&self) {
        let read = self.call_of("files__read", Round::default(), "/a").await;
        assert!(matches!(read, Outcome::Complete(_)), "{read:?}");
    }

    /// The round that answers the server's question, after the call was approved in another form.
    async fn approved_and_asked(&self) -> Round {
        let (round, approval) = self.asks("/a").await;
        self.decides(&approval, edited("/b")).await;
        let asked = self.call(round, "/a").await;
        let Outcome::InputRequired(PendingInput { requests, mut round, .. }) = asked else {
            panic!("{asked:?}")
        };
        let answer = json!({ "action": "accept", "content": { "name": "zoe" } });
        round.record_answers([(requests[0].0.clone(), answer.into())]);
        round
    }
}

/// An edited call keeps its edit in every round. This holds even if a person would no longer be asked, because the
/// reads of the session are lost.
#[tokio::test]
async fn a_later_round_of_what_was_approved_goes_as_it_was_approved() {
    let machine = Machine::new(Revision::LATEST);
    let runs = asking(&machine, "decide = 'allow'").await;
    runs.reads().await;
    let round = runs.approved_and_asked().await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(13 * 3600)).await;
    tokio::time::resume();
    let outcome = runs.call(round, "/a").await;
    assert!(said(&outcome).contains("zoe"), "{outcome:?}");
    assert_eq!(machine.called(), ["/b"]);
}

/// An approval does not cover data that was read after it was given.
#[tokio::test]
async fn a_later_round_does_not_carry_out_what_was_read_since_it_was_approved() {
    for is_tainted in [false, true] {
        let machine = Machine::new(Revision::LATEST);
        let runs = asking(&machine, "tool = 'write'\ndecide = 'ask'\nstrong = true").await;
        let round = runs.approved_and_asked().await;
        if is_tainted {
            runs.reads().await;
        }
        let outcome = runs.call(round, "/a").await;
        assert_eq!(said(&outcome).contains("since it was approved"), is_tainted, "{outcome:?}");
        let wanted: &[&str] = if is_tainted { &[] } else { &["/b"] };
        assert_eq!(machine.called(), wanted);
    }
}
