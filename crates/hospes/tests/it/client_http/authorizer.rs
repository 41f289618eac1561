//! Somebody who answers when the server wants to know who is there.

use std::sync::Arc;

use hospes::client::{
    Authorizer, AuthorizerError, AuthorizerFuture, HealthCheck, OutboundRequest, RejectedRequest,
    RetryDecision,
};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::sync::Semaphore;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Lets everybody do what there is to do now.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// A person who signs in when the test says so.
#[derive(Debug)]
struct Person {
    signs_in: Semaphore,
    is_known: AtomicUsize,
}

impl Authorizer for Person {
    fn headers<'a>(&'a self, _: OutboundRequest<'a>) -> AuthorizerFuture<'a, HeaderMap> {
        Box::pin(async {
            let mut headers = HeaderMap::new();
            if self.is_known.load(Ordering::Relaxed) > 0 {
                headers.insert(AUTHORIZATION, "Bearer good".parse().unwrap());
            }
            Ok(headers)
        })
    }

    fn handle_rejection<'a>(&'a self, _: RejectedRequest<'a>) -> AuthorizerFuture<'a, RetryDecision> {
        Box::pin(async {
            self.signs_in.acquire().await.unwrap().forget();
            self.is_known.fetch_add(1, Ordering::Relaxed);
            Ok(RetryDecision::Retry)
        })
    }
}

#[tokio::test]
async fn a_sign_in_counts_towards_no_limit_though_the_answer_streams() {
    let fake = Fake::serve(legacy(|asked| match asked.header("authorization") {
        Some("Bearer good") => Said::stream(vec![event(&text(asked, "hello"))]),
        _ => Said::status(401).header("www-authenticate", "Bearer"),
    }))
    .await;
    let person = Arc::new(Person { signs_in: Semaphore::new(0), is_known: AtomicUsize::new(0) });
    let target = Target::url(&fake.url).authorizer(Arc::clone(&person) as _);
    let client = Client::builder().revision(Revision::V2025_06_18).connect(target).await.unwrap();
    let clock = Clock::stop();
    let call = tokio::spawn(async move {
        let outcome = client.call("hi", ()).timeout(MINUTE).await;
        (client, outcome)
    });
    fake.wait(1, |asked| asked.method() == "tools/call").await;
    tokio::task::yield_now().await;
    clock.advance(10 * MINUTE).await;
    person.signs_in.add_permits(1);
    let (_client, outcome) = call.await.unwrap();
    assert_eq!(outcome.unwrap().all_text(), "hello");
}

/// Authorizer that admits foreground requests and records all of them.
#[derive(Debug, Default)]
struct Doorkeeper {
    asked: Mutex<Vec<(http::Method, bool)>>,
}

impl Doorkeeper {
    fn asked(&self, method: &http::Method) -> Vec<bool> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(known, _)| known == method).map(|(_, background)| *background).collect()
    }
}

impl Authorizer for Doorkeeper {
    fn headers<'a>(&'a self, request: OutboundRequest<'a>) -> AuthorizerFuture<'a, HeaderMap> {
        Box::pin(async move {
            self.asked.lock().unwrap().push((request.method.clone(), request.background));
            match *request.method {
                http::Method::GET => Err(AuthorizerError::new("nobody is known")),
                _ => Ok(HeaderMap::new()),
            }
        })
    }

    fn handle_rejection<'a>(&'a self, _: RejectedRequest<'a>) -> AuthorizerFuture<'a, RetryDecision> {
        Box::pin(async { Ok(RetryDecision::Refuse) })
    }
}

#[tokio::test]
async fn a_stream_that_is_not_let_in_waits_until_a_call_was() {
    let fake = Fake::serve(legacy(|asked| Said::json(&text(asked, "hi")))).await;
    let door = Arc::new(Doorkeeper::default());
    let target = Target::url(&fake.url).authorizer(Arc::clone(&door) as _);
    let client = Client::builder().revision(Revision::V2025_06_18).connect(target).await.unwrap();
    let clock = Clock::stop();
    for _ in 0..10 {
        clock.advance(MINUTE).await;
        settle().await;
    }
    assert_eq!(door.asked(&http::Method::GET), [true], "nobody waits for it, and it is not repeated");
    assert!(door.asked(&http::Method::POST).contains(&false));
    client.call("hi", ()).await.unwrap();
    while door.asked(&http::Method::GET).len() < 2 {
        clock.advance(MINUTE).await;
        settle().await;
    }
}

/// covers: PING-07
#[tokio::test]
async fn a_server_at_work_is_not_pinged_over_http_either() {
    let (sender, receiver) = mpsc::channel(1);
    let receiver = Mutex::new(Some(receiver));
    let fake = Fake::serve(legacy(move |asked| match asked.method() {
        "ping" => Said::json(&result(asked, &json!({}))),
        _ => Said::stream(vec![Step::Relay(receiver.lock().unwrap().take().unwrap())]),
    }))
    .await;
    let clock = Clock::stop();
    let builder = Client::builder().revision(Revision::V2025_06_18);
    let builder = builder.health_check(HealthCheck::every(MINUTE).max_unanswered(2));
    let client = builder.connect(&fake.url).await.unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call("slow", ()).timeout(MINUTE * 60).await }
    });
    let asked = fake.wait(1, |asked| asked.method() == "tools/call").await;
    let pings = || fake.asked().iter().filter(|asked| asked.method() == "ping").count();
    for _ in 0..5 {
        clock.advance(MINUTE + MINUTE / 10).await;
        settle().await;
    }
    assert_eq!(pings(), 0);
    let answer = format!("data: {}\n\n", text(&asked[0], "done"));
    sender.send(answer).await.unwrap();
    assert_eq!(call.await.unwrap().unwrap().all_text(), "done");
    clock.advance(MINUTE + MINUTE / 10).await;
    fake.wait(1, |asked| asked.method() == "ping").await;
}

/// covers: PING-09
#[tokio::test]
async fn whatever_a_server_answers_to_a_ping_it_is_there() {
    let pings = AtomicUsize::new(0);
    let fake = Fake::serve(legacy(move |_| match pings.fetch_add(1, Ordering::Relaxed) {
        // A proxy that cannot reach it speaks for itself.
        4.. => Said::status(502),
        0 => Said::status(429),
        1 => Said::status(503),
        2 => Said::status(200).header("content-type", "text/html").text("<h1>Hello</h1>"),
        _ => Said::status(401),
    }))
    .await;
    let clock = Clock::stop();
    let builder = Client::builder().revision(Revision::V2025_06_18);
    let check = HealthCheck::every(MINUTE).timeout(MINUTE / 2).max_unanswered(2);
    let client = builder.health_check(check).connect(&fake.url).await.unwrap();
    for ping in 1..=6 {
        assert!(client.closed().is_none(), "{ping}");
        while fake.asked().iter().filter(|asked| asked.method() == "ping").count() < ping {
            clock.advance(Duration::from_secs(1)).await;
            settle().await;
        }
    }
    assert_eq!(client.wait_closed().await.what, "the server did not answer 2 pings within 30s");
}

/// Cannot help, at the first request or when it is refused.
#[derive(Debug)]
struct Helpless {
    before: bool,
}

impl Authorizer for Helpless {
    fn headers<'a>(&'a self, _: OutboundRequest<'a>) -> AuthorizerFuture<'a, HeaderMap> {
        let before = self.before;
        Box::pin(async move { if before { Err(AuthorizerError::new("no")) } else { Ok(HeaderMap::new()) } })
    }

    fn handle_rejection<'a>(&'a self, _: RejectedRequest<'a>) -> AuthorizerFuture<'a, RetryDecision> {
        Box::pin(async { Err(AuthorizerError::new("no")) })
    }
}

#[tokio::test]
async fn an_error_tells_the_status_of_the_refusal_if_there_was_one() {
    for (status, before, told) in [(401, false, Some(401)), (403, false, Some(403)), (403, true, None)] {
        let fake = Fake::serve(move |_: &Asked| Said::status(status)).await;
        let target = Target::url(&fake.url).authorizer(Arc::new(Helpless { before }));
        let error = Client::builder().connect(target).await.unwrap_err();
        assert_eq!(error.status, told, "{error}");
        assert_eq!(error.what, "no");
        assert_eq!(fake.asked().is_empty(), before);
    }
}

/// Learns the word, and remembers what it got in.
#[derive(Debug, Default)]
struct Learner {
    knows: AtomicUsize,
    let_in: Mutex<Vec<String>>,
}

impl Authorizer for Learner {
    fn headers<'a>(&'a self, _: OutboundRequest<'a>) -> AuthorizerFuture<'a, HeaderMap> {
        Box::pin(async {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, self.knows.load(Ordering::Relaxed).to_string().parse().unwrap());
            Ok(headers)
        })
    }

    fn handle_rejection<'a>(&'a self, _: RejectedRequest<'a>) -> AuthorizerFuture<'a, RetryDecision> {
        Box::pin(async {
            self.knows.fetch_add(1, Ordering::Relaxed);
            Ok(RetryDecision::Retry)
        })
    }

    fn record_success(&self, operation: &str) {
        self.let_in.lock().unwrap().push(operation.to_owned());
    }
}

/// covers: AUTG-05
#[tokio::test]
async fn who_was_refused_and_is_let_in_then_is_told() {
    let fake = Fake::serve(modern(|asked| match asked.header("authorization") {
        Some("2") => Said::json(&text(asked, "hi")),
        _ => Said::status(403),
    }))
    .await;
    let learner = Arc::new(Learner::default());
    let target = Target::url(&fake.url).authorizer(Arc::clone(&learner) as _);
    let client = Client::builder().revision(Revision::V2026_07_28).connect(target).await.unwrap();
    for _ in 0..2 {
        client.call("hi", ()).await.unwrap();
    }
    assert_eq!(*learner.let_in.lock().unwrap(), ["tools/call hi"], "only where it had been refused");
}
