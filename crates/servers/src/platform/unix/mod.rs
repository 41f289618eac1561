//! Unix: descriptors of folders, process groups, modes.

mod folder;
mod process;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

pub(crate) use folder::{EntryStat, FolderHandle};
pub(crate) use process::ProcessGroup;

/// Variables that programs need besides those of the task.
pub(crate) const SYSTEM_VARIABLES: &[&str] =
    &["PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "USER", "LOGNAME"];
/// File name of git.
pub(crate) const GIT: &str = "git";

/// Converts bytes that another program has written to a path or a name.
pub(crate) fn os_string(bytes: Vec<u8>) -> OsString {
    OsString::from_vec(bytes)
}

/// Converts the decoded path of a `file:` URI, which begins with a slash.
pub(crate) fn path_of_uri(bytes: Vec<u8>) -> Option<PathBuf> {
    Some(os_string(bytes).into())
}

/// Returns the path in a `file:` URI, not yet encoded.
pub(crate) fn uri_path(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// Returns a path as people write it.
pub(crate) fn readable(path: &Path) -> &Path {
    path
}

/// Returns the part of a path below a folder.
pub(crate) fn relative_to(path: &Path, folder: &Path) -> Option<PathBuf> {
    path.strip_prefix(folder).ok().map(Path::to_owned)
}

/// Returns the reason why the system does not take a text as the name of one file.
pub(crate) fn name_problem(_: &OsStr) -> Option<&'static str> {
    None
}

/// Returns true if an error means that a link was met where none is followed, or too many links.
pub(crate) fn is_link_error(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP)
}
