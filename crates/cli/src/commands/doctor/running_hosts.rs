//! Hosts of this user that run and answer.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::paths::{self, HostNote};

/// Maximum time to connect to the endpoint of a running host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the notes of the hosts whose endpoints accept a connection, newest first. A note may have outlived its host.
pub(crate) async fn running_hosts() -> Vec<HostNote> {
    let mut running = Vec::new();
    for (file, note) in paths::list_host_notes() {
        match url::Url::parse(&note.endpoint) {
            Ok(url) if listens(&url).await => running.push(note),
            _ => tracing::debug!(file = %file.display(), "note of a host that does not answer"),
        }
    }
    running
}

/// Returns true if a program accepts connections at the address of a URL on this machine.
pub(super) async fn listens(url: &url::Url) -> bool {
    let address = url.socket_addrs(|| None).ok().and_then(|all| all.first().copied());
    match address {
        Some(address) => matches!(timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await, Ok(Ok(_))),
        None => false,
    }
}
