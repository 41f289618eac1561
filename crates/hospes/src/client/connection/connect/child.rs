//! Connections to child processes.

use std::sync::Arc;

use futures::future::BoxFuture;
use hospes_proto::era::{NegotiationError, NegotiationOutcome, NegotiationStep};

use super::probe::{RevisionProbe, SILENCE, build_client};
use crate::client::connection::handle::Client;
use crate::client::connection::settings::ConnectOptions;
use crate::client::error::{ConnectError, ConnectStage, ConnectionClosed};
use crate::client::inbound::dispatcher::InboundDispatcher;
use crate::client::link::{ClientLimits, Link};
use crate::client::target::CommandTarget;
use crate::client::target::env_secrets::EnvSecrets;
use crate::client::transport::child::{ChildHandle, ChildListeners, ChildProcess, UnreadInput, count_input};
use crate::client::transport::duplex::ConnectionGuard;
use crate::client::transport::duplex::{self, DuplexTransport};

pub(crate) async fn connect(
    options: ConnectOptions,
    command: &CommandTarget,
    shown: String,
) -> Result<Client, ConnectError> {
    let ConnectOptions { settings, dispatcher, listeners } = options;
    let hidden = Arc::new(EnvSecrets::from_env(&command.env));
    let dispatcher = Arc::new(dispatcher);
    let mut probing = RevisionProbe::new(&settings, shown);
    let start =
        ChildStart { listeners, limits: settings.limits, hidden, dispatcher: Arc::clone(&dispatcher) };
    let spawn = |shown: &str| spawn_child(command, &start, shown);
    let (mut link, mut child, mut unread) = spawn(&probing.shown)?;
    loop {
        match probing.run_steps(&*link).await {
            NegotiationStep::Agreed(agreed) => {
                // This handle keeps the pipe open: the end of the input
                // would never reach the child when the client closes it.
                drop(unread);
                return Ok(build_client(probing, agreed, link, dispatcher).await);
            }
            NegotiationStep::Failed(failure) => {
                let error = probing.into_error(&failure);
                drop(unread);
                link.close().await;
                return Err(with_output(error, &*link, &child));
            }
            // A program that ended without having read the question would end in the same way if it were started again.
            NegotiationStep::Respawn
                if unread.as_ref().is_some_and(UnreadInput::is_untouched) && probing.is_closed() =>
            {
                let error = probing.into_error(&NegotiationError::Exited);
                drop(unread);
                link.close().await;
                return Err(with_output(error, &*link, &child));
            }
            NegotiationStep::Respawn => {
                tracing::info!("the server exited during version negotiation; restarting it");
                drop(unread.take());
                link.close().await;
                dispatcher.clear_closed();
                (link, child, unread) = spawn(&probing.shown)?;
                probing.negotiation.handle_outcome(NegotiationOutcome::Respawned);
            }
            // `ask` deals with these.
            NegotiationStep::Discover { .. }
            | NegotiationStep::Initialize { .. }
            | NegotiationStep::OpenSse => {}
        }
    }
}

/// Remedy of a program that prints other text than messages.
const NOISE_HINT: &str = "make the server log to stderr: on stdout there may be messages only";

/// Adds to an error what the program has printed: its last words explain a silence, and so does text that is no message.
fn with_output(error: ConnectError, link: &dyn Link, child: &ChildHandle) -> ConnectError {
    let (stderr, (_, noise)) = (child.stderr(), link.noise());
    error.with(|failure| {
        failure.stderr = failure.stderr.take().or(stderr);
        failure.noise = failure.noise.take().or(noise);
        // Text where only messages may be is a likelier reason of a silence than a slow start.
        if failure.noise.is_some() && failure.what.starts_with(SILENCE) {
            failure.hint = Some(NOISE_HINT.into());
        }
    })
}

/// A started program: its link, its handle, and the part of the input that it has not read.
type StartedChild = (Box<dyn Link>, Arc<ChildHandle>, Option<UnreadInput>);

/// Values that each start of the program needs.
struct ChildStart {
    listeners: ChildListeners,
    limits: ClientLimits,
    hidden: Arc<EnvSecrets>,
    dispatcher: Arc<InboundDispatcher>,
}

fn spawn_child(
    command: &CommandTarget,
    start: &ChildStart,
    shown: &str,
) -> Result<StartedChild, ConnectError> {
    let child = ChildProcess::spawn(command, start.listeners.clone())
        .map_err(|error| spawn_error(command, error, shown))?;
    let handle = Arc::new(child.handle);
    let (watched, stopped) = (Arc::clone(&handle), Arc::clone(&handle));
    let (stdin, unread) = count_input(child.stdin);
    let wire = DuplexTransport {
        read: child.stdout,
        write: stdin,
        gone: Some(Box::pin(async move {
            let how = watched.exited().await;
            let mut closed = ConnectionClosed::new(format!("the server {how}"));
            closed.stderr = watched.stderr();
            closed
        })),
        on_close: Some(Box::new(move || stopped.stop())),
        guard: Some(handle.clone()),
        hidden: Arc::clone(&start.hidden),
    };
    let duplex = duplex::spawn(wire, start.limits, start.dispatcher.clone());
    Ok((Box::new(duplex), handle, unread))
}

fn spawn_error(command: &CommandTarget, error: std::io::Error, shown: &str) -> ConnectError {
    let program = command.program.to_string_lossy();
    let hint = match (error.kind(), &command.cwd) {
        // First, because a missing folder fails as `NotFound`, too, and would be blamed on the program.
        (_, Some(folder)) if !folder.is_dir() => format!("the folder {} does not exist", folder.display()),
        (std::io::ErrorKind::NotFound, _) if program.contains(['/', '\\']) => {
            format!("the file {program} does not exist")
        }
        (std::io::ErrorKind::NotFound, _) => {
            format!("{program} was not found in PATH; is it installed?")
        }
        (std::io::ErrorKind::PermissionDenied, _) => {
            format!("permission denied for {program}; is it executable?")
        }
        _ => "run the command manually to see why it ends".into(),
    };
    ConnectError::new(shown, ConnectStage::Spawn, format!("{program} could not be started: {error}")).with(
        |failure| {
            failure.hint = Some(hint);
            failure.source = Some(Box::new(error));
        },
    )
}

impl ConnectionGuard for ChildHandle {
    fn wait_terminated(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.gone())
    }
}
