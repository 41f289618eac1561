//! Tests of peers that violate the protocol.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use hospes_model::{Method, Revision};
use hospes_proto::session::client::TimeLimits;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

use super::{DuplexTransport, spawn};
use crate::client::connection::settings::ClientSettings;
use crate::client::inbound::dispatcher::InboundDispatcher;
use crate::client::link::{
    EventInterest, Link as _, LinkEvent, NegotiatedProtocol, OutgoingParams, OutgoingRequest,
};

#[tokio::test]
async fn a_question_reaches_no_other_principal() {
    let (ours, theirs) = tokio::io::duplex(4096);
    let (read, write) = tokio::io::split(ours);
    let wire = DuplexTransport::new(read, write);
    let duplex = spawn(wire, ClientSettings::default().limits, Arc::new(InboundDispatcher::default()));
    let protocol = legacy_protocol();
    let (input, mut output) = tokio::io::split(theirs);
    let mut lines = BufReader::new(input).lines();
    let (ada, bob) = (Arc::from("ada"), Arc::from("bob"));
    let mut calls = Vec::new();
    for principal in [&ada, &ada, &bob] {
        let outgoing = OutgoingRequest {
            interest: EventInterest::NotificationsAndRequests,
            principal: Some(principal),
            ..OutgoingRequest::new(&Method::ToolsCall, TimeLimits::NONE)
        };
        calls.push(duplex.open(&outgoing, &protocol).await.expect("it is sent"));
        lines.next_line().await.expect("a pipe").expect("a request");
    }
    let question = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"roots/list\"}\n";
    output.write_all(question).await.expect("a pipe");
    let answer = lines.next_line().await.expect("a pipe").expect("an answer");
    assert!(answer.contains("\"error\"") && answer.contains("\"id\":7"), "{answer}");
    // Among calls of one principal it goes to the youngest.
    drop(calls.pop());
    assert!(lines.next_line().await.expect("a pipe").expect("a line").contains("cancelled"));
    output.write_all(question).await.expect("a pipe");
    let mut youngest = calls.pop().expect("the second call");
    let event = timeout(Duration::from_secs(10), poll_fn(|cx| youngest.poll_event(cx))).await;
    assert!(matches!(event, Ok(LinkEvent::Question(..))), "{event:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_read_does_not_hold_the_end_up() {
    let (ours, theirs) = tokio::io::duplex(16);
    let (read, write) = tokio::io::split(ours);
    let (ended, mut end) = tokio::sync::mpsc::unbounded_channel();
    let on_close: Box<dyn FnOnce() + Send> = Box::new(move || {
        let _ = ended.send(());
    });
    let wire = DuplexTransport { on_close: Some(on_close), ..DuplexTransport::new(read, write) };
    let duplex = spawn(wire, ClientSettings::default().limits, Arc::new(InboundDispatcher::default()));
    let protocol = legacy_protocol();
    let outgoing = OutgoingRequest {
        members: OutgoingParams::Text(b"\"name\":\"longer than the pipe\""),
        ..OutgoingRequest::new(&Method::ToolsCall, TimeLimits::NONE)
    };
    let call = duplex.open(&outgoing, &protocol).await.expect("it is sent as soon as there is room");
    tokio::task::yield_now().await;
    drop((call, duplex));
    let closed = timeout(Duration::from_secs(10), end.recv()).await;
    assert_eq!(closed, Ok(Some(())), "the child would never be told to end");
    drop(theirs);
}

fn legacy_protocol() -> NegotiatedProtocol {
    NegotiatedProtocol { revision: Revision::LATEST_LEGACY, stamp: bytes::Bytes::new() }
}
