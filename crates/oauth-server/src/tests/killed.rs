//! A process that is killed in the middle of a request: each step of it is tried.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use hospes_auth_testkit::PATIENCE;
use http::StatusCode;

use super::watched::{Pause, Step, Steps, Watched};
use super::{APP, ASKED, Ask, Site};
use crate::{AuthStore, RecordKind, RegisteredClient, SqlAuthStore};

const NOW: u64 = 1_000_000;
/// More steps than any request has.
const MANY: usize = 40;

const STORE: &str = "HOSPES_TEST_STORE";
const STEP: &str = "HOSPES_TEST_STEP";
const PATH: &str = "HOSPES_TEST_PATH";
const TYPE: &str = "HOSPES_TEST_TYPE";
const BODY: &str = "HOSPES_TEST_BODY";

const REACHED: &str = "the step is reached";
const DONE: &str = "the request is done";

/// Stops permanently before one of its steps.
struct Stopping {
    left: AtomicUsize,
}

impl Steps for Stopping {
    fn before(&self, _: Step) -> Pause<'_> {
        Box::pin(async move {
            let left = self.left.fetch_sub(1, Ordering::Relaxed);
            if left == 0 {
                println!("\n{REACHED}");
                std::future::pending::<()>().await;
            }
        })
    }
}

fn open(path: &Path) -> (Site, Arc<dyn AuthStore>) {
    let store: Arc<dyn AuthStore> = Arc::new(SqlAuthStore::open(path).unwrap());
    (Site::on(Arc::clone(&store), |_| {}, Arc::new(NOW.into())), store)
}

/// Entry point of the child process that the other tests start and kill; not a test of its own.
#[tokio::test]
async fn the_child() {
    let Ok(path) = std::env::var(STORE) else { return };
    let said = |name: &str| std::env::var(name).unwrap();
    let inner = SqlAuthStore::open(path).unwrap();
    let left = AtomicUsize::new(said(STEP).parse().unwrap());
    let site = Site::on(Arc::new(Watched::new(inner, Stopping { left })), |_| {}, Arc::new(NOW.into()));
    let request = http::Request::post(said(PATH)).header("content-type", said(TYPE)).body(()).unwrap();
    site.send(request.into_parts().0, &said(BODY)).await;
    println!("\n{DONE}");
}

/// Has a child process answer the request and kills it before this step. Returns false if it had finished by then.
fn kill_at(step: usize, store: &Path, (path, kind, body): (&str, &str, &str)) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::killed::the_child", "--nocapture"])
        .env(STORE, store)
        .env(STEP, step.to_string())
        .envs([(PATH, path), (TYPE, kind), (BODY, body)])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let reached = wait(&mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    reached.expect("the process said nothing in time")
}

fn wait(child: &mut Child) -> Option<bool> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (send, said) = mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if let Some(reached) = [DONE, REACHED].iter().position(|known| line.contains(known)) {
                let _ = send.send(reached == 1);
            }
        }
    });
    said.recv_timeout(PATIENCE).ok()
}

fn form(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

const FORM: &str = "application/x-www-form-urlencoded";

/// A code works once even if its redemption is killed at any step, and nothing half done is left.
#[tokio::test]
async fn a_code_is_good_once_wherever_its_redemption_stops() {
    let mut taken = Vec::new();
    for step in 0..MANY {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.db");
        let (site, store) = open(&path);
        let asked = Ask::new();
        let code = site.code(&asked).await;
        let body = form(&[
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("code_verifier", asked.verifier.expose()),
            ("redirect_uri", ASKED),
            ("client_id", APP),
        ]);
        let killed = kill_at(step, &path, ("/token", FORM, &body));
        let first = site.redeem(&asked, &code).await;
        taken.push(first.status() != StatusCode::OK);
        site.pass(3);
        assert_eq!(site.redeem(&asked, &code).await.error().1, "invalid_grant", "step {step}");
        for kind in [RecordKind::Access, RecordKind::Refresh] {
            assert_eq!(store.count(kind).await.unwrap(), 0, "{kind:?} after step {step}");
        }
        if !killed {
            break;
        }
    }
    assert!(taken.len() > 3 && !taken[0] && taken[taken.len() - 1], "{taken:?}");
    assert!(taken.is_sorted(), "once it is taken it stays so: {taken:?}");
}

/// A client without a response repeats the request and gets a valid token: no token is lost between the old and the
/// new.
#[tokio::test]
async fn no_refresh_token_is_lost_wherever_its_redemption_stops() {
    let mut steps = 0;
    for step in 0..MANY {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.db");
        let (site, _) = open(&path);
        let (_, old) = site.tokens().await;
        let body = form(&[("grant_type", "refresh_token"), ("refresh_token", &old), ("client_id", APP)]);
        let killed = kill_at(step, &path, ("/token", FORM, &body));
        let (access, next) = site.refresh(&old, APP, &[]).await.tokens();
        assert!(site.is_good(&access).await, "step {step}");
        let (_, again) = site.refresh(&old, APP, &[]).await.tokens();
        assert_eq!(next, again, "one successor, step {step}");
        site.refresh(&next, APP, &[]).await.tokens();
        steps = step;
        if !killed {
            break;
        }
    }
    assert!((3..MANY - 1).contains(&steps), "{steps}");
}

/// A client is registered or it is not.
#[tokio::test]
async fn no_client_is_half_registered() {
    let mut known = Vec::new();
    for step in 0..MANY {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.db");
        let (_, store) = open(&path);
        let body = serde_json::json!({ "redirect_uris": [ASKED], "client_name": "An App" }).to_string();
        let killed = kill_at(step, &path, ("/register", "application/json", &body));
        let records = store.list(RecordKind::Client, NOW, 10).await.unwrap();
        for record in &records {
            let client: RegisteredClient = serde_json::from_str(&record.value).unwrap();
            assert_eq!((client.id.as_str(), client.name.as_deref()), (&*record.key, Some("An App")));
            assert!(client.secret.is_some() && !client.redirect_uris.is_empty());
        }
        known.push(records.len());
        if !killed {
            break;
        }
    }
    assert_eq!((known.first(), known.last()), (Some(&0), Some(&1)), "{known:?}");
}
