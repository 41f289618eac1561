//! The parts that differ between operating systems. Both implementations have the same items.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// Room that is left on a disk.
#[derive(Clone, Copy)]
pub(crate) struct FreeSpace {
    pub(crate) bytes: u64,
    pub(crate) all_bytes: u64,
    /// Number of files that can be created. `None` if the file system has no such limit.
    pub(crate) files: Option<u64>,
}
