//! Configuration files that may use the same secrets and folders: the default one, and those to which servers were added.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::paths;
use crate::server_record::{MAX_RECORDS, ServerRecord};

/// Texts of the known configuration files, and the folders of the records.
#[derive(Debug, Default)]
pub(crate) struct KnownConfigs {
    texts: Vec<String>,
    folders: BTreeSet<PathBuf>,
    /// A file exists and could not be read, or there are too many records: they may use everything.
    is_incomplete: bool,
}

impl KnownConfigs {
    /// Reads all known files.
    pub(crate) fn read_all() -> Self {
        Self::read_if(None, |_| true)
    }

    /// Reads the known files. `file` is read, too, although it may be new.
    pub(crate) fn read(file: &Path) -> Self {
        Self::read_if(Some(file), |_| true)
    }

    /// Reads the known files but `file`.
    pub(crate) fn read_others(file: &Path) -> Self {
        let file = paths::absolute_path(file);
        Self::read_if(None, |other| *other != file)
    }

    fn read_if(named: Option<&Path>, is_meant: impl Fn(&PathBuf) -> bool) -> Self {
        let records = ServerRecord::all();
        let mut known = Self {
            folders: records.iter().flat_map(ServerRecord::folders).map(Path::to_owned).collect(),
            is_incomplete: records.len() >= MAX_RECORDS,
            ..Self::default()
        };
        let of_records = records.into_iter().filter_map(|record| record.config);
        let files = of_records.chain(paths::new_config_path()).chain(named.map(Path::to_owned));
        let files: BTreeSet<PathBuf> = files.map(|file| paths::absolute_path(&file)).collect();
        for file in files.into_iter().filter(is_meant) {
            match std::fs::read_to_string(file) {
                Ok(text) => known.texts.push(text),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => known.is_incomplete = true,
            }
        }
        known
    }

    /// Returns true if all could be read.
    pub(crate) fn is_complete(&self) -> bool {
        !self.is_incomplete
    }

    /// Returns true if a file may refer to a stored secret.
    pub(crate) fn names_secret(&self, name: &str) -> bool {
        self.contains(&format!("secret:{name}"))
    }

    /// Returns true if a folder of a version is that of a record, or a file may name something in it. Only the end of its
    /// path is compared, because the home folder may be written in several ways.
    pub(crate) fn uses_folder(&self, folder: &Path) -> bool {
        let names: Vec<_> = folder.iter().rev().take(2).map(|name| name.to_string_lossy()).collect();
        let [version, server] = names.as_slice() else { return true };
        self.folders.contains(folder)
            || ["/", "\\", "\\\\"].into_iter().any(|sign| self.contains(&format!("{server}{sign}{version}")))
    }

    fn contains(&self, text: &str) -> bool {
        self.is_incomplete || self.texts.iter().any(|known| known.contains(text))
    }
}
