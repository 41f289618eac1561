//! Configuration files that may use the same secrets and folders: the default one, and those to which servers were added.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::paths;
use crate::server_record::ServerRecord;

/// Texts of the known configuration files.
#[derive(Debug, Default)]
pub(crate) struct KnownConfigs {
    texts: Vec<String>,
    /// A file exists and could not be read: it may use everything.
    is_incomplete: bool,
}

impl KnownConfigs {
    /// Reads the known files. `file` is read, too, although it may be new.
    pub(crate) fn read(file: &Path) -> Self {
        Self::of(files(file))
    }

    /// Reads the known files but `file`.
    pub(crate) fn read_others(file: &Path) -> Self {
        let file = paths::absolute_path(file);
        Self::of(files(&file).into_iter().filter(|other| *other != file))
    }

    fn of(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut known = Self::default();
        for file in files {
            match std::fs::read_to_string(file) {
                Ok(text) => known.texts.push(text),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => known.is_incomplete = true,
            }
        }
        known
    }

    /// Returns true if a file may refer to a stored secret.
    pub(crate) fn names_secret(&self, name: &str) -> bool {
        self.contains(&format!("secret:{name}"))
    }

    /// Returns true if a file may name something in the folder of a version. Only the end of its path is compared, because
    /// the home folder may be written in several ways.
    pub(crate) fn names_folder(&self, folder: &Path) -> bool {
        let names: Vec<_> = folder.iter().rev().take(2).map(|name| name.to_string_lossy()).collect();
        let [version, server] = names.as_slice() else { return true };
        ["/", "\\", "\\\\"].into_iter().any(|sign| self.contains(&format!("{server}{sign}{version}")))
    }

    fn contains(&self, text: &str) -> bool {
        self.is_incomplete || self.texts.iter().any(|known| known.contains(text))
    }
}

fn files(file: &Path) -> BTreeSet<PathBuf> {
    let of_records = ServerRecord::all().into_iter().filter_map(|record| record.config);
    let others = of_records.chain(paths::new_config_path());
    std::iter::once(file.to_owned()).chain(others).map(|file| paths::absolute_path(&file)).collect()
}

/// Returns true if a folder of a version is that of a record, or a known configuration file names it.
pub(crate) fn is_folder_used(folder: &Path, file: &Path) -> bool {
    let is_recorded = ServerRecord::all().iter().any(|record| record.folders().any(|known| known == folder));
    is_recorded || KnownConfigs::read(file).names_folder(folder)
}
