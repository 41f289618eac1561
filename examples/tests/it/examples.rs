//! Every example against peers old and new, over both transports.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hospes::client::{CallError, ClientBuilder};
use hospes::model::{CreateMessageResult, ElicitResult, Revision, SamplingMessageContentBlock};
use hospes::prelude::*;
use hospes::transport::RevisionSet;
use hospes::transport::http_server::{Endpoint, HttpServer};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

const CALC: &str = env!("CARGO_BIN_EXE_calc");
const TRIPS: &str = env!("CARGO_BIN_EXE_trips");
const CLIENT: &str = env!("CARGO_BIN_EXE_client");

const REVISIONS: [Revision; 5] = [
    Revision::V2024_11_05,
    Revision::V2025_03_26,
    Revision::V2025_06_18,
    Revision::V2025_11_25,
    Revision::V2026_07_28,
];

/// Server for one test, which ends with the test.
struct Serving {
    url: String,
    _child: Child,
}

impl Serving {
    async fn start(program: &str) -> Self {
        let mut child = Command::new(program)
            .args(["--http", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is a pipe")).lines();
        let line = lines.next_line().await.expect("text").expect("it says where it listens");
        let url = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
        // Nobody reads the rest; a full pipe would hold the server up.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { url, _child: child }
    }
}

/// Runs the test over stdio and over HTTP, at each revision.
async fn everywhere(program: &str, test: impl AsyncFn(Target, Revision)) {
    let serving = Serving::start(program).await;
    for revision in REVISIONS {
        test(Target::command(program).into(), revision).await;
        // Before 2025-03-26 HTTP was another transport.
        if revision != Revision::V2024_11_05 {
            test(Target::url(&serving.url).into(), revision).await;
        }
    }
}

/// A client whose person takes the window and pays, and whose model says one line.
fn traveller(questions: &Arc<AtomicU32>) -> ClientBuilder {
    let questions = Arc::clone(questions);
    Client::builder()
        .elicitation(move |question| {
            questions.fetch_add(1, Ordering::Relaxed);
            async move {
                let content = if question.message().contains("seat") {
                    json!({ "value": "window" })
                } else {
                    json!({})
                };
                Ok::<_, Error>(ElicitResult::accept(content.into()))
            }
        })
        .sampling(|question| async move {
            assert_eq!(question.max_tokens, 60);
            let text = SamplingMessageContentBlock::text("All roads lead there.");
            Ok::<_, Error>(CreateMessageResult::new("scripted", text))
        })
}

#[tokio::test]
async fn the_ten_line_server_answers_everybody() {
    everywhere(CALC, async |target, revision| {
        let client = Client::builder().revision(revision).connect(target).await.unwrap();
        assert_eq!(client.revision(), revision);
        assert_eq!(client.instructions(), Some("Reckons."));
        let tools = client.tools().all().await.unwrap();
        assert_eq!(tools[0].description.as_deref(), Some("Adds two numbers."));
        let sum: f64 = client.call("add", json!({ "a": 1, "b": 2.5 })).await.unwrap().parse().unwrap();
        assert!((sum - 3.5).abs() < f64::EPSILON, "{sum}");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn questions_reach_the_person_at_every_revision() {
    everywhere(TRIPS, async |target, revision| {
        let questions = Arc::new(AtomicU32::new(0));
        let client = traveller(&questions).revision(revision).connect(target).await.unwrap();
        let booked = client.call("book", json!({ "train": "ICE 599" })).await;
        if revision < Revision::V2025_06_18 {
            // Nobody could be asked anything then, and the client is told so.
            let Err(CallError::Rpc(error)) = booked else { panic!("{revision}: {booked:?}") };
            assert!(error.message.contains("elicitation"), "{error}");
            assert_eq!(questions.load(Ordering::Relaxed), 0);
        } else {
            let text = booked.unwrap().all_text();
            assert!(text.contains("ICE 599, Window"), "{text}");
            assert_eq!(questions.load(Ordering::Relaxed), 2, "{revision}");
            // The booking was made once a call, though each handler ran three times.
            let again = client.call("book", json!({ "train": "ICE 599" })).await.unwrap().all_text();
            let number = |text: &str| text.split([' ', ':']).nth(1).unwrap().parse::<u32>().unwrap();
            assert_eq!(number(&again), number(&text) + 1, "{revision}");
        }
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn questions_reach_the_model_at_every_revision() {
    everywhere(TRIPS, async |target, revision| {
        let client = traveller(&Arc::default()).revision(revision).connect(target).await.unwrap();
        let described = client.call("describe", json!({ "city": "Rome" })).await.unwrap();
        assert_eq!(described.all_text(), "All roads lead there.", "{revision}");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn the_client_lists_and_calls() {
    let serving = Serving::start(CALC).await;
    for target in [CALC, &serving.url] {
        let listed = Command::new(CLIENT).arg(target).output().await.unwrap();
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert_eq!(text, "add: Adds two numbers.\n", "{}", String::from_utf8_lossy(&listed.stderr));
        let called = Command::new(CLIENT).args([target, "add", r#"{"a":1,"b":2}"#]).output().await.unwrap();
        assert_eq!(String::from_utf8_lossy(&called.stdout), "3\n");
        assert!(called.status.success());
    }
    let failed = Command::new(CLIENT).arg("no-such-program-anywhere").output().await.unwrap();
    assert!(!failed.status.success());
    assert!(String::from_utf8_lossy(&failed.stderr).contains("no-such-program-anywhere"));
}

/// The client detects the revision of a server, even if the server supports only the newest revision or only an old
/// one.
#[tokio::test]
async fn the_client_finds_old_servers_and_new_ones() {
    for revision in
        [Revision::V2025_03_26, Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28]
    {
        let server = Server::new("narrow", "1").tool("speaks", move || async move { revision.as_str() });
        let endpoint = Endpoint::builder(server).revisions(RevisionSet::only(revision)).build();
        let http = HttpServer::bind("127.0.0.1:0", endpoint).await.unwrap();
        let url = http.url();
        let serving = tokio::spawn(http.serve());
        let called = Command::new(CLIENT).args([url.as_str(), "speaks"]).output().await.unwrap();
        let said = String::from_utf8_lossy(&called.stderr);
        assert_eq!(String::from_utf8_lossy(&called.stdout), format!("{revision}\n"), "{said}");
        serving.abort();
    }
}
