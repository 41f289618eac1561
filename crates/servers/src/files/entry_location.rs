//! A name in an open folder, which may exist or not. The name itself is never followed as a link.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use hospes::{Error, Result};

use super::folder::EntryKind;
use super::served_folders::{ServedFolders, ServedPath, normalize_path, normalize_relative, parse_path};
use crate::platform::{EntryStat, FolderHandle, is_link_error, readable};

/// Maximum number of folders created in one call.
const MAX_NEW_FOLDERS: usize = 32;
/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 255;

/// A name in an open folder.
pub(super) struct EntryLocation<'r> {
    pub(super) folder: ServedPath<'r>,
    pub(super) handle: FolderHandle,
    pub(super) name: OsString,
}

impl<'r> EntryLocation<'r> {
    pub(super) fn new(folder: ServedPath<'r>, name: OsString) -> Result<Self> {
        if name.len() > MAX_NAME {
            return Err(Error::msg(format!("the name is longer than {MAX_NAME} bytes")));
        }
        Ok(Self { handle: folder.open_folder()?, folder, name })
    }

    /// Returns the path of the entry.
    pub(super) fn place(&self) -> ServedPath<'r> {
        self.folder.child(&self.name)
    }

    pub(super) fn shown(&self) -> String {
        self.place().shown()
    }

    /// Returns the metadata of the entry.
    pub(super) fn stat(&self) -> io::Result<EntryStat> {
        self.handle.stat_entry(&self.name)
    }

    /// Returns the metadata of the entry, or `None` if it does not exist.
    pub(super) fn stat_if_present(&self) -> Result<Option<EntryStat>> {
        match self.stat() {
            Ok(stat) => Ok(Some(stat)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(self.failed("inspect", &why)),
        }
    }

    pub(super) fn failed(&self, what: &str, why: &io::Error) -> Error {
        self.place().failed(what, why)
    }
}

impl ServedFolders {
    /// Returns the location of a path whose folder exists. The entry itself need not exist.
    pub(super) fn spot(&self, text: &str) -> Result<EntryLocation<'_>> {
        let path = parse_path(text)?;
        let nameless = || Error::msg(format!("{text:?} does not name an entry of a folder"));
        if path.is_absolute() {
            let path = normalize_path(&path);
            let (name, parent) = (path.file_name().ok_or_else(nameless)?, path.parent());
            let folder = self.find_path(parent.ok_or_else(nameless)?, text)?;
            return EntryLocation::new(folder, name.to_owned());
        }
        let path = normalize_relative(&path).ok_or_else(|| self.outside(text))?;
        let name = path.file_name().ok_or_else(nameless)?;
        if self.count() == 1 {
            let folder = self.find_path(path.parent().unwrap_or_else(|| Path::new("")), text)?;
            return EntryLocation::new(folder, name.to_owned());
        }
        // With several folders it has to be unambiguous which one is meant.
        match self.all().iter().find(|root| root.child_path(&path).symlink_metadata().is_ok()) {
            Some(root) => self.spot(&readable(&root.child_path(&path)).display().to_string()),
            None => Err(self.unclear_error(text)),
        }
    }

    /// Returns the location that is written to for a path. Links are followed as long as they stay inside.
    pub(super) fn resolve_write_target(&self, text: &str) -> Result<EntryLocation<'_>> {
        match self.find(text) {
            Ok(place) => match place.spot() {
                Some(spot) => spot,
                None => Err(Error::msg(format!("{} is a folder", place.shown()))),
            },
            Err(why) => {
                let spot = self.spot(text)?;
                // A link that leads out, or to nothing.
                let is_link = spot.stat_if_present()?.is_some_and(|stat| stat.kind() == EntryKind::Link);
                if is_link { Err(why) } else { Ok(spot) }
            }
        }
    }

    /// Creates a folder and its missing parents. Returns its path, and true if it was created.
    pub(super) fn make(&self, text: &str) -> Result<(PathBuf, bool)> {
        let why = match self.find(text) {
            Ok(place) => {
                place.open_folder()?;
                return Ok((place.path(), false));
            }
            Err(why) => why,
        };
        let path = parse_path(text)?;
        let path = if path.is_absolute() {
            normalize_path(&path)
        } else if self.count() > 1 {
            return Err(self.unclear_error(text));
        } else {
            normalize_relative(&path).ok_or_else(|| self.outside(text))?
        };
        // The path itself was not found, so the search for an existing folder begins with its parent.
        let above = path.ancestors().skip(1).take(MAX_NEW_FOLDERS);
        let Some((above, place)) =
            above.filter_map(|path| Some((path, self.find_path(path, text).ok()?))).next()
        else {
            return Err(why);
        };
        let (mut folder, mut made) = (place.open_folder()?, place.path());
        // The remaining parts are plain names, because the path has no `.` and `..`.
        for name in path.strip_prefix(above).unwrap_or(&path) {
            // A folder that was just created may be a closed one, which need not have existed before.
            folder = match enter(&folder, name).and_then(|folder| place.closed().admit(folder)) {
                Ok(folder) => folder,
                // A link that leads out, or an entry that is not a folder.
                Err(error) if is_link_error(&error) || error.kind() == io::ErrorKind::NotADirectory => {
                    return Err(why);
                }
                Err(error) => {
                    let path = made.join(name);
                    return Err(Error::msg(format!("cannot create {}: {error}", readable(&path).display())));
                }
            };
            made.push(name);
        }
        Ok((made, true))
    }

    fn unclear_error(&self, text: &str) -> Error {
        let served = self.shown().join(", ");
        Error::msg(format!("give the absolute path of {text:?}, in one of the served folders: {served}"))
    }
}

/// Opens a folder inside a folder and creates it if it does not exist. Links are not followed.
fn enter(folder: &FolderHandle, name: &OsStr) -> io::Result<FolderHandle> {
    // Created first and then opened, because another process may create it in between.
    match folder.create_folder(name) {
        Err(why) if why.kind() != io::ErrorKind::AlreadyExists => Err(why),
        _ => folder.open_folder(name),
    }
}
