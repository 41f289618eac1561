//! Unix sockets.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

use tokio::net::{UnixListener, UnixStream};

use super::{ACCEPT_PAUSE, LocalPeer};

/// One end of a connection.
pub type LocalStream = UnixStream;

/// Maximum length of a socket's path, in bytes: the size of `sun_path` without its final NUL.
const MAX_SOCKET_PATH: usize = if cfg!(any(target_os = "linux", target_os = "android")) { 107 } else { 103 };

/// A socket that only its owner can connect to.
#[derive(Debug)]
pub struct LocalListener(UnixListener);

impl LocalListener {
    /// Binds the socket. An existing one is replaced if no process answers at it.
    ///
    /// # Errors
    /// If the socket cannot be created, its path is too long, or another host serves it.
    pub async fn bind(path: &Path) -> io::Result<Self> {
        private_socket(path).await.map(Self)
    }

    /// Waits for the next connection. Failures are logged, and it goes on after a pause: there may be no descriptors left.
    pub async fn accept(&self) -> LocalStream {
        loop {
            match self.0.accept().await {
                Ok((stream, _)) => return stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection to a local socket");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Connects to the socket at a path.
///
/// # Errors
/// If no process serves it.
pub async fn connect(path: &Path) -> io::Result<LocalStream> {
    UnixStream::connect(path).await
}

/// Returns the process at the other end. `None` for other users than root, who can act as this user anyway.
#[must_use]
pub fn check_peer(stream: &LocalStream) -> Option<LocalPeer> {
    let peer = stream.peer_cred().ok()?;
    let uid = peer.uid();
    let is_admitted = uid == rustix::process::geteuid().as_raw() || uid == 0;
    is_admitted.then(|| LocalPeer { pid: peer.pid().and_then(|pid| u32::try_from(pid).ok()), uid })
}

/// Removes the socket of this process.
pub fn remove_socket(path: &Path) {
    let _gone = fs::remove_file(path);
}

/// Maximum number of entries of the runtime folder that are checked.
const MAX_SOCKETS: usize = 1024;

/// Removes the sockets of killed hosts, at which no process answers.
pub async fn remove_stale_sockets(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.take(MAX_SOCKETS).flatten() {
        let path = entry.path();
        let is_ours = path.extension().is_some_and(|extension| extension == "sock" || extension == "attach")
            && path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .is_some_and(|stem| stem.parse::<u32>().is_ok())
            && entry.file_type().is_ok_and(|kind| kind.is_socket());
        // Only a refused connection means that no process listens any more; the socket of a busy host stays.
        if is_ours
            && let Err(error) = UnixStream::connect(&path).await
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            let _gone = fs::remove_file(&path);
        }
    }
}

/// Binds a socket that only its owner can connect to.
async fn private_socket(path: &Path) -> io::Result<UnixListener> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if UnixStream::connect(path).await.is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another host already serves this socket"));
        }
        fs::remove_file(path)?;
    }
    check_length(path)?;
    // Created in a hidden folder and then moved, so that nobody can connect before the mode is set.
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let hidden = folder.join(format!(".{}", std::process::id()));
    // A killed process may have had the same id and left its folder.
    let _none = fs::remove_dir_all(&hidden);
    fs::DirBuilder::new().mode(0o700).create(&hidden)?;
    let made = hidden.join("s");
    let bound = UnixListener::bind(&made).and_then(|listener| {
        fs::set_permissions(&made, fs::Permissions::from_mode(0o600))?;
        fs::rename(&made, path)?;
        Ok(listener)
    });
    let _gone = fs::remove_dir_all(&hidden);
    bound
}

/// Returns an error that names the limit, which the system's own message does not.
fn check_length(path: &Path) -> io::Result<()> {
    let length = path.as_os_str().len();
    if length <= MAX_SOCKET_PATH {
        return Ok(());
    }
    let why = format!(
        "the path of the socket has {length} bytes, and this system allows {MAX_SOCKET_PATH}; set XDG_RUNTIME_DIR to a \
         shorter folder"
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}
