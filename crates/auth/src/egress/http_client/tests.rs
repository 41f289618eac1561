use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use url::Url;

use super::*;

mod trust;

/// A server that answers every connection with these bytes; the port, and how many came.
async fn serve(answer: String) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    (port, came)
}

fn json(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn get(url: &str) -> Request {
    Request::get(Url::parse(url).unwrap(), 64)
}

fn local() -> Egress {
    Egress::public().allow_loopback()
}

/// Names stand for what the test says, one answer after the other.
fn naming(egress: Egress, answers: &'static [&'static [&'static str]], port: u16) -> GuardedClient {
    let asked = AtomicUsize::new(0);
    let lookup = move |_host: String| -> Found {
        let turn = asked.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        let found = answers[turn].iter().map(|text| SocketAddr::new(text.parse().unwrap(), port)).collect();
        Box::pin(async move { Ok(found) })
    };
    GuardedClient::with_lookup(egress, Arc::new(lookup))
}

#[tokio::test]
async fn a_document_is_read_whole() {
    let (port, _) = serve(json("{\"a\":1}")).await;
    let client = GuardedClient::new(local());
    let response = client.fetch(get(&format!("http://localhost:{port}/x"))).await.unwrap();
    assert_eq!((response.status, &response.body[..]), (StatusCode::OK, &b"{\"a\":1}"[..]));
}

/// covers: SECP-04
#[tokio::test]
async fn a_name_that_stands_for_the_inside_is_not_dialled() {
    let (port, came) = serve(json("{}")).await;
    let url = format!("https://as.example:{port}/");
    let client = naming(Egress::public(), &[&["127.0.0.1", "10.0.0.1", "::1"]], port);
    let forbidden = Err(FetchError::Forbidden("the address is not public"));
    assert_eq!(client.fetch(get(&url)).await.map(|_| ()), forbidden);
    // The first answer is public (an address that nobody answers at), the second is not: each is looked at when it
    // comes.
    let flipping = naming(local(), &[&["127.0.0.1"]], port);
    assert_eq!(flipping.fetch(get(&url)).await.map(|_| ()), forbidden);
    assert_eq!(came.load(Ordering::SeqCst), 0);
}

/// covers: SECP-05
#[tokio::test]
async fn redirects_are_answers_and_not_followed() {
    let (port, came) =
        serve("HTTP/1.1 302 Found\r\nlocation: /secret\r\ncontent-length: 0\r\n\r\n".into()).await;
    let client = GuardedClient::new(local());
    let response = client.fetch(get(&format!("http://127.0.0.1:{port}/"))).await.unwrap();
    assert_eq!(response.status, StatusCode::FOUND);
    assert_eq!(came.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_answer_may_not_be_longer_than_announced_or_allowed() {
    let client = GuardedClient::new(local());
    let long = "x".repeat(65);
    let endless = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{long}");
    for answer in [json(&long), endless] {
        let (port, _) = serve(answer).await;
        let outcome = client.fetch(get(&format!("http://127.0.0.1:{port}/"))).await;
        assert_eq!(outcome.map(|_| ()), Err(FetchError::TooLarge { max: 64 }));
    }
}

#[tokio::test]
async fn a_page_or_a_packed_body_is_no_document() {
    let client = GuardedClient::new(local());
    for header in
        ["content-type: text/html", "content-type: application/json\r\ncontent-encoding: gzip", "x: y"]
    {
        let (port, _) = serve(format!("HTTP/1.1 200 OK\r\n{header}\r\ncontent-length: 2\r\n\r\n{{}}")).await;
        let response = client.fetch(get(&format!("http://127.0.0.1:{port}/"))).await.unwrap();
        assert!(response.body.is_empty(), "{header}");
    }
}

#[tokio::test]
async fn what_cannot_be_reached_is_said_without_addresses() {
    let client = GuardedClient::new(local());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = client.fetch(get(&format!("http://127.0.0.1:{port}/"))).await.unwrap_err();
    assert_eq!(error, FetchError::Unreachable);
    assert!(!error.to_string().contains("127"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_left_after_a_while() {
    // Real sockets in paused time: nothing moves but the clock.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = GuardedClient::new(local());
    let outcome = client.fetch(get(&format!("http://127.0.0.1:{port}/"))).await;
    assert_eq!(outcome.map(|_| ()), Err(FetchError::Timeout));
}
