//! What no honest peer does.

use std::sync::Arc;
use std::time::Duration;

use hospes_model::Method;
use hospes_proto::session::client::TimeLimits;
use tokio::time::timeout;

use super::{Wire, spawn};
use crate::client::desk::Desk;
use crate::client::link::{Members, Outgoing};
use crate::client::settings::Settings;

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_read_does_not_hold_the_end_up() {
    let (ours, theirs) = tokio::io::duplex(16);
    let (read, write) = tokio::io::split(ours);
    let (ended, mut end) = tokio::sync::mpsc::unbounded_channel();
    let on_close: Box<dyn FnOnce() + Send> = Box::new(move || {
        let _ = ended.send(());
    });
    let wire = Wire { read, write, gone: None, on_close: Some(on_close) };
    let duplex = spawn(wire, Settings::default().limits, Arc::new(Desk::default()));
    let outgoing = Outgoing {
        members: Members::Text(b"\"name\":\"longer than the pipe\""),
        ..Outgoing::new(&Method::ToolsCall, TimeLimits::NONE)
    };
    let call = duplex.open(&outgoing, b"").await.expect("it is sent as soon as there is room");
    tokio::task::yield_now().await;
    drop((call, duplex));
    let closed = timeout(Duration::from_secs(10), end.recv()).await;
    assert_eq!(closed, Ok(Some(())), "the child would never be told to end");
    drop(theirs);
}
