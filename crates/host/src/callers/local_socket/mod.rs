//! The local connection of programs of the same user: a Unix socket, or a named pipe on Windows.
//!
//! Both implementations have the same items. A path names the socket; the name of the pipe is made of the user and the name
//! of the file.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::time::Duration;

#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;

/// Pause after a failed accept, which would otherwise be repeated at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The process at the other end of a connection, which belongs to the user of this program or to the administrator.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LocalPeer {
    /// Id of the process, where the system reports it.
    pub pid: Option<u32>,
    /// Id of the user. 0 on Windows, where users have no numbers.
    pub uid: u32,
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::callers::LocalCaller;

    #[tokio::test]
    async fn both_ends_talk_and_the_process_at_the_other_end_is_known() {
        let folder = tempfile::tempdir().unwrap();
        // The name of a pipe has the name of the file alone.
        let path = folder.path().join(format!("{}.test", std::process::id()));
        let listener = LocalListener::bind(&path).await.unwrap();
        let (there, here) = tokio::join!(connect(&path), listener.accept());
        let (mut there, mut here) = (there.unwrap(), here);
        let peer = check_peer(&here).unwrap();
        assert_eq!(peer.pid, Some(std::process::id()));
        let caller = LocalCaller::of_process(std::process::id(), peer.uid).unwrap();
        assert!(caller.is_same_user() && !caller.is_server, "{caller:?}");
        there.write_all(b"ping").await.unwrap();
        let mut read = [0; 4];
        here.read_exact(&mut read).await.unwrap();
        here.write_all(b"pong").await.unwrap();
        here.flush().await.unwrap();
        drop(here);
        let mut rest = Vec::new();
        there.read_to_end(&mut rest).await.unwrap();
        assert_eq!((&read, rest.as_slice()), (b"ping", b"pong".as_slice()));
        drop((there, listener));
        remove_socket(&path);
        assert!(connect(&path).await.is_err());
    }

    #[tokio::test]
    async fn nobody_takes_the_name_of_a_socket_that_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{}.taken", std::process::id()));
        let listener = LocalListener::bind(&path).await.unwrap();
        let second = LocalListener::bind(&path).await;
        assert!(second.is_err(), "{second:?}");
        drop(listener);
    }
}
