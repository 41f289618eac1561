//! Our client, timed: `tools/call` of `echo` against a server of the caller's choice.
//!
//! ```text
//! hospes-bench-client http URL INFLIGHT SECS [--modern]
//! hospes-bench-client stdio INFLIGHT SECS COMMAND...
//! ```
//!
//! One client object carries all calls. It warms up for a second and prints one line of JSON.

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hospes::client::{Client, Target};
use hospes::model::{ContentBlock, Era, Revision};
use serde::Serialize;
use tokio::task::LocalSet;

const USAGE: &str = "hospes-bench-client http URL INFLIGHT SECS [--modern] | stdio INFLIGHT SECS COMMAND...";
const WARM_UP: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct EchoArguments<'a> {
    text: &'a str,
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // Both eras are measured against the same server, so the era is said, not found out.
    let (target, era, inflight, secs): (Target, Era, _, _) = match words.as_slice() {
        ["http", url, inflight, secs, rest @ ..] => {
            let era = if rest.contains(&"--modern") { Era::Modern } else { Era::Legacy };
            (Target::url(*url).into(), era, inflight, secs)
        }
        ["stdio", inflight, secs, program, args @ ..] => {
            (Target::command(*program).args(args.iter().copied()).into(), Era::Legacy, inflight, secs)
        }
        _ => return Err(USAGE.into()),
    };
    let (inflight, secs): (usize, f64) = (inflight.parse()?, secs.parse()?);
    let revision = if era == Era::Modern { Revision::LATEST } else { Revision::LATEST_LEGACY };
    hospes_bench::runtime()?.block_on(LocalSet::new().run_until(async {
        let client = Client::builder().era(era).revision(revision).connect(target).await?;
        let line = drive(&client, inflight, Duration::from_secs_f64(secs)).await;
        client.close().await;
        Ok(hospes_bench::print_line(&line)?)
    }))
}

async fn drive(client: &Client, inflight: usize, length: Duration) -> String {
    let begin = Instant::now() + WARM_UP;
    let end = begin + length;
    let (next, errors) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(0_u64)));
    let callers: Vec<_> = (0..inflight)
        .map(|_| {
            let (client, next, errors) = (client.clone(), Rc::clone(&next), Rc::clone(&errors));
            tokio::task::spawn_local(async move { call_until(&client, begin, end, &next, &errors).await })
        })
        .collect();
    tokio::time::sleep_until(begin.into()).await;
    let before = hospes_bench::processor_seconds();
    let mut times = Vec::new();
    for caller in callers {
        times.extend(caller.await.unwrap_or_default());
    }
    let (wall, used) = (begin.elapsed().as_secs_f64(), hospes_bench::processor_seconds() - before);
    report(inflight, times, errors.get(), wall, used)
}

async fn call_until(
    client: &Client,
    begin: Instant,
    end: Instant,
    next: &Cell<u64>,
    errors: &Cell<u64>,
) -> Vec<Duration> {
    let mut times = Vec::new();
    while Instant::now() < end {
        next.set(next.get() + 1);
        let text = format!("hello, peer {:08}", next.get());
        let asked = Instant::now();
        let answer = client.call("echo", EchoArguments { text: &text }).await;
        let right = answer.is_ok_and(
            |answer| matches!(answer.content.first(), Some(ContentBlock::Text(block)) if block.text == text),
        );
        if !right {
            errors.set(errors.get() + 1);
        } else if asked >= begin {
            times.push(asked.elapsed());
        }
    }
    times
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run of seconds")]
fn report(inflight: usize, mut times: Vec<Duration>, errors: u64, wall: f64, used: f64) -> String {
    times.sort_unstable();
    let count = times.len();
    let at = |hundredth: usize| times.get(count * hundredth / 100).map(|time| time.as_secs_f64() * 1e6);
    serde_json::json!({
        "inflight": inflight,
        "requests": count,
        "rps": count as f64 / wall,
        "errors": errors,
        "us": { "p50": at(50), "p99": at(99) },
        "client_cpu_us_per_request": used * 1e6 / count.max(1) as f64,
    })
    .to_string()
}
