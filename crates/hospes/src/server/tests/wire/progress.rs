//! Progress: how much of it, and until when.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::*;

fn reporting() -> Server {
    Server::new("x", "1")
        .tool("flood", |ctx: Context| async move {
            for n in 1..=10_000 {
                ctx.progress(f64::from(n), Some(10_000.0), Some(&format!("{n} done")));
            }
        })
        .tool("burst", |ctx: Context| async move {
            for n in 1..=200 {
                ctx.progress(f64::from(n), None, None);
            }
            sleep(Duration::from_secs(15)).await;
        })
        .tool("steady", |ctx: Context| async move {
            for n in 1..=10_000 {
                ctx.progress(f64::from(n), None, None);
                sleep(Duration::from_millis(1)).await;
            }
        })
}

/// A call that wants to hear of its progress.
fn call(revision: &str, name: &str) -> Value {
    let params = json!({ "name": name, "_meta": { "progressToken": "t" } });
    if revision == "2026-07-28" { modern(1, "tools/call", params) } else { request(1, "tools/call", params) }
}

async fn opened(server: &Server, revision: &str) -> Peer {
    let mut peer = peer(server);
    if revision != "2026-07-28" {
        peer.open(revision).await;
    }
    peer
}

fn steps(messages: &[Value]) -> Vec<u64> {
    messages
        .iter()
        .map(|message| {
            assert_eq!(message["method"], "notifications/progress", "{message}");
            assert_eq!(message["params"]["progressToken"], "t");
            message["params"]["progress"].as_u64().unwrap()
        })
        .collect()
}

/// covers: PROG-09 PROG-11
#[tokio::test(start_paused = true)]
async fn a_flood_of_progress_is_thinned_out_and_its_last_report_is_sent() {
    for revision in OLDER.into_iter().chain(["2026-07-28"]) {
        let mut peer = opened(&reporting(), revision).await;
        peer.send(call(revision, "flood")).await;
        let (said, answer) = until_answer(&mut peer).await;
        assert!(answer["error"].is_null(), "{answer}");
        let steps = steps(&said);
        assert!(steps.is_sorted() && (90..=110).contains(&steps.len()), "{revision}: {}", steps.len());
        assert_eq!(steps.last(), Some(&10_000));
        // 2024-11-05 has no words for it.
        let words = (revision != "2024-11-05").then_some("10000 done");
        assert_eq!(said.last().unwrap()["params"]["message"].as_str(), words, "{revision}");
    }
    let mut peer = opened(&reporting(), "2026-07-28").await;
    let began = Instant::now();
    peer.send(call("2026-07-28", "steady")).await;
    let (said, _) = until_answer(&mut peer).await;
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    let steps = steps(&said);
    assert!((100 + 15 * seconds..=105 + 21 * seconds).contains(&steps.len()), "{} in {seconds}", steps.len());
    assert_eq!(steps.last(), Some(&10_000));
}

/// A held report is sent in time, not only at the end.
#[tokio::test(start_paused = true)]
async fn the_last_report_before_a_silence_is_sent_in_time() {
    let mut peer = opened(&reporting(), "2026-07-28").await;
    let began = Instant::now();
    peer.send(call("2026-07-28", "burst")).await;
    while peer.read().await["params"]["progress"] != 200 {}
    assert!(began.elapsed() < Duration::from_secs(10));
    let (said, _) = until_answer(&mut peer).await;
    assert_eq!(said, [] as [Value; 0]);
    // And the rate is the server's to set.
    let server = reporting().progress_rate(Rate::per_second(1).burst(1));
    let mut peer = opened(&server, "2026-07-28").await;
    peer.send(call("2026-07-28", "flood")).await;
    assert_eq!(steps(&until_answer(&mut peer).await.0), [1, 10_000]);
}

/// covers: PROG-10
#[tokio::test]
async fn nothing_is_reported_behind_the_answer() {
    let (go, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (first, second) = (go.clone(), gone.clone());
    let server = Server::new("x", "1").tool("leaves", move |ctx: Context| {
        let (go, gone) = (first.clone(), second.clone());
        async move {
            ctx.progress(1.0, None, None);
            tokio::spawn(async move {
                go.notified().await;
                for n in 2..100 {
                    ctx.progress(f64::from(n), None, None);
                }
                gone.notify_one();
            });
        }
    });
    for revision in OLDER.into_iter().chain(["2026-07-28"]) {
        let mut peer = opened(&server, revision).await;
        peer.send(call(revision, "leaves")).await;
        let (said, _) = until_answer(&mut peer).await;
        assert_eq!(steps(&said), [1]);
        go.notify_one();
        gone.notified().await;
        match revision {
            "2026-07-28" => peer.silence_modern().await,
            _ => peer.silence().await,
        }
    }
}
