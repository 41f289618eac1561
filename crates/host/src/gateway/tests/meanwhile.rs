//! Changes between a question and its answer, and state that cannot be stored: in these cases the call is not made.

use std::sync::atomic::AtomicU32;

use hospes::{PendingInput, Round};
use hospes_policy::{Policy, PolicyEnvironment};
use hospes_store::AuditLog;

use super::deny_paths::peer;
use super::guarded::{Anything, answering, counting, decision, guard, guard_on, pairs};
use super::*;
use crate::approvals::{Approval, ApprovalDecision};
use crate::pins::{ItemKind, PinState};

fn read(rules: &str) -> Policy {
    Policy::read(rules, &PolicyEnvironment::default()).unwrap()
}

async fn asked(guard: &PolicyEnforcer) -> Approval {
    let queue = guard.approvals();
    let mut changes = queue.subscribe();
    let there = changes.wait_for(|_| !queue.pending().is_empty());
    tokio::time::timeout(Duration::from_secs(20), there).await.expect("nothing is asked").unwrap();
    queue.pending().remove(0)
}

/// A tool that became another while the person looked at what it was: their yes was for that.
#[tokio::test]
async fn a_tool_that_became_another_while_it_was_asked_about_is_not_called() {
    for up in ERAS {
        let folder = tempfile::tempdir().unwrap();
        let state = StateStore::open(folder.path().join("state.db")).unwrap();
        let called = Arc::<AtomicU32>::default();
        let server = counting(&called)();
        let handle = server.handle();
        let guard = Arc::new(PolicyEnforcer::new(read("[[rule]]\ndecide = 'ask'\nabout = 'tool'")));
        let host = House::default()
            .with("files", up, move || server.clone())
            .guarded(&guard)
            .pinned(&state, PinMode::FirstUse)
            .start();
        let client = plain(&host, Revision::LATEST).await;
        client.tools().all().await.unwrap();
        let _attendance = guard.approvals().register_viewer(None);
        let calling = async || client.call("files__write", json!({ "path": "/a" })).await.unwrap();
        // The control.
        let allowing = async {
            guard.approvals().decide(&asked(&guard).await.id, ApprovalDecision::allow(), "me").await.unwrap();
        };
        assert!(!tokio::join!(calling(), allowing).0.has_failed(), "{up}");
        assert_eq!(called.load(Ordering::SeqCst), 1, "{up}");

        let meanwhile = async {
            let approval = asked(&guard).await;
            handle.remove_tool("write");
            let told = Arc::clone(&called);
            let another = hospes::server::Tool::new("write").description("Another.");
            let run = move |_: Anything| {
                told.fetch_add(1, Ordering::SeqCst);
                async { "done" }
            };
            handle.add_tool(another, run).unwrap();
            let seen = async {
                let pins = host.pins().unwrap();
                let mut changes = pins.changes();
                while !pins
                    .difference("files", ItemKind::Tool, "write")
                    .await
                    .is_ok_and(|found| found.item.state == PinState::Changed)
                {
                    changes.changed().await.unwrap();
                }
            };
            tokio::time::timeout(Duration::from_secs(20), seen).await.expect("the change is not seen");
            guard.approvals().decide(&approval.id, ApprovalDecision::allow(), "me").await.unwrap();
        };
        let result = tokio::join!(calling(), meanwhile).0;
        assert!(
            result.has_failed() && result.all_text().contains("has changed its definition"),
            "{result:?}"
        );
        assert_eq!(called.load(Ordering::SeqCst), 1, "{up}");
    }
}

/// A call that cannot be recorded is not made, regardless of rules and approvals, until recording works again.
#[tokio::test]
async fn nothing_is_called_while_it_cannot_be_recorded() {
    for up in ERAS {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.db");
        let audit = AuditLog::open(&file, folder.path().join("key")).unwrap();
        let guard = Arc::new(PolicyEnforcer::new(read("[[rule]]\ndecide = 'allow'")).with_audit(audit));
        let called = Arc::<AtomicU32>::default();
        let host = House::default().with("files", up, counting(&called)).guarded(&guard).start();
        let client = plain(&host, Revision::LATEST).await;
        let call = async || client.call("files__write", json!({ "path": "/a" })).await.unwrap();
        assert!(!call().await.has_failed(), "{up}");
        let spoiled = rusqlite::Connection::open(&file).unwrap();
        spoiled.execute_batch("ALTER TABLE blocks RENAME TO elsewhere").unwrap();
        // Those that are under way when it breaks are let through: that they were cannot be written any more.
        let mut last = call().await;
        for _ in 0..200 {
            if last.has_failed() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            last = call().await;
        }
        assert!(last.all_text().contains("cannot be recorded"), "{up}: {last:?}");
        let before = called.load(Ordering::SeqCst);
        for _ in 0..5 {
            assert!(call().await.has_failed(), "{up}");
        }
        assert_eq!(called.load(Ordering::SeqCst), before, "{up}");
        spoiled.execute_batch("ALTER TABLE elsewhere RENAME TO blocks").unwrap();
        assert!(!call().await.has_failed(), "{up}: it can be again");
    }
}

/// Two sessions of one application ask for the same call. Each answer applies to its own session.
#[tokio::test]
async fn what_is_said_in_another_session_of_the_same_application_is_not_said_in_this_one() {
    for (up, down) in pairs() {
        for (said, calls) in [("no", 1), ("once", 2)] {
            let (called, guard) = (Arc::<AtomicU32>::default(), guard(""));
            let host = House::default().with("files", up, counting(&called)).guarded(&guard).start();
            let go = Arc::new(Notify::new());
            let wait = Arc::clone(&go);
            let first = Client::builder()
                .revision(down)
                .elicitation(move |_| {
                    let wait = Arc::clone(&wait);
                    async move {
                        wait.notified().await;
                        Ok(decision(said))
                    }
                })
                .in_memory(host.gateway())
                .await
                .unwrap();
            let (second, _) = answering(&host, down, vec![decision("once")]).await;
            let arguments = || json!({ "path": "/srv/a" });
            let both = async {
                let open = asked(&guard).await.id;
                assert!(
                    !second.call("files__write", arguments()).await.unwrap().has_failed(),
                    "{up}, {down}"
                );
                assert_eq!(called.load(Ordering::SeqCst), 1, "{up}, {down}");
                let left: Vec<_> =
                    guard.approvals().pending().into_iter().map(|approval| approval.id).collect();
                assert_eq!(left, [open], "{up}, {down}: the first still waits");
                go.notify_one();
            };
            let call = async { first.call("files__write", arguments()).await.unwrap() };
            let (result, ()) = tokio::join!(call, both);
            assert_eq!(result.has_failed(), calls == 1, "{up}, {down}, {said}: {result:?}");
            assert_eq!(called.load(Ordering::SeqCst), calls, "{up}, {down}, {said}");
        }
    }
}

/// Change of a server between a question and its approval.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Becomes {
    Same,
    /// It runs again, as it was.
    Again,
    /// It runs again, and its tool is another.
    Another,
    /// Another command stands under its name in the configuration.
    OtherTarget,
    /// It has the same tools, under another name.
    OtherName,
    /// The host has stopped.
    Stopped,
}

use Becomes::*;

/// A server whose tool has this description.
fn described(
    called: &Arc<AtomicU32>,
    is_other: &Arc<AtomicBool>,
) -> impl Fn() -> Server + Send + Sync + 'static {
    let (called, is_other) = (Arc::clone(called), Arc::clone(is_other));
    move || {
        let told = Arc::clone(&called);
        let said = if is_other.load(Ordering::SeqCst) { "Another." } else { "Writes." };
        Server::new("files", "1").tool(hospes::server::Tool::new("write").description(said), move || {
            told.fetch_add(1, Ordering::SeqCst);
            async { "written" }
        })
    }
}

fn write(host: &Host, name: &str, elicits: bool, round: Round) -> tokio::task::JoinHandle<Outcome> {
    let context = Context::builder(Arc::new(peer("editor", None, elicits))).round(round).build();
    let call = Call::new(Method::ToolsCall, json!({ "name": name, "arguments": {} }).into(), context);
    let gateway = host.gateway();
    tokio::spawn(async move { gateway.call(call).await })
}

/// The application comes back with its person's yes to a host that was started again meanwhile, perhaps with another
/// configuration.
#[tokio::test]
async fn a_yes_that_an_application_brings_back_is_for_the_server_that_was_asked_about() {
    let mut wrong = Vec::new();
    let cases = [Same, Again, Another, OtherTarget, OtherName];
    for (up, is_kept) in ERAS.into_iter().flat_map(|up| [(up, false), (up, true)]) {
        for becomes in cases {
            let folder = tempfile::tempdir().unwrap();
            let state = StateStore::open(folder.path().join("state.db")).unwrap();
            let (called, is_other) = (Arc::default(), Arc::default());
            let same = guard("");
            let start = async |name: &str, is_command: bool| {
                // With the same guard, or with another one on the state that the first one left.
                let guard = if is_kept { guard_on("", &state).await } else { Arc::clone(&same) };
                let house = House::default().with(name, up, described(&called, &is_other)).guarded(&guard);
                if is_command { house.pinned(&state, PinMode::Off) } else { house }.start()
            };
            let mut host = start("files", false).await;
            let asked = write(&host, "files__write", true, Round::default()).await.unwrap();
            let Outcome::InputRequired(PendingInput { requests, mut round, .. }) = asked else {
                panic!("{becomes:?}: {asked:?}")
            };
            let yes = json!({ "action": "accept", "content": { "decision": "once" } });
            round.record_answers([(requests[0].0.clone(), RawJson::from(yes))]);
            let name = if becomes == OtherName { "others" } else { "files" };
            if becomes != Same {
                host.stop().await;
                is_other.store(becomes == Another, Ordering::SeqCst);
                host = start(name, becomes == OtherTarget).await;
            }
            let said = write(&host, &format!("{name}__write"), true, round).await.unwrap();
            let expected = u32::from(matches!(becomes, Same | Again));
            if called.load(Ordering::SeqCst) != expected {
                wrong.push(format!("{up}, {becomes:?}, kept {is_kept}: {said:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// An approval in the queue applies to the server that was asked about; this does not depend on pinning.
#[tokio::test]
async fn a_yes_at_the_desk_is_for_the_server_that_was_asked_about() {
    let mut wrong = Vec::new();
    for up in ERAS {
        for becomes in [Same, Again, Another, Stopped] {
            let (called, is_other) = (Arc::default(), Arc::<AtomicBool>::default());
            let guard = guard("");
            let house = House::default().with("files", up, described(&called, &is_other)).guarded(&guard);
            let made = house.made("files");
            let mut host = Some(house.start());
            // What it offers is known before; else the call waits with a connection of its own.
            let listing = plain(host.as_ref().unwrap(), Revision::LATEST).await;
            assert_eq!(listing.tools().all().await.unwrap().len(), 1);
            drop(listing);
            let _attendance = guard.approvals().register_viewer(None);
            let calling = write(host.as_ref().unwrap(), "files__write", false, Round::default());
            let approval = asked(&guard).await;
            match becomes {
                Again | Another => {
                    let before = made.lock().len();
                    is_other.store(becomes == Another, Ordering::SeqCst);
                    host.as_ref().unwrap().restart("files").unwrap();
                    let again = async {
                        while made.lock().len() == before {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                    };
                    tokio::time::timeout(Duration::from_secs(20), again).await.expect("not started again");
                }
                Stopped => host.take().unwrap().stop().await,
                _ => {}
            }
            let _gone = guard.approvals().decide(&approval.id, ApprovalDecision::allow(), "me").await;
            let said =
                tokio::time::timeout(Duration::from_secs(60), calling).await.expect("it ends").unwrap();
            let expected = u32::from(matches!(becomes, Same | Again));
            if called.load(Ordering::SeqCst) != expected {
                wrong.push(format!("{up}, {becomes:?}: {said:?}"));
            }
            assert!(guard.approvals().pending().is_empty(), "{up}, {becomes:?}");
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
