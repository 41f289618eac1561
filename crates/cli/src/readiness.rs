//! Messages to a service manager that waits until the host is ready: the protocol of `sd_notify(3)`.

/// Environment variable with the address of the manager's socket.
#[cfg(unix)]
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Tells the manager that the host serves its endpoint.
pub(crate) fn announce_ready() {
    send("READY=1");
}

/// Tells the manager that the host is shutting down.
pub(crate) fn announce_stopping() {
    send("STOPPING=1");
}

#[cfg(unix)]
fn send(state: &str) {
    let Some(address) = std::env::var_os(VARIABLE).filter(|address| !address.is_empty()) else { return };
    if let Err(error) = send_to(&address, state) {
        tracing::warn!(%error, state, "the service manager was not notified");
    }
}

#[cfg(not(unix))]
fn send(_state: &str) {}

#[cfg(unix)]
fn send_to(address: &std::ffi::OsStr, state: &str) -> std::io::Result<()> {
    use std::os::unix::net::UnixDatagram;

    let socket = UnixDatagram::unbound()?;
    // A full queue of the manager must not stop the host.
    socket.set_nonblocking(true)?;
    #[cfg(target_os = "linux")]
    if let Some(name) = std::os::unix::ffi::OsStrExt::as_bytes(address).strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt as _;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return socket.send_to_addr(state.as_bytes(), &address).map(drop);
    }
    socket.send_to(state.as_bytes(), std::path::Path::new(address)).map(drop)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    #[test]
    fn a_message_reaches_a_socket_with_a_path_and_one_with_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("hospes-test-{}", std::process::id());
        let named = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let bound = UnixDatagram::bind(&path).unwrap();
        for (socket, address) in [(bound, path.into_os_string()), (named, OsString::from(format!("@{name}")))]
        {
            send_to(&address, "READY=1").unwrap();
            let mut text = [0; 32];
            let length = socket.recv(&mut text).unwrap();
            assert_eq!(&text[..length], b"READY=1");
        }
        send_to(&OsString::from("/no/such/socket"), "READY=1").unwrap_err();
    }
}
