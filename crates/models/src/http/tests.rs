//! Asking over real connections: a server on this machine that says what the test has it say.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hospes_model::{CreateMessageParams, SamplingMessage};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::*;
use crate::{Anthropic, ModelAnswer, ModelProvider, OpenAi, ProviderAccess};

/// Action of the server on one request.
#[derive(Clone, Debug)]
enum Act {
    /// Writes these bytes and closes.
    Say(String),
    /// Writes these bytes, and then nothing until the other side is gone.
    Hang(String),
    /// Closes the connection without an answer.
    Close,
}

struct Server {
    url: String,
    /// The heads and bodies of the requests.
    seen: Arc<Mutex<Vec<String>>>,
    /// Comes when a client has gone while the server hung.
    gone: oneshot::Receiver<()>,
}

/// Does one act a request, and the last one over and over.
async fn server(acts: Vec<Act>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (tell, gone) = oneshot::channel();
    let kept = Arc::clone(&seen);
    tokio::spawn(async move {
        let mut tell = Some(tell);
        let mut acts = acts.into_iter();
        let mut act = acts.next().unwrap();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = request(&mut stream).await;
            kept.lock().unwrap().push(request);
            match &act {
                Act::Say(bytes) => stream.write_all(bytes.as_bytes()).await.unwrap(),
                Act::Hang(bytes) => {
                    stream.write_all(bytes.as_bytes()).await.unwrap();
                    while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {}
                    if let Some(tell) = tell.take() {
                        let _deaf = tell.send(());
                    }
                }
                Act::Close => {}
            }
            drop(stream);
            if let Some(next) = acts.next() {
                act = next;
            }
        }
    });
    Server { url, seen, gone }
}

/// One whole request.
async fn request(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    loop {
        let mut room = [0; 4096];
        let read = stream.read(&mut room).await.unwrap_or(0);
        text.push_str(&String::from_utf8_lossy(&room[..read]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert!(read > 0, "a request");
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if read == 0 || body.len() >= length.unwrap_or(0_usize) {
            return text;
        }
    }
}

/// A response with this status, these header lines and this body, whose end is that of the connection.
fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n{body}")
}

const STREAM: &str = "content-type: text/event-stream\r\n";
const PART: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Par\"}}]}\n\n";
const REST: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"is.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn paris() -> Act {
    Act::Say(response("200 OK", STREAM, &format!("{PART}{REST}")))
}

fn quick() -> ModelLimits {
    ModelLimits {
        backoff: Duration::from_millis(1),
        max_wait: Duration::from_secs(2),
        ..ModelLimits::default()
    }
}

fn model(url: &str, limits: ModelLimits) -> OpenAi {
    OpenAi::new("m", ProviderAccess::key("sk-s3cret").base_url(url).limits(limits)).unwrap()
}

fn hello() -> CreateMessageParams {
    CreateMessageParams::new(vec![SamplingMessage::user("The capital of France?")], 9)
}

async fn ask(model: &impl ModelProvider) -> Result<ModelAnswer, GenerationFailure> {
    model.generate(&hello(), &mut |_| {}).await
}

async fn ask_of(
    acts: Vec<Act>,
    limits: ModelLimits,
) -> (Result<ModelAnswer, GenerationFailure>, Vec<String>) {
    let server = server(acts).await;
    let outcome = ask(&model(&server.url, limits)).await;
    let seen = server.seen.lock().unwrap().clone();
    (outcome, seen)
}

#[tokio::test]
async fn the_request_is_one_post_whose_key_is_in_its_header() {
    let (answer, seen) = ask_of(vec![paris()], quick()).await;
    assert_eq!(answer.unwrap().result.text(), "Paris.");
    assert_eq!(seen.len(), 1);
    let (head, body) = seen[0].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /chat/completions HTTP/1.1\r\n"), "{head}");
    let head = head.to_ascii_lowercase();
    for line in
        ["authorization: bearer sk-s3cret", "content-type: application/json", "accept: text/event-stream"]
    {
        assert!(head.contains(line), "{head}");
    }
    assert!(!body.contains("s3cret") && !head.lines().next().unwrap().contains("s3cret"));
    let server = server(vec![Act::Close]).await;
    let claude = Anthropic::new(
        "m",
        ProviderAccess::key("sk-s3cret").base_url(format!("{}/sub/", server.url)).limits(quick()),
    );
    let _broken = ask(&claude.unwrap()).await;
    let head = server.seen.lock().unwrap()[0].to_ascii_lowercase();
    assert!(head.starts_with("post /sub/v1/messages http/1.1\r\n"), "{head}");
    for line in ["x-api-key: sk-s3cret\r\n", "anthropic-version: 2023-06-01\r\n"] {
        assert!(head.contains(line), "{head}");
    }
}

/// covers: SAMP-28
#[tokio::test]
async fn what_may_go_better_is_tried_again_before_the_first_byte_only() {
    for first in [
        Act::Close,
        Act::Say(response("503 Service Unavailable", "", "")),
        Act::Say(response("529 Overloaded", "", "")),
        Act::Say(response("429 Too Many Requests", "retry-after: 0\r\n", "{}")),
        Act::Say(response("408 Request Timeout", "", "")),
        // A head without a body is no answer yet.
        Act::Say(response("200 OK", STREAM, "")),
    ] {
        let (answer, seen) = ask_of(vec![first.clone(), paris()], quick()).await;
        let answer = answer.unwrap_or_else(|failure| panic!("{first:?}: {failure}"));
        assert_eq!((answer.tries, seen.len()), (2, 2), "{first:?}");
        assert_eq!(seen[0], seen[1], "the same request");
    }
    for (first, wanted, kind) in [
        (
            Act::Say(response("200 OK", STREAM, PART)),
            "was incomplete: it ended before it was complete",
            "broken",
        ),
        (
            Act::Say(response("400 Bad Request", "", r#"{"error":{"message":"no such model"}}"#)),
            "(HTTP 400): no such model",
            "refused",
        ),
        (Act::Say(response("501 Not Implemented", "", "<html>")), "(HTTP 501): no reason given", "refused"),
        (
            Act::Say(response(
                "429 Too Many Requests",
                "",
                r#"{"error":{"message":"pay","code":"insufficient_quota"}}"#,
            )),
            "refused the request (HTTP 429): pay",
            "refused",
        ),
        (Act::Say(response("302 Found", "location: http://127.0.0.1:9/\r\n", "")), "set base_url", "refused"),
        (Act::Say(response("200 OK", STREAM, "data: {]\n\n")), "cannot be read", "malformed"),
        (
            Act::Say(response("200 OK", "content-length: 999\r\ncontent-type: text/event-stream\r\n", PART)),
            "was incomplete",
            "broken",
        ),
    ] {
        let (outcome, seen) = ask_of(vec![first.clone(), paris()], quick()).await;
        let failure = outcome.unwrap_err();
        assert!(failure.to_string().contains(wanted), "{first:?}: {failure}");
        assert_eq!((failure.tries, seen.len()), (1, 1), "{first:?}");
        assert_eq!((failure.error.kind(), failure.may_have_cost), (kind, kind != "refused"), "{first:?}");
    }
}

#[tokio::test]
async fn tries_end() {
    let (outcome, seen) = ask_of(vec![Act::Say(response("500 Oops", "", "oh dear"))], quick()).await;
    let failure = outcome.unwrap_err();
    assert_eq!((failure.tries, seen.len()), (3, 3));
    assert!(failure.to_string().contains("(HTTP 500): oh dear"), "{failure}");
    let (outcome, seen) = ask_of(vec![Act::Close], ModelLimits { retries: 0, ..quick() }).await;
    assert_eq!((outcome.unwrap_err().tries, seen.len()), (1, 1));
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_said_and_not_waited_for() {
    let busy = Act::Say(response("429 Too Many Requests", "Retry-After: 3600\r\n", ""));
    let (outcome, seen) = ask_of(vec![busy, paris()], quick()).await;
    let failure = outcome.unwrap_err();
    assert_eq!(seen.len(), 1);
    assert!(failure.to_string().ends_with("retry in 3600 s"), "{failure}");
    assert_eq!(failure.error.to_rpc().message, "the model is busy; try again later");
}

#[test]
fn waits_double_and_what_the_provider_wants_goes_before() {
    let limits = ModelLimits {
        backoff: Duration::from_secs(1),
        max_wait: Duration::from_secs(10),
        retries: 9,
        ..ModelLimits::default()
    };
    let miss = |after| FailedAttempt {
        error: ModelError::Scripted(String::new()),
        again: true,
        after,
        may_have_cost: false,
    };
    let waits: Vec<_> =
        (1..=6).map(|tries| retry::wait(&miss(None), tries, &limits).unwrap().as_secs()).collect();
    assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    let after = |seconds| {
        retry::wait(&miss(Some(Duration::from_secs(seconds))), 1, &limits).map(|wait| wait.as_secs())
    };
    assert_eq!((after(0), after(7), after(10), after(11)), (Some(1), Some(7), Some(10), None));
    assert_eq!(retry::wait(&miss(None), 10, &limits), None);

    let now = "2026-11-22T10:00:00Z".parse().unwrap();
    let wanted = |name: &'static str, value: &'static str| {
        retry::parse_retry_after(
            &[(HeaderName::from_static(name), HeaderValue::from_static(value))].into_iter().collect(),
            now,
        )
    };
    for (value, seconds) in [
        ("7", Some(7.0)),
        ("0.5", Some(0.5)),
        ("Sun, 22 Nov 2026 10:01:00 GMT", Some(60.0)),
        ("Sun, 22 Nov 2026 09:01:00 GMT", Some(0.0)),
        ("-1", None),
        ("1e300", None),
        ("soon", None),
    ] {
        assert_eq!(wanted("retry-after", value).map(|wait| wait.as_secs_f64()), seconds, "{value}");
    }
    assert_eq!(wanted("retry-after-ms", "1500"), Some(Duration::from_millis(1_500)));
}

#[test]
fn refusals_are_read_in_every_form() {
    for (body, message, code) in [
        (r#"{"error":{"message":"a","type":"t","code":"c"}}"#, "a", "c"),
        (r#"{"error":{"message":"a","type":"t","code":null}}"#, "a", "t"),
        (r#"{"type":"error","error":{"type":"overloaded_error","message":"a"}}"#, "a", "overloaded_error"),
        (
            r#"[{"error":{"code":429,"message":"a","status":"RESOURCE_EXHAUSTED"}}]"#,
            "a",
            "RESOURCE_EXHAUSTED",
        ),
        (r#"{"error":"a"}"#, "a", ""),
        (r#"{"detail":"a"}"#, "a", ""),
        (r#"{"detail":[{"loc":["x"]}]}"#, r#"[{"loc":["x"]}]"#, ""),
        ("plain", "plain", ""),
        ("<html><body>502</body></html>", "", ""),
        ("", "", ""),
    ] {
        let refusal = ProviderErrorBody::read(body.as_bytes());
        assert_eq!((refusal.message.as_str(), refusal.code.as_str()), (message, code), "{body}");
    }
    let body = r#"{"error":{"details":[{"@type":"x"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17.5s"}]}}"#;
    assert_eq!(ProviderErrorBody::read(body.as_bytes()).retry_after, Some(Duration::from_millis(17_500)));
}

#[tokio::test]
async fn limits_on_time_are_named_and_keep_what_came() {
    let short = |change: fn(&mut ModelLimits)| {
        let mut limits = quick();
        change(&mut limits);
        limits
    };
    let half = || Act::Hang(response("200 OK", STREAM, PART));
    let brief = Duration::from_millis(80);
    for (act, limits, setting, partial) in [
        (
            Act::Hang(String::new()),
            short(|limits| limits.first_byte = Duration::from_millis(80)),
            "first_byte_timeout",
            "",
        ),
        (
            Act::Hang(response("200 OK", STREAM, "")),
            short(|limits| limits.first_byte = Duration::from_millis(80)),
            "first_byte_timeout",
            "",
        ),
        (half(), short(|limits| limits.idle = Duration::from_millis(80)), "idle_timeout", "Par"),
        (half(), short(|limits| limits.whole = Duration::from_millis(80)), "(setting timeout)", "Par"),
    ] {
        let (outcome, seen) = ask_of(vec![act.clone()], limits).await;
        let failure = outcome.unwrap_err();
        assert!(matches!(failure.error, ModelError::TimedOut { limit, .. } if limit == brief), "{failure:?}");
        assert!(failure.to_string().contains(setting), "{act:?}: {failure}");
        assert_eq!(
            (failure.partial.as_str(), failure.may_have_cost, seen.len()),
            (partial, true, 1),
            "{act:?}"
        );
    }
}

#[tokio::test]
async fn time_that_runs_out_between_two_tries_has_cost_nothing() {
    let busy = Act::Say(response("429 Too Many Requests", "retry-after: 2\r\n", ""));
    let limits = ModelLimits { whole: Duration::from_millis(300), ..quick() };
    let failure = ask_of(vec![busy], limits).await.0.unwrap_err();
    assert!(failure.to_string().contains("(setting timeout)"), "{failure}");
    assert_eq!((failure.tries, failure.may_have_cost), (1, false));
}

#[tokio::test]
async fn an_answer_has_a_length() {
    let limits = ModelLimits { max_answer_bytes: 500, ..quick() };
    let endless = Act::Say(response("200 OK", STREAM, &PART.repeat(20)));
    let failure = ask_of(vec![endless], limits.clone()).await.0.unwrap_err();
    assert!(
        failure.to_string().ends_with("is longer than 500 bytes (setting max_answer_bytes)"),
        "{failure}"
    );
    assert!(failure.partial.len() < 500);
    let refusal = Act::Say(response("400 Bad Request", "", &"x".repeat(1 << 20)));
    let failure = ask_of(vec![refusal], limits).await.0.unwrap_err();
    assert!(failure.to_string().len() < 600, "somebody else's words are shortened");
}

#[tokio::test]
async fn dropping_the_future_ends_the_request() {
    let server = server(vec![Act::Hang(response("200 OK", STREAM, PART))]).await;
    let model = model(&server.url, quick());
    let (tell, first) = oneshot::channel();
    let asking = tokio::spawn(async move {
        let mut tell = Some(tell);
        let mut heard = move |delta: AnswerDelta<'_>| {
            if let (AnswerDelta::Text(text), Some(tell)) = (delta, tell.take()) {
                let _deaf = tell.send(text.to_owned());
            }
        };
        model.generate(&hello(), &mut heard).await
    });
    assert_eq!(first.await.unwrap(), "Par", "text is heard before the answer is whole");
    asking.abort();
    tokio::time::timeout(Duration::from_secs(30), server.gone).await.expect("it closes").unwrap();
}

#[tokio::test]
async fn a_key_is_in_no_error_whatever_the_provider_repeats() {
    let says = |status: &str, body: &str| Act::Say(response(status, "", body));
    for act in [
        says("401 Unauthorized", r#"{"error":{"message":"wrong key sk-s3***et","code":"invalid_api_key"}}"#),
        says("400 Bad Request", r#"{"error":{"message":"you sent sk-s3cret"}}"#),
        says("500 Oops", "sk-s3cret"),
        Act::Say(response(
            "200 OK",
            STREAM,
            "data: {\"error\":{\"message\":\"sk-s3cret \\u001b[31m\\u202e\"}}\n\n",
        )),
    ] {
        let failure = ask_of(vec![act.clone()], quick()).await.0.unwrap_err();
        let shown = format!("{failure} {failure:?} {:?}", failure.error.to_rpc());
        assert!(!shown.contains("s3cret") && !shown.contains("sk-s3*"), "{shown}");
        assert!(
            !failure.to_string().contains(['\u{1b}', '\u{202e}']),
            "nothing that a terminal obeys: {shown}"
        );
    }
    let unauthorized =
        ask_of(vec![says("401 Unauthorized", r#"{"error":{"code":"invalid_api_key"}}"#)], quick()).await;
    assert!(
        unauthorized
            .0
            .unwrap_err()
            .to_string()
            .ends_with("did not accept the API key (HTTP 401, invalid_api_key)")
    );
}

#[test]
fn headers_with_keys_are_marked_for_whatever_prints_headers() {
    let extra = vec![("x-other".to_owned(), ApiKey::new("s3cret"))];
    let key = ApiKey::new("sk-s3cret");
    let endpoint = ProviderEndpoint::new(
        "http://127.0.0.1:1",
        Some((&key, KeyHeader::Bearer)),
        extra,
        ModelLimits::default(),
    );
    let shown = format!("{:?}", endpoint.unwrap().headers);
    assert!(shown.contains("x-other") && !shown.contains("s3cret"), "{shown}");
}

#[tokio::test]
async fn nobody_there_is_said_with_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let failure = ask(&model(&format!("http://{address}"), quick())).await.unwrap_err();
    assert!(failure.to_string().starts_with(&format!("{address} cannot be reached: ")), "{failure}");
    assert!(failure.to_string().to_lowercase().contains("refused"), "{failure}");
    assert_eq!((failure.tries, failure.may_have_cost), (3, false));
}

#[tokio::test]
async fn a_connection_that_does_not_open_has_a_limit_of_its_own() {
    // It accepts, and never says a word of TLS.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let limits = ModelLimits { connect: Duration::from_millis(80), retries: 1, ..quick() };
    let failure = ask(&model(&url, limits)).await.unwrap_err();
    assert!(
        matches!(failure.error, ModelError::TimedOut { stage: TimeoutStage::Connecting, .. }),
        "{failure:?}"
    );
    assert!(failure.to_string().contains("(setting connect_timeout)"), "{failure}");
    assert_eq!((failure.tries, failure.may_have_cost), (2, false));
}

#[tokio::test]
async fn a_connection_that_is_free_is_used_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let body = format!("{PART}{REST}");
    let says = format!("HTTP/1.1 200 OK\r\n{STREAM}content-length: {}\r\n\r\n{body}", body.len());
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..2 {
            request(&mut stream).await;
            stream.write_all(says.as_bytes()).await.unwrap();
        }
    });
    let model = model(&url, quick());
    for _ in 0..2 {
        assert_eq!(ask(&model).await.unwrap().tries, 1);
    }
    serving.await.unwrap();
}
