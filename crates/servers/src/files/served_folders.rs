//! The served folders, and the resolution of a client's path to a file in one of them.
//!
//! A path is first normalized without reading the disk (including `..`), and must then lie in a served folder. It is
//! then resolved, and must still lie in one. So links are followed as long as they stay inside. Nothing about the
//! outside is revealed, not even whether a file exists. The final open starts at the folder's own handle and
//! follows no links, so no component can be replaced in between.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use hospes::{Error, Result};

use super::closed_folders::ClosedFolders;
use super::entry_location::EntryLocation;
use super::folder::EntryKind;
use crate::platform::{self, EntryStat, FolderHandle, readable};

/// Reasons files cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// No folder is given.
    #[error("no folder to serve files from")]
    NoFolder,
    /// A folder is closed, or is inside a closed one.
    #[error("{} is not served: its contents are closed to this server", folder.display())]
    Closed {
        /// The folder as given.
        folder: PathBuf,
    },
    /// A folder cannot be opened.
    #[error("cannot serve files from {}", folder.display())]
    Open {
        /// The folder as given.
        folder: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
}

/// All served folders.
pub(super) struct ServedFolders {
    all: Vec<ServedFolder>,
    closed: ClosedFolders,
}

/// A served folder.
struct ServedFolder {
    /// Path of the folder, with links resolved.
    path: PathBuf,
    /// Path as given, made absolute. Peers may use either path.
    given: PathBuf,
    handle: FolderHandle,
    closed: ClosedFolders,
}

impl ServedFolder {
    fn open(folder: &Path, closed: &ClosedFolders) -> Result<Self, FilesError> {
        let failed = |source| FilesError::Open { folder: folder.to_owned(), source };
        let path = folder.canonicalize().map_err(failed)?;
        let given = normalize_path(&std::path::absolute(folder).map_err(failed)?);
        if closed.covers(&path) {
            return Err(FilesError::Closed { folder: folder.to_owned() });
        }
        let handle = FolderHandle::open(&path).map_err(failed)?;
        Ok(Self { path, given, handle, closed: closed.clone() })
    }
}

/// An existing file or folder in a served folder.
#[derive(Clone)]
pub(super) struct ServedPath<'r> {
    root: &'r ServedFolder,
    /// Path relative to the served folder, without links; `.` for the folder itself.
    inside: PathBuf,
}

impl ServedFolders {
    pub(super) fn open(folders: &[PathBuf], closed: ClosedFolders) -> Result<Self, FilesError> {
        if folders.is_empty() {
            return Err(FilesError::NoFolder);
        }
        let all =
            folders.iter().map(|folder| ServedFolder::open(folder, &closed)).collect::<Result<_, _>>()?;
        Ok(Self { all, closed })
    }

    pub(super) fn none(closed: ClosedFolders) -> Self {
        Self { all: Vec::new(), closed }
    }

    /// Opens those of a client's roots that can be opened. Only they are served.
    pub(super) fn of_client(&self, uris: &[String]) -> Result<Self> {
        let mut roots: Vec<ServedFolder> = Vec::new();
        for path in uris.iter().filter_map(|uri| root_path(uri)) {
            let Ok(root) = ServedFolder::open(&path, &self.closed) else { continue };
            if !roots.iter().any(|known| known.path == root.path) {
                roots.push(root);
            }
        }
        if roots.is_empty() {
            return Err(Error::msg("none of the client's roots can be opened as a folder"));
        }
        Ok(Self { all: roots, closed: self.closed.clone() })
    }

    /// Returns the part of the folders that a client's roots cover, given as `file:` URIs. Roots that do not exist, or
    /// are no folders, cover nothing; they may exist in the next call.
    pub(super) fn within(&self, uris: &[String]) -> Result<Self> {
        let mut within: Vec<ServedFolder> = Vec::new();
        for uri in uris {
            let Some(covered) = root_path(uri) else { continue };
            let Ok(path) = covered.canonicalize() else { continue };
            for root in &self.all {
                let closed = self.closed.clone();
                let found = if root.path.starts_with(&path) {
                    let handle = root.handle.try_clone()?;
                    ServedFolder { path: root.path.clone(), given: root.given.clone(), handle, closed }
                } else if let Ok(inside) = path.strip_prefix(&root.path) {
                    // Relative to the served folder's own handle, so that no component can be replaced in between.
                    let Ok(handle) = ServedPath::at(root, inside.to_owned()).open_folder() else {
                        continue;
                    };
                    ServedFolder { path: path.clone(), given: normalize_path(&covered), handle, closed }
                } else {
                    continue;
                };
                if !within.iter().any(|known| known.path == found.path) {
                    within.push(found);
                }
            }
        }
        if within.is_empty() {
            let served = self.shown().join(", ");
            return Err(Error::msg(format!(
                "none of the client's roots is readable and in a served folder: {served}"
            )));
        }
        Ok(Self { all: within, closed: self.closed.clone() })
    }

    /// Returns the number of folders.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns the paths of the folders.
    pub(super) fn shown(&self) -> Vec<String> {
        self.all.iter().map(|root| readable(&root.path).display().to_string()).collect()
    }

    /// Returns all folders.
    pub(super) fn all(&self) -> Vec<ServedPath<'_>> {
        self.all.iter().map(ServedPath::of).collect()
    }

    /// Returns the only folder. Fails if there are several.
    pub(super) fn only(&self) -> Result<ServedPath<'_>> {
        match self.all.as_slice() {
            [root] => Ok(ServedPath::of(root)),
            _ => {
                let served = self.shown().join(", ");
                Err(Error::msg(format!("specify the folder; these are served: {served}")))
            }
        }
    }

    /// Resolves a path or a `file:` URI.
    pub(super) fn find(&self, text: &str) -> Result<ServedPath<'_>> {
        self.find_path(&parse_path(text)?, text)
    }

    /// Resolves `path`, which was given as `text`.
    pub(super) fn find_path(&self, path: &Path, text: &str) -> Result<ServedPath<'_>> {
        if path.is_absolute() {
            let path = normalize_path(path);
            let mut missing = None;
            for root in &self.all {
                // The longer name first, because one folder may be inside another.
                for name in [&root.path, &root.given] {
                    if let Some(inside) = platform::relative_to(&path, name) {
                        match self.resolve(root, &inside, text) {
                            Err(why) => missing = missing.or(Some(why)),
                            found => return found,
                        }
                    }
                }
            }
            return Err(missing.unwrap_or_else(|| self.outside(text)));
        }
        let Some(inside) = normalize_relative(path) else { return Err(self.outside(text)) };
        let mut missing = None;
        for root in &self.all {
            match self.resolve(root, &inside, text) {
                Err(why) => missing = missing.or(Some(why)),
                found => return found,
            }
        }
        Err(missing.unwrap_or_else(|| self.outside(text)))
    }

    fn resolve<'r>(&'r self, root: &'r ServedFolder, inside: &Path, text: &str) -> Result<ServedPath<'r>> {
        let path = root.path.join(inside);
        let real = path.canonicalize().map_err(|why| {
            if !platform::is_link_error(&why) && self.escapes_folders(&path) {
                return self.outside(text);
            }
            let why = match why.kind() {
                io::ErrorKind::NotFound => "no such file or folder".to_owned(),
                io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
                io::ErrorKind::NotADirectory => "a part of it is a file, not a folder".to_owned(),
                _ => why.to_string(),
            };
            Error::msg(format!("{text:?} cannot be found: {why}"))
        })?;
        // A link may lead from one served folder to another, so all of them are compared.
        let found = self.all.iter().find_map(|root| Some((root, real.strip_prefix(&root.path).ok()?)));
        match found {
            Some((root, inside)) => Ok(ServedPath::at(root, inside.to_owned())),
            None => Err(self.outside(text)),
        }
    }

    /// Returns true if an unresolvable path leaves the served folders on its way. The error then must not reveal
    /// whether the target exists.
    fn escapes_folders(&self, path: &Path) -> bool {
        let Some((there, meta)) =
            path.ancestors().find_map(|part| Some((part, part.symlink_metadata().ok()?)))
        else {
            return true;
        };
        // A link that cannot be followed may point anywhere.
        let is_inside = |real: PathBuf| self.all.iter().any(|root| real.starts_with(&root.path));
        meta.is_symlink() || !there.canonicalize().is_ok_and(is_inside)
    }

    pub(super) fn outside(&self, text: &str) -> Error {
        let served = self.shown().join(", ");
        Error::msg(format!("{text:?} is outside the served folders: {served}"))
    }
}

impl<'r> ServedPath<'r> {
    fn of(root: &'r ServedFolder) -> Self {
        Self::at(root, PathBuf::new())
    }

    fn at(root: &'r ServedFolder, inside: PathBuf) -> Self {
        let inside = if inside.as_os_str().is_empty() { PathBuf::from(".") } else { inside };
        Self { root, inside }
    }

    /// Returns the path of the entry with this name in the folder.
    pub(super) fn child(&self, name: &OsStr) -> Self {
        let inside = if self.inside == Path::new(".") { PathBuf::from(name) } else { self.inside.join(name) };
        Self::at(self.root, inside)
    }

    pub(super) fn child_path(&self, inside: &Path) -> PathBuf {
        self.path().join(inside)
    }

    /// Returns the absolute path.
    pub(super) fn path(&self) -> PathBuf {
        if self.inside == Path::new(".") { self.root.path.clone() } else { self.root.path.join(&self.inside) }
    }

    pub(super) fn shown(&self) -> String {
        readable(&self.path()).display().to_string()
    }

    /// Returns the `file:` URI.
    pub(super) fn uri(&self) -> String {
        use std::fmt::Write as _;
        let mut uri = "file://".to_owned();
        // By bytes, because a path need not be UTF-8.
        for byte in platform::uri_path(&self.path()) {
            // Characters allowed in a path by RFC 3986, section 3.3, and the slash.
            if byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte) {
                uri.push(char::from(byte));
            } else {
                // Writing to a string cannot fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
        uri
    }

    /// Returns the media type, guessed from the name.
    pub(super) fn media_type(&self) -> Option<&'static str> {
        mime_guess::from_path(&self.inside).first_raw()
    }

    pub(super) fn stat(&self) -> Result<EntryStat> {
        // Through its folder's handle, so that no link is followed even if the path has been changed in the
        // meantime.
        let stat = match self.spot() {
            None => self.root.handle.stat(),
            Some(spot) => spot?.stat(),
        };
        stat.map_err(|why| self.failed("inspect", &why))
    }

    /// Returns its folder and its name there. `None` for a served folder itself.
    pub(super) fn spot(&self) -> Option<Result<EntryLocation<'r>>> {
        let name = self.inside.file_name()?.to_owned();
        let folder = Self::at(self.root, self.inside.parent().unwrap_or_else(|| Path::new("")).to_owned());
        Some(EntryLocation::new(folder, name))
    }

    /// Opens the folder for reading its entries.
    pub(super) fn open_folder(&self) -> Result<FolderHandle> {
        let opened = self.open(FolderHandle::open_folder_beneath, FolderHandle::open_folder);
        opened.and_then(|folder| self.root.closed.admit(folder)).map_err(|why| match why.kind() {
            io::ErrorKind::NotADirectory => Error::msg(format!("{} is a file, not a folder", self.shown())),
            _ => self.failed("open", &why),
        })
    }

    /// Opens the file and returns its length in bytes.
    pub(super) fn open_file(&self) -> Result<(File, u64)> {
        let is_folder = || Error::msg(format!("{} is a folder; list it instead", self.shown()));
        let opened = self.open(FolderHandle::open_file_beneath, FolderHandle::open_file);
        let opened = opened.map_err(|why| match self.stat() {
            // Some systems do not open a folder as if it were a file.
            Ok(stat) if stat.kind() == EntryKind::Folder => is_folder(),
            _ => self.failed("open", &why),
        })?;
        let stat = EntryStat::of_file(&opened).map_err(|why| self.failed("inspect", &why))?;
        match stat.kind() {
            EntryKind::File => Ok((opened, stat.size())),
            EntryKind::Folder => Err(is_folder()),
            _ => Err(Error::msg(format!("{} is not a regular file", self.shown()))),
        }
    }

    /// Returns the closed folders.
    pub(super) fn closed(&self) -> &'r ClosedFolders {
        &self.root.closed
    }

    /// Creates an error that names the path.
    pub(super) fn failed(&self, what: &str, why: &io::Error) -> Error {
        Error::msg(format!("cannot {what} {}: {why}", self.shown()))
    }

    /// Opens the path, so that no link on the way is followed: with one call if the system has one, else step by step.
    fn open<T>(
        &self,
        at_once: impl Fn(&FolderHandle, &Path) -> Option<io::Result<T>>,
        last: impl Fn(&FolderHandle, &OsStr) -> io::Result<T>,
    ) -> io::Result<T> {
        // With closed folders, each folder on the way has to be checked.
        if self.root.closed.is_empty()
            && let Some(opened) = at_once(&self.root.handle, &self.inside)
        {
            return opened;
        }
        let mut steps = self.inside.components().peekable();
        let mut folder: Option<FolderHandle> = None;
        while let Some(step) = steps.next() {
            let from = folder.as_ref().unwrap_or(&self.root.handle);
            if steps.peek().is_none() {
                return last(from, step.as_os_str());
            }
            folder = Some(self.root.closed.admit(from.open_folder(step.as_os_str())?)?);
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

impl fmt::Debug for ServedPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().fmt(f)
    }
}

/// Returns the path of a client's root, if it is a `file:` URI.
fn root_path(uri: &str) -> Option<PathBuf> {
    uri.strip_prefix("file:").and_then(|rest| path_of(rest).ok())
}

/// Removes `.` and `..` from an absolute path without reading the disk.
pub(super) fn normalize_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            // The parent of the root is the root.
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain
}

/// Removes `.` and `..` from a relative path. Returns `None` if it leads out.
pub(super) fn normalize_relative(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if !plain.pop() {
                    return None;
                }
            }
            Component::Normal(name) => plain.push(name),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// Parses a path or a `file:` URI.
pub(crate) fn parse_path(text: &str) -> Result<PathBuf> {
    // `get`, because the fifth byte may be inside a character.
    let path = match text.get(..5) {
        Some(scheme) if scheme.eq_ignore_ascii_case("file:") => path_of(&text[5..])?,
        _ => PathBuf::from(text),
    };
    // Checked after decoding, because `%00` is a NUL too.
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(Error::msg("a path must not contain NUL"));
    }
    for part in path.components() {
        if let Component::Normal(name) = part
            && let Some(problem) = platform::name_problem(name)
        {
            return Err(Error::msg(format!("{text:?} is not the path of a file on this system: {problem}")));
        }
    }
    Ok(path)
}

/// Parses the path after `file:`.
fn path_of(rest: &str) -> Result<PathBuf> {
    // RFC 8089 allows `file:/path` beside `file:///path`, and `localhost` as the host.
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(rest) => {
            let path = rest.find('/').map_or("", |at| &rest[at..]);
            let host = &rest[..rest.len() - path.len()];
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return Err(Error::msg(format!("files of the host {host:?} are not served here")));
            }
            path
        }
    };
    if !path.starts_with('/') {
        return Err(Error::msg("a file: URI must have an absolute path, as in file:///home/me/notes.txt"));
    }
    if path.contains(['?', '#']) {
        return Err(Error::msg("a file: URI must not have a query or fragment; write ? as %3F and # as %23"));
    }
    let bad = || Error::msg("a % in a file: URI must be followed by two hexadecimal digits");
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16)).ok_or_else(bad);
            let value = digit()? * 16 + digit()?;
            bytes.push(u8::try_from(value).map_err(|_| bad())?);
        } else {
            bytes.push(byte);
        }
    }
    platform::path_of_uri(bytes)
        .ok_or_else(|| Error::msg("a file: URI must have an absolute path, with the drive on Windows"))
}
