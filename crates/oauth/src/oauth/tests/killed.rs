//! A process that is killed at each step of a sign-in, a renewal, or a write: what it leaves is of use, or not there.

use std::path::Path;
use std::process::Stdio;

use hospes_auth_testkit::PATIENCE;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::process::{Child, Command};

use super::*;
use crate::{FileCredentialStore, StoreKey};

/// Task and folder of the child process.
const WORK: &str = "HOSPES_TEST_KILLED";
/// Size of the text that is written repeatedly, in bytes.
const BULK: usize = 200_000;

fn store(folder: &Path) -> Arc<FileCredentialStore> {
    let key = StoreKey::Random(zeroize::Zeroizing::new([1; 32]));
    Arc::new(FileCredentialStore::new(folder.join("credentials"), key))
}

fn oauth(url: &str, now: u64, folder: &Path) -> OAuthClient {
    let client = GuardedClient::new(EgressPolicy::public().allow_loopback());
    let person = UnattendedSignIn::new(client, RedirectUri::new("http://127.0.0.1:41233/callback").unwrap());
    OAuthClient::builder(url)
        .unwrap()
        .clock(UnixClock::new(move || now))
        .sign_in(person)
        .store(store(folder))
        .build()
}

/// Does what the environment says, if this is such a process.
async fn is_child() -> bool {
    let Ok(work) = std::env::var(WORK) else { return false };
    let words: Vec<&str> = work.split('|').collect();
    match words[..] {
        ["write", folder] => {
            let store = store(Path::new(folder));
            for number in 0_u64.. {
                let text = format!("{number} {}", "x".repeat(BULK));
                store.write("tokens x", &text.into()).unwrap();
            }
        }
        [work, folder, url, now] => {
            let oauth = oauth(url, now.parse().unwrap(), Path::new(folder));
            let done = match work {
                "renew" => oauth.repair().await.map(drop),
                _ => oauth.sign_in(None).await.map(drop),
            };
            panic!("it was not killed: {done:?}");
        }
        _ => panic!("{work}"),
    }
    true
}

fn start(work: &str, test: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("oauth::tests::killed::{test}"), "--nocapture"]);
    child.env(WORK, work).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    child.spawn().unwrap()
}

/// Starts a process, and kills it when a request of it for `path` has come, or has been worked on.
async fn kill_at(site: &Site, work: &str, folder: &Path, path: &'static str, done: bool, test: &str) {
    site.script().stuck = Some((path, done));
    let now = site.now.load(Ordering::SeqCst);
    let mut child = start(&format!("{work}|{}|{}|{now}", folder.display(), site.mcp()), test);
    tokio::time::timeout(PATIENCE, site.is_stuck.notified())
        .await
        .unwrap_or_else(|_| panic!("{path}: nothing"));
    child.kill().await.unwrap();
    site.script().stuck = None;
}

const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
const SERVER: &str = "/.well-known/oauth-authorization-server";

#[tokio::test]
async fn a_sign_in_that_was_killed_leaves_nothing_half_done() {
    const TEST: &str = "a_sign_in_that_was_killed_leaves_nothing_half_done";
    if is_child().await {
        return;
    }
    for (path, done) in [
        (RESOURCE, false),
        (SERVER, false),
        ("/register", false),
        ("/register", true),
        ("/authorize", false),
        ("/authorize", true),
        ("/token", false),
        ("/token", true),
    ] {
        let (site, folder) = (Site::open().await, tempfile::tempdir().unwrap());
        kill_at(&site, "sign_in", folder.path(), path, done, TEST).await;
        let left = store(folder.path());
        assert!(left.names("tokens ").unwrap().is_empty(), "{path}");
        let registered = left.names("registration ").unwrap();
        let is_before = [RESOURCE, SERVER, "/register"].contains(&path);
        assert_eq!(registered.is_empty(), is_before, "{path}: what was said is kept before it is used");
        // The site accepts ids only that it has given.
        let now = site.now.load(Ordering::SeqCst);
        let tokens = oauth(&site.mcp(), now, folder.path()).sign_in(None).await.unwrap();
        let expected = if (path, done) == ("/register", true) { "new2" } else { "new1" };
        assert_eq!(tokens.client.id.as_str(), expected, "{path} {done}");
    }
}

#[tokio::test]
async fn a_renewal_that_was_killed_loses_nothing_that_was_still_good() {
    const TEST: &str = "a_renewal_that_was_killed_loses_nothing_that_was_still_good";
    if is_child().await {
        return;
    }
    for (path, done) in [(RESOURCE, false), ("/token", false), ("/token", true)] {
        let (site, folder) = (Site::open().await, tempfile::tempdir().unwrap());
        let now = site.now.load(Ordering::SeqCst);
        oauth(&site.mcp(), now, folder.path()).sign_in(None).await.unwrap();
        kill_at(&site, "renew", folder.path(), path, done, TEST).await;
        // Nobody holds the lock of who is gone.
        let after = oauth(&site.mcp(), now, folder.path());
        let kept = after.tokens().await.unwrap().unwrap();
        assert_eq!(kept.access.expose_secret(), "token1", "{path}");
        let repaired = tokio::time::timeout(PATIENCE, after.repair()).await.unwrap().unwrap();
        assert_eq!(repaired.tokens.client.id.as_str(), if done { "new2" } else { "new1" });
        let script = site.script();
        // Whether what the server has sent was received cannot be known; the refresh token it replaced is gone then.
        assert_eq!(script.authorizations, if done { 2 } else { 1 }, "{path} {done}");
    }
}

#[tokio::test]
async fn a_write_that_was_killed_leaves_the_old_or_the_new() {
    const TEST: &str = "a_write_that_was_killed_leaves_the_old_or_the_new";
    if is_child().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let steady = SecretString::from("steady".to_owned());
    store(folder.path()).write("registration y", &steady).unwrap();
    let read = || -> Option<u64> {
        let text = store(folder.path()).read("tokens x").unwrap()?;
        let (number, bulk) = text.expose_secret().split_once(' ').unwrap();
        assert_eq!(bulk.len(), BULK);
        Some(number.parse().unwrap())
    };
    for round in 0..12 {
        store(folder.path()).remove("tokens x").unwrap();
        let mut child = start(&format!("write|{}", folder.path().display()), TEST);
        let wait = async {
            loop {
                // Somewhere in the middle of a write, another one each time.
                if read().is_some_and(|number| number >= round % 3) {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap();
        child.kill().await.unwrap();
        let left = read().unwrap();
        let store = store(folder.path());
        assert_eq!(store.read("registration y").unwrap().unwrap().expose_secret(), "steady");
        // And it goes on, whatever lies beside it.
        store.write("tokens x", &format!("{} {}", left + 1, "x".repeat(BULK)).into()).unwrap();
        assert_eq!(read(), Some(left + 1));
    }
}
