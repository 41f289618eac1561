//! The local connection of programs of the same user: a Unix socket, or a named pipe on Windows.
//!
//! Both implementations have the same items: `LocalListener`, `LocalStream`, `connect`, `check_peer` and
//! `remove_stale_sockets`.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// The process at the other end of a connection, which belongs to the user of this program or to the administrator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalPeer {
    /// Id of the process, where the system reports it.
    pub(crate) pid: Option<u32>,
    /// Id of the user. 0 on Windows, where users have no numbers.
    pub(crate) uid: u32,
}
