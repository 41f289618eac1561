//! Checks of a server and sign-ins, with commands that are scripted.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use super::additions::Lines;
use super::*;
use crate::{
    ConsoleEnvironment, FollowedCommand, FollowedOutcome, SetupCommand, SetupCommands, SetupOutcome,
};

/// Says one check, and then waits until nobody listens.
#[derive(Debug, Default)]
struct ScriptedCommands {
    asked: Mutex<Vec<FollowedCommand>>,
    running: Arc<AtomicUsize>,
    ended: Arc<Notify>,
    /// True if the command ends by itself.
    ends: bool,
}

impl SetupCommands for ScriptedCommands {
    fn run(&self, command: SetupCommand) -> SetupOutcome {
        Box::pin(async move { Err(format!("not asked for: {command:?}")) })
    }

    fn follow(&self, command: FollowedCommand, lines: mpsc::Sender<Value>) -> FollowedOutcome {
        self.asked.lock().push(command);
        self.running.fetch_add(1, Ordering::SeqCst);
        let (running, ended, ends) = (Arc::clone(&self.running), Arc::clone(&self.ended), self.ends);
        Box::pin(async move {
            lines.send(json!({ "event": "check", "code": "C01" })).await.unwrap();
            if !ends {
                lines.closed().await;
            }
            running.fetch_sub(1, Ordering::SeqCst);
            ended.notify_one();
            Ok(())
        })
    }
}

async fn house(ends: bool) -> (ConsoleServer, Arc<ScriptedCommands>, Host) {
    let text = "[servers.off]\ncommand = \"x\"\nenabled = false\n[servers.notes]\nbuiltin = \"notes\"";
    let config = ConfigLoader::new().parse("h.toml", text).unwrap();
    let notes = |_: &str, _: &[String]| Ok(hospes::BoxService::new(notes()));
    let host = Host::builder(config).builtins(Arc::new(notes)).start().unwrap();
    let commands = Arc::new(ScriptedCommands { ends, ..ScriptedCommands::default() });
    let environment = ConsoleEnvironment::default().setup(Arc::<ScriptedCommands>::clone(&commands));
    let deciders = DeciderSettings::new(DecisionSource::Browser);
    let console = Console::in_environment(&host, SessionLifetimes::default(), deciders, environment);
    (console.listen("127.0.0.1:0".parse().unwrap()).await.unwrap(), commands, host)
}

#[tokio::test]
async fn the_checks_of_a_server_are_told_as_they_end() {
    let (listening, commands, _host) = house(true).await;
    let browser = let_in(&listening).await;
    for name in ["notes", "off"] {
        let mut lines = Lines::open(&browser, &format!("/api/servers/{name}/check"), json!({})).await;
        assert_eq!(lines.next().await.unwrap()["code"], "C01");
        assert_eq!(lines.next().await.unwrap()["event"], "done");
        assert_eq!(lines.next().await, None);
    }
    let asked = ["notes", "off"].map(|name| FollowedCommand::CheckServer(name.to_owned()));
    assert_eq!(*commands.asked.lock(), asked);
    // The command would also take a URL or an application.
    for name in ["https:%2F%2Fe.example%2Fmcp", "cursor", "--codes"] {
        let refused = browser.post(&format!("/api/servers/{name}/check"), json!({})).await;
        assert_eq!((refused.status, refused.code()), (404, "nothing".to_owned()), "{name}");
    }
    for action in ["sign-in", "sign-out"] {
        let refused = browser.post(&format!("/api/servers/notes/{action}"), json!({})).await;
        assert_eq!((refused.status, refused.code()), (404, "nothing".to_owned()), "{action}");
    }
    let stranger = Browser { key: "x".to_owned(), ..browser };
    for action in ["check", "sign-in", "sign-out"] {
        let refused = stranger.post(&format!("/api/servers/notes/{action}"), json!({})).await;
        assert_eq!(refused.status, 401, "{action}");
    }
    assert_eq!(commands.asked.lock().len(), 2);
}

#[tokio::test]
async fn a_page_that_is_left_and_the_end_of_its_session_end_the_checks() {
    let (listening, commands, _host) = house(false).await;
    let browser = let_in(&listening).await;
    let mut checks = Vec::new();
    for _ in 0..4 {
        let mut lines = Lines::open(&browser, "/api/servers/notes/check", json!({})).await;
        lines.until("check").await;
        checks.push(lines);
    }
    let fifth = browser.post("/api/servers/notes/check", json!({})).await;
    assert_eq!((fifth.status, fifth.code()), (503, "too-many-commands".to_owned()));
    let is_left = async |count: usize| {
        let ended = async {
            while commands.running.load(Ordering::SeqCst) > count {
                commands.ended.notified().await;
            }
        };
        tokio::time::timeout(LIMIT, ended).await.expect("the checks end");
    };
    checks.pop();
    is_left(3).await;
    assert_eq!(browser.post("/api/sessions/end", json!({})).await.status, 200);
    is_left(0).await;
}
