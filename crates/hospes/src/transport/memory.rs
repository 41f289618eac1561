//! Transport in memory: a server and a client in one process.

use tokio::io::{DuplexStream, duplex};

use super::stdio_server::StdioServer;
use crate::service::IntoService;

/// Size of the buffer in each direction, in bytes; a writer waits when it is full.
const DUPLEX_BYTES: usize = 256 * 1024;

/// Two ends of a connection in memory: what is written to one is read from the other.
#[must_use]
pub fn pair() -> (DuplexStream, DuplexStream) {
    duplex(DUPLEX_BYTES)
}

/// Serves `service` in a task of its own and returns the client's end. The server ends when that is dropped.
pub fn serve(service: impl IntoService) -> DuplexStream {
    serve_with(StdioServer::new(service))
}

/// Serves `server`, which may have settings, like [`serve`].
pub fn serve_with(server: StdioServer) -> DuplexStream {
    let (ours, theirs) = pair();
    let (input, output) = tokio::io::split(ours);
    tokio::spawn(async move {
        if let Err(error) = server.serve_io(input, output).await {
            tracing::debug!(%error, "in-memory connection failed");
        }
    });
    theirs
}
