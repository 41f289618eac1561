//! Requests of 2026-07-28 that another process serves: rounds of calls whose state it has sealed, and those of callers.

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
    /// Principals and applications that were looked for.
    callers: Mutex<Vec<(Option<String>, String)>>,
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
        self.found()
    }

    fn request_place(&self, method: &str, name: Option<&str>) -> RequestPlace {
        match (method, name) {
            ("tools/call", Some("theirs")) => RequestPlace::Caller,
            ("tools/call", Some("kept")) => {
                RequestPlace::Process { origin: "other".to_owned(), else_caller: false }
            }
            ("tools/call", Some("kept of a caller")) => {
                RequestPlace::Process { origin: "other".to_owned(), else_caller: true }
            }
            _ => RequestPlace::Anywhere,
        }
    }

    fn find_caller_process<'a>(
        &'a self,
        principal: Option<&'a str>,
        application: &'a str,
    ) -> DirectoryFuture<'a, Option<Arc<dyn SessionForwarder>>> {
        self.callers.lock().unwrap().push((principal.map(str::to_owned), application.to_owned()));
        self.found()
    }
}

impl OneOther {
    fn found(&self) -> DirectoryFuture<'_, Option<Arc<dyn SessionForwarder>>> {
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
    let params = json!({"name": "ask", "arguments": {}, "requestState": "other.sealed"});
    send(directory, known, modern(1, "tools/call", params)).await
}

async fn send(
    directory: &Arc<OneOther>,
    known: OtherProcess,
    request: http::Request<Full<Bytes>>,
) -> (StatusCode, String) {
    *directory.known.lock().unwrap() = known;
    let endpoint = Endpoint::builder(ProbeService::new())
        .session_directory(Arc::clone(directory) as Arc<dyn SessionDirectory>)
        .build();
    let answer = direct(&endpoint, request).await;
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

/// Calls of one application for one principal go to one process, and all others are served where they come in.
#[tokio::test(start_paused = true)]
async fn a_call_that_follows_its_caller_is_served_by_the_process_of_the_caller() {
    let directory = Arc::new(OneOther::default());
    let call = |tool: &str| {
        let meta = json!({"io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"}});
        let mut request = modern(1, "tools/call", json!({"name": tool, "arguments": {}, "_meta": meta}));
        request.extensions_mut().insert(super::super::Principal::new("ann"));
        request
    };
    let (status, text) = send(&directory, OtherProcess::Reached(0), call("theirs")).await;
    assert_eq!((status, &*text), (StatusCode::OK, "its answer"));
    let looked = directory.callers.lock().unwrap().drain(..).collect::<Vec<_>>();
    assert_eq!(looked, [(Some("ann".to_owned()), "test".to_owned())]);
    // Another tool, and this process as that of the caller.
    let (status, text) = send(&directory, OtherProcess::Reached(0), call("echo")).await;
    assert!(status == StatusCode::OK && text != "its answer", "{status} {text}");
    assert!(directory.callers.lock().unwrap().is_empty());
    let (status, text) = send(&directory, OtherProcess::Ended, call("theirs")).await;
    assert!(status != StatusCode::SERVICE_UNAVAILABLE && text.contains("theirs"), "{status} {text}");
    // Not where it comes in, even if the process cannot be reached.
    let (status, text) = send(&directory, OtherProcess::Reached(usize::MAX), call("theirs")).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
    assert!(text.contains("cannot be reached"), "{text}");
    // A forwarded request goes no further.
    let mut forwarded = call("theirs");
    forwarded.extensions_mut().insert(ForwardedRequest);
    let (status, text) = send(&directory, OtherProcess::Reached(0), forwarded).await;
    assert!(text != "its answer", "{status} {text}");
}

/// What one process has in its memory is asked there while it lives, and then of the process that is next.
#[tokio::test(start_paused = true)]
async fn a_call_about_what_one_process_keeps_is_served_there_while_it_lives() {
    let directory = Arc::new(OneOther::default());
    let call = |tool: &str| modern(1, "tools/call", json!({"name": tool, "arguments": {}}));
    let (status, text) = send(&directory, OtherProcess::InDoubt, call("kept")).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
    let (status, text) = send(&directory, OtherProcess::Reached(usize::MAX), call("kept")).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
    assert!(text.contains("the process that runs the task cannot be reached"), "{text}");
    let (status, text) = send(&directory, OtherProcess::Reached(0), call("kept")).await;
    assert_eq!((status, &*text), (StatusCode::OK, "its answer"));
    let (status, text) = send(&directory, OtherProcess::Ended, call("kept")).await;
    assert!(status != StatusCode::SERVICE_UNAVAILABLE && text.contains("kept"), "{status} {text}");
    assert!(directory.callers.lock().unwrap().is_empty(), "any process is next");
    let (status, text) = send(&directory, OtherProcess::Ended, call("kept of a caller")).await;
    assert!(
        status != StatusCode::SERVICE_UNAVAILABLE && text.contains("kept of a caller"),
        "{status} {text}"
    );
    assert_eq!(directory.callers.lock().unwrap().len(), 1, "the process of the caller is next");
}
