//! The file on this machine that a call would replace, for the comparison on its card.
//!
//! The path comes from an application, so it is followed only below the folders that the server can reach, never through
//! a link that leads out of them, and only to regular files of limited size.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use hospes_host::server::ServerFolders;
use serde::Serialize;

use crate::platform;

/// Maximum size of a file that is shown, in bytes.
const MAX_FILE: u64 = 256 << 10;

/// The file, or the reason that it is not shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum FileOnDisk {
    /// A text file, with its real path.
    Text { path: String, text: String },
    /// There is no such file in the folders of the server.
    Absent { path: String },
    /// A file that is not shown.
    Unreadable { reason: String },
}

impl FileOnDisk {
    pub(crate) fn unreadable(reason: impl Into<String>) -> Self {
        Self::Unreadable { reason: reason.into() }
    }
}

/// Reads files of one server.
#[derive(Debug)]
pub(crate) struct FileReader {
    folders: ServerFolders,
    /// Folders of the host itself, which are never shown.
    private: Vec<PathBuf>,
}

impl FileReader {
    pub(crate) fn new(folders: ServerFolders, private: Vec<PathBuf>) -> Self {
        Self { folders, private }
    }

    /// Reads the file at this path of a call. Blocks.
    pub(crate) fn read(&self, path: &str) -> FileOnDisk {
        if self.folders.reachable.is_empty() {
            return FileOnDisk::unreadable("the folders of this server are not known");
        }
        if path.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:")) {
            return FileOnDisk::unreadable("its path is a URI");
        }
        let given = Path::new(path);
        if given.components().any(|part| part == Component::ParentDir) {
            return FileOnDisk::unreadable("its path has a part `..`");
        }
        let path = match (given.is_absolute(), &self.folders.base) {
            (true, _) => given.to_owned(),
            (false, Some(base)) => base.join(given),
            (false, None) => {
                return FileOnDisk::unreadable(
                    "its path is relative, and where the server looks for it is not known",
                );
            }
        };
        let mut absent = None;
        for folder in &self.folders.reachable {
            // A path that leads nowhere is the common case: the file is new.
            let Ok(folder) = fs::canonicalize(folder) else { continue };
            let Some(below) = self.below(&folder, &path) else { continue };
            let whole = folder.join(&below);
            if self.is_private(&whole) {
                return FileOnDisk::unreadable("it is in a folder that is never shown");
            }
            match platform::open_below(&folder, &below).and_then(|file| self.read_opened(file, &whole)) {
                Ok(found) => return found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    absent.get_or_insert_with(|| whole.display().to_string());
                }
                Err(error) => return FileOnDisk::unreadable(describe(&error)),
            }
        }
        match absent {
            Some(path) => FileOnDisk::Absent { path },
            None => FileOnDisk::unreadable("it is outside the known folders of this server"),
        }
    }

    /// Returns an absolute path relative to a folder, or `None` if it is not below it.
    fn below(&self, folder: &Path, path: &Path) -> Option<PathBuf> {
        let below = |folder: &Path| path.strip_prefix(folder).ok().map(Path::to_owned);
        // The folder may be named by a link, in the configuration and by the application.
        below(folder).or_else(|| {
            let mut known = self.folders.reachable.iter();
            known
                .find(|known| fs::canonicalize(known).is_ok_and(|real| real == folder))
                .and_then(|one| below(one))
        })
    }

    fn is_private(&self, path: &Path) -> bool {
        let real = fs::canonicalize(path);
        let is_under = |folder: &PathBuf| {
            let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
            path.starts_with(&folder) || real.as_ref().is_ok_and(|real| real.starts_with(&folder))
        };
        self.folders.except.iter().chain(&self.private).any(is_under)
    }

    fn read_opened(&self, file: File, path: &Path) -> io::Result<FileOnDisk> {
        let about = file.metadata()?;
        if !about.is_file() {
            return Ok(FileOnDisk::unreadable("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE {
            return Ok(FileOnDisk::unreadable(format!("it is larger than {} KiB", MAX_FILE >> 10)));
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => {
                let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
                FileOnDisk::Text { path: path.display().to_string(), text }
            }
            _ => FileOnDisk::unreadable("it is not a text"),
        })
    }
}

fn describe(error: &io::Error) -> String {
    match platform::leads_out(error) {
        true => "a link leads out of the folders of this server".to_owned(),
        false => error.to_string(),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::Mode;

    use super::*;

    struct Disk {
        folder: tempfile::TempDir,
        reader: FileReader,
    }

    fn disk() -> Disk {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["open", "open/keys", "open/own", "closed"] {
            fs::create_dir(at(name)).unwrap();
        }
        for name in ["open/notes.md", "open/keys/key", "open/own/state.db", "closed/secret"] {
            fs::write(at(name), format!("the text of {name}")).unwrap();
        }
        let mut folders = ServerFolders::default();
        folders.reachable = vec![at("open")];
        folders.except = vec![at("open/keys")];
        let reader = FileReader::new(folders, vec![at("open/own")]);
        Disk { folder, reader }
    }

    impl Disk {
        fn read(&self, name: &str) -> FileOnDisk {
            self.reader.read(self.folder.path().join(name).to_str().unwrap())
        }

        fn reason(&self, name: &str) -> String {
            match self.read(name) {
                FileOnDisk::Unreadable { reason } => reason,
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_file_in_a_folder_of_the_server_is_read_by_any_of_its_names() {
        let disk = disk();
        let real = |name: &str| disk.folder.path().canonicalize().unwrap().join(name).display().to_string();
        let text = FileOnDisk::Text { path: real("open/notes.md"), text: "the text of open/notes.md".into() };
        assert_eq!(disk.read("open/notes.md"), text);
        symlink("notes.md", disk.folder.path().join("open/link.md")).unwrap();
        assert_eq!(disk.read("open/link.md"), text, "a link within the folder");
        assert_eq!(disk.read("open/new.md"), FileOnDisk::Absent { path: real("open/new.md") });
        let uri = format!("file://{}", real("open/notes.md"));
        assert!(matches!(disk.reader.read(&uri), FileOnDisk::Unreadable { .. }));
    }

    /// A file of the same name in another folder is not the one that is written.
    #[test]
    fn a_relative_path_is_followed_only_where_the_server_follows_it() {
        let Disk { folder, mut reader } = disk();
        let folder = folder.path().canonicalize().unwrap();
        let at = |name: &str| folder.join(name);
        reader.folders.reachable = vec![at("open"), at("closed")];
        fs::write(at("closed/notes.md"), "the file that is written").unwrap();
        for path in ["notes.md", "./notes.md", "new/folder/x.md"] {
            let FileOnDisk::Unreadable { reason } = reader.read(path) else { panic!("{path} was compared") };
            assert!(reason.contains("relative"), "{reason}");
        }
        reader.folders.base = Some(at("closed"));
        let path = at("closed/notes.md").display().to_string();
        let text = "the file that is written".to_owned();
        assert_eq!(reader.read("notes.md"), FileOnDisk::Text { path, text });
        let path = at("closed/new/x.md").display().to_string();
        assert_eq!(reader.read("new/x.md"), FileOnDisk::Absent { path });
    }

    #[test]
    fn nothing_outside_the_folders_is_read() {
        let disk = disk();
        assert!(disk.reason("closed/secret").contains("outside"));
        assert!(disk.reason("open/../closed/secret").contains(".."));
        symlink("../closed/secret", disk.folder.path().join("open/out")).unwrap();
        symlink(disk.folder.path().join("closed"), disk.folder.path().join("open/way")).unwrap();
        for name in ["open/out", "open/way/secret"] {
            assert!(disk.reason(name).contains("link"), "{name}");
        }
        for name in ["open/keys/key", "open/own/state.db"] {
            assert!(disk.reason(name).contains("never shown"), "{name}");
        }
        symlink("keys", disk.folder.path().join("open/renamed")).unwrap();
        assert!(disk.reason("open/renamed/key").contains("never shown"));
        let nothing = FileReader::new(ServerFolders::default(), Vec::new());
        assert!(matches!(nothing.read("/etc/hosts"), FileOnDisk::Unreadable { .. }));
    }

    #[test]
    fn special_large_and_binary_files_are_not_read() {
        let disk = disk();
        let at = |name: &str| disk.folder.path().join("open").join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        fs::write(at("large"), vec![b'x'; usize::try_from(MAX_FILE).unwrap() + 1]).unwrap();
        fs::write(at("binary"), [0xff, 0xfe]).unwrap();
        fs::write(at("nul"), "a\0b").unwrap();
        for (name, why) in [
            ("open/pipe", "regular"),
            ("open/keys/..", ".."),
            ("open", "regular"),
            ("open/large", "256 KiB"),
            ("open/binary", "text"),
            ("open/nul", "text"),
        ] {
            let reason = disk.reason(name);
            assert!(reason.contains(why), "{name}: {reason}");
        }
    }
}
