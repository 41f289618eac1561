//! Hospes' own configuration file, which the console changes when a person saves a profile.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use hospes_host::config::MAX_FILE;

use crate::environment::FileReplacer;

/// Hospes' own configuration file.
#[derive(Clone)]
pub struct ConfigFile {
    path: PathBuf,
    replacer: FileReplacer,
}

impl ConfigFile {
    /// Creates the file at this path, which need not exist yet. `replacer` writes it.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, replacer: FileReplacer) -> Self {
        Self { path: path.into(), replacer }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file; an absent one is an empty text.
    pub(crate) fn read(&self) -> Result<String, String> {
        let failed = |error: io::Error| format!("cannot read {}: {error}", self.path.display());
        let file = match fs::File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut text = String::new();
        file.take(MAX_FILE as u64 + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() > MAX_FILE {
            return Err(format!("{} is larger than {MAX_FILE} bytes", self.path.display()));
        }
        Ok(text)
    }

    /// Replaces the file, unless it has changed since it was read.
    pub(crate) fn replace(&self, before: &str, after: &str) -> Result<(), String> {
        (self.replacer)(&self.path, before, after)
    }
}

impl fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigFile").field("path", &self.path).finish_non_exhaustive()
    }
}
