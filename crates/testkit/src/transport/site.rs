//! Transports under test, and the servers and connections that they provide.

use std::fmt;
use std::pin::Pin;

use hospes::Server;
use hospes::client::{Client, ClientBuilder, ConnectError};
use hospes::model::Revision;
use tokio::io::{AsyncRead, AsyncWrite};

/// A transport under test.
pub trait TestTransport: Send + Sync {
    /// A running server.
    type Site: TransportSite;

    /// True if all clients of a site reach one server, which ends when the site is dropped. Over stdio each client
    /// starts its own server.
    const SHARED: bool = true;

    /// True if a client that has closed its sending direction can still receive responses.
    const HALF_CLOSE: bool = true;

    /// Starts to serve `server`. A transport that has to start a program serves [`server`](super::server()) in it instead. Dropping the
    /// returned value ends the server.
    fn serve(&self, server: Server) -> impl Future<Output = Self::Site> + Send;

    /// Returns the revisions that the transport supports.
    fn revisions(&self) -> &[Revision] {
        &Revision::ALL
    }
}

/// A running server that clients can connect to.
pub trait TransportSite: Send + Sync {
    /// Connects another client.
    fn connect(&self, client: ClientBuilder) -> impl Future<Output = Result<Client, ConnectError>> + Send;

    /// Opens another connection without a client, on which messages are lines. `None` if messages do not travel on one
    /// connection (HTTP).
    fn wire(&self) -> impl Future<Output = Option<RawConnection>> + Send {
        std::future::ready(None)
    }
}

/// A connection without a client.
pub struct RawConnection {
    pub(super) read: Pin<Box<dyn AsyncRead + Send>>,
    pub(super) write: Pin<Box<dyn AsyncWrite + Send>>,
}

impl RawConnection {
    /// Creates a connection from its two directions.
    pub fn new(read: impl AsyncRead + Send + 'static, write: impl AsyncWrite + Send + 'static) -> Self {
        Self { read: Box::pin(read), write: Box::pin(write) }
    }
}

impl fmt::Debug for RawConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawConnection")
    }
}
