//! Named pipes. Their security descriptor admits the user alone, and both ends check the process at the other end.

use std::io;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use interprocess::os::windows::named_pipe::pipe_mode::Bytes;
use interprocess::os::windows::named_pipe::tokio::{PipeListener, PipeStream};
use interprocess::os::windows::named_pipe::{PipeListenerOptions, PipeMode};
use interprocess::os::windows::security_descriptor::SecurityDescriptor;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};
use widestring::U16CString;

use super::{ACCEPT_PAUSE, LocalPeer};

/// One end of a connection.
pub type LocalStream = PipeStream<Bytes, Bytes>;

/// Maximum time to wait for a free instance of the pipe.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Size of the pipe's buffers, in bytes.
const BUFFER_BYTES: u32 = 64 * 1024;

/// Security identifier of the user of this process, such as `S-1-5-21-…`.
static OWN_USER: LazyLock<Option<String>> = LazyLock::new(|| user_of(std::process::id()));

/// A pipe that only its owner can connect to.
#[derive(Debug)]
pub struct LocalListener(PipeListener<Bytes, Bytes>);

impl LocalListener {
    /// Creates the first instance of the pipe.
    ///
    /// # Errors
    /// If another process has the name, or the pipe cannot be created.
    #[expect(clippy::unused_async, reason = "the same function as on other systems")]
    pub async fn bind(path: &Path) -> io::Result<Self> {
        let user = OWN_USER.as_deref().ok_or_else(|| io::Error::other("cannot determine the user"))?;
        // Protected, so that nothing is inherited; all rights for the user, none for others or from the network.
        let rights = format!("D:P(D;;GA;;;NU)(A;;GA;;;{user})");
        let rights = U16CString::from_str(rights).map_err(io::Error::other)?;
        let options = PipeListenerOptions::new()
            .path(pipe_name(path)?)
            .mode(PipeMode::Bytes)
            .input_buffer_size_hint(BUFFER_BYTES)
            .output_buffer_size_hint(BUFFER_BYTES)
            .security_descriptor(Some(SecurityDescriptor::deserialize(&rights)?));
        options.create_tokio_duplex::<Bytes>().map(Self)
    }

    /// Waits for the next connection. Failures are logged, and it goes on after a pause.
    pub async fn accept(&self) -> LocalStream {
        loop {
            match self.0.accept().await {
                Ok(stream) => return stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection to a local pipe");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Connects to the pipe for a path.
///
/// # Errors
/// If no process serves it, or it belongs to another user, who may have taken its name.
pub async fn connect(path: &Path) -> io::Result<LocalStream> {
    let name = pipe_name(path)?;
    let connecting = LocalStream::connect_by_path(name.as_str());
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let stream = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await.map_err(late)??;
    // Before anything is sent: what follows may contain a token.
    let server = user_of(stream.server_process_id()?);
    if server.is_none() || server != *OWN_USER {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the pipe belongs to another user"));
    }
    Ok(stream)
}

/// Returns the process at the other end. `None` for other users.
#[must_use]
pub fn check_peer(stream: &LocalStream) -> Option<LocalPeer> {
    let pid = stream.client_process_id().ok()?;
    let user = user_of(pid)?;
    (Some(user) == *OWN_USER).then_some(LocalPeer { pid: Some(pid), uid: 0 })
}

/// Does nothing: a pipe ends with its process.
pub fn remove_socket(_: &Path) {}

/// Does nothing: pipes end with their processes.
#[expect(clippy::unused_async, reason = "the same function as on other systems")]
pub async fn remove_stale_sockets(_: &Path) {}

/// Returns the name of the pipe for a path: with the user, because all users share the names of pipes.
fn pipe_name(path: &Path) -> io::Result<String> {
    let user = OWN_USER.as_deref().ok_or_else(|| io::Error::other("cannot determine the user"))?;
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(format!(r"\\.\pipe\hospes-{user}-{name}"))
}

/// Returns the security identifier of the user of a process.
fn user_of(pid: u32) -> Option<String> {
    let pid = Pid::from_u32(pid);
    let mut system = System::new().ok()?;
    let what = ProcessRefreshKind::nothing().with_user(UpdateKind::Always);
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, what);
    Some(system.process(pid)?.user_id()?.to_string())
}
