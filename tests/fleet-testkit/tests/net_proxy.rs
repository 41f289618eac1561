//! The faulty link does to connections what its rules say.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use hospes_fleet_testkit::eventually;
use hospes_fleet_testkit::net_proxy::{AcceptMode, LinkDirection, LinkRules, NetProxy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Time in which an answer would arrive; its absence is what a test looks for.
const SILENCE: Duration = Duration::from_millis(100);

/// Echo server behind a proxy.
async fn echo() -> (NetProxy, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = NetProxy::start(listener.local_addr().unwrap()).await;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.spawn(async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
            });
        }
    });
    (proxy, tasks)
}

async fn connect(proxy: &NetProxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.unwrap()
}

async fn exchange(stream: &mut TcpStream, text: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(text).await?;
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn bytes_pass_and_are_counted() {
    let (proxy, _server) = echo().await;
    let mut stream = connect(&proxy).await;
    assert_eq!(exchange(&mut stream, b"hello").await.unwrap(), b"hello");
    assert_eq!((proxy.passed(LinkDirection::ToServer), proxy.passed(LinkDirection::ToClient)), (5, 5));
    // The end of one direction leaves the other open until its answers have arrived.
    stream.write_all(b"last").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!((rest.as_slice(), proxy.accepted()), (b"last".as_slice(), 1));
}

#[tokio::test]
async fn a_delay_holds_for_each_direction_and_keeps_the_order() {
    let (proxy, _server) = echo().await;
    let mut stream = connect(&proxy).await;
    let delay = Duration::from_millis(60);
    proxy.set(LinkDirection::ToServer, LinkRules::delayed(delay));
    proxy.set(LinkDirection::ToClient, LinkRules::delayed(delay));
    let start = Instant::now();
    let text: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
    let (mut reader, mut writer) = stream.split();
    let mut answer = vec![0; text.len()];
    let (written, read) = tokio::join!(writer.write_all(&text), reader.read_exact(&mut answer));
    written.unwrap();
    read.unwrap();
    assert!(start.elapsed() >= 2 * delay, "{:?}", start.elapsed());
    assert!(answer == text);
    // Pipelined chunks are late once, not one after the other.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_rate_is_kept() {
    let (proxy, _server) = echo().await;
    let mut stream = connect(&proxy).await;
    proxy.set(LinkDirection::ToServer, LinkRules::limited(10_000));
    let start = Instant::now();
    exchange(&mut stream, &[1; 2_000]).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
}

#[tokio::test]
async fn silence_lasts_for_the_connections_that_it_met() {
    let (proxy, _server) = echo().await;
    let mut stream = connect(&proxy).await;
    proxy.set(LinkDirection::ToServer, LinkRules::silent());
    assert!(timeout(SILENCE, exchange(&mut stream, b"lost")).await.is_err());
    proxy.heal();
    assert!(timeout(SILENCE, exchange(&mut stream, b"more")).await.is_err());
    assert_eq!(proxy.passed(LinkDirection::ToServer), 0);
    assert_eq!(exchange(&mut connect(&proxy).await, b"new").await.unwrap(), b"new");
}

#[tokio::test]
async fn a_reset_reaches_the_client() {
    let (proxy, _server) = echo().await;
    let mut stream = connect(&proxy).await;
    exchange(&mut stream, b"x").await.unwrap();
    proxy.reset_connections();
    let error = stream.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(exchange(&mut connect(&proxy).await, b"new").await.unwrap(), b"new");
}

#[tokio::test]
async fn new_connections_can_lead_to_another_server() {
    let (proxy, _server) = echo().await;
    let mut old = connect(&proxy).await;
    exchange(&mut old, b"x").await.unwrap();
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    proxy.set_server(other.local_addr().unwrap());
    let mut new = connect(&proxy).await;
    other.accept().await.unwrap().0.write_all(b"other").await.unwrap();
    let mut answer = [0; 5];
    new.read_exact(&mut answer).await.unwrap();
    assert_eq!(
        (&answer, exchange(&mut old, b"still").await.unwrap().as_slice()),
        (b"other", b"still".as_slice())
    );
}

#[tokio::test]
async fn a_half_open_connection_looks_alive_to_the_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = NetProxy::start(listener.local_addr().unwrap()).await;
    let mut client = connect(&proxy).await;
    let (mut server, _) = listener.accept().await.unwrap();
    client.write_all(b"x").await.unwrap();
    assert_eq!(server.read_u8().await.unwrap(), b'x');
    proxy.half_open_connections();
    // The server sees the end.
    assert!(server.read_u8().await.is_err());
    client.write_all(b"y").await.unwrap();
    assert!(timeout(SILENCE, client.read_u8()).await.is_err());
}

#[tokio::test]
async fn new_connections_can_meet_silence_or_a_reset() {
    let (proxy, _server) = echo().await;
    let mut old = connect(&proxy).await;
    exchange(&mut old, b"x").await.unwrap();
    proxy.set_accept(AcceptMode::Silence);
    assert!(timeout(SILENCE, exchange(&mut connect(&proxy).await, b"x")).await.is_err());
    proxy.set_accept(AcceptMode::Reset);
    let mut refused = connect(&proxy).await;
    assert!(exchange(&mut refused, b"x").await.is_err());
    assert_eq!(exchange(&mut old, b"still").await.unwrap(), b"still");
}

#[tokio::test]
async fn a_connection_is_cut_after_some_bytes() {
    let (proxy, _server) = echo().await;
    proxy.set(LinkDirection::ToClient, LinkRules::cut_after(3));
    let mut stream = connect(&proxy).await;
    stream.write_all(b"hello").await.unwrap();
    let mut read = Vec::new();
    // The end may come as a reset, because bytes were not read.
    let _ = stream.read_to_end(&mut read).await;
    assert_eq!(read, b"hel");
    eventually("the count of bytes", async || (proxy.passed(LinkDirection::ToClient) == 3).then_some(()))
        .await;
}
