//! Hostile clients against the HTTP server.

use hospes::client::{Client, Target};
use hospes::transport::http_server::{Endpoint, EndpointBuilder, HttpServer};
use hospes_testkit::{ProcessUsage, resident};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

struct Site {
    address: String,
    client: Client,
}

impl Site {
    async fn new(settings: impl FnOnce(EndpointBuilder) -> EndpointBuilder, idle: Duration) -> Self {
        let endpoint = settings(Endpoint::builder(server())).build();
        let http = HttpServer::bind("127.0.0.1:0", endpoint).await.unwrap().idle_timeout(idle);
        let (url, address) = (http.url(), http.local_addr().to_string());
        tokio::spawn(http.serve());
        let client = Client::builder().connect(Target::url(url)).await.unwrap();
        Self { address, client }
    }

    async fn with(settings: impl FnOnce(EndpointBuilder) -> EndpointBuilder) -> Self {
        Self::new(settings, Duration::from_secs(60)).await
    }

    async fn open(&self) -> TcpStream {
        TcpStream::connect(&self.address).await.unwrap()
    }

    /// Sends a request on a new connection, and returns the response until the server closes it.
    async fn say(&self, request: &[u8]) -> String {
        self.exchange(request, false).await
    }

    /// Sends an incomplete request and closes this side of the connection. Otherwise as [`say`](Self::say).
    async fn break_off(&self, bytes: &[u8]) -> String {
        self.exchange(bytes, true).await
    }

    async fn exchange(&self, bytes: &[u8], close: bool) -> String {
        let mut stream = self.open().await;
        // The server may hang up before it has read everything.
        let _ = soon("writing", stream.write_all(bytes)).await;
        if close {
            let _ = stream.shutdown().await;
        }
        let mut said = Vec::new();
        let _ = soon("reading", stream.read_to_end(&mut said)).await;
        String::from_utf8_lossy(&said).into_owned()
    }

    /// That others are served.
    async fn serves(&self) {
        let answer = soon("a neighbour's call", async {
            self.client.call("echo", json!({"text": "hello"})).await.unwrap()
        });
        assert_eq!(answer.await.all_text(), "hello");
    }
}

fn post(headers: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

/// The session's header.
async fn session(site: &Site, revision: &str) -> String {
    let answer = site.say(&post("", initialize(revision).as_bytes())).await;
    let id = answer
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "))
        .unwrap_or_else(|| panic!("{answer}"));
    format!("mcp-session-id: {}\r\n", id.trim())
}

fn status(answer: &str) -> u16 {
    answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_default()
}

#[tokio::test]
async fn rubbish_and_depth_are_refused_and_others_are_served() {
    let site = Site::with(|endpoint| endpoint).await;
    for revision in ["2025-03-26", "2025-11-25"] {
        let session = session(&site, revision).await;
        let deep = deep().map(|deep| {
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"raw\",\"arguments\":{{\"x\":{deep}}}}}}}").into_bytes()
        });
        for body in rubbish().into_iter().chain(deep) {
            for headers in ["", &session, &format!("{session}mcp-protocol-version: {revision}\r\n")] {
                let answer = site.say(&post(headers, &body)).await;
                let status = status(&answer);
                let body = String::from_utf8_lossy(&body[..body.len().min(100)]);
                assert!((200..500).contains(&status), "{body}: {answer}");
            }
        }
        let modern = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/list\r\n";
        for body in rubbish() {
            let answer = site.say(&post(modern, &body)).await;
            let body = String::from_utf8_lossy(&body);
            assert!((400..500).contains(&status(&answer)) || status(&answer) == 202, "{body}: {answer}");
        }
        site.serves().await;
    }
}

#[tokio::test]
async fn heads_that_are_too_large_or_wrong_are_refused_and_others_are_served() {
    let site = Site::with(|endpoint| endpoint).await;
    let ping = request(1, "ping", json!({}));
    let many: String = (0..5000).map(|number| format!("x-{number}: y\r\n")).collect();
    let long = format!("x-long: {}\r\n", "y".repeat(4_000_000));
    let before = resident();
    for headers in [
        many.as_str(),
        &long,
        "transfer-encoding: chunked\r\n",
        "content-length: 7\r\n",
        "host: other\r\n",
        "x\0y: z\r\n",
        ": z\r\n",
    ] {
        let answer = site.break_off(&post(headers, ping.as_bytes())).await;
        let refused = answer.is_empty() || (400..500).contains(&status(&answer));
        assert!(refused, "{}: {answer}", &headers[..headers.len().min(60)]);
    }
    for start in [
        "GET / HTTP/9.9\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &"G".repeat(1_000_000),
        "POST /mcp HTTP/1.1\r\n\r\n",
    ] {
        let answer = site.break_off(start.as_bytes()).await;
        assert!(answer.is_empty() || (400..600).contains(&status(&answer)), "{answer}");
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 * MIB, "grew by {grown} bytes");
    site.serves().await;
}

#[tokio::test]
async fn bodies_without_end_are_refused_by_the_limits_name_and_take_no_memory() {
    let site = Site::with(|endpoint| endpoint.max_message_bytes(100_000)).await;
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n";
    let before = resident();
    let claimed = site.break_off(format!("{head}content-length: 99999999999\r\n\r\n{{").as_bytes()).await;
    assert_eq!(status(&claimed), 413, "{claimed}");
    assert!(claimed.contains("max_message_bytes"), "{claimed}");
    let mut chunked = site.open().await;
    chunked.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).await.unwrap();
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(0x10_0000));
    let mut said = Vec::new();
    for _ in 0..100 {
        if chunked.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    let _ = soon("an answer", chunked.read_to_end(&mut said)).await;
    let said = String::from_utf8_lossy(&said);
    // A peer that goes on writing may see a broken connection before the answer.
    assert!(said.is_empty() || said.contains("max_message_bytes"), "{said}");
    for chunk in ["zz\r\n", "-1\r\n", "ffffffffffffffffff\r\n", "1\r\nxx\r\n"] {
        let answer =
            site.break_off(format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}").as_bytes()).await;
        assert!(answer.is_empty() || (400..500).contains(&status(&answer)), "{chunk:?}: {answer}");
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 32 * MIB, "grew by {grown} bytes");
    site.serves().await;
}

/// Many connections that begin a request and stop do not block others, and are closed eventually.
#[tokio::test]
async fn connections_that_dawdle_are_closed_and_others_are_served() {
    let site =
        Site::new(|endpoint| endpoint.body_timeout(Duration::from_millis(300)), Duration::from_millis(300))
            .await;
    let whole = post("", initialize("2025-11-25").as_bytes());
    let mut slow = Vec::new();
    for number in 0..200 {
        let mut stream = site.open().await;
        // Some in the head, some in the body, some with nothing at all.
        let cut = [0, 1, 40, whole.len() - 1][number % 4];
        stream.write_all(&whole[..cut]).await.unwrap();
        slow.push(stream);
    }
    site.serves().await;
    for mut stream in slow {
        let mut said = Vec::new();
        let _ = soon("the end of a connection", stream.read_to_end(&mut said)).await;
        let said = String::from_utf8_lossy(&said);
        assert!(said.is_empty() || status(&said) == 408, "{said}");
    }
    site.serves().await;
}

/// Answers that no client reads are not generated without limit.
#[tokio::test]
async fn clients_that_do_not_read_cost_a_bounded_amount() {
    let site = Site::with(|endpoint| endpoint).await;
    let blob = call(1, "blob", json!({}));
    let headers = session(&site, "2025-11-25").await;
    let request = post(&headers, blob.as_bytes());
    let before = resident();
    let mut deaf = Vec::new();
    for _ in 0..20 {
        let mut stream = site.open().await;
        let pipelined = request.repeat(50);
        let _ = timeout(Duration::from_millis(50), stream.write_all(&pipelined)).await;
        deaf.push(stream);
    }
    for _ in 0..20 {
        site.serves().await;
    }
    let grown = resident().saturating_sub(before);
    // A thousand answers of a megabyte were asked for.
    assert!(grown < 160 * MIB, "grew by {grown} bytes");
}

#[tokio::test]
async fn an_id_in_use_is_refused_and_a_crowd_is_told_the_limits_name() {
    let site = Site::with(|endpoint| endpoint.max_concurrent_calls(20)).await;
    let headers = session(&site, "2025-11-25").await;
    let hang = post(&headers, call(1, "forever", json!({})).as_bytes());
    let mut held = Vec::new();
    for id in 1..20 {
        let mut stream = site.open().await;
        stream.write_all(&post(&headers, call(id, "forever", json!({})).as_bytes())).await.unwrap();
        held.push(stream);
    }
    // Twice the same id: whichever of the two came first is served, the other is refused.
    let refused = async {
        loop {
            let mut twin = site.open().await;
            twin.write_all(&hang).await.unwrap();
            let mut start = vec![0; 2000];
            if let Ok(Ok(bytes)) = timeout(Duration::from_millis(200), twin.read(&mut start)).await {
                return String::from_utf8_lossy(&start[..bytes]).into_owned();
            }
            held.push(twin);
        }
    };
    let refused = soon("a refusal", refused).await;
    assert!(refused.contains("-32600") || refused.contains("max_concurrent_calls"), "{refused}");
    let crowd = async {
        loop {
            let mut stream = site.open().await;
            stream.write_all(&post(&headers, call("crowd", "forever", json!({})).as_bytes())).await.unwrap();
            let mut start = vec![0; 2000];
            if let Ok(Ok(bytes)) = timeout(Duration::from_millis(200), stream.read(&mut start)).await {
                return String::from_utf8_lossy(&start[..bytes]).into_owned();
            }
            held.push(stream);
        }
    };
    let crowd = soon("a refusal", crowd).await;
    assert!(crowd.contains("max_concurrent_calls") || crowd.contains("-32600"), "{crowd}");
    drop(held);
    // In this revision a lost connection cancels nothing, the end of the session does.
    let ended = format!("DELETE /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
    assert_eq!(status(&site.say(ended.as_bytes()).await) / 100, 2);
    site.serves().await;
}

/// Connections that come and go leave no descriptor behind.
#[tokio::test]
async fn connections_leave_nothing_behind() {
    let site = Site::with(|endpoint| endpoint).await;
    site.serves().await;
    let Some(before) = ProcessUsage::now() else { return };
    for number in 0..500 {
        let mut stream = site.open().await;
        let whole = post("", initialize("2025-11-25").as_bytes());
        let _ = stream.write_all(&whole[..number % whole.len()]).await;
    }
    soon("the end of connections", async {
        while ProcessUsage::now().unwrap().descriptors > before.descriptors + 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    site.serves().await;
}
