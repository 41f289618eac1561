//! To a program that is started.

use std::sync::Arc;

use futures::future::BoxFuture;
use hospes_proto::era::{Failure, Outcome, Step};

use super::{Probing, ready};
use crate::client::Client;
use crate::client::builder::ClientBuilder;
use crate::client::core::{Guard, Link};
use crate::client::desk::Desk;
use crate::client::duplex::{self, Wire};
use crate::client::error::{Closed, ConnectError, Stage};
use crate::client::hidden::Hidden;
use crate::client::settings::Settings;
use crate::client::target::Command;
use crate::transport::child::{Child, ChildHandle, Listeners, UnreadInput, counted};

pub(super) async fn connect(
    builder: ClientBuilder,
    command: &Command,
    shown: String,
) -> Result<Client, ConnectError> {
    let ClientBuilder { settings, mut desk, listeners, .. } = builder;
    desk.hidden = Arc::new(Hidden::of(&command.env));
    let desk = Arc::new(desk);
    let mut probing = Probing::new(&settings, shown);
    let spawn = |shown: &str| spawn_child(command, listeners.clone(), &settings, &desk, shown);
    let (mut link, mut child, mut unread) = spawn(&probing.shown)?;
    loop {
        match probing.ask(&link).await {
            Step::Agreed(agreed) => {
                drop(unread);
                return Ok(ready(probing, agreed, link, desk).await);
            }
            Step::Failed(failure) => {
                let error = probing.failure(&failure);
                drop(unread);
                // It may still be running, and its last words explain a silence.
                link.close().await;
                let stderr = child.stderr();
                return Err(error.with(|failure| failure.stderr = failure.stderr.take().or(stderr)));
            }
            // A program that ended without having read the question would end in the same way if it were started again.
            Step::Respawn
                if unread.as_ref().is_some_and(UnreadInput::is_untouched) && probing.is_closed() =>
            {
                let error = probing.failure(&Failure::Exited);
                drop(unread);
                link.close().await;
                let stderr = child.stderr();
                return Err(error.with(|failure| failure.stderr = failure.stderr.take().or(stderr)));
            }
            Step::Respawn => {
                tracing::info!(
                    "the server did not survive being asked what it speaks; it is started once more"
                );
                drop(unread.take());
                link.close().await;
                desk.reopened();
                (link, child, unread) = spawn(&probing.shown)?;
                probing.negotiation.handle_outcome(Outcome::Respawned);
            }
            // `ask` deals with these.
            Step::Discover { .. } | Step::Initialize { .. } | Step::OpenSse => {}
        }
    }
}

fn spawn_child(
    command: &Command,
    listeners: Listeners,
    settings: &Settings,
    desk: &Arc<Desk>,
    shown: &str,
) -> Result<(Link, Arc<ChildHandle>, Option<UnreadInput>), ConnectError> {
    let child = Child::spawn(command, listeners).map_err(|error| spawn_error(command, error, shown))?;
    let handle = Arc::new(child.handle);
    let (watched, stopped) = (Arc::clone(&handle), Arc::clone(&handle));
    let (stdin, unread) = counted(child.stdin);
    let wire = Wire {
        read: child.stdout,
        write: stdin,
        gone: Some(Box::pin(async move {
            let how = watched.exited().await;
            let mut closed = Closed::new(format!("the server {how}"));
            closed.stderr = watched.stderr();
            closed
        })),
        on_close: Some(Box::new(move || stopped.stop())),
    };
    let duplex = duplex::spawn(wire, settings.limits, Arc::clone(desk));
    let guard: Arc<dyn Guard> = handle.clone();
    Ok((Link::Duplex(duplex, Some(guard)), handle, unread))
}

fn spawn_error(command: &Command, error: std::io::Error, shown: &str) -> ConnectError {
    let program = command.program.to_string_lossy();
    let hint = match (error.kind(), &command.cwd) {
        (_, Some(folder)) if !folder.is_dir() => format!("the folder {} does not exist", folder.display()),
        (std::io::ErrorKind::NotFound, _) if program.contains(['/', '\\']) => {
            format!("there is no file {program}")
        }
        (std::io::ErrorKind::NotFound, _) => {
            format!("there is no program {program} in PATH; is it installed?")
        }
        (std::io::ErrorKind::PermissionDenied, _) => format!("{program} may not be run; is it executable?"),
        _ => "run the command by hand to see what it needs".into(),
    };
    ConnectError::new(shown, Stage::Spawn, format!("{program} could not be started: {error}")).with(
        |failure| {
            failure.hint = Some(hint);
            failure.source = Some(Box::new(error));
        },
    )
}

impl Guard for ChildHandle {
    fn gone(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.gone())
    }
}
