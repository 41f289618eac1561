//! Files on Windows.

use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a file below a folder, whose path has no links. What its links lead to must be below the folder, too. A link that
/// is exchanged between the check and the opening is not noticed here.
pub(crate) fn open_below(folder: &Path, below: &Path) -> io::Result<File> {
    let real = std::fs::canonicalize(folder.join(below))?;
    if !real.starts_with(folder) {
        return Err(io::ErrorKind::CrossesDevices.into());
    }
    File::open(real)
}

/// Returns true if [`open_below`] failed because a link leads out of the folder.
pub(crate) fn leads_out(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::CrossesDevices
}
