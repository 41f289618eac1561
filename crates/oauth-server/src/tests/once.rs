//! Single-use operations under concurrency: over SQLite, at two nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::StatusCode;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio::runtime::Runtime;
use tokio::sync::Barrier;

use super::delegated::{self, THIRD, Third};
use super::{ASKED, Answer, Ask, Browser, Site};
use crate::{AuthStore, RecordKind, SqlAuthStore};

/// One who comes for it: at which node, and with what.
type Comer = (bool, bool);

fn comers() -> impl Strategy<Value = Vec<Comer>> {
    prop::collection::vec((any::<bool>(), any::<bool>()), 2..12)
}

/// All come at once.
async fn at_once<F: Future<Output = Answer> + Send + 'static>(
    all: &[Comer],
    come: impl Fn(Comer) -> F,
) -> Vec<Answer> {
    let start = Arc::new(Barrier::new(all.len()));
    let tasks = all.iter().map(|one| {
        let (start, coming) = (Arc::clone(&start), come(*one));
        tokio::spawn(async move {
            start.wait().await;
            coming.await
        })
    });
    let mut answers = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        answers.push(task.await.unwrap());
    }
    answers
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
}

fn open(folder: &tempfile::TempDir) -> Arc<dyn AuthStore> {
    Arc::new(SqlAuthStore::open(folder.path().join("auth.db")).unwrap())
}

fn check(test: impl Fn(&Runtime, Vec<Comer>)) {
    let runtime = runtime();
    let checked = TestRunner::new(ProptestConfig::with_cases(24)).run(&comers(), |all| {
        test(&runtime, all);
        Ok(())
    });
    checked.unwrap();
}

/// Returns the one response that redirects the browser to the client; the others are pages.
fn one_goes_back(answers: &[Answer]) -> &Answer {
    let mut back = answers.iter().filter(|answer| answer.back().is_some());
    let first = back.next().expect("one of them wins");
    assert!(back.next().is_none(), "and no other");
    for page in answers.iter().filter(|answer| answer.back().is_none()) {
        assert_eq!(page.status(), StatusCode::BAD_REQUEST, "{}", page.text());
    }
    assert_eq!(first.back().unwrap().0, ASKED);
    first
}

/// However often a user presses, and whatever: one press decides, and there is one code or none.
#[test]
fn a_request_that_waits_is_decided_once() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = {
        let time = Arc::new(1_000_000.into());
        [open(&folder), open(&folder)].map(|store| Site::on(store, |_| {}, Arc::clone(&time)))
    };
    let codes = AtomicUsize::new(0);
    check(|runtime, all| {
        runtime.block_on(async {
            let mut browser = Browser::new(&nodes[0]);
            let asked = Ask::new();
            let consent = browser.sign_in(&asked).await;
            let fields = [consent.hidden("request"), consent.hidden("csrf")];
            let cookie = browser.cookie.clone().unwrap();
            let answers = at_once(&all, |(first, allows)| {
                let (site, cookie) = (nodes[usize::from(first)].clone(), cookie.clone());
                let [request, csrf] = fields.clone();
                let decision = if allows { "allow" } else { "deny" };
                async move {
                    let fields = [("request", &*request), ("csrf", &*csrf), ("decision", decision)];
                    site.form_with("/consent", &fields, &[("cookie", &cookie)]).await
                }
            });
            let answers = answers.await;
            let won = one_goes_back(&answers).answer();
            assert!(
                won.contains_key("code") != (won.get("error").map(String::as_str) == Some("access_denied"))
            );
            let made = nodes[0].server.store().count(RecordKind::Code).await.unwrap();
            let before = codes.swap(made, Ordering::Relaxed);
            assert_eq!(made - before, usize::from(won.contains_key("code")), "no code that nobody was told");
            if let Some(code) = won.get("code") {
                nodes[1].redeem(&asked, code).await.tokens();
            }
        });
    });
}

/// However often a browser comes back from the provider: its code is handed in once, and one grant rests on it.
#[test]
fn an_answer_of_the_provider_is_taken_once() {
    let folder = tempfile::tempdir().unwrap();
    let third = Third::default();
    let nodes = {
        let time = Arc::new(1_000_000.into());
        [open(&folder), open(&folder)].map(|store| delegated::node(&third, store, &time))
    };
    let rest = AtomicUsize::new(0);
    check(|runtime, all| {
        runtime.block_on(async {
            let mut browser = Browser::new(&nodes[0]);
            let asked = Ask::new();
            let (away, cookie) = delegated::go_away(&mut browser, &asked).await;
            let code = third.sign_in(&away);
            let answers = at_once(&all, |(first, denies)| {
                let (code, state, cookie) = (code.clone(), away["state"].clone(), cookie.clone());
                let mut browser = Browser::new(&nodes[usize::from(first)]);
                browser.cookie.clone_from(&None);
                async move {
                    let said = if denies { ("error", "access_denied") } else { ("code", &*code) };
                    let fields = [said, ("state", &*state), ("iss", THIRD)];
                    delegated::come_back(&browser, Some(&cookie), &fields).await
                }
            });
            let answers = answers.await;
            let won = one_goes_back(&answers).answer();
            let kept = nodes[0].server.store().count(RecordKind::Upstream).await.unwrap();
            let before = rest.swap(kept, Ordering::Relaxed);
            assert_eq!(kept - before, usize::from(won.contains_key("code")));
            if let Some(code) = won.get("code") {
                nodes[1].redeem(&asked, code).await.tokens();
            }
        });
    });
}

/// Of many redemptions of one code, at most one gets tokens, and none keeps them after a later use. A single redemption
/// succeeds.
#[test]
fn a_code_is_redeemed_once() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = {
        let time = Arc::new(1_000_000.into());
        [open(&folder), open(&folder)].map(|store| Site::on(store, |_| {}, Arc::clone(&time)))
    };
    check(|runtime, all| {
        runtime.block_on(async {
            let asked = Arc::new(Ask::new());
            let code = nodes[0].code(&asked).await;
            let answers = at_once(&all, |(first, _)| {
                let (site, asked, code) =
                    (nodes[usize::from(first)].clone(), Arc::clone(&asked), code.clone());
                async move { site.redeem(&asked, &code).await }
            });
            let answers = answers.await;
            let won: Vec<_> = answers.iter().filter(|answer| answer.status() == StatusCode::OK).collect();
            assert_eq!(won.len(), 1, "{} have tokens", won.len());
            for answer in answers.iter().filter(|answer| answer.status() != StatusCode::OK) {
                assert_eq!(answer.error(), (400, "invalid_grant".to_owned()));
            }
        });
    });
}
