//! The listeners: TCP on loopback, and the socket for programs.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use axum::{Extension, Router};
use hospes_host::approvals::ConsoleRegistration;
use hospes_host::callers::local_socket::{
    LocalListener, LocalStream, check_peer, remove_socket, remove_stale_sockets,
};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use crate::api;
use crate::browser_auth::{self, ConsoleCaller};
use crate::client_quota::{ClientQuota, QuotaPermit};
use crate::console::Console;
use crate::sessions::ConsoleLink;

/// Maximum number of connections of each kind of client, besides those of event streams.
const MAX_CONNECTIONS: usize = 64;
/// Maximum time to receive the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval at which expired sessions are removed.
const SESSION_POLL_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum size of a request head, in bytes.
const MAX_HEAD: usize = 32 * 1024;

/// A console that is being served. Dropping it stops the service.
pub struct ConsoleServer {
    console: Console,
    address: SocketAddr,
    origin: String,
    serving: [AbortHandle; 2],
    socket: Option<(PathBuf, AbortHandle)>,
    _registration: Option<ConsoleRegistration>,
}

impl Console {
    /// Serves at a loopback address until the returned value is dropped. Port 0 selects any free port.
    ///
    /// # Errors
    /// If the address is not a loopback address, or cannot be bound.
    pub async fn listen(self, address: SocketAddr) -> io::Result<ConsoleServer> {
        ConsoleServer::bind(self, address).await
    }
}

impl ConsoleServer {
    async fn bind(console: Console, address: SocketAddr) -> io::Result<Self> {
        // A team's console asks each request for its sign-in.
        if !address.ip().is_loopback() && console.team().is_none() {
            let why = "the console listens only on loopback addresses, because anyone who can reach it could try to decide";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        if !console.set_address(address) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "this console is already being served"));
        }
        let routes = api::for_browsers(console.clone());
        // An event is one small write; Nagle's algorithm would delay it by up to 40 ms.
        let admits = |stream: &TcpStream| {
            stream.set_nodelay(true).is_ok().then_some(AdmittedConnection { caller: None, permit: None })
        };
        let max_connections = max_connections(&console);
        let serving = tokio::spawn(serve(routes, listener, max_connections, admits));
        let attending = tokio::spawn(report_attendance(console.clone(), format!("http://{address}")));
        let origin =
            console.team().map_or_else(|| format!("http://{address}"), |team| team.origin().to_owned());
        let serving = [serving.abort_handle(), attending.abort_handle()];
        let registration = console.queue().map(|queue| match console.team() {
            Some(_) => queue.register_team_console(),
            None => queue.register_console(),
        });
        Ok(Self { console, address, origin, serving, socket: None, _registration: registration })
    }

    /// Serves programs of this user as well, over a Unix socket at this path. An existing socket is replaced if no
    /// process answers at it. On Windows it is a named pipe, whose name has the user and the name of this file.
    ///
    /// # Errors
    /// Returns the error if the socket cannot be created, together with the console, which continues without it.
    pub async fn with_socket(mut self, path: &Path) -> Result<Self, (Box<Self>, io::Error)> {
        if let Some(folder) = path.parent() {
            remove_stale_sockets(folder).await;
        }
        let listener = match LocalListener::bind(path).await {
            Ok(listener) => SocketListener(listener),
            Err(error) => return Err((Box::new(self), error)),
        };
        let routes = api::for_programs(self.console.clone());
        let max_connections = max_connections(&self.console);
        let quota = ClientQuota::new(max_connections);
        // The socket restricts access too, on systems that check it.
        let admits = move |stream: &LocalStream| {
            let caller = check_peer(stream).and_then(browser_auth::identify_peer)?;
            match quota.take(caller.client()) {
                Ok(permit) => Some(AdmittedConnection { caller: Some(caller), permit: Some(permit) }),
                // Closed instead of kept waiting: it would take the place of another client in the queue.
                Err(_) => {
                    let caller = caller.describe();
                    tracing::debug!(caller, max_connections, "too many console connections of this client");
                    None
                }
            }
        };
        // For the programs at terminals, and for the others.
        let serving = tokio::spawn(serve(routes, listener, 2 * max_connections, admits));
        self.socket = Some((path.to_owned(), serving.abort_handle()));
        Ok(self)
    }

    /// Returns the address of the listener.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the console's origin, such as `http://127.0.0.1:7338`. For a team it is the public one.
    #[must_use]
    pub fn origin(&self) -> String {
        self.origin.clone()
    }

    /// Returns true if the console is for a team, whose people sign in: a link signs nobody in.
    #[must_use]
    pub fn is_for_team(&self) -> bool {
        self.console.team().is_some()
    }

    /// Returns whether a page of the console has the focus, as it changes.
    #[must_use]
    pub fn is_focused(&self) -> tokio::sync::watch::Receiver<bool> {
        self.console.news().is_focused()
    }

    /// Creates a link that signs in one browser. With a team it leads to the sign-in, and signs nobody in.
    #[must_use]
    pub fn link(&self) -> ConsoleLink {
        self.console.link()
    }
}

impl fmt::Debug for ConsoleServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleServer").field("address", &self.address).field("socket", &self.socket).finish()
    }
}

impl Drop for ConsoleServer {
    fn drop(&mut self) {
        self.serving.iter().for_each(AbortHandle::abort);
        if let Some((path, serving)) = &self.socket {
            serving.abort();
            remove_socket(path);
        }
    }
}

/// Reports the person as present to the approval queue while a browser has a session.
async fn report_attendance(console: Console, url: String) {
    let Some(queue) = console.queue() else { return };
    // Subscribed before the first look, so that no session is missed.
    let mut sessions = console.news().sessions();
    let mut attendance = None;
    loop {
        match (console.sessions().list().is_empty(), &attendance) {
            (true, Some(_)) => attendance = None,
            (false, None) => attendance = Some(queue.register_viewer(Some(&url))),
            _ => {}
        }
        // Sessions expire without an event.
        let _ = tokio::time::timeout(SESSION_POLL_INTERVAL, sessions.changed()).await;
    }
}

/// The socket for programs, as axum wants a listener.
struct SocketListener(LocalListener);

impl Listener for SocketListener {
    type Io = LocalStream;
    type Addr = ();

    async fn accept(&mut self) -> (LocalStream, ()) {
        (self.0.accept().await, ())
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the maximum number of connections of each kind of client.
fn max_connections(console: &Console) -> usize {
    MAX_CONNECTIONS + console.environment().max_streams()
}

/// A connection that is served.
struct AdmittedConnection {
    /// The caller, if that is already known.
    caller: Option<ConsoleCaller>,
    /// Place of the caller among the clients, held until the connection ends.
    permit: Option<QuotaPermit>,
}

/// Serves the connections that `admits` accepts, at most so many at once, until the future is dropped. Dropping it closes
/// all connections.
async fn serve<L>(
    routes: Router,
    mut listener: L,
    max_connections: usize,
    admits: impl Fn(&L::Io) -> Option<AdmittedConnection>,
) where
    L: Listener,
{
    let places = Arc::new(Semaphore::new(max_connections));
    let mut connections = JoinSet::new();
    loop {
        // Before the connection is accepted, so that further ones wait in the system's queue.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        // `accept` waits by itself when no descriptors are left.
        let (stream, _) = listener.accept().await;
        let Some(AdmittedConnection { caller, permit }) = admits(&stream) else { continue };
        // Finished tasks stay in the set until they are joined.
        while connections.try_join_next().is_some() {}
        let service = TowerToHyperService::new(match caller {
            Some(caller) => routes.clone().layer(Extension(caller)),
            None => routes.clone(),
        });
        connections.spawn(async move {
            // The limits of the head keep a slow or endless request from occupying its place.
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(MAX_HEAD)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            if let Err(error) = served {
                tracing::debug!(%error, "console connection failed");
            }
            // Named here to be moved into the task, which holds them until the connection ends.
            drop((place, permit));
        });
    }
}
