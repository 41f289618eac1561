//! The files of a folder that are packed.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::patterns::PackPatterns;
use super::{HEAD_BYTES, PackError, read_bounded, secret_sign};
use crate::BundleError;
use crate::archive::{MAX_FILES, MAX_UNPACKED_BYTES, check_name, fold_name};

/// Files to pack, sorted by name.
#[derive(Debug)]
pub(crate) struct CollectedFiles {
    pub(crate) files: Vec<CollectedFile>,
    pub(crate) left_out: usize,
    /// Files that look like secrets, with the reason.
    pub(crate) secrets: Vec<(String, &'static str)>,
}

/// File to pack.
#[derive(Debug)]
pub(crate) struct CollectedFile {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    /// Permissions of Unix.
    pub(crate) mode: u32,
}

impl CollectedFiles {
    pub(crate) fn find(&self, name: &str) -> Option<&CollectedFile> {
        let found = self.files.binary_search_by(|file| file.name.as_str().cmp(name));
        found.ok().and_then(|index| self.files.get(index))
    }
}

/// Collects the files of a folder.
pub(crate) fn collect(folder: &Path) -> Result<CollectedFiles, PackError> {
    let root = fs::canonicalize(folder).map_err(PackError::io(format!("read {}", folder.display())))?;
    let patterns = PackPatterns::of(&root)?;
    let files = CollectedFiles { files: Vec::new(), left_out: 0, secrets: Vec::new() };
    let mut walk = Walk { patterns, files, size: 0, open: Vec::new(), root: root.clone() };
    walk.folder(&root, "")?;
    let mut files = walk.files;
    files.files.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    files.secrets.sort_unstable();
    check_same_names(&files.files)?;
    Ok(files)
}

struct Walk {
    root: PathBuf,
    patterns: PackPatterns,
    files: CollectedFiles,
    size: u64,
    /// Folders that the walk is in, without links.
    open: Vec<PathBuf>,
}

impl Walk {
    fn folder(&mut self, folder: &Path, prefix: &str) -> Result<(), PackError> {
        let action = || format!("read {}", folder.display());
        self.open.push(folder.to_owned());
        let mut entries: Vec<_> =
            fs::read_dir(folder).and_then(Iterator::collect).map_err(PackError::io(action()))?;
        entries.sort_unstable_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let lossy = || format!("{prefix}{}", entry.file_name().to_string_lossy());
            let part = entry
                .file_name()
                .into_string()
                .map_err(|_| PackError::Name { name: lossy(), why: crate::archive::NameProblem::NotUtf8 })?;
            self.entry(&entry.path(), format!("{prefix}{part}"))?;
        }
        self.open.pop();
        Ok(())
    }

    fn entry(&mut self, path: &Path, name: String) -> Result<(), PackError> {
        let failed = |why: String| PackError::File { name: name.clone(), why };
        let link = fs::symlink_metadata(path).map_err(PackError::io(format!("read {}", path.display())))?;
        // What is left out is not looked at: it may be a broken link, or a pipe.
        let about = if link.is_symlink() { fs::metadata(path) } else { Ok(link.clone()) };
        let is_folder = about.as_ref().is_ok_and(fs::Metadata::is_dir);
        if self.patterns.leaves_out(&name, is_folder) {
            self.files.left_out += 1;
            return Ok(());
        }
        let about = about.map_err(|error| failed(format!("it is a link to nothing: {error}")))?;
        let mut target = path.to_owned();
        if link.is_symlink() {
            target = fs::canonicalize(path)
                .map_err(|error| failed(format!("the link cannot be followed: {error}")))?;
            if !target.starts_with(&self.root) {
                return Err(failed(format!(
                    "it is a link to {}, out of the folder; copy the file, or leave it out in .mcpbignore",
                    target.display()
                )));
            }
        }
        check_name(name.as_bytes()).map_err(|why| PackError::Name { name: name.clone(), why })?;
        if is_folder {
            if self.open.contains(&target) {
                return Err(failed("it is a link to a folder that it is in".to_owned()));
            }
            return self.folder(&target, &format!("{name}/"));
        }
        if !about.is_file() {
            return Err(failed("it is neither a file nor a folder".to_owned()));
        }
        self.file(&target, name, &about)
    }

    fn file(&mut self, path: &Path, name: String, about: &fs::Metadata) -> Result<(), PackError> {
        self.size = self.size.saturating_add(about.len());
        if self.size > MAX_UNPACKED_BYTES {
            return Err(BundleError::TooMuch.into());
        }
        let count = self.files.files.len() as u64 + 1;
        if count > MAX_FILES {
            return Err(BundleError::TooManyFiles { count }.into());
        }
        let head =
            read_bounded(path, HEAD_BYTES).map_err(PackError::io(format!("read {}", path.display())))?;
        // The name behind a link counts, too.
        let own_name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(why) = secret_sign(&name, &head).or_else(|| secret_sign(own_name, &[])) {
            self.files.secrets.push((name.clone(), why));
        }
        let file = CollectedFile { name, path: path.to_owned(), size: about.len(), mode: mode(about) };
        self.files.files.push(file);
        Ok(())
    }
}

#[cfg(unix)]
fn mode(about: &fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o777
}

#[cfg(not(unix))]
fn mode(_about: &fs::Metadata) -> u32 {
    0o644
}

fn check_same_names(files: &[CollectedFile]) -> Result<(), PackError> {
    let mut names: HashMap<String, &str> = HashMap::with_capacity(files.len());
    for file in files {
        if let Some(other) = names.insert(fold_name(&file.name), &file.name) {
            let why = format!("it is the same file as {other:?} where capitals do not count");
            return Err(PackError::File { name: file.name.clone(), why });
        }
    }
    Ok(())
}
