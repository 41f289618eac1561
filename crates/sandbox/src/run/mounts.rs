//! Private mount namespace in which only writable paths can be changed.
//!
//! Landlock controls opening, creating and removing files, but not modes, owners, times and attributes. The kernel
//! refuses to change these on a read-only file system. Therefore everything is mounted read-only, except the paths that
//! are granted for writing. If the system allows no such mounts (user namespaces are off, or this is a container),
//! [`make_read_only`] returns false, and these changes are refused everywhere.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::helper_task::HelperTask;

const NONE: Option<&str> = None;

/// Creates the mounts for this process and its descendants. Returns true on success. On failure the partial result is
/// no less restrictive than before.
pub(super) fn make_read_only(order: &HelperTask) -> bool {
    order.files.is_some() && view(order).is_ok()
}

fn view(order: &HelperTask) -> Result<(), Errno> {
    let cwd = std::env::current_dir().map_err(|_| Errno::ENOENT)?;
    let written = order.files.iter().flat_map(|files| &files.write).chain(&order.temporary);
    let written: Vec<PathBuf> = written.filter_map(|path| path.canonicalize().ok()).collect();
    enter_namespaces()?;
    // Later mounts are not visible to other processes.
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    for path in &written {
        // A separate mount, which the remount below can leave writable.
        mount(Some(path), path, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)?;
    }
    for (path, flags) in mounted()? {
        if written.iter().any(|written| path.starts_with(written)) {
            continue;
        }
        let flags = flags | MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
        match mount(NONE, &path, NONE, flags, NONE) {
            // The path is covered by another mount or inaccessible, so the server cannot reach it.
            Ok(()) | Err(Errno::EINVAL | Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => {}
            Err(error) => return Err(error),
        }
    }
    // The current folder still refers to the old mount.
    std::env::set_current_dir(cwd).map_err(|_| Errno::ENOENT)
}

/// Enters new namespaces: only mounts for root, otherwise users as well. The user keeps its identity in them.
fn enter_namespaces() -> Result<(), Errno> {
    if unshare(CloneFlags::CLONE_NEWNS).is_ok() {
        return Ok(());
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    let write = |name: &str, text: String| {
        fs::write(Path::new("/proc/self").join(name), text).map_err(|_| Errno::EPERM)
    };
    // Required before an unprivileged process may write `gid_map` (user_namespaces(7)).
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{user} {user} 1"))?;
    write("gid_map", format!("{group} {group} 1"))
}

/// Returns the mount points, with the flags that must be preserved.
fn mounted() -> Result<Vec<(PathBuf, MsFlags)>, Errno> {
    let table = fs::read("/proc/self/mountinfo").map_err(|_| Errno::EACCES)?;
    let lines = table.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| parse_mount_line(line).ok_or(Errno::EINVAL)).collect()
}

/// Parses a line of `/proc/PID/mountinfo`.
fn parse_mount_line(line: &[u8]) -> Option<(PathBuf, MsFlags)> {
    let mut words = line.split(|byte| *byte == b' ');
    // The fields are ID, parent, device, root, mount point and options (proc(5)).
    let (path, options) = (words.nth(4)?, words.next()?);
    let mut flags = MsFlags::empty();
    for option in options.split(|byte| *byte == b',') {
        flags |= match option {
            b"nosuid" => MsFlags::MS_NOSUID,
            b"nodev" => MsFlags::MS_NODEV,
            b"noexec" => MsFlags::MS_NOEXEC,
            b"noatime" => MsFlags::MS_NOATIME,
            b"nodiratime" => MsFlags::MS_NODIRATIME,
            b"relatime" => MsFlags::MS_RELATIME,
            // `MS_NOSYMFOLLOW` of mount(2).
            b"nosymfollow" => MsFlags::from_bits_retain(256),
            _ => MsFlags::empty(),
        };
    }
    Some((PathBuf::from(unescaped(path)), flags))
}

/// Decodes spaces, tabs, line feeds and backslashes, which are written as a backslash and three octal digits.
fn unescaped(path: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, more)) = rest.split_first() {
        let escaped = (*first == b'\\').then(|| more.get(..3)).flatten();
        let byte = escaped
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        rest = if byte.is_some() { &more[3..] } else { more };
        plain.push(byte.unwrap_or(*first));
    }
    OsString::from_vec(plain)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_line_of_the_table_of_mounts_is_read() {
        let line =
            br"36 35 98:0 /root /mnt\040two\134x rw,nosuid,noexec,relatime shared:1 - ext3 /dev/root rw";
        let (path, flags) = parse_mount_line(line).unwrap();
        assert_eq!(path.as_os_str().as_bytes(), br"/mnt two\x");
        assert_eq!(flags, MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC | MsFlags::MS_RELATIME);
        assert_eq!(parse_mount_line(b"36 35 98:0 /root"), None);
    }
}
