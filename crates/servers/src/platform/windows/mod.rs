//! Windows: handles of folders, job objects, and the rules for paths.

mod folder;
mod process;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf, Prefix};

pub(crate) use folder::{EntryStat, FolderHandle};
pub(crate) use process::ProcessGroup;

use super::names;

/// Variables that programs need besides those of the task.
pub(crate) const SYSTEM_VARIABLES: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOME",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];
/// File name of git.
pub(crate) const GIT: &str = "git.exe";

/// Windows errors for links that are not followed: `ERROR_STOPPED_ON_SYMLINK`, `ERROR_CANT_RESOLVE_FILENAME`.
const LINK_ERRORS: [i32; 2] = [681, 1921];

/// Converts bytes that another program has written to a path or a name. Programs write UTF-8 here.
pub(crate) fn os_string(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// Converts the decoded path of a `file:` URI, which begins with a slash.
pub(crate) fn path_of_uri(bytes: Vec<u8>) -> Option<PathBuf> {
    let text = String::from_utf8(bytes).ok()?;
    let rest = text.strip_prefix('/').unwrap_or(&text);
    let path = PathBuf::from(rest.replace('/', "\\"));
    path.is_absolute().then_some(path)
}

/// Returns the path in a `file:` URI, not yet encoded.
pub(crate) fn uri_path(path: &Path) -> Vec<u8> {
    let text = readable(path).to_string_lossy().replace('\\', "/");
    // `//server/share` begins with the host; `C:/` needs the slash after an empty host.
    if text.starts_with("//") { text.into_bytes() } else { format!("/{text}").into_bytes() }
}

/// Returns a path as people write it: `C:\notes` instead of `\\?\C:\notes`, where both mean the same.
pub(crate) fn readable(path: &Path) -> &Path {
    dunce::simplified(path)
}

/// Returns the part of a path below a folder. Letter case does not count, nor the prefix `\\?\`.
pub(crate) fn relative_to(path: &Path, folder: &Path) -> Option<PathBuf> {
    let mut parts = path.components();
    for wanted in folder.components() {
        if comparable(parts.next()?) != comparable(wanted) {
            return None;
        }
    }
    Some(parts.as_path().to_owned())
}

fn comparable(part: Component<'_>) -> String {
    let lower = |text: &OsStr| text.to_string_lossy().to_lowercase();
    match part {
        Component::Prefix(prefix) => match prefix.kind() {
            Prefix::Disk(letter) | Prefix::VerbatimDisk(letter) => {
                format!("{}:", char::from(letter.to_ascii_lowercase()))
            }
            Prefix::UNC(server, share) | Prefix::VerbatimUNC(server, share) => {
                format!("//{}/{}", lower(server), lower(share))
            }
            _ => lower(prefix.as_os_str()),
        },
        other => lower(other.as_os_str()),
    }
}

/// Returns the reason why the system does not take a text as the name of one file.
pub(crate) fn name_problem(name: &OsStr) -> Option<&'static str> {
    match name.to_str() {
        Some(name) => names::name_problem(name),
        None => Some("it is not valid Unicode"),
    }
}

/// Returns true if an error means that a link was met where none is followed.
pub(crate) fn is_link_error(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| LINK_ERRORS.contains(&code))
}
