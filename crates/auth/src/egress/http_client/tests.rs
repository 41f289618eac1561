use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use std::sync::Arc;

use hospes_http_client::LookupFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use url::Url;

use super::*;

#[cfg(target_os = "linux")]
mod rebinding;
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

fn get(url: &str) -> FetchRequest {
    FetchRequest::get(Url::parse(url).unwrap(), 64)
}

fn local() -> EgressPolicy {
    EgressPolicy::public().allow_loopback()
}

/// Names stand for what the test says, one answer after the other.
fn naming(egress: EgressPolicy, answers: &'static [&'static [&'static str]], port: u16) -> GuardedClient {
    let asked = AtomicUsize::new(0);
    let lookup = move |_host: String| -> LookupFuture {
        let turn = asked.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        let found = answers[turn].iter().map(|text| SocketAddr::new(text.parse().unwrap(), port)).collect();
        Box::pin(async move { Ok(found) })
    };
    GuardedClient(EgressClient::new(egress, CONNECT_TIMEOUT).lookup(Arc::new(lookup)))
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
    let client = naming(EgressPolicy::public(), &[&["127.0.0.1", "10.0.0.1", "::1"]], port);
    let forbidden = Err(FetchError::Forbidden("the address is not public"));
    assert_eq!(client.fetch(get(&url)).await.map(|_| ()), forbidden);
    // Nor where this machine may be asked: the name is none of it.
    let outside = naming(local(), &[&["127.0.0.1"]], port);
    assert_eq!(outside.fetch(get(&url)).await.map(|_| ()), forbidden);
    assert_eq!(came.load(Ordering::SeqCst), 0);
}

/// covers: SECP-05
#[tokio::test]
async fn redirects_are_answers_and_not_followed() {
    let (inside, reached) = serve(json("{}")).await;
    for status in [301, 302, 303, 307, 308] {
        for to in ["/secret".to_owned(), format!("http://127.0.0.1:{inside}/secret")] {
            let answer = format!("HTTP/1.1 {status} There\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
            let (port, came) = serve(answer).await;
            let response = GuardedClient::new(local()).fetch(get(&format!("http://127.0.0.1:{port}/"))).await;
            assert_eq!(response.unwrap().status.as_u16(), status, "{to}");
            assert_eq!(came.load(Ordering::SeqCst), 1, "{status} {to}");
        }
    }
    assert_eq!(reached.load(Ordering::SeqCst), 0);
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

/// Ten seconds are for the whole of an answer: a byte now and then does not make them more.
#[tokio::test(start_paused = true)]
async fn an_answer_that_trickles_is_left_after_a_while() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let trickle = async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        while stream.write_all(b" ").await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let client = GuardedClient::new(local());
    let begun = tokio::time::Instant::now();
    let url = format!("http://127.0.0.1:{port}/");
    let outcome = tokio::select! {
        outcome = client.fetch(get(&url)) => outcome,
        () = trickle => panic!("it is left, not ended"),
    };
    assert_eq!(outcome.map(|_| ()), Err(FetchError::Timeout));
    assert_eq!(begun.elapsed().as_secs(), 10);
    assert!(sent.load(Ordering::SeqCst) > 5, "there was something to read all the time");
}
