//! Files on Unix.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Opens a file below a folder, whose path has no links, without leaving it, and without waiting for a pipe.
pub(crate) fn open_below(folder: &Path, below: &Path) -> io::Result<File> {
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    open_beneath(folder, below, flags).map(File::from)
}

#[cfg(target_os = "linux")]
fn open_beneath(folder: &Path, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    // The kernel follows the path, so that nobody exchanges a part of it in between.
    let root = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(root, below, flags, Mode::empty(), resolve)?)
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(folder: &Path, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let real = std::fs::canonicalize(folder.join(below))?;
    if !real.starts_with(folder) {
        return Err(Errno::XDEV.into());
    }
    Ok(rustix::fs::open(&real, flags | OFlags::NOFOLLOW, Mode::empty())?)
}

/// Returns true if [`open_below`] failed because a link leads out of the folder.
pub(crate) fn leads_out(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw_os_error), Some(Errno::XDEV | Errno::LOOP))
}
