//! MCP over a Unix-domain socket.
//!
//! *Connection set-up.* The server listens on a stream socket at a path; who may open that file may speak. Each
//! connection is one client (in the older revisions one session).
//!
//! *Messages.* As over stdio: JSON-RPC messages in UTF-8, one a line. `notifications/cancelled` cancels. Either side
//! ends the connection by closing its direction; what the server had accepted by then is answered first.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hospes::IntoService;
use hospes::client::{Client, ClientBuilder, ConnectError};
use hospes::transport::stdio_server::StdioServer;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::MAX_CONNECTIONS;

/// A socket that is listened on; dropping it removes the file.
#[derive(Debug)]
pub struct SocketListener {
    listener: UnixListener,
    path: PathBuf,
}

impl SocketListener {
    /// Listens at `path`, for this user alone. A socket that a server which is gone has left there is replaced.
    ///
    /// # Errors
    /// When a server listens there, or the path cannot be had.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref().to_owned();
        let left = fs::symlink_metadata(&path).is_ok_and(|file| file.file_type().is_socket());
        if left && std::os::unix::net::UnixStream::connect(&path).is_err() {
            fs::remove_file(&path)?;
        }
        let listener = UnixListener::bind(&path)?;
        let this = Self { listener, path };
        // The folder should be private, too: until here the file has the usual permissions.
        fs::set_permissions(&this.path, Permissions::from_mode(0o600))?;
        Ok(this)
    }

    /// Serves every client that connects. Dropping the future ends their connections.
    ///
    /// # Errors
    /// When no connection can be accepted any more.
    pub async fn serve(&self, service: impl IntoService) -> io::Result<()> {
        let server = StdioServer::new(service);
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let permit = Arc::clone(&room).acquire_owned().await.map_err(io::Error::other)?;
            let (input, output) = self.listener.accept().await?.0.into_split();
            let server = server.clone();
            connections.spawn(async move {
                // It ends with its client; why is nobody else's business.
                let _ = server.serve_io(input, output).await;
                drop(permit);
            });
            while connections.try_join_next().is_some() {}
        }
    }
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Connects to the server at `path`.
///
/// # Errors
/// When no server listens there, or the peer is not an MCP server.
pub async fn connect(path: &Path, client: ClientBuilder) -> Result<Client, ConnectError> {
    let dial = || async { Ok(UnixStream::connect(path).await?.into_split()) };
    client.dial(&path.to_string_lossy(), dial).await
}
