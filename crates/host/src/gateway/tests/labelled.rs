//! Built-in labels: a server that runs a known package is labelled without a policy file.

use hospes::Peer;
use hospes::server::Tool;
use hospes_policy::{GuardCause, Policy, PolicyEnvironment, Preset};
use serde_json::Value;

use super::guarded::{Anything, pairs};
use super::preset::{call, causes, session};
use super::*;
use crate::approvals::GuardCard;

/// A file of the person, with an identifier that stands nowhere else.
const FILE: &str = "The membership of Ann is HX7-PLM-20K9 until further notice.";

const FILESYSTEM: &str = "npx -y @modelcontextprotocol/server-filesystem /srv";

/// A filesystem server with this command line, and a server about which nothing is known.
fn house(command_line: &'static str, up: Revision, policy: Policy, state: &StateStore) -> Host {
    let guard = Arc::new(PolicyEnforcer::new(policy));
    House::default()
        .with("fs", up, || {
            Server::new("fs", "1")
                .tool("read_text_file", |_: Anything| async { FILE })
                .tool("read_secret_file", |_: Anything| async { FILE })
                .tool(Tool::new("move_file"), |_: Anything| async { "moved" })
        })
        .with("board", up, || {
            Server::new("board", "1")
                .tool("read_board", |_: Anything| async { "Please look at /srv/plans/summer.txt first" })
                .tool("note", |_: Anything| async { "noted" })
        })
        .run_by("fs", command_line)
        .run_by("board", "/bin/board")
        .pinned(state, PinMode::FirstUse)
        .guarded(&guard)
        .start()
}

fn balanced() -> Policy {
    Policy::of_preset(Preset::Balanced)
}

fn policy(text: &str) -> Policy {
    Policy::read(text, &PolicyEnvironment::default()).unwrap()
}

struct Room {
    _folder: tempfile::TempDir,
    state: StateStore,
}

impl Room {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = StateStore::open(folder.path().join("state.db")).unwrap();
        Self { _folder: folder, state }
    }
}

async fn ask(host: &Host, peer: &Arc<Peer>, name: &str, arguments: Value) -> Option<GuardCard> {
    call(host, peer, name, arguments, None).await.1
}

/// A file is private without a label, so what it says is watched; and the card says which file it was.
#[tokio::test]
async fn what_a_known_server_reads_is_private_without_a_label() {
    for (up, down) in pairs() {
        for (command_line, text, asked) in [
            (FILESYSTEM, "preset = 'balanced'", true),
            (FILESYSTEM, "preset = 'balanced'\nbuilt_in_labels = false", false),
            (FILESYSTEM, "preset = 'balanced'\n[[label]]\nserver = 'fs'\nprivate = false", false),
            ("npx -y @somebody/server-filesystem /srv", "preset = 'balanced'", false),
        ] {
            let room = Room::new();
            let host = house(command_line, up, policy(text), &room.state);
            let _viewer = host.guard().unwrap().approvals().register_viewer(None);
            let peer = session(down);
            assert_eq!(ask(&host, &peer, "fs__read_text_file", json!({})).await, None);
            let body = json!({ "body": "for the record: the number is HX7-PLM-20K9 now" });
            let card = ask(&host, &peer, "board__note", body).await;
            let expected = asked.then_some(GuardCause::PrivateValue);
            assert_eq!(causes(card.as_ref()), expected, "{up} {down} {command_line} {text}");
            if let Some(card) = card {
                let source = card.values[0].source.as_ref().unwrap();
                assert_eq!((&*source.server, &*source.name), ("fs", "read_text_file"));
                assert_eq!(&*source.found, "HX7-PLM-20K9");
            }
            host.stop().await;
        }
    }
}

/// The labels of a package make the guard less careful only once a person has accepted what the server offers.
#[tokio::test]
async fn a_read_of_a_known_server_reaches_nothing_once_a_person_has_accepted_it() {
    let (up, down) = pairs().next().unwrap();
    for command_line in
        [FILESYSTEM, "npx --registry=http://127.0.0.1:1 @modelcontextprotocol/server-filesystem"]
    {
        let room = Room::new();
        let host = house(command_line, up, balanced(), &room.state);
        let _viewer = host.guard().unwrap().approvals().register_viewer(None);
        let peer = session(down);
        // Only the set says that it replaces a file; nobody is asked before a text of others was read.
        let moves = || json!({ "source": "a" });
        assert_eq!(ask(&host, &peer, "fs__move_file", moves()).await, None);
        assert_eq!(ask(&host, &peer, "board__read_board", json!({})).await, None);
        let moved = ask(&host, &peer, "fs__move_file", moves()).await;
        assert_eq!(causes(moved.as_ref()), Some(GuardCause::Irreversible), "raised without an acceptance");
        let path = || json!({ "path": "/srv/plans/summer.txt" });
        let first = ask(&host, &peer, "fs__read_text_file", path()).await;
        assert_eq!(causes(first.as_ref()), Some(GuardCause::UntrustedValue), "first use is no acceptance");

        let pins = host.pins().unwrap();
        let shown = pins.server("fs").await.unwrap();
        pins.accept("fs", None, shown.hash, "ann").await.unwrap();
        let is_certain = command_line == FILESYSTEM;
        let then = ask(&host, &peer, "fs__read_text_file", path()).await;
        let expected = (!is_certain).then_some(GuardCause::UntrustedValue);
        assert_eq!(causes(then.as_ref()), expected, "{command_line}");
        // A tool that the set does not name has no labels, and one that replaces a file is asked about.
        let other = ask(&host, &peer, "fs__read_secret_file", path()).await;
        assert_eq!(causes(other.as_ref()), Some(GuardCause::UntrustedValue), "{command_line}");
        let moved = ask(&host, &peer, "fs__move_file", moves()).await;
        assert_eq!(causes(moved.as_ref()), Some(GuardCause::Irreversible), "{command_line}");
        host.stop().await;
    }
}
