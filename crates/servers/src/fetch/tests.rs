use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hospes::Server;
use hospes::model::Method;
use hospes::prelude::*;
use hospes_http_client::{EgressPolicy, LookupFuture};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{FetchConfig, fetch};
use crate::testing::{call, is_well_described, refusal, result, text};

mod hostile;

/// One of the addresses of this machine counts as public in these tests: Linux has all of 127.0.0.0/8.
const PUBLIC: &str = "127.0.0.2";
const INSIDE: &str = "127.0.0.1";

/// A site: what it answers is written by hand, and what it was asked is kept.
#[derive(Clone)]
struct Site {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    /// Answers with what `answer` says to the path.
    async fn open(answer: impl Fn(&str, u16) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        Self::serve(PUBLIC, move |mut stream, path, port| {
            let answer = answer(&path, port);
            async move {
                let _ = stream.write_all(&answer).await;
            }
        })
        .await
    }

    async fn serve<F: Future<Output = ()> + Send + 'static>(
        address: &str,
        answer: impl Fn(TcpStream, String, u16) -> F + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let this = Self { port: listener.local_addr().unwrap().port(), asked: Arc::default() };
        let (asked, port, answer) = (Arc::clone(&this.asked), this.port, Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read_u8().await {
                            Ok(byte) => head.push(byte),
                            Err(_) => return,
                        }
                    }
                    let head = String::from_utf8(head).unwrap();
                    let path = head.split(' ').nth(1).unwrap().to_owned();
                    asked.lock().push(head);
                    answer(stream, path, port).await;
                });
            }
        });
        this
    }

    fn url(&self, path: &str) -> String {
        format!("http://site.example:{}{path}", self.port)
    }

    /// The paths that were asked for.
    fn paths(&self) -> Vec<String> {
        let asked = self.asked.lock();
        asked.iter().map(|head| head.split(' ').nth(1).unwrap().to_owned()).collect()
    }
}

/// Names stand for the public address here, but for one.
fn config() -> FetchConfig {
    let lookup = |host: String| -> LookupFuture {
        let address = if host.starts_with("inside") { INSIDE } else { PUBLIC };
        Box::pin(async move { Ok(vec![SocketAddr::new(address.parse().unwrap(), 0)]) })
    };
    FetchConfig { egress: egress(), lookup: Arc::new(lookup), ..FetchConfig::new() }
}

fn egress() -> EgressPolicy {
    EgressPolicy::public().allow_http().allow_network(PUBLIC.parse().unwrap())
}

fn server() -> Server {
    fetch(config()).unwrap()
}

fn page(head: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut answer = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    answer
}

fn missing() -> Vec<u8> {
    page("404 Not Found", "")
}

const HTML: &str = "<html><head><title>T</title><style>p{}</style></head><body><nav><a href=/>Home</a></nav>\
    <h1>Hello</h1><p>One <b>bold</b> <a href=\"/next\">link</a>.</p><script>evil()</script><ul><li>a</li><li>b</li></ul></body></html>";

#[tokio::test]
async fn pages_become_markdown() {
    is_well_described(&server()).await;
    let site = Site::open(|path, _| match path {
        "/page" => page("200 OK\r\ncontent-type: text/html; charset=utf-8", HTML),
        "/untyped" => page("200 OK", HTML),
        "/data" => page("200 OK\r\ncontent-type: application/vnd.x+json", "{\"a\":1}"),
        "/plain" => page("200 OK\r\ncontent-type: text/plain", "<b>as it is</b>"),
        _ => missing(),
    })
    .await;
    let server = server();
    let get = async |path: &str, format: &str| {
        text(&server, "fetch", json!({ "url": site.url(path), "format": format })).await
    };
    let markdown = get("/page#part", "markdown").await;
    assert!(markdown.starts_with(&format!("Contents of {}:\n\n# Hello", site.url("/page"))), "{markdown}");
    assert!(markdown.contains("One **bold** [link](/next)."), "{markdown}");
    for hidden in ["evil", "p{}", "Home"] {
        assert!(!markdown.contains(hidden), "{markdown}");
    }
    assert!(get("/untyped", "markdown").await.contains("# Hello"));
    let plain = get("/page", "text").await;
    assert!(plain.contains("Hello\n") && plain.contains("One bold link.") && !plain.contains('#'), "{plain}");
    assert!(get("/page", "raw").await.ends_with(HTML));
    assert!(get("/data", "markdown").await.ends_with("{\"a\":1}"));
    assert!(get("/plain", "markdown").await.ends_with("<b>as it is</b>"));
    let head = site.asked.lock()[1].clone();
    assert!(head.contains("user-agent: hospes/") && head.contains("(autonomous)"), "{head}");
}

#[tokio::test]
async fn long_pages_come_in_parts() {
    let long: String = (0..3000).map(|number| format!("{number} ü ")).collect();
    let body = long.clone();
    let site =
        Site::open(
            move |path, _| {
                if path == "/" { page("200 OK\r\ncontent-type: text/plain", &body) } else { missing() }
            },
        )
        .await;
    let server = server();
    let (mut start, mut read) = (0, String::new());
    loop {
        let url = site.url("/");
        let part =
            text(&server, "fetch", json!({ "url": url, "start_index": start, "max_length": 4000 })).await;
        let part = part.split_once(":\n\n").unwrap().1;
        let Some((said, note)) = part.split_once("\n\n(cut here") else {
            read.push_str(part);
            break;
        };
        read.push_str(said);
        start = note.rsplit(' ').next().unwrap().trim_end_matches(')').parse().unwrap();
    }
    assert_eq!(read, long);
    let why = refusal(&server, "fetch", json!({ "url": site.url("/"), "start_index": 1_000_000 })).await;
    assert!(why.contains("start_index is past the end"), "{why}");
}

#[tokio::test]
async fn letters_are_read_as_they_were_written() {
    let site = Site::open(|path, _| match path {
        "/named" => {
            page("200 OK\r\ncontent-type: text/plain; charset=\"Shift_JIS\"", b"\x83\x65\x83\x58\x83\x67")
        }
        "/said" => page(
            "200 OK\r\ncontent-type: text/html",
            b"<html><head><meta charset=iso-8859-2></head><p>\xb3\xf3d\xbc</html>",
        ),
        "/wrong" => page("200 OK\r\ncontent-type: text/plain; charset=utf-8", b"caf\xe9 \xff\xfe"),
        "/unknown" => page("200 OK\r\ncontent-type: text/plain; charset=klingon", b"caf\xe9"),
        "/marked" => page("200 OK\r\ncontent-type: text/plain; charset=iso-8859-1", b"\xff\xfeh\x00i\x00"),
        _ => missing(),
    })
    .await;
    let server = server();
    for (path, wanted) in [
        ("/named", "テスト"),
        ("/said", "łódź"),
        ("/wrong", "caf\u{fffd} "),
        ("/unknown", "café"),
        ("/marked", "hi"),
    ] {
        let shown = text(&server, "fetch", json!({ "url": site.url(path) })).await;
        assert!(shown.contains(wanted), "{path}: {shown}");
    }
}

#[tokio::test]
async fn pictures_are_shown_where_they_are_wanted() {
    let site = Site::open(|path, _| match path {
        "/p.png" => page("200 OK\r\ncontent-type: image/png", b"\x89PNG"),
        "/p.svg" => page("200 OK\r\ncontent-type: image/svg+xml", "<svg/>"),
        "/p.pdf" => page("200 OK\r\ncontent-type: application/pdf", b"%PDF\0"),
        _ => missing(),
    })
    .await;
    let server = server();
    let why = refusal(&server, "fetch", json!({ "url": site.url("/p.png") })).await;
    assert!(why.contains("an image (image/png, 4 bytes); set image = true"), "{why}");
    let picture = call(&server, "fetch", json!({ "url": site.url("/p.png"), "image": true })).await;
    assert_eq!(
        (&picture["content"][0]["type"], &picture["content"][0]["mimeType"]),
        (&json!("image"), &json!("image/png"))
    );
    assert!(text(&server, "fetch", json!({ "url": site.url("/p.svg") })).await.contains("<svg/>"));
    let why = refusal(&server, "fetch", json!({ "url": site.url("/p.pdf") })).await;
    assert!(why.contains("application/pdf, 5 bytes, not text"), "{why}");
}

#[tokio::test]
async fn robots_are_told_where_they_may_go_and_people_go_anywhere() {
    let site = Site::open(|path, _| match path {
        "/robots.txt" => page("200 OK", "User-agent: *\nDisallow: /no"),
        "/over" => page("302 Found\r\nlocation: /no/there", ""),
        _ => page("200 OK\r\ncontent-type: text/plain", "said"),
    })
    .await;
    let server = server();
    assert!(text(&server, "fetch", json!({ "url": site.url("/yes") })).await.ends_with("said"));
    for path in ["/no", "/no/there", "/%6eo", "/over"] {
        let why = refusal(&server, "fetch", json!({ "url": site.url(path) })).await;
        assert!(why.contains("robots.txt of site.example"), "{path}: {why}");
    }
    // Its rules were asked for once, and what they forbid was not asked for.
    assert_eq!(site.paths(), ["/robots.txt", "/yes", "/over"]);
    let params = json!({ "name": "fetch", "arguments": { "url": site.url("/no") } });
    let prompt = result(&server, Method::PromptsGet, params).await;
    assert!(prompt["messages"][0]["content"]["text"].as_str().unwrap().ends_with("said"), "{prompt}");
    assert!(site.asked.lock().last().unwrap().contains("(a person asks)"));
    let bold = fetch(config().ignore_robots().user_agent("bold/1")).unwrap();
    assert!(text(&bold, "fetch", json!({ "url": site.url("/no") })).await.ends_with("said"));
    assert!(site.asked.lock().last().unwrap().contains("user-agent: bold/1\r\n"));
    assert!(fetch(config().user_agent("two\nlines")).is_err());
}

#[tokio::test]
async fn a_site_that_does_not_say_what_it_wants_is_left_alone() {
    for (status, wanted) in [
        ("503 Busy", Some("robots.txt cannot be read")),
        ("403 Forbidden", Some("disallows it for programs")),
        ("410 Gone", None),
    ] {
        let site = Site::open(move |path, _| match path {
            "/robots.txt" => page(status, ""),
            _ => page("200 OK\r\ncontent-type: text/plain", "said"),
        })
        .await;
        let result = call(&server(), "fetch", json!({ "url": site.url("/") })).await;
        let said = result["content"][0]["text"].as_str().unwrap();
        assert!(said.contains(wanted.unwrap_or("said")), "{status}: {said}");
    }
}

#[tokio::test]
async fn mistakes_say_what_to_do() {
    let site = Site::open(|path, _| match path {
        "/gone" => page("410 Gone\r\ncontent-type: text/html", "<html><p>It was <b>here</b>.</html>"),
        _ => missing(),
    })
    .await;
    let server = server();
    for (url, wanted) in [
        ("example.com".to_owned(), "a URL begins with https://"),
        ("ftp://site.example/".to_owned(), "the URL scheme must be http or https"),
        ("file:///etc/passwd".to_owned(), "the URL scheme must be http or https"),
        ("http://me:secret@site.example/".to_owned(), "the URL contains credentials"),
        (site.url("/gone"), "responded with 410 Gone; response: It was **here**."),
        (
            format!(
                "http://site.example:{}/",
                TcpListener::bind((PUBLIC, 0)).await.unwrap().local_addr().unwrap().port()
            ),
            "the server could not be reached",
        ),
    ] {
        let why = refusal(&server, "fetch", json!({ "url": url })).await;
        assert!(why.contains(wanted), "{url}: {why}");
    }
    let params = json!({ "name": "fetch", "arguments": { "url": site.url("/gone") } });
    let prompt = result(&server, Method::PromptsGet, params).await;
    assert!(prompt["messages"][0]["content"]["text"].as_str().unwrap().contains("410 Gone"), "{prompt}");
}
