//! Admission of requests, and limits.

use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// covers: HTTP-04 HTTP-05
#[tokio::test]
async fn host_and_origin_are_checked_each_on_its_own() {
    let site = Site::new().await;
    let own = site.address.to_string();
    let page = format!("http://{own}");
    for (host, origin, status) in [
        (&*own, "", 200),
        ("localhost:1", "", 200),
        (&own, &page, 200),
        (&own, "http://localhost:6274", 200),
        ("evil.example.com", "", 403),
        ("evil.example.com", &page, 403),
        (&own, "http://evil.example.com", 403),
        (&own, "null", 403),
        ("evil.example.com", "http://evil.example.com", 403),
    ] {
        let params = json!({});
        let mut headers = modern_headers("server/discover", &params);
        headers.extend([("host", host), ("origin", origin)]);
        for body in [modern_body(1, "server/discover", json!({})), initialize("2025-11-25")] {
            let headers: &[_] =
                if body["method"] == "initialize" { &[("host", host), ("origin", origin)] } else { &headers };
            let answer = site.post(body, headers).await;
            assert_eq!(answer.status, status, "{host} {origin}");
            if status == 403 {
                let answer = answer.json().await;
                let why = answer["error"]["message"].as_str().unwrap().to_owned();
                let setting = if host == "evil.example.com" { "allowed_hosts" } else { "allowed_origins" };
                assert!(why.contains(setting), "{why}");
            }
        }
    }
    let site =
        Site::with(|endpoint| endpoint.allow_host("mcp.example.com").allow_origin("https://app.example.com"))
            .await;
    let headers = [("host", "mcp.example.com"), ("origin", "https://app.example.com")];
    assert_eq!(site.post(initialize("2025-11-25"), &headers).await.status, 200);
}

#[tokio::test]
async fn a_page_that_may_ask_may_read_the_answer() {
    let site = Site::new().await;
    let preflight = |origin: &str| {
        Request::options("/mcp")
            .header("host", "localhost")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "content-type,mcp-param-x")
            .body(Full::default())
            .unwrap()
    };
    let page = "http://localhost:6274";
    let answer = site.send(preflight(page)).await;
    assert_eq!(
        (answer.status, &answer.headers["access-control-allow-origin"]),
        (StatusCode::NO_CONTENT, &page.parse().unwrap())
    );
    assert_eq!(answer.headers["access-control-allow-headers"], "content-type,mcp-param-x");
    let answer = site.post(initialize("2025-11-25"), &[("origin", page)]).await;
    assert_eq!(answer.headers["access-control-allow-origin"], page);
    assert!(answer.headers["access-control-expose-headers"].to_str().unwrap().contains("mcp-session-id"));
    for request in [
        preflight("http://evil.example.com"),
        post(initialize("2025-11-25"), &[("origin", "http://evil.example.com")]),
    ] {
        let answer = site.send(request).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
    // Those who come from no page are told nothing of the kind.
    let answer = site.post(initialize("2025-11-25"), &[]).await;
    assert!(!answer.headers.contains_key("access-control-allow-origin"));
}

/// The endpoint is a service of hyper's and of tower's, so that it can be part of other programs.
#[tokio::test]
async fn the_endpoint_is_a_service_elsewhere() {
    let mut endpoint = Endpoint::new(ProbeService::new());
    let call = tower_service::Service::call(&mut endpoint, modern(1, "tools/list", json!({})));
    assert_eq!(call.await.unwrap().status(), StatusCode::OK);
    let call = hyper::service::Service::call(&endpoint, modern(1, "tools/list", json!({})));
    assert_eq!(call.await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn what_is_no_request_to_the_endpoint_is_told_so() {
    let site = Site::new().await;
    let mut elsewhere = modern(1, "tools/list", json!({}));
    *elsewhere.uri_mut() = "/".parse().unwrap();
    let answer = site.send(elsewhere).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert!(answer.json().await["error"]["message"].as_str().unwrap().contains("/mcp"));
    for (name, value, status) in [
        ("content-type", "text/plain", 415),
        ("accept", "text/html", 406),
        ("accept", "application/json", 406),
        ("content-type", "application/json; charset=utf-8", 200),
        ("accept", "*/*", 200),
    ] {
        assert_eq!(
            site.post(initialize("2025-11-25"), &[(name, value)]).await.status,
            status,
            "{name}: {value}"
        );
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_by_name() {
    let site = Site::with(|endpoint| endpoint.max_message_bytes(100_000)).await;
    let params = json!({"name": "echo", "arguments": {"text": "x".repeat(17 * 1024 * 1024)}});
    let answer = site.modern(1, "tools/call", params).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(answer.json().await["error"]["message"].as_str().unwrap().contains("max_message_bytes"));
    // The same without a length.
    let pieces = futures::stream::iter(
        (0..100).map(|_| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b' '; 4000])))),
    );
    let request =
        post(Value::Null, &modern_headers("tools/list", &Value::Null)).map(|_| StreamBody::new(pieces));
    let answer = site.endpoint.handle(request).await;
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    // A body in pieces is put together.
    let body =
        modern_body(1, "tools/call", json!({"name": "echo", "arguments": {"text": "x".repeat(50_000)}}))
            .to_string();
    let pieces: Vec<_> = body
        .as_bytes()
        .chunks(777)
        .map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(piece))))
        .collect();
    let params = json!({"name": "echo"});
    let request = post(Value::Null, &modern_headers("tools/call", &params))
        .map(|_| StreamBody::new(futures::stream::iter(pieces)));
    let answer = site.endpoint.handle(request).await;
    let answer: Value =
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(text(&answer).len(), 50_000);
}

#[tokio::test]
async fn large_requests_over_the_limit_of_all_are_refused_by_name() {
    let site = Site::with(|endpoint| endpoint.max_buffered_bytes(1_500_000)).await;
    let call = |id: u32, name: &str| {
        let filler = "x".repeat(1_000_000);
        modern(id, "tools/call", json!({"name": name, "arguments": {"text": filler}}))
    };
    // What it was called with is kept as long as it runs.
    let (address, first) = (site.address, call(1, "forever"));
    let held = tokio::spawn(async move { connect(address).await.try_send(first).await.map(|_| ()) });
    site.running(1).await;
    let refused = site.send(call(2, "echo")).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.json().await["error"]["message"].as_str().unwrap().contains("max_buffered_bytes"));
    // Small ones go on, and what was refused left nothing behind.
    for id in 3..10 {
        let params = json!({"name": "echo", "arguments": {"text": "x".repeat(1000)}});
        assert_eq!(site.modern(id, "tools/call", params).await.status, StatusCode::OK);
        assert_eq!(site.send(call(id, "echo")).await.status, StatusCode::SERVICE_UNAVAILABLE);
    }
    held.abort();
    site.running(0).await;
    assert_eq!(site.send(call(10, "echo")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_large_body_is_served_where_the_limit_allows() {
    let site = Site::with(|endpoint| endpoint.max_message_bytes(20 * 1024 * 1024)).await;
    let long = "x".repeat(17 * 1024 * 1024);
    let answer = site.modern(1, "tools/call", json!({"name": "echo", "arguments": {"text": long}})).await;
    assert_eq!(text(&answer.json().await).len(), 17 * 1024 * 1024);
}

#[tokio::test]
async fn calls_over_the_limit_are_refused_by_name() {
    let site = Site::with(|endpoint| endpoint.max_concurrent_calls(2)).await;
    let hold = (0..2).map(|id| {
        let (address, call) = (site.address, modern(id, "tools/call", json!({"name": "forever"})));
        tokio::spawn(async move { connect(address).await.try_send(call).await.map(|_| ()) })
    });
    let hold: Vec<_> = hold.collect();
    site.running(2).await;
    // A stream of changes is no call that works.
    let mut stream = site.modern(5, "subscriptions/listen", json!({"notifications": {}})).await;
    assert_eq!(stream.message().await["method"], "notifications/subscriptions/acknowledged");
    let answer = site.modern(3, "tools/list", json!({})).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.headers.contains_key("retry-after"));
    let answer = answer.json().await;
    assert_eq!(answer["id"], 3);
    assert!(answer["error"]["message"].as_str().unwrap().contains("max_concurrent_calls"));
    hold.iter().for_each(|task| task.abort());
    site.running(0).await;
    assert_eq!(site.modern(4, "tools/list", json!({})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn connections_over_the_limit_are_turned_away_by_name() {
    let endpoint = Endpoint::new(ProbeService::new());
    let server = HttpServer::bind("127.0.0.1:0", endpoint).await.unwrap().max_connections(1);
    let address = server.local_addr();
    tokio::spawn(server.serve());
    let mut first = connect(address).await;
    assert_eq!(first.try_send(modern(1, "tools/list", json!({}))).await.unwrap().status, StatusCode::OK);
    let mut second = TcpStream::connect(address).await.unwrap();
    let mut said = String::new();
    timeout(PATIENCE, second.read_to_string(&mut said)).await.unwrap().unwrap();
    assert!(said.starts_with("HTTP/1.1 503 ") && said.contains("max_connections"), "{said}");
    drop(first);
    // The server may hear late that the first one has gone.
    let taken = async {
        loop {
            let mut third = connect(address).await;
            match third.try_send(modern(1, "tools/list", json!({}))).await {
                Ok(answer) if answer.status == StatusCode::OK => break,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    timeout(PATIENCE, taken).await.expect("there is room again");
}

/// covers: HSES-06
#[tokio::test(start_paused = true)]
async fn unused_sessions_expire_and_used_ones_do_not() {
    let endpoint =
        Endpoint::builder(ProbeService::new()).session_idle_timeout(Duration::from_secs(80)).build();
    let open = async || {
        let answer = direct(&endpoint, post(initialize("2025-11-25"), &[])).await;
        answer.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    };
    let call = async |session: &str| {
        direct(&endpoint, post(tool(1, "echo", json!({})), &[("mcp-session-id", session)])).await.status()
    };
    let get = |session: &str| {
        Request::get("/mcp")
            .header("host", "localhost")
            .header("accept", "text/event-stream")
            .header("mcp-session-id", session)
    };
    let (idle, busy, listening) = (open().await, open().await, open().await);
    let stream = direct(&endpoint, get(&listening).body(Full::default()).unwrap()).await;
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(call(&busy).await, StatusCode::OK);
    }
    assert_eq!(call(&idle).await, StatusCode::NOT_FOUND);
    assert_eq!(endpoint.sessions(), 2);
    assert_eq!(call(&listening).await, StatusCode::OK);
    drop(stream);
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(endpoint.sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn at_the_cap_idle_sessions_make_room_and_busy_ones_do_not() {
    let endpoint = Endpoint::builder(ProbeService::new())
        .max_sessions(2)
        .session_idle_timeout(Duration::from_secs(800))
        .build();
    let open = async || direct(&endpoint, post(initialize("2025-11-25"), &[])).await;
    let id = |answer: &Response<super::super::Body>| {
        answer.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    };
    let (one, two) = (id(&open().await), id(&open().await));
    let full = open().await;
    assert_eq!(full.status(), StatusCode::SERVICE_UNAVAILABLE);
    let text = full.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&text).contains("max_sessions"));
    tokio::time::sleep(Duration::from_secs(300)).await;
    let call = async |session: &str| {
        direct(&endpoint, post(tool(1, "echo", json!({})), &[("mcp-session-id", session)])).await.status()
    };
    assert_eq!(call(&two).await, StatusCode::OK);
    assert_eq!(open().await.status(), StatusCode::OK);
    assert_eq!((call(&one).await, call(&two).await), (StatusCode::NOT_FOUND, StatusCode::OK));
    assert_eq!(endpoint.sessions(), 2);
}

/// covers: HTTP-40
#[tokio::test(start_paused = true)]
async fn silent_streams_give_signs_of_life() {
    let endpoint = Endpoint::new(ProbeService::new());
    let start = tokio::time::Instant::now();
    let mut answer = direct(&endpoint, modern(1, "tools/call", json!({"name": "forever"}))).await;
    assert_eq!(
        answer.headers()["content-type"],
        "text/event-stream",
        "a call that is silent for long becomes a stream"
    );
    assert_eq!(start.elapsed().as_secs(), 10);
    for seconds in [25, 40] {
        let frame = answer.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(frame.starts_with(b":") && frame.ends_with(b"\n\n"), "{frame:?}");
        assert_eq!(start.elapsed().as_secs(), seconds);
    }
}

#[tokio::test]
async fn a_connection_that_sends_no_request_is_closed() {
    let server = HttpServer::bind("127.0.0.1:0", Endpoint::new(ProbeService::new())).await.unwrap();
    let server = server.idle_timeout(Duration::from_millis(30));
    let address = server.local_addr();
    tokio::spawn(server.serve());
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: local").await.unwrap();
    let mut rest = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("it was not closed").unwrap();
    // A call that takes its time is no idleness.
    let mut connection = connect(address).await;
    let slow = modern(1, "tools/call", json!({"name": "sleep", "arguments": {"millis": 200}}));
    assert_eq!(text(&connection.try_send(slow).await.unwrap().json().await), "slept");
}

/// Timers have a resolution of a millisecond: waiting for one that is due at once delays the client.
#[tokio::test(start_paused = true)]
async fn a_new_connection_is_served_before_the_clock_moves() {
    let site = Site::new().await;
    tokio::time::advance(Duration::from_micros(500)).await;
    // The clock of a test stands still while there is blocking work.
    let (finish, wait) = std::sync::mpsc::channel::<()>();
    let work = tokio::task::spawn_blocking(move || wait.recv_timeout(PATIENCE));
    let begun = tokio::time::Instant::now();
    let answer = site.modern(1, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}})).await;
    assert_eq!(text(&answer.json().await), "hi");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    drop(finish);
    let _ = work.await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let site = Site::with(|endpoint| endpoint.body_timeout(Duration::from_millis(30))).await;
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = vec![0; 12];
    timeout(PATIENCE, stream.read_exact(&mut said)).await.unwrap().unwrap();
    assert_eq!(said, b"HTTP/1.1 408");
}

/// covers: SUBS-08
#[tokio::test]
async fn at_the_end_every_request_gets_its_answer_or_an_error() {
    let probe = ProbeService::new();
    let server = HttpServer::bind("127.0.0.1:0", Endpoint::new(probe.clone())).await.unwrap();
    let server = server.shutdown_timeout(Duration::from_millis(400));
    let address = server.local_addr();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let served = tokio::spawn(server.serve_until(async {
        let _ = stopped.await;
    }));
    let site = Site { address, probe: probe.clone(), endpoint: Endpoint::new(probe) };
    let session = site.session("2025-11-25").await;
    let mut listen =
        site.modern(1, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})).await;
    listen.message().await;
    let mut changes = site.get(&session, &[]).await;
    let call = |id: u32, name: &'static str, session: Option<String>| {
        let arguments = json!({"millis": 100});
        let request = match &session {
            Some(session) => post(tool(id, name, arguments), &[("mcp-session-id", session)]),
            None => modern(id, "tools/call", json!({"name": name, "arguments": arguments})),
        };
        tokio::spawn(async move { connect(address).await.send(request).await.json().await })
    };
    let calls = [
        call(2, "sleep", None),
        call(3, "forever", None),
        call(4, "sleep", Some(session.clone())),
        call(5, "forever", Some(session.clone())),
    ];
    site.running(4).await;
    stop.send(()).unwrap();
    let ended = listen.message().await;
    assert_eq!(ended["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    assert!(listen.event().await.is_none() && changes.event().await.is_none());
    let [two, three, four, five] = calls;
    assert_eq!(text(&two.await.unwrap()), "slept");
    assert_eq!(code(&three.await.unwrap()), -32603);
    assert_eq!(text(&four.await.unwrap()), "slept");
    assert_eq!(code(&five.await.unwrap()), -32603);
    timeout(PATIENCE, served).await.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    site.running(0).await;
}

/// An answer used to stay unsent while bytes of an incomplete request followed. It was never sent if the client waited
/// for it.
#[tokio::test]
async fn an_answer_does_not_wait_for_what_follows_its_request() {
    let site = Site::new().await;
    let body = initialize("2025-11-25").to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    for (sent, status) in [
        (format!("{request}\r\n"), "HTTP/1.1 200"),
        (format!("{request}POST /mcp HTTP/1.1\r\nhos"), "HTTP/1.1 200"),
        (format!("{request}\0 rubbish\r\n\r\n"), "HTTP/1.1 200"),
        ("no HTTP\r\n\r\nat all".to_owned(), "HTTP/1.1 400"),
    ] {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut start = [0; 12];
        let read = timeout(PATIENCE, stream.read_exact(&mut start)).await;
        read.unwrap_or_else(|_| panic!("no answer to {sent:?}")).unwrap();
        assert_eq!(start, status.as_bytes(), "{sent:?}");
    }
}

/// The largest state of a request's future is kept for as long as its connection, idle streams included.
#[tokio::test]
async fn what_a_connection_keeps_is_small() {
    use std::mem::{size_of, size_of_val};

    use super::super::{calls::PostCalls, endpoint::handle, sessions::HttpSession};
    use crate::transport::adapter::{LegacySession, SessionListenCalls};

    let endpoint = Endpoint::new(ProbeService::new());
    let request = handle(&endpoint, modern(1, "tools/list", json!({})));
    let sizes = [
        ("request", size_of_val(&request), 1024),
        ("session", size_of::<HttpSession>() + size_of::<LegacySession>() + size_of::<crate::Peer>(), 544),
        ("listen", size_of::<SessionListenCalls>() + size_of::<crate::Exchange>(), 512),
        ("calls", size_of::<PostCalls>(), 256),
    ];
    for (what, size, limit) in sizes {
        assert!(size <= limit, "{what}: {size}");
    }
}

/// A page beside the endpoint is behind the same door: a page of another site must not read it.
#[tokio::test]
async fn pages_are_served_to_those_who_may_ask() {
    let site = Site::with(|builder| {
        builder.pages(|parts| (parts.uri.path() == "/status").then(|| Response::new("fine".into())))
    })
    .await;
    let ask = |path: &str, host: &str, origin: Option<&str>| {
        let mut request = Request::get(path).header(HOST, host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        site.send(request.body(Full::default()).unwrap())
    };
    let page = ask("/status", "localhost", None).await;
    assert_eq!(page.status, StatusCode::OK);
    assert_eq!(page.read().await, "fine");
    for (path, host, origin, status) in [
        ("/other", "localhost", None, StatusCode::NOT_FOUND),
        ("/status", "evil.example.com", None, StatusCode::FORBIDDEN),
        ("/status", "localhost", Some("http://evil.example.com"), StatusCode::FORBIDDEN),
    ] {
        assert_eq!(ask(path, host, origin).await.status, status, "{path} {host} {origin:?}");
    }
}

/// What the endpoint refuses is answered by nothing else, on each of its paths.
#[tokio::test]
async fn refused_requests_are_not_served() {
    let site = Site::with(|builder| {
        builder.sse(true).refuse(|parts| {
            let is_refused = parts.headers.get("x-person").is_none_or(|person| person != "ann");
            is_refused
                .then(|| Response::builder().status(StatusCode::NOT_FOUND).body("nobody".into()).unwrap())
        })
    })
    .await;
    for (method, path) in
        [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sse"), ("POST", "/messages")]
    {
        for (host, person, expected) in [
            ("localhost", "ann", None),
            ("localhost", "eve", Some((StatusCode::NOT_FOUND, "nobody"))),
            ("evil.example.com", "eve", Some((StatusCode::FORBIDDEN, ""))),
        ] {
            let request =
                Request::builder().method(method).uri(path).header(HOST, host).header("x-person", person);
            let request = request.header("content-type", "application/json");
            let answer = site.send(request.body(Full::default()).unwrap()).await;
            match expected {
                None => assert!(answer.status != StatusCode::FORBIDDEN, "{method} {path} {}", answer.status),
                Some((status, text)) if path == "/mcp" || status == StatusCode::NOT_FOUND => {
                    assert_eq!(answer.status, status, "{method} {path} {host} {person}");
                    let body = answer.read().await;
                    assert!(text.is_empty() || body == text, "{method} {path}: {body:?}");
                }
                Some(_) => {}
            }
        }
    }
}

/// A name that can never match is reported to the author of the configuration.
#[test]
fn names_that_can_never_match_are_refused() {
    let builder = || Endpoint::builder(ProbeService::new());
    let refused = |build: &dyn Fn() -> super::super::EndpointBuilder| {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(build)).err().unwrap();
        panic.downcast_ref::<String>().unwrap().clone()
    };
    for junk in ["https://mcp.example.org", "mcp.example.org/mcp", "", "a b", "name:port"] {
        let said = refused(&|| builder().allow_host(junk));
        assert!(said.contains(&format!("{junk:?}")) && said.contains("Host"), "{said}");
    }
    for junk in ["example.org", "https://example.org/", "https://", ""] {
        let said = refused(&|| builder().allow_origin(junk));
        assert!(said.contains(&format!("{junk:?}")) && said.contains("Origin"), "{said}");
    }
    let _ = builder().allow_host("*").allow_origin("null").allow_origin("https://example.org:*").build();
}
