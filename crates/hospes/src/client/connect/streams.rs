//! Over a pair of byte streams: in memory, a socket, whatever can be read and written.

use std::io;
use std::sync::Arc;

use hospes_proto::era::{NegotiationOutcome, NegotiationStep};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{RevisionProbe, ready, settle};
use crate::client::Client;
use crate::client::builder::ClientBuilder;
use crate::client::core::ClientLink;
use crate::client::dispatcher::InboundDispatcher;
use crate::client::duplex::{self, DuplexTransport};
use crate::client::error::{ConnectError, ConnectStage};
use crate::client::settings::ClientSettings;

/// Over streams that are there already and cannot be had anew.
pub(in crate::client) async fn connect<R, W>(
    builder: ClientBuilder,
    read: R,
    write: W,
    shown: &str,
) -> Result<Client, ConnectError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let ClientBuilder { settings, desk, .. } = builder;
    let desk = Arc::new(desk);
    let link = link(&settings, &desk, read, write);
    settle(RevisionProbe::new(&settings, shown.to_owned()), link, desk).await
}

/// Over streams that `dial` brings, and brings again when the server hung up on being asked what it speaks.
pub(in crate::client) async fn dial<D, Fut, R, W>(
    builder: ClientBuilder,
    dial: D,
    shown: &str,
) -> Result<Client, ConnectError>
where
    D: Fn() -> Fut,
    Fut: Future<Output = io::Result<(R, W)>>,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let ClientBuilder { settings, desk, .. } = builder;
    let desk = Arc::new(desk);
    let mut probing = RevisionProbe::new(&settings, shown.to_owned());
    loop {
        let link = match tokio::time::timeout(probing.left(), dial()).await {
            Ok(Ok((read, write))) => link(&settings, &desk, read, write),
            Ok(Err(error)) => return Err(unreachable(shown, error)),
            Err(_) => return Err(unreachable(shown, io::ErrorKind::TimedOut.into())),
        };
        match probing.ask(&link).await {
            NegotiationStep::Agreed(agreed) => return Ok(ready(probing, agreed, link, desk).await),
            NegotiationStep::Failed(failure) => return Err(probing.failure(&failure)),
            NegotiationStep::Respawn => {
                tracing::debug!("the server hung up on being asked what it speaks; it is called once more");
                link.close().await;
                desk.reopened();
                probing.negotiation.handle_outcome(NegotiationOutcome::Respawned);
            }
            // `ask` deals with these.
            NegotiationStep::Discover { .. }
            | NegotiationStep::Initialize { .. }
            | NegotiationStep::OpenSse => {}
        }
    }
}

fn unreachable(shown: &str, error: io::Error) -> ConnectError {
    ConnectError::new(shown, ConnectStage::Tcp, format!("it could not be reached: {error}")).with(|failure| {
        failure.hint = Some("is the server running, and is the address right?".into());
        failure.source = Some(Box::new(error));
    })
}

fn link<R, W>(settings: &ClientSettings, desk: &Arc<InboundDispatcher>, read: R, write: W) -> ClientLink
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let wire = DuplexTransport { read, write, gone: None, on_close: None };
    ClientLink::Duplex(duplex::spawn(wire, settings.limits, Arc::clone(desk)), None)
}
