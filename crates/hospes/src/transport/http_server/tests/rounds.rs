//! Rounds of calls of 2026-07-28 whose state another process has sealed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::request::Parts;

use super::super::shared_sessions::*;
use super::*;

/// Directory that knows one other process, in the way that a test sets.
#[derive(Debug, Default)]
struct OneOther {
    known: Mutex<OtherProcess>,
    attempts: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Debug, Default)]
enum OtherProcess {
    /// Doubt whether it lives.
    #[default]
    InDoubt,
    /// Life, with the number of the attempt that reaches it.
    Reached(usize),
    Ended,
}

impl SessionDirectory for OneOther {
    fn reserve<'a>(&'a self, _: SessionName<'a>) -> DirectoryFuture<'a, Arc<dyn SharedSession>> {
        futures::future::ready(Err(DirectoryError::Unavailable("not used here".to_owned()))).boxed()
    }

    fn locate<'a>(&'a self, _: SessionName<'a>) -> DirectoryFuture<'a, SessionPlace> {
        futures::future::ready(Ok(SessionPlace::Unknown)).boxed()
    }

    fn find_origin<'a>(&'a self, origin: &'a str) -> DirectoryFuture<'a, Option<Arc<dyn SessionForwarder>>> {
        assert_eq!(origin, "other");
        let found = match *self.known.lock().unwrap() {
            OtherProcess::InDoubt => Err(DirectoryError::Unavailable("the engine is away".to_owned())),
            OtherProcess::Ended => Ok(None),
            OtherProcess::Reached(at) => Ok(Some(Arc::new(Other(at, Arc::clone(&self.attempts))) as _)),
        };
        futures::future::ready(found).boxed()
    }
}

#[derive(Debug)]
struct Other(usize, Arc<AtomicUsize>);

impl SessionForwarder for Other {
    fn forward(&self, _: Parts, _: Bytes) -> BoxFuture<'_, ForwardResult> {
        let is_reached = self.1.fetch_add(1, Ordering::SeqCst) + 1 >= self.0;
        let result = match is_reached {
            true => {
                ForwardResult::Response(Response::new(super::super::Body::from(Bytes::from("its answer"))))
            }
            false => ForwardResult::NotProcessed,
        };
        futures::future::ready(result).boxed()
    }
}

async fn next_round(directory: &Arc<OneOther>, known: OtherProcess) -> (StatusCode, String) {
    *directory.known.lock().unwrap() = known;
    let endpoint = Endpoint::builder(ProbeService::new())
        .session_directory(Arc::clone(directory) as Arc<dyn SessionDirectory>)
        .build();
    let params = json!({"name": "ask", "arguments": {}, "requestState": "other.sealed"});
    let answer = direct(&endpoint, modern(1, "tools/call", params)).await;
    let status = answer.status();
    let is_busy = answer.headers().contains_key("retry-after");
    assert_eq!(is_busy, status == StatusCode::SERVICE_UNAVAILABLE);
    let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// A call may wait in the process that has asked. To serve its next round elsewhere would say that it is lost.
#[tokio::test(start_paused = true)]
async fn a_round_is_served_elsewhere_only_if_the_process_that_asked_has_ended() {
    let directory = Arc::new(OneOther::default());
    let (status, text) = next_round(&directory, OtherProcess::InDoubt).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
    assert!(text.contains("the engine is away"), "{text}");
    let (status, text) = next_round(&directory, OtherProcess::Reached(usize::MAX)).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
    assert!(text.contains("cannot be reached"), "{text}");
    let tried = directory.attempts.load(Ordering::SeqCst);
    assert!((2..100).contains(&tried), "{tried} attempts");
    let (status, text) = next_round(&directory, OtherProcess::Reached(tried + 3)).await;
    assert_eq!((status, &*text), (StatusCode::OK, "its answer"));
    // Nobody here has sealed that state.
    let (status, text) = next_round(&directory, OtherProcess::Ended).await;
    assert!(status != StatusCode::SERVICE_UNAVAILABLE && text.contains("-32602"), "{status} {text}");
}
