//! A file of the user that the console changes when a person saves something.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use hospes_host::pins::Sha256Digest;

/// Replaces a file that says `before` by one that says `after`, or returns why it cannot: path, `before`, `after`.
pub type FileReplacer = Arc<dyn Fn(&Path, &str, &str) -> Result<(), String> + Send + Sync>;

/// A file that need not exist yet.
#[derive(Clone)]
pub(crate) struct EditedFile {
    pub(crate) path: PathBuf,
    replacer: FileReplacer,
    /// Maximum size, in bytes.
    limit: u64,
}

impl EditedFile {
    pub(crate) fn new(path: PathBuf, replacer: FileReplacer, limit: u64) -> Self {
        Self { path, replacer, limit }
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
        file.take(self.limit + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > self.limit {
            return Err(format!("{} is larger than {} bytes", self.path.display(), self.limit));
        }
        Ok(text)
    }

    /// Returns the SHA-256 digest of a text of the file.
    pub(crate) fn digest(text: &str) -> Sha256Digest {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
        Sha256Digest::new(bytes)
    }

    /// Replaces the file, unless it has changed since it was read.
    pub(crate) fn replace(&self, before: &str, after: &str) -> Result<(), String> {
        (self.replacer)(&self.path, before, after)
    }
}

impl fmt::Debug for EditedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EditedFile").field(&self.path).finish()
    }
}
