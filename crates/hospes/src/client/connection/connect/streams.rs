//! Connections over a pair of byte streams: memory, a socket, or any reader and writer.

use std::io;
use std::sync::Arc;

use hospes_proto::era::{NegotiationOutcome, NegotiationStep};
use tokio::io::{AsyncRead, AsyncWrite};

use super::probe::{RevisionProbe, build_client, negotiate_fixed_link};
use crate::client::connection::handle::Client;
use crate::client::connection::settings::ClientSettings;
use crate::client::connection::settings::ConnectOptions;
use crate::client::error::{ConnectError, ConnectStage};
use crate::client::inbound::dispatcher::InboundDispatcher;
use crate::client::link::Link;
use crate::client::transport::duplex::{self, DuplexTransport};

/// Connects over existing streams, which cannot be reopened.
pub(crate) async fn connect<R, W>(
    options: ConnectOptions,
    read: R,
    write: W,
    shown: &str,
) -> Result<Client, ConnectError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let ConnectOptions { settings, dispatcher, .. } = options;
    let dispatcher = Arc::new(dispatcher);
    let link = build_link(&settings, &dispatcher, read, write);
    negotiate_fixed_link(RevisionProbe::new(&settings, shown.to_owned()), link, dispatcher).await
}

/// Connects over the streams of `dial`, which is called again if the server closes the connection when probed.
pub(crate) async fn dial<D, Fut, R, W>(
    options: ConnectOptions,
    dial: D,
    shown: &str,
) -> Result<Client, ConnectError>
where
    D: Fn() -> Fut,
    Fut: Future<Output = io::Result<(R, W)>>,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let ConnectOptions { settings, dispatcher, .. } = options;
    let dispatcher = Arc::new(dispatcher);
    let mut probing = RevisionProbe::new(&settings, shown.to_owned());
    loop {
        // `dial` is the caller's code and need not have a time limit of its own.
        let link = match tokio::time::timeout(probing.remaining_time(), dial()).await {
            Ok(Ok((read, write))) => build_link(&settings, &dispatcher, read, write),
            Ok(Err(error)) => return Err(unreachable_error(shown, error)),
            Err(_) => return Err(unreachable_error(shown, io::ErrorKind::TimedOut.into())),
        };
        match probing.run_steps(&*link).await {
            NegotiationStep::Agreed(agreed) => {
                return Ok(build_client(probing, agreed, link, dispatcher).await);
            }
            NegotiationStep::Failed(failure) => return Err(probing.into_error(&failure)),
            NegotiationStep::Respawn => {
                tracing::debug!("the server closed the connection during version negotiation; reconnecting");
                link.close().await;
                // The end of the first connection is recorded in
                // the dispatcher; the second must not count as ended.
                dispatcher.clear_closed();
                probing.negotiation.handle_outcome(NegotiationOutcome::Respawned);
            }
            // `ask` deals with these.
            NegotiationStep::Discover { .. }
            | NegotiationStep::Initialize { .. }
            | NegotiationStep::OpenSse => {}
        }
    }
}

fn unreachable_error(shown: &str, error: io::Error) -> ConnectError {
    ConnectError::new(shown, ConnectStage::Tcp, format!("connection failed: {error}")).with(|failure| {
        failure.hint = Some("is the server running, and is the address correct?".into());
        failure.source = Some(Box::new(error));
    })
}

fn build_link<R, W>(
    settings: &ClientSettings,
    dispatcher: &Arc<InboundDispatcher>,
    read: R,
    write: W,
) -> Box<dyn Link>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let wire = DuplexTransport::new(read, write);
    Box::new(duplex::spawn(wire, settings.limits, dispatcher.clone()))
}
