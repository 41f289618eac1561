//! Digest of all files of a folder, so that a file that was added, changed or removed later is noticed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// Maximum number of files and folders of a folder.
const MAX_ENTRIES: usize = 500_000;

/// Digests of the files of a folder, by their paths below it. Empty folders do not count.
#[derive(Debug, Default)]
pub(crate) struct FolderContents(BTreeMap<Vec<u8>, [u8; 32]>);

/// Kinds of what is in a folder. A link is never followed, and of all others only files are read.
#[derive(Clone, Copy)]
enum EntryKind {
    File,
    Link,
    Other,
}

impl FolderContents {
    /// Reads a folder. A file at the top of this name is left out.
    ///
    /// # Errors
    /// If the folder cannot be read, or has more than 500 000 files and folders.
    pub(crate) fn read(folder: &Path, left_out: Option<&str>) -> io::Result<Self> {
        let mut contents = Self::default();
        let mut folders = vec![(folder.to_owned(), Vec::new())];
        let mut count = 0_usize;
        while let Some((folder, path)) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                count += 1;
                if count > MAX_ENTRIES {
                    return Err(io::Error::other("more than 500000 files and folders"));
                }
                let name = entry.file_name();
                if path.is_empty() && left_out.is_some_and(|left_out| name == left_out) {
                    continue;
                }
                let mut path: Vec<u8> = path.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend(name.as_encoded_bytes());
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    folders.push((entry.path(), path));
                } else if kind.is_file() {
                    contents.add(path, EntryKind::File, &mut fs::File::open(entry.path())?)?;
                } else if kind.is_symlink() {
                    let target = fs::read_link(entry.path())?;
                    contents.add(path, EntryKind::Link, &mut target.as_os_str().as_encoded_bytes())?;
                } else {
                    contents.add(path, EntryKind::Other, &mut io::empty())?;
                }
            }
        }
        Ok(contents)
    }

    /// Adds a file. `path` has `/` between its parts.
    pub(crate) fn add_file(&mut self, path: &str, mut content: &[u8]) {
        // Reading from memory cannot fail.
        let _read = self.add(path.as_bytes().to_vec(), EntryKind::File, &mut content);
    }

    fn add(&mut self, path: Vec<u8>, kind: EntryKind, content: &mut impl io::Read) -> io::Result<()> {
        let mut hasher = Sha256::new();
        hasher.update([kind as u8]);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match content.read(&mut buffer)? {
                0 => break,
                count => hasher.update(&buffer[..count]),
            }
        }
        self.0.insert(path, hasher.finalize().into());
        Ok(())
    }

    /// Returns the digest, as `sha256:HEX`.
    pub(crate) fn digest(&self) -> String {
        let mut all = Sha256::new();
        for (path, content) in &self.0 {
            // The length tells the path from what follows.
            all.update((path.len() as u64).to_be_bytes());
            all.update(path);
            all.update(content);
        }
        let digest = all.finalize();
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn every_file_that_is_added_changed_moved_or_removed_changes_the_digest() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("server.js"), "one").unwrap();
        fs::write(at("a/b/index.js"), "two").unwrap();
        fs::write(at("record.json"), "x").unwrap();
        let digest = || FolderContents::read(folder.path(), Some("record.json")).unwrap().digest();
        let first = digest();
        let mut packed = FolderContents::default();
        packed.add_file("server.js", b"one");
        packed.add_file("a/b/index.js", b"two");
        assert_eq!(packed.digest(), first, "the same as of an archive");
        fs::write(at("record.json"), "y").unwrap();
        fs::create_dir(at("empty")).unwrap();
        assert_eq!(digest(), first);

        fs::write(at("a/record.json"), "y").unwrap();
        assert_ne!(digest(), first, "only the one at the top is left out");
        fs::remove_file(at("a/record.json")).unwrap();
        fs::write(at("server.js"), "eno").unwrap();
        assert_ne!(digest(), first);
        fs::write(at("server.js"), "one").unwrap();
        fs::rename(at("a/b/index.js"), at("a/index.js")).unwrap();
        assert_ne!(digest(), first);
        fs::rename(at("a/index.js"), at("a/b/index.js")).unwrap();
        assert_eq!(digest(), first);
        fs::remove_file(at("server.js")).unwrap();
        assert_ne!(digest(), first);
    }

    /// A link to the same content could lead elsewhere later, and a pipe would block its reader.
    #[cfg(unix)]
    #[test]
    fn links_are_told_from_files_and_pipes_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "/elsewhere").unwrap();
        let first = FolderContents::read(folder.path(), None).unwrap().digest();
        fs::remove_file(at("file")).unwrap();
        std::os::unix::fs::symlink("/elsewhere", at("file")).unwrap();
        let link = FolderContents::read(folder.path(), None).unwrap().digest();
        assert_ne!(link, first);
        fs::remove_file(at("file")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(at("file")).status().unwrap();
        assert!(made.success());
        assert_ne!(FolderContents::read(folder.path(), None).unwrap().digest(), link);
    }
}
