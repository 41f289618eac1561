//! The parts that differ between operating systems: open folders, names of files, process groups, private files.
//!
//! Both implementations have the same items. `names` has the rules for names on Windows, which are tested everywhere.

#[cfg(any(windows, test))]
mod names;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use hospes::schemars::JsonSchema;
use hospes::serde::Serialize;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// Kind of an entry of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EntryKind {
    File,
    Folder,
    Link,
    Other,
}
